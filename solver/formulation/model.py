"""The mapping problem of one Einsum as one program, its objective, and what its answers stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from model.cost import Evaluation
from model.mapping import Mapping, StorageMapping
from model.mapspace import Mapspace
from model.objective import ENERGY, LATENCY
from solver.cpsat import Answer, Literal, Outcome, Settings
from solver.formulation.constraints import ChosenValues, mapping_of
from solver.formulation.objective import CostTables, TabledCost
from solver.formulation.program import LARGEST_TOTAL, EmptyProgramError, whole_multiple
from solver.formulation.rules import UserRules
from solver.formulation.tables import Tables, rank_groups
from solver.formulation.variables import Variables
from solver.result import StopCallback

Site = tuple[int, str]
"""A level and a dataspace."""


def check_formulated(mapspace: Mapspace) -> None:
    """Check that a mapspace has nothing that the formulation does not state.

    Raises
    ------
    ValueError
        Words are not counted exactly, a level has a `Port`, a memory has several places, or data are sparse.
    """
    if not mapspace.counting_rule.is_formulated:
        raise ValueError(f"the formulation counts exactly, not by the rule {mapspace.counting!r}")
    for level in mapspace.architecture.levels:
        if level.ports:
            raise ValueError(
                f"reads and writes of {level.name!r} take different times: that is not formulated"
            )
        if level.memory is not None:
            raise ValueError(
                f"several places of {level.memory!r} are not formulated; --engine bounds searches them"
            )
    if mapspace.sparsity is not None:
        raise ValueError("mappings of sparse data are not formulated")


@dataclass(frozen=True)
class CandidateMapping:
    """A mapping that an answer stands for, and what the tables say of it.

    Parameters
    ----------
    mapping
        With the orders of the answer.
    energy, cycles
        Lower bounds that the tables have for it.
    by_site
        Those of the tables of each dataspace at each level.
    choices
        Literals that hold: of the arcs by node, of what is kept by dataspace, and of orders by level.
    """

    mapping: Mapping
    energy: Fraction
    cycles: int
    by_site: dict[Site, Fraction]
    arcs: tuple[tuple[Literal, ...], ...]
    kept: dict[str, tuple[tuple[int, ...], Literal]]


@dataclass(frozen=True)
class Scaled:
    """A sum of tables, at least ``base + quantum * (sum of weights that hold)``, and at least `least`."""

    literals: tuple[Literal, ...]
    costs: tuple[Fraction, ...]
    base: Fraction
    quantum: Fraction
    least: Fraction = Fraction(0)

    @property
    def weights(self) -> tuple[int, ...]:
        """Quanta of each literal, rounded down."""
        return tuple(math.floor(cost / self.quantum) for cost in self.costs)

    def value(self, quanta: int) -> Fraction:
        """Return what so many quanta stand for."""
        return self.base + self.quantum * quanta

    def quanta(self, value: Fraction | int) -> int:
        """Return the most quanta that do not exceed a value."""
        return math.floor((value - self.base) / self.quantum)


@dataclass
class Formulation:
    """The complete mapspace of an Einsum, its costs bounded by tables.

    Every mapping that the rules allow is a solution, and costs at least what the objective says. `tighten`
    adds entries for mappings whose cost by the plain cost model is known to be higher.

    Raises
    ------
    EmptyProgramError
        The rules allow nothing.
    TooLargeError
        A dimension has too many extents, or all together are too many.
    UnfinishedError
        `stop` answered True before the program was complete.
    ValueError
        See `check_formulated`.
    """

    mapspace: Mapspace
    timed: bool = True
    waits: bool = False
    stop: StopCallback = lambda: False
    cuts: list[TabledCost] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Build the program."""
        check_formulated(self.mapspace)
        self.variables = Variables(self.mapspace, self.stop)
        self.program = self.variables.program
        self.tables = Tables(self.variables)
        self.tables.require_all()
        self.rules = UserRules(self.variables, self.tables)
        self.costs = CostTables(self.variables, self.timed, self.waits)
        self._problem = self.mapspace.problem

    # -------------------------------------------------------------------- objective

    def scaled(
        self,
        tables: Sequence[TabledCost],
        base: Fraction | int,
        most: Fraction | int | None,
        largest: int = LARGEST_TOTAL,
    ) -> Scaled:
        """Return a sum of tables in quanta; entries that alone exceed `most` are excluded from the program.

        Raises
        ------
        EmptyProgramError
            Nothing costs so little.
        """
        tables = [self._open(table) for table in tables]
        if most is not None:
            window = Fraction(most - base) - sum(table.least for table in tables)
            tables = [self._within(table, window) for table in tables]
        least = Fraction(base) + sum(table.least for table in tables)
        total = Fraction(base) + sum(table.base for table in tables)
        entries = [(literal, cost - table.base) for table in tables for literal, cost in table.entries]
        costs = tuple(cost for _, cost in entries)
        quantum = max(whole_multiple(costs), Fraction(math.ceil(sum(map(abs, costs)) / largest)))
        return Scaled(tuple(literal for literal, _ in entries), costs, total, quantum, least)

    def _open(self, table: TabledCost) -> TabledCost:
        """A table without the entries that are excluded already."""
        entries = tuple(own for own in table.entries if not self.program.is_forbidden(own[0]))
        if table.complete and not entries:
            raise EmptyProgramError("costs")
        return replace(table, entries=entries)

    def _within(self, table: TabledCost, window: Fraction) -> TabledCost:
        """A table without the entries that cost more than `window` above its least; these are excluded."""
        if window < 0:
            raise EmptyProgramError("costs")
        most = table.least + window
        self.program.forbid(literal for literal, cost in table.entries if cost > most)
        return replace(table, entries=tuple(own for own in table.entries if own[1] <= most))

    @property
    def energy_tables(self) -> list[TabledCost]:
        """All tables of energy."""
        return [*self.costs.energy, *self.cuts]

    def minimise(self, objective: str, most: int | None = None, exactly: bool = False) -> Scaled:
        """Minimise the energy, or the cycles, see there.

        Raises
        ------
        KeyError
            For a product of both.
        """
        if objective == ENERGY:
            return self.minimise_energy(most, exactly)
        if objective != LATENCY:
            raise KeyError(objective)
        return self.minimise_cycles(most)

    def minimise_energy(self, most: int | None, exactly: bool = False) -> Scaled:
        """Minimise the energy, which is at most `most` where that is known: in quanta, or `exactly`."""
        scale = self.scaled(self.energy_tables, self.costs.constant_energy, most)
        if most is not None:
            self._at_most(scale, most, exactly)
        self.program.model.minimize(self.program.sum_of(scale.literals, scale.weights))
        return scale

    def _at_most(self, scale: Scaled, most: int, exactly: bool) -> None:
        """Let a sum be at most so much."""
        if exactly:
            self.program.limit(scale.literals, scale.costs, most - scale.base)
            return
        room = scale.quanta(most)
        if room < -LARGEST_TOTAL:
            raise EmptyProgramError("costs")
        total = self.program.sum_of(scale.literals, scale.weights)
        self.program.model.add(total <= min(room, LARGEST_TOTAL))

    def limit_energy(self, most: int) -> None:
        """Let no mapping take more energy."""
        scale = self.scaled(self.energy_tables, self.costs.constant_energy, most)
        self._at_most(scale, most, exactly=True)

    def limit_cycles(self, most: int) -> None:
        """Let no mapping take more cycles."""
        room = most - self.costs.network_cycles
        self.program.forbid(literal for steps, literal in self.costs.steps.items() if steps > room)
        for load in self.costs.loads:
            scale = self.scaled(load.tables, 0, room)
            self._at_most(scale, room, exactly=True)

    def limit_product(self, most: int) -> None:
        """Let energy times cycles of no mapping be above `most`, as far as the tables know."""
        steps, network = self.costs.steps, self.costs.network_cycles
        largest = LARGEST_TOTAL // (1 + len(steps.values))
        scale = self.scaled(self.energy_tables, self.costs.constant_energy, None, largest)
        rooms = [scale.quanta(Fraction(most, max(1, own + network))) for own in steps.values]
        self.program.forbid(x for room, x in zip(rooms, steps.literals, strict=True) if room < 0)
        limits = [-min(max(0, room), sum(map(abs, scale.weights))) for room in rooms]
        total = self.program.sum_of([*scale.literals, *steps.literals], [*scale.weights, *limits])
        self.program.model.add(total <= 0)

    @property
    def fewest_cycles(self) -> int:
        """Cycles that no mapping is below: no more arithmetic units than there are can be in use."""
        return self.costs.fewest_steps + self.costs.network_cycles

    def minimise_cycles(self, most: int | None) -> Scaled:
        """Minimise the cycles, which are at most `most` where that is known."""
        if most is not None:
            self.limit_cycles(most)
        network = self.costs.network_cycles
        steps = TabledCost(tuple((x, Fraction(own)) for own, x in self.costs.steps.items()), True)
        if not self.costs.loads:
            scale = self.scaled([steps], network, most)
            self.program.model.minimize(self.program.sum_of(scale.literals, scale.weights))
            return scale
        room = None if most is None else most - network
        ports = [
            self.scaled(tables, 0, room) for tables in ([steps], *(own.tables for own in self.costs.loads))
        ]
        longest = max(port.base + sum(max(own, Fraction(0)) for own in port.costs) for port in ports)
        quantum = max(1, math.ceil(longest / LARGEST_TOTAL))
        most_quanta = math.ceil(longest / quantum)
        cycles = self.program.model.new_int_var(0, most_quanta, "cycles")
        for port in ports:
            self._bound_port(port, cycles, quantum, most_quanta)
        self.program.model.minimize(cycles)
        return Scaled((cycles,), (Fraction(quantum),), Fraction(network), Fraction(quantum))

    def _bound_port(self, port: Scaled, cycles: Literal, quantum: int, most_quanta: int) -> None:
        """Let the cycles be at least the time of a port; in fractions of a cycle where these fit."""
        unit = whole_multiple([*port.costs, port.base, Fraction(1)])
        reach = sum(map(abs, port.costs)) + abs(port.base) + most_quanta
        is_exact = quantum == 1 and reach <= unit * LARGEST_TOTAL
        if not is_exact:
            unit = Fraction(quantum)
        weights = [math.floor(own / unit) for own in port.costs]
        total = self.program.sum_of([*port.literals, cycles], [*weights, -int(quantum / unit)])
        self.program.model.add(total <= -math.floor(port.base / unit))

    # ---------------------------------------------------------------------- answers

    def solve(
        self,
        settings: Settings,
        stop: StopCallback,
        on_candidate: Callable[[CandidateMapping], None] | None = None,
        on_bound: Callable[[int], None] | None = None,
    ) -> tuple[Outcome, tuple[CandidateMapping, ...]]:
        """Solve the program; also return the mappings of all answers on the way, the best one last.

        Other threads call `on_candidate` with each of them, and `on_bound` with every better bound in quanta.
        """
        found: list[CandidateMapping] = []

        def hear(answer: Answer) -> None:
            found.append(self.candidate(answer))
            if on_candidate is not None:
                on_candidate(found[-1])

        outcome = self.program.checked.solve(settings, stop, hear, on_bound)
        if outcome.answer is not None:
            last = self.candidate(outcome.answer)
            found = [*(own for own in found if own.mapping != last.mapping), last]
        return outcome, tuple(found)

    def candidate(self, answer: Answer) -> CandidateMapping:
        """Return the mapping of an answer."""
        held = self._held_arcs(answer)
        by_site: dict[Site, Fraction] = {}
        energy = Fraction(self.costs.constant_energy)
        for table in self.energy_tables:
            cost = sum((own for literal, own in table.entries if answer.holds(literal)), Fraction(0))
            energy += cost
            if table.level is not None:
                site = (table.level, table.dataspace)
                by_site[site] = by_site.get(site, Fraction(0)) + cost
        kept = {}
        for name, choice in self.variables.keeping.items():
            place = answer.choice(choice.literals)
            kept[name] = choice.values[place], choice.literals[place]
        return CandidateMapping(
            mapping=self._mapping(answer, held, kept),
            energy=energy,
            cycles=self._cycles_of(answer),
            by_site=by_site,
            arcs=tuple(tuple(literal for _, literal in node.values()) for node in held),
            kept=kept,
        )

    def _held_arcs(self, answer: Answer) -> list[dict[str, tuple[int, Literal]]]:
        """The factor of every dimension in each node, with the literal of its arc."""
        held: list[dict[str, tuple[int, Literal]]] = []
        for node in range(len(self.mapspace.architecture.nodes)):
            own = {}
            for dim, chain in self.variables.chains.items():
                steps = chain.steps[node]
                arc = list(steps)[answer.choice(steps.values())]
                own[dim] = arc.factor, steps[arc]
            held.append(own)
        return held

    def _cycles_of(self, answer: Answer) -> int:
        steps = self.costs.steps
        busy = Fraction(steps.values[answer.choice(steps.literals)])
        for load in self.costs.loads:
            entries = (own for table in load.tables for own in table.entries)
            busy = max(busy, sum((cost for literal, cost in entries if answer.holds(literal)), Fraction(0)))
        return math.ceil(busy) + self.costs.network_cycles

    def _mapping(
        self,
        answer: Answer,
        held: Sequence[dict[str, tuple[int, Literal]]],
        kept: dict[str, tuple[tuple[int, ...], Literal]],
    ) -> Mapping:
        variables = self.variables
        chosen = ChosenValues(
            factor=lambda node, dim: held[node][dim][0],
            along_x=lambda node, dim: answer.holds(variables.along_x(node, dim)),
            keeps=lambda level, name: level in kept[name][0],
        )
        return mapping_of(
            self.mapspace, chosen, lambda level, dims: variables.slots[level].order(answer, dims)
        )

    def hint(self, mapping: Mapping) -> None:
        """Let the search begin near a mapping: at its factors, loop orders and kept dataspaces."""
        self.program.hint([*self._hinted_keeping(mapping), *self._hinted_loops(mapping)])

    def _hinted_keeping(self, mapping: Mapping) -> Iterator[tuple[Literal, bool]]:
        storage = [part for part in mapping.nodes if isinstance(part, StorageMapping)]
        for name, choice in self.variables.keeping.items():
            levels = tuple(level for level, part in enumerate(storage) if name in part.keep)
            yield from ((literal, own == levels) for own, literal in choice.items())

    def _hinted_loops(self, mapping: Mapping) -> Iterator[tuple[Literal, bool]]:
        slots = iter(self.variables.slots)
        for node, part in enumerate(mapping.nodes):
            loops = part.temporal if isinstance(part, StorageMapping) else part.spatial
            for dim, chain in self.variables.chains.items():
                factor = math.prod(loop.bound for loop in loops if loop.dim == dim)
                yield from ((literal, own == factor) for own, literal in chain.factor(node).items())
            if isinstance(part, StorageMapping):
                slot = next(slots)
                pairs = combinations([loop.dim for loop in part.temporal if loop.dim in slot.dims], 2)
                orders = (slot.inside(*pair) for pair in pairs)
                yield from ((order, True) for order in orders if not isinstance(order, bool))

    # -------------------------------------------------------------------- tightening

    def tighten(self, priced: Iterable[tuple[CandidateMapping, Evaluation]]) -> None:
        """Let the objective say what parts of mappings cost that were found in one solve.

        What a dataspace costs at a level depends on what is kept of it, and on the loops outside of the next
        level that keeps it: an entry for these holds for all mappings that share them.
        """
        added: set[tuple[Site, frozenset[int]]] = set()
        understated = (
            (candidate, *own)
            for candidate, evaluation in priced
            for own in self._understated(candidate, evaluation)
        )
        for candidate, site, cost in understated:
            parts = self._part(candidate, *site)
            key = site, frozenset(literal.index for literal in parts)
            if key not in added:
                added.add(key)
                self.cuts.append(self._entry(parts, cost, *site))

    def _understated(
        self, candidate: CandidateMapping, evaluation: Evaluation
    ) -> Iterator[tuple[Site, Fraction]]:
        """Yield by how much each dataspace costs more at a level than its tables say."""
        for (number, name), known in candidate.by_site.items():
            own = [space for space in evaluation.levels[number].dataspaces if space.dataspace == name]
            if own and own[0].energy > known:
                yield (number, name), own[0].energy - known

    def exclude(self, candidate: CandidateMapping) -> None:
        """Exclude a mapping, and all that cost the same and differ in nothing that unstated rules ask for."""
        literals = self._distinct([*self._whole(candidate), *self._asked_orders(candidate)])
        self.program.model.add_bool_or([literal.negated() for literal in literals])

    def _asked_orders(self, candidate: CandidateMapping) -> Iterator[Literal]:
        """Yield what tells which loops are innermost, where unstated rules ask for that."""
        asked = {q.node for rule in self.rules.unstated for q in rule.quantities if q.kind == "innermost"}
        levels = enumerate(self.mapspace.architecture.levels)
        for number in (number for number, level in levels if level.name in asked):
            entry = candidate.mapping.nodes[self.variables.positions[number]]
            assert isinstance(entry, StorageMapping)
            pairs = combinations([loop.dim for loop in entry.temporal], 2)
            orders = (self.variables.slots[number].inside(*pair) for pair in pairs)
            yield from (order for order in orders if not isinstance(order, bool))

    def _entry(self, parts: Iterable[Literal], cost: Fraction, level: int, dataspace: str) -> TabledCost:
        """A cost where all parts hold."""
        literal = self.program.literal(f"cut{len(self.cuts)}")
        self.program.model.add_bool_or([literal, *(part.negated() for part in parts)])
        return TabledCost(((literal, cost),), False, level, dataspace)

    def _part(self, candidate: CandidateMapping, level: int, name: str) -> list[Literal]:
        """Literals on which the cost of a dataspace at a level depends."""
        levels, kept = candidate.kept[name]
        asking = [
            own
            for own in self.variables.in_effect(levels, name)
            if own > level and name not in self.variables.level(own).passing
        ]
        nodes = self.variables.positions[asking[0]] if asking else len(candidate.arcs)
        slots = asking[0] if asking else level
        arcs = [literal for own in candidate.arcs[:nodes] for literal in own]
        orders = [own for slot in range(slots) for own in self._order_of(candidate, slot, name)]
        return self._distinct([kept, *arcs, *orders])

    def _whole(self, candidate: CandidateMapping) -> list[Literal]:
        """Literals that only this mapping has, but for arrangements that cost the same."""
        kept = [literal for _, literal in candidate.kept.values()]
        arcs = [literal for own in candidate.arcs for literal in own]
        orders = [
            own
            for slot in range(len(self.variables.slots) - 1)
            for name in candidate.kept
            for own in self._order_of(candidate, slot, name)
        ]
        return self._distinct([*kept, *arcs, *orders])

    def _distinct(self, literals: Iterable[Literal]) -> list[Literal]:
        return list(
            {literal.index: literal for literal in literals if literal is not self.program.true}.values()
        )

    def _order_of(self, candidate: CandidateMapping, level: int, name: str) -> Iterator[Literal]:
        """Yield what a dataspace can tell of the order of a level's loops.

        Loops that do not move the tile may change places among each other, as may all beyond the first one
        that leaves nothing of it.
        """
        entry = candidate.mapping.nodes[self.variables.positions[level]]
        assert isinstance(entry, StorageMapping)
        alone, windows = self._indexing[name]
        order = [loop.dim for loop in entry.temporal]
        first = next((place for place, dim in enumerate(order) if dim in alone), len(order))
        before, after = order[:first], order[first + 1 :]
        pairs = [pair for pair in combinations(before, 2) if windows.intersection(pair)]
        if first < len(order):
            pairs += [(dim, order[first]) for dim in before] + [(order[first], dim) for dim in after]
        for one, other in pairs:
            inside = self.variables.slots[level].inside(one, other)
            if not isinstance(inside, bool):
                yield inside

    @cached_property
    def _indexing(self) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
        """Dimensions that move the tiles of a dataspace, those of windows apart."""
        found = {}
        for space in self._problem.dataspaces:
            groups = rank_groups(space, self._problem.bound)
            alone = frozenset(dim for group in groups for dim in group if len(group) == 1)
            found[space.name] = alone, frozenset(dim for group in groups for dim in group) - alone
        return found
