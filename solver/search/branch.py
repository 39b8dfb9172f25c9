"""Exact branching inside a subproblem, from the outermost level inwards, guided by the lattice bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.search.bounds import Boundary, LatticeBounds, StageTables, ceil_div
from solver.search.completion import Skeleton
from solver.search.dataspaces import DataspaceView
from solver.search.goal import Goal
from solver.search.lattice import INFINITY, BoolArray, IntArray
from solver.search.orders import OrderClass, SlotOrders
from solver.search.space import SearchSpace
from solver.search.spatial import StageChoice
from solver.search.subproblem import Subproblem

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """A partial mapping: everything outside of the tile of `level` is decided.

    ``energy`` counts the boundaries of `level` and outside, exactly but for sliding windows, without
    the subproblem's constant. ``in_place[v]`` is the product of the loops directly outside of the
    tile that leave dataspace v in place, ``reuse_class`` the class of the innermost of them (None:
    no loop yet).
    """

    level: int
    tile: int
    energy: int
    least: int
    loads: FloatArray
    in_place: tuple[int, ...]
    signature: frozenset[int] | None
    path: tuple[tuple[int, ...], ...]
    spatial: tuple[StageChoice, ...]


def energy_room(sub: Subproblem, goal: Goal) -> int:
    """Quanta of energy beyond the subproblem's constant from which on nothing can improve."""
    room = goal.energy_limit(sub.least_cycles) - sub.constant
    return max(0, min(-(-room // sub.quantum), INFINITY))


class Branching:
    """Enumerates the mappings of a subproblem that can still improve on the incumbent."""

    def __init__(
        self,
        bounds: LatticeBounds,
        goal: Goal,
        orders: tuple[SlotOrders, ...],
        stop: Callable[[], bool],
    ) -> None:
        self.bounds = bounds
        self.sub = bounds.sub
        self.space = bounds.space
        self.goal = goal
        self.orders = orders
        self.stop = stop
        self.expanded = 0

    def skeletons(self) -> Iterator[Skeleton]:
        """All factor choices whose lower bound can still improve, most promising first.

        The goal's incumbent may change while this runs; what can no longer improve is skipped.
        """
        views = self.space.views
        whole = self.space.lattice.size - 1
        base = np.array(self.sub.base_loads, dtype=np.float64)
        least = int(self.bounds.inside[0][-1, 0])
        root = Node(0, whole, 0, least, base, (1,) * len(views), None, (), ())
        yield from self._visit(root)

    def _limit(self) -> int:
        return energy_room(self.sub, self.goal)

    def _visit(self, node: Node) -> Iterator[Skeleton]:
        if node.least >= self._limit() or self.stop():
            return
        self.expanded += 1
        if node.level == len(self.space.levels) - 1:
            yield from self._leaves(node)
            return
        for child in sorted(self._children(node), key=lambda n: n.least):
            yield from self._visit(child)

    def _leaves(self, node: Node) -> Iterator[Skeleton]:
        lattice, slot = self.space.lattice, self.space.slots[-1]
        extents = lattice.vector(node.tile)
        for member in self.sub.spatial[-1].members:
            pairs = list(zip(extents, member.factors, strict=True))
            if any(extent % factor for extent, factor in pairs):
                continue
            factors = tuple(extent // factor for extent, factor in pairs)
            if all(f in allowed for f, allowed in zip(factors, slot.allowed, strict=True)):
                yield Skeleton(
                    self.space, self.sub.mask, (*node.path, factors), (*node.spatial, member)
                )

    def _children(self, node: Node) -> Iterator[Node]:
        stage = self.bounds.stages[node.level]
        candidates = self._promising(node, stage)
        for member in self.sub.spatial[node.level].members:
            yield from self._extend(node, stage, candidates, member)

    def _promising(self, node: Node, stage: StageTables) -> IntArray:
        """Places in ``stage.tiles`` that some class of orders leaves below the limit."""
        limit = self._limit() - node.energy
        found = []
        for k, members in enumerate(self.bounds.classes):
            outside = sum(b.once for b in self.bounds.boundaries[node.level + 1] if b.counts_in(members))
            order, least = stage.order[k], stage.least[k]
            end = int(np.searchsorted(least[order], limit - outside))
            found.append(order[:end])
        return np.unique(np.concatenate(found))

    def _extend(
        self, node: Node, stage: StageTables, places: IntArray, member: StageChoice
    ) -> Iterator[Node]:
        """Children of `node` with the spatial choice `member`, over the tiles at `places`."""
        candidates = self._candidates(node, stage, places, member)
        if len(candidates.tiles) == 0:
            return
        orders = self.orders[node.level]
        idle = candidates.loops[:, list(orders.useful)].prod(axis=1) == 1
        seen = set()
        for number, order in enumerate(orders.classes):
            keep = self._leading(candidates.loops, order, orders.fixed) | (idle & (number == 0))
            for child in self._ordered(node, candidates, member, order, keep):
                key = (child.tile, child.energy, child.in_place, child.signature)
                if key not in seen:
                    seen.add(key)
                    yield child

    @staticmethod
    def _leading(loops: IntArray, order: OrderClass, fixed: int) -> BoolArray:
        """Candidates whose first open group has loops; otherwise another class starts with the next."""
        if fixed >= len(order):
            return np.zeros(len(loops), dtype=np.bool_)
        leading: BoolArray = loops[:, list(order[fixed].dims)].prod(axis=1) > 1
        return leading

    def _candidates(
        self, node: Node, stage: StageTables, places: IntArray, member: StageChoice
    ) -> _Candidates:
        lattice, slot = self.space.lattice, self.space.slots[node.level]
        tiles = stage.tiles[places]
        room = lattice.exponents[node.tile] - lattice.exponents[lattice.index(member.factors)]
        fits = (lattice.exponents[tiles] <= room).all(axis=1)
        places, tiles = places[fits], tiles[fits]
        inner = lattice.extents[tiles] * np.array(member.factors, dtype=np.int64)
        found = _Candidates(places, tiles, lattice.extents[node.tile] // inner)
        for d, allowed in enumerate(slot.allowed):
            if not slot.free[d]:
                found = found.only(np.isin(found.loops[:, d], sorted(allowed)))
        return found

    def _ordered(
        self,
        node: Node,
        candidates: _Candidates,
        member: StageChoice,
        order: OrderClass,
        keep: BoolArray,
    ) -> Iterator[Node]:
        """Children of `node` whose loops are in an order of this class."""
        level = node.level + 1
        walk = _Walk(self.space, node, candidates, order)
        energy = np.full(len(keep), node.energy, dtype=np.int64)
        loads = np.repeat(node.loads[None, :], len(keep), axis=0)
        for boundary in self.bounds.boundaries[level]:
            delivered = walk.delivered(boundary)
            energy += boundary.price.price(delivered)
            boundary.price.add_loads(delivered, loads)
        least = energy + walk.inside(self.bounds.inside[level], self.bounds.classes)
        cycles = np.maximum(loads.max(axis=1, initial=0.0) * (1 - 1e-12), float(self.sub.least_cycles))
        keep = keep & (least < self._limit())
        keep &= self.goal.hopeful(least * float(self.sub.quantum) + float(self.sub.constant), cycles)
        for i in np.flatnonzero(keep):
            yield Node(
                level,
                int(candidates.tiles[i]),
                int(energy[i]),
                int(least[i]),
                loads[i],
                tuple(int(run[i]) for run in walk.runs),
                walk.signature(i),
                (*node.path, tuple(int(t) for t in candidates.loops[i])),
                (*node.spatial, member),
            )


@dataclass(frozen=True)
class _Candidates:
    """Tiles one level inside a node: places in the stage's tables, lattice indices, loops between."""

    places: IntArray
    tiles: IntArray
    loops: IntArray

    def only(self, chosen: BoolArray) -> _Candidates:
        """The candidates where `chosen` is true."""
        return _Candidates(self.places[chosen], self.tiles[chosen], self.loops[chosen])


class _Walk:
    """Walks over the loops of one slot, innermost first, for many candidate tiles at once.

    ``runs[v]`` multiplies up the innermost loops that leave dataspace v in place, ``alive[v]`` tells
    whether that is all of them, and ``first`` numbers the group of the innermost loop, -1 for none.
    """

    def __init__(self, space: SearchSpace, node: Node, candidates: _Candidates, order: OrderClass) -> None:
        count = len(candidates.tiles)
        self.space = space
        self.node = node
        self.candidates = candidates
        self.order = order
        self.runs = [np.ones(count, dtype=np.int64) for _ in space.views]
        self.alive = [np.ones(count, dtype=np.bool_) for _ in space.views]
        self.first = np.full(count, -1, dtype=np.int64)
        self.slides: dict[tuple[int, int], BoolArray] = {}
        for number, group in enumerate(order):
            moving = self._product(group.dims) > 1
            self.first[(self.first < 0) & moving] = number
            for view in space.views:
                self._step(view, group.dims)
        for run, alive, outside in zip(self.runs, self.alive, node.in_place, strict=True):
            run[alive] *= outside

    def _product(self, dims: Sequence[int]) -> IntArray:
        product: IntArray = self.candidates.loops[:, list(dims)].prod(axis=1)
        return product

    def _step(self, view: DataspaceView, dims: tuple[int, ...]) -> None:
        place = view.place
        alive = self.alive[place]
        still = [d for d in dims if d in view.irrelevant]
        if still:
            self.runs[place][alive] *= self._product(still)[alive]
        if len(still) == len(dims):
            return
        moved = alive & (self._product([d for d in dims if d in view.relevant]) > 1)
        for c, component in enumerate(view.components):
            if component.sliding:
                sliding = moved & (self._product([d for d in component.dims if d in dims]) > 1)
                self.slides[place, c] = self.slides.get((place, c), False) | sliding
        self.alive[place] = alive & ~moved

    def delivered(self, boundary: Boundary) -> IntArray:
        """Words delivered per instance, a lower bound where windows slide, exact otherwise."""
        place = boundary.place
        tiles = self.candidates.tiles
        tables = self.space.tables[place]
        instances = boundary.sub.above[boundary.level]
        words = tables.plain_words[tiles]
        if not self.space.reuses(place, boundary.level):
            return ceil_div(words * tables.irrelevant_tiles[tiles], instances)
        for c, sliding in enumerate(tables.sliding_words):
            if sliding is not None:
                slides = self.alive[place] | self.slides[place, c]
                words = np.where(slides, np.minimum(words, sliding[tiles]), words)
        return -(-(words * tables.irrelevant_tiles[tiles]) // (instances * self.runs[place]))

    def inside(self, table: IntArray, classes: Sequence[frozenset[int]]) -> IntArray:
        """Lower bound on the energy of all boundaries inside the tiles (`table`: one row per class)."""
        result = np.full(len(self.first), INFINITY, dtype=np.int64)
        for number in range(-1, len(self.order)):
            chosen = self.first == number
            if chosen.any():
                rows = self._rows(number, classes)
                result[chosen] = table[rows][:, self.candidates.places[chosen]].min(axis=0)
        return result

    def _rows(self, number: int, classes: Sequence[frozenset[int]]) -> list[int]:
        signature = self._signature(number)
        if signature is None:
            return list(range(len(classes)))
        return [k for k, members in enumerate(classes) if signature & members] or [len(classes)]

    def _signature(self, number: int) -> frozenset[int] | None:
        return self.node.signature if number < 0 else self.order[number].signature

    def signature(self, candidate: int) -> frozenset[int] | None:
        """Dataspaces that the innermost loop outside of a candidate's tile leaves in place."""
        return self._signature(int(self.first[candidate]))
