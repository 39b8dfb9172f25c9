"""Skipping in space: instances that are not needed as what they would work on is empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.sparse.density import Distribution
from model.sparse.nest import Bounds, FullNest
from model.sparsity import Conditional


@dataclass
class Expansion:
    """Instances of a node, or of the arithmetic, as far as one dataspace goes.

    Parameters
    ----------
    x, y
        Most instances along either axis.
    share
        Average share that is needed of the instances of dense data.
    """

    x: int
    y: int
    share: float = 1.0


@dataclass(frozen=True)
class SpatialSkip:
    """A unit that skips instances below the node at `position`, for the accesses of `conditional`."""

    position: int
    conditional: Conditional


@dataclass(frozen=True)
class Instances:
    """Instances per dataspace and position; ``len(architecture.nodes)`` is the arithmetic.

    Parameters
    ----------
    expansions
        By dataspace.
    savings
        By dataspace and position of a unit, the share of instances below that is not needed.
    """

    expansions: dict[str, dict[int, Expansion]]
    savings: dict[str, dict[int, float]] = field(default_factory=dict)

    def average(self, dense: int, position: int, dataspaces: Sequence[str]) -> float:
        """Average number of instances that any of some dataspaces needs."""
        return max(dense * self.expansions[name][position].share for name in dataspaces)


def dense_instances(nest: FullNest, nodes: int) -> Instances:
    """Return the instances of dense data."""
    return Instances({name: _dense(nest, nodes) for name in nest.kept})


def _dense(nest: FullNest, nodes: int) -> dict[int, Expansion]:
    expansions: dict[int, Expansion] = {}
    x = y = 1
    for position in range(nodes):
        expansions[position] = Expansion(x, y)
        for index in nest.level(position):
            loop = nest.loops[index]
            x *= loop.bound if loop.axis == "x" else 1
            y *= loop.bound if loop.axis == "y" else 1
    expansions[nodes] = Expansion(x, y)
    return expansions


def needed_instances(
    nest: FullNest,
    nodes: int,
    skips: Sequence[SpatialSkip],
    announced: Mapping[str, frozenset[int]],
    distributions: Mapping[str, Distribution],
) -> Instances:
    """Return the instances that are needed.

    Parameters
    ----------
    nodes
        Number of nodes of the architecture.
    skips
        Units, innermost first.
    announced
        By dataspace, the levels that keep it with metadata: these know what is empty.
    distributions
        By dataspace.

    Notes
    -----
    Timeloop's order: what levels with metadata see of their own tiles comes first, then the units, and then
    the shares are handed on inwards, up to the next unit.
    """
    analysis = _SkippingAnalysis(nest, nodes, announced, distributions)
    expansions = {name: analysis.own(name) for name in nest.kept}
    before = {name: {p: replace(e) for p, e in of.items()} for name, of in expansions.items()}
    for skip in skips:
        analysis.skip(expansions[skip.conditional.target], skip)
    stops = {name: {s.position for s in skips if s.conditional.target == name} for name in nest.kept}
    for name, of_space in expansions.items():
        analysis.hand_on(of_space, before[name], stops[name])
    savings = {
        name: {place: 1 - expansions[name][place + 1].share for place in places}
        for name, places in stops.items()
    }
    return Instances(expansions, savings)


@dataclass(frozen=True)
class _SkippingAnalysis:
    nest: FullNest
    nodes: int
    announced: Mapping[str, frozenset[int]]
    distributions: Mapping[str, Distribution]

    def own(self, name: str) -> dict[int, Expansion]:
        """Return what a dataspace's own metadata saves, handed on inwards."""
        expansions = _dense(self.nest, self.nodes)
        saving: set[int] = set()
        for position in range(self.nodes):
            if not self._knows(name, position):
                continue
            below = expansions[position + 1]
            shares = [self._narrow(below, name, box, place) for place, box in self._fibers(name, position)]
            if shares and shares[0] != 1:
                expansions[position + 1].share = shares[0]
                saving.add(position)
        self.hand_on(expansions, _dense(self.nest, self.nodes), saving)
        return expansions

    def skip(self, expansions: dict[int, Expansion], skip: SpatialSkip) -> None:
        """Narrow what a unit saves below its node."""
        share = 1.0
        for condition in skip.conditional.conditions:
            if not self._knows(condition, skip.position):
                continue
            fibers = [
                (index, self._met(box, index, skip, condition))
                for index, box in self._fibers(condition, skip.position)
            ]
            below = expansions[skip.position + 1]
            shares = [self._narrow(below, condition, box, index) for index, box in fibers]
            share *= shares[0] if shares else 1.0
        expansions[skip.position + 1].share = share

    def hand_on(
        self, expansions: dict[int, Expansion], before: dict[int, Expansion], stops: set[int]
    ) -> None:
        """Hand on inwards what units have narrowed, its share up to the next unit."""
        for position in range(self.nodes):
            self._inwards(expansions, position, before, stops)

    def _inwards(
        self, expansions: dict[int, Expansion], position: int, before: dict[int, Expansion], stops: set[int]
    ) -> None:
        """Scale what is below a node's instances as these are scaled."""
        own, full = expansions[position], before[position]
        if (own.x, own.y) == (full.x, full.y):
            return
        passed = True
        for inner in range(position + 1, self.nodes + 1):
            passed = passed and inner - 1 not in stops
            if passed:
                expansions[inner].share *= own.share
            expansions[inner].x = expansions[inner].x * own.x // full.x
            expansions[inner].y = expansions[inner].y * own.y // full.y

    def _knows(self, name: str, position: int) -> bool:
        keeper = self.nest.keeper(name, position)
        return keeper is not None and keeper in self.announced[name]

    def _fibers(self, name: str, position: int) -> Iterator[tuple[int, Bounds]]:
        """Yield the spatial loops of a node that move a dataspace, with the iterations below each."""
        one = dict.fromkeys(self.nest.problem.dims, 1)
        dims = self.nest.space(name).dims
        for index in self.nest.level(position):
            loop = self.nest.loops[index]
            if loop.axis is not None and not loop.trivial and loop.dim in dims:
                yield index, dict(self.nest.boxes[index - 1]) if index else one

    def _met(self, box: Bounds, index: int, skip: SpatialSkip, condition: str) -> Bounds:
        """Return the iterations of a condition while the target's tile stays, where both move together."""
        nest, target = self.nest, skip.conditional.target
        moved = nest.space(target).dims
        keeper = nest.keeper(target, skip.position)
        inner = any(place > skip.position for place in nest.kept[target])
        if not inner or nest.loops[index].dim not in moved or keeper is None:
            return box
        for place in range(nest.level(skip.position).start, nest.level(keeper).stop):
            loop = nest.loops[place]
            if loop.trivial or loop.axis is not None:
                continue
            if loop.dim in moved:
                break
            box[loop.dim] *= loop.bound
        return box

    def _narrow(self, below: Expansion, name: str, box: Bounds, index: int) -> float:
        """Narrow the instances along one loop to the most that are not empty; return the average share."""
        nest, loop, distribution = self.nest, self.nest.loops[index], self.distributions[name]
        fiber = {**box, loop.dim: box[loop.dim] * loop.bound}
        element = nest.tile(name, box)
        pieces = distribution.most_pieces(nest.tile(name, fiber), element)
        if loop.axis == "x":
            below.x = below.x * pieces // loop.bound
        else:
            below.y = below.y * pieces // loop.bound
        return 1 - distribution.empty(element)
