"""Checks across the Einsums of a workload, and notes on what has no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.formats.accelforge.affine import Constraint
from model.formats.accelforge.einsums import (
    ACCESS_DENSITY_KEYS,
    COPY_KEY,
    OPERATION_KEYS,
    BareWord,
    WrittenAccess,
    WrittenEinsum,
    WrittenIndex,
    within,
)
from model.formats.accelforge.shapes import Condition, IterationShape, RankSize
from model.formats.timeloop.document import check_density
from model.note import Note
from model.text.fields import add_once, as_mapping, as_name, is_blank
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError, TakeNote, note_at
from model.wording import did_you_mean, listing
from model.workload import Einsum


@dataclass(frozen=True)
class ShapedEinsum:
    """An Einsum with what is known of its extent."""

    written: WrittenEinsum
    shape: IterationShape
    sizes: Mapping[str, RankSize]  # by rank, those of the workload included; not every rank has one

    @property
    def ranges(self) -> dict[str, range]:
        """The values of each rank variable."""
        return dict(zip(self.written.rank_variables, self.shape.ranges, strict=True))

    def place_of(self, rank_variable: str) -> Span:
        """Return where one of the Einsum's rank variables is first used."""
        indices = (index for access in self.written.accesses for index in access.indices)
        return next(index.span for index in indices if rank_variable in index.affine.coefficients)


_Accessed = tuple[ShapedEinsum, WrittenAccess]


def check_rank_variables(einsums: Sequence[ShapedEinsum]) -> None:
    """Check that each rank variable has the same values in all Einsums."""
    first: dict[str, tuple[range, ShapedEinsum]] = {}
    ranges = ((einsum, *item) for einsum in einsums for item in einsum.ranges.items())
    for einsum, name, values in ranges:
        known, other = first.setdefault(name, (values, einsum))
        if known != values:
            related = ((other.place_of(name), f"{_range_text(known)} in Einsum `{other.written.name}`"),)
            what = f"`{name}` is {_range_text(values)} in Einsum `{einsum.written.name}`"
            raise SpecError(f"inconsistent rank sizes: {what}", einsum.place_of(name), related)


def _all_accesses(einsums: Sequence[ShapedEinsum]) -> Iterator[_Accessed]:
    return ((einsum, access) for einsum in einsums for access in einsum.written.accesses)


def note_unreached(einsums: Sequence[ShapedEinsum], note: TakeNote) -> None:
    """Note ranks of which a rank variable reaches a part only, as other accesses or conditions limit it."""
    indices = ((einsum, index) for einsum, access in _all_accesses(einsums) for index in access.indices)
    for einsum, index in indices:
        size, values = einsum.sizes.get(index.rank), _values_of_index(einsum, index)
        if size is None or values is None or len(values) == size.size:
            continue
        name = next(iter(index.affine.coefficients))
        sentence = "rank `{}` has {} values, but `{}` of Einsum `{}` takes {} only"
        shown = index.rank, size.size, name, einsum.written.name, _range_text(values)
        note(note_at(size.span, sentence, *shown))


def check_tensors(einsums: Sequence[ShapedEinsum], note: TakeNote) -> None:
    """Check that all accesses of a tensor agree on its ranks (by name, else by position) and their sizes.

    Where no size is given, accesses by single rank variables must have equal ranges.
    """
    first: dict[str, _Accessed] = {}
    for einsum, access in _all_accesses(einsums):
        with within(einsum.written.name):
            _check_access((einsum, access), first.setdefault(access.tensor, (einsum, access)), note)


def _check_access(here: _Accessed, there: _Accessed, note: TakeNote) -> None:
    (einsum, access), (other, reference) = here, there
    for index, known in _paired(access, reference, note):
        _check_same_size(access.tensor, (einsum, index), (other, known))


def _paired(
    access: WrittenAccess, reference: WrittenAccess, note: TakeNote
) -> Iterator[tuple[WrittenIndex, WrittenIndex]]:
    indices = {index.rank: index for index in access.indices}
    known = {index.rank: index for index in reference.indices}
    if len(indices) != len(known):
        message = f"tensor `{access.tensor}` has {len(indices)} ranks here, but {len(known)} before"
        raise SpecError(message, access.span, ((reference.span, f"with {listing(known)}"),))
    if indices.keys() == known.keys():
        return ((indices[rank], known[rank]) for rank in indices)
    sentence = "tensor `{}` has ranks {} here, but {} at {}; they are matched in this order"
    note(note_at(access.span, sentence, access.tensor, listing(indices), listing(known), str(reference.span)))
    return zip(access.indices, reference.indices, strict=True)


def _check_same_size(
    tensor: str, here: tuple[ShapedEinsum, WrittenIndex], there: tuple[ShapedEinsum, WrittenIndex]
) -> None:
    rank_size, known_size = (einsum.sizes.get(index.rank) for einsum, index in (here, there))
    if rank_size is not None and known_size is not None:
        if rank_size.size != known_size.size:
            message = (
                f"inconsistent rank sizes: rank `{here[1].rank}` of tensor `{tensor}` is {rank_size.size}"
            )
            raise SpecError(message, rank_size.span, ((known_size.span, f"but {known_size.size} before"),))
        return
    if rank_size is not None or known_size is not None:
        for size, index in ((rank_size, there), (known_size, here)):
            _check_within_rank(tensor, size, *index)
        return
    values, others = _values_of_index(*here), _values_of_index(*there)
    if values is not None and others is not None and values != others:
        rank = here[1].rank
        message = f"inconsistent rank sizes: rank `{rank}` of tensor `{tensor}` is {_range_text(values)} here"
        hint = f"give rank `{rank}` a size in `rank_sizes` if only a part of it is accessed"
        raise SpecError(message, here[1].span, ((there[1].span, f"but {_range_text(others)} before"),), hint)


def _check_within_rank(tensor: str, size: RankSize | None, einsum: ShapedEinsum, index: WrittenIndex) -> None:
    """Refuse an index that leaves the rank whose size only another Einsum gives: nothing limits it here."""
    values = _values_of_index(einsum, index)
    if size is None or values is None or (values.start >= 0 and values.stop <= size.size):
        return
    message = (
        f"inconsistent rank sizes: rank `{index.rank}` of tensor `{tensor}` is {_range_text(values)} here"
    )
    raise SpecError(message, index.span, ((size.span, f"but {size.size} there"),))


def _values_of_index(einsum: ShapedEinsum, index: WrittenIndex) -> range | None:
    """Return the values of a rank's index if it is a rank variable and nothing else."""
    name = variable_of(index)
    return None if name is None else einsum.ranges[name]


def variable_of(index: WrittenIndex) -> str | None:
    """Return the rank variable that a rank's index is, None where it is anything else."""
    if index.affine.constant or list(index.affine.coefficients.values()) != [1]:
        return None
    return next(iter(index.affine.coefficients))


def check_words(einsums: Sequence[WrittenEinsum], constants: Collection[str]) -> None:
    """Check that no tensor of an Einsum's text lacks its indices; other words name functions or constants."""
    tensors = {access.tensor: access.span for einsum in einsums for access in einsum.accesses}
    for einsum in einsums:
        with within(einsum.name):
            _check_words(einsum.words, tensors, constants)


def _check_words(words: Iterable[BareWord], tensors: Mapping[str, Span], constants: Collection[str]) -> None:
    for word in words:
        if word.name in tensors:
            hint = f"give it indices, as in `{word.name}[m, k]`; a single value is written `{word.name}[]`"
            message = f"tensor `{word.name}` has no indices here"
            raise SpecError(message, word.span, ((tensors[word.name], "with indices"),), hint)
        if word.name[0].isupper() and not word.is_called and word.name not in constants:
            hint = did_you_mean(word.name, tensors) or "tensors have indices, as in `W[m, k]` or `W[]`"
            raise SpecError(f"`{word.name}` is not a rank, variable or function", word.span, hint=hint)


def check_dependencies(einsums: Sequence[WrittenEinsum]) -> None:
    """Check that each tensor is written once, and that no Einsum waits for itself."""
    writers: dict[str, WrittenEinsum] = {}
    places: dict[str, Span] = {}
    written = ((einsum, access) for einsum in einsums for access in einsum.accesses if access.output)
    for einsum, access in written:
        message = f"tensor `{access.tensor}` is produced by two Einsums"
        add_once(places, access.tensor, access.span, message)
        writers[access.tensor] = einsum
    done: set[str] = set()
    for einsum in einsums:
        _check_chain(einsum, writers, done)


def _check_chain(start: WrittenEinsum, writers: Mapping[str, WrittenEinsum], done: set[str]) -> None:
    """Follow reads to their writers, depth first, without recursion: chains may be long."""
    path: list[tuple[WrittenEinsum, WrittenAccess | None]] = [(start, None)]
    pending = [_needed_writers(start, writers, done)]
    places = {start.name: 0}
    while path:
        step = next(pending[-1], None)
        if step is None:
            finished = path.pop()[0].name
            done.add(finished)
            del places[finished]
            pending.pop()
            continue
        if step[0].name in places:
            raise _cycle([*path[places[step[0].name] :], step])
        places[step[0].name] = len(path)
        path.append(step)
        pending.append(_needed_writers(step[0], writers, done))


def _needed_writers(
    einsum: WrittenEinsum, writers: Mapping[str, WrittenEinsum], done: set[str]
) -> Iterator[tuple[WrittenEinsum, WrittenAccess]]:
    """Yield the Einsums that write what an Einsum reads, each with the read."""
    for access in einsum.accesses:
        writer = None if access.output else writers.get(access.tensor)
        if writer is not None and writer.name not in done:
            yield writer, access


def _cycle(path: Sequence[tuple[WrittenEinsum, WrittenAccess | None]]) -> SpecError:
    names = " -> ".join(f"`{einsum.name}`" for einsum, _ in path)
    reads = [access for _, access in path[1:] if access is not None]
    related = tuple((access.span, f"`{access.tensor}` is read here") for access in reads[1:])
    return SpecError(f"cyclic dependency between Einsums: {names}", reads[0].span, related)


def _range_text(values: range) -> str:
    return f"{values.start}..{values.stop - 1}"


WORKLOAD_DENSITY_KEYS = ("densities", "density_distributions")


def check_densities(
    workload: MappingNode, einsums: Sequence[WrittenEinsum], ignore_sparse: bool, note: TakeNote
) -> None:
    """Check that a workload's tensors are dense."""
    for key, value in _density_entries(workload, einsums):
        if key.text in ("density", "densities"):
            check_density(key, value, ignore_sparse, note)
        else:
            note(note_at(key.span, "`{}` has no effect: all data is dense, or treated as dense", key.text))


def _density_entries(
    workload: MappingNode, einsums: Sequence[WrittenEinsum]
) -> Iterator[tuple[ScalarNode, Node]]:
    """Yield the entries about densities that are not empty."""
    for key, value in workload.entries:
        if key.text in WORKLOAD_DENSITY_KEYS and not is_blank(value):
            yield key, as_mapping(value, f"`{key.text}`")
    attributes = [access.attributes for einsum in einsums for access in einsum.accesses]
    for key, value in (entry for node in attributes if node is not None for entry in node.entries):
        if key.text in ACCESS_DENSITY_KEYS and not is_blank(value):
            as_name(value, f"`{key.text}`")
            yield key, value


def unused_size_notes(
    sizes: Mapping[str, RankSize], conditions: Iterable[Condition], shaped: Sequence[ShapedEinsum]
) -> Iterator[Note]:
    """Note each size and condition that concerns nothing in the workload: it has no effect."""
    indices = [index for e in shaped for access in e.written.accesses for index in access.indices]
    used = {index.rank for index in indices}
    for name, size in sizes.items():
        if name not in used:
            yield note_at(size.span, "no tensor has a rank `{}`; its size has no effect", name)
    for einsum in shaped:
        written = einsum.written
        local_sizes = written.get("rank_sizes")
        ranks = {index.rank for access in written.accesses for index in access.indices}
        names = local_sizes.keys() if isinstance(local_sizes, MappingNode) else ()
        for name in (name for name in names if name not in ranks):
            sentence = "no tensor of Einsum `{}` has a rank `{}`; its size here has no effect"
            yield note_at(einsum.sizes[name].span, sentence, written.name, name)
    variables = {frozenset(einsum.written.rank_variables) for einsum in shaped}
    for part in conditions:
        if not any(part.variables <= named for named in variables):
            yield note_at(part.span, "no Einsum has these rank variables; `{}` has no effect", part.text)


def cut_notes(shaped: Iterable[ShapedEinsum]) -> Iterator[Note]:
    """Note each condition that goes on beyond the size of a rank: the size ends it."""
    for einsum in shaped:
        yield from _cuts_of(einsum)


def _cuts_of(einsum: ShapedEinsum) -> Iterator[Note]:
    ends = _last_values(einsum.shape.constraints)
    for index in (index for access in einsum.written.accesses for index in access.indices):
        size, name = einsum.sizes.get(index.rank), variable_of(index)
        if size is None or name not in ends or ends[name][0] < size.size:
            continue
        end, span = ends[name]
        sentence = "`{}` ends at {}, as rank `{}` has {} values ({}); this condition allows values up to {}"
        yield note_at(span, sentence, name, size.size - 1, index.rank, size.size, str(size.span), end)


def _last_values(constraints: Iterable[Constraint]) -> dict[str, tuple[int, Span]]:
    """Return the last value of each rank variable that the conditions on it alone leave, and which does."""
    ends: dict[str, tuple[int, Span]] = {}
    for constraint in constraints:
        terms = list(constraint.affine.coefficients.items())
        if len(terms) != 1 or terms[0][1] > 0:
            continue
        name, coefficient = terms[0]
        end = constraint.affine.constant // -coefficient
        if name not in ends or end < ends[name][0]:
            ends[name] = (end, constraint.span)
    return ends


def operation_notes(shaped: Iterable[ShapedEinsum]) -> Iterator[Note]:
    """Note each operation that is named: it changes no cost."""
    for key, node in ((key, einsum.written.get(key)) for einsum in shaped for key in OPERATION_KEYS):
        if node is not None:
            operation = as_name(node, f"`{key}`")
            yield note_at(node.span, "`{}: {}` has no effect: all operations cost the same", key, operation)


def copy_notes(shaped: Iterable[ShapedEinsum]) -> Iterator[Note]:
    """Note each function `copy`: it is computed, unlike a copy operation."""
    computed = (einsum.written for einsum in shaped if einsum.written.get(COPY_KEY) is None)
    for word in (word for einsum in computed for word in einsum.words):
        if word.is_called and word.name == "copy":
            yield note_at(
                word.span, "`copy` is computed like any other function; `{}: true` makes it a move", COPY_KEY
            )


def version_notes(*sections: Node | None) -> Iterator[Note]:
    """Note each version of a section: it changes nothing."""
    for section in sections:
        version = section.get("version") if isinstance(section, MappingNode) else None
        if version is not None:
            sentence = "`version` has no effect: sections of all versions are read in the same way"
            yield note_at(version.span, sentence)


def partial_notes(einsums: Iterable[Einsum]) -> list[Note]:
    """Note the Einsums that skip some combinations of their rank variables."""
    partial = [einsum.name for einsum in einsums if not einsum.is_box]
    if not partial:
        return []
    sentence = (
        "{}: some combinations of their rank variables are skipped, such as padding beyond a rank's size; "
        "they are mapped on the box of all combinations"
    )
    return [note_at(None, sentence, listing(partial))]
