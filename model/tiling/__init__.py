"""Tiling of single operators: what they compute, how tensors are cut, and the tiles as arrays."""
