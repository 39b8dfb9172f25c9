"""What is known of a network once its layers are mapped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from model.cascade import Layer, Network
from solver.result import Result, Status, Termination

Origin = Literal["searched", "identical", "cached", "copy", "no room"]


@dataclass(frozen=True)
class LayerResult:
    """A layer and the answer of its search.

    Parameters
    ----------
    layer
        The layer.
    result
        The answer with the layer's own names; None for a copy, which costs what its transfer does.
    origin
        Whether it was searched for this layer, found for an identical one before (`same_as`), or
        kept from an earlier run; or that there is nothing to search, as other tensors leave no room.
    """

    layer: Layer
    result: Result | None
    origin: Origin
    same_as: str = ""

    @property
    def status(self) -> Status:
        """What is known; a copy needs no mapping, but the levels must hold its tensors."""
        if self.result is not None:
            return self.result.status
        transfer = self.layer.transfer
        return Status.INFEASIBLE if transfer is not None and transfer.violations else Status.OPTIMAL

    @property
    def searched_as(self) -> str:
        """Name of the layer whose search has this answer; one of another network may be meant."""
        return self.same_as or self.layer.name

    @property
    def energy(self) -> int | None:
        """Energy of all instances in the architecture's unit, None without a mapping."""
        return self._times("energy")

    @property
    def cycles(self) -> int | None:
        """Cycles of all instances, None without a mapping."""
        return self._times("cycles")

    def _times(self, quantity: str) -> int | None:
        if self.result is None and self.layer.transfer is None:
            return 0
        priced = self.layer.transfer if self.result is None else self.result.evaluation
        if priced is None or self.status is Status.INFEASIBLE:
            return None
        value: int = getattr(priced, quantity)
        return value * self.layer.n_instances


@dataclass(frozen=True)
class NetworkResult:
    """The layers' answers, and their sums: layers run one after the other.

    Parameters
    ----------
    network
        What was mapped.
    layers
        One per layer, in order; fewer if the run was interrupted.
    seconds
        Wall-clock time of the run.
    """

    network: Network
    layers: tuple[LayerResult, ...]
    seconds: float

    @property
    def units_per_pj(self) -> int:
        """A common energy unit of all layers' architectures, as parts of a picojoule."""
        return math.lcm(*(answer.layer.mapspace.architecture.units_per_pj for answer in self.layers), 1)

    @property
    def energy(self) -> int | None:
        """Energy of the network in `units_per_pj`, None if a layer has no mapping."""
        parts = [
            None
            if answer.energy is None
            else answer.energy * (self.units_per_pj // answer.layer.mapspace.architecture.units_per_pj)
            for answer in self.layers
        ]
        return self._total(parts)

    @property
    def cycles(self) -> int | None:
        """Cycles of the network, None if a layer has no mapping."""
        return self._total([answer.cycles for answer in self.layers])

    @property
    def edp(self) -> int | None:
        """Energy of the network times its cycles; no sum of the layers' products."""
        energy, cycles = self.energy, self.cycles
        return None if energy is None or cycles is None else energy * cycles

    @property
    def proven(self) -> int:
        """Number of layers whose answer is proven."""
        return sum(answer.status in (Status.OPTIMAL, Status.INFEASIBLE) for answer in self.layers)

    @property
    def too_large(self) -> tuple[str, ...]:
        """Names of the layers that have more words than a search counts."""
        results = [(answer.layer.name, answer.result) for answer in self.layers]
        ended = [(name, result.termination) for name, result in results if result is not None]
        return tuple(name for name, termination in ended if termination is Termination.TOO_LARGE)

    @property
    def status(self) -> Status:
        """The weakest of the layers' answers; a layer that cannot be mapped makes it INFEASIBLE."""
        known = {answer.status for answer in self.layers}
        order = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE)
        if len(self.layers) < len(self.network.layers):
            known.add(Status.UNKNOWN)
        return next((status for status in order if status in known), Status.OPTIMAL)

    def _total(self, parts: list[int | None]) -> int | None:
        known = [part for part in parts if part is not None]
        complete = len(known) == len(self.network.layers)
        return sum(known) if complete else None
