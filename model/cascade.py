"""What a whole network asks for: one mapspace per Einsum, and how often each runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from model.cost.copying import Transfer
from model.mapspace import Mapspace
from model.note import Note
from model.source_ref import SourceRef


@dataclass(frozen=True)
class Overfull:
    """A level that other tensors overfill while a layer runs, for people.

    Parameters
    ----------
    level
        Its name.
    taken_words, size_words
        What they take, and what it holds.
    text
        That, with the names of the tensors.
    size_source
        Where the size is written.
    """

    level: str
    taken_words: int
    size_words: int
    text: str
    size_source: SourceRef | None = None


@dataclass(frozen=True)
class Layer:
    """One Einsum of a network on an architecture.

    Parameters
    ----------
    name
        Unique in the network.
    mapspace
        Problem, architecture and constraints, with the names of the Einsum. Its words have the size
        of the Einsum's values, and its capacities are what other tensors leave that stay where they are.
    n_instances
        How often it runs; energy and latency count as often.
    is_copy
        Whether it only hands its input on: nothing is computed, and there is nothing to map.
    transfer
        What a copy moves from one level to others, None where its tensors are stored at one level.
    overfull
        Levels that other tensors overfill: the layer cannot run. In `mapspace` they are as written.
    """

    name: str
    mapspace: Mapspace
    n_instances: int = 1
    is_copy: bool = False
    transfer: Transfer | None = None
    overfull: tuple[Overfull, ...] = ()


@dataclass(frozen=True)
class Network:
    """The layers of a network, and notes for people.

    Parameters
    ----------
    name
        For people.
    layers
        In the order in which they are written, which need not be that in which they run.
    notes
        Remarks from the reading.
    """

    name: str
    layers: tuple[Layer, ...]
    notes: tuple[Note, ...] = ()

    def noted(self, further: Iterable[Note]) -> Network:
        """Return the network with `further` notes added."""
        return replace(self, notes=(*self.notes, *further))
