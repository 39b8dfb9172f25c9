"""Complete enumeration of mapspaces without some of their constraints."""

from functools import cache
from itertools import islice

from model.cost.batch import BatchEvaluator, encode
from solver.explain.constraints import droppable, without_parts
from solver.formulation.requirements import constraints_of
from tests.bruteforce import enumerate_mappings
from tests.strategies import random_mapspaces

FEW, ENOUGH = 50, 1_000
"""Mappings that are looked at first, and after which a mapspace is too large to be called empty."""


@cache
def some_mapspaces(seed, count):
    """Random mapspaces, the same ones for all tests."""
    return tuple(random_mapspaces(seed, count, max_mappings=300))


def allows_a_mapping(mapspace):
    """Whether some mapping is within the rules and the limits; None when there are too many to try."""
    evaluator = BatchEvaluator(mapspace.problem, mapspace.architecture)
    mappings = enumerate_mappings(mapspace, innermost_orders=False)
    for most in (FEW, ENOUGH - FEW):
        some = list(islice(mappings, most))
        if some and evaluator.evaluate(encode(mapspace.problem, mapspace.architecture, some)).valid.any():
            return True
    return None if next(mappings, None) else False


def feasible_without(mapspace, dropped):
    """Whether a mapping satisfies all constraints but `dropped`; None when there are too many to try."""
    verdicts = [allows_a_mapping(space) for space in without_parts(mapspace, dropped)]
    return True if True in verdicts else None if None in verdicts else False


def all_but(mapspace, kept):
    """The constraints of a mapspace that can be dropped and are not in `kept`."""
    return [own for own in constraints_of(mapspace) if droppable(own) and own not in kept]
