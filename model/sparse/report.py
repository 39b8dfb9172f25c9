"""What the sparse model says about a mapping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from model.cost.report import BrokenRule, Evaluation, LevelCost, Violation
from model.counting.cycles import Demand
from model.objective import objective_value
from model.sparse.arithmetic import Computes
from model.sparse.counting import Accesses, Moved, RankWords

FIXED_POINT = 1 << 20
"""Parts of an energy unit that values of objectives are whole numbers of."""


@dataclass(frozen=True)
class SparseDataspaceCost:
    """A dataspace at a level that keeps it; counts are words of the busiest instance over the whole run.

    Parameters
    ----------
    dataspace
        Its name.
    format
        Of its ranks, the top one first, such as ``UOP CP``; empty if it is stored as it is.
    density
        Expected share of nonzeros in a tile; of those that are not empty, where empty ones do not come.
    tile_words, size_words
        Words of the tile of dense data, and what it takes of the level's capacity, in the level's words.
    expected_words
        Expected nonzeros of a tile.
    metadata_size
        Words of metadata and payloads per rank that the tile takes at most, the lowest rank first.
    metadata_size_bits
        Bits of these metadata and payloads.
    confidence
        Share of the cases in which the tile takes no more than that.
    dense
        Accesses for dense data.
    moved
        Accesses that are made, gated and skipped.
    temporal_reductions, decompressions, compressions
        Words that are added up here, unpacked when they come in, and packed when they go out.
    instances
        Average number of instances in use.
    energy
        Total of all instances, in the architecture's energy unit.
    loads
        Average numbers of instances in use, and accesses of one of them: instances differ with remainders.
    """

    dataspace: str
    format: str
    density: float
    tile_words: int
    size_words: int
    expected_words: float
    metadata_size: tuple[RankWords, ...]
    metadata_size_bits: int
    confidence: float
    dense: Accesses
    moved: Moved
    temporal_reductions: int
    decompressions: int
    compressions: int
    instances: float
    energy: Fraction
    loads: tuple[tuple[float, Moved], ...]


@dataclass(frozen=True)
class SparseLevelCost:
    """A storage level and what it does over the whole run.

    Parameters
    ----------
    name, instances, cycles, leak_energy
        See `model.cost.report.LevelCost`; instances are those of dense data.
    dataspaces
        Those that it keeps, in the problem's order.
    demands
        Words that the bandwidths of an instance carry, metadata included.
    """

    name: str
    instances: int
    cycles: int
    leak_energy: Fraction
    dataspaces: tuple[SparseDataspaceCost, ...]
    demands: tuple[Demand, ...]

    @property
    def energy(self) -> Fraction:
        """Energy of all accesses and the leakage of all instances, in the architecture's unit."""
        return self.leak_energy + sum((space.energy for space in self.dataspaces), Fraction(0))

    def dataspace(self, name: str) -> SparseDataspaceCost:
        """Return the figures of the dataspace called `name`; ``KeyError`` if the level bypasses it."""
        return {space.dataspace: space for space in self.dataspaces}[name]


@dataclass(frozen=True)
class SparseEvaluation:
    """The expected cost of one mapping on sparse data.

    Parameters
    ----------
    violations, broken_rules
        Broken limits, and broken user-defined rules, which only `model.sparse.evaluate_sparse_in` knows;
        the mapping is valid when there are none.
    levels
        Storage levels, outermost first.
    computes
        Computations by kind.
    dense_computes, dense_energy, dense_cycles
        Computations, energy (in the architecture's unit) and latency of the same mapping on dense data.
    compute_cycles, compute_instances
        Cycles of the arithmetic alone, and arithmetic units in use on average.
    cycles
        Latency of the whole problem.
    compute_energy
        Energy of the arithmetic, in the architecture's unit.
    utilization
        Computations that are made, as a share of what all arithmetic units could do in `cycles`.
    units_per_pj
        Energy units in a picojoule.
    """

    violations: tuple[Violation, ...]
    levels: tuple[SparseLevelCost, ...]
    computes: Computes
    dense_computes: int
    dense_energy: int
    dense_cycles: int
    compute_cycles: int
    compute_instances: float
    cycles: int
    compute_energy: Fraction
    utilization: float
    units_per_pj: int
    broken_rules: tuple[BrokenRule, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the mapping respects every limit and every rule."""
        return not self.violations and not self.broken_rules

    @property
    def leak_energy(self) -> Fraction:
        """Leakage of all storage levels, in the architecture's unit."""
        return sum((level.leak_energy for level in self.levels), Fraction(0))

    @property
    def energy(self) -> Fraction:
        """Total energy in the architecture's unit: accesses, leakage and arithmetic."""
        return self.compute_energy + sum((level.energy for level in self.levels), Fraction(0))

    @property
    def fixed_energy(self) -> int:
        """Total energy in parts of a unit (`FIXED_POINT`), rounded to the nearest, halves to even."""
        return round(self.energy * FIXED_POINT)

    def value(self, objective: str) -> int:
        """Return the value of an objective as searches compare it.

        Parameters
        ----------
        objective
            Out of `model.objective.OBJECTIVES`.

        Returns
        -------
        int
            `fixed_energy`, cycles, or their product.

        Raises
        ------
        KeyError
            There is no such objective.
        """
        return objective_value(objective, self.fixed_energy, self.cycles)

    @property
    def totals(self) -> Evaluation:
        """Energy, in parts of a unit (`FIXED_POINT`), and cycles; levels have cycles alone."""
        return Evaluation(
            violations=self.violations,
            levels=tuple(
                LevelCost(level.name, level.instances, level.cycles, 0, ()) for level in self.levels
            ),
            computes=self.computes.actual,
            compute_cycles=self.compute_cycles,
            compute_instances=math.ceil(self.compute_instances),
            cycles=self.cycles,
            compute_energy=self.fixed_energy,
            utilization=self.utilization,
            units_per_pj=self.units_per_pj * FIXED_POINT,
            broken_rules=self.broken_rules,
        )

    @property
    def energy_pj(self) -> float:
        """Total energy in picojoule."""
        return float(self.energy / self.units_per_pj)

    @property
    def edp_pj_cycles(self) -> float:
        """Energy-delay product in picojoule times cycles."""
        return float(self.energy * self.cycles / self.units_per_pj)

    def level(self, name: str) -> SparseLevelCost:
        """Return the storage level called `name`; ``KeyError`` if there is none."""
        return {level.name: level for level in self.levels}[name]
