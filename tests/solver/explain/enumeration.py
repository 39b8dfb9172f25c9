"""Complete enumeration of mapspaces without some of their constraints."""

from functools import cache

from model.cost import evaluate
from solver.explain.constraints import droppable, without
from solver.formulation.requirements import constraints_of
from tests.bruteforce import enumerate_mappings
from tests.strategies import random_mapspaces

ENOUGH = 1_000
"""Mappings after which a mapspace is too large to be called empty."""


@cache
def some_mapspaces(seed, count):
    """Random mapspaces, the same ones for all tests."""
    return tuple(random_mapspaces(seed, count, max_mappings=300))


def allows_a_mapping(mapspace):
    """Whether some mapping is within the rules and the limits; None when there are too many to try."""
    for number, mapping in enumerate(enumerate_mappings(mapspace, innermost_orders=False)):
        if evaluate(mapspace.problem, mapspace.architecture, mapping).valid:
            return True
        if number > ENOUGH:
            return None
    return False


def feasible_without(mapspace, dropped):
    """Whether a mapping satisfies all constraints but `dropped`; None when there are too many to try."""
    verdicts = [allows_a_mapping(space) for space in without(mapspace, dropped)]
    return True if True in verdicts else None if None in verdicts else False


def all_but(mapspace, kept):
    """The constraints of a mapspace that can be dropped and are not in `kept`."""
    return [own for own in constraints_of(mapspace) if droppable(own) and own not in kept]
