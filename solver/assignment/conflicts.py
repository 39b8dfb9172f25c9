"""Why no assignment exists: irreducible sets of forbidden choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.assignment import FORBIDDEN, CostArray, CostedLayer, CostedNetwork, Edge
from model.source_ref import SourceRef
from solver.assignment.elimination import least_total, reduce_instance
from solver.assignment.instance import Instance, part_of
from solver.assignment.kernel import solve_kernel
from solver.assignment.kernel_model import KernelRequest
from solver.result import Clock, Lever, Reason, Shortfall, Statement, StopCallback

TIME_LIMIT_S = 10.0

SHORTEST_RUN = 64
"""Rules in the shortest runs of layers that are tried."""

MOST_CONFLICTS = 3

CONFLICT = "no assignment satisfies all of these"


@dataclass(frozen=True, eq=False)
class _Rule:
    """What a layer or an edge forbids: its variables, and a table of 1 where it does, else 0."""

    variables: tuple[int, ...]
    table: CostArray
    statement: Statement


@dataclass(frozen=True, eq=False)
class _Conflict:
    """Rules that leave no assignment, and whether each of them is known to be needed for that."""

    rules: Sequence[_Rule]
    irreducible: bool


def find_conflicts(network: CostedNetwork, should_stop: StopCallback | None = None) -> tuple[Reason, ...]:
    """Return layers and edges that leave no assignment together, and would without any one of them.

    Conflicts share none, and there are `MOST_CONFLICTS` at most. The levers of one are those of its layers
    and edges without which there is an assignment once the other conflicts are resolved. Once `should_stop`
    answers True, conflicts are not reduced further.
    """
    clock = Clock(TIME_LIMIT_S, should_stop)
    conflicts: list[_Conflict] = []
    rest = [*_layer_rules(network), *_edge_rules(network)]
    if network.usage_limit is not None and not _is_infeasible(rest, clock):
        return (_room_reason(network),)
    while not conflicts or (len(conflicts) < MOST_CONFLICTS and _is_infeasible(rest, clock)):
        conflicts.append(_conflict(rest, clock))
        rest = [rule for rule in rest if rule not in conflicts[-1].rules]
    return tuple(_reason(conflict, rest, clock) for conflict in conflicts)


def _room_reason(network: CostedNetwork) -> Reason:
    """Return what is wrong with the limit on usages, by the least ones where those already exceed it."""
    layers = [replace(layer, usages=_least_allowed(layer)) for layer in network.layers]
    least = replace(network, layers=tuple(layers)).peak_usage([0] * len(layers))
    limit = network.usage_limit
    assert limit is not None  # asked only with one
    statement = Statement(f"the usages of layers that are alive together add up to {limit:,} at most")
    if least <= limit:
        return Reason(CONFLICT, (), (statement,))
    shortfall = Shortfall("the least usages of layers that are alive together", least, limit, "units")
    return Reason(CONFLICT, (), (statement,), shortfalls=(shortfall,))


def _least_allowed(layer: CostedLayer) -> CostArray | None:
    """Return the least usage of the allowed methods, once per method; of all, where none is allowed."""
    if layer.usages is None:
        return None
    allowed = layer.usages[layer.costs != FORBIDDEN]
    least = (allowed if allowed.size else layer.usages).min()
    return np.full_like(layer.usages, least)


def _conflict(rules: Sequence[_Rule], clock: Clock) -> _Conflict:
    """Return a part of infeasible rules that is irreducible, if there is time for it.

    Looks for a short run of layers that is infeasible by itself, and drops ever smaller parts of its rules as
    long as what remains is infeasible: about k log n trials for a conflict of k out of n rules.
    """
    alone = [rule for rule in rules if rule.table.all()]
    if alone:
        return _Conflict(alone[:1], True)
    kept = _shortest_run(rules, clock)
    size = len(kept)
    while size > 1 and not clock.stop():
        size = -(-size // 2)
        kept = _without_spare(kept, size, clock)
    return _Conflict(kept, not clock.stop())


def _reason(conflict: _Conflict, rest: Sequence[_Rule], clock: Clock) -> Reason:
    """Return a conflict in words; `rest` is what no conflict names."""
    statements = tuple(rule.statement for rule in conflict.rules)
    sources = tuple(source for statement in statements for source in statement.sources)
    levers = tuple(_levers(conflict.rules, rest, clock))
    complete = not clock.stop()
    return Reason(CONFLICT, sources, statements, conflict.irreducible, levers=levers, complete=complete)


def _levers(rules: Sequence[_Rule], rest: Sequence[_Rule], clock: Clock) -> Iterator[Lever]:
    for spared in rules:
        others = [rule for rule in rules if rule is not spared]
        if not clock.stop() and not _is_infeasible([*rest, *others], clock) and not clock.stop():
            yield Lever(f"without this: {spared.statement.text}", sources=spared.statement.sources)


def _shortest_run(rules: Sequence[_Rule], clock: Clock) -> list[_Rule]:
    """Return the rules of some layers in a row that are infeasible by themselves, all if none are."""
    place = {rule: position for position, rule in enumerate(rules)}
    for run in _runs(sorted(rules, key=lambda rule: max(rule.variables))):
        if clock.stop():
            break
        if _is_infeasible(run, clock):
            return sorted(run, key=place.__getitem__)
    return list(rules)


def _runs(rules: Sequence[_Rule]) -> Iterator[Sequence[_Rule]]:
    """Yield runs of rules, short ones first, each size over all of the rules."""
    size = SHORTEST_RUN
    while size < len(rules):
        # Runs overlap by half, so that a conflict of half the size is found wherever it lies.
        yield from (rules[start : start + size] for start in range(0, len(rules), size // 2))
        size *= 4


def _without_spare(rules: Sequence[_Rule], size: int, clock: Clock) -> list[_Rule]:
    """Drop every run of `size` rules that the conflict does not need."""
    kept: list[_Rule] = []
    rest = list(rules)
    while rest:
        run, rest = rest[:size], rest[size:]
        if clock.stop() or not _is_infeasible([*kept, *rest], clock):
            kept += run
    return kept


def _is_infeasible(rules: Sequence[_Rule], clock: Clock) -> bool:
    """Whether rules leave no assignment; False as well if time runs out before that is known."""
    if not rules:
        return False
    variables = sorted({variable for rule in rules for variable in rule.variables})
    number = {variable: position for position, variable in enumerate(variables)}
    sizes = {v: n for rule in rules for v, n in zip(rule.variables, rule.table.shape, strict=True)}
    vectors = [np.zeros(sizes[variable], dtype=np.int64) for variable in variables]
    matrices = {}
    for rule in rules:
        numbers = tuple(number[variable] for variable in rule.variables)
        if len(numbers) == 1:
            vectors[numbers[0]] = rule.table
        else:
            matrices[numbers[0], numbers[1]] = rule.table
    reduced = reduce_instance(Instance(vectors, matrices, infinity=1))
    if least_total(reduced.eliminations):
        return True
    parts = (part_of(reduced.instance, kernel) for kernel in reduced.kernels)
    return any(solve_kernel(part, KernelRequest(), clock).bound is None for part in parts)


def _layer_rules(network: CostedNetwork) -> Iterator[_Rule]:
    for variable, layer in enumerate(network.layers):
        forbidden = (layer.costs == FORBIDDEN).astype(np.int64)
        if forbidden.any():
            yield _Rule((variable,), forbidden, Statement(_layer_text(layer), _places(layer.place)))


def _edge_rules(network: CostedNetwork) -> Iterator[_Rule]:
    for edge in network.edges:
        if edge.transition is None:
            continue
        forbidden = (edge.transition == FORBIDDEN).astype(np.int64)
        if not forbidden.any():
            continue
        ends, table = (edge.source, edge.target), forbidden
        if edge.source > edge.target:
            ends, table = (edge.target, edge.source), forbidden.T
        yield _Rule(ends, table, Statement(_edge_text(network, edge), _places(edge.place)))


def _layer_text(layer: CostedLayer) -> str:
    allowed = [name for name, cost in zip(layer.methods, layer.costs, strict=True) if cost != FORBIDDEN]
    if not allowed:
        return f"layer {layer.name} forbids all of its methods"
    return f"layer {layer.name} allows only {', '.join(allowed)}"


def _edge_text(network: CostedNetwork, edge: Edge) -> str:
    assert edge.transition is not None  # only edges that forbid something are named
    sources, targets = (network.layers[end].methods for end in (edge.source, edge.target))
    allowed = [f"{sources[k]} to {targets[m]}" for k, m in np.argwhere(edge.transition != FORBIDDEN)]
    name = network.edge_name(edge)
    if not allowed:
        return f"edge {name} forbids all pairs of methods"
    forbidden = [f"{sources[k]} to {targets[m]}" for k, m in np.argwhere(edge.transition == FORBIDDEN)]
    if len(forbidden) <= len(allowed):
        return f"edge {name} forbids {', '.join(forbidden)}"
    return f"edge {name} allows only {', '.join(allowed)}"


def _places(place: SourceRef | None) -> tuple[SourceRef, ...]:
    return () if place is None else (place,)
