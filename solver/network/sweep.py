"""Sweeps: every variant of a design mapped, which are Pareto-optimal, and what an attribute changes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from model.architecture import Architecture
from model.sweep import MESHES, Variant
from solver.network.run import NetworkResult, Run, explained, map_networks
from solver.result import Options, Status


@dataclass(frozen=True)
class SweepPoint:
    """A variant and the result of its network."""

    variant: Variant
    result: NetworkResult

    @property
    def costs(self) -> tuple[float, int] | None:
        """Energy in picojoule and cycles of the whole network, None without a mapping of all of it."""
        energy, cycles = self.result.energy_units, self.result.cycles
        if energy is None or cycles is None:
            return None
        return energy / self.result.units_per_pj, cycles

    @property
    def edp_pj_cycles(self) -> float | None:
        """Energy of the network times its cycles, in pJ * cycles; None without a mapping of all of it."""
        return self.result.edp_pj_cycles

    @property
    def area_mm2(self) -> float | None:
        """Area of the architecture, None where the area of a component is unknown."""
        layers = self.variant.network.layers
        return area_mm2(layers[0].mapspace.architecture) if layers else None


@dataclass(frozen=True)
class SweepResult:
    """All points of a sweep."""

    points: tuple[SweepPoint, ...]  # in the order of the variants
    seconds: float  # wall-clock time of the run

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
        """Positions of the points that no other one of the same workload dominates in energy and time.

        Times are seconds where the architectures have clocks, else cycles; the two are not compared.
        """
        alike: dict[tuple[str, bool], list[PlacedCosts]] = {}
        for place, point in enumerate(self.points):
            if point.costs is not None:
                (energy_pj, cycles), seconds = point.costs, point.result.latency_s
                costs = energy_pj, cycles if seconds is None else seconds
                alike.setdefault((point.variant.workload, seconds is None), []).append((costs, place))
        return frozenset(place for places in alike.values() for place in undominated_places(places))

    @property
    def searched(self) -> int:
        """Number of searches that were run for it."""
        return sum(answer.origin == "searched" for point in self.points for answer in point.result.layers)

    @property
    def status(self) -> Status:
        """The worst status of a point; INFEASIBLE only if no point has a mapping."""
        known = {point.result.status for point in self.points}
        if known == {Status.INFEASIBLE}:
            return Status.INFEASIBLE
        order = (Status.UNKNOWN, Status.FEASIBLE)
        return next((status for status in order if status in known), Status.OPTIMAL)


PlacedCosts = tuple[tuple[float, int | Fraction], int]
"""Energy and time of a point, and its place."""


def undominated_places(points: Sequence[PlacedCosts]) -> Iterator[int]:
    """Yield the positions of the points that no other dominates; equal ones do not dominate each other."""
    last: tuple[float, float | Fraction] = (math.inf, math.inf)
    for costs, place in sorted(points):
        if costs[1] < last[1] or costs == last:
            last = costs
            yield place


def sweep(variants: Sequence[Variant], options: Options = Options(), run: Run = Run()) -> SweepResult:
    """Map the networks of all variants as `map_network` does; searches that several of them need run once."""
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


_Action = tuple[str, str]


@dataclass
class _Effects:
    """How the energies of components and actions depend on one attribute."""

    matters: bool = False
    moved: dict[_Action, None] = field(default_factory=dict)
    given: dict[_Action, None] = field(default_factory=dict)
    components: set[str] = field(default_factory=set)


def energy_remarks(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Say for each attribute with several values which energies change with it, and which do not."""
    names = [name for name, _ in variants[0].settings] if variants else []
    texts = [_remark(name, _effects(variants, place)) for place, name in enumerate(names)]
    return tuple(text for text in texts if text)


def _effects(variants: Sequence[Variant], place: int) -> _Effects | None:
    """Compare the variants that differ in one attribute only; None if it has a single value."""
    if len({variant.settings[place] for variant in variants}) == 1:
        return None
    groups: dict[object, list[Variant]] = {}
    for variant in variants:
        others = (*variant.settings[:place], *variant.settings[place + 1 :])
        groups.setdefault((variant.workload, variant.architecture, others), []).append(variant)
    effects = _Effects()
    for group in groups.values():
        spaces = [tuple(layer.mapspace for layer in variant.network.layers) for variant in group]
        effects.matters |= any(space != spaces[0] for space in spaces)
        _compare([space[0].architecture for space in spaces if space], effects)
    return effects


def _compare(architectures: Sequence[Architecture], effects: _Effects) -> None:
    tables = [dict(_energies(architecture)) for architecture in architectures]
    for action in dict.fromkeys(action for table in tables for action in table):
        figures = [table[action] for table in tables if action in table]
        effects.components.add(action[0])
        if len({energy for energy, _ in figures}) > 1:
            effects.moved[action] = None
        elif figures[0][1]:
            effects.given[action] = None


def _energies(architecture: Architecture) -> Iterator[tuple[_Action, tuple[Fraction, bool]]]:
    """Yield the energy of every action in picojoule, and whether it is given."""
    units = architecture.units_per_pj
    for level in architecture.levels:
        price = level.energy
        figures = {
            "read": price.read,
            "fill": price.fill,
            "update": price.update,
            "leak": price.leak_per_cycle,
        }
        for action, _ in price.sources:
            yield (level.component, action), (Fraction(figures[action], units), action in price.given)
    compute = architecture.compute
    yield (compute.name, "compute"), (Fraction(compute.energy, units), compute.is_given)


def _remark(name: str, effects: _Effects | None) -> str:
    if effects is None:
        return ""
    if not effects.matters:
        return f"{name} has no effect on the model of the architecture"
    node, _, attribute = name.rpartition(".")
    if attribute in MESHES and not effects.moved:
        return ""
    given = [action for action in effects.given if action[0] == node or node not in effects.components]
    parts = []
    if effects.moved:
        parts.append(f"the energies of {_listed(effects.moved)} are estimated for each value")
    if given:
        parts.append(f"the energies of {_listed(given)} are given and do not depend on it")
    return f"{name}: {'; '.join(parts) or 'no energy per access depends on it'}"


def _listed(actions: Iterable[_Action]) -> str:
    by_component: dict[str, list[str]] = {}
    for component, action in actions:
        by_component.setdefault(component, []).append(action)
    return ", ".join(f"{component} ({', '.join(own)})" for component, own in by_component.items())
