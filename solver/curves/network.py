"""The curve of a whole network: at each capacity the least traffic of all layers, one after the other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise

from solver.curves.einsum import Curve


@dataclass(frozen=True)
class LayerCurve:
    """The curve of a layer, and how often the layer runs."""

    name: str
    curve: Curve
    n_instances: int = 1

    def traffic_bits(self, capacity_bits: int) -> int:
        """Return the least traffic of all runs together with a buffer of so many bits."""
        unit = self.curve.design.unit_bits
        return self.n_instances * unit * self.curve.at(capacity_bits // unit).traffic


@dataclass(frozen=True)
class Step:
    """A capacity in bits from which on the least traffic of all layers together, in bits, is this."""

    capacity_bits: int
    traffic_bits: int


@dataclass(frozen=True)
class NetworkCurve:
    """The least traffic of layers that run one after the other, each with the whole buffer to itself."""

    layers: tuple[LayerCurve, ...]

    def steps(self) -> Iterator[Step]:
        """Yield all capacities at which the traffic falls, ascending."""
        total = sum(layer.traffic_bits(0) for layer in self.layers)
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
