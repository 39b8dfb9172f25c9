"""Branching: from the outermost level inwards, over tiles, spatial choices and classes of loop orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.bounds.boundary import Boundary
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.bounds.tables import CLOSED, StageTables
from solver.search.branching.completion import Skeleton
from solver.search.branching.joint import JointPlaces
from solver.search.branching.multicast import WindowMulticast
from solver.search.branching.uneven import UnevenSkeleton, UnevenWords, Variants, cost_of, paid_at
from solver.search.branching.walk import Delivered, InnerTiles, Node, NodeState, Walk, unmoved
from solver.search.goal import SLACK, Goal
from solver.search.space.lattice import INFINITY
from solver.search.space.orders import OrderClass, SlotOrders
from solver.search.space.spatial import StageChoice
from solver.search.stopping import Stop
from solver.search.subproblems.loads import LoadSubproblem, Searchable


@dataclass(frozen=True)
class LoadBounds:
    """Bounds on one load, to be looked at beside other bounds of the same mappings.

    Parameters
    ----------
    sub, bounds
        The mappings with their loads as prices, and the bounds of that.
    energy
        What all of them take at least.
    """

    sub: LoadSubproblem
    bounds: LatticeBounds[LoadSubproblem]
    energy: int = 0

    @cached_property
    def _once(self) -> tuple[int, ...]:
        """Per level, what its boundaries and those inside cost at least."""
        by_level = [sum(b.once for b in boundaries) for boundaries in self.bounds.boundaries.by_level]
        return tuple(sum(by_level[level:]) for level in range(len(by_level) + 1))

    def limit(self, goal: Goal) -> int:
        """Least load that can no longer improve."""
        return self.sub.limit(goal, self.energy)

    def possible(self, level: int, tiles: IntArray) -> BoolArray:
        """Tiles of `level` below which a mapping may be left."""
        return np.isin(tiles, self.bounds.stages[level - 1].tiles)

    def with_inside(self, walk: Walk, level: int, loads: FloatArray) -> FloatArray:
        """Least load (parts) beside that of what is outside of a walk's tiles at `level` (cycles).

        Parameters
        ----------
        loads
            Of all that is outside, `level` included; shape (candidates, resources).

        Returns
        -------
        FloatArray
            Shape (candidates,); `INFINITY` for tiles that these bounds rule out, 0 without a resource.
        """
        if self.sub.resource is None:
            return np.zeros(len(loads))
        known, tiles = self.bounds.stages[level - 1].tiles, walk.candidates.tiles
        places = np.minimum(np.searchsorted(known, tiles), len(known) - 1)
        inside = walk.inside(self.bounds, level, places) + float(self._once[level + 1])
        outside = loads[:, self.sub.resource] * float(self.sub.scale)
        return np.where(known[places] == tiles, outside + inside, float(INFINITY))


@dataclass(frozen=True, eq=False)
class Family:
    """Children with one spatial choice and one class of orders; all arrays have an entry per child.

    Parameters
    ----------
    spent, least
        As of `Node`, in quanta.
    values, busiest
        As of `Node`: the objective, and cycles.
    loads
        In cycles, shape (children, resources).
    delivered
        Words of one instance of each boundary at the level of the children.
    """

    walk: Walk
    spent: IntArray
    least: IntArray
    values: FloatArray
    busiest: FloatArray
    loads: FloatArray
    delivered: tuple[tuple[Boundary, IntArray], ...]

    def child(self, position: int) -> Node:
        """Return one of the children."""
        walk, node, candidates = self.walk, self.walk.node, self.walk.candidates
        factors, tile = candidates.member.factors, int(candidates.tiles[position])
        extents = walk.space.lattice.vector(tile)
        delivered = ((b.place, b.level, int(words[position])) for b, words in self.delivered)
        return Node(
            level=node.level + 1,
            tile=tile,
            spent=int(self.spent[position]),
            least=int(self.least[position]),
            value=float(self.values[position]),
            busiest=float(self.busiest[position]),
            loads=self.loads[position],
            delivered=(*node.delivered, *delivered),
            in_place=tuple(int(run[position]) for run in walk.runs),
            signature=walk.signature(position),
            path=(*node.path, tuple(int(t) for t in candidates.loops[position])),
            orders=(*node.orders, walk.order),
            spatial=(*node.spatial, candidates.member),
            extents=(*node.extents, tuple(e * f for e, f in zip(extents, factors, strict=True))),
            moved=walk.moved(position),
            held=walk.held(position) if node.held else (),
            movers=walk.movers(position) if node.held else (),
            farther=walk.farther(position) if node.held else (),
            tiles=(*node.tiles, tile),
        )


def best_first(families: Sequence[Family], limit: Callable[[], int]) -> Iterator[Node]:
    """Yield the children by rising value, then cost; orders that make no difference yield one child.

    `limit` is asked anew for every child: it has none that takes as much or more.
    """
    if not families:
        return
    numbers = np.repeat(np.arange(len(families)), [len(family.least) for family in families])
    positions = np.concatenate([np.arange(len(family.least)) for family in families])
    values = np.concatenate([family.values for family in families])
    least = np.concatenate([family.least for family in families])
    seen = set()
    for place in np.lexsort((least, values)).tolist():
        if least[place] >= limit():
            continue
        family = families[numbers[place]]
        child = family.child(int(positions[place]))
        key = (child.spatial[-1], child.delivered, child.state(family.walk.space.views))
        if key not in seen:
            seen.add(key)
            yield child


class Branching:
    """Enumerates the mappings of a subproblem that can still improve on the incumbent.

    Parameters
    ----------
    bounds
        Of the cost that leads the search.
    goal
        Read anew at every node.
    orders
        Of each slot, outermost level first.
    stop
        Asked at every node; once it answers True nothing more comes.
    budget
        Nodes that may be opened; None is no limit.
    loads
        Bounds on other costs of the same mappings.
    """

    def __init__(
        self,
        bounds: LatticeBounds[Searchable],
        goal: Goal,
        orders: tuple[SlotOrders, ...],
        stop: Stop,
        budget: int | None,
        loads: Sequence[LoadBounds] = (),
    ) -> None:
        self.bounds = bounds
        self.sub = bounds.sub
        self.space = bounds.space
        self.goal = goal
        self.orders = orders
        self.stop = stop
        self.budget = budget
        self.loads = loads
        self.expanded = 0
        # Nodes whose inside the bounds ruled out: nodes in the same state that spent more are ruled out too.
        self._refuted: dict[NodeState, list[Node]] = {}
        # Nodes that only the cost model's cycles ruled out, and so all that deliver the same words.
        self._refuted_alike: set[tuple[NodeState, Delivered]] = set()
        self._joint = JointPlaces(self.space, self.sub.mask)
        # Words of leaves that led to skeletons, where words tell all costs.
        self._led_to_skeletons: set[Delivered] = set()
        # Leaves that only these ruled out: other words may take as many cycles.
        self._ties = 0
        # Nodes that only what is handed out ruled out: no state tells of it.
        self._dearer = 0

    def skeletons(self) -> Iterator[Skeleton]:
        """All factor choices whose lower bound can still improve, most promising first.

        The goal's incumbent may change while this runs; what can no longer improve is skipped.
        """
        views = self.space.views
        root = Node(
            level=0,
            tile=self.space.lattice.size - 1,
            spent=0,
            least=int(self.bounds.inside[0][CLOSED][0]),
            value=0.0,
            busiest=0.0,
            loads=self.sub.base_loads,
            delivered=(),
            in_place=(1,) * len(views),
            signature=None,
            path=(),
            orders=(),
            spatial=(),
            extents=(),
            moved=tuple(unmoved(view) for view in views),
            held=(frozenset(),) * len(views) if self.space.uneven else (),
            movers=(None,) * len(views) if self.space.uneven else (),
            farther=((),) * len(views) if self.space.uneven else (),
            tiles=(self.space.lattice.size - 1,),
        )
        yield from self._visit(root)

    @property
    def exhausted_budget(self) -> bool:
        """Whether nodes were left out because the budget was used up."""
        return self.budget is not None and self.expanded > self.budget

    def limit_nodes(self, more: int) -> None:
        """Leave at most `more` nodes of the budget."""
        most = self.expanded + more
        self.budget = most if self.budget is None else min(self.budget, most)

    @cached_property
    def _busiest(self) -> float:
        """Cycles that every mapping takes at least, without latencies."""
        return float(self.bounds.model_cycles - self.space.latency)

    @cached_property
    def _multicast(self) -> WindowMulticast:
        return WindowMulticast(self.sub.origin if isinstance(self.sub, LoadSubproblem) else self.sub)

    def _limit(self) -> int:
        return self.bounds.room(self.sub.limit(self.goal))

    def _visit(self, node: Node) -> Iterator[Skeleton]:
        if node.least >= self._limit() or self.exhausted_budget or self.stop():
            return
        if not self._may_improve(node, self.sub.cycles(np.array(node.busiest))):
            return
        state = (*node.state(self.space.views), self._joint.state(node))
        if self._ruled_out(node, state):
            return
        self.expanded += 1
        if self.exhausted_budget:
            return
        improved, ties, dearer = False, self._ties, self._dearer
        for skeleton in self._inside(node):
            improved = True
            yield skeleton
        if improved or self._dearer > dearer or self.exhausted_budget or self.stop():
            return
        if self._ties == ties:
            self._refuted.setdefault(state, []).append(node)
        else:
            self._refuted_alike.add((state, node.delivered))

    def _ruled_out(self, node: Node, state: NodeState) -> bool:
        """Whether other nodes or exact prices tell that nothing inside of a node improves."""
        if (state, node.delivered) in self._refuted_alike:
            return True
        if any(self._no_better(node, other) for other in self._refuted.get(state, ())):
            return True
        if self._may_improve_exactly(node):
            return False
        self._dearer += 1
        return True

    def _may_improve_exactly(self, node: Node) -> bool:
        """Whether mappings of `node` may improve once it is known what its fanouts hand out."""
        if self.space.uneven:
            return True
        spent, loads = self._multicast.beyond(node)
        if not spent and not loads.any():
            return True
        inside = self.bounds.loads_inside[node.level]
        busiest = (node.loads + loads + inside).max(initial=node.busiest)
        if isinstance(self.sub, LoadSubproblem):
            spent = 0
        return self._may_improve(node, self.sub.cycles(np.array(busiest)), spent)

    def _no_better(self, node: Node, other: Node) -> bool:
        """Whether `other`, in the same state, spent no more on anything."""
        no_dearer = self._unrounded_cost(other) <= self._unrounded_cost(node)
        return no_dearer and bool((other.loads <= node.loads).all())

    def _may_improve(self, node: Node, cycles: int, beyond: int = 0) -> bool:
        """Whether mappings of `node` may improve that take `cycles`, and `beyond` quanta above its bound."""
        least = self.bounds.constant + (node.least + beyond) * self.sub.quantum
        return self.sub.improves(self.goal, least, cycles)

    @cached_property
    def _unrounded(self) -> Searchable:
        return replace(self.sub, quantum=1)

    def _unrounded_cost(self, node: Node) -> int:
        """What the boundaries of a node and outside cost, without rounding; comparable with other nodes'."""
        if self.sub.quantum == 1 or self.space.uneven:
            return node.spent
        prices = self._unrounded.prices
        return sum(prices[place][level].exact(words) for place, level, words in node.delivered)

    def _too_dear(self, node: Node) -> bool:
        """Whether a leaf is no better than the incumbent once its prices are not rounded."""
        if self.sub.quantum == 1 or self.space.uneven:
            return False
        least = self._unrounded.constant + self._unrounded_cost(node)
        return not self.sub.improves(self.goal, least, self.sub.cycles(np.array(node.busiest)))

    def _tied(self, node: Node) -> bool:
        """Whether a leaf is no better than the incumbent once the cost model's cycles are known."""
        if not len(node.loads) or self.space.uneven:
            return False
        words = {(place, level): words for place, level, words in node.delivered}
        return not self._may_improve(node, self.sub.model_cycles(words))

    def _inside(self, node: Node) -> Iterator[Skeleton]:
        if node.level == len(self.space.levels) - 1:
            if self._too_dear(node):
                return
            if self._tied(node):
                self._ties += 1
                return
            yield from self._first_leaves(node)
            return
        for child in best_first(list(self._families(node)), self._limit):
            if self.exhausted_budget or self.stop():
                return
            yield from self._visit(child)

    def _first_leaves(self, node: Node) -> Iterator[Skeleton]:
        """The skeletons of a leaf, unless others are known that cost the same."""
        alike = not self.space.by_order and not self.space.window_dims
        if alike and node.delivered in self._led_to_skeletons:
            self._ties += 1
            return
        for skeleton in self._leaves(node):
            self._led_to_skeletons.add(node.delivered)
            yield skeleton
            if alike:
                return

    def _leaves(self, node: Node) -> Iterator[Skeleton]:
        lattice, slot = self.space.lattice, self.space.slots[-1]
        if self.space.uneven:
            yield from self._uneven_leaves(node)
            return
        extents = lattice.vector(node.tile)
        for member in self.sub.spatial[-1].members:
            pairs = list(zip(extents, member.factors, strict=True))
            if any(extent % factor for extent, factor in pairs):
                continue
            factors = tuple(extent // factor for extent, factor in pairs)
            allowed = all(f in own for f, own in zip(factors, slot.allowed, strict=True))
            if allowed and self._joint.finished(node, factors):
                yield Skeleton(self.space, self.sub.mask, (*node.path, factors), (*node.spatial, member))

    def _uneven_leaves(self, node: Node) -> Iterator[Skeleton]:
        """Skeletons of a leaf with remainders."""
        for member in self.sub.spatial[-1].members:
            variants = Variants(self.space, node, member, self.goal.counts_cycles, self._joint)
            found = variants.of_factors(lambda steps: self._may_take(node, steps))
            for temporal, steps in takewhile(lambda own: not self.stop(), found):
                spatial, least = (*node.spatial, member), self._least_of(node, steps)
                mask, bounds, classes = self.sub.mask, self.bounds, node.orders
                yield UnevenSkeleton(
                    self.space, mask, temporal, spatial, bounds=bounds, classes=classes, least=least
                )

    def _may_take(self, node: Node, steps: int) -> bool:
        """Whether mappings of a leaf may improve whose compute takes so many cycles."""
        busiest = max(node.busiest, float(steps))
        return self._may_improve(node, self.sub.cycles(np.array(busiest)))

    def _least_of(self, node: Node, steps: int) -> tuple[int, int]:
        """Energy units and cycles of a leaf, at least."""
        cycles = self.sub.cycles(np.array(max(node.busiest, float(steps))))
        if isinstance(self.sub, LoadSubproblem):
            return 0, cycles
        waiting = (cycles - self.sub.least_cycles) * self.sub.leak_per_cycle
        return self.bounds.constant + node.least * self.sub.quantum + waiting, cycles

    def _steps(self, walk: Walk) -> float:
        """Cycles that the compute takes at least, with the spatial choices so far."""
        if not self.space.uneven:
            return self._busiest
        known = [choice.factors for choice in (*walk.node.spatial, walk.candidates.member)]
        rounds = 1
        for d, bound in enumerate(self.space.lattice.bounds):
            unrolled = math.prod(factors[d] for factors in known)
            for stage in self.sub.spatial[len(known) :]:
                unrolled *= max(member.factors[d] for member in stage.members)
            rounds *= -(-bound // unrolled)
        return max(self._busiest, float(rounds))

    def _roomy(self, node: Node, candidates: InnerTiles) -> BoolArray:
        """Candidates outside of which all tiles may fit: these are larger than the least of their number."""
        lattice, fits = self.space.lattice, np.ones(len(candidates.tiles), dtype=np.bool_)
        extents = lattice.extents[candidates.tiles]
        outward = [
            (candidates.loops, candidates.member),
            *zip(reversed(node.path), reversed(node.spatial), strict=True),
        ]
        # The tile of the outermost level is everything.
        for level, (loops, member) in zip(range(node.level, 0, -1), outward, strict=False):
            unrolled = np.array(member.factors, dtype=np.int64)
            spans = extents * unrolled * np.array(loops, dtype=np.int64)
            extents = np.minimum(spans, np.array(lattice.bounds, dtype=np.int64))
            fits &= self.space.holds(level, self.space.tenants(self.sub.mask, level), extents)
        return fits

    def _unevenly(self, walk: Walk, boundary: Boundary, spent: IntArray, loads: FloatArray) -> IntArray:
        """Add what a boundary costs, and what it loads resources with; return the words that arrive."""
        words, paid = UnevenWords(walk, boundary), paid_at(self.sub, boundary)
        spent += np.clip(cost_of(self.sub, words, paid) - boundary.once, 0, INFINITY)
        for own in paid:
            for resource, cycles in own.loads:
                loads[:, resource] += np.maximum(words.of(own) - own.free, 0) * float(cycles)
        return words.arriving

    def _families(self, node: Node) -> Iterator[Family]:
        stage = self.bounds.stages[node.level]
        candidates = self._promising(node, stage)
        for member in self.sub.spatial[node.level].members:
            if self.stop():
                return
            yield from self._extend(node, stage, candidates, member)

    def _promising(self, node: Node, stage: StageTables) -> IntArray:
        """Places in ``stage.tiles`` that some class of orders leaves below the limit."""
        return np.flatnonzero((stage.least < self._limit() - node.spent) & self._loadable[node.level])

    @cached_property
    def _loadable(self) -> tuple[BoolArray, ...]:
        """Per level, the tiles of the stage below it that the bounds of every load leave."""
        by_level = []
        for level, stage in enumerate(self.bounds.stages, start=1):
            possible = np.ones(len(stage.tiles), dtype=np.bool_)
            for load_bounds in self.loads:
                possible &= load_bounds.possible(level, stage.tiles)
            by_level.append(possible)
        return tuple(by_level)

    def _extend(
        self, node: Node, stage: StageTables, places: IntArray, member: StageChoice
    ) -> Iterator[Family]:
        """Children of `node` with the spatial choice `member`, over the tiles at `places`."""
        candidates = self._candidates(node, stage, places, member)
        if len(candidates.tiles) == 0:
            return
        orders = self.orders[node.level]
        idle = candidates.loops[:, list(orders.useful)].prod(axis=1) == 1
        for number, order in enumerate(orders.classes):
            possible = self._possible(candidates.loops, order, orders.fixed) | (idle & (number == 0))
            if possible.any():
                yield from self._ordered(node, candidates.only(possible), order)

    @staticmethod
    def _possible(loops: IntArray, order: OrderClass, fixed: int) -> BoolArray:
        """Candidates for which a class is looked at.

        Its first open group has loops; otherwise another class starts with the next.
        """
        if fixed >= len(order.groups):
            return np.zeros(len(loops), dtype=np.bool_)
        possible: BoolArray = loops[:, list(order.groups[fixed].dims)].prod(axis=1) > 1
        return possible

    def _candidates(
        self, node: Node, stage: StageTables, places: IntArray, member: StageChoice
    ) -> InnerTiles:
        lattice, slot = self.space.lattice, self.space.slots[node.level]
        tiles = stage.tiles[places]
        fits = lattice.fitting(tiles, member.code(lattice), node.tile)
        places, tiles = places[fits], tiles[fits]
        rows, loops = slot.loops_between(node.tile, tiles, member.factors)
        candidates = InnerTiles(places[rows], tiles[rows], loops, member)
        return candidates.only(self._joint.possible(node, candidates)) if self._joint else candidates

    def _ordered(self, node: Node, candidates: InnerTiles, order: OrderClass) -> Iterator[Family]:
        """Children of `node` whose loops are in an order of this class."""
        yield from self._priced(Walk(self.space, node, candidates, order))
        if not self.space.window_dims or not self.space.by_order:
            return
        apart = Walk(self.space, node, candidates, order, together=False)
        if apart.splits.any():
            chosen = candidates.only(apart.splits)
            yield from self._priced(Walk(self.space, node, chosen, order, together=False))

    def _priced(self, walk: Walk) -> Iterator[Family]:
        """The children that a walk leads to, if any of them may improve."""
        node, candidates, level = walk.node, walk.candidates, walk.node.level + 1
        spent = np.full(len(candidates.tiles), node.spent, dtype=np.int64)
        loads = np.repeat(node.loads[None, :], len(candidates.tiles), axis=0)
        boundaries = self.bounds.boundaries.by_level[level]
        if self.space.uneven:
            delivered = tuple(
                (boundary, self._unevenly(walk, boundary, spent, loads)) for boundary in boundaries
            )
            if level == len(self.space.levels) - 1:
                spent += self.sub.operands_beyond(candidates.tiles)
        else:
            delivered = tuple((boundary, walk.delivered(boundary)) for boundary in boundaries)
            for boundary, words in delivered:
                spent += boundary.extra(words)
                boundary.price.add_loads(words, loads)
        least = np.minimum(spent + walk.inside(self.bounds, level, candidates.places), INFINITY)
        busiest = (loads + self.bounds.loads_inside[level]).max(axis=1, initial=self._steps(walk))
        keep = least < self._limit()
        for load_bounds in self.loads:
            parts = load_bounds.with_inside(walk, level, loads) * SLACK
            keep &= parts < float(load_bounds.limit(self.goal))
            busiest = np.maximum(busiest, parts / float(load_bounds.sub.scale))
        energies, cycles = self.sub.costs(least, self.bounds.constant, busiest)
        keep &= self.goal.hopeful(energies, cycles)
        values = self.goal.values(energies, cycles)
        if self.space.uneven:
            keep[keep] = self._roomy(node, candidates.only(keep))
        if not keep.any():
            return
        # All families of a node are at hand at once: what is known of other candidates would take memory.
        walk = Walk(self.space, node, candidates.only(keep), walk.order, walk.together)
        kept = tuple((boundary, words[keep]) for boundary, words in delivered)
        yield Family(walk, spent[keep], least[keep], values[keep], busiest[keep], loads[keep], kept)
