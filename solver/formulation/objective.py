"""What a mapping costs, as sums of table entries: a lower bound on the plain cost model for every mapping.

A table belongs to one dataspace at one level, or to leakage. Each of its entries is a literal and what it
costs. Words are counted as totals over all instances: those of a dataspace without windows are

    words of the tensor * product over the dimensions that do not index it of different positions

where the positions of such a dimension are those of the loops outside of where its reuse ends, and of the
fanouts above the level that is read. docs/formulation.md derives this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

from model.architecture import BANDWIDTHS, StorageLevel
from model.cost.prices import network_latency, paying_instances
from model.counting.first_touches import reads_firsts
from model.counting.words import tile_words
from model.extents import PERFECT
from model.problem import Dataspace
from solver.cpsat import Literal
from solver.formulation.program import LARGEST_TOTAL, LiteralChoice, Number
from solver.formulation.tables import rank_groups
from solver.formulation.variables import Keepers, Variables
from solver.formulation.windows import (
    ACROSS,
    BACK,
    WHOLE,
    WindowLoops,
    WindowSteps,
    coefficient_of,
    distinct_words,
    fewest_in_steps,
    steps_of,
    window_words,
)

Entry = tuple[Literal, Fraction]
"""A literal, and what it costs where it holds."""


@dataclass(frozen=True)
class TabledCost:
    """Entries of which at most one holds, exactly one if it is complete; and whose costs they are."""

    entries: tuple[Entry, ...]
    complete: bool
    level: int | None = None
    dataspace: str = ""

    @property
    def least(self) -> Fraction:
        """The least that the table costs."""
        least = min((cost for _, cost in self.entries), default=Fraction(0))
        return least if self.complete else min(least, Fraction(0))

    @property
    def base(self) -> Fraction:
        """What the table costs in any case."""
        return self.least if self.complete else Fraction(0)


@dataclass(frozen=True)
class PortTime:
    """Time that a port of a memory takes, in cycles."""

    tables: tuple[TabledCost, ...]


@dataclass(frozen=True)
class Service:
    """A level that serves what is inside with a dataspace: `asking` is a level, None for the arithmetic."""

    level: int
    asking: int | None


class Reuse:
    """How far out the loops above a level leave a part of a tile in place.

    Parameters
    ----------
    variables
        Of the mapspace.
    moving
        Dimensions that move the tile elsewhere: no loop outside of one over them leaves the part in place.
    """

    def __init__(self, variables: Variables, moving: frozenset[str]) -> None:
        self._variables = variables
        self._program = variables.program
        self._moving = moving
        self._inside: dict[tuple[int, str], Literal] = {}
        self._ends: dict[tuple[int, str], list[tuple[int, Literal]]] = {}

    def ends(self, level: int, dim: str) -> list[tuple[int, Literal]]:
        """Where the reuse along a dimension may end: the outermost level whose loop is reused, and a literal.

        The level itself stands for no reuse. Exactly one of the literals holds. Mappings may reuse more than
        they claim; where it counts, the least cost is what a mapping that claims all of it has.
        """
        if (level, dim) not in self._ends:
            slots = self._variables.slots
            possible = [level, *(own for own in reversed(range(level)) if dim in slots[own].dims)]
            choice = self._program.choice(possible, f"reuse{level}{dim}")
            self._ends[level, dim] = list(choice.items())
            for own, literal in self._ends[level, dim][1:]:
                self._program.model.add_implication(literal, self.inside(own, dim))
            self._stop([own for own in self._ends[level, dim] if own[0] < level], level)
        return self._ends[level, dim]

    def _stop(self, ends: Sequence[tuple[int, Literal]], level: int) -> None:
        """Let reuse go on beyond a level only if it has no loops that move the tile."""
        for between in range(level):
            beyond = [literal for own, literal in ends if own < between]
            slot = self._variables.slots[between]
            for other in sorted(self._moving.intersection(slot.dims)) if beyond else ():
                self._program.model.add_at_most_one([*beyond, slot.live(other)])

    def inside(self, level: int, dim: str) -> Literal:
        """A literal that lets a loop of the level lie inside of all its loops that move the tile."""
        if (level, dim) not in self._inside:
            slot = self._variables.slots[level]
            literal = self._inside[level, dim] = self._program.literal(f"in{level}{dim}")
            slot.require_innermost(literal, [own for own in slot.dims if own not in self._moving])
            for other in sorted(self._moving.intersection(slot.dims)):
                slot.require_inside(literal, dim, other)
        return self._inside[level, dim]

    def reached(self, level: int, own: int, dim: str) -> Literal:
        """A new literal that asks for a loop of a level outside before anything has moved the tile away."""
        literal = self._program.literal(f"reached{level}{own}{dim}")
        self._program.model.add_implication(literal, self.inside(own, dim))
        self._program.model.add_implication(literal, self._variables.slots[own].live(dim))
        self._stop([(own, literal)], level)
        return literal


class View:
    """One dataspace: how its words follow from the variables.

    Parameters
    ----------
    variables
        Of the mapspace.
    space
        The dataspace.
    """

    def __init__(self, variables: Variables, space: Dataspace) -> None:
        self.space = space
        self._variables = variables
        self._program = variables.program
        self._bound = variables.mapspace.problem.bound
        self._groups = rank_groups(space, self._bound)
        indexing = {dim for group in self._groups for dim in group}
        self._indexing = frozenset(indexing)
        self._other = [dim for dim, bound in self._bound.items() if bound > 1 and dim not in indexing]
        self._alone = [group[0] for group in self._groups if len(group) == 1]
        self._windows = [group for group in self._groups if len(group) > 1]
        self._at_all = Reuse(variables, self._indexing)
        self._in_part = {group: Reuse(variables, self._indexing.difference(group)) for group in self._windows}
        self._until_moved = Reuse(variables, frozenset(self._alone))
        self._sweeps: dict[tuple[int, tuple[str, ...]], LiteralChoice[str]] = {}
        self._ends: dict[tuple[int, str], list[tuple[int, Literal]]] = {}

    @property
    def is_plain(self) -> bool:
        """Whether tiles are parts of the tensor that do not overlap, and have no holes."""
        return not self._windows and all(self._is_unit(dim) for dim in self._alone)

    def _ranks(self, dims: Sequence[str]) -> Dataspace:
        """The part of the dataspace that some dimensions index."""
        ranks = (
            tuple(term for term in rank if self._bound[term.dim] > 1)
            for rank in self.space.ranks
            if any(term.dim in dims for term in rank)
        )
        return Dataspace(self.space.name, tuple(ranks))

    def _is_unit(self, dim: str) -> bool:
        ranks = self._ranks([dim]).ranks
        return len(ranks) == 1 and abs(ranks[0][0].coefficient) == 1

    def _node(self, level: int | None) -> int:
        """Position of a level, or of the arithmetic."""
        return len(self._variables.architecture.nodes) if level is None else self._variables.positions[level]

    def ends(self, level: int, dim: str) -> list[tuple[int, Literal]]:
        """Where reuse along a dimension ends, see `Reuse.ends`.

        Loops over other dimensions leave all of a tile in place, those of a window a part of it.
        """
        if (level, dim) not in self._ends:
            group = next((own for own in self._windows if dim in own), None)
            reuse = self._at_all if group is None else self._in_part[group]
            self._ends[level, dim] = reuse.ends(level, dim)
            if group is not None:
                self._end_at_repeats(level, dim)
        return self._ends[level, dim]

    def _end_at_repeats(self, level: int, dim: str) -> None:
        """Let reuse along a window go on only inside of loops that repeat what was swept."""
        loops = [
            (end, literal, own, other)
            for end, literal in self._ends[level, dim][1:]
            for own in range(end, level)
            for other in self._other
            if other in self._variables.slots[own].dims
        ]
        for end, literal, own, other in loops:
            slot = self._variables.slots[own]
            free = [claim for last, claim in self.ends(level, other) if last <= own]
            if own == end:
                slot.require_inside(literal, dim, other, free)
            else:
                self._program.imply(literal, [slot.live(other).negated(), *free])

    def sweep(self, level: int, group: tuple[str, ...]) -> LiteralChoice[str]:
        """How the reuse along a window is repeated, until a loop moves the tile where nothing of it is left.

        `WHOLE` if there is no loop between, `BACK` if loops over other dimensions let the window go back to
        its start, `ACROSS` if such a loop is over a dimension of the window itself.
        """
        if (level, group) not in self._sweeps:
            choice = self._program.choice((WHOLE, BACK, ACROSS), f"sweep{level}")
            self._sweeps[level, group] = choice
            others = [dim for dim in (*self._other, *self._indexing) if dim not in self._alone]
            for kind, dims in ((BACK, [d for d in others if d not in group]), (ACROSS, list(group))):
                loops = [own for dim in sorted(dims) for own in self._between(level, group, dim)]
                self._program.imply(choice.literals[choice.values.index(kind)], loops)
        return self._sweeps[level, group]

    def _between(self, level: int, group: tuple[str, ...], dim: str) -> Iterator[Literal]:
        """Yield literals for loops over a dimension that are outside of reused loops of a window."""
        for own in range(level):
            if dim not in self._variables.slots[own].dims:
                continue
            literal = self._until_moved.reached(level, own, dim)
            claimed = [claim for end, claim in self.ends(level, dim) if end <= own]
            self._program.model.add_at_most_one([literal, *claimed])
            self._program.imply(
                literal,
                [
                    claim
                    for part in group
                    for end, claim in self.ends(level, part)
                    if end < level and end >= own
                ],
            )
            yield literal

    # ----------------------------------------------------------------------- words

    def words(self, asking: int | None, reader: int, each: bool = False) -> LiteralChoice[Number]:
        """Words that a level delivers, at least.

        Parameters
        ----------
        asking
            The level inside that they are for, None for the arithmetic.
        reader
            Position of the node above which instances count one by one. Children of the fanouts between it
            and the one that asks share what they have in common.
        each
            Whether to count the average of one instance above that node, or all of them together.
        """
        scope = _Delivery(self, asking, reader, each)
        parts = [scope.others(dim) for dim in self._other]
        parts += [scope.alone(dim) for dim in self._alone]
        parts += [scope.window(group) for group in self._windows]
        name = f"words{self.space.name}{reader}"
        total = self._program.least_product(parts, name)
        if each or self.is_plain:
            return total
        distinct = math.prod(distinct_words(self._ranks(group), self._bound) for group in self._groups)
        return self._program.mapped(total, lambda own: max(own, distinct), name)

    @cached_property
    def has_steps(self) -> bool:
        """Whether tiles of windows bring at least a step each: of two dimensions, with perfect factors."""
        ranks = [self._ranks(group).ranks for group in self._windows]
        pairs = all(
            len(group) == 2 and len(own) == 1 and min(term.coefficient for term in own[0]) > 0
            for group, own in zip(self._windows, ranks, strict=True)
        )
        return bool(self._windows) and pairs and self._variables.mapspace.factors == PERFECT

    def fewest_words(self, number: int, shared: Collection[int]) -> LiteralChoice[Number]:
        """Words that all tiles of a level bring, at least, whatever loops are outside of them.

        Parameters
        ----------
        number
            The level.
        shared
            Positions of fanouts right outside of it, whose children have one read for what they ask alike.

        References
        ----------
        docs/formulation.md, "Steps of windows".
        """
        parts = [self._steps_of(group, number, shared) for group in self._windows]
        nothing: tuple[WindowSteps, ...] = ()
        total = self._program.constant(nothing)
        for part in parts:
            total = self._program.combined(total, part, lambda some, own: (*some, own))
        alone = math.prod(distinct_words(self._ranks((dim,)), self._bound) for dim in self._alone)
        every = alone * math.prod(distinct_words(self._ranks(own), self._bound) for own in self._windows)
        return self._program.mapped(total, lambda some: max(every, alone * fewest_in_steps(some)))

    def _steps_of(
        self, group: tuple[str, ...], number: int, shared: Collection[int]
    ) -> LiteralChoice[WindowSteps]:
        """How tiles lie along a window."""
        (rank,) = self._ranks(group).ranks
        inner = range(self._variables.positions[number], len(self._variables.architecture.nodes))
        one, other = (self._variables.chains[dim].positions(inner, shared) for dim in group)
        coefficients = [coefficient_of(rank, dim) for dim in group]
        bounds = [self._bound[dim] for dim in group]
        return self._program.combined(one, other, lambda *own: steps_of(coefficients, own, bounds), "steps")

    def first_touches(self, reader: int, each: bool = False) -> LiteralChoice[Number]:
        """Distinct words of a plain dataspace that instances above a node touch, in all or on average."""
        scope = _Delivery(self, None, reader, each)
        parts = [scope.others(dim, touched=True) for dim in self._other]
        return self._program.product([*parts, *(scope.alone(dim) for dim in self._alone)])


class _Delivery:
    """The dimensions of one delivery, see `View.words`."""

    def __init__(self, view: View, asking: int | None, reader: int, each: bool) -> None:
        self._view = view
        self._variables = view._variables
        self._program = view._program
        self._asking = asking
        self._each = each
        self._node = view._node(asking)
        self._above = frozenset(node for node in self._variables.fanouts if node < reader)
        between = frozenset(node for node in self._variables.fanouts if reader <= node < self._node)
        fanouts = dict(zip(self._variables.fanouts, self._variables.architecture.fanouts, strict=True))
        self._separate = frozenset(n for n in between if view.space.name in fanouts[n].no_multicast)
        self._sharing = between - self._separate

    def _storage(self, level: int | None) -> frozenset[int]:
        """Positions of the levels outside of one."""
        return frozenset(self._variables.positions[:level])

    def _ends(self, dim: str) -> list[tuple[int | None, Literal]]:
        """Where the reuse of a dimension ends."""
        asking = self._asking
        if asking is None or self._view.space.name in self._variables.level(asking).no_temporal_reuse:
            return [(asking, self._program.true)]
        return [*self._view.ends(asking, dim)]

    def others(self, dim: str, touched: bool = False) -> LiteralChoice[Number]:
        """Positions along a dimension that does not index the dataspace."""
        chain = self._variables.chains[dim]
        counted = frozenset() if self._each else self._above
        if touched:
            return self._program.mapped(chain.positions(counted), lambda own: own[0])
        cases: list[tuple[Literal, LiteralChoice[Number]]] = []
        for end, literal in self._ends(dim):
            positions = chain.positions(self._storage(end) | self._separate | counted)
            cases.append((literal, self._program.mapped(positions, lambda own: own[0])))
        return self._program.either(cases, f"trips{dim}")

    def alone(self, dim: str) -> LiteralChoice[Number]:
        """Words along a dimension that shares no rank: its tiles do not overlap."""
        chain = self._variables.chains[dim]
        part = self._view._ranks([dim])
        if self._view._is_unit(dim):
            words: LiteralChoice[Number] = self._program.constant(chain.bound)
        else:
            tile = chain.extent(self._node)
            words = self._program.mapped(tile, partial(_all_tiles, part, dim, chain.bound))
        if not self._each:
            return words
        spread = chain.positions(self._above)
        return self._program.combined(words, spread, lambda own, places: Fraction(own, places[0]))

    def window(self, dims: tuple[str, ...]) -> LiteralChoice[Number]:
        """Words along dimensions that share ranks, at least."""
        part = self._view._ranks(dims)
        kind = self._variables.mapspace.factors
        signs = {term.coefficient > 0 for rank in part.ranks for term in rank}
        if len(dims) != 2 or len(part.ranks) != 1 or len(signs) != 1 or kind != PERFECT:
            return self._distinct(dims, part)
        one, other = (self._turns(dim) for dim in dims)
        coefficients = [abs(coefficient_of(part.ranks[0], dim)) for dim in dims]
        both = self._program.combined(one, other, lambda a, b: (a, b))
        reuses = any(own.reused > 1 for pair in both.values for own in pair)
        sweep = self._view.sweep(self._asking or 0, dims) if reuses else self._program.constant(WHOLE)
        distinct = distinct_words(part, self._view._bound)
        return self._program.combined(
            both, sweep, lambda pair, kind: window_words(coefficients, *pair, kind, self._each, distinct)
        )

    def _distinct(self, dims: tuple[str, ...], part: Dataspace) -> LiteralChoice[Number]:
        """Words that all tiles together have, the least that can be delivered."""
        words: LiteralChoice[Number] = self._program.constant(distinct_words(part, self._view._bound))
        if not self._each:
            return words
        for dim in dims:
            spread = self._variables.chains[dim].positions(self._above)
            words = self._program.combined(words, spread, lambda own, places: Fraction(own, places[0]))
        return words

    def _turns(self, dim: str) -> LiteralChoice[WindowLoops]:
        """How the loops over a dimension of a window are split; perfect factors only."""
        chain, end_node = self._variables.chains[dim], self._node
        inner = frozenset(range(end_node, len(self._variables.architecture.nodes)))
        bound = chain.bound

        def turns(own: tuple[int, ...]) -> WindowLoops:
            extent, reused, shared, above = own
            return WindowLoops(extent, reused, shared, above, bound // (extent * reused * shared))

        cases = []
        for end, literal in self._ends(dim):
            reused = self._storage(self._asking) - self._storage(end)
            above = self._above if self._each else frozenset()
            split = chain.positions(inner, reused, self._sharing, above)
            cases.append((literal, self._program.mapped(split, turns)))
        return self._program.either(cases)


def _all_tiles(part: Dataspace, dim: str, bound: int, extent: int) -> int:
    """Words of all tiles of an extent along a dimension that does not share its ranks."""
    full, last = divmod(bound - 1, extent)
    return full * tile_words(part, {dim: extent}) + tile_words(part, {dim: last + 1})


class CostTables:
    """Energy and cycles of a mapping as tables.

    Parameters
    ----------
    variables
        Of the mapspace.
    timed
        Whether the time that ports take counts; else cycles are those of the arithmetic.
    waits
        Whether what levels leak while the arithmetic waits for ports counts; it does so only if `timed`.
    """

    def __init__(self, variables: Variables, timed: bool, waits: bool) -> None:
        self._variables = variables
        self._program = variables.program
        self._architecture = variables.architecture
        self._problem = variables.mapspace.problem
        self._views = {space.name: View(variables, space) for space in self._problem.dataspaces}
        self.steps = self._steps()
        self._waits = waits
        self.loads = tuple(self._all_loads()) if timed else ()
        self.energy = self._energy()

    @property
    def constant_energy(self) -> int:
        """Energy of the arithmetic."""
        return self._problem.computes * self._architecture.compute.energy

    @property
    def network_cycles(self) -> int:
        """Cycles that every run takes on top."""
        return network_latency(self._architecture)

    def _steps(self) -> LiteralChoice[int]:
        """Cycles of the arithmetic."""
        parts = [
            self._program.mapped(chain.positions(self._variables.positions), lambda own: own[0])
            for chain in self._variables.chains.values()
        ]
        total = self._program.product(parts, "steps")
        steps = LiteralChoice(tuple(map(int, total.values)), total.literals)
        self._program.forbid(literal for own, literal in steps.items() if own < self.fewest_steps)
        return steps

    @property
    def fewest_steps(self) -> int:
        """Steps of the arithmetic if all its units are busy."""
        return -(-self._problem.computes // self._architecture.compute_instances)

    # ---------------------------------------------------------------------- energy

    def _energy(self) -> tuple[TabledCost, ...]:
        """Energy of all accesses and of leakage, at least; the arithmetic is left out."""
        tables = [table for space in self._problem.dataspaces for table in self._accesses(space)]
        tables += self._leaks()
        return tuple(table for table in tables if any(cost for _, cost in table.entries))

    def _accesses(self, space: Dataspace) -> Iterator[TabledCost]:
        for service, gate in self._services(space):
            yield from self._served(space, service, gate)
        for level in range(1, len(self._variables.positions)):
            yield from self._filled(space, level)

    def _services(self, space: Dataspace) -> Iterator[tuple[Service, Literal]]:
        """Yield who may serve whom, each with the literal for it."""
        every = self._variables.keeping[space.name]
        options = {levels: tuple(self._chain_of_services(space, levels)) for levels in every.values}
        for service in dict.fromkeys(own for services in options.values() for own in services):
            gate = self._program.holds(every, partial(_offers, options, service))
            if gate is not None:
                yield service, gate

    def _chain_of_services(self, space: Dataspace, levels: Keepers) -> Iterator[Service]:
        """Yield who serves whom from the arithmetic outwards; what passes its stream on asks for nothing."""
        asking: int | None = None
        for level in reversed(self._variables.in_effect(levels, space.name)):
            yield Service(level, asking)
            if space.name not in self._variables.level(level).passing:
                asking = level

    def _served(self, space: Dataspace, service: Service, gate: Literal) -> Iterator[TabledCost]:
        level, node = self._variables.level(service.level), self._variables.positions[service.level]
        view, price = self._views[space.name], level.energy
        price = replace(
            price,
            read=price.read * level.charges(space.name, "down"),
            update=price.update * level.charges(space.name, "up"),
        )
        words = view.words(service.asking, node)
        own = partial(self._table, words, gate, service.level, space)
        if not space.read_write:
            read = self._price(space, service.level, price.read)
            yield own(read)
            shared = self._sharing(service)
            if service.asking is not None and shared is not None:
                fewest = partial(view.fewest_words, service.asking, shared)
                yield from self._beyond(words, fewest, gate, service.level, space, read)
            return
        if space.name in level.no_coalesce:
            yield own(self._price(space, service.level, price.read + price.fill + price.update))
            return
        read = self._price(space, service.level, price.read)
        update = self._price(space, service.level, price.update)
        if reads_firsts(level, space):
            yield own(update + read)
            return
        yield own(update, read if view.is_plain else Fraction(0))
        if view.is_plain and read:
            touches = view.first_touches(node)
            yield self._table(touches, gate, service.level, space, Fraction(0), -read)

    def _filled(self, space: Dataspace, number: int) -> Iterator[TabledCost]:
        """What is filled from outside; the outermost level that holds a dataspace is not."""
        level, node = self._variables.level(number), self._variables.positions[number]
        gate = self._variables.keeps(space.name, lambda held: number in held[1:])
        view, price = self._views[space.name], self._price(space, number, level.energy.fill)
        if gate is None or not price or level.tolls or (space.read_write and space.name in level.no_coalesce):
            return
        subtracts = not reads_firsts(level, space)
        if subtracts and not view.is_plain:
            return
        if not subtracts:
            words = view.words(number, node)
            yield self._table(words, gate, number, space, price)
            yield from self._beyond(words, partial(view.fewest_words, number, ()), gate, number, space, price)
            return
        yield self._table(view.words(number, node), gate, number, space, Fraction(0), price)
        yield self._table(view.first_touches(node), gate, number, space, Fraction(0), -price)

    def _sharing(self, service: Service) -> frozenset[int] | None:
        """The fanouts right outside of a level that asks; None if there are others before who serves it."""
        reader = self._variables.positions[service.level]
        outside = self._variables.positions[(service.asking or 1) - 1]
        asking = self._variables.positions[service.asking or 0]
        between = [own for own in self._variables.fanouts if reader < own < asking]
        return frozenset(between) if all(own > outside for own in between) else None

    def _beyond(
        self,
        words: LiteralChoice[Number],
        fewest_words: Callable[[], LiteralChoice[Number]],
        gate: Literal,
        level: int,
        space: Dataspace,
        price: Fraction,
    ) -> Iterator[TabledCost]:
        """Words that the tiles of a level bring beyond what a table says, as digits of a binary number."""
        view = self._views[space.name]
        if not price or not view.has_steps:
            return
        fewest = self._program.given(fewest_words(), gate)
        given = self._program.given(words, gate)
        block = self._variables.level(level).packing_of(space.name).block_size
        whole = [block * math.ceil(Fraction(own, block)) for own in given.values]
        most = max((int(own) for own in fewest.values), default=0) - min(whole, default=0)
        if most <= 0:
            return
        unit = max(1, -(-(sum(map(int, fewest.values)) + sum(whole)) // (LARGEST_TOTAL // 4)))
        weights = [1 << place for place in range((most // unit).bit_length())]
        digits = [self._program.literal("beyond") for _ in weights]
        literals = [*fewest.literals, *given.literals, *digits]
        numbers = [int(own) // unit for own in fewest.values]
        numbers += [*(-(-own // unit) * -1 for own in whole), *(-weight for weight in weights)]
        self._program.model.add(self._program.sum_of(literals, numbers) <= 0)
        for digit, weight in zip(digits, weights, strict=True):
            yield TabledCost(((digit, price * unit * weight),), False, level, space.name)

    def _price(self, space: Dataspace, number: int, price: int) -> Fraction:
        """Energy per word of a full block, shared by as many instances of a cluster as may."""
        level, node = self._variables.level(number), self._variables.positions[number]
        packing = level.packing_of(space.name)
        every = self._architecture.instances_above(node)
        paying = Fraction(paying_instances(level, every, every), every)
        return Fraction(price * packing.accesses_per_block, packing.block_size) * paying

    def _table(
        self,
        words: LiteralChoice[Number],
        gate: Literal,
        level: int,
        space: Dataspace,
        in_blocks: Fraction,
        by_word: Fraction = Fraction(0),
    ) -> TabledCost:
        """A table of words at two prices, one of them for whole blocks.

        Instances round up one by one, so that together they pay no less than their sum rounded up.
        """
        block = self._variables.level(level).packing_of(space.name).block_size
        given = self._program.given(words, gate)
        entries = tuple(
            (literal, in_blocks * block * math.ceil(Fraction(own, block)) + by_word * own)
            for own, literal in given.items()
        )
        return TabledCost(entries, gate is self._program.true, level, space.name)

    def _leakage(self, number: int, positions: Collection[int]) -> LiteralChoice[Number]:
        """Instances of a level that leak, those in use or gated with them, times positions of other nodes."""
        level, node = self._variables.level(number), self._variables.positions[number]
        fanouts = [own for own in self._variables.fanouts if own < node]
        used = fanouts if level.gating_fanouts is None else fanouts[: level.gating_fanouts]
        gated = math.prod(own.size for own in self._architecture.fanouts[len(used) : len(fanouts)])
        parts = [
            self._program.mapped(chain.positions({*positions, *used}), lambda own: own[0])
            for chain in self._variables.chains.values()
        ]
        total = self._program.least_product(parts, f"leak{number}")
        return self._program.mapped(total, lambda own: own * gated)

    def _leaks(self) -> Iterator[TabledCost]:
        """Yield what levels leak in the steps of the arithmetic, and while it waits for ports."""
        leaks = [own.energy.leak_per_cycle for own in self._architecture.levels]
        leaking = [number for number, leak in enumerate(leaks) if leak]
        for number in leaking:
            steps = self._leakage(number, self._variables.positions)
            yield self._table_of(steps, Fraction(leaks[number]))
        digits = self._waiting() if leaking and self._waits else []
        for number in leaking if digits else ():
            instances = self._leakage(number, ())
            for literal, cycles in digits:
                given = self._program.given(instances, literal)
                yield TabledCost(tuple((own, leaks[number] * cycles * n) for n, own in given.items()), False)

    def _waiting(self) -> list[Entry]:
        """Cycles that ports need beyond the steps, at least, as the digits of a binary number."""
        steps = [(literal, Fraction(own)) for own, literal in self.steps.items()]
        ports = [[entry for table in load.tables for entry in table.entries] for load in self.loads]
        longest = max(map(_longest, self.loads), default=Fraction(0))
        if longest <= self.fewest_steps:
            return []
        sums = [sum(abs(cost) for _, cost in (*port, *steps)) for port in ports]
        unit = max(Fraction(1), (max(sums) + longest) / LARGEST_TOTAL)
        weights = [1 << place for place in range(int(longest / unit).bit_length())]
        digits = [self._program.literal("wait") for _ in weights]
        for port in ports:
            terms = [(literal, math.floor(cost / unit)) for literal, cost in port]
            terms += [(literal, -math.ceil(cost / unit)) for literal, cost in steps]
            terms += [(literal, -weight) for literal, weight in zip(digits, weights, strict=True)]
            literals, numbers = zip(*terms, strict=True)
            self._program.model.add(self._program.sum_of(literals, numbers) <= 0)
        return [(literal, unit * weight) for literal, weight in zip(digits, weights, strict=True)]

    def _table_of(self, choice: LiteralChoice[Number], price: Fraction) -> TabledCost:
        return TabledCost(tuple((literal, price * own) for own, literal in choice.items()), True)

    # ---------------------------------------------------------------------- cycles

    def _all_loads(self) -> Iterator[PortTime]:
        """Yield the time that each limited port takes, at least."""
        for number in range(len(self._variables.positions)):
            yield from self._loads(number, self._variables.level(number))

    def _loads(self, number: int, level: StorageLevel) -> Iterator[PortTime]:
        for kind in BANDWIDTHS:
            rate = level.bandwidth(kind)
            if rate is None:
                continue
            counts = (kind != "write_bandwidth", kind != "read_bandwidth")
            tables = [
                table
                for space in self._problem.dataspaces
                for table in self._transfers(space, number, counts, level.scale(space.name) / rate)
            ]
            yield PortTime(tuple(tables))

    def _transfers(
        self, space: Dataspace, number: int, counts: tuple[bool, bool], time: Fraction
    ) -> Iterator[TabledCost]:
        """Times of reads and writes of one instance, on average; the busiest one takes no less."""
        level, node = self._variables.level(number), self._variables.positions[number]
        view, name = self._views[space.name], space.name
        reads, writes = counts[0] and level.charges(name, "down"), counts[1] and level.charges(name, "up")
        counts_firsts = not reads_firsts(level, space) and name not in level.no_coalesce
        for service, gate in self._services(space):
            if service.level != number:
                continue
            times = _times(space, level, view.is_plain or not counts_firsts, reads, writes)
            if times:
                words = view.words(service.asking, node, each=True)
                yield self._table(words, gate, number, space, Fraction(0), times * time)
            if counts_firsts and view.is_plain and reads:
                yield self._table(
                    view.first_touches(node, each=True), gate, number, space, Fraction(0), -time
                )
        filled = self._variables.keeps(name, lambda held: number in held[1:])
        passes = bool(level.tolls) or (space.read_write and name in level.no_coalesce)
        if filled is None or not writes or passes or (counts_firsts and not view.is_plain):
            return
        yield self._table(view.words(number, node, each=True), filled, number, space, Fraction(0), time)
        if counts_firsts:
            yield self._table(view.first_touches(node, each=True), filled, number, space, Fraction(0), -time)


def _longest(load: PortTime) -> Fraction:
    """Time of a port if all of its tables are at their most."""
    return sum(
        (max((cost for _, cost in own.entries), default=Fraction(0)) for own in load.tables), Fraction(0)
    )


def _offers(options: Mapping[Keepers, Sequence[Service]], service: Service, levels: Keepers) -> bool:
    return service in options[levels]


def _times(space: Dataspace, level: StorageLevel, reads_known: bool, reads: bool, writes: bool) -> int:
    """How often a served word counts for a port; reads of outputs only where first touches are known."""
    if not space.read_write:
        return int(reads)
    if space.name in level.no_coalesce:
        return int(reads) + 2 * int(writes)
    return int(reads and reads_known) + int(writes)
