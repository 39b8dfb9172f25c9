"""Fused mappings as YAML, with the workload and the architecture that they belong to."""

from model.formats.cascade.tree_nest import NotWrittenError
from model.formats.fused.joined import accelforge_mapping, einsum_mapping
from model.formats.fused.loader import LoadedFused, is_fused, load_cascade, load_fused, without_tree
from model.formats.fused.tree import fused_yaml

__all__ = [
    "LoadedFused",
    "NotWrittenError",
    "accelforge_mapping",
    "einsum_mapping",
    "fused_yaml",
    "is_fused",
    "load_cascade",
    "load_fused",
    "without_tree",
]
