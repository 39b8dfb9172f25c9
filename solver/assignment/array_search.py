"""The systolic array that suits a network best, out of all that a budget of multipliers allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from model.assignment import (
    CostArray,
    CostedNetwork,
    Hardware,
    PricedArrays,
    ShapedNetwork,
    SystolicModel,
    arrays_within,
    price_network,
)
from model.objective import LAYERS, TOTAL
from solver.assignment.assigner import assign
from solver.assignment.kernel import Told
from solver.assignment.result import AssignOptions, AssignResult
from solver.result import Clock, Status, StopCallback, Termination

BOUND_S = 1.0
"""Seconds that the bound on all transitions may take at most: all that it does is to save assignments."""


@dataclass(frozen=True)
class ArrayChoice:
    """An array and the assignment on it."""

    rows: int
    columns: int
    # The assignment. With the criterion ``total``, OPTIMAL and the bound speak of all arrays.
    result: AssignResult
    criterion: str  # out of `model.objective.CRITERIA`
    value: int  # of the criterion on this array, in steps
    # Arrays within the budget, and how many of them an assignment was solved for.
    arrays: int
    assigned: int


def assign_costed(
    network: CostedNetwork | ShapedNetwork,
    hardware: Hardware | None = None,
    criterion: str = TOTAL,
    options: AssignOptions = AssignOptions(),
    should_stop: StopCallback | None = None,
    on_progress: Told | None = None,
) -> tuple[AssignResult, ArrayChoice | None]:
    """Assign by costs: those of the network, or those of its shapes on an array, which is chosen if need be.

    Parameters
    ----------
    hardware
        What prices shapes: an array, or a budget to choose it within; ValueError if shapes have neither.
    criterion
        Out of `model.objective.CRITERIA`: what the array is chosen by.
    options, should_stop
        See `assign`; for the whole search.
    on_progress
        See `assign`; not if an array is to be chosen.

    Returns
    -------
    tuple
        The assignment, and the array if one was chosen.
    """
    if isinstance(network, CostedNetwork):
        return assign(network, options, should_stop, on_progress), None
    if hardware is not None and hardware.array is not None:
        priced = price_network(network, hardware.model, *hardware.array)
        return assign(priced, options, should_stop, on_progress), None
    if hardware is None or hardware.dsp_budget is None:
        raise ValueError("shapes have costs on an array only")
    array_result = choose_array(network, hardware.model, hardware.dsp_budget, criterion, options, should_stop)
    return array_result.result, array_result


def choose_array(
    shaped: ShapedNetwork,
    model: SystolicModel,
    budget: int,
    criterion: str = TOTAL,
    options: AssignOptions = AssignOptions(),
    should_stop: StopCallback | None = None,
) -> ArrayChoice:
    """Choose rows and columns with ``rows * columns <= budget``; among equals, the fewest multipliers."""
    clock = Clock(options.time_limit_s, should_stop)
    priced = PricedArrays(shaped, model, *arrays_within(budget))
    if criterion == TOTAL:
        return _least_total(priced, options, clock)
    reduce = np.min if criterion == LAYERS else np.sum
    values: CostArray = np.sum([reduce(costs, axis=1) for costs in priced.costs], axis=0)
    place = int(_order(priced, values)[0])
    result = assign(priced.network(place), _remaining(options, clock), clock.stop)
    result = replace(result, seconds=clock.seconds)
    return _choice(priced, place, result, criterion, int(values[place]), 1)


def _least_total(priced: PricedArrays, options: AssignOptions, clock: Clock) -> ArrayChoice:
    """Solve arrays by rising bound until the bound reaches the best total.

    Only execution depends on the array, apart from the factor of double buffering. So the cheapest method
    of every layer, plus the least of all transitions, is a bound.
    """
    cheapest: CostArray = np.sum([costs.min(axis=1) for costs in priced.costs], axis=0)
    bounds = cheapest + priced.buffering * _least_transitions(priced, options, clock)
    ranked: list[tuple[int, int, int, int, AssignResult]] = []
    floors: list[int] = []
    for place in _order(priced, bounds).tolist():
        if ranked and bounds[place] > min(ranked)[0]:
            break
        if ranked and clock.stop():
            floors.append(int(bounds[place]))
            break
        result = assign(priced.network(place), _remaining(options, clock), clock.stop)
        floors.append(_known(result.bound))
        rows, columns = int(priced.rows[place]), int(priced.columns[place])
        ranked.append((_known(result.total), rows * columns, rows, place, result))
    total, _, _, place, result = min(ranked)
    if min(floors) < total:
        ending = clock.termination or Termination.TIME_LIMIT
        result = replace(
            result, status=Status.FEASIBLE, termination=ending, bound=min(floors), runner_up=None, margin=None
        )
    return _choice(priced, place, replace(result, seconds=clock.seconds), TOTAL, total, len(ranked))


def _least_transitions(priced: PricedArrays, options: AssignOptions, clock: Clock) -> int:
    """Return a bound on all transitions together, double buffered."""
    left = _remaining(options, clock)
    brief = BOUND_S if left.time_limit_s is None else min(BOUND_S, left.time_limit_s)
    network = priced.network(0)
    layers = tuple(replace(layer, costs=np.zeros_like(layer.costs)) for layer in network.layers)
    edges = tuple(
        replace(edge, transition=matrix)
        for edge, matrix in zip(network.edges, priced.transitions, strict=True)
    )
    alone = replace(network, layers=layers, edges=edges)
    return _known(assign(alone, replace(left, time_limit_s=brief), clock.stop).bound)


def _order(priced: PricedArrays, values: CostArray) -> CostArray:
    """Return the arrays by rising value, among equals by multipliers, then by rows."""
    _, ranks = np.unique(values, return_inverse=True)
    order: CostArray = np.lexsort((priced.rows, priced.rows * priced.columns, ranks))
    return order


def _known(steps: int | None) -> int:
    assert steps is not None  # the cost model forbids no method, so there is always an assignment
    return steps


def _remaining(options: AssignOptions, clock: Clock) -> AssignOptions:
    if options.time_limit_s is None:
        return options
    return replace(options, time_limit_s=max(0.0, options.time_limit_s - clock.seconds))


def _choice(
    priced: PricedArrays, place: int, result: AssignResult, criterion: str, value: int, assigned: int
) -> ArrayChoice:
    rows, columns = int(priced.rows[place]), int(priced.columns[place])
    return ArrayChoice(rows, columns, result, criterion, value, len(priced.rows), assigned)
