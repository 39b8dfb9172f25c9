"""Mapping all layers of a network, or of several: the run, its results, and why layers have no mapping."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from model.architecture import AccessEnergy, Compute, Node, StorageLevel
from model.cascade import Layer, Network, Overfull
from model.mapspace import Mapspace
from model.renaming import by_position
from model.sparse import evaluate_totals
from solver.certificate.canonical import canonical, canonical_sha256
from solver.explain import Verdict, diagnose, explain_infeasible, explain_sparse, reasons_time_s
from solver.explain.explanation import DEFAULT_TIME_LIMIT_S, NOT_FOUND
from solver.formulation.requirements import constraints_of
from solver.network.cache import ResultCache
from solver.network.executors import Executor, Report, Serial
from solver.network.tasks import Task, plan
from solver.result import (
    Lever,
    Options,
    Phase,
    Progress,
    Reason,
    Result,
    Shortfall,
    Statement,
    Status,
    StopCallback,
    Termination,
)
from solver.stages import Late, first_result

Origin = Literal["searched", "identical", "cached", "copy", "no room"]


@dataclass(frozen=True)
class LayerResult:
    """A layer and the result of its search."""

    layer: Layer
    result: Result | None  # in the names of the layer; None for a copy, which costs what its transfer does
    origin: Origin
    same_as: str = ""  # name of the earlier layer; with that of its network, if it is of another one

    @property
    def status(self) -> Status:
        """Status of the result; a copy needs no mapping, but the levels must hold its tensors."""
        if self.result is not None:
            return self.result.status
        transfer = self.layer.transfer
        return Status.INFEASIBLE if transfer is not None and transfer.violations else Status.OPTIMAL

    @property
    def searched_as(self) -> str:
        """Name of the layer that was searched, perhaps of another network."""
        return self.same_as or self.layer.name

    @property
    def units_per_pj(self) -> int:
        """Parts of a picojoule that `energy_units` is a whole number of."""
        own = self.layer.mapspace.architecture.units_per_pj
        return own if self.result is None else self.result.units_per_pj

    @property
    def energy_units(self) -> int | None:
        """Energy of all instances, exact, in parts of a picojoule; None without a mapping."""
        return self._times("energy")

    @property
    def energy_pj(self) -> float | None:
        """Energy of all instances in picojoules, None without a mapping."""
        energy = self.energy_units
        return None if energy is None else energy / self.units_per_pj

    @property
    def cycles(self) -> int | None:
        """Cycles of all instances, None without a mapping."""
        return self._times("cycles")

    @property
    def latency_s(self) -> Fraction | None:
        """Seconds of all instances, None without a mapping or a clock."""
        cycle_s, cycles = self.layer.mapspace.architecture.cycle_s, self.cycles
        return None if cycle_s is None or cycles is None else cycles * cycle_s

    def _times(self, quantity: str) -> int | None:
        if self.result is None and self.layer.transfer is None:
            return 0
        priced = self.layer.transfer if self.result is None else self.result.evaluation
        if priced is None or self.status is Status.INFEASIBLE:
            return None
        value: int = getattr(priced, quantity)
        return value * self.layer.n_instances


@dataclass(frozen=True)
class NetworkResult:
    """The results of the layers, and their sums: layers run one after the other."""

    network: Network
    layers: tuple[LayerResult, ...]  # in order; fewer if the run was interrupted
    seconds: float  # wall-clock time of the run

    @property
    def units_per_pj(self) -> int:
        """A common energy unit of all layers' architectures, as parts of a picojoule."""
        return math.lcm(*(answer.units_per_pj for answer in self.layers), 1)

    @property
    def energy_units(self) -> int | None:
        """Energy of the network, exact, in parts of a picojoule (`units_per_pj`); None without a mapping."""
        unit = self.units_per_pj
        factors = (unit // answer.units_per_pj for answer in self.layers)
        energies = (answer.energy_units for answer in self.layers)
        pairs = zip(energies, factors, strict=True)
        return self._total([None if energy is None else energy * factor for energy, factor in pairs])

    @property
    def cycles(self) -> int | None:
        """Cycles of the network, None if a layer has no mapping, or if layers have different clocks."""
        clocks = {answer.layer.mapspace.architecture.cycle_s for answer in self.layers}
        return self._total([answer.cycles for answer in self.layers]) if len(clocks) <= 1 else None

    @property
    def latency_s(self) -> Fraction | None:
        """Seconds of the network, None if a layer has no mapping or no clock."""
        times = [answer.latency_s for answer in self.layers]
        known = [time for time in times if time is not None]
        is_complete = len(known) == len(self.network.layers)
        return sum(known, Fraction(0)) if is_complete else None

    @property
    def energy_pj(self) -> float | None:
        """Energy of the network in picojoules, None if a layer has no mapping."""
        energy = self.energy_units
        return None if energy is None else energy / self.units_per_pj

    @property
    def energy_j(self) -> float | None:
        """Energy of the network in joules, None if a layer has no mapping."""
        energy = self.energy_units
        return None if energy is None else float(Fraction(energy, self.units_per_pj * 10**12))

    @property
    def edp_units(self) -> int | None:
        """`energy_units` of the network times its cycles, which is not the sum of the layers' products."""
        energy, cycles = self.energy_units, self.cycles
        return None if energy is None or cycles is None else energy * cycles

    @property
    def edp_pj_cycles(self) -> float | None:
        """Energy of the network in picojoules times its cycles, None if a layer has no mapping."""
        edp = self.edp_units
        return None if edp is None else edp / self.units_per_pj

    @property
    def proven(self) -> int:
        """Number of layers whose result is proven."""
        return sum(answer.status in (Status.OPTIMAL, Status.INFEASIBLE) for answer in self.layers)

    @property
    def too_large(self) -> tuple[str, ...]:
        """Names of the layers with more words than a search can count."""
        results = ((answer.layer.name, answer.result) for answer in self.layers)
        return tuple(name for name, own in results if own and own.termination is Termination.TOO_LARGE)

    @property
    def status(self) -> Status:
        """The worst status of a layer: INFEASIBLE, UNKNOWN, FEASIBLE, OPTIMAL."""
        known = {answer.status for answer in self.layers}
        order = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE)
        if len(self.layers) < len(self.network.layers):
            known.add(Status.UNKNOWN)
        return next((status for status in order if status in known), Status.OPTIMAL)

    def _total(self, parts: list[int | None]) -> int | None:
        known = [part for part in parts if part is not None]
        complete = len(known) == len(self.network.layers)
        return sum(known) if complete else None


@dataclass(frozen=True)
class NetworkProgress:
    """How far a run is."""

    done: int  # searches, with those whose results were kept from before
    searches: int
    layer: Layer  # one that is being searched
    search: Progress | None = None  # None where a search does not report, as in other processes


ProgressCallback = Callable[[NetworkProgress], None]


@dataclass(frozen=True)
class Run:
    """How the searches of networks are run, which does not affect their results."""

    cache: ResultCache | None = None  # where proven results are kept as they are found
    resume: bool = False  # whether results that are kept already are used
    on_progress: ProgressCallback | None = None
    should_stop: StopCallback = lambda: False  # once true, running searches end, and no other one begins
    executor: Executor = field(default_factory=Serial)


def map_network(network: Network, options: Options = Options(), run: Run = Run()) -> NetworkResult:
    """Map each layer of a network to its optimum; layers that differ only in names are searched once.

    The time limit holds for each search with its reasons. Layers whose search did not begin before a stop
    have a first mapping, which was found before all searches. INFEASIBLE layers have reasons, of identical
    ones the first.
    """
    return explained(map_networks([network], options, run, begins_all=True), options, run)[0]


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
    networks: Sequence[Network], options: Options = Options(), run: Run = Run(), *, begins_all: bool = False
) -> tuple[NetworkResult, ...]:
    """Map several networks as `map_network` does, identical layers once for all; without reasons.

    Layers whose search did not begin before a stop are left out of the results, unless a run `begins_all`
    with a first mapping.
    """
    start = time.monotonic()
    cache = run.cache
    work = plan(networks, options)
    kept: dict[str, Result] = {}
    if cache is not None and run.resume:
        found = ((key, cache.find(key, task.mapspace)) for key, task in work.tasks.items())
        kept = {key: result for key, result in found if result is not None}
    known = dict(kept)
    pending = [task for key, task in work.tasks.items() if key not in kept]

    def report(task: Task, progress: Progress | None) -> None:
        if run.on_progress is not None:
            run.on_progress(NetworkProgress(len(known), len(work.tasks), task.layer, progress))

    first = _first_results(pending, options, run.should_stop, report) if begins_all else {}
    for task, result in run.executor.run(pending, options, report, run.should_stop):
        known[task.key] = result
        if cache is not None:
            cache.keep(task.key, result)
    known = first | known
    seconds = time.monotonic() - start
    answers = _Answers(known, frozenset(kept), options)
    return tuple(
        NetworkResult(network, tuple(answers.layers(network, keys)), seconds)
        for network, keys in zip(networks, work.keys, strict=True)
    )


def _first_results(
    tasks: Sequence[Task], options: Options, should_stop: StopCallback, report: Report
) -> dict[str, Result]:
    """What tasks come to without a search, by key: so all have a mapping once a run is to stop."""
    found, stop = dict[str, Result](), Late(should_stop)
    for task in tasks:
        if stop():
            break
        report(task, Progress(Phase.FIRST, 0.0, options.objectives_for(task.mapspace)[0]))
        found[task.key] = first_result(task.mapspace, options, stop)
    return found


class _Answers:
    """Passes results on to the layers, and remembers which layer had each first."""

    def __init__(self, known: dict[str, Result], kept: frozenset[str], options: Options) -> None:
        self._known = known
        self._kept = kept
        self._options = options
        self._first: dict[str, tuple[Network, Layer]] = {}
        self._renamed: dict[tuple[str, ...], Result] = {}

    def layers(self, network: Network, keys: Sequence[str | None]) -> Iterator[LayerResult]:
        """Yield the results of a network's layers that have one."""
        for layer, key in zip(network.layers, keys, strict=True):
            if layer.overfull:
                yield LayerResult(layer, self._without_room(layer), "no room")
            elif key is None:
                yield LayerResult(layer, None, "copy")
            elif key in self._first:
                other, first = self._first[key]
                name = first.name if other is network else f"{first.name} of {other.name}"
                yield LayerResult(layer, self._result(key, layer), "identical", name)
            elif key in self._known:
                self._first[key] = network, layer
                origin: Origin = "cached" if key in self._kept else "searched"
                yield LayerResult(layer, self._result(key, layer), origin)

    def _without_room(self, layer: Layer) -> Result:
        """The result of a layer that has no room beside other tensors."""
        mapspace = layer.mapspace
        return Result(
            Status.INFEASIBLE,
            Termination.PROVEN,
            self._options.objectives_for(mapspace),
            mapspace.architecture.units_per_pj,
            reasons=tuple(_reason(overfull) for overfull in layer.overfull),
        )

    def _result(self, key: str, layer: Layer) -> Result:
        """Return a result in the layer's own names, priced once for all layers that have the same ones."""
        names = (key, *layer.mapspace.problem.names)
        if names not in self._renamed:
            self._renamed[names] = _renamed(self._known[key], layer)
        return self._renamed[names]


def _reason(overfull: Overfull) -> Reason:
    sources = () if overfull.size_source is None else (overfull.size_source,)
    holds = Statement(f"`{overfull.level}` holds {overfull.size_words:,} words", sources)
    larger = f"`{overfull.level}` with {overfull.taken_words:,} words"
    lever_text = f"{larger}, in addition to those that this Einsum needs there itself"
    lever = Lever(lever_text, overfull.size_words, overfull.taken_words, sources)
    missing = Shortfall(overfull.text, overfull.taken_words, overfull.size_words, "words")
    return Reason(overfull.text, sources, (holds,), irreducible=True, shortfalls=(missing,), levers=(lever,))


def _renamed(result: Result, layer: Layer) -> Result:
    """Return a result in the layer's own names; its evidence goes by positions."""
    if result.mapping is None:
        return result
    names, mapspace = by_position(layer.mapspace.problem).inverse, layer.mapspace
    mapping = names.mapping(result.mapping)
    if result.mapspace is None:
        return replace(result, mapping=mapping, evaluation=evaluate_totals(mapspace, mapping))
    ordered = replace(names.mapspace(result.mapspace), problem=mapspace.problem)
    evaluation = evaluate_totals(ordered, mapping)
    return replace(result, mapping=mapping, evaluation=evaluation, mapspace=ordered)


def with_reasons(
    results: Sequence[NetworkResult],
    should_stop: StopCallback,
    time_limit_s: float | None = None,
    on_layer: Callable[[LayerResult], None] | None = None,
) -> tuple[NetworkResult, ...]:
    """Return `results` with the reasons of their INFEASIBLE layers, of identical ones the first.

    Time may not suffice for all, so the first layer of every network comes before the second of any.
    """
    explainer = _Explainer(should_stop, time_limit_s)
    layers = [list(result.layers) for result in results]
    turns = ((turn, own, position) for own in layers for turn, position in enumerate(_unexplained(own)))
    for _, own, position in sorted(turns, key=lambda job: job[0]):
        if on_layer is not None:
            on_layer(own[position])
        own[position] = explainer.explained(own[position])
    return tuple(replace(result, layers=tuple(own)) for result, own in zip(results, layers, strict=True))


def _unexplained(layers: Sequence[LayerResult]) -> Iterator[int]:
    """Yield the positions of the INFEASIBLE layers, of identical ones that of the first."""
    seen: set[str] = set()
    for position, answer in enumerate(layers):
        infeasible = answer.result is not None and answer.result.status is Status.INFEASIBLE
        if not infeasible or answer.searched_as in seen or answer.layer.overfull:
            continue
        seen.add(answer.searched_as)
        yield position


class _Explainer:
    """Explains each mapspace once, as long as there is time."""

    def __init__(self, should_stop: StopCallback, time_limit_s: float | None) -> None:
        self._end = time.monotonic() + DEFAULT_TIME_LIMIT_S
        self._should_stop = should_stop
        self._time_limit_s = time_limit_s
        self._known: dict[Hashable, tuple[Reason, ...]] = {}

    def explained(self, answer: LayerResult) -> LayerResult:
        """Return an INFEASIBLE layer with its reasons."""
        assert answer.result is not None  # copies are never searched
        time_s = reasons_time_s(self._time_limit_s, answer.result.statistics.seconds)
        reasons = self._reasons(answer.layer, time_s)
        return replace(answer, result=replace(answer.result, reasons=reasons))

    def _reasons(self, layer: Layer, time_s: float) -> tuple[Reason, ...]:
        mapspace, narrow = layer.mapspace, _narrow(layer)
        question = (_question(mapspace), None if narrow is None else _question(narrow))
        if question not in self._known:
            left = self._end - time.monotonic()
            if left <= 0 or self._should_stop():
                return (NOT_FOUND,)
            explain = explain_infeasible if mapspace.sparsity is None else explain_sparse
            reasons = explain(mapspace, self._should_stop, min(left, time_s))
            left = self._end - time.monotonic()
            if narrow is not None and left > 0 and NOT_FOUND not in reasons:
                found = diagnose(narrow, self._should_stop, min(left, time_s))
                is_enough = found.verdict is Verdict.FEASIBLE
                reasons = tuple(
                    _narrower_values(reason, layer) if is_enough else reason for reason in reasons
                )
            self._known[question] = reasons
        return self._known[question]


def _narrow(layer: Layer) -> Mapspace | None:
    """Return the mapspace of a layer with narrower values, None where there is no way to ask for them."""
    if layer.narrowing is None or layer.mapspace.sparsity is not None:
        return None
    return replace(layer.mapspace, architecture=layer.narrowing.architecture)


def _narrower_values(reason: Reason, layer: Layer) -> Reason:
    """Return a reason that proposes narrower values instead of larger levels."""
    assert layer.narrowing is not None
    sizes = {level.size_source for level in layer.mapspace.architecture.levels} - {None}
    others = (own for own in reason.levers if own.needed is None or sizes.isdisjoint(own.sources))
    return replace(reason, levers=(Lever(layer.narrowing.text), *others))


def _question(mapspace: Mapspace) -> Hashable:
    """Return what decides which mappings are allowed, and where that is written: no price, no bandwidth."""
    architecture = mapspace.architecture
    unpriced = replace(
        architecture,
        nodes=tuple(map(_without_prices, architecture.nodes)),
        compute=Compute(architecture.compute.name),
        units_per_pj=1,
    )
    written = tuple((constraint, constraint.sources) for constraint in constraints_of(mapspace))
    if mapspace.sparsity is not None:  # it has tables, by which none can be found
        return canonical_sha256(canonical(mapspace, lists_sides=False)), written
    return replace(mapspace, architecture=unpriced, notes=()), written


def _without_prices(node: Node) -> Node:
    if not isinstance(node, StorageLevel):
        return node
    return replace(
        node,
        energy=AccessEnergy(),
        area_um2=None,
        area_source="",
        read_bandwidth=None,
        write_bandwidth=None,
        shared_bandwidth=None,
        network_fill_latency=0,
        network_drain_latency=0,
    )
