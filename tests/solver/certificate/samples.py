"""Random mapspaces to certify: a few with a mapping, and one without."""

from functools import cache

from model.mapspace import Mapspace
from solver import Status
from tests.solver.certificate.checker import solved
from tests.strategies import endless_mapspaces

SAMPLES = 3
"""How many there are with a mapping."""


@cache
def _sample(status: Status, place: int) -> Mapspace:
    found = (own for own in endless_mapspaces(7, 400) if solved(own, "energy").status is status)
    return next(own for number, own in enumerate(found) if number == place)


def feasible(place: int) -> Mapspace:
    """The mapspace of this number, from 0, that allows a mapping."""
    return _sample(Status.OPTIMAL, place)


def infeasible() -> Mapspace:
    """A mapspace that allows none."""
    return _sample(Status.INFEASIBLE, 0)
