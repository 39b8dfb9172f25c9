"""Copy operations of a workload on an architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.cascade import Layer
from model.cost.copying import Transfer, backing_levels, transfer_of
from model.cost.tiles import tile_words
from model.mapspace import Mapspace
from model.spec.cascade.naming import dataspace_names, place_of
from model.spec.source import SpecError
from model.wording import listing
from model.workload import Einsum, Workload


def read_transfer(mapspace: Mapspace, einsum: Einsum) -> Transfer | None:
    """Return what a copy operation moves, None where its tensors are stored at one level.

    Raises
    ------
    SpecError
        Its tensors are stored at different levels, and one of these has several instances: how a
        tensor lies in them is for a mapping to say.
    """
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
                hint="keep it at a level of one instance; how it is spread over several is not modelled",
            )
    return transfer_of(mapspace)


def stray_notes(workload: Workload, layers: Sequence[Layer]) -> Iterator[str]:
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


def _notes_of_copy(copy: Einsum, stored: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield notes on the tensors of a copy, given the level of each tensor by the Einsums that have it."""
    for tensor in copy.tensors:
        own = stored[tensor][copy.name]
        other = next((name for name, level in stored[tensor].items() if level != own), None)
        if other is not None:
            yield (
                f"{place_of(copy)}: for the copy `{copy.name}`, `{tensor}` is stored at `{own}`, but "
                f"at `{stored[tensor][other]}` for Einsum `{other}`"
            )


def overfull_notes(workload: Workload, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield notes on inner levels that do not hold, as a whole, what they store while an Einsum runs."""
    for einsum, layer in zip(workload.einsums, layers, strict=True):
        for level, names in () if layer.is_copy else _overfull(layer.mapspace):
            yield (
                f"{place_of(einsum)}: `{level}` does not hold as a whole what it stores for Einsum "
                f"`{einsum.name}`, {listing(names)}: what is not there comes and goes at no cost"
            )


def _overfull(mapspace: Mapspace) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of inner levels that are too small for what they store, and of the dataspaces."""
    problem, architecture, homes = mapspace.problem, mapspace.architecture, backing_levels(mapspace)
    for number in sorted(set(homes.values()) - {0}):
        level, usable = architecture.levels[number], architecture.levels[number].usable_words
        stored = [space for space in problem.dataspaces if homes[space.name] == number]
        sizes = (tile_words(own, problem.bound) * level.packing_of(own.name).size_per_value for own in stored)
        count = architecture.instances_above(architecture.storage_indices[number])
        if usable is not None and sum(sizes) > usable * count:
            yield level.name, [space.name for space in stored]
