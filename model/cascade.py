"""What a whole network asks for: one mapspace per Einsum, and how often each runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from model.architecture import Architecture
from model.cost.copying import Transfer
from model.mapspace import Mapspace
from model.note import Note
from model.source_ref import SourceRef


@dataclass(frozen=True)
class Overfull:
    """A level that other tensors overfill while a layer runs, for people."""

    level: str
    taken_words: int
    size_words: int
    text: str  # that, with the names of the tensors
    size_source: SourceRef | None = None


@dataclass(frozen=True)
class Narrowing:
    """An architecture for values that are all as narrow as its narrowest words, and how to ask for them."""

    architecture: Architecture
    text: str


@dataclass(frozen=True)
class Layer:
    """One Einsum of a network on an architecture.

    Parameters
    ----------
    mapspace
        In words of the Einsum's values, on capacities that other tensors leave which stay where they are.
    n_instances
        How often it runs; energy and latency count as often.
    is_copy, transfer
        Whether it only passes its input on, so that there is nothing to map; and what that moves from one
        level to others, None where its tensors are stored at one level.
    overfull
        Levels that other tensors overfill: the layer cannot run. In `mapspace` they are as written.
    narrowing
        Where values are wider than words, and the user can set their widths.
    """

    name: str
    mapspace: Mapspace
    n_instances: int = 1
    is_copy: bool = False
    transfer: Transfer | None = None
    overfull: tuple[Overfull, ...] = ()
    narrowing: Narrowing | None = None


@dataclass(frozen=True)
class Network:
    """The layers of a network as written, which need not be the order in which they run; notes for people."""

    name: str
    layers: tuple[Layer, ...]
    notes: tuple[Note, ...] = ()

    def __repr__(self) -> str:
        """Return name and size in one line; notebooks print it."""
        return f"Network({self.name}: {len(self.layers)} Einsums)"

    def noted(self, further: Iterable[Note]) -> Network:
        """Return the network with `further` notes added."""
        return replace(self, notes=(*self.notes, *further))
