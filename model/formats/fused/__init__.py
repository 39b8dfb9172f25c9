"""Fused mappings as YAML, with the workload and the architecture that they belong to."""

from model.formats.fused.loader import LoadedFused, is_fused, load_cascade, load_fused
from model.formats.fused.tree import fused_yaml

__all__ = ["LoadedFused", "fused_yaml", "is_fused", "load_cascade", "load_fused"]
