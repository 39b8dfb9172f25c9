"""What the cost model says about a fused mapping."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from model.cost.report import DataspaceCost, Violation
from model.counting import EXACT, Counting
from model.objective import objective_value

TileKind = Literal["own", "held", "stored", "persistent"]


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """What an Einsum does at one memory, over all visits.

    Parameters
    ----------
    name
        Of the memory.
    instances
        The most that are in use.
    cycles
        What its bandwidths need for all words, at least the steps of the arithmetic.
    leak_energy
        Of all instances that leak, in the architecture's energy unit.
    dataspaces
        Those that it has a tile of, in the problem's order: totals over all visits.
    """

    name: str
    instances: int
    cycles: int
    leak_energy: int
    dataspaces: tuple[DataspaceCost, ...]

    @property
    def energy(self) -> int:
        """Energy of accesses and leakage, in the architecture's unit."""
        return self.leak_energy + sum(space.energy for space in self.dataspaces)

    def dataspace(self, name: str) -> DataspaceCost:
        """Return the figures of a dataspace; ``KeyError`` if the memory has no tile of it."""
        for space in self.dataspaces:
            if space.dataspace == name:
                return space
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class EinsumCost:
    """One Einsum of a cascade, over all visits of one instance of the cascade.

    Parameters
    ----------
    visits
        How often the shared loops run it.
    steps
        Cycles of the arithmetic.
    cycles
        The larger of the steps and what any memory needs, and the latencies of networks in each visit.
    compute_energy
        In the architecture's energy unit.
    memories
        Outermost first.
    n_instances
        How often all of it counts in the cascade.
    cycle_length
        Cycles of the cascade that one of its own takes.
    unrounded
        The cycles, not rounded up where the counting rule does not round; 0 for copies.
    """

    einsum: str
    visits: int
    steps: int
    cycles: int
    compute_energy: int
    memories: tuple[MemoryCost, ...]
    n_instances: int = 1
    unrounded: int | Fraction = 0
    cycle_length: int = 1

    @property
    def energy(self) -> int:
        """Arithmetic, accesses and leakage, in the architecture's unit."""
        return self.compute_energy + sum(memory.energy for memory in self.memories)

    def memory(self, name: str) -> MemoryCost:
        """Return the memory called `name`; ``KeyError`` if there is none."""
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class RoomTile:
    """A tile that takes room while an Einsum runs.

    Parameters
    ----------
    tensor, einsum
        What it is of; and whose it is, empty for what is stored for several.
    kind
        Whether it is the running Einsum's own, held above shared loops, stored, or persistent.
    size_words
        Words of one instance of the memory.
    """

    tensor: str
    einsum: str
    kind: TileKind
    size_words: int


@dataclass(frozen=True, slots=True)
class RoomTaken:
    """What is taken of a memory while an Einsum runs, in words of one instance; no limit is None.

    The Einsum itself uses `used_words` of it: for its own tiles, and for the stored ones that it accesses.
    """

    memory: str
    einsum: str
    tiles: tuple[RoomTile, ...]
    usable_words: int | None
    used_words: int

    @property
    def size_words(self) -> int:
        """Words of all tiles."""
        return sum(tile.size_words for tile in self.tiles)


@dataclass(frozen=True)
class FusedEvaluation:
    """The exact cost of a fused mapping.

    Parameters
    ----------
    einsums
        In the order in which they run.
    rooms
        For each Einsum, the memories from the outermost to the innermost.
    violations
        Broken limits, each with the Einsum that runs then; the mapping is valid when there are none.
    units_per_pj
        Energy units in a picojoule.
    counting
        The rule by which words are counted.
    cycle_s
        Seconds of a cycle of the cascade; None where there is no clock.
    """

    einsums: tuple[EinsumCost, ...]
    rooms: tuple[RoomTaken, ...]
    violations: tuple[tuple[str, Violation], ...]
    units_per_pj: int
    counting: Counting = EXACT
    cycle_s: Fraction | None = None

    @property
    def energy_j(self) -> float:
        """Total energy in joules."""
        return self.energy_pj / 1e12

    @property
    def latency_s(self) -> Fraction | None:
        """Total latency in seconds, None where there is no clock."""
        if self.cycle_s is None:
            return None
        counted = ((c, c.n_instances * c.cycle_length) for c in self.einsums)
        return self.cycle_s * sum((c.unrounded or c.cycles) * times for c, times in counted)

    @property
    def valid(self) -> bool:
        """Whether the mapping respects every limit."""
        return not self.violations

    @property
    def energy(self) -> int:
        """Total energy in the architecture's unit, all instances of all Einsums."""
        return sum(cost.energy * cost.n_instances for cost in self.einsums)

    @property
    def energy_pj(self) -> float:
        """Total energy in picojoule."""
        return self.energy / self.units_per_pj

    @property
    def cycles(self) -> int:
        """Latency in cycles of the cascade: the Einsums run one after the other."""
        return sum(cost.cycles * cost.n_instances * cost.cycle_length for cost in self.einsums)

    @property
    def edp(self) -> int:
        """Total energy times total cycles, in energy units times cycles."""
        return self.energy * self.cycles

    @property
    def edp_pj_cycles(self) -> float:
        """Total energy times total cycles, in picojoule times cycles."""
        return self.edp / self.units_per_pj

    def value(self, objective: str) -> int:
        """Return the exact value of an objective out of `model.objective.OBJECTIVES`."""
        return objective_value(objective, self.energy, self.cycles)

    def einsum(self, name: str) -> EinsumCost:
        """Return the cost of an Einsum; ``KeyError`` if there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, EinsumCost]:
        return {cost.einsum: cost for cost in self.einsums}

    def rooms_of(self, einsum: str) -> tuple[RoomTaken, ...]:
        """Return what is taken of each memory while an Einsum runs, the outermost one first."""
        return tuple(self._rooms_by_name.get(einsum, ()))

    @cached_property
    def _rooms_by_name(self) -> dict[str, list[RoomTaken]]:
        found: dict[str, list[RoomTaken]] = {}
        for room in self.rooms:
            found.setdefault(room.einsum, []).append(room)
        return found

    def room(self, einsum: str, memory: str) -> RoomTaken:
        """Return what is taken of a memory while an Einsum runs; ``KeyError`` if there is none."""
        for room in self.rooms_of(einsum):
            if room.memory == memory:
                return room
        raise KeyError((einsum, memory))
