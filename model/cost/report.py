"""What the cost model says about a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from model.objective import objective_value
from model.rules.language import Quantity, Rule, Value

ViolationKind = Literal["capacity", "min_utilization", "mesh_x", "mesh_y", "metadata"]


class Violation(NamedTuple):
    """A limit of the hardware that a mapping breaks.

    Parameters
    ----------
    node
        Name of the memory or fanout.
    kind
        Which limit it is.
    demand, limit
        What the mapping takes, and what there is: words of one instance for ``capacity`` and
        ``min_utilization`` (where the limit is the least), children along the axis for ``mesh_x`` and
        ``mesh_y``, bits of one instance for ``metadata`` (of sparse data).
    parts
        Where a memory has several places: the dataspaces that they hold, each with the level that is its
        place and what it takes, outermost first.
    """

    node: str
    kind: ViolationKind
    demand: int
    limit: int
    parts: tuple[tuple[str, str, int], ...] = ()


class BrokenRule(NamedTuple):
    """A rule of the user's own that a mapping breaks, and the value of each quantity that it asks for."""

    rule: Rule
    figures: tuple[tuple[Quantity, Value], ...]


@dataclass(frozen=True, slots=True)
class DataspaceCost:
    """A dataspace at a level that keeps it.

    Parameters
    ----------
    dataspace
        Its name.
    tile_words, partition_words
        Words of the dataspace (its values) in one instance: at a time, and over the whole run.
    reads, fills, updates
        Such words of the busiest instance over the whole run; without remainders all are alike.
    total_reads, total_fills, total_updates
        Those of all instances together.
    energy
        Total of all instances, in the architecture's energy unit.
    size_words
        What the tile takes of the level's capacity in one instance, in the level's words (see
        `model.architecture.Packing`).
    """

    dataspace: str
    tile_words: int
    partition_words: int
    reads: int
    fills: int
    updates: int
    total_reads: int
    total_fills: int
    total_updates: int
    energy: int
    size_words: int


@dataclass(frozen=True, slots=True)
class LevelCost:
    """A storage level and what it does over the whole run.

    Parameters
    ----------
    name
        Of the level.
    instances
        Those that are ever in use.
    cycles
        What the bandwidths of the busiest one need, at least the cycles of the arithmetic.
    leak_energy
        Of all instances that leak, in the architecture's energy unit.
    dataspaces
        Those that it keeps, in the problem's order.
    """

    name: str
    instances: int
    cycles: int
    leak_energy: int
    dataspaces: tuple[DataspaceCost, ...]

    @property
    def size_words(self) -> int:
        """Words of the level that the kept tiles take in one instance."""
        return sum(space.size_words for space in self.dataspaces)

    @property
    def energy(self) -> int:
        """Energy of all accesses and the leakage of all instances, in the architecture's unit."""
        return self.leak_energy + sum(space.energy for space in self.dataspaces)

    def dataspace(self, name: str) -> DataspaceCost:
        """Return the figures of the dataspace called `name`.

        Raises
        ------
        KeyError
            If the level bypasses it.
        """
        for space in self.dataspaces:
            if space.dataspace == name:
                return space
        raise KeyError(name)


@dataclass(frozen=True)
class Evaluation:
    """The exact cost of one mapping.

    Parameters
    ----------
    violations, broken_rules
        Broken limits, and broken user-defined rules, which only `model.cost.evaluate_in` knows; the
        mapping is valid when there are none.
    levels
        Storage levels, outermost first.
    computes, compute_cycles, compute_instances
        Multiply-accumulates in all, steps of the temporal loops, arithmetic units that are ever in use.
    cycles, latency_s
        Latency of the whole problem, rounded up, and in seconds, rounded only if the counting rule rounds
        cycles; None if the architecture has no clock.
    compute_energy
        Energy of all multiply-accumulates, in the architecture's unit.
    utilization
        Share of the multiply-accumulates that all arithmetic units could do in `cycles`.
    units_per_pj
        Energy units in a picojoule.
    """

    violations: tuple[Violation, ...]
    levels: tuple[LevelCost, ...]
    computes: int
    compute_cycles: int
    compute_instances: int
    cycles: int
    compute_energy: int
    utilization: float
    units_per_pj: int
    latency_s: Fraction | None = None
    broken_rules: tuple[BrokenRule, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the mapping respects every limit and every rule."""
        return not self.violations and not self.broken_rules

    @property
    def leak_energy(self) -> int:
        """Leakage of all storage levels, in the architecture's unit."""
        return sum(level.leak_energy for level in self.levels)

    @property
    def energy(self) -> int:
        """Total energy in the architecture's unit: accesses, leakage and arithmetic."""
        return self.compute_energy + sum(level.energy for level in self.levels)

    @property
    def energy_pj(self) -> float:
        """Total energy in picojoule."""
        return self.energy / self.units_per_pj

    @property
    def energy_j(self) -> float:
        """Total energy in joules."""
        return float(Fraction(self.energy, self.units_per_pj * 10**12))

    @property
    def edp(self) -> int:
        """Energy-delay product in energy units times cycles, exact."""
        return self.energy * self.cycles

    @property
    def edp_pj_cycles(self) -> float:
        """Energy-delay product in picojoule times cycles."""
        return self.edp / self.units_per_pj

    def value(self, objective: str) -> int:
        """Return the exact value of an objective.

        Parameters
        ----------
        objective
            Out of `model.objective.OBJECTIVES`.

        Returns
        -------
        int
            Energy units, cycles, or energy units times cycles.

        Raises
        ------
        KeyError
            There is no such objective.
        """
        return objective_value(objective, self.energy, self.cycles)

    def level(self, name: str) -> LevelCost:
        """Return the storage level called `name`.

        Raises
        ------
        KeyError
            There is none.
        """
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(name)
