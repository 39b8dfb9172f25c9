"""Networks for the assignment of methods: YAML to the canonical types."""

from model.formats.assignment.loader import LoadedAssignment, load_assignment

__all__ = ["LoadedAssignment", "load_assignment"]
