"""Copy operations of a workload on an architecture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.cascade import Layer
from model.cost.copying import Transfer, backing_levels, transfer_of
from model.formats.cascade.naming import dataspace_names, place_of
from model.mapspace import Mapspace
from model.note import Note
from model.text.notes import note_at
from model.text.source import SpecError
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
