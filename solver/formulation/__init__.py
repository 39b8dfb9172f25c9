"""The mapping problem of one Einsum as a program over Booleans, and the search that solves it alone."""

from solver.formulation.engine import map_by_formulation
from solver.formulation.model import Formulation

__all__ = ["Formulation", "map_by_formulation"]
