"""From a workload and the nodes of an architecture to one mapspace per Einsum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from model.architecture import StorageLevel
from model.cascade import Layer, Narrowing, Network, Overfull
from model.cost.copying import backing_levels
from model.formats.accelforge.canonical import OnEinsum, Setting, on_einsum
from model.formats.accelforge.einsums import within
from model.formats.accelforge.loader import LoadedWorkload
from model.formats.accelforge.scope import Subject
from model.formats.accelforge.sets import EinsumNames
from model.formats.cascade.constraints import Naming, Resolver, dataspace_names, place_of, problem_of
from model.formats.cascade.renaming import numbered, renamed_mapspace, renamed_text
from model.formats.cascade.storage import (
    StoredBits,
    Waiting,
    persistent_bits,
    read_transfer,
    reserved_bits,
    stored_as_a_whole,
    stray_notes,
    waiting_tensors,
)
from model.formats.timeloop.document import section_name
from model.formats.timeloop.loader import LoadedSpec, load_node
from model.formats.timeloop.options import LoadOptions
from model.formats.timeloop.problem import LoadedProblem
from model.formats.timeloop.values import MOST_WORDS, fit, in_values, word_rows
from model.mapspace import Mapspace
from model.note import Note
from model.objective import ENERGY
from model.orders import check_orders
from model.places import spread, windows_without_outer_loops
from model.problem import Problem
from model.text.fields import check_problem
from model.text.source import MappingNode, Node, Span, SpecError, note_at
from model.wording import listing
from model.workload import MOST_EINSUMS, Einsum, Workload

PERFECT_ON_ARCH = "remainders are not modelled on AccelForge architectures"
NO_OUTER_LOOPS = (
    "the search puts no loop inside an instance of `{}` and around all of its tiles; AccelForge may find "
    "better mappings of {}, whose windows overlap"
)
MOST_COMPARED = 20
"""Others that are read to see whether they meet an error as well, each of which takes milliseconds."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class Reader(Generic[Read]):
    """What reads one of several, and what it is called."""

    name: str
    read: Callable[[], Read]
    place: Span | None = None  # replaces it in errors without a better place
    file: str | None = None  # only this one is in it: errors there need no name


def read_all(readers: Iterable[Reader[Read]], what: str) -> tuple[Read, ...]:
    """Read all of them."""
    in_order, values = tuple(readers), list[Read]()
    for place, reader in enumerate(in_order):
        try:
            values.append(reader.read())
        except SpecError as error:
            raise _naming_layers(error, in_order, place, what) from None
    return tuple(values)


def _naming_layers(error: SpecError, readers: Sequence[Reader[Read]], place: int, what: str) -> SpecError:
    failed, later = readers[place], readers[place + 1 : place + 1 + MOST_COMPARED]
    if len(readers) == 1 or (error.span is not None and error.span.file == failed.file):
        return error
    concerned = [failed.name, *(other.name for other in later if _met(other) == _cause_of(error, failed))]
    some_pass = place > 0 or len(concerned) <= len(later)
    says_so = what in error.message and f"`{failed.name}`" in error.message
    if not some_pass:
        return type(error)(error.message, _cause_of(error, failed)[1], error.related, error.hint)
    if says_so:
        return error
    number = what if len(concerned) == 1 else f"{what}s"
    message = f"{number} {listing(concerned)}: {error.message}"
    return type(error)(message, error.span, error.related, error.hint)


def _met(reader: Reader[Read]) -> tuple[str, Span | None] | None:
    """Return the key of the error that a reader meets, None without one."""
    try:
        reader.read()
    except SpecError as error:
        return _cause_of(error, reader)
    return None


def _cause_of(error: SpecError, reader: Reader[Read]) -> tuple[str, Span | None]:
    """Return what is the same in errors of one cause."""
    return error.message, None if error.span == reader.place else error.span


def network_of(
    workload: Workload,
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    resize: str | None = None,
) -> Network:
    """Return the layers of a workload on an architecture; the variable `resize` sets the bits of values."""
    notes: list[Note] = []
    known: Known = {}
    _check_count(workload)
    readers = (
        Reader(
            einsum.name,
            partial(_read_einsum, Naming(einsum, workload), top, files, options, notes, resize, known),
            place_of(einsum),
        )
        for einsum in workload.einsums
    )
    read = read_all(readers, "Einsum")
    notes += _word_size_notes(read)
    return _network(workload, read, notes)


def _word_size_notes(read: Iterable[_Read]) -> Iterator[Note]:
    """Yield a note on values with other sizes than the words of the architecture: the values' count."""
    sizes = {bits for loaded in read for bits in value_bits(loaded.einsum).values()}
    words = {level.word_bits for loaded in read for level in loaded.written}
    if len(sizes | words) > 1:
        yield Note(VALUES_COUNT, (bits_text(sizes), bits_text(words)))


WIDE_VALUES = "values have up to {} bits, and words of {} fewer: {}"
VALUES_COUNT = (
    "values have {} in the workload, and words have {} in the architecture: the sizes of the values count, "
    "so a row of a memory holds more or fewer values"
)


def bits_text(sizes: Iterable[int | Fraction]) -> str:
    """Return sizes such as ``8 or 16 bits``."""
    return f"{' or '.join(map(str, sorted(sizes)))} bits"


def network_on_arch(loaded: LoadedWorkload, setting: Setting, options: LoadOptions) -> Network:
    """Return the layers of a workload on an architecture of AccelForge."""
    notes: list[Note] = []
    read = _each_on_arch(loaded, setting, options, notes)
    if not options.has_places and any(map(_holds_several, read)):
        notes.append(Note(ONE_PLACE))
    return _network(loaded.workload, read, notes)


def mapspaces_on_arch(
    loaded: LoadedWorkload, setting: Setting, options: LoadOptions, notes: list[Note]
) -> tuple[list[Mapspace], list[bool]]:
    """Return the mapspace of each Einsum alone, with one place for each memory.

    And for each Einsum whether the second memory keeps each tensor that the outermost one does not.
    """
    each = _each_on_arch(loaded, setting, options, notes)
    return [read.mapspace for read in each], [read.keeps_rest for read in each]


def _each_on_arch(
    loaded: LoadedWorkload, setting: Setting, options: LoadOptions, notes: list[Note]
) -> list[_Read]:
    _check_count(loaded.workload)
    pairs = zip(loaded.workload.einsums, loaded.names, strict=True)
    readers = (
        Reader(einsum.name, partial(_read_on_arch, einsum, names, setting, options, notes), place_of(einsum))
        for einsum, names in pairs
    )
    return list(read_all(readers, "Einsum"))


ONE_PLACE = (
    "each memory has one place in the loop nest here; AccelForge also places the tensors of a memory at "
    "different heights, which may cost less"
)


def _holds_several(read: _Read) -> bool:
    """Whether a memory inside of the outermost one may keep several tensors."""
    spaces = {space.name for space in read.mapspace.problem.dataspaces}
    return any(len(spaces - rules.bypass) > 1 for rules in read.mapspace.keep[1:])


def _network(workload: Workload, read: Sequence[_Read], notes: list[Note]) -> Network:
    """Return the layers, on what other tensors leave of the levels that store them."""
    reserved = persistent_bits(workload)
    homes: dict[str, int] = {}
    for loaded in reversed(read):
        homes |= {tensor: level for tensor, level in loaded.homes.items() if tensor in reserved}
    waiting = waiting_tensors(workload.einsums, [loaded.homes for loaded in read])
    rooms = [
        _TakenRoom(reserved, homes | loaded.homes, waits) for loaded, waits in zip(read, waiting, strict=True)
    ]
    layers = read_all(
        (
            Reader(loaded.einsum.name, partial(_layer_in_room, loaded, room), place_of(loaded.einsum))
            for loaded, room in zip(read, rooms, strict=True)
        ),
        "Einsum",
    )
    notes += [*stray_notes(workload, layers), *_all_inputs_notes(read), *_waiting_notes(read, waiting)]
    return Network(workload.name, tuple(map(_with_places, layers, read)), tuple(dict.fromkeys(notes)))


def _with_places(layer: Layer, read: _Read) -> Layer:
    """Let memories have several places in a layer, as far as it was asked for; each order has its own."""
    if layer.mapspace.free_order:
        return layer
    return replace(layer, mapspace=spread(layer.mapspace, read.memories_with_places))


def _check_count(workload: Workload) -> None:
    if len(workload.einsums) > MOST_EINSUMS:
        message = f"{len(workload.einsums):,} Einsums; at most {MOST_EINSUMS:,} are mapped"
        raise SpecError(message, place_of(workload.einsums[MOST_EINSUMS]))


@dataclass(frozen=True)
class _Read:
    """An Einsum alone on an architecture, with levels in its values and as written."""

    einsum: Einsum
    mapspace: Mapspace
    written: tuple[StorageLevel, ...]
    word_rows: tuple[Fraction, ...]  # rows of each written level that one of its words in `mapspace` takes
    all_inputs: tuple[Span, ...] = ()
    memories_with_places: frozenset[str] = frozenset()  # memories that may have several places
    narrowing: Narrowing | None = None
    keeps_rest: bool = False  # whether the second memory keeps each tensor that the outermost one does not

    @property
    def homes(self) -> dict[str, int]:
        """Levels that store the Einsum's tensors."""
        levels = backing_levels(self.mapspace)
        names = dataspace_names(self.einsum)
        return {access.tensor: levels[name] for name, access in zip(names, self.einsum.accesses, strict=True)}


def _check_searchable(found: OnEinsum, options: LoadOptions) -> None:
    """Refuse what no search knows of an architecture, if it is to be searched."""
    if not options.refuse_unsearchable:
        return
    for error in found.unsearchable:
        raise error
    timed = [objective for objective in options.objectives or () if objective != ENERGY]
    if found.mapspace.architecture.cycle_s == 0 and timed:
        hint = "give the compute a finite throughput, or --objective energy"
        message = f"nothing takes time here, so all mappings have the same {timed[0]}"
        raise SpecError(message, found.compute_place, hint=hint)


_WITH_NAMES = ("architecture", "arch", "mapspace")
"""Sections with constraints in them; the latter two in older versions of Timeloop's format."""


def _names_tensors(key: str) -> bool:
    """Whether a section may name tensors and rank variables of the workload."""
    return key in _WITH_NAMES or section_name(key) == "constraints"


def _read_einsum(
    naming: Naming,
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    notes: list[Note],
    resize: str | None,
    known: Known,
) -> _Read:
    einsum = naming.einsum
    mapspace, all_inputs, spread_out = written_einsum(naming, top, files, options, notes, known)
    written = mapspace.architecture.levels
    rows = tuple(word_rows(level, value_bits(einsum)) for level in written)
    narrowing = None if resize is None else _narrowing(mapspace, einsum, notes, resize)
    sized = _levels_in_values(mapspace, einsum, notes)
    return _Read(einsum, sized, written, rows, all_inputs, spread_out, narrowing)


Known = dict[tuple[Node, Problem], LoadedSpec]
"""Specs by what they say, and the problem, without names of the workload."""


def written_einsum(
    naming: Naming,
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    notes: list[Note],
    known: Known,
) -> tuple[Mapspace, tuple[Span, ...], frozenset[str]]:
    """Return an Einsum on an architecture as written, where ``Inputs`` means weights as well, and memories
    that may have several places.

    What says the same as an earlier one in `known`, but for names of the workload, is read once.
    """
    einsum = naming.einsum
    resolver = Resolver(naming)
    entries = tuple(
        (key, resolver.resolved(value) if _names_tensors(key.text) else value) for key, value in top.entries
    )
    unknown_note = resolver.unknown_note()
    problem = problem_of(einsum, resolver.absent)
    check_problem(problem, options.files.limits, place_of(einsum))
    spans = dict.fromkeys(problem.dims, place_of(einsum))
    resolved = MappingNode(entries, top.span, top.tag)
    names = numbered(problem, resolved)
    key = renamed_text(resolved, names.dataspaces), names.problem(problem)
    loaded = known.get(key)
    if loaded is None:
        try:
            loaded = load_node(resolved, files, options, LoadedProblem(problem, spans, ()))
        except SpecError as error:
            raise resolver.explained(error) from None
        notes += loaded.notes
        if not (loaded.mapspace.sparsity or loaded.mapspace.rules):
            known[key] = loaded
    notes += filter(None, [unknown_note])
    mapspace = renamed_mapspace(loaded.mapspace, problem)
    return mapspace, tuple(resolver.all_inputs), loaded.memories_with_places


def _read_on_arch(
    einsum: Einsum, names: EinsumNames, setting: Setting, options: LoadOptions, notes: list[Note]
) -> _Read:
    """Read an Einsum on an architecture of AccelForge, whose memories count in bits."""
    problem = problem_of(einsum)
    check_problem(problem, options.files.limits, place_of(einsum))
    dataspaces: dict[str, tuple[str, ...]] = {}
    for space, access in zip(dataspace_names(einsum), einsum.accesses, strict=True):
        dataspaces[access.tensor] = (*dataspaces.get(access.tensor, ()), space)
    is_meant = options.accelforge.einsum in (None, einsum.name)
    if options.accelforge.einsum == einsum.name:
        setting = replace(setting, kept=dict(options.accelforge.kept))
    with within(einsum.name):
        found = on_einsum(setting, Subject(einsum, problem, names, dataspaces), notes.append)
        if is_meant and not einsum.is_copy_operation:
            _check_searchable(found, options)
            options.check_searched(replace(found.mapspace, counting=options.rule, free_order=frozenset()))
    if is_meant:
        notes += [Note("{}", (error.message,)) for error in found.unsearchable]
    factors = options.factors or options.free_factors(PERFECT_ON_ARCH, notes.append)
    mapspace = replace(
        found.mapspace,
        objectives=options.objectives or found.mapspace.objectives,
        counting=options.rule,
        factors=options.check_factors(factors),
    )
    if mapspace.free_order and is_meant:
        _check_free_order(mapspace, options)
    if is_meant and options.refuse_unsearchable and not einsum.is_copy_operation:
        notes += [
            Note(NO_OUTER_LOOPS, (memory, listing(spaces)))
            for memory, spaces in windows_without_outer_loops(mapspace)
        ]
    levels = mapspace.architecture.levels
    bits = tuple(replace(level, word_bits=1, block_size=1, packing=()) for level in levels)
    rows = tuple(Fraction(level.word_bits) for level in levels)
    spread_out = frozenset(level.name for level in levels if options.has_places)
    return _Read(einsum, mapspace, bits, rows, memories_with_places=spread_out, keeps_rest=found.keeps_rest)


def _check_free_order(mapspace: Mapspace, options: LoadOptions) -> None:
    """Refuse what no search over the orders of memories knows."""
    if not options.has_places:
        message = "memories in any order (force_memory_hierarchy_order: False) have several places each"
        raise SpecError(message, hint="leave out --no-uneven, or give --uneven")
    try:
        check_orders(mapspace)
    except ValueError as error:
        raise SpecError(str(error)) from None


def _all_inputs_notes(read: Iterable[_Read]) -> Iterator[Note]:
    """Yield a note on the Einsums of which ``Inputs`` means weights as well."""
    concerned = [loaded for loaded in read if loaded.all_inputs]
    if concerned:
        names = listing(loaded.einsum.name for loaded in concerned)
        place = concerned[0].all_inputs[0]
        sentence = "`Inputs` means all inputs of {}, without a rename `input`, and so the weights too"
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
        sentence = "{} is stored at `{}`, and takes space there, while {} {}"
        yield note_at(None, sentence, tensor, level, listing(names), verb)


@dataclass(frozen=True)
class _TakenRoom:
    """What takes room while an Einsum runs: tensors at the levels that store them, and those that wait."""

    persistent: dict[str, StoredBits]
    homes: dict[str, int]
    waiting: tuple[Waiting, ...]

    def taken(self, einsum: Einsum, level: int) -> _Taken:
        """Return what is taken of a level besides the plain values of the Einsum's tensors."""
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
        parts = ["persistent tensors"] * bool(self.always) + [f"tensors stored for later ({names})"] * bool(
            self.waiting
        )
        return " and ".join(parts)


def _layer_in_room(read: _Read, room: _TakenRoom) -> Layer:
    """Return a layer on what other tensors leave of the levels that store them."""
    einsum, mapspace, overfull, narrowing = read.einsum, read.mapspace, list[Overfull](), read.narrowing
    for level, written in enumerate(read.written):
        taken = room.taken(einsum, level)
        if taken.always or taken.waiting:  # narrower values would take other room
            narrowing = None
        reserved = _with_reservation(mapspace, einsum, taken, written, read.word_rows[level])
        mapspace, overfull = (
            (mapspace, [*overfull, reserved]) if isinstance(reserved, Overfull) else (reserved, overfull)
        )
    plain = replace(mapspace, notes=())
    layer = Layer(einsum.name, plain, einsum.n_instances, overfull=tuple(overfull), narrowing=narrowing)
    if einsum.is_copy_operation:
        return replace(layer, is_copy=True, transfer=read_transfer(mapspace, einsum))
    return replace(layer, mapspace=stored_as_a_whole(layer.mapspace))


def _levels_in_values(mapspace: Mapspace, einsum: Einsum, notes: list[Note]) -> Mapspace:
    """Return the mapspace with levels that count in the Einsum's values."""
    bits = value_bits(einsum)
    architecture = in_values(mapspace.architecture, bits)
    for level, rules in zip(architecture.levels, mapspace.keep, strict=True):
        if level.packing and (level.size_words or 0) > MOST_WORDS:
            raise SpecError(f"`{level.name}` is too large for values of these sizes", place_of(einsum))
        kept = {name: value_bits for name, value_bits in bits.items() if name not in rules.bypass}
        room = math.inf if level.size_words is None else level.size_words
        unfit = [kept[name] for name in kept if level.packing_of(name).size_per_value > room]
        if unfit:
            notes.append(note_at(None, "`{}` is too small for a value of {} bits", level.name, min(unfit)))
    return replace(mapspace, architecture=architecture)


def _narrowing(mapspace: Mapspace, einsum: Einsum, notes: list[Note], resize: str) -> Narrowing | None:
    """Say how to narrow values that are wider than words of levels, as where a model has 32-bit floats."""
    bits = value_bits(einsum)
    widest = max(bits.values())
    narrow = [level for level in mapspace.architecture.levels if level.word_bits < widest]
    if not narrow:
        return None
    word_bits = int(min(level.word_bits for level in narrow))
    way = f"`--set {resize}={word_bits}` takes all values as {word_bits} bits wide"
    for level, rules in zip(mapspace.architecture.levels, mapspace.keep, strict=True):
        room = math.inf if level.size_words is None else level.size_words * level.word_bits
        wide = [name for name, value_bits in bits.items() if name in rules.keep and value_bits > room]
        if wide:
            message = (
                f"`{level.name}` keeps {listing(wide)}, but is too small for a value of {bits[wide[0]]} bits"
            )
            raise SpecError(message, place_of(einsum), hint=way)
    notes.append(note_at(None, WIDE_VALUES, widest, listing(level.name for level in narrow), way))
    text = f"all values {word_bits} bits wide: `--set {resize}={word_bits}`"
    return Narrowing(in_values(mapspace.architecture, dict.fromkeys(bits, word_bits)), text)


def value_bits(einsum: Einsum) -> dict[str, int]:
    """Return the bits per value of each dataspace."""
    pairs = zip(dataspace_names(einsum), einsum.accesses, strict=True)
    return {name: access.bits_per_value for name, access in pairs}


def _with_reservation(
    mapspace: Mapspace, einsum: Einsum, taken: _Taken, written: StorageLevel, rows: Fraction
) -> Mapspace | Overfull:
    """Return the mapspace with a level as other tensors leave it, if anything; a word takes some rows."""
    architecture = mapspace.architecture
    position = next(i for i in architecture.storage_indices if architecture.nodes[i].name == written.name)
    level = architecture.level_at(position)
    if level.size_words is None or not (taken.always or taken.waiting):
        return mapspace
    count = architecture.instances_above(position)
    if count > 1 and taken.always:
        message = f"persistent tensors are stored at `{level.name}`, which exists {count} times"
        hint = (
            "keep them at a level of one instance; distributing them over several instances is not modelled"
        )
        raise SpecError(message, place_of(einsum), hint=hint)
    words = math.ceil(taken.rows(written, count) / rows)
    if words > level.size_words:
        holds = f"{level.size_words:,} of {level.word_bits} bits"
        text = f"{taken.what} take {words:,} words of `{level.name}`, which holds {holds}"
        text = f"while Einsum `{einsum.name}` runs, {text}"
        return Overfull(level.name, words, level.size_words, text, level.size_source)
    smaller = replace(level, size_words=level.size_words - words, reserved_words=words)
    nodes = (*architecture.nodes[:position], smaller, *architecture.nodes[position + 1 :])
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))
