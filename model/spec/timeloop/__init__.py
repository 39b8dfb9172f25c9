"""Timeloop v4 specs to the canonical problem."""

from model.spec.timeloop.hierarchy import HierarchyNode
from model.spec.timeloop.loader import LoadedSpec, LoadOptions, load_timeloop

__all__ = ["HierarchyNode", "LoadOptions", "LoadedSpec", "load_timeloop"]
