"""The counting rules: how words and cycles of a mapping are counted, and which parts support which rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Literal, Protocol

from model.architecture import Architecture, Fanout, StorageLevel
from model.counting.cycles import Demand, exact_cycles, timeloop_cycles, unrounded_cycles
from model.counting.partition import partition_words
from model.counting.words import (
    Change,
    Move,
    covered_words,
    distinct_offsets,
    exact_changes,
    extents,
    place_changes,
    tile_words,
    timeloop_changes,
)
from model.problem import Dataspace, Problem

Counting = Literal["exact", "timeloop", "accelforge"]
EXACT: Counting = "exact"
TIMELOOP: Counting = "timeloop"
ACCELFORGE: Counting = "accelforge"


class Loops(Protocol):
    """The loops of a mapping as counting rules need them; `model.cost.nest.Nest` implements this."""

    @property
    def bounds(self) -> Sequence[Mapping[str, int]]:
        """Per node, and for the compute, iterations of each dimension in a tile."""
        ...

    def moves_above(self, space: Dataspace, position: int) -> Iterator[Move]:
        """Yield the temporal loops above a node, innermost first."""
        ...

    def spatial_moves(self, space: Dataspace, position: int) -> Iterator[Move]:
        """Yield the spatial loops of a fanout, innermost first."""
        ...


Touched = Callable[[int, int], int]
"""Words by two positions, that of the node outside first; see `CountingRule.touched`."""


@dataclass(frozen=True)
class CountingRule:
    """A counting rule; `rule_of` returns one by its name.

    Parameters
    ----------
    name, title, description
        Its name in specs and documents, its name in messages, and its description in reports.
    changes
        The words that each temporal loop above a tile brings into it, given the tile's extents and the
        loops, innermost first.
    touched
        Given a dataspace: the distinct words of it that the tiles at or inside a node ever take under one
        instance of a node at or outside it; both by position, the node outside first.
    cycles, latency
        Cycles that a level needs, given the steps of the compute and the words of its dataspaces; and
        the same, not rounded where the rule does not round.
    copies
        Accesses above a fanout that serve all of its children, given its spatial loops.
    drains_are_reads
        Whether draining words to the outer level reads them.
    is_executed
        Whether it counts the words that an execution moves.
    by_order
        Whether the order of loops determines which tiles stay in place; otherwise only their places do.
    looks_once
        Whether it considers only the first two iterations of each loop: then a tile keeps words only
        where it moves as the innermost loop moves it, and counts may be lower than those of an execution.
    rounds_cycles
        Whether cycles are rounded up before they leak energy.
    is_general
        Whether batches and all searches support it; otherwise only `model.cost.evaluate` and the search by
        bounds do.
    is_formulated
        Whether the CP-SAT formulation supports it.
    lack_of_remainders
        The phrase of messages that the rule does not count remainders; None if it does.
    rounds_counts
        Whether batches may round counts beyond 2^53.
    links, given, sparse, fused, in_any_order
        Whether link transfers, given first values of outputs, sparse data, fused mappings, and mappings whose
        memories lie in any order are counted.
    certifies_ports
        Whether the checker of certificates supports ports with this rule.
    has_places
        Whether memories have several places by default.
    compared_with, finding
        Name of the rule that also prices a given mapping for comparison, and the sentence that states the
        figure of this rule.
    """

    name: Counting
    title: str
    description: str
    changes: Callable[[Sequence[int], Iterable[Move]], Iterator[Change]]
    touched: Callable[[Architecture, Loops, Dataspace], Touched]
    cycles: Callable[[StorageLevel, int, Iterable[Demand]], int]
    latency: Callable[[StorageLevel, int, Iterable[Demand]], int | Fraction]
    compared_with: Counting
    finding: str
    copies: Callable[[Iterable[Move]], int] = distinct_offsets
    drains_are_reads: bool = False
    is_executed: bool = False
    by_order: bool = True
    looks_once: bool = False
    rounds_cycles: bool = True
    is_general: bool = True
    is_formulated: bool = False
    lack_of_remainders: str | None = None
    rounds_counts: bool = False
    links: bool = False
    given: bool = True
    sparse: bool = True
    fused: bool = True
    in_any_order: bool = True
    certifies_ports: bool = False
    has_places: bool = False

    @property
    def remainders(self) -> bool:
        """Whether remainders are counted."""
        return self.lack_of_remainders is None

    def check_given(self, problem: Problem) -> None:
        """Raise a ValueError if first values of outputs are given and the rule does not count them."""
        for space in problem.dataspaces:
            if space.given and not self.given:
                raise ValueError(f"given first values of {space.name!r} are not supported by {self.title}")

    def delivered_words(self, tile: Sequence[int], moves: Iterable[Move]) -> int:
        """Words that one instance receives while temporal loops above it run.

        Parameters
        ----------
        tile
            Extent per rank.
        moves
            The loops, innermost first.

        Returns
        -------
        int
            Words of the first tile, and those that every loop brings whenever it advances.
        """
        return math.prod(tile) + sum(change.repeats * change.words for change in self.changes(tile, moves))


def _covered_by_loops(architecture: Architecture, nest: Loops, space: Dataspace) -> Touched:
    """Words that the tiles cover while all loops run except the outer spatial ones."""

    def touched(outer: int, inner: int) -> int:
        between = (node for node in architecture.fanout_indices if outer < node < inner)
        spatial = chain.from_iterable(nest.spatial_moves(space, node) for node in between)
        tile = extents(space, nest.bounds[inner])
        return covered_words(tile, chain(nest.moves_above(space, inner), spatial))

    return touched


def _partitions(architecture: Architecture, nest: Loops, space: Dataspace) -> Touched:
    """Timeloop's partitions: shares of the whole tensor."""
    parts = partition_words(architecture, [tile_words(space, bounds) for bounds in nest.bounds])
    return lambda outer, inner: parts[outer]


def _inner_tile_placed(architecture: Architecture, nest: Loops, space: Dataspace) -> Touched:
    """The inner tile, once for each loop outside that moves it."""

    def touched(outer: int, inner: int) -> int:
        between = (node for node in architecture.fanout_indices if outer < node < inner)
        spatial = chain.from_iterable(_unshared_moves(architecture, nest, space, node) for node in between)
        moving = (bound for bound, move in chain(nest.moves_above(space, inner), spatial) if any(move))
        return tile_words(space, nest.bounds[inner]) * math.prod(moving)

    return touched


def _unshared_moves(
    architecture: Architecture, nest: Loops, space: Dataspace, position: int
) -> Iterator[Move]:
    """Yield the spatial loops of a fanout; without multicast all of them count as moving the tile."""
    fanout = architecture.nodes[position]
    is_unshared = isinstance(fanout, Fanout) and space.name in fanout.no_multicast
    for bound, move in nest.spatial_moves(space, position):
        yield bound, (1,) * max(1, len(move)) if is_unshared else move


def _moving_loops(moves: Iterable[Move]) -> int:
    """Product of the loops that move a tile, even where children meet at one position."""
    return math.prod(bound for bound, move in moves if any(move))


_RULES: dict[Counting, CountingRule] = {
    EXACT: CountingRule(
        EXACT,
        "the exact rule",
        "words moved by an execution",
        changes=exact_changes,
        touched=_covered_by_loops,
        cycles=exact_cycles,
        latency=exact_cycles,
        compared_with=TIMELOOP,
        finding="an execution of this mapping takes {}",
        is_executed=True,
        is_formulated=True,
        rounds_counts=True,
    ),
    TIMELOOP: CountingRule(
        TIMELOOP,
        "Timeloop's rule",
        "Timeloop's rule since January 2025",
        changes=timeloop_changes,
        touched=_partitions,
        cycles=timeloop_cycles,
        latency=timeloop_cycles,
        compared_with=EXACT,
        finding="Timeloop's rule counts {} for this mapping",
        looks_once=True,
        lack_of_remainders="Timeloop miscounts",
        links=True,
        fused=False,
        in_any_order=False,
    ),
    ACCELFORGE: CountingRule(
        ACCELFORGE,
        "AccelForge's rule",
        "AccelForge's rule",
        changes=place_changes,
        touched=_inner_tile_placed,
        cycles=exact_cycles,
        latency=unrounded_cycles,
        compared_with=EXACT,
        finding="AccelForge's rule counts {} for this mapping",
        copies=_moving_loops,
        drains_are_reads=True,
        by_order=False,
        rounds_cycles=False,
        is_general=False,
        lack_of_remainders="AccelForge does not know",
        given=False,
        sparse=False,
        certifies_ports=True,
        has_places=True,
    ),
}

PRICED_COUNTINGS: tuple[Counting, ...] = tuple(_RULES)
"""Names of all rules: given mappings are priced by any."""

COUNTINGS: tuple[Counting, ...] = tuple(name for name, rule in _RULES.items() if rule.is_general)
"""Names of the rules that all searches know."""


def rule_of(counting: Counting) -> CountingRule:
    """Return the rule of a name out of `PRICED_COUNTINGS`."""
    return _RULES[counting]
