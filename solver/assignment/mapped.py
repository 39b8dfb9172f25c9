"""Assignments whose costs are the proven optima of a mapper, one search per layer and method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from model.assignment import FORBIDDEN, Cost, CostedLayer, CostedNetwork, EdgeCosts, LayerCosts, build_network
from model.assignment.methods import Copy, MethodNetwork
from model.assignment.network import ConvolutionShape, ShapedLayer
from model.cascade import Layer
from model.objective import ADDITIVE, ENERGY, LATENCY, UNITS
from solver.assignment.assigner import CHEAPEST, assign
from solver.assignment.result import AssignOptions, AssignResult, Policy
from solver.result import Result, Status, StopCallback, Termination

PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)

Pair = tuple[ConvolutionShape, str]
"""A shape and the name of a method."""


@dataclass(frozen=True)
class MethodCost:
    """What is known about the cost of a layer by a method, in the network's unit."""

    status: Status  # of the search; UNKNOWN also where none was made
    value: Cost  # of the best mapping found, None without one
    bound: Cost  # no mapping costs less; None where there is no mapping at all


@dataclass(frozen=True)
class Gain:
    """What the assignment saves against the best network of a single kind of method."""

    # ``dataflow`` or ``method``, and which one.
    kind: str
    name: str
    total: int  # what that network costs, in steps
    share: float  # what the assignment saves, of this total


@dataclass(frozen=True)
class MappedAssignment:
    """An assignment of methods that a mapper priced, for energy or latency.

    Parameters
    ----------
    costs
        Per shape and method.
    result
        The assignment. It is OPTIMAL where no cost that the searches leave open can make another
        one cheaper. Its policies are `CHEAPEST`, each single dataflow, and each single method.
    dataflow_gain, method_gain
        Against the best single dataflow (any lowering), and the best single method, of those that
        carry out every layer; None where there is none, or where not all of those networks are solved.
    """

    problem: MethodNetwork
    objective: str
    costs: Mapping[Pair, MethodCost]
    result: AssignResult
    dataflow_gain: Gain | None = None
    method_gain: Gain | None = None

    @property
    def unproven(self) -> int:
        """Costs that are not proven."""
        return sum(cost.status not in PROVEN for cost in self.costs.values())


def searches_of(problem: MethodNetwork) -> dict[Pair, Layer]:
    """Return what is to be mapped for each shape and method, named by the first layer of the shape."""
    first = {layer.shape: layer.name for layer in reversed(problem.shaped.layers)}
    return {
        (shape, method): Layer(f"{first[shape]} by {method}", mapspace)
        for (shape, method), mapspace in problem.mapspaces.items()
    }


def assign_mapped(
    problem: MethodNetwork,
    results: Mapping[Pair, Result],
    objective: str,
    options: AssignOptions = AssignOptions(),
    should_stop: StopCallback | None = None,
) -> MappedAssignment:
    """Assign methods to layers by the answers of a mapper.

    A method that no mapping carries out is forbidden. One whose optimum is not proven counts with
    the best mapping found, and with its bound where the bound of the assignment is concerned.

    Parameters
    ----------
    results
        The answer of each search, for `objective`; those that were never made may be missing.
    objective
        One of `ADDITIVE`; ValueError for any other.
    options, should_stop
        See `solver.assignment.assign`; for each assignment that is solved.
    """
    if objective not in ADDITIVE:
        raise ValueError(f"{objective} does not add up over layers; choose from {', '.join(ADDITIVE)}")
    costs = {pair: _cost(results.get(pair), objective) for pair in problem.mapspaces}
    network = _network(problem, objective, {pair: cost.value for pair, cost in costs.items()})
    solve = partial(assign, options=options, should_stop=should_stop)
    assignment = solve(network)
    if any(cost.value != cost.bound for cost in costs.values()):
        least = _network(problem, objective, {pair: cost.bound for pair, cost in costs.items()})
        ended = next((result.termination for result in results.values() if result.status not in PROVEN), None)
        assignment = _with_bound(assignment, solve(least), ended or Termination.INTERRUPTED)
    mapped = MappedAssignment(problem, objective, costs, assignment)
    return mapped if assignment.best is None else _compared(mapped, network, solve)


def _compared(
    mapped: MappedAssignment, network: CostedNetwork, solve: Callable[[CostedNetwork], AssignResult]
) -> MappedAssignment:
    """Add what networks of a single kind of method cost, and what the assignment saves against the best."""
    problem, assignment = mapped.problem, mapped.result
    methods = {name: frozenset((name,)) for name in problem.methods}
    flows = {
        flow: frozenset(name for name, method in problem.methods.items() if method.dataflow == flow)
        for flow in problem.dataflows
    }
    by_flow = _single_kinds(mapped, network, flows, solve)
    by_method = _single_kinds(mapped, network, methods, solve)
    known = _known(mapped, frozenset(problem.methods))
    cheapest = tuple(
        replace(policy, known=known) for policy in assignment.policies if policy.name == CHEAPEST
    )
    policies = (*cheapest, *_named(by_flow, "dataflow"), *_named(by_method, "method"))
    return replace(
        mapped,
        result=replace(assignment, policies=policies),
        dataflow_gain=_gain(assignment, "dataflow", by_flow) if len(by_flow) == len(flows) else None,
        method_gain=_gain(assignment, "method", by_method) if len(by_method) == len(methods) else None,
    )


def _known(mapped: MappedAssignment, methods: frozenset[str]) -> bool:
    """Whether of each cost by one of these methods a mapping is known, or that there is none."""
    costs = (cost for (_, method), cost in mapped.costs.items() if method in methods)
    return all(cost.status is not Status.UNKNOWN for cost in costs)


def _cost(result: Result | None, objective: str) -> MethodCost:
    if result is None:
        return MethodCost(Status.UNKNOWN, None, 0)
    if result.status is Status.INFEASIBLE:
        return MethodCost(result.status, None, None)
    units = result.units_per_pj if objective == ENERGY else 1
    value = None if result.value is None else Fraction(result.value, units)
    bound = Fraction(0 if result.bound is None else result.bound, units)
    return MethodCost(result.status, value, bound)


def _network(problem: MethodNetwork, objective: str, costs: Mapping[Pair, Cost]) -> CostedNetwork:
    """Return the network with the costs of the methods, and of the copies between their layouts."""
    shaped = problem.shaped
    layers = [LayerCosts(layer.name, _layer_costs(layer, costs), layer.place) for layer in shaped.layers]
    edges = [
        EdgeCosts(
            shaped.layers[edge.source].name,
            shaped.layers[edge.target].name,
            {pair: _price(problem, objective, copy) for pair, copy in problem.transition(edge).items()},
            edge.place,
        )
        for edge in shaped.edges
    ]
    return build_network(shaped.name, UNITS[objective], layers, edges, problem.notes)


def _layer_costs(layer: ShapedLayer, costs: Mapping[Pair, Cost]) -> dict[str, Cost]:
    shape = layer.shape
    if not isinstance(shape, ConvolutionShape):
        return dict.fromkeys(layer.methods, 0)
    return {method: costs[shape, method] for method in layer.methods}


def _price(problem: MethodNetwork, objective: str, copy: Copy) -> Cost:
    cycles = copy.cycles(problem.level)
    if objective == LATENCY:
        return cycles
    return Fraction(copy.energy(problem.level) + cycles * problem.copy_leakage, problem.units_per_pj)


def _with_bound(assignment: AssignResult, least: AssignResult, ended: Termination) -> AssignResult:
    """Return the assignment by known mappings with the bound that unproven costs leave, without a margin."""
    if least.bound is None:
        return assignment
    # Rounded down: whole steps of the one network need not be whole steps of the other.
    bound = int(least.network.in_unit(least.bound) * assignment.network.steps_per_unit)
    if assignment.total is None:
        return replace(assignment, status=Status.UNKNOWN, termination=ended, bound=bound, reasons=())
    if bound >= assignment.total:
        proven = Termination.PROVEN
        return replace(
            assignment, status=Status.OPTIMAL, termination=proven, bound=assignment.total, margin=None
        )
    return replace(assignment, status=Status.FEASIBLE, termination=ended, bound=bound, margin=None)


def _single_kinds(
    mapped: MappedAssignment,
    network: CostedNetwork,
    kinds: Mapping[str, frozenset[str]],
    solve: Callable[[CostedNetwork], AssignResult],
) -> tuple[Policy, ...]:
    """Return what the best assignment costs whose layers all take methods of one kind.

    A layer without an allowed method of the kind may take any, and layouts of tensors are free. Kinds
    whose best assignment is not proven are left out.
    """
    policies = []
    for name, methods in kinds.items():
        layers = [
            _only(layer, methods) if isinstance(shaped.shape, ConvolutionShape) else layer
            for shaped, layer in zip(mapped.problem.shaped.layers, network.layers, strict=True)
        ]
        single = tuple(only or layer for only, layer in zip(layers, network.layers, strict=True))
        followed = sum(only is not None for only in layers)
        best = solve(replace(network, layers=single))
        if best.status in PROVEN:
            policies.append(Policy(name, best.total, followed, _known(mapped, methods)))
    return tuple(policies)


def _named(policies: Sequence[Policy], kind: str) -> tuple[Policy, ...]:
    return tuple(replace(policy, name=f"{kind} {policy.name} everywhere") for policy in policies)


def _only(layer: CostedLayer, methods: frozenset[str]) -> CostedLayer | None:
    """Return a layer that is left some methods, None if none of those is allowed."""
    kept = np.array([method in methods for method in layer.methods])
    if not (layer.costs[kept] != FORBIDDEN).any():
        return None
    return replace(layer, costs=np.where(kept, layer.costs, FORBIDDEN))


def _gain(assignment: AssignResult, kind: str, policies: Sequence[Policy]) -> Gain | None:
    count, total = len(assignment.network.layers), assignment.total
    totals = [
        (policy.total, policy.name)
        for policy in policies
        if policy.total is not None and policy.layers_followed == count
    ]
    if total is None or not totals:
        return None
    cheapest, name = min(totals, key=lambda pair: pair[0])
    return Gain(kind, name, cheapest, float(1 - Fraction(total, cheapest)) if cheapest else 0.0)
