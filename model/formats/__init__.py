"""Formats of specs: nodes to the canonical types."""
