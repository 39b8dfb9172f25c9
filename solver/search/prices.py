"""Energy and bandwidth load as functions of the words delivered across each boundary.

Once it is known which levels keep what and how many children each fanout serves, all that a mapping
still decides is F, the words delivered into one instance of each keeping level. Reads, fills and updates
follow from F, level by level and dataspace by dataspace, and so do energy and load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from model.architecture import StorageLevel
from solver.search.lattice import INFINITY, IntArray


@dataclass(frozen=True, slots=True)
class EnergyTerm:
    """``price * ceil((F * multiplier - minus) / block)``, never below 0."""

    price: int
    multiplier: int
    minus: int
    block: int


@dataclass(frozen=True, slots=True)
class LoadTerm:
    """``(F * multiplier - minus) * cycles_per_word`` of the shared resource `resource`."""

    resource: int
    multiplier: int
    minus: int
    cycles_per_word: float


@dataclass(frozen=True)
class BoundaryPrice:
    """What the words F cost that are delivered across one boundary of one dataspace."""

    energy: tuple[EnergyTerm, ...]
    loads: tuple[LoadTerm, ...]

    def exact(self, delivered: int) -> int:
        """Energy of `delivered` words per instance, in whole units."""
        return sum(t.price * -(-max(0, delivered * t.multiplier - t.minus) // t.block) for t in self.energy)

    def price(self, delivered: IntArray) -> IntArray:
        """Energy of each entry of `delivered`, at most `INFINITY`."""
        total = np.zeros_like(delivered)
        for term in self.energy:
            ceiling = (INFINITY // (4 * max(1, term.price)) * term.block + term.minus) // term.multiplier
            words = np.minimum(delivered, ceiling) * term.multiplier - term.minus
            np.maximum(words, 0, out=words)
            if term.block > 1:
                words = -(-words // term.block)
            total += words * term.price
        return np.minimum(total, INFINITY)

    def increment(self, more: IntArray) -> IntArray:
        """Least energy that `more` words add to any number of words."""
        total = np.zeros_like(more)
        for term in self.energy:
            ceiling = INFINITY // (4 * max(1, term.price)) * term.block // term.multiplier
            total += np.minimum(more, ceiling) * term.multiplier // term.block * term.price
        return np.minimum(total, INFINITY)

    def add_loads(
        self, delivered: IntArray, loads: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    ) -> None:
        """Add the load of `delivered` words to `loads`, shape (len(delivered), resources)."""
        for term in self.loads:
            words = delivered.astype(np.float64) * term.multiplier - term.minus
            loads[:, term.resource] += np.maximum(words, 0.0) * term.cycles_per_word


@dataclass(frozen=True, slots=True)
class Resource:
    """A bandwidth of a level: its reads, its writes (fills and updates), or both together."""

    level: int
    reads: bool
    writes: bool
    words_per_cycle: Fraction


def resources(levels: Sequence[StorageLevel]) -> tuple[Resource, ...]:
    """All limited bandwidths."""
    found = []
    for place, level in enumerate(levels):
        for reads, writes, bandwidth in (
            (True, False, level.read_bandwidth),
            (False, True, level.write_bandwidth),
            (True, True, level.shared_bandwidth),
        ):
            if bandwidth is not None:
                found.append(Resource(place, reads, writes, bandwidth))
    return tuple(found)


@dataclass(frozen=True)
class DataspaceFlow:
    """Where one dataspace is kept, and how its words spread; arrays run along levels, outermost first.

    ``distinct`` counts the different tiles among the children below each level; ``partition`` bounds
    from above the words of a read-write dataspace that one instance ever holds.
    """

    name: str
    read_write: bool
    chain: tuple[int, ...]
    distinct: tuple[int, ...]
    partition: tuple[int, ...]


@dataclass(frozen=True)
class PriceList:
    """Prices of levels: per level the number of instances that pay for a vector access."""

    levels: tuple[StorageLevel, ...]
    paying: tuple[int, ...]
    resources: tuple[Resource, ...]
    quantum: int = 1

    def boundaries(self, flow: DataspaceFlow) -> dict[int, BoundaryPrice]:
        """Price of each boundary, by the level below it; ``len(levels)`` stands for the compute."""
        energy: dict[int, list[EnergyTerm]] = {}
        loads: dict[int, list[LoadTerm]] = {}
        children = (*flow.chain[1:], len(self.levels))
        outermost = flow.chain[0]
        for level, child in zip(flow.chain, children, strict=True):
            source = self._source(flow, child)
            groups = math.prod(flow.distinct[level:source])
            for action, boundary, multiplier, minus in self._actions(flow, level, source, groups, outermost):
                self._add(energy, loads, flow.name, level, action, boundary, multiplier, minus)
        return {
            boundary: BoundaryPrice(tuple(energy.get(boundary, ())), tuple(loads.get(boundary, ())))
            for boundary in energy.keys() | loads.keys()
        }

    def _source(self, flow: DataspaceFlow, child: int) -> int:
        """The boundary whose stream a parent serves: levels that do not coalesce pass theirs on."""
        while child < len(self.levels) and (
            child not in flow.chain or flow.name in self.levels[child].no_coalesce
        ):
            child += 1
        return child

    def _actions(
        self, flow: DataspaceFlow, level: int, source: int, groups: int, outermost: int
    ) -> list[tuple[str, int, int, int]]:
        """Actions of `level` as (action, boundary whose F counts, multiplier, words left out)."""
        node = self.levels[level]
        if not flow.read_write:
            actions = [("read", source, groups, 0)]
            return actions if level == outermost else [*actions, ("fill", level, 1, 0)]
        if flow.name in node.no_coalesce:
            return [(action, source, groups, 0) for action in ("read", "fill", "update")]
        part = 0 if flow.name in node.rmw_first_update else flow.partition[level]
        actions = [("read", source, groups, part), ("update", source, groups, 0)]
        return actions if level == outermost else [*actions, ("fill", level, 1, part)]

    def _add(
        self,
        energy: dict[int, list[EnergyTerm]],
        loads: dict[int, list[LoadTerm]],
        name: str,
        level: int,
        action: str,
        boundary: int,
        multiplier: int,
        minus: int,
    ) -> None:
        node = self.levels[level]
        price = getattr(node.energy, action) * self.paying[level] // self.quantum
        if price:
            energy.setdefault(boundary, []).append(EnergyTerm(price, multiplier, minus, node.block_size))
        for place, resource in enumerate(self.resources):
            if resource.level != level or not (resource.reads if action == "read" else resource.writes):
                continue
            cycles = float(node.scale(name) / resource.words_per_cycle)
            loads.setdefault(boundary, []).append(LoadTerm(place, multiplier, minus, cycles))
