"""From a workload and the nodes of an architecture to one mapspace per Einsum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from model.architecture import StorageLevel
from model.cascade import Layer, Network
from model.mapspace import Mapspace
from model.spec.cascade.constraints import Resolver
from model.spec.cascade.copies import read_transfer, stray_notes
from model.spec.cascade.naming import Naming, dataspace_names, place_of, problem_of
from model.spec.cascade.reservations import Stored, persistent_bits, reserved_bits
from model.spec.cascade.words import fit, in_values, word_rows
from model.spec.sizes import check_problem
from model.spec.source import MappingNode, SpecError
from model.spec.timeloop.loader import LoadOptions, holds_constraints, load_node
from model.spec.timeloop.problem import LoadedProblem
from model.workload import Einsum, Workload

MOST_EINSUMS = 10_000
"""Each is read together with the architecture, which takes milliseconds."""

MOST_WORDS = 1 << 56
"""Words of a level, at most: sums of a few such numbers fit an integer of 64 bits."""


def network_of(workload: Workload, top: MappingNode, files: Sequence[Path], options: LoadOptions) -> Network:
    """Return the layers of a workload on an architecture.

    Parameters
    ----------
    workload
        The Einsums.
    top
        A joined Timeloop spec without a problem. Its constraints may name tensors and rank variables
        of the workload, and renames of both.
    files, options
        As `model.spec.timeloop.load_timeloop` takes them.

    Raises
    ------
    SpecError
        For an architecture that cannot be used, and for names that no Einsum knows.
    """
    notes: list[str] = []
    if len(workload.einsums) > MOST_EINSUMS:
        message = f"{len(workload.einsums):,} Einsums; at most {MOST_EINSUMS:,} are mapped"
        raise SpecError(message, place_of(workload.einsums[MOST_EINSUMS]))
    reserved = persistent_bits(workload)
    layers = tuple(
        _layer(Naming(einsum, workload), top, files, options, reserved, notes) for einsum in workload.einsums
    )
    notes += stray_notes(workload, layers)
    return Network(workload.name, layers, tuple(dict.fromkeys(notes)))


def _names_tensors(key: str) -> bool:
    """Whether a section may name tensors and rank variables of the workload."""
    return key == "architecture" or holds_constraints(key)


def _layer(
    naming: Naming,
    top: MappingNode,
    files: Sequence[Path],
    options: LoadOptions,
    reserved: dict[str, Stored],
    notes: list[str],
) -> Layer:
    einsum = naming.einsum
    resolver = Resolver(naming)
    entries = tuple(
        (key, resolver.resolved(value) if _names_tensors(key.text) else value) for key, value in top.entries
    )
    unknown_note = resolver.unknown_note()
    problem = problem_of(einsum, resolver.absent)
    check_problem(problem, options.limits, place_of(einsum))
    spans = dict.fromkeys(problem.dims, place_of(einsum))
    own = MappingNode(entries, top.span, top.tag)
    loaded = load_node(own, files, options, LoadedProblem(problem, spans, ()))
    notes += filter(None, [*loaded.notes, unknown_note])
    written = loaded.mapspace.architecture.levels[0]
    mapspace = _in_values(loaded.mapspace, einsum, notes)
    mapspace = _with_reservation(mapspace, einsum, reserved_bits(einsum, reserved), written, top)
    layer = Layer(einsum.name, replace(mapspace, notes=()), einsum.n_instances)
    if not einsum.is_copy_operation:
        return layer
    return replace(layer, is_copy=True, transfer=read_transfer(mapspace, einsum))


def _in_values(mapspace: Mapspace, einsum: Einsum, notes: list[str]) -> Mapspace:
    """Return the mapspace with levels that count in the Einsum's values."""
    bits = _bits(einsum)
    architecture = in_values(mapspace.architecture, bits)
    for level, rules in zip(architecture.levels, mapspace.keep, strict=True):
        if level.packing and (level.size_words or 0) > MOST_WORDS:
            raise SpecError(f"`{level.name}` is too large for values of these sizes", place_of(einsum))
        kept = {name: own for name, own in bits.items() if name not in rules.bypass}
        unfit = [own for name, own in kept.items() if not _holds_one(level, name)]
        if unfit:
            notes.append(f"`{level.name}` is too small for a value of {min(unfit)} bits")
    return replace(mapspace, architecture=architecture)


def _holds_one(level: StorageLevel, dataspace: str) -> bool:
    return level.size_words is None or level.packing_of(dataspace).size_per_value <= level.size_words


def _bits(einsum: Einsum) -> dict[str, int]:
    """Return the bits per value of each dataspace."""
    pairs = zip(dataspace_names(einsum), einsum.accesses, strict=True)
    return {name: access.bits_per_value for name, access in pairs}


def _with_reservation(
    mapspace: Mapspace, einsum: Einsum, reserved: dict[int, int], written: StorageLevel, top: MappingNode
) -> Mapspace:
    """Return the mapspace with the outermost level as persistent tensors leave it.

    Parameters
    ----------
    reserved
        As `reserved_bits` gives it.
    written
        The outermost level as it was written.
    """
    architecture = mapspace.architecture
    outermost = architecture.nodes[0]
    assert isinstance(outermost, StorageLevel)
    if outermost.size_words is None or not reserved:
        return mapspace
    rows = sum(Fraction(bits, size) * fit(written, size).size_rows for size, bits in reserved.items())
    words = math.ceil(rows / word_rows(written, _bits(einsum)))
    if words >= outermost.size_words:
        capacity = f"{outermost.size_words:,} of {outermost.word_bits} bits"
        message = (
            f"while Einsum `{einsum.name}` runs, persistent tensors take {words:,} words of "
            f"`{outermost.name}`, which holds {capacity}"
        )
        raise SpecError(message, top.span)
    level = replace(outermost, size_words=outermost.size_words - words, reserved_words=words)
    nodes = (level, *architecture.nodes[1:])
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))
