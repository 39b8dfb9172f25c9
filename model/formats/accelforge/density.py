"""The density of a workload's tensors: they must be dense, or are taken to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.formats.accelforge.einsums import ACCESS_DENSITY_KEYS, WrittenEinsum
from model.formats.timeloop.document import check_density
from model.text.fields import as_mapping, as_name
from model.text.notes import TakeNote, note_at
from model.text.source import MappingNode, Node, ScalarNode

WORKLOAD_DENSITY_KEYS = ("densities", "density_distributions")


def check_densities(
    workload: MappingNode, einsums: Sequence[WrittenEinsum], ignore_sparse: bool, note: TakeNote
) -> None:
    """Check that a workload's tensors are dense.

    Raises
    ------
    SpecError
        A density other than 1, unless it is to be ignored; a section that is no mapping.
    """
    for key, value in _entries(workload, einsums):
        if key.text in ("density", "densities"):
            check_density(key, value, ignore_sparse, note)
        else:
            note(note_at(key.span, "`{}` has no effect: all data is dense, or taken as dense", key.text))


def _entries(workload: MappingNode, einsums: Sequence[WrittenEinsum]) -> Iterator[tuple[ScalarNode, Node]]:
    """Yield the entries about densities that are not empty."""
    for key, value in workload.entries:
        if key.text in WORKLOAD_DENSITY_KEYS and not _is_empty(value):
            yield key, as_mapping(value, f"`{key.text}`")
    attributes = [access.attributes for einsum in einsums for access in einsum.accesses]
    for key, value in (entry for node in attributes if node is not None for entry in node.entries):
        if key.text in ACCESS_DENSITY_KEYS and not _is_empty(value):
            as_name(value, f"`{key.text}`")
            yield key, value


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
