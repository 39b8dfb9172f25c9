"""What curves of least traffic are about: Einsums as text, layers, workloads and models, without a design."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from model.cascade import Layer
from model.extents import ANY, Factors
from model.formats.cascade import read_network
from model.formats.cascade.layers import VALUES_COUNT, WIDE_VALUES
from model.formats.cascade.loader import WORDS_COUNT
from model.formats.fused import load_cascade
from model.formats.fused.loader import CONSTRAINTS_NOTE
from model.formats.timeloop import LoadOptions
from model.fused.cascade import Cascade
from model.text.source import SpecError
from solver.cli.einsum_text import indices_of, tensors_of, workload_of
from solver.cli.options import SHIPPED
from solver.curves.network import Part

DEFAULT_BITS = 8
"""Of a value, where neither the file nor the user says."""

MEMORY = SHIPPED / "curves" / "memory.yaml"
MEMORY_AND_BUFFER = SHIPPED / "curves" / "memory_and_buffer.yaml"

OF_THE_DESIGN = (CONSTRAINTS_NOTE, VALUES_COUNT, WIDE_VALUES, WORDS_COUNT)
"""Notes about these designs, which say nothing to the user."""

Bits = int | Mapping[str, int] | None
"""Of values: of all, or by tensor; None as the file says."""


@dataclass(frozen=True)
class Reading:
    """How inputs are read.

    Parameters
    ----------
    variables
        Of templates.
    fuse
        Whether Einsums are a cascade, too.
    """

    bits: Bits = None
    factors: Factors = ANY
    variables: Mapping[str, object] = field(default_factory=dict)
    fuse: bool = False


@dataclass(frozen=True)
class CurveSubject:
    """What one curve is about: a name, layers with what is known of bits, and the cascade if it is fused."""

    name: str
    layers: tuple[Layer, ...]
    says_bits: bool
    notes: tuple[str, ...]
    cascade: Cascade | None = None


def read_texts(texts: Sequence[str], sizes: Mapping[str, int], reading: Reading, how: str) -> CurveSubject:
    """Read Einsums that are given as text, as a workload.

    Parameters
    ----------
    texts, sizes
        The Einsums, and sizes of indices.
    reading
        Bits, factors, variables.
    how
        How the size of an index is given, for messages.

    Raises
    ------
    SpecError
        For every kind of invalid input, without a place in a file that the user did not write.
    """
    given = {} if reading.bits is None else reading.bits
    indices = set[str]().union(*map(indices_of, texts))
    own = {name: size for name, size in sizes.items() if name in indices}
    names = dict.fromkeys(name for text in texts for name in tensors_of(text))
    bits = {name: given if isinstance(given, int) else given.get(name, DEFAULT_BITS) for name in names}
    try:
        workload = workload_of(texts, own, bits, how)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "Einsum.yaml"
            path.write_text(yaml.safe_dump(workload, sort_keys=False), encoding="utf-8")
            return read_subject(path, reading)
    except SpecError as error:
        raise SpecError(error.message, hint=error.hint) from None


def read_subject(path: Path, reading: Reading) -> CurveSubject:
    """Read the layers of one input, and its cascade to fuse."""
    options, values = (
        LoadOptions(ignore_sparse=True, factors=reading.factors, problems_only=True),
        reading.variables,
    )
    loaded = read_network([path, MEMORY], values, options)
    network = loaded.network
    layers = tuple(layer for layer in network.layers if not layer.is_copy)
    if not layers:
        raise SpecError(f"{network.name} has only copy operations: there is nothing to compute")
    copies = [layer.name for layer in network.layers if layer.is_copy]
    notes = [str(note) for note in network.notes if note.sentence not in OF_THE_DESIGN]
    notes += (
        [f"{', '.join(copies)}: copy operations need no traffic here, and are left out"] if copies else []
    )
    cascade = None
    if reading.fuse:
        cascade, read = load_cascade([path, MEMORY_AND_BUFFER], values, options)
        notes += [str(note) for note in read if note.sentence not in OF_THE_DESIGN]
    says_bits = "problem" not in loaded.documents[0]
    name = network.name if len(network.layers) > 1 else network.layers[0].name
    return CurveSubject(name, layers, says_bits, tuple(notes), cascade)


def parts_of(own: CurveSubject, bits: Bits) -> list[Part]:
    """Return the layers of an input with the bits of their values."""
    return [
        Part(
            layer.name,
            layer.mapspace.problem,
            _bits_by_dataspace(layer, own.says_bits, bits),
            layer.n_instances,
        )
        for layer in own.layers
    ]


def _bits_by_dataspace(layer: Layer, says_bits: bool, bits: Bits) -> dict[str, int]:
    """Return bits of a value, by dataspace: those of the user, else of the file, else the default."""
    memory = layer.mapspace.architecture.levels[0]
    sizes = {own.dataspace: own.size_per_value for own in memory.packing}
    says_bits = says_bits or bool(sizes) or memory.word_bits > 1
    names = [space.name for space in layer.mapspace.problem.dataspaces]
    if isinstance(bits, int):
        return dict.fromkeys(names, bits)
    known = {
        name: int(memory.word_bits * sizes.get(name, 1)) if says_bits else DEFAULT_BITS for name in names
    }
    return {name: (bits or {}).get(name, size) for name, size in known.items()}
