"""Networks: workloads and lists of layers on an architecture."""

from model.formats.cascade.loader import load_network, read_network

__all__ = ["load_network", "read_network"]
