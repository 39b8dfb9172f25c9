"""The density of data in specs: data must be dense, or is taken to be."""

from __future__ import annotations

from model.text.notes import TakeNote, note_at
from model.text.source import MappingNode, Node, ScalarNode, SpecError


def check_density(key: ScalarNode, value: Node, ignore_sparse: bool, note: TakeNote) -> None:
    """Check that what stands under `key` says that all data is dense.

    Parameters
    ----------
    key, value
        The entry.
    ignore_sparse
        Note other data instead of refusing it.
    note
        Takes the note.

    Raises
    ------
    SpecError
        Data that is not dense, unless it is to be ignored.
    """
    if _is_dense(value):
        return
    if not ignore_sparse:
        hint = "--ignore-sparse maps the problem as if all data were dense"
        raise SpecError(f"`{key.text}`: sparse data is not modelled", key.span, hint=hint)
    note(note_at(key.span, "`{}` is ignored; all data is taken as dense", key.text))


def _is_dense(value: Node) -> bool:
    """Whether a density is 1, or all that are given in a mapping are: then all data is dense."""
    if isinstance(value, MappingNode) and "distribution" not in value:
        return all(_is_dense(part) for _, part in value.entries)
    if isinstance(value, MappingNode):
        return _is_dense(value.require("density", "a density"))
    return isinstance(value, ScalarNode) and value.value == 1 and not isinstance(value.value, bool)
