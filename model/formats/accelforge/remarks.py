"""Notes on a workload: what in it has no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from model.formats.accelforge.affine import Constraint
from model.formats.accelforge.consistency import ShapedEinsum, variable_of
from model.formats.accelforge.einsums import COPY_KEY, OPERATION_KEYS
from model.formats.accelforge.shapes import Condition, RankSize
from model.note import Note
from model.text.fields import as_name
from model.text.notes import note_at
from model.text.source import MappingNode, Node, Span
from model.wording import listing
from model.workload import Einsum


def unused_notes(
    sizes: Mapping[str, RankSize], conditions: Iterable[Condition], shaped: Sequence[ShapedEinsum]
) -> Iterator[Note]:
    """Note each size and condition that concerns nothing in the workload: it has no effect.

    Parameters
    ----------
    sizes
        Those of the whole workload, by rank.
    conditions
        Those of the whole workload.
    shaped
        All Einsums.
    """
    indices = [index for e in shaped for access in e.written.accesses for index in access.indices]
    used = {index.rank for index in indices}
    for name, size in sizes.items():
        if name not in used:
            yield note_at(size.span, "no tensor has a rank `{}`; its size has no effect", name)
    for einsum in shaped:
        own_sizes, own = einsum.written.get("rank_sizes"), einsum.written
        ranks = {index.rank for access in own.accesses for index in access.indices}
        names = own_sizes.keys() if isinstance(own_sizes, MappingNode) else ()
        for name in (name for name in names if name not in ranks):
            sentence = "no tensor of Einsum `{}` has a rank `{}`; its size here has no effect"
            yield note_at(einsum.sizes[name].span, sentence, own.name, name)
    variables = {frozenset(einsum.written.rank_variables) for einsum in shaped}
    for part in conditions:
        if not any(part.variables <= named for named in variables):
            yield note_at(part.span, "no Einsum has these rank variables; `{}` has no effect", part.text)


def cut_notes(shaped: Iterable[ShapedEinsum]) -> Iterator[Note]:
    """Note each condition that goes on beyond the size of a rank: the size ends it."""
    for einsum in shaped:
        yield from _cuts_of(einsum)


def _cuts_of(einsum: ShapedEinsum) -> Iterator[Note]:
    ends = _ends(einsum.shape.constraints)
    for index in (index for access in einsum.written.accesses for index in access.indices):
        size, name = einsum.sizes.get(index.rank), variable_of(index)
        if size is None or name not in ends or ends[name][0] < size.size:
            continue
        end, span = ends[name]
        sentence = "`{}` ends at {}, as rank `{}` has {} values ({}); this condition would let it go on to {}"
        yield note_at(span, sentence, name, size.size - 1, index.rank, size.size, str(size.span), end)


def _ends(constraints: Iterable[Constraint]) -> dict[str, tuple[int, Span]]:
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
    """Note each operation that is named: it changes no cost.

    Raises
    ------
    SpecError
        An operation that is no name.
    """
    for key, node in ((key, einsum.written.get(key)) for einsum in shaped for key in OPERATION_KEYS):
        if node is not None:
            operation = as_name(node, f"`{key}`")
            yield note_at(node.span, "`{}: {}` changes nothing: all operations cost the same", key, operation)


def copy_notes(shaped: Iterable[ShapedEinsum]) -> Iterator[Note]:
    """Note each function `copy`: it is computed, unlike a copy operation."""
    computed = (einsum.written for einsum in shaped if einsum.written.get(COPY_KEY) is None)
    for word in (word for einsum in computed for word in einsum.words):
        if word.is_called and word.name == "copy":
            yield note_at(word.span, "`copy` is computed like any function; `{}: true` moves", COPY_KEY)


def version_notes(*sections: Node | None) -> Iterator[Note]:
    """Note each version of a section: it changes nothing."""
    for section in sections:
        version = section.get("version") if isinstance(section, MappingNode) else None
        if version is not None:
            sentence = "`version` changes nothing: sections of all versions are read alike"
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
