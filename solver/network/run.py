"""Mapping all layers of a network, or of several."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from model.cascade import Layer, Network, Overfull
from model.cost import evaluate
from solver.network.cache import ResultCache
from solver.network.executors import Executor, Serial
from solver.network.reasons import with_reasons
from solver.network.result import LayerResult, NetworkResult, Origin
from solver.network.tasks import Plan, Task, naming_of, plan
from solver.reasons import Lever, Reason, Shortfall, Statement
from solver.result import Options, Phase, Progress, Result, Status, StopCallback, Termination


@dataclass(frozen=True)
class NetworkProgress:
    """How far a run is: searches done of all, a layer that is being searched, its search's report.

    Parameters
    ----------
    done, searches
        Numbers of searches; those whose answers were kept from before count as done.
    search
        None where the search tells nothing, as in other processes.
    """

    done: int
    searches: int
    layer: Layer
    search: Progress | None = None


ProgressCallback = Callable[[NetworkProgress], None]


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Run:
    """How the searches of networks are run; what they answer does not depend on it.

    Parameters
    ----------
    cache
        Where proven answers are kept as they are found; see `ResultCache.failure`.
    resume
        Whether answers that are kept already are used.
    on_progress
        Called before each search, and while searches run.
    should_stop
        Once it answers True, running searches end with their incumbents and no other one begins.
    executor
        Where searches run; by default one after the other in this process.
    """

    cache: ResultCache | None = None
    resume: bool = False
    on_progress: ProgressCallback | None = None
    should_stop: StopCallback = _never
    executor: Executor = field(default_factory=Serial)


def map_network(network: Network, options: Options = Options(), run: Run = Run()) -> NetworkResult:
    """Map each layer of a network to its optimum.

    Layers that are the same problem but for names are searched once. Copies need no mapping.

    Parameters
    ----------
    network
        The layers.
    options
        As for a single Einsum; the time limit is that of each search, with the reasons for it.
    run
        How to run the searches.

    Returns
    -------
    NetworkResult
        Without the layers whose search did not begin, if it was stopped. INFEASIBLE layers have their
        reasons, in their own names; identical ones share those of the first.

    Raises
    ------
    ContradictionError
        A search proved that nothing fits, but something does.
    ExecutorError
        Searches cannot run where they were to.
    """
    return explained(map_networks([network], options, run), options, run)[0]


def explained(results: Sequence[NetworkResult], options: Options, run: Run) -> tuple[NetworkResult, ...]:
    """Return the results of a run with the reasons of INFEASIBLE layers; see `with_reasons`."""
    searches = sum(own.origin in ("searched", "cached") for result in results for own in result.layers)

    def report(own: LayerResult) -> None:
        if run.on_progress is None or own.result is None:
            return
        search = Progress(Phase.EXPLANATION, own.result.statistics.seconds, own.result.objective)
        run.on_progress(NetworkProgress(searches, searches, own.layer, search))

    return with_reasons(results, run.should_stop, options.time_limit_s, report)


def map_networks(
    networks: Sequence[Network],
    options: Options = Options(),
    run: Run = Run(),
) -> tuple[NetworkResult, ...]:
    """Map each layer of several networks; those that are the same problem are searched once for all.

    Parameters are those of `map_network`. The seconds of each result are those of the whole run. INFEASIBLE
    layers have no reasons; see `explained`.

    Raises
    ------
    ExecutorError
        As of `map_network`.
    """
    start = time.monotonic()
    cache = run.cache
    work = plan(networks, options)
    kept = _kept(work, cache) if cache is not None and run.resume else {}
    known = dict(kept)
    pending = [task for key, task in work.tasks.items() if key not in kept]

    def report(task: Task, progress: Progress | None) -> None:
        if run.on_progress is not None:
            run.on_progress(NetworkProgress(len(known), len(work.tasks), task.layer, progress))

    for task, result in run.executor.run(pending, options, report, run.should_stop):
        known[task.key] = result
        if cache is not None:
            cache.keep(task.key, result)
    seconds = time.monotonic() - start
    answers = _Answers(known, frozenset(kept), options)
    return tuple(
        NetworkResult(network, tuple(answers.layers(network, keys)), seconds)
        for network, keys in zip(networks, work.keys, strict=True)
    )


def _kept(work: Plan, cache: ResultCache) -> dict[str, Result]:
    looked_up = ((key, cache.find(key, task.mapspace)) for key, task in work.tasks.items())
    return {key: result for key, result in looked_up if result is not None}


class _Answers:
    """Hands the answers on to the layers, and remembers which layer had each first."""

    def __init__(self, known: dict[str, Result], kept: frozenset[str], options: Options) -> None:
        self._known = known
        self._kept = kept
        self._options = options
        self._first: dict[str, tuple[Network, Layer]] = {}

    def layers(self, network: Network, keys: Sequence[str | None]) -> Iterator[LayerResult]:
        """Yield the results of a network's layers, as far as there are any."""
        for layer, key in zip(network.layers, keys, strict=True):
            if layer.overfull:
                yield LayerResult(layer, self._without_room(layer), "no room")
            elif key is None:
                yield LayerResult(layer, None, "copy")
            elif key in self._first:
                yield from self._identical(network, layer, key)
            elif key in self._known:
                self._first[key] = network, layer
                origin: Origin = "cached" if key in self._kept else "searched"
                yield LayerResult(layer, _named(self._known[key], layer), origin)

    def _without_room(self, layer: Layer) -> Result:
        """The answer for a layer that cannot run beside what other tensors take."""
        mapspace = layer.mapspace
        return Result(
            Status.INFEASIBLE,
            Termination.PROVEN,
            self._options.objectives or mapspace.objectives,
            mapspace.architecture.units_per_pj,
            reasons=tuple(_reason(overfull) for overfull in layer.overfull),
        )

    def _identical(self, network: Network, layer: Layer, key: str) -> Iterator[LayerResult]:
        """Yield the result of a layer that repeats an earlier one, unless an interrupt cut it short."""
        result, (other, first) = self._known[key], self._first[key]
        if result.termination is not Termination.INTERRUPTED:
            name = first.name if other is network else f"{first.name} of {other.name}"
            yield LayerResult(layer, _named(result, layer), "identical", name)


def _reason(overfull: Overfull) -> Reason:
    sources = () if overfull.size_source is None else (overfull.size_source,)
    holds = Statement(f"`{overfull.level}` holds {overfull.size_words:,} words", sources)
    larger = f"`{overfull.level}` with {overfull.taken_words:,} words"
    lever_text = f"{larger}, and those that this Einsum needs there itself"
    lever = Lever(lever_text, overfull.size_words, overfull.taken_words, sources)
    missing = Shortfall(overfull.text, overfull.taken_words, overfull.size_words, "words")
    return Reason(overfull.text, sources, (holds,), irreducible=True, shortfalls=(missing,), levers=(lever,))


def _named(result: Result, layer: Layer) -> Result:
    """Return an answer with the layer's own names; what it rests on goes by places, and has none."""
    if result.mapping is None:
        return result
    problem, architecture = layer.mapspace.problem, layer.mapspace.architecture
    mapping = naming_of(layer).inverse.mapping(result.mapping)
    return replace(result, mapping=mapping, evaluation=evaluate(problem, architecture, mapping))
