"""Networks for the assignment of methods: YAML to the canonical types."""

from model.spec.assignment.loader import LoadedNetwork, load_network

__all__ = ["LoadedNetwork", "load_network"]
