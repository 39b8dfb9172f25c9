"""From a workload and the nodes of an architecture to one mapspace per Einsum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from model.architecture import StorageLevel
from model.cascade import Layer, Network, Overfull
from model.cost.copying import backing_levels
from model.formats.cascade.concerned import Reader, read_each
from model.formats.cascade.constraints import Resolver
from model.formats.cascade.copies import read_transfer, stray_notes
from model.formats.cascade.homes import stored_as_a_whole
from model.formats.cascade.naming import Naming, dataspace_names, place_of, problem_of
from model.formats.cascade.reservations import Stored, persistent_bits, reserved_bits
from model.formats.cascade.waiting import Waiting, waiting_tensors
from model.formats.cascade.words import fit, in_values, word_rows
from model.formats.timeloop.document import holds_constraints
from model.formats.timeloop.loader import LoadOptions, load_node
from model.formats.timeloop.problem import LoadedProblem
from model.mapspace import Mapspace
from model.note import Note
from model.text.notes import note_at
from model.text.sizes import check_problem
from model.text.source import MappingNode, Span, SpecError
from model.wording import listing
from model.workload import Einsum, Workload

MOST_EINSUMS = 10_000
"""Each is read together with the architecture, which takes milliseconds."""

MOST_WORDS = 1 << 56
"""Words of a level, at most: sums of a few such numbers fit an integer of 64 bits."""


def network_of(workload: Workload, top: MappingNode, files: Sequence[Path], options: LoadOptions) -> Network:
    """Return the layers of a workload on an architecture.

    Raises
    ------
    SpecError
        For an architecture that cannot be used, for names that no Einsum knows, and for more Einsums than
        `MOST_EINSUMS`.
    """
    notes: list[Note] = []
    if len(workload.einsums) > MOST_EINSUMS:
        message = f"{len(workload.einsums):,} Einsums; at most {MOST_EINSUMS:,} are mapped"
        raise SpecError(message, place_of(workload.einsums[MOST_EINSUMS]))
    readers = (
        Reader(own.name, partial(_read, Naming(own, workload), top, files, options, notes), place_of(own))
        for own in workload.einsums
    )
    read = read_each(readers, "Einsum")
    reserved = persistent_bits(workload)
    homes: dict[str, int] = {}
    for loaded in reversed(read):
        homes |= {tensor: level for tensor, level in loaded.homes.items() if tensor in reserved}
    waiting = waiting_tensors(workload.einsums, [loaded.homes for loaded in read])
    rooms = [
        _Room(reserved, homes | loaded.homes, waits) for loaded, waits in zip(read, waiting, strict=True)
    ]
    layers = read_each(
        (
            Reader(loaded.einsum.name, partial(_layer, loaded, room), place_of(loaded.einsum))
            for loaded, room in zip(read, rooms, strict=True)
        ),
        "Einsum",
    )
    notes += [*stray_notes(workload, layers), *_all_inputs_notes(read), *_waiting_notes(read, waiting)]
    return Network(workload.name, layers, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class _Read:
    """An Einsum on an architecture that is all its own: levels in its values, and as they were written."""

    einsum: Einsum
    mapspace: Mapspace
    written: tuple[StorageLevel, ...]
    all_inputs: tuple[Span, ...]

    @property
    def homes(self) -> dict[str, int]:
        """Levels that store the Einsum's tensors."""
        levels = backing_levels(self.mapspace)
        names = dataspace_names(self.einsum)
        return {access.tensor: levels[name] for name, access in zip(names, self.einsum.accesses, strict=True)}


def _names_tensors(key: str) -> bool:
    """Whether a section may name tensors and rank variables of the workload."""
    return key == "architecture" or holds_constraints(key)


def _read(
    naming: Naming,
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    notes: list[Note],
) -> _Read:
    einsum = naming.einsum
    resolver = Resolver(naming)
    entries = tuple(
        (key, resolver.resolved(value) if _names_tensors(key.text) else value) for key, value in top.entries
    )
    unknown_note = resolver.unknown_note()
    problem = problem_of(einsum, resolver.absent)
    check_problem(problem, options.limits, place_of(einsum))
    spans = dict.fromkeys(problem.dims, place_of(einsum))
    resolved = MappingNode(entries, top.span, top.tag)
    try:
        loaded = load_node(resolved, files, options, LoadedProblem(problem, spans, ()))
    except SpecError as error:
        raise resolver.explained(error) from None
    notes += filter(None, [*loaded.notes, unknown_note])
    written = loaded.mapspace.architecture.levels
    return _Read(einsum, _in_values(loaded.mapspace, einsum, notes), written, tuple(resolver.all_inputs))


def _all_inputs_notes(read: Iterable[_Read]) -> Iterator[Note]:
    """Yield a note on the Einsums of which ``Inputs`` means weights as well."""
    concerned = [loaded for loaded in read if loaded.all_inputs]
    if concerned:
        names = listing(loaded.einsum.name for loaded in concerned)
        place = concerned[0].all_inputs[0]
        sentence = "`Inputs` means all inputs of {}, without a rename `input`; weights, too"
        yield note_at(place, sentence, names)


def _waiting_notes(read: Sequence[_Read], waiting: Sequence[Sequence[Waiting]]) -> Iterator[Note]:
    """Yield a note on each tensor that waits in a level of limited size."""
    meanwhile: dict[tuple[str, str], list[str]] = {}
    for loaded, waits in zip(read, waiting, strict=True):
        levels = loaded.mapspace.architecture.levels
        for wait in (wait for wait in waits if levels[wait.level].size_words is not None):
            meanwhile.setdefault((wait.tensor, levels[wait.level].name), []).append(loaded.einsum.name)
    for (tensor, level), names in meanwhile.items():
        verb = "runs" if len(names) == 1 else "run"
        sentence = "{} waits at `{}`, and takes room there, while {} {}"
        yield note_at(None, sentence, tensor, level, listing(names), verb)


@dataclass(frozen=True)
class _Room:
    """What takes room while an Einsum runs: tensors at the levels that store them, and those that wait."""

    persistent: dict[str, Stored]
    homes: dict[str, int]
    waiting: tuple[Waiting, ...]

    def taken(self, einsum: Einsum, level: int) -> _Taken:
        """Return what is taken of a level beyond the Einsum's own tensors as they are."""
        stored = [tensor for tensor, home in self.homes.items() if home == level]
        waiting = tuple(wait for wait in self.waiting if wait.level == level)
        return _Taken(reserved_bits(einsum, self.persistent, stored), waiting)


@dataclass(frozen=True)
class _Taken:
    """Bits by the size of their values, and the tensors that wait."""

    always: dict[int, int]
    waiting: tuple[Waiting, ...]

    def rows(self, written: StorageLevel, instances: int) -> Fraction:
        """Return the rows that are taken of each instance: of tensors that wait at least an even share."""
        bits = [(Fraction(stored), size) for size, stored in self.always.items()]
        bits += [(Fraction(wait.stored.bits, instances), wait.stored.bits_per_value) for wait in self.waiting]
        return sum((stored / size * fit(written, size).size_rows for stored, size in bits), Fraction(0))

    @property
    def what(self) -> str:
        """Return it for people."""
        names = listing(wait.tensor for wait in self.waiting)
        parts = ["persistent tensors"] * bool(self.always) + [f"tensors that wait ({names})"] * bool(
            self.waiting
        )
        return " and ".join(parts)


def _layer(read: _Read, room: _Room) -> Layer:
    """Return a layer on what other tensors leave of the levels that store them."""
    einsum, mapspace, overfull = read.einsum, read.mapspace, list[Overfull]()
    for level, written in enumerate(read.written):
        reserved = _with_reservation(mapspace, einsum, room.taken(einsum, level), written)
        mapspace, overfull = (
            (mapspace, [*overfull, reserved]) if isinstance(reserved, Overfull) else (reserved, overfull)
        )
    layer = Layer(einsum.name, replace(mapspace, notes=()), einsum.n_instances, overfull=tuple(overfull))
    if einsum.is_copy_operation:
        return replace(layer, is_copy=True, transfer=read_transfer(mapspace, einsum))
    return replace(layer, mapspace=stored_as_a_whole(layer.mapspace))


def _in_values(mapspace: Mapspace, einsum: Einsum, notes: list[Note]) -> Mapspace:
    """Return the mapspace with levels that count in the Einsum's values."""
    bits = _bits(einsum)
    architecture = in_values(mapspace.architecture, bits)
    for level, rules in zip(architecture.levels, mapspace.keep, strict=True):
        if level.packing and (level.size_words or 0) > MOST_WORDS:
            raise SpecError(f"`{level.name}` is too large for values of these sizes", place_of(einsum))
        kept = {name: value_bits for name, value_bits in bits.items() if name not in rules.bypass}
        unfit = [value_bits for name, value_bits in kept.items() if not _holds_one(level, name)]
        if unfit:
            notes.append(note_at(None, "`{}` is too small for a value of {} bits", level.name, min(unfit)))
    return replace(mapspace, architecture=architecture)


def _holds_one(level: StorageLevel, dataspace: str) -> bool:
    return level.size_words is None or level.packing_of(dataspace).size_per_value <= level.size_words


def _bits(einsum: Einsum) -> dict[str, int]:
    """Return the bits per value of each dataspace."""
    pairs = zip(dataspace_names(einsum), einsum.accesses, strict=True)
    return {name: access.bits_per_value for name, access in pairs}


def _with_reservation(
    mapspace: Mapspace, einsum: Einsum, taken: _Taken, written: StorageLevel
) -> Mapspace | Overfull:
    """Return the mapspace with a level as other tensors leave it, if they leave anything."""
    architecture = mapspace.architecture
    position = next(i for i in architecture.storage_indices if architecture.nodes[i].name == written.name)
    level = architecture.nodes[position]
    assert isinstance(level, StorageLevel)
    if level.size_words is None or not (taken.always or taken.waiting):
        return mapspace
    count = architecture.instances_above(position)
    if count > 1 and taken.always:
        message = f"persistent tensors are stored at `{level.name}`, which exists {count} times"
        hint = "keep them at a level of one instance; how they are spread over several is not modelled"
        raise SpecError(message, place_of(einsum), hint=hint)
    words = math.ceil(taken.rows(written, count) / word_rows(written, _bits(einsum)))
    if words > level.size_words:
        holds = f"{level.size_words:,} of {level.word_bits} bits"
        text = f"{taken.what} take {words:,} words of `{level.name}`, which holds {holds}"
        text = f"while Einsum `{einsum.name}` runs, {text}"
        return Overfull(level.name, words, level.size_words, text, level.size_source)
    smaller = replace(level, size_words=level.size_words - words, reserved_words=words)
    nodes = (*architecture.nodes[:position], smaller, *architecture.nodes[position + 1 :])
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))
