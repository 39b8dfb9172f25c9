"""Tensors that wait: an earlier Einsum wrote them, a later one reads them, and this one does not."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from model.formats.cascade.reservations import Stored, stored_bits
from model.workload import Einsum


@dataclass(frozen=True)
class Waiting:
    """A tensor that waits.

    Parameters
    ----------
    tensor
        Its name.
    level
        Position of the level that stores it, in ``Architecture.levels``.
    stored
        What it takes, in all instances of the level together, for one instance of the Einsum that writes it.
    """

    tensor: str
    level: int
    stored: Stored


def waiting_tensors(
    einsums: Sequence[Einsum], homes: Sequence[Mapping[str, int]]
) -> tuple[tuple[Waiting, ...], ...]:
    """Return what waits while each Einsum runs.

    Tensors that copies leave where they are count once. Persistent ones always take room, and are left out.
    """
    roots = _roots(einsums, homes)
    lives = tuple(_lives(einsums, running_order(einsums)))
    return tuple(
        tuple(_largest(_waits(einsum, place, lives, einsums, homes), roots, einsum))
        for place, einsum in enumerate(einsums)
    )


def running_order(einsums: Sequence[Einsum]) -> tuple[int, ...]:
    """Return the places of the Einsums as they run: as written, unless one needs what a later one writes.

    Raises
    ------
    graphlib.CycleError
        Einsums wait for each other.
    """
    writers = _writers(einsums)
    sorter = TopologicalSorter(
        {
            place: {writers[tensor] for tensor in einsum.tensors if tensor in writers} - {place}
            for place, einsum in enumerate(einsums)
        }
    )
    sorter.prepare()
    ready, order = list[int](), list[int]()
    while sorter.is_active():
        for place in sorter.get_ready():
            heapq.heappush(ready, place)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return tuple(order)


@dataclass(frozen=True)
class _Life:
    """A tensor, the Einsum that writes it, and those that run between that and the last one to read it."""

    tensor: str
    writer: int
    between: frozenset[int]


def _writers(einsums: Sequence[Einsum]) -> dict[str, int]:
    accesses = ((place, access) for place, einsum in enumerate(einsums) for access in einsum.accesses)
    return {access.tensor: place for place, access in accesses if access.output}


def _lives(einsums: Sequence[Einsum], order: Sequence[int]) -> Iterator[_Life]:
    turn = {place: number for number, place in enumerate(order)}
    for tensor, writer in _writers(einsums).items():
        readers = [turn[place] for place, einsum in enumerate(einsums) if tensor in einsum.tensors]
        yield _Life(tensor, writer, frozenset(order[turn[writer] + 1 : max(readers)]))


def _waits(
    einsum: Einsum,
    place: int,
    lives: Sequence[_Life],
    einsums: Sequence[Einsum],
    homes: Sequence[Mapping[str, int]],
) -> Iterator[Waiting]:
    """Yield the tensors that wait while an Einsum runs that does not access them."""
    for life in lives:
        writer = einsums[life.writer]
        access = next(access for access in writer.accesses if access.tensor == life.tensor and access.output)
        if place in life.between and life.tensor not in einsum.tensors and not access.persistent:
            stored = Stored(stored_bits(writer, access), access.bits_per_value)
            yield Waiting(life.tensor, homes[life.writer][life.tensor], stored)


def _roots(einsums: Sequence[Einsum], homes: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """Return of each tensor the one whose values it has at its place: itself, or what it was copied from."""
    roots: dict[str, str] = {}
    for place in running_order(einsums):
        einsum, levels = einsums[place], homes[place]
        sources = [access.tensor for access in einsum.accesses if not access.output]
        for access in (access for access in einsum.accesses if access.output):
            stays = einsum.is_copy_operation and levels[access.tensor] == levels[sources[0]]
            roots[access.tensor] = roots.get(sources[0], sources[0]) if stays else access.tensor
    return roots


def _largest(waits: Iterator[Waiting], roots: Mapping[str, str], einsum: Einsum) -> Iterator[Waiting]:
    """Yield one of those with the same values, unless the Einsum itself accesses these."""
    accessed = {roots.get(tensor, tensor) for tensor in einsum.tensors}
    largest: dict[str, Waiting] = {}
    for tensor_waits in waits:
        root = roots.get(tensor_waits.tensor, tensor_waits.tensor)
        if root not in accessed:
            largest[root] = max(
                largest.get(root, tensor_waits), tensor_waits, key=lambda waiting: waiting.stored
            )
    yield from largest.values()
