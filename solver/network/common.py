"""One spatial unrolling for all layers of a network: the best one, and what it costs, proven.

Branch and bound over the widths of the common loops. A region gives each loop a least and a largest width. A
layer's optimum within a region is found by an ordinary search under rules on factors, and the sum of these
optima is a bound. Where all of them agree on one unrolling, it is the best of its region; otherwise the
region is split at a width on which they do not.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

from model.architecture import Fanout
from model.cascade import Layer, Network
from model.choices import SideOrder
from model.cost import evaluate_in
from model.extents import PERFECT, tiles_of
from model.mapping import FanoutMapping, NodeMapping, SpatialLoop
from model.mapping import Mapping as LoopNest
from model.mapspace import FactorRule, Mapspace, SpatialRules
from model.numbers import divisors, subsets
from model.objective import LATENCY
from model.rules.language import Constant, Operation, Quantity, Rule
from solver.network.executors import Serial
from solver.network.run import LayerResult, NetworkResult, Run, explained, map_networks
from solver.network.tasks import plan
from solver.result import Clock, Options, Result, Status, Termination, refuse_gap

Item = TypeVar("Item")

FEWEST_IN_PARALLEL = 8
"""Searches of several unrollings from which on processes are started for them, which takes a second."""

FIRST_TRIED = 4
"""Layers, by cost, whose own unrollings are tried for all layers at first."""


FAR_APART = 2
"""How many times the bound the best unrolling costs from which on a better one is looked for step by step."""


WIDTHS_TRIED = 3
"""About how many widths of one loop are tried then, while others stay as they are."""


class NoCommonError(ValueError):
    """The layers of a network do not run on the same fanouts."""


Range = tuple[int, int]
"""The least and the largest width."""


class SpatialSlot(NamedTuple):
    """A common spatial loop: a fanout, by its place in ``Architecture.fanouts``, and a dimension."""

    fanout: int
    dim: str


@dataclass(frozen=True)
class CommonLoop:
    """A spatial loop that all layers have: `width` children of a fanout along an axis, over a dimension.

    In a layer whose dimension has fewer iterations left it covers these, and other children are idle.
    """

    fanout: str
    dim: str
    width: int
    axis: str


@dataclass(frozen=True)
class CommonRegion:
    """A set of unrollings: least and largest widths, and the parts that it was split into, if it was."""

    ranges: Mapping[SpatialSlot, Range]
    parts: tuple[CommonRegion, ...] = ()


class CommonClaim(NamedTuple):
    """A bound on a layer's mappings whose spatial factors are within ranges; None if there is none."""

    layer: int
    ranges: tuple[tuple[SpatialSlot, Range], ...]
    bound: int | None


@dataclass(frozen=True)
class CommonProof:
    """The basis of the bound: all unrollings in parts, and claims on layers; `weights` are by layer."""

    whole: CommonRegion
    claims: tuple[CommonClaim, ...]
    layers: Mapping[int, Layer]
    weights: Mapping[int, int]


@dataclass(frozen=True)
class CommonResult:
    """The best spatial unrolling that all layers of a network can have.

    Parameters
    ----------
    own
        The layers with the best mapping of each.
    common
        The layers with the best mappings under `loops`; None if no unrolling was found that all of them have.
    loops
        Widths above 1, outermost fanout first.
    value, bound
        The objective summed over all runs of all layers (in ``own.units_per_pj``), and what no common
        unrolling is below; None if there is none.
    regions, searches
        Sets of unrollings that were looked at, and searches of single layers.
    proof
        What the bound rests on.
    """

    own: NetworkResult
    common: NetworkResult | None
    loops: tuple[CommonLoop, ...]
    objective: str
    status: Status
    termination: Termination
    value: int | None
    bound: int | None
    own_value: int | None
    regions: int
    searches: int
    seconds: float
    proof: CommonProof

    @property
    def gap(self) -> float | None:
        """Relative gap between value and bound, None unless both are known."""
        if self.value is None or self.bound is None:
            return None
        return (self.value - self.bound) / self.value if self.value else 0.0

    @property
    def price(self) -> float | None:
        """The extra cost of the common unrolling over the layers' own optima, as a share of these."""
        if self.value is None or not self.own_value:
            return None
        return (self.value - self.own_value) / self.own_value


def map_with_common_unrolling(
    network: Network, options: Options = Options(), run: Run = Run()
) -> CommonResult:
    """Find the spatial unrolling that costs least if all layers of a network have it.

    Parameters
    ----------
    network
        Layers on the same fanouts. Dimensions of equal names are the same.
    options
        The first objective counts, summed over all runs of all layers. The time limit holds for all searches
        together.
    run
        How the searches are run.

    Raises
    ------
    ValueError
        A gap is requested.
    NoCommonError
        If the layers have different fanouts, or none is to be mapped.
    """
    refuse_gap(options, "a common unrolling")
    return _CommonSearch(network, options, run).result()


class _Region(NamedTuple):
    """Ranges of widths, and the results of all layers within them, by place."""

    ranges: Mapping[SpatialSlot, Range]
    results: Mapping[int, Result]
    bound: int


class _Agreement(NamedTuple):
    """Widths that all mappings have, or where to split: a slot, and the largest width of the first part."""

    widths: Mapping[SpatialSlot, int]
    split: tuple[SpatialSlot, int] | None


class _CommonSearch:
    """The search for one network."""

    def __init__(self, network: Network, options: Options, run: Run) -> None:
        self._network, self._run = network, run
        self._clock = Clock(options.time_limit_s, run.should_stop)
        self._options = options
        keys = plan([network], options).keys[0]
        self._layers = {n: layer for n, layer in enumerate(network.layers) if keys[n] is not None}
        self._keys = {n: (keys[n], layer.mapspace.problem.names) for n, layer in self._layers.items()}
        self._alone: dict[int, Result] = {}  # the layers' own optima
        self._known: dict[object, Result] = {}
        self._tried: set[tuple[int, ...]] = set()
        self._best: tuple[int, Mapping[SpatialSlot, int], Mapping[int, Result]] | None = None
        self._unsettled: list[int] = []
        self._splits: dict[tuple[tuple[SpatialSlot, Range], ...], list[dict[SpatialSlot, Range]]] = {}
        self._claims: dict[tuple[object, tuple[tuple[SpatialSlot, Range], ...]], CommonClaim] = {}
        self._regions = 0
        self._check_fanouts()

    def _check_fanouts(self) -> None:
        kinds = {
            tuple((own.name, own.mesh_x, own.mesh_y) for own in layer.mapspace.architecture.fanouts)
            for layer in self._layers.values()
        }
        if not kinds:
            raise NoCommonError("there is no layer to map")
        if len(kinds) > 1:
            raise NoCommonError("the layers run on architectures with different fanouts")

    @property
    def _fanouts(self) -> tuple[Fanout, ...]:
        return next(iter(self._layers.values())).mapspace.architecture.fanouts

    @cached_property
    def _objective(self) -> str:
        return self._options.objectives_for(next(iter(self._layers.values())).mapspace)[0]

    @cached_property
    def _weights(self) -> dict[int, int]:
        """By how much the values of layers count."""
        units = {n: layer.mapspace.architecture.units_per_pj for n, layer in self._layers.items()}
        unit = math.lcm(*units.values(), 1)
        energies = self._objective != LATENCY
        return {
            n: layer.n_instances * (unit // units[n] if energies else 1) for n, layer in self._layers.items()
        }

    @cached_property
    def _widths(self) -> dict[SpatialSlot, list[int]]:
        """All common loops that there may be, innermost fanout first, with the widths that matter."""
        most: dict[str, int] = {}
        for layer in self._layers.values():
            for dim, bound in layer.mapspace.problem.bound.items():
                most[dim] = max(bound, most.get(dim, 1))
        places = reversed([*enumerate(self._fanouts)])
        return {
            SpatialSlot(place, dim): [
                width
                for width in range(1, min(bound, max(fanout.mesh_x, fanout.mesh_y)) + 1)
                if self._is_possible(place, dim, width)
            ]
            for place, fanout in places
            for dim, bound in most.items()
        }

    def _is_possible(self, place: int, dim: str, width: int) -> bool:
        """Whether layers with perfect factors may have a loop of a width; fewer iterations may be left."""
        bounds = [
            layer.mapspace.problem.bound[dim]
            for layer in self._layers.values()
            if dim in layer.mapspace.problem.bound and layer.mapspace.factors == PERFECT
        ]
        if place + 1 == len(self._fanouts):
            return all(bound <= width or bound % width == 0 for bound in bounds)
        return not bounds or len(bounds) < len(self._layers) or any(bound % width == 0 for bound in bounds)

    @cached_property
    def _slots(self) -> dict[SpatialSlot, Range]:
        """All loops with their least and largest widths."""
        return {slot: (widths[0], widths[-1]) for slot, widths in self._widths.items()}

    def _within(self, slot: SpatialSlot, low: int, high: int) -> Range | None:
        """The widths between two as a range, None if there are none."""
        widths = [width for width in self._widths[slot] if low <= width <= high]
        return (widths[0], widths[-1]) if widths else None

    # ------------------------------------------------------------------ the whole search

    def result(self) -> CommonResult:
        """Search until nothing is open, or time is over."""
        own = self._own()
        if not self._alone:
            return self._ended(own, [])
        whole = _Region(self._slots, self._alone, self._bound(self._alone))
        root = self._region(self._slots, whole)
        if root is None:
            return self._ended(own, [whole.bound] if self._clock.stop() else [])
        self._try_own(root)
        self._dive(root)
        heap = [(root.bound, 0, root)]
        while heap and not self._clock.stop():
            bound, _, region = heap[0]
            if self._best is not None and bound >= self._best[0]:
                break
            parts = self._parts(region)
            if parts is None:  # interrupted: the region stays open
                break
            heapq.heappop(heap)
            for part in parts:
                self._regions += 1
                heapq.heappush(heap, (part.bound, self._regions, part))
        return self._ended(own, [bound for bound, *_ in heap])

    def _own(self) -> NetworkResult:
        """The layers' own optima."""
        run, options = self._stoppable(), self._timed()
        (own,) = explained(map_networks([self._network], options, run), options, run)
        answers = {id(outcome.layer): outcome.result for outcome in own.layers}
        results = {n: answers.get(id(layer)) for n, layer in self._layers.items()}
        is_complete = all(result is not None and result.mapping is not None for result in results.values())
        if is_complete and own.status is not Status.INFEASIBLE:
            self._alone = {n: result for n, result in results.items() if result is not None}
        for n, result in results.items():
            if result is not None:
                self._claim(n, self._of_layer(n, self._slots), result)
        return own

    def _dive(self, region: _Region) -> None:
        """Look for a good unrolling: follow the best part of the best part, and so on."""
        parts: list[_Region] | None = [region]
        while parts:
            region = min(parts, key=lambda part: part.bound)
            parts = self._parts(region)

    def _parts(self, region: _Region) -> list[_Region] | None:
        """The open parts of a region; none if it is settled, None if there is no time for that."""
        agreement = self._agreement(region)
        if agreement.split is not None:
            self._try_widths(self._majority(region))
            slot, most = agreement.split
            low, high = region.ranges[slot]
            splits = self._split(region, slot, ((low, most), (most + 1, high)))
        elif self._arranged(agreement.widths) is not None:
            return self._settle(region, agreement.widths)
        else:
            splits = self._around(region, agreement.widths)
        self._splits[tuple(region.ranges.items())] = splits
        parts = [self._region(ranges, region) for ranges in splits if self._has_room(ranges)]
        if self._clock.stop():
            return None
        limit = math.inf if self._best is None else self._best[0]
        return [part for part in parts if part is not None and part.bound < limit]

    def _split(
        self, region: _Region, slot: SpatialSlot, ranges: Iterable[Range]
    ) -> list[dict[SpatialSlot, Range]]:
        """Parts of a region by the width of one loop."""
        found = (self._within(slot, *own) for own in ranges)
        return [{**region.ranges, slot: own} for own in found if own is not None]

    def _settle(self, region: _Region, widths: Mapping[SpatialSlot, int]) -> list[_Region]:
        """Take an unrolling that all optima of a region agree on."""
        self._offer(widths, region.results)
        if self._value(region.results) > region.bound:
            self._unsettled.append(region.bound)  # some searches were stopped
        return []

    def _around(self, region: _Region, widths: Mapping[SpatialSlot, int]) -> list[dict[SpatialSlot, Range]]:
        """Parts of a region whose mappings agree on an unrolling that no arrangement allows.

        If widths are too large for the mesh of a fanout, at least one of them has to be less. Otherwise rules
        on the order forbid it, which larger widths may satisfy.
        """
        wide = self._too_wide(widths)
        if wide:
            parts, ranges = [], dict(region.ranges)
            for slot in wide:
                low, high = ranges[slot]
                less, rest = self._within(slot, low, widths[slot] - 1), self._within(slot, widths[slot], high)
                parts += [] if less is None else [{**ranges, slot: less}]
                ranges |= {} if rest is None else {slot: rest}
            return parts
        open_slots = [slot for slot, (least, most) in region.ranges.items() if least < most]
        if not open_slots:
            return []
        slot = max(open_slots, key=lambda own: widths[own])
        width, (low, high) = widths[slot], region.ranges[slot]
        return self._split(region, slot, ((low, width - 1), (width, width), (width + 1, high)))

    def _too_wide(self, widths: Mapping[SpatialSlot, int]) -> list[SpatialSlot]:
        """The loops of a fanout whose mesh they do not fit, whatever the order; none if all fanouts do."""
        for place, fanout in enumerate(self._fanouts):
            own = {slot: width for slot, width in widths.items() if slot.fanout == place and width > 1}
            whole = math.prod(own.values())
            sides = (math.prod(own[slot] for slot in chosen) for chosen in subsets(own))
            if not any(side <= fanout.mesh_x and whole // side <= fanout.mesh_y for side in sides):
                return list(own)
        return []

    def _has_room(self, ranges: Mapping[SpatialSlot, Range]) -> bool:
        """Whether the least widths fit their fanouts."""
        least = (
            math.prod(low for slot, (low, _) in ranges.items() if slot.fanout == place)
            for place in range(len(self._fanouts))
        )
        return all(used <= fanout.size for used, fanout in zip(least, self._fanouts, strict=True))

    def _ended(self, own: NetworkResult, open_bounds: Sequence[int]) -> CommonResult:
        bounds = [*open_bounds, *self._unsettled]
        value = None if self._best is None else self._best[0]
        is_begun = bool(self._alone)
        bound = min([*bounds, *([] if value is None else [value])], default=None)
        status = self._status(own, value, bound, is_begun)
        common, loops = self._common(own)
        return CommonResult(
            own=own,
            common=common,
            loops=loops,
            objective=self._objective,
            status=status,
            termination=self._termination(status),
            value=value,
            bound=bound,
            own_value=self._value(self._alone) if is_begun else None,
            regions=self._regions + 1,
            searches=len(self._alone) + len(self._known),
            seconds=self._clock.seconds,
            proof=self._proof(),
        )

    def _status(self, own: NetworkResult, value: int | None, bound: int | None, is_begun: bool) -> Status:
        if own.status is Status.INFEASIBLE or (is_begun and bound is None):
            return Status.INFEASIBLE
        if value is None:
            return Status.UNKNOWN
        return Status.OPTIMAL if bound == value else Status.FEASIBLE

    def _termination(self, status: Status) -> Termination:
        if status in (Status.OPTIMAL, Status.INFEASIBLE):
            return Termination.PROVEN
        return self._clock.termination or Termination.INTERRUPTED

    # ------------------------------------------------------------- searches of the layers

    def _region(self, ranges: Mapping[SpatialSlot, Range], parent: _Region | None) -> _Region | None:
        """The region with results of all layers; None if one has no mapping, or if there is no time."""
        asked = {n: self._of_layer(n, ranges) for n in self._layers}
        results = {n: self._found(n, own, parent) for n, own in asked.items()}
        missing = [n for n, result in results.items() if result is None]
        if missing:
            results.update(self._mapped({n: asked[n] for n in missing}))
        known = {n: result for n, result in results.items() if result is not None}
        if len(known) < len(self._layers) or any(r.status is Status.INFEASIBLE for r in known.values()):
            return None
        if any(result.mapping is None for result in known.values()):
            self._unsettled += [] if parent is None else [parent.bound]
            return None
        return _Region(ranges, known, max(self._bound(known), 0 if parent is None else parent.bound))

    def _found(self, n: int, ranges: Mapping[SpatialSlot, Range], parent: _Region | None) -> Result | None:
        """A layer's result that is known: of the same ranges, or of wider ones if its mapping lies within."""
        known = self._known.get(self._key(n, ranges))
        if known is not None or parent is None:
            return known
        before = parent.results[n]
        factors = self._factors(n, before)
        within = all(
            low <= factors[slot] <= high and self._is_common(n, slot, factors[slot])
            for slot, (low, high) in ranges.items()
        )
        return before if within and before.mapping is not None else None

    def _is_common(self, n: int, slot: SpatialSlot, factor: int) -> bool:
        """Whether a layer's factor comes of a width that all layers may have."""
        bound = self._layers[n].mapspace.problem.bound[slot.dim]
        return not self._is_last(slot) or any(min(width, bound) == factor for width in self._widths[slot])

    def _is_last(self, slot: SpatialSlot) -> bool:
        """Whether a loop is one of the innermost fanout: all of a dimension is left to it."""
        return slot.fanout + 1 == len(self._fanouts)

    def _mapped(self, asked: Mapping[int, Mapping[SpatialSlot, Range]]) -> dict[int, Result]:
        """Search layers within ranges, those that are alike once."""
        layers = {n: self._restricted(self._layers[n], ranges) for n, ranges in asked.items()}
        network = replace(self._network, layers=tuple(layers.values()))
        run, options = self._stoppable(), self._timed()
        hard = {
            self._key(n, own) for n, own in asked.items() if any(low < high for low, high in own.values())
        }
        if len(hard) < FEWEST_IN_PARALLEL:
            run, options = replace(run, executor=Serial()), replace(options, jobs=1)
        (outcome,) = map_networks([network], options, run)
        answers = {id(own.layer): own.result for own in outcome.layers}
        found = {n: result for n, layer in layers.items() if (result := answers.get(id(layer))) is not None}
        for n, result in found.items():
            self._claim(n, asked[n], result)
            if result.status in (Status.OPTIMAL, Status.INFEASIBLE):
                self._known[self._key(n, asked[n])] = result
        return found

    def _claim(self, n: int, ranges: Mapping[SpatialSlot, Range], result: Result) -> None:
        """Remember what is known of a layer's mappings."""
        own = tuple(ranges.items())
        bound = None if result.status is Status.INFEASIBLE else result.bound or 0
        self._claims[self._keys[n], own] = CommonClaim(n, own, bound)

    def _proof(self) -> CommonProof:
        """All regions as they were split, and what is known of layers."""
        claims = tuple(self._claims.values())
        return CommonProof(self._recorded(self._slots), claims, self._layers, self._weights)

    def _recorded(self, ranges: Mapping[SpatialSlot, Range]) -> CommonRegion:
        splits = self._splits.get(tuple(ranges.items()), [])
        return CommonRegion(ranges, tuple(map(self._recorded, splits)))

    def _timed(self) -> Options:
        left_s = self._clock.left_s
        return replace(self._options, time_limit_s=left_s)

    def _stoppable(self) -> Run:
        return replace(self._run, should_stop=self._clock.stop)

    def _key(self, n: int, ranges: Mapping[SpatialSlot, Range]) -> object:
        return self._keys[n], tuple(ranges.items())

    def _of_layer(self, n: int, ranges: Mapping[SpatialSlot, Range]) -> dict[SpatialSlot, Range]:
        """The factors that a layer's own loops may have: what is left of its dimensions may be less."""
        found: dict[SpatialSlot, Range] = {}
        left = {dim: (bound, bound) for dim, bound in self._layers[n].mapspace.problem.bound.items()}
        for slot, (least, most) in ranges.items():
            if slot.dim not in left:
                continue
            few, many = left[slot.dim]
            own = min(least, few), min(most, many)
            found[slot] = own
            left[slot.dim] = tiles_of(few, own[1]), tiles_of(many, own[0])
        return found

    def _restricted(self, layer: Layer, ranges: Mapping[SpatialSlot, Range]) -> Layer:
        spatial = [
            replace(rules, factors=(*rules.factors, *_range_rules(place, ranges)))
            for place, rules in enumerate(layer.mapspace.spatial)
        ]
        mapspace, rules = replace(layer.mapspace, spatial=tuple(spatial)), layer.mapspace.rules
        if mapspace.factors == PERFECT:
            rules = (*rules, *(rule for own in ranges.items() if (rule := self._rule(layer, *own))))
        return replace(layer, mapspace=replace(mapspace, rules=rules))

    def _rule(self, layer: Layer, slot: SpatialSlot, within: Range) -> Rule | None:
        """A rule that a layer's factor is one that all layers can have; None if each within a range is."""
        bound, (low, high) = layer.mapspace.problem.bound[slot.dim], within
        widths = self._widths[slot]
        allowed = {min(width, bound) for width in widths}
        factors = [f for f in divisors(bound) if low <= f <= high]
        if not self._is_last(slot) or all(factor in allowed for factor in factors):
            return None
        asked = Quantity("spatial", self._fanouts[slot.fanout].name, slot.dim)
        equal = [Operation("==", (asked, Constant(own))) for own in sorted(allowed) if low <= own <= high]
        return Rule(equal[0] if len(equal) == 1 else Operation("or", tuple(equal)))

    def _factors(self, n: int, result: Result) -> dict[SpatialSlot, int]:
        """The factors of a mapping's spatial loops."""
        assert result.mapping is not None
        mapspace = self._layers[n].mapspace
        nodes = [result.mapping.nodes[place] for place in mapspace.architecture.fanout_indices]
        found = {slot: 1 for slot in self._slots if slot.dim in mapspace.problem.bound}
        for place, node in enumerate(nodes):
            assert isinstance(node, FanoutMapping)
            for loop in node.spatial:
                found[SpatialSlot(place, loop.dim)] *= loop.bound
        return found

    def _value(self, results: Mapping[int, Result]) -> int:
        return sum(self._weights[n] * (result.value or 0) for n, result in results.items())

    def _bound(self, results: Mapping[int, Result]) -> int:
        return sum(self._weights[n] * (result.bound or 0) for n, result in results.items())

    # -------------------------------------------------------------------------- agreement

    def _agreement(self, region: _Region) -> _Agreement:
        """Whether the results of a region have one common unrolling, and where they differ most."""
        left = {n: dict(layer.mapspace.problem.bound) for n, layer in self._layers.items()}
        factors = {n: self._factors(n, result) for n, result in region.results.items()}
        widths: dict[SpatialSlot, int] = {}
        splits: list[tuple[int, SpatialSlot, int]] = []
        for slot, (least, _) in region.ranges.items():
            own = {n: (found[slot], left[n][slot.dim]) for n, found in factors.items() if slot in found}
            for n, (factor, rest) in own.items():
                left[n][slot.dim] = tiles_of(rest, factor)
            exact = Counter[
                int
            ]()  # what layers cost, by the width that they ask for; others ask for a least one
            for n, (factor, rest) in own.items():
                exact[factor] += self._cost(n, region) if factor < rest else 0
            at_least = max([least, *(factor for factor, _ in own.values())])
            widths[slot] = next(width for width in self._widths[slot] if width >= at_least)
            asked = sorted({widths[slot], *(factor for factor, rest in own.values() if factor < rest)})
            if len(asked) > 1:
                against = exact.total() - max(exact.values(), default=0)
                splits.append((against, *self._cut(region, slot, asked)))
        return _Agreement(widths, max(splits)[1:] if splits else None)

    def _cut(self, region: _Region, slot: SpatialSlot, asked: Sequence[int]) -> tuple[SpatialSlot, int]:
        """Where to split a region in which layers ask for several widths of a loop: the first part's largest.

        What is left to an outer loop depends on the inner one. Where that is open, a layer's factor may be
        less than all widths of the region: then the inner one is split.
        """
        low, high = region.ranges[slot]
        while asked[0] < low:
            slot = next(
                own for own, (a, b) in region.ranges.items() if own.dim == slot.dim and a < b and own != slot
            )
            low, high = region.ranges[slot]
            asked = [width for width in self._widths[slot] if low <= width <= high]
        return slot, asked[(len(asked) - 1) // 2]

    def _cost(self, n: int, region: _Region) -> int:
        return self._weights[n] * (region.results[n].value or 0)

    def _majority(self, region: _Region) -> dict[SpatialSlot, int]:
        """For each loop the width that layers of the highest cost have."""
        votes: dict[SpatialSlot, Counter[int]] = {slot: Counter() for slot in region.ranges}
        for n, result in region.results.items():
            bound = self._layers[n].mapspace.problem.bound
            own = {slot: width for slot, width in self._factors(n, result).items() if bound[slot.dim] > 1}
            for slot, width in own.items():
                votes[slot][width] += self._cost(n, region)
        chosen = {slot: max(own, key=lambda w: (own[w], w)) for slot, own in votes.items() if own}
        least = {slot: max(low, chosen.get(slot, 1)) for slot, (low, _) in region.ranges.items()}
        return {
            slot: next(width for width in self._widths[slot] if width >= own) for slot, own in least.items()
        }

    def _try_own(self, root: _Region) -> None:
        """Try the unrollings of the most expensive layers for all, and none at all."""
        by_cost = sorted(self._layers, key=lambda n: -self._cost(n, root))
        for n in by_cost[:FIRST_TRIED]:
            factors = self._factors(n, root.results[n])
            least = {slot: factors.get(slot, 1) for slot in self._slots}
            self._try_widths(
                {slot: next(w for w in self._widths[slot] if w >= own) for slot, own in least.items()}
            )
        self._try_widths(self._majority(root))
        if self._best is None:
            self._try_widths(dict.fromkeys(self._slots, 1))
        if self._best is None or self._best[0] > FAR_APART * root.bound:
            self._try_widths(self._widest())
            self._climb()

    def _widest(self) -> dict[SpatialSlot, int]:
        """An unrolling that nothing can be added to: the widest loops first."""
        widths = dict.fromkeys(self._slots, 1)
        for slot in sorted(self._slots, key=lambda own: -self._widths[own][-1]):
            wider = ({**widths, slot: width} for width in reversed(self._widths[slot]))
            widths = next((own for own in wider if self._arranged(own) is not None), widths)
        return widths

    def _climb(self) -> None:
        """Make one loop of the best unrolling after the other wider, as long as that helps."""
        before = None
        while self._best is not None and self._best != before and not self._clock.stop():
            before = self._best
            for slot in self._slots:
                self._widen(slot)

    def _widen(self, slot: SpatialSlot) -> None:
        """Make a loop of the best unrolling as wide as it helps, the widest first; some widths in between."""
        assert self._best is not None
        value, widths, _ = self._best
        wider = [width for width in self._widths[slot] if width > widths[slot]]
        wider = [width for width in wider if self._arranged({**widths, slot: width}) is not None]
        for width in wider[:: -max(1, len(wider) // WIDTHS_TRIED)]:
            self._try_widths({**widths, slot: width})
            if self._best[0] < value:
                return

    def _try_widths(self, widths: Mapping[SpatialSlot, int]) -> None:
        """Price one unrolling, unless it was tried before."""
        chosen = tuple(widths[slot] for slot in self._slots)
        if chosen in self._tried or self._clock.stop():
            return
        self._tried.add(chosen)
        if self._arranged(widths) is None:
            return
        region = self._region({slot: (width, width) for slot, width in widths.items()}, None)
        if region is not None:
            self._offer(widths, region.results)

    def _offer(self, widths: Mapping[SpatialSlot, int], results: Mapping[int, Result]) -> None:
        value = self._value(results)
        if self._best is None or value < self._best[0]:
            self._best = value, dict(widths), dict(results)

    # ------------------------------------------------------------------------------- axes

    def _arranged(self, widths: Mapping[SpatialSlot, int]) -> list[frozenset[str]] | None:
        """Per fanout the dimensions along X, as all layers allow it; None if there is no such arrangement."""
        found = []
        for place, fanout in enumerate(self._fanouts):
            own = {slot.dim: width for slot, width in widths.items() if slot.fanout == place and width > 1}
            sets = self._allowed_sets(place, widths)
            fitting = (
                along_x
                for along_x in map(frozenset, subsets(own))
                if math.prod(own[dim] for dim in along_x) <= fanout.mesh_x
                and math.prod(own[dim] for dim in own.keys() - along_x) <= fanout.mesh_y
                and all(along_x & live in allowed for live, allowed in sets)
            )
            first = next(fitting, None)
            if first is None:
                return None
            found.append(first)
        return found

    def _allowed_sets(
        self, place: int, widths: Mapping[SpatialSlot, int]
    ) -> list[tuple[frozenset[str], frozenset[frozenset[str]]]]:
        """Per layer its dimensions with loops at a fanout, and which of them may lie along X together."""
        found = []
        for n, layer in self._layers.items():
            exact = {slot: (width, width) for slot, width in widths.items()}
            factors = self._of_layer(n, exact)
            live = frozenset(
                slot.dim for slot, (low, _) in factors.items() if slot.fanout == place and low > 1
            )
            order = SideOrder.of(layer.mapspace.spatial[place], layer.mapspace.problem.dims)
            found.append((live, frozenset(map(frozenset, order.sets_along_x(live)))))
        return found

    def _common(self, own: NetworkResult) -> tuple[NetworkResult | None, tuple[CommonLoop, ...]]:
        """The layers under the best unrolling, and its loops."""
        if self._best is None:
            return None, ()
        _, widths, results = self._best
        along_x = self._arranged(widths)
        assert along_x is not None  # others are not offered
        loops = tuple(
            CommonLoop(
                self._fanouts[slot.fanout].name, slot.dim, width, _axis_of(slot.dim, along_x[slot.fanout])
            )
            for slot, width in sorted(widths.items(), key=lambda pair: pair[0].fanout)
            if width > 1
        )
        layers: list[LayerResult] = []
        for n, outcome in enumerate(own.layers):
            if n not in self._layers:
                layers.append(outcome)
                continue
            result = _turned(outcome.layer.mapspace, results[n], along_x)
            layers.append(replace(outcome, result=result))
        return NetworkResult(self._network, tuple(layers), self._clock.seconds), loops


def _range_rules(place: int, ranges: Mapping[SpatialSlot, Range]) -> Iterator[FactorRule]:
    """The rules that keep a fanout's factors within ranges."""
    for slot, (least, most) in ranges.items():
        if slot.fanout != place:
            continue
        if least == most:
            yield FactorRule(slot.dim, "=", least)
            continue
        yield FactorRule(slot.dim, "<=", most)
        if least > 1:
            yield FactorRule(slot.dim, ">=", least)


def _axis_of(dim: str, along_x: frozenset[str]) -> str:
    return "x" if dim in along_x else "y"


def _turned(mapspace: Mapspace, result: Result, along_x: Sequence[frozenset[str]]) -> Result:
    """Return a result whose spatial loops lie along the common axes: that changes no cost."""
    assert result.mapping is not None
    nodes: list[NodeMapping] = list(result.mapping.nodes)
    for place, position in enumerate(mapspace.architecture.fanout_indices):
        node = nodes[position]
        assert isinstance(node, FanoutMapping)
        nodes[position] = FanoutMapping(
            tuple(_along(node.spatial, along_x[place], mapspace.spatial[place], mapspace.problem.dims))
        )
    mapping = LoopNest(tuple(nodes))
    return replace(result, mapping=mapping, evaluation=evaluate_in(mapspace, mapping))


def _along(
    spatial: Iterable[SpatialLoop], along_x: frozenset[str], rules: SpatialRules, dims: Sequence[str]
) -> list[SpatialLoop]:
    """Loops with other axes, X before Y, in the order that the user fixed."""
    loose = [dim for dim in dims if dim not in (*rules.inner, *rules.outer)]
    order = (*rules.inner, *loose, *rules.outer)
    loops = [
        SpatialLoop(loop.dim, loop.bound, "x" if loop.dim in along_x else "y")
        for loop in spatial
        if loop.bound > 1
    ]
    return sorted(loops, key=lambda loop: (loop.axis, order.index(loop.dim)))
