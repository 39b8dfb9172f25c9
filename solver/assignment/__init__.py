"""Assignment of methods to the layers of a network."""

from solver.assignment.assigner import assign
from solver.assignment.result import Assignment, AssignOptions, AssignResult, Decomposition, Policy

__all__ = ["AssignOptions", "AssignResult", "Assignment", "Decomposition", "Policy", "assign"]
