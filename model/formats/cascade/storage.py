"""Where tensors are stored while an Einsum runs: what they take there, and what copies move."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from graphlib import TopologicalSorter
from typing import NamedTuple

from model.cascade import Layer
from model.cost.copying import Transfer, backing_levels, transfer_of
from model.formats.cascade.constraints import dataspace_names, place_of
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.note import Note
from model.problem import Problem
from model.text.source import SpecError, note_at
from model.workload import Einsum, TensorAccess, Workload


class StoredBits(NamedTuple):
    """What a tensor takes where it is stored."""

    bits: int  # with ``backing_storage_size_scale``
    bits_per_value: int


def persistent_bits(workload: Workload) -> dict[str, StoredBits]:
    """Return what each persistent tensor takes for the Einsum that accesses most, times its instances."""
    taken: dict[str, StoredBits] = {}
    accesses = ((einsum, access) for einsum in workload.einsums for access in einsum.accesses)
    for einsum, access in accesses:
        if access.persistent:
            stored = StoredBits(stored_bits(einsum, access) * einsum.n_instances, access.bits_per_value)
            taken[access.tensor] = max(taken.get(access.tensor, stored), stored)
    return taken


def stored_bits(einsum: Einsum, access: TensorAccess) -> int:
    """Return the bits that what an Einsum accesses of a tensor takes in its backing storage."""
    return math.ceil(_plain_bits(einsum, access) * access.backing_storage_size_scale)


def reserved_bits(
    einsum: Einsum, persistent: dict[str, StoredBits], stored: Collection[str]
) -> dict[int, int]:
    """Return what is taken of a level besides the plain values of the Einsum's tensors."""
    accesses = {access.tensor: access for access in einsum.accesses if access.tensor in stored}
    total: Counter[int] = Counter()
    for tensor in persistent.keys() & set(stored) - accesses.keys():
        total[persistent[tensor].bits_per_value] += persistent[tensor].bits
    for tensor, access in accesses.items():
        taken = persistent[tensor].bits if tensor in persistent else stored_bits(einsum, access)
        total[access.bits_per_value] += taken - math.ceil(_plain_bits(einsum, access))
    return {size: bits for size, bits in total.items() if bits}


def _plain_bits(einsum: Einsum, access: TensorAccess) -> Fraction:
    return Fraction(einsum.size_values(access) * access.bits_per_value)


@dataclass(frozen=True)
class Waiting:
    """A tensor that waits."""

    tensor: str
    level: int  # that stores it, in ``Architecture.levels``
    # In all instances of the level together, for one instance of the Einsum that writes it.
    stored: StoredBits


def waiting_tensors(
    einsums: Sequence[Einsum], homes: Sequence[Mapping[str, int]]
) -> tuple[tuple[Waiting, ...], ...]:
    """Return what waits while each Einsum runs, persistent tensors aside; what copies leave counts once."""
    roots = _roots(einsums, homes)
    waits: list[list[Waiting]] = [[] for _ in einsums]
    for life in _lives(einsums, running_order(einsums)):
        waiting = list(_waiting(life, einsums[life.writer], homes[life.writer]))
        there = (place for place in life.between if life.tensor not in einsums[place].tensors)
        for place in there:
            waits[place] += waiting
    return tuple(
        tuple(_once_per_value(own, roots, einsum)) for own, einsum in zip(waits, einsums, strict=True)
    )


def _waiting(life: _Life, writer: Einsum, homes: Mapping[str, int]) -> Iterator[Waiting]:
    """Yield what an Einsum leaves for later ones, unless it is persistent."""
    access = next(access for access in writer.accesses if access.tensor == life.tensor and access.output)
    if not access.persistent:
        stored = StoredBits(stored_bits(writer, access), access.bits_per_value)
        yield Waiting(life.tensor, homes[life.tensor], stored)


def running_order(einsums: Sequence[Einsum]) -> tuple[int, ...]:
    """Return the places of the Einsums as they run: as written, unless one needs what a later one writes."""
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
    last: dict[str, int] = {}
    for number, place in enumerate(order):
        last |= dict.fromkeys(einsums[place].tensors, number)
    turn = {place: number for number, place in enumerate(order)}
    for tensor, writer in _writers(einsums).items():
        yield _Life(tensor, writer, frozenset(order[turn[writer] + 1 : last[tensor]]))


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


def _once_per_value(waits: Iterable[Waiting], roots: Mapping[str, str], einsum: Einsum) -> Iterator[Waiting]:
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


def stored_as_a_whole(mapspace: Mapspace) -> Mapspace:
    """Return the mapspace whose inner levels hold what they store as a whole (docs/network.md).

    A tensor that the outer levels bypass is kept at the level that stores it, and no level outside
    that one has temporal loops over the tensor's dimensions: nothing could take its place meanwhile.
    Spatial loops outside are free; each instance holds its part then.
    """
    homes = {name: level for name, level in backing_levels(mapspace).items() if level > 0}
    levels = range(len(mapspace.keep))
    return replace(
        mapspace,
        temporal=tuple(_temporal_rules(mapspace, homes, level) for level in levels),
        keep=tuple(_keep_rules(mapspace.keep[level], homes, level) for level in levels),
    )


def _temporal_rules(mapspace: Mapspace, homes: Mapping[str, int], level: int) -> TemporalRules:
    farther_in = [name for name, home in homes.items() if home > level]
    rules = mapspace.temporal[level]
    return replace(rules, factors=(*rules.factors, *_without_loops(mapspace.problem, farther_in)))


def _without_loops(problem: Problem, names: list[str]) -> Iterator[FactorRule]:
    for space in (space for space in problem.dataspaces if space.name in names):
        dims = (dim for dim in problem.dims if dim in space.dims)
        yield from (FactorRule(dim, "=", 1, stored=space.name) for dim in dims)


def _keep_rules(rules: KeepRules, homes: Mapping[str, int], level: int) -> KeepRules:
    stored = frozenset(name for name, home in homes.items() if home == level)
    return replace(rules, keep=rules.keep | stored, whole=stored)


def read_transfer(mapspace: Mapspace, einsum: Einsum) -> Transfer | None:
    """Return what a copy operation moves, None where its tensors are stored at one level."""
    homes = backing_levels(mapspace)
    architecture = mapspace.architecture
    for dataspace, level in homes.items() if len(set(homes.values())) > 1 else ():
        count = architecture.instances_above(architecture.storage_indices[level])
        if count > 1:
            what = (
                f"`{dataspace}` is stored at `{architecture.levels[level].name}`, which exists {count} times"
            )
            raise SpecError(
                f"copy operation `{einsum.name}`: {what}",
                place_of(einsum),
                hint="keep it at a level of one instance; distributing it "
                "over several instances is not modelled",
            )
    return transfer_of(mapspace)


def stray_notes(workload: Workload, layers: Sequence[Layer]) -> Iterator[Note]:
    """Yield notes on tensors that a copy moves to or from another level than an Einsum has them at."""
    if all(layer.transfer is None for layer in layers):
        return
    stored: dict[str, dict[str, str]] = {}
    for einsum, layer in zip(workload.einsums, layers, strict=True):
        levels, homes = layer.mapspace.architecture.levels, backing_levels(layer.mapspace)
        for name, access in zip(dataspace_names(einsum), einsum.accesses, strict=True):
            stored.setdefault(access.tensor, {}).setdefault(einsum.name, levels[homes[name]].name)
    for einsum, layer in zip(workload.einsums, layers, strict=True):
        if layer.transfer:
            yield from _notes_of_copy(einsum, stored)


def _notes_of_copy(copy: Einsum, stored: Mapping[str, Mapping[str, str]]) -> Iterator[Note]:
    """Yield notes on the tensors of a copy, given the level of each tensor by the Einsums that have it."""
    for tensor in copy.tensors:
        home = stored[tensor][copy.name]
        other = next((name for name, level in stored[tensor].items() if level != home), None)
        if other is not None:
            sentence = "for the copy `{}`, `{}` is stored at `{}`, but at `{}` for Einsum `{}`"
            yield note_at(place_of(copy), sentence, copy.name, tensor, home, stored[tensor][other], other)
