"""Random mapspaces to certify: a few with a mapping, and one without."""

from solver import Status
from tests.solver.certificate.checker import solved
from tests.strategies import random_mapspaces

SAMPLES = random_mapspaces(seed=7, count=40, max_mappings=400)
FEASIBLE = [mapspace for mapspace in SAMPLES if solved(mapspace, "energy").status is Status.OPTIMAL][:3]
INFEASIBLE = next(mapspace for mapspace in SAMPLES if solved(mapspace, "energy").status is Status.INFEASIBLE)
