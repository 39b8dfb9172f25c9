"""Loops with remainders inside of branching: exact words of partial mappings, and all mappings of a leaf."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, product

import numpy as np

from model.cost import evaluate_in
from model.cost.nest import Nest, build_nest
from model.cost.uneven import Way
from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundary, ceil_div, times
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.branching.completion import Order, Priced, Skeleton, SkeletonKey
from solver.search.branching.joint import JointPlaces
from solver.search.branching.walk import Loops, Node, Walk, lonely_tiles
from solver.search.goal import SLACK, Goal
from solver.search.space.choices import Choice, choice_of, fewest_counts, no_worse
from solver.search.space.counts import loop_factors
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.lattice import INFINITY
from solver.search.space.orders import OrderClass, allowed_orders
from solver.search.space.prices import BoundaryPrice
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.space.user_rules import UnevenRule
from solver.search.stopping import Stop
from solver.search.subproblems.combination import Uneven
from solver.search.subproblems.energies import Paid, UnevenSubproblem
from solver.search.subproblems.loads import Searchable, UnevenLoad


def distinct_digits(loops: Sequence[tuple[IntArray, BoolArray]], number: IntArray) -> IntArray:
    """How many combinations of some loops' iterations the first `number` of all iterations have.

    Loops are given innermost first, with whether they count.
    """
    sizes, full = [np.ones_like(number)], [np.ones_like(number)]
    for factor, counts in loops:
        sizes.append(sizes[-1] * factor)
        full.append(full[-1] * np.where(counts, factor, 1))

    def combinations(loop: int, rest: IntArray) -> IntArray:
        if loop == 0:
            return np.ones_like(rest)
        rounds = -(-rest // sizes[loop - 1])
        last = combinations(loop - 1, rest - (rounds - 1) * sizes[loop - 1])
        return np.where(
            loops[loop - 1][1],
            (rounds - 1) * full[loop - 1] + last,
            np.where(rounds > 1, full[loop - 1], last),
        )

    return combinations(len(loops), number)


class UnevenWords:
    """Words that cross a boundary, at least, given the loops outside of it: arriving, and asked for.

    Parameters
    ----------
    walk
        To candidates for the tile inside.
    boundary
        Of the level of these.
    """

    def __init__(self, walk: Walk, boundary: Boundary) -> None:
        self._walk = walk
        self._boundary = boundary
        self.space = walk.space
        self._view = walk.space.views[boundary.place]
        self._tiles = walk.candidates.tiles
        self._reuses = self.space.reuses(boundary.place, boundary.level)

    @cached_property
    def arriving(self) -> IntArray:
        """Words that arrive in all instances, shape (candidates,)."""
        copies = self._boundary.sub.copies_above(self._boundary.place, self._boundary.level)
        return np.maximum(self._delivered(None, copies), self._boundary.once_words)

    def of(self, paid: Paid) -> IntArray:
        """Words of an access, by all instances of its level."""
        access, sub = paid.access, self._boundary.sub
        assert isinstance(sub, Uneven)
        if not access.per_child:
            return self.arriving
        share = sub.asked_share(self._boundary.place, access)
        words = ceil_div(times(self.arriving, share.numerator), share.denominator)
        if self._view.window_dims:
            return words
        copies = sub.copies_above(self._boundary.place, access.level)
        return np.maximum(words, self._delivered(access.level, copies))

    def _delivered(self, level: int | None, copies: int) -> IntArray:
        """Words that arrive, or that a level is asked for."""
        begun, again, farther = self._words
        number, outside = self._times(level, whole=True), self._times(level, whole=False)
        first = begun * copies + farther * np.maximum(outside - copies, 0)
        return first + again * (number - np.maximum(outside, copies))

    @cached_property
    def _words(self) -> tuple[IntArray, IntArray, IntArray]:
        """Words at first, each time that loops of the slot repeat them which moves the tile, and others."""
        words = self._boundary.words()
        repeated, begun = words.repeated[self._tiles], words.begun[self._tiles]
        if self._view.window_dims or not self._reuses:
            return begun, repeated, repeated
        plain = self.space.tables[self._boundary.place].plain_words[self._tiles]
        again, farther = self._moved_here
        again = np.minimum(np.maximum(again, repeated), plain)
        return begun, again, np.minimum(np.maximum(again, farther), plain)

    @cached_property
    def _moved_here(self) -> tuple[IntArray, IntArray]:
        """Words that the innermost loops move which move the tile at all, and loops of slots outside."""
        walk, place = self._walk, self._boundary.place
        least: IntArray = np.full(len(self._tiles), np.iinfo(np.int64).max)
        farther = self._moved_outside(walk.node.farther[place])
        for dim in sorted(self._view.relevant):
            loops = walk.candidates.loops[:, dim]
            moved = self._moved(dim, loops, np.full(len(loops), walk.candidates.member.factors[dim]))
            least = np.where(walk.may_lead(self._view, dim), np.minimum(least, moved), least)
            # All loops of the slot lie inside of those of slots outside.
            farther = np.where(loops > 1, np.maximum(farther, moved), farther)
        movers, alive = walk.node.movers[place], walk.alive[place]
        if movers is None:
            return least, farther
        carried, beyond = self._moved_outside((movers.loops,)), self._moved_outside(movers.farther)
        return np.where(alive, carried, least), np.where(alive, beyond, farther)

    def _moved_outside(self, movers: Sequence[Loops]) -> IntArray:
        """Words that loops of slots farther out move: any of several sets moves what it moves."""
        most: IntArray = np.zeros(len(self._tiles), dtype=np.int64)
        node, member = self._walk.node, self._walk.candidates.member
        for loops in movers:
            least: IntArray = np.full(len(self._tiles), np.iinfo(np.int64).max)
            for level, dim in loops:
                unrolled = math.prod(choice.factors[dim] for choice in node.spatial[level:])
                inside = np.full(len(self._tiles), member.factors[dim] * unrolled)
                moved = self._moved(dim, np.full(len(self._tiles), node.path[level][dim]), inside)
                least = np.minimum(least, moved)
            most = np.maximum(most, least)
        return most

    def _moved(self, dim: int, factor: IntArray, inside: IntArray) -> IntArray:
        """Words of all tiles but those that a loop over a dimension leaves in place, at least."""
        space, (component,) = self.space, [c for c in self._view.components if dim in c.dims]
        tiles = space.lattice.tiles[self._tiles, dim]
        alone, last = lonely_tiles(tiles, factor, inside)
        box = space.tables[self._boundary.place].boxes[self._view.components.index(component)][self._tiles]
        own = tiles * box
        if component.linear:
            own = tiles + abs(component.coefficient(dim)) * (space.lattice.bounds[dim] - tiles)
        longest = space.longest_boxes(self._boundary.place, component)[self._tiles]
        # The last tile may be short: where it is left in place, all others are full.
        left = np.where(last & component.linear, (tiles - alone) * box, own - alone * longest)
        plain = space.tables[self._boundary.place].plain_words[self._tiles]
        words: IntArray = plain // own * np.where(alone == 0, own, np.maximum(left, 0))
        return words

    def _times(self, level: int | None, whole: bool) -> IntArray:
        """How often all tiles are delivered; with a level, copies for several of its children count once.

        Unless as a `whole`, not by loops of the slot whose loops move the tile first.
        """
        total = np.ones(len(self._tiles), dtype=np.int64)
        for dim in sorted(self._view.irrelevant):
            total = total * self._times_of(dim, level, whole)
        return total

    def _times_of(self, dim: int, level: int | None, whole: bool) -> IntArray:
        walk, place = self._walk, self._boundary.place
        here, number, alive = walk.node.level, len(self._tiles), walk.alive[place]
        mover = walk.node.movers[place]
        loops: list[tuple[IntArray, BoolArray]] = []

        def add(factor: IntArray | int, counts: BoolArray | bool) -> None:
            loops.append((np.broadcast_to(factor, number), np.broadcast_to(counts, number)))

        add(walk.candidates.member.factors[dim], level is None or here < level)
        held = walk.kept_in_place[place][:, dim] & self._reuses
        add(walk.candidates.loops[:, dim], ~held & (whole | alive))
        for outer in reversed(range(here)):
            add(walk.node.spatial[outer].factors[dim], level is None or outer < level)
            held = alive & ((outer, dim) in walk.node.held[place]) & self._reuses
            moved = alive & (mover is not None and mover.level == outer)
            add(walk.node.path[outer][dim], ~held & (whole | ~moved))
        return distinct_digits(loops, self.space.lattice.tiles[self._tiles, dim])


def cost_of(sub: Searchable, words: UnevenWords, paid: Sequence[Paid]) -> IntArray:
    """What accesses to a boundary cost, in quanta of a subproblem."""
    return sum((_cost(sub, own, words.of(own)) for own in paid), np.zeros_like(words.arriving))


def _cost(sub: Searchable, paid: Paid, words: IntArray) -> IntArray:
    if not isinstance(sub, UnevenLoad):
        return BoundaryPrice((paid.term,), ()).price(words) if paid.term.price else np.zeros_like(words)
    rate = sum(cycles for number, cycles in paid.loads if number == sub.resource) * sub.scale
    parts = np.maximum(words - paid.free, 0) * (float(rate) * SLACK)
    return np.floor(np.minimum(parts, float(INFINITY))).astype(np.int64)


def paid_at(sub: Searchable, boundary: Boundary) -> list[Paid]:
    """The accesses that follow from the words of a boundary."""
    origin = sub.origin if isinstance(sub, UnevenLoad) else sub
    assert isinstance(origin, UnevenSubproblem)
    return [own for own in origin.paid(boundary.place) if own.access.boundary == boundary.level]


@dataclass(frozen=True)
class Variants:
    """The factors that lead to the same numbers of tiles at every level.

    Words follow from the numbers of tiles, and least factors have the smallest tiles. But with spatial
    factors, larger tiles may take fewer steps, and less that the arithmetic asks for; where tiles have to
    fill a level at least, words come in blocks, or only some instances pay, they may be better, too. And
    rules of the user's own may allow some extents and no others.

    Parameters
    ----------
    node, member
        A leaf and the spatial choice of the innermost level.
    timed
        Whether cycles count.
    joint
        What the places of memories may do together.
    """

    space: SearchSpace
    node: Node
    member: StageChoice
    timed: bool
    joint: JointPlaces

    def of_factors(self, hopeful: Callable[[int], bool]) -> Iterator[tuple[tuple[tuple[int, ...], ...], int]]:
        """Yield temporal factors, level by level, and their steps, as far as these are hopeful."""
        options = [self._options(d) for d in range(len(self.space.active))]
        if not all(options) or not self.joint.finished(self.node, [own[0].factors[-1] for own in options]):
            return
        fewest = [min(choice.counts[0] for choice in own) for own in options]
        yield from self._joined(options, fewest, hopeful, ())

    def _joined(
        self,
        options: Sequence[Sequence[Choice]],
        fewest: Sequence[int],
        hopeful: Callable[[int], bool],
        chosen: tuple[Choice, ...],
    ) -> Iterator[tuple[tuple[tuple[int, ...], ...], int]]:
        place, steps = len(chosen), math.prod(choice.counts[0] for choice in chosen)
        if not hopeful(steps * math.prod(fewest[place:])):
            return
        if place == len(options):
            if self._satisfies_rules(chosen):
                levels = range(len(self.space.levels))
                yield tuple(tuple(choice.factors[level] for choice in chosen) for level in levels), steps
            return
        for choice in options[place]:
            yield from self._joined(options, fewest, hopeful, (*chosen, choice))

    @cached_property
    def _rules(self) -> list[tuple[int, tuple[UnevenRule, ...]]]:
        """Levels about whose tiles there are rules, with these."""
        return [(level, rules) for level, rules in enumerate(self.space.uneven_rules) if rules]

    def _satisfies_rules(self, chosen: Sequence[Choice]) -> bool:
        """Whether rules allow the tiles of all levels; those that ask for what is kept are not looked at."""
        for level, rules in self._rules:
            extents = {dim: own.extents[level] for dim, own in zip(self.space.active, chosen, strict=True)}
            extents = {**dict.fromkeys(self.space.problem.dims, 1), **extents}
            if not all(rule.holds(extents) for rule in rules if not rule.asks_for_kept):
                return False
        return True

    def _allowed_alone(self, dim: int, choice: Choice) -> bool:
        """Whether rules about one dimension alone allow a choice."""
        extents = dict.fromkeys(self.space.problem.dims, 1)
        for level, rules in self._rules:
            extents[self.space.active[dim]] = choice.extents[level]
            own = (rule for rule in rules if rule.dims == (self.space.active[dim],))
            if not all(rule.holds(extents) for rule in own if not rule.asks_for_kept):
                return False
        return True

    def _is_entangled(self, dim: int) -> bool:
        """Whether rules may allow a choice, together with others, and not one with smaller tiles."""
        name = self.space.active[dim]
        rules = (rule for _, own in self._rules for rule in own if name in rule.dims)
        return any(not rule.falls and (rule.asks_for_kept or len(rule.dims) > 1) for rule in rules)

    def _options(self, dim: int) -> list[Choice]:
        """The choices of a dimension that no other one is as good as, the least factors first."""
        found = (choice for choice in self._chains(dim) if self._allowed_alone(dim, choice))
        if (
            self._is_entangled(dim)
            or not self._by_steps
            or dim in self.space.window_dims
            or self._idle_in_last_round(dim)
        ):
            return [*found]
        best: list[Choice] = []
        fewest = fewest_counts(self.space.lattice.bounds[dim], self._spatial(dim))
        for choice in found:
            if not any(no_worse(other, choice) for other in best):
                best = [*(own for own in best if not no_worse(choice, own)), choice]
            if choice.counts == fewest:
                # Later ones have larger tiles, and nothing that is less.
                return best
        return best

    def _idle_in_last_round(self, dim: int) -> bool:
        """Whether some children have one tile only in the last pass of a loop: larger ones leave more."""
        tiles = [int(self.space.lattice.tiles[tile, dim]) for tile in self.node.tiles]
        spatial = self._spatial(dim)
        for level, factors in enumerate(self.node.path):
            rounds, outer = -(-tiles[level + 1] // spatial[level]), tiles[level]
            last = rounds - factors[dim] * (outer - 1)
            if factors[dim] > 1 and last == 2 and math.prod(spatial[level:]) > 1:
                return True
        return False

    def _spatial(self, dim: int) -> list[int]:
        return [*(choice.factors[dim] for choice in self.node.spatial), self.member.factors[dim]]

    @cached_property
    def _by_steps(self) -> bool:
        """Whether choices of the same steps differ in the room only that their tiles take."""
        packed = any(
            level.packing_of(view.name).block_size > 1 or level.cluster_size > 1 or level.min_utilization
            for level in self.space.levels
            for view in self.space.views
        )
        ruled = self.space.mapspace.joint and self.space.mapspace.rules
        return not packed and not ruled and not (self.timed and self.space.resources)

    def _chains(self, dim: int) -> Iterator[Choice]:
        """All factors of a dimension with the numbers of tiles of the leaf, the least of each level first."""
        lattice, bound, spatial = self.space.lattice, self.space.lattice.bounds[dim], self._spatial(dim)
        tiles = [int(lattice.tiles[tile, dim]) for tile in self.node.tiles]
        inside = [*tiles[1:], bound]
        ranges = [
            self._factors(level, dim, -(-own // factor), outer)
            for level, (own, factor, outer) in enumerate(zip(inside, spatial, tiles, strict=True))
        ]
        for factors in product(*ranges):
            if not self.joint.multiply(dim, factors):
                continue
            yield choice_of(bound, factors, spatial)

    def _factors(self, level: int, dim: int, tiles: int, outer: int) -> Sequence[int]:
        """Temporal factors of a level that leave `outer` of so many tiles, with passes like the node's."""
        allowed = sorted(self.space.slots[level].allowed[dim])
        one, two, others = loop_factors(tiles, outer, allowed)
        if level == len(self.node.path):
            return sorted({one, two, *others} - {0})
        chosen = self.node.path[level][dim]
        return (chosen,) if chosen in (one, two) else others


@dataclass(frozen=True, kw_only=True)
class UnevenSkeleton(Skeleton):
    """Factors of all loops, and bounds of the mappings that have them.

    Parameters
    ----------
    classes
        Of the loop orders of all levels but the innermost one.
    least
        Energy units and cycles of these mappings, at least.
    """

    bounds: LatticeBounds[Searchable]
    classes: tuple[OrderClass, ...]
    least: tuple[int, int]

    @property
    def key(self) -> SkeletonKey:
        """What tells this skeleton from others of the same search space."""
        return (*super().key, self.classes)

    def best(self, goal: Goal, stop: Stop) -> Iterator[Priced]:
        """Mappings that may improve on the incumbent, in all orders that dataspaces can tell apart."""
        priced = self.priced(self._in_class())
        least = self.space.mapspace.min_parallelism
        if not priced.evaluation.valid or priced.evaluation.compute_instances < least:
            return
        yield priced
        if goal.improves(*self.least):
            # What loops leave in place in passes of one iteration depends on all of their order.
            yield from _Orders(self, priced).best(goal, stop)

    def _in_class(self) -> tuple[Order, ...]:
        """Orders of the classes."""
        orders = []
        for level, order in enumerate(self.classes):
            wanted = [self.space.active[d] for group in order.groups for d in group.dims]
            live = next(self.orders(level))
            orders.append(tuple(sorted(live, key=wanted.index)))
        return (*orders, next(self.orders(len(self.classes))))

    def priced(self, orders: tuple[Order, ...]) -> Priced:
        """The mapping with the loops of each level in these orders, and its price."""
        mapping = self.mapping(orders)
        return Priced(mapping, evaluate_in(self.space.mapspace, mapping))


@dataclass(frozen=True)
class _Spent:
    """Quanta of energy, and cycles of load per resource."""

    energy: int
    loads: tuple[float, ...]


class _Orders:
    """All mappings with the same factors, best first, as far as they may improve.

    Parameters
    ----------
    skeleton
        Its factors.
    first
        Any of the mappings: all of them have the same cycles of the compute.
    """

    def __init__(self, skeleton: UnevenSkeleton, first: Priced) -> None:
        self._skeleton = skeleton
        self.space = skeleton.space
        sub = skeleton.bounds.sub
        origin = sub.origin if isinstance(sub, UnevenLoad) else sub
        assert isinstance(origin, UnevenSubproblem)
        self._sub = origin
        self._steps = first.evaluation.compute_cycles
        self._known: dict[tuple[int, tuple[Order, ...]], _Spent] = {}

    @cached_property
    def _options(self) -> tuple[tuple[Order, ...], ...]:
        """Per level, orders of its loops; that of the innermost level is free."""
        *outer, inner = range(len(self._skeleton.temporal))
        return (*(self._of_level(level) for level in outer), (next(self._skeleton.orders(inner)),))

    def _of_level(self, level: int) -> tuple[Order, ...]:
        """One order of each kind that dataspaces can tell apart."""
        space, number = self.space, {dim: d for d, dim in enumerate(self.space.active)}
        live = frozenset(d for d, f in enumerate(self._skeleton.temporal[level]) if f > 1)

        def done(first: Sequence[str]) -> bool:
            inside = frozenset(map(number.__getitem__, first))
            return all(
                view.relevant.isdisjoint(live - inside)
                or not inside.isdisjoint(self._solid[level, view.place])
                for view in space.views
            )

        kinds: dict[tuple[tuple[int, ...], ...], Order] = {}
        dims = [space.active[d] for d in sorted(live)]
        for order in allowed_orders(space.mapspace.temporal[level], dims, done):
            places = [number[dim] for dim in order]
            kinds.setdefault(tuple(self._imprint(level, view, places) for view in space.views), order)
        return tuple(kinds.values())

    def _imprint(self, level: int, view: DataspaceView, order: Sequence[int]) -> tuple[int, ...]:
        """What an order leaves on a dataspace: which loops move it, and which lie between these."""
        imprint: list[int] = []
        between = 0
        for d in order:
            if d in view.irrelevant:
                between |= 1 << d
                continue
            imprint += [between, -1 - d]
            if d in self._solid[level, view.place]:
                return tuple(imprint)
            between = 0
        return (*imprint, between)

    @cached_property
    def _solid(self) -> dict[tuple[int, int], frozenset[int]]:
        """Per level and dataspace, the loops that move its tile in each pass to where nothing overlaps."""
        every = range(len(self._skeleton.temporal))
        return {
            (level, view.place): frozenset(
                d for d in view.relevant - view.window_dims if self._always_moves(level, d)
            )
            for level in every
            for view in self.space.views
        }

    def _always_moves(self, level: int, dim: int) -> bool:
        """Whether every pass of a loop has several iterations, whichever boundary the tile is at."""
        skeleton, factor = self._skeleton, self._skeleton.temporal[level][dim]
        inner = range(level + 1, len(skeleton.temporal))
        if factor == 1 or any(skeleton.spatial[own].factors[dim] > 1 for own in (level, *inner)):
            # Children may differ.
            return False
        extent = math.prod(skeleton.temporal[own][dim] for own in inner)
        return -(-self.space.lattice.bounds[dim] // extent) % factor != 1

    @cached_property
    def _first(self) -> tuple[Order, ...]:
        return tuple(next(self._skeleton.orders(level)) for level in range(len(self._skeleton.temporal)))

    def _nest(self, above: tuple[Order, ...]) -> Nest:
        orders = (*above, *self._first[len(above) :])
        return build_nest(self.space.problem, self.space.architecture, self._skeleton.mapping(orders))

    def best(self, goal: Goal, stop: Stop) -> Iterator[Priced]:
        """Complete mappings, by rising bounds."""
        depth = len(self._skeleton.temporal)
        if all(len(options) == 1 for options in self._options):
            return
        ticket = count()
        spent = _Spent(0, (0.0,) * len(self.space.resources))
        heap: list[tuple[int, int, int, tuple[Order, ...], _Spent]] = [(0, 0, next(ticket), (), spent)]
        while heap:
            *_, above, spent = heapq.heappop(heap)
            if stop():
                return
            if not self._may_improve(goal, len(above), spent):
                continue
            if len(above) == depth:
                yield self._skeleton.priced(above)
                continue
            for longer in ((*above, order) for order in self._options[len(above)]):
                total = self._plus(spent, longer)
                energy, cycles = self._least(len(longer), total)
                heapq.heappush(heap, (goal.value(energy, cycles), energy, -next(ticket), longer, total))

    def _may_improve(self, goal: Goal, ordered: int, spent: _Spent) -> bool:
        energy, cycles = self._least(ordered, spent)
        return goal.improves(energy, cycles)

    def _least(self, ordered: int, spent: _Spent) -> tuple[int, int]:
        """Energy units and cycles at least, with the first levels' orders known."""
        sub, latency = self._sub, self.space.latency
        busy = max(self._steps, math.ceil(max(spent.loads, default=0.0) * SLACK))
        waiting = (busy + latency - sub.least_cycles) * sub.leak_per_cycle
        energy = sub.constant + (spent.energy + self._floors[ordered]) * sub.quantum + max(waiting, 0)
        return energy, busy + latency

    @cached_property
    def _floors(self) -> tuple[int, ...]:
        """Least cost of the boundaries inside of so many levels with known orders."""
        boundaries = self._skeleton.bounds.boundaries.by_level
        depth = len(boundaries)
        once = [0] * (depth + 1)
        if self._skeleton.bounds.sub is self._sub:
            for level in reversed(range(1, depth)):
                once[level] = once[level + 1] + sum(boundary.once for boundary in boundaries[level])
        # The boundary of a level follows from the orders of all levels outside.
        return tuple(once[ordered + 1] if ordered < depth else 0 for ordered in range(depth + 1))

    def _plus(self, spent: _Spent, above: tuple[Order, ...]) -> _Spent:
        """The same with the boundaries of the next level, outside of which all orders are known."""
        level = len(above)
        if level >= len(self._skeleton.temporal):
            return spent
        if (level, above) not in self._known:
            self._known[level, above] = self._spent_at(level, above)
        more = self._known[level, above]
        loads = tuple(one + other for one, other in zip(spent.loads, more.loads, strict=True))
        return _Spent(spent.energy + more.energy, loads)

    def _spent_at(self, level: int, above: tuple[Order, ...]) -> _Spent:
        nest, energy, loads = self._nest(above), 0, [0.0] * len(self.space.resources)
        every = ((view, paid) for view in self.space.views for paid in self._sub.paid(view.place))
        for view, paid in ((view, paid) for view, paid in every if paid.access.boundary == level):
            words = self._words(nest, view, level, paid.access.level if paid.access.per_child else None)
            energy += BoundaryPrice((paid.term,), ()).exact(words) if paid.term.price else 0
            for number, cycles in paid.loads:
                loads[number] += max(0, words - paid.free) * float(cycles)
        return _Spent(energy, tuple(loads))

    def _words(self, nest: Nest, view: DataspaceView, level: int, asked: int | None) -> int:
        """Words that all instances of a level get, or that all of one outside are asked for."""
        positions = self.space.architecture.storage_indices
        outer = positions[level if asked is None else asked]
        way = Way(
            self.space.architecture, nest, self.space.problem.dataspaces[view.place], outer, positions[level]
        )
        shares = {dim: nest.shares(dim, outer) for dim in self.space.problem.dims}
        return way.brought_words(shares, reuse=self.space.reuses(view.place, level))
