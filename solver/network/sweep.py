"""Sweeps: every variant of a design mapped, and which of them no other one beats."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.architecture import Architecture
from model.sweep import Variant
from solver.network.result import NetworkResult
from solver.network.run import Run, explained, map_networks
from solver.result import Options, Status


@dataclass(frozen=True)
class SweepPoint:
    """A variant and the answers for its network."""

    variant: Variant
    result: NetworkResult

    @property
    def costs(self) -> tuple[float, int] | None:
        """Energy in picojoule and cycles of the whole network, None without a mapping of all of it."""
        energy, cycles = self.result.energy, self.result.cycles
        if energy is None or cycles is None:
            return None
        return energy / self.result.units_per_pj, cycles

    @property
    def edp_pj_cycles(self) -> float | None:
        """Energy of the network times its cycles.

        Returns
        -------
        float | None
            In pJ * cycles, None without a mapping of all of it.
        """
        return None if self.result.edp is None else self.result.edp / self.result.units_per_pj

    @property
    def area_mm2(self) -> float | None:
        """Area of the architecture, None where the area of a component is unknown."""
        layers = self.variant.network.layers
        return area_mm2(layers[0].mapspace.architecture) if layers else None


@dataclass(frozen=True)
class SweepResult:
    """All points of a sweep.

    Parameters
    ----------
    points
        In the order of the variants.
    seconds
        Wall-clock time of the run.
    """

    points: tuple[SweepPoint, ...]
    seconds: float

    @property
    def workloads(self) -> tuple[str, ...]:
        """The workloads, each once."""
        return tuple(dict.fromkeys(point.variant.workload for point in self.points))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are set, the same for all points."""
        return tuple(name for name, _ in self.points[0].variant.settings) if self.points else ()

    @property
    def front(self) -> frozenset[int]:
        """Places of the points that no other one of the same workload beats.

        One beats another if neither its energy nor its cycles are more, and one of them is less.
        """
        by_workload: dict[str, list[PlacedCosts]] = {}
        for place, point in enumerate(self.points):
            if point.costs is not None:
                by_workload.setdefault(point.variant.workload, []).append((point.costs, place))
        return frozenset(place for places in by_workload.values() for place in unbeaten(places))

    @property
    def searched(self) -> int:
        """Number of searches that were run for it."""
        return sum(answer.origin == "searched" for point in self.points for answer in point.result.layers)

    @property
    def status(self) -> Status:
        """The weakest answer; INFEASIBLE only if no point has a mapping."""
        known = {point.result.status for point in self.points}
        if known == {Status.INFEASIBLE}:
            return Status.INFEASIBLE
        return next(
            (status for status in (Status.UNKNOWN, Status.FEASIBLE) if status in known), Status.OPTIMAL
        )


PlacedCosts = tuple[tuple[float, int], int]
"""Energy and cycles of a point, and its place."""


def unbeaten(points: Sequence[PlacedCosts]) -> Iterator[int]:
    """Yield the places of the points that no other one beats; equal ones do not beat each other."""
    last = (math.inf, math.inf)
    for costs, place in sorted(points):
        if costs[1] < last[1] or costs == last:
            last = costs
            yield place


def sweep(
    variants: Sequence[Variant],
    options: Options = Options(),
    run: Run = Run(),
) -> SweepResult:
    """Map the networks of all variants; searches that several of them need run once.

    Parameters are those of `map_network`. INFEASIBLE layers have their reasons, as of `map_network`.

    Raises
    ------
    ContradictionError, ExecutorError
        As of `solver.network.map_network`.
    """
    start = time.monotonic()
    networks = [variant.network for variant in variants]
    results = explained(map_networks(networks, options, run), options, run)
    points = tuple(SweepPoint(*pair) for pair in zip(variants, results, strict=True))
    return SweepResult(points, time.monotonic() - start)


def area_mm2(architecture: Architecture) -> float | None:
    """Return the area of all instances of all components, None if that of any is unknown."""
    total = 0.0
    for component, instances in architecture.components:
        if component.area_um2 is None:
            return None
        total += component.area_um2 * instances
    return total / 1e6
