"""Mapping all layers of a network."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from model.cascade import Layer, Network
from model.cost import evaluate
from solver.network.cache import ResultCache
from solver.network.executors import Executor, Serial
from solver.network.result import LayerResult, NetworkResult
from solver.network.tasks import Plan, Task, naming_of, plan
from solver.result import Options, Progress, Result, StopCallback, Termination


@dataclass(frozen=True)
class NetworkProgress:
    """How far a run is: searches done of all, a layer that is being searched, its search's report."""

    done: int
    searches: int
    layer: Layer
    search: Progress | None = None


ProgressCallback = Callable[[NetworkProgress], None]


def map_network(
    network: Network,
    options: Options = Options(),  # noqa: B008 (frozen)
    cache: ResultCache | None = None,
    resume: bool = False,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    executor: Executor | None = None,
) -> NetworkResult:
    """Map each layer of a network to its optimum.

    Layers that are the same problem but for names are searched once. Copies need no mapping.

    Parameters
    ----------
    network
        The layers.
    options
        As for a single Einsum; the time limit is that of each search.
    cache
        Where proven answers are kept as they are found.
    resume
        Whether answers that are kept already are used.
    on_progress
        Called before each search, and while searches run.
    should_stop
        Once it answers True, running searches end with their incumbents and no other one begins.
    executor
        Where searches run; by default one after the other in this process.

    Returns
    -------
    NetworkResult
        Without the layers whose search did not begin, if it was stopped.
    """
    start = time.monotonic()
    stop = should_stop or (lambda: False)
    work = plan(network, options)
    kept = _kept(work, cache) if cache is not None and resume else {}
    known = dict(kept)
    pending = [task for key, task in work.tasks.items() if key not in kept]

    def report(task: Task, progress: Progress | None) -> None:
        if on_progress is not None:
            on_progress(NetworkProgress(len(known), len(work.tasks), task.layer, progress))

    for task, result in (executor or Serial()).run(pending, options, report, stop):
        known[task.key] = result
        if cache is not None:
            cache.store(task.key, result)
    layers = _layer_results(network, work, known, frozenset(kept))
    return NetworkResult(network, layers, time.monotonic() - start)


def _kept(work: Plan, cache: ResultCache) -> dict[str, Result]:
    found = ((key, cache.find(key, task.mapspace)) for key, task in work.tasks.items())
    return {key: result for key, result in found if result is not None}


def _layer_results(
    network: Network, work: Plan, known: dict[str, Result], kept: frozenset[str]
) -> tuple[LayerResult, ...]:
    results: list[LayerResult] = []
    for layer, key in zip(network.layers, work.keys, strict=True):
        if key is None:
            results.append(LayerResult(layer, None, "copy"))
        elif key in known:
            result, first = known[key], work.tasks[key].layer
            if layer is first:
                origin = LayerResult(layer, _named(result, layer), "cached" if key in kept else "searched")
                results.append(origin)
            elif result.termination is not Termination.INTERRUPTED:
                results.append(LayerResult(layer, _named(result, layer), "identical", first.name))
    return tuple(results)


def _named(result: Result, layer: Layer) -> Result:
    """Return an answer with the layer's own names."""
    if result.mapping is None:
        return result
    problem, architecture = layer.mapspace.problem, layer.mapspace.architecture
    mapping = naming_of(layer).inverse.mapping(result.mapping)
    return replace(result, mapping=mapping, evaluation=evaluate(problem, architecture, mapping))
