"""One dimension: a path from the single iteration of the arithmetic out to the whole bound.

Every node of the architecture is a step of the path, from the extent of the tile inside of its loop to the
one outside. Paths are all chains of factors that the rules allow, whatever set of extents the mapspace has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from model.choices import allowed_factors
from model.extents import tiles_of
from model.mapspace import Mapspace
from solver.cpsat import Literal
from solver.formulation.program import EmptyProgramError, LiteralChoice, Program
from solver.result import TooLargeError

MOST_ARCS = 50_000
"""Steps between extents of one dimension that a formulation may have in one node."""

Tally = tuple[int, int]
"""Different positions of some loops: within a full tile, and within the last one."""


@dataclass(frozen=True)
class LoopArc:
    """A loop of a node: from the extent inside of it to the one outside."""

    inner: int
    factor: int
    outer: int


Layer = dict[int, Literal]
"""Extents of the tile at a boundary between nodes, each with its literal."""


class Chain:
    """The loops over one dimension, node by node, as a path through extents.

    Parameters
    ----------
    program
        What the literals belong to.
    mapspace, dim
        The dimension and its rules.

    Raises
    ------
    EmptyProgramError
        No chain of factors is allowed.
    TooLargeError
        There are too many extents to list.
    """

    def __init__(self, program: Program, mapspace: Mapspace, dim: str) -> None:
        self.program = program
        self.dim = dim
        self.bound = mapspace.problem.bound[dim]
        arcs = _reachable(mapspace, dim)
        self.nodes = len(arcs)
        self.steps: list[dict[LoopArc, Literal]] = [{} for _ in arcs]
        self.layers: list[Layer] = [{} for _ in range(self.nodes + 1)]
        self.layers[self.nodes] = {1: program.true}
        for node in reversed(range(self.nodes)):
            self._add_step(node, arcs[node])
        self._tallies: dict[tuple[frozenset[int], ...], LiteralChoice[tuple[int, ...]]] = {}

    def _add_step(self, node: int, arcs: Sequence[LoopArc]) -> None:
        """Let a path leave each extent inside of a node by one arc, and enter one extent outside."""
        inside = self.layers[node + 1]
        for extent, literal in inside.items():
            own = [arc for arc in arcs if arc.inner == extent]
            self.steps[node] |= self._split(own, literal, f"{self.dim}{node}")
        entering: dict[int, list[Literal]] = {}
        for arc, literal in self.steps[node].items():
            entering.setdefault(arc.outer, []).append(literal)
        whole = len(entering) == 1
        self.layers[node] = {
            extent: self.program.true if whole else self.program.any_of(parts, f"x{node}{self.dim}={extent}")
            for extent, parts in entering.items()
        }

    def _split(self, arcs: Sequence[LoopArc], whole: Literal, name: str) -> dict[LoopArc, Literal]:
        if len(arcs) == 1:
            return {arcs[0]: whole}
        literals = [self.program.literal(f"{name}:{arc.inner}*{arc.factor}") for arc in arcs]
        self.program.equal(literals, whole)
        return dict(zip(arcs, literals, strict=True))

    @cached_property
    def live(self) -> frozenset[int]:
        """Nodes whose loop may have more than one iteration."""
        return frozenset(
            node for node, steps in enumerate(self.steps) if any(arc.factor > 1 for arc in steps)
        )

    def extent(self, layer: int) -> LiteralChoice[int]:
        """The extent of the tile outside of the node at a position; at the number of nodes it is 1."""
        own = self.layers[layer]
        return LiteralChoice(tuple(own), tuple(own.values()))

    def factor(self, node: int) -> LiteralChoice[int]:
        """The factor of a node's loop."""
        if node not in self._factors:
            steps = self.steps[node]
            every = LiteralChoice(tuple(steps), tuple(steps.values()))
            self._factors[node] = self.program.mapped(every, lambda arc: arc.factor, f"f{node}{self.dim}")
        return self._factors[node]

    @cached_property
    def _factors(self) -> dict[int, LiteralChoice[int]]:
        return {}

    def loop(self, node: int) -> Literal | None:
        """A literal for a loop of several iterations in a node, None if there is none."""
        steps = self.steps[node]
        every = LiteralChoice(tuple(steps), tuple(steps.values()))
        return self.program.holds(every, lambda arc: arc.factor > 1)

    # ------------------------------------------------------------ positions of some loops

    def positions(self, *classes: Collection[int]) -> LiteralChoice[tuple[int, ...]]:
        """How many different positions the loops of some nodes take over all iterations, class by class.

        Parameters
        ----------
        *classes
            Positions of nodes; no node is in two of them.

        Returns
        -------
        Choice
            Of tuples with one number per class: with perfect factors the product of its factors. With
            remainders iterations beyond the bound are not there; positions that only they have do not count.
        """
        key = tuple(frozenset(own) & self.live for own in classes)
        if key not in self._tallies:
            self._tallies[key] = self._counted(key)
        return self._tallies[key]

    def _counted(self, classes: Sequence[frozenset[int]]) -> LiteralChoice[tuple[int, ...]]:
        """Walk outwards; runs of nodes of one class at either end need no states of their own."""
        label = {node: number for number, own in enumerate(classes) for node in own}
        live = sorted(self.live)
        start, first = _first_break(live[::-1], label)
        stop, last = _first_break(live, label)
        begin = self.nodes if start is None else start + 1
        end = 0 if stop is None else stop
        if start is None or end >= begin:  # all nodes, or all up to one boundary, are of one class
            begin = end = self._boundary(live, label)
        states = {(x, self._begun(x, first, len(classes))): own for x, own in self.layers[begin].items()}
        for node in reversed(range(end, begin)):
            states = self._advance(node, states, label.get(node))
        every = LiteralChoice(tuple(states), tuple(states.values()))
        return self.program.mapped(every, lambda state: self._closed(*state, last), f"n{self.dim}")

    def _boundary(self, live: Sequence[int], label: dict[int, int]) -> int:
        """The boundary that separates the nodes of the outer class from those of the inner one."""
        outer = [node for node in live if label.get(node) == label.get(live[0])] if live else []
        return max(outer, default=-1) + 1

    def _begun(self, extent: int, label: int | None, classes: int) -> tuple[Tally, ...]:
        """Tallies at an extent, inside of which all loops are of one class, or of none."""
        inner = (extent, self._last(extent))
        return tuple(inner if number == label else (1, 1) for number in range(classes))

    def _last(self, extent: int) -> int:
        """Iterations of the last tile of an extent."""
        return self.bound - (self.bound - 1) // extent * extent

    def _advance(
        self, node: int, states: dict[tuple[int, tuple[Tally, ...]], Literal], label: int | None
    ) -> dict[tuple[int, tuple[Tally, ...]], Literal]:
        """Take every state through the arcs of a node; a state and an arc meet in a literal."""
        by_extent: dict[int, list[tuple[tuple[Tally, ...], Literal]]] = {}
        for (extent, tallies), literal in states.items():
            by_extent.setdefault(extent, []).append((tallies, literal))
        arrived: dict[tuple[int, tuple[Tally, ...]], list[Literal]] = {}
        for extent, own in by_extent.items():
            arcs = [arc for arc in self.steps[node] if arc.inner == extent]
            for (tallies, arc), literal in self._meetings(node, own, arcs).items():
                arrived.setdefault((arc.outer, self._moved(tallies, arc, label)), []).append(literal)
        return {state: self.program.any_of(parts) for state, parts in arrived.items()}

    def _meetings(
        self, node: int, states: Sequence[tuple[tuple[Tally, ...], Literal]], arcs: Sequence[LoopArc]
    ) -> dict[tuple[tuple[Tally, ...], LoopArc], Literal]:
        """A literal for every state and arc at one extent."""
        steps = self.steps[node]
        if len(states) == 1:
            return {(states[0][0], arc): steps[arc] for arc in arcs}
        if len(arcs) == 1:
            return {(tallies, arcs[0]): literal for tallies, literal in states}
        met = {(tallies, arc): self.program.literal() for tallies, _ in states for arc in arcs}
        for tallies, literal in states:
            self.program.equal([met[tallies, arc] for arc in arcs], literal)
        for arc in arcs:
            self.program.equal([met[tallies, arc] for tallies, _ in states], steps[arc])
        return met

    def _moved(self, tallies: tuple[Tally, ...], arc: LoopArc, label: int | None) -> tuple[Tally, ...]:
        """Tallies outside of an arc."""
        rounds = tiles_of(self._last(arc.outer), arc.inner)
        return tuple(
            (arc.factor * full, (rounds - 1) * full + last)
            if number == label
            else (full, full if rounds > 1 else last)
            for number, (full, last) in enumerate(tallies)
        )

    def _closed(self, extent: int, tallies: tuple[Tally, ...], label: int | None) -> tuple[int, ...]:
        """Totals over the whole dimension, all loops outside being of one class, or of none."""
        rounds = tiles_of(self.bound, extent)
        return tuple(
            (rounds - 1) * full + last if number == label else full if rounds > 1 else last
            for number, (full, last) in enumerate(tallies)
        )


def _first_break(live: Sequence[int], label: dict[int, int]) -> tuple[int | None, int | None]:
    """The first node whose class differs from those before, None if there is none; and their class."""
    own = label.get(live[0]) if live else None
    return next((node for node in live if label.get(node) != own), None), own


def _reachable(mapspace: Mapspace, dim: str) -> list[list[LoopArc]]:
    """The arcs of every node that lie on a path from a single iteration to the bound."""
    extents = mapspace.extents(dim)
    rules = mapspace.factor_rules
    arcs: list[list[LoopArc]] = [[] for _ in rules]
    inside = {1}
    for node in reversed(range(len(rules))):
        for extent in sorted(inside):
            tiles = extents.tiles(extent)
            factors = allowed_factors(rules[node], dim, tiles, extents.kind)
            arcs[node] += [LoopArc(extent, f, extents.grown(extent, f)) for f in factors]
        _check_arcs(dim, len(arcs[node]))
        inside = {arc.outer for arc in arcs[node]}
    outside = {mapspace.problem.bound[dim]}
    for node, own in enumerate(arcs):
        arcs[node] = [arc for arc in own if arc.outer in outside]
        outside = {arc.inner for arc in arcs[node]}
        if not outside:
            raise EmptyProgramError(f"no factors of {dim} are allowed")
    return arcs


def _check_arcs(dim: str, arcs: int) -> None:
    if arcs > MOST_ARCS:
        raise TooLargeError(
            f"the extents of {dim} allow {arcs:,} loops in one node, too many for a formulation"
        )
