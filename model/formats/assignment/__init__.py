"""Networks for the assignment of methods: YAML to the canonical types."""

from model.formats.assignment.networks import LoadedAssignment, load_assignment

__all__ = ["LoadedAssignment", "load_assignment"]
