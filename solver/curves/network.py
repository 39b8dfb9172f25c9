"""The curve of a whole network: at each capacity the least traffic of all layers, one after the other."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise

from model.extents import ANY, Factors
from model.problem import Problem
from solver.curves.design import Design
from solver.curves.einsum import Curve, traffic_curve
from solver.result import TooLargeError
from solver.search.stopping import Stop, Stopped, never


@dataclass(frozen=True)
class Part:
    """A layer of which a curve is sought.

    Parameters
    ----------
    bits
        Of a value, by dataspace.
    n_instances
        How often it runs.
    """

    name: str
    problem: Problem
    bits: Mapping[str, int]
    n_instances: int = 1

    @property
    def computes(self) -> int:
        """Multiply-accumulates of all runs."""
        return self.n_instances * self.problem.computes


@dataclass(frozen=True)
class LayerCurve:
    """The curve of a layer.

    Parameters
    ----------
    curve
        That of `same_as` where the two differ in names alone.
    same_as
        Name of an earlier layer, or nothing.
    """

    part: Part
    curve: Curve
    same_as: str = ""

    @property
    def name(self) -> str:
        """Name of the layer."""
        return self.part.name

    @property
    def n_instances(self) -> int:
        """How often it runs."""
        return self.part.n_instances

    def traffic_bits(self, capacity_bits: int) -> int:
        """Return the least traffic of all runs together with a buffer of so many bits."""
        unit = self.curve.design.unit_bits
        return self.n_instances * unit * self.curve.at(capacity_bits // unit).traffic

    def least_room_bits(self, traffic_bits: Fraction) -> int | None:
        """Return the least buffer with which all runs move at most so many bits; None if there is none."""
        unit = self.curve.design.unit_bits
        point = self.curve.within(int(traffic_bits // (unit * self.n_instances)))
        return None if point is None else point.capacity * unit


@dataclass(frozen=True)
class Step:
    """A capacity in bits from which on the least traffic of all layers together, in bits, is this."""

    capacity_bits: int
    traffic_bits: int


@dataclass(frozen=True)
class NetworkCurve:
    """The least traffic of layers that run one after the other, each with the whole buffer to itself.

    Parameters
    ----------
    layers
        Those whose curves are known.
    missing
        The others, each with why its curve is not known.
    """

    layers: tuple[LayerCurve, ...]
    missing: tuple[tuple[Part, str], ...] = ()

    @property
    def computes(self) -> int:
        """Multiply-accumulates of all layers with curves."""
        return sum(layer.part.computes for layer in self.layers)

    def traffic_bits(self, capacity_bits: int) -> int:
        """Return the least traffic of all layers together with a buffer of so many bits."""
        return sum(layer.traffic_bits(capacity_bits) for layer in self.layers)

    def steps(self) -> Iterator[Step]:
        """Yield all capacities at which the traffic falls, ascending."""
        total = self.traffic_bits(0)
        yield Step(0, total)
        falls = heapq.merge(*map(_falls, self.layers))
        for capacity, group in groupby(falls, key=lambda own: own[0]):
            total -= sum(less for _, less in group)
            yield Step(capacity, total)

    def deciding(self, capacity_bits: int) -> Sequence[tuple[LayerCurve, Fraction]]:
        """Return the layers by falling share of the traffic at a capacity."""
        traffic = [(layer, layer.traffic_bits(capacity_bits)) for layer in self.layers]
        total = sum(own for _, own in traffic)
        shares = [(layer, Fraction(own, total)) for layer, own in traffic if total]
        return sorted(shares, key=lambda pair: -pair[1])


def _falls(layer: LayerCurve) -> Iterator[tuple[int, int]]:
    """Yield the capacities in bits at which the traffic of a layer falls, and by how many bits."""
    unit, points = layer.curve.design.unit_bits, layer.curve.points
    for before, after in pairwise(points):
        yield after.capacity * unit, layer.n_instances * unit * (before.traffic - after.traffic)


STOPPED = "stopped"
"""Why a curve is not known that there was no time for."""


def network_curve(
    parts: Sequence[Part],
    factors: Factors = ANY,
    should_stop: Stop = never,
    on_layer: Callable[[Part], object] = str,
) -> NetworkCurve:
    """Find the curves of layers, of those that differ in names alone once.

    Parameters
    ----------
    parts
        The layers, in their order.
    factors
        Out of `model.extents.FACTORS`.
    should_stop
        Asked often; once it answers True, the curves that are not known yet are missing.
    on_layer
        Called with each layer before its curve is sought.
    """
    known: dict[object, LayerCurve | str] = {}
    layers: list[LayerCurve] = []
    missing: list[tuple[Part, str]] = []
    for part in parts:
        key = _nameless(part)
        if key not in known:
            on_layer(part)
            known[key] = _curve_of(part, factors, should_stop)
        found = known[key]
        if isinstance(found, str):
            missing.append((part, found))
            continue
        layers.append(LayerCurve(part, found.curve, "" if part is found.part else found.name))
    return NetworkCurve(tuple(layers), tuple(missing))


def _curve_of(part: Part, factors: Factors, should_stop: Stop) -> LayerCurve | str:
    """The curve of a layer, or why there is none."""
    try:
        return LayerCurve(part, traffic_curve(Design(part.problem, part.bits, factors), should_stop))
    except Stopped:
        return STOPPED
    except TooLargeError as error:
        return str(error)


def _nameless(part: Part) -> object:
    """What the curve of a layer depends on: dimensions by their places, and no names."""
    places = {dim: place for place, dim in enumerate(part.problem.dims)}
    spaces = tuple(
        (
            tuple(tuple((places[term.dim], term.coefficient) for term in rank) for rank in space.ranks),
            (space.read_write, space.given, part.bits[space.name]),
        )
        for space in part.problem.dataspaces
    )
    return part.problem.bounds, spaces
