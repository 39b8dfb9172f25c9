"""The attributes of storage components by name: what is modelled, what is refused, and what is a slip."""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import lru_cache

from model.energy import ESTIMATED_ATTRIBUTES
from model.formats.timeloop.clauses import UPPER_UTILIZATION, no_upper_utilization
from model.formats.timeloop.context import Context
from model.formats.timeloop.tree import POWER_GATING, Leaf
from model.text.notes import note_at
from model.text.source import Span, SpecError, fold_name
from model.wording import listing

SYNONYMS: dict[str, tuple[str, ...]] = {
    "depth": ("depth", "memory_depth", "data_storage_depth"),
    "width": ("width", "memory_width", "data_storage_width"),
    "datawidth": ("datawidth", "word-bits", "word_bits", "word_width"),
    "block_size": ("block_size", "block-size", "n_words"),
}
_SIMPLE = (
    "entries",
    "sizeKB",
    "cluster_size",
    "multiple_buffering",
    "min_utilization",
    "shared_bandwidth",
    "read_bandwidth",
    "write_bandwidth",
    "bandwidth",
    "network_fill_latency",
    "network_drain_latency",
    "per_dataspace_bandwidth_consumption_scale",
    "allow_overbooking",
    POWER_GATING,
    "power_gated_at",
    "reduction_supported",
)
SPARSE_ATTRIBUTES = (
    "metadata_datawidth",
    "metadata_depth",
    "metadata_width",
    "metadata_storage_depth",
    "metadata_storage_width",
    "metadata_block_size",
    "concordant_compressed_tile_traversal",
    "tile_partition_supported",
    "decompression_supported",
    "compression_supported",
)
NETWORK_ENERGIES = (
    "router_energy",
    "router-energy",
    "wire_energy",
    "wire-energy",
    "energy_per_hop",
    "energy-per-hop",
    "energy_per_ingress",
    "energy-per-ingress",
)
MODELLED_ATTRIBUTES = (*(name for names in SYNONYMS.values() for name in names), *_SIMPLE)
STORAGE_ATTRIBUTES = (*MODELLED_ATTRIBUTES, *SPARSE_ATTRIBUTES, *NETWORK_ENERGIES)
SHAPE_ATTRIBUTES = tuple(name for known in ("depth", "width", "datawidth") for name in SYNONYMS[known])
"""What estimators ask of any component, in all spellings."""
_SLIP = 0.88
"""Alike enough to be a slip of the pen, unlike `n_banks` and the other names an estimator may know."""


def check_names(leaf: Leaf, context: Context) -> None:
    """Check the attributes of a storage by name; those that nothing here knows go to the estimator.

    Raises
    ------
    SpecError
        An attribute that is not modelled, or a slip of the pen.
    """
    _note_sparse(leaf, context)
    for name, attribute in leaf.attributes.items():
        if name == "instances":
            hint = "write `spatial: {meshX: ..., meshY: ...}` on a node: instances per instance above"
            raise SpecError("`instances` is no attribute", attribute.key, hint=hint)
        if name == UPPER_UTILIZATION:
            raise no_upper_utilization(attribute.key)
        slip = None if name in (*MODELLED_ATTRIBUTES, *SPARSE_ATTRIBUTES) else _slip(name)
        if slip is not None:
            raise SpecError(f"unknown attribute `{name}`", attribute.key, hint=f"did you mean `{slip}`?")


def refuse_networks(leaf: Leaf) -> None:
    """Check that no energy of a network is given, on a storage or for the fanout of a container.

    Raises
    ------
    SpecError
        One is given that is not 0.
    """
    for name in NETWORK_ENERGIES if leaf.role in ("container", "storage") else ():
        if name in leaf.attributes and leaf.attributes[name].value not in (None, 0):
            message = f"`{name}`: the energy of networks is not modelled"
            raise SpecError(message, leaf.attributes[name].key, hint="leave it out, or make it 0")


def _note_sparse(leaf: Leaf, context: Context) -> None:
    """Note what says how compressed data is stored: only sparse optimizations compress any."""
    present = (name for name in SPARSE_ATTRIBUTES if name in leaf.attributes)
    names = [name for name in present if leaf.attributes[name].value not in (None, False)]
    if names:
        verb = "changes" if len(names) == 1 else "change"
        sentence = "{} of `{}` " + verb + " nothing: nothing is compressed without sparse optimizations"
        context.note(note_at(leaf.attributes[names[0]].key, sentence, listing(names), leaf.name))


def unknown_attributes(leaf: Leaf) -> dict[str, Span]:
    """Return the places of the attributes that a storage writes itself, and that nobody reads, in order."""
    known = (*STORAGE_ATTRIBUTES, *ESTIMATED_ATTRIBUTES)
    unknown = {name: leaf.attributes[name].key for name in leaf.own_attributes if name not in known}
    return dict(sorted(unknown.items(), key=lambda item: (item[1].line, item[1].column)))


@lru_cache(maxsize=1024)
def _slip(name: str) -> str | None:
    """Return the modelled attribute that `name` misspells, if it does."""
    folded = fold_name(name)
    for known in MODELLED_ATTRIBUTES:
        plain = fold_name(known)
        # The ratio is harsh on two letters swapped in a short word, such as depht.
        swapped = sorted(folded) == sorted(plain)
        if swapped or SequenceMatcher(None, folded, plain).ratio() >= _SLIP:
            return known
    return None
