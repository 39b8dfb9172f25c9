"""From a network to a proven assignment, with naive rules and the best alternatives for comparison."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from model.assignment import FORBIDDEN, LARGEST_TOTAL, CostArray, CostedLayer, CostedNetwork
from solver.assignment.bounds import Evidence, hopeless_prices, joined_evidence
from solver.assignment.capacity import Capacity
from solver.assignment.conflicts import find_conflicts
from solver.assignment.elimination import (
    Departure,
    Elimination,
    Reduced,
    depart,
    find_paths,
    least_total,
    reduce_instance,
    relax_path,
    restore,
)
from solver.assignment.instance import CHAIN, Choice, Instance, graph_structure, part_of
from solver.assignment.kernel import Told, solve_kernel
from solver.assignment.kernel_model import KernelRequest, KernelResult
from solver.assignment.result import (
    CHECKED_BOUND,
    CP_SAT,
    RULES,
    TOULBAR,
    Assignment,
    AssignOptions,
    AssignResult,
    Decomposition,
    Policy,
)
from solver.assignment.room import solve_with_room
from solver.result import Clock, Status, StopCallback, Termination

Kind = TypeVar("Kind", bound=Hashable)

CHEAPEST = "best method per layer, transitions ignored"


def naive_policies(network: CostedNetwork) -> tuple[Policy, ...]:
    """Return what naive rules cost: each layer's cheapest method, and each single method where offered."""
    open_layers = [layer for layer in network.layers if len(layer.methods) > 1]
    singles = list(dict.fromkeys(method for layer in open_layers for method in layer.methods))
    kind_counts = Counter(layer.methods for layer in network.layers)
    # Where a layer has each rule's method: -1 for the cheapest one, and for what it lacks.
    offers = {
        methods: np.array([-1, *(methods.index(method) if method in methods else -1 for method in singles)])
        for methods in kind_counts
    }
    picks = _picks(network.layers, offers, 1 + len(singles))
    followed = [sum(count for kind, count in kind_counts.items() if method in kind) for method in singles]
    names = [CHEAPEST, *(f"{method} everywhere" for method in singles)]
    counts = [len(network.layers), *followed]
    totals = _totals(network, picks)
    return tuple(Policy(*parts) for parts in zip(names, totals, counts, strict=True))


Picks = NDArray[np.int64]
"""Positions of methods, shape (layers, rules)."""


def _picks(
    layers: Sequence[CostedLayer], offers: Mapping[tuple[str, ...], NDArray[np.int64]], rules: int
) -> Picks:
    """Return the position of the method that each rule takes in each layer."""
    picks = np.empty((len(layers), rules), dtype=np.int64)
    for methods, numbers in _alike([layer.methods for layer in layers]).items():
        costs = np.stack([layers[number].costs for number in numbers])
        allowed = costs != FORBIDDEN
        ranked = np.where(allowed, costs, costs.max() + 1)
        cheapest = np.where(allowed.any(axis=1), ranked.argmin(axis=1), 0)
        picks[numbers] = np.where(offers[methods] < 0, cheapest[:, None], offers[methods])
    return picks


def _alike(kinds: Sequence[Kind]) -> dict[Kind, list[int]]:
    """Return the places of each kind."""
    places: dict[Kind, list[int]] = {}
    for place, kind in enumerate(kinds):
        places.setdefault(kind, []).append(place)
    return places


def _totals(network: CostedNetwork, picks: Picks) -> list[int | None]:
    """Return the total of each rule in steps, None where it takes something forbidden."""
    sums = np.zeros(picks.shape[1], dtype=object)
    forbidden = np.zeros(picks.shape[1], dtype=bool)
    for part in _parts(network, picks):
        # Summed up as Python's integers where 64 bits need not be enough.
        is_narrow = part.dtype != object and int(part.max()) * len(part) <= LARGEST_TOTAL
        sums += part.sum(axis=0, dtype=None if is_narrow else object)
        forbidden |= (part == FORBIDDEN).any(axis=0)
    return [None if barred else int(total) for total, barred in zip(sums, forbidden, strict=True)]


def _parts(network: CostedNetwork, picks: Picks) -> Iterator[CostArray]:
    """Yield what the rules pay in layers and on edges, those of the same size at once."""
    layers = network.layers
    for numbers in _alike([layer.costs.shape for layer in layers]).values():
        costs = np.stack([layers[number].costs for number in numbers])
        yield np.take_along_axis(costs, picks[numbers], axis=1)
    edges = [(edge, edge.transition) for edge in network.edges if edge.transition is not None]
    for places in _alike([matrix.shape for _, matrix in edges]).values():
        own = [edges[place] for place in places]
        sources, targets = ([getattr(edge, end) for edge, _ in own] for end in ("source", "target"))
        yield np.stack([matrix for _, matrix in own])[
            np.arange(len(own))[:, None], picks[sources], picks[targets]
        ]


REDUCTIONS, BUCKET_ELIMINATION = "reductions", "bucket-elimination"

LAST_WORD = (CHECKED_BOUND, TOULBAR, CP_SAT)
"""Of several kernels, the last of these is said to have decided."""

SECOND_BEST_ENTRIES = 1 << 28
"""Entries of matrices times toulbar2's backtracks, after which no second-best kernel is looked for."""


def assign(
    network: CostedNetwork,
    options: AssignOptions = AssignOptions(),
    should_stop: StopCallback | None = None,
    on_progress: Told | None = None,
) -> AssignResult:
    """Choose a method for every layer so that all costs add up to the least.

    Parameters
    ----------
    options
        Limits of the search, and CP-SAT's workers; only graphs that eliminations leave need them.
    should_stop
        Asked often during a search; once it answers True the best assignment is returned.
    on_progress
        Is told of totals (None: none yet) and bounds in steps, while a search runs.

    Returns
    -------
    AssignResult
        OPTIMAL only if the bound meets the total of the assignment, in exact integers.
    """
    clock = Clock(options.time_limit_s, should_stop)
    capacity = Capacity.of(network)
    hopeless = capacity if capacity is not None and capacity.is_hopeless else None
    if capacity is not None and (hopeless or not capacity.usages):
        capacity = None
    with _collection_paused():
        instance = Instance.of(network)
        reduced, method = take_apart(instance, capacity)
    if hopeless is None:
        solution = _solve(reduced, instance.infinity, capacity, options, clock, on_progress)
    else:
        prices = hopeless_prices(hopeless, instance.infinity).by_moment()
        solution = _Solution(None, None, evidence=Evidence(instance.infinity, prices=prices))
    best = None if solution.choice is None else _assignment(network, solution.choice)
    second = None if solution.second is None else _assignment(network, solution.second)
    status = _status(best, solution.bound)
    margin = None
    if status is Status.OPTIMAL and best and second and solution.is_second_proven:
        margin = second.total - best.total
    infeasible = status is Status.INFEASIBLE
    proven = infeasible or status is Status.OPTIMAL
    return AssignResult(
        status=status,
        termination=Termination.PROVEN if proven else clock.termination or Termination.TIME_LIMIT,
        method_used=solution.searched_by or method,
        network=network,
        decomposition=_decomposition(
            network, reduced, CHAIN if method == CHAIN else graph_structure(instance)
        ),
        best=best,
        bound=solution.bound,
        runner_up=second,
        margin=margin,
        policies=naive_policies(network),
        reasons=find_conflicts(network, should_stop) if infeasible else (),
        seconds=clock.seconds,
        evidence=solution.evidence,
    )


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Look for no garbage: among many small objects that all stay, that takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class _Solution:
    """Choices for all variables; `bound` None means that there are none."""

    choice: list[int] | None
    bound: int | None
    second: list[int] | None = None
    is_second_proven: bool = True
    searched_by: str | None = None  # what decided a rest that was searched; None where there is no rest
    evidence: Evidence | None = None


def take_apart(instance: Instance, capacity: Capacity | None = None) -> tuple[Reduced, str]:
    """Eliminate what can be eliminated, and say by what method."""
    if capacity is not None:
        return reduce_instance(instance, kept=capacity.usages.keys()), REDUCTIONS
    paths = find_paths(instance)
    if paths is not None:
        eliminations = [step for path in paths for step in relax_path(instance, path)]
        return Reduced(eliminations, [], [], instance), CHAIN
    reduced = reduce_instance(instance)
    has_buckets = any(len(elimination.neighbours) > 2 for elimination in reduced.eliminations)
    return reduced, BUCKET_ELIMINATION if has_buckets else REDUCTIONS


def _solve(
    reduced: Reduced,
    infinity: int,
    capacity: Capacity | None,
    options: AssignOptions,
    clock: Clock,
    told: Told | None,
) -> _Solution:
    bound = least_total(reduced.eliminations)
    order = [elimination.variable for elimination in reduced.eliminations]
    if bound >= infinity:
        return _Solution(None, None, evidence=joined_evidence(order, bound, ()))
    parts = [part_of(reduced.instance, kernel) for kernel in reduced.kernels]
    request = KernelRequest(jobs=options.jobs, seed=options.seed)
    answers: list[KernelResult] = []
    searched_by = None
    base = bound
    tell = None if told is None or len(parts) > 1 else _shifted(told, base)
    for kernel, part in zip(reduced.kernels, parts, strict=True):
        if capacity is None:
            answer = solve_kernel(part, request, clock, tell)
        else:
            answer = solve_with_room(part, capacity.part(kernel), request, clock, tell)
        searched_by = max(searched_by or CHECKED_BOUND, answer.method, key=LAST_WORD.index)
        if answer.bound is None:
            refuted = [] if answer.evidence is None else [answer.evidence.renumbered(kernel)]
            return _Solution(
                None, None, searched_by=searched_by, evidence=joined_evidence(order, base, refuted)
            )
        answers.append(answer)
        bound += answer.bound
    known = [
        answer.evidence.renumbered(kernel)
        for kernel, answer in zip(reduced.kernels, answers, strict=True)
        if answer.evidence is not None
    ]
    evidence = joined_evidence(order, base, known)
    choice = [0] * len(reduced.instance.vectors)
    for kernel, answer in zip(reduced.kernels, answers, strict=True):
        if answer.choice is None:
            return _Solution(None, bound, searched_by=searched_by, evidence=evidence)
        _place(choice, kernel, answer.choice)
    departure = restore(reduced.eliminations, choice, infinity)
    if capacity is not None:
        return _Solution(choice, bound, searched_by=searched_by, evidence=evidence)
    if not all(answer.is_proven for answer in answers):
        return _Solution(choice, bound, searched_by=searched_by, evidence=evidence)
    second, is_proven = _second_best(reduced, choice, departure, answers, request, clock)
    return _Solution(choice, bound, second, is_proven, searched_by, evidence)


def _shifted(told: Told, base: int) -> Told:
    """Tell of a kernel what that makes for all."""
    return lambda total, bound: told(None if total is None else base + total, base + bound)


def _second_best(
    reduced: Reduced,
    choice: list[int],
    departure: Departure | None,
    answers: Sequence[KernelResult],
    request: KernelRequest,
    clock: Clock,
) -> tuple[list[int] | None, bool]:
    """Return the best assignment but one, and whether it is proven to be that."""
    infinity = reduced.instance.infinity
    second = None if departure is None else depart(reduced.eliminations, choice, departure, infinity)
    margin = None if departure is None else departure.margin
    is_proven = True
    for kernel, answer in zip(reduced.kernels, answers, strict=True):
        if margin == 0:
            break
        assert answer.total is not None  # a proven answer has one
        limit = None if margin is None else answer.total + margin - 1
        part = part_of(reduced.instance, kernel)
        entries = sum(matrix.size for matrix in part.matrices.values())
        brief = replace(
            request, limit=limit, excluded=answer.choice, backtracks=SECOND_BEST_ENTRIES // entries
        )
        other = solve_kernel(part, brief, clock)
        is_proven = is_proven and other.is_proven
        if other.choice is not None and other.total is not None:
            margin = other.total - answer.total
            second = list(choice)
            _place(second, kernel, other.choice)
            restore(reduced.eliminations, second, infinity)
    return second, is_proven


def _place(choice: list[int], kernel: Sequence[int], values: Choice) -> None:
    for variable, value in zip(kernel, values, strict=True):
        choice[variable] = value


def _status(best: Assignment | None, bound: int | None) -> Status:
    if bound is None:
        return Status.INFEASIBLE
    if best is None:
        return Status.UNKNOWN
    return Status.OPTIMAL if best.total == bound else Status.FEASIBLE


def _assignment(network: CostedNetwork, choice: Sequence[int]) -> Assignment:
    """Price an assignment by the network's own costs."""
    execution, transition = network.execution(choice), network.transitions(choice)
    allowed = [steps for steps in (*execution, *transition) if steps is not None]
    if len(allowed) < len(execution) + len(transition):
        raise AssertionError("a forbidden choice was taken")
    if not network.fits(choice):
        raise AssertionError("what was chosen does not fit")
    return Assignment(tuple(choice), tuple(allowed[: len(execution)]), tuple(allowed[len(execution) :]))


def _decomposition(network: CostedNetwork, reduced: Reduced, structure: str) -> Decomposition:
    names = [layer.name for layer in network.layers]
    steps: list[tuple[str, ...]] = [(RULES[0], names[i], names[j]) for i, j in reduced.splits]
    steps += [
        (
            RULES[1 + min(3, len(elimination.neighbours))],
            names[elimination.variable],
            *(names[other] for other in elimination.neighbours),
        )
        for elimination in reduced.eliminations
    ]
    kernels = tuple(tuple(names[variable] for variable in kernel) for kernel in reduced.kernels)
    return Decomposition(structure, tuple(steps), kernels)


MOST_SOLVED_AGAIN = 200
"""Layers up to which a graph with rings is solved once more for every layer."""

MOST_ENTRIES_AGAIN = 1 << 26
"""What the tables of all those solutions may have together: a few seconds."""


@dataclass(frozen=True)
class Alternative:
    """A layer's best other method."""

    method: int  # its position in the layer's `methods`
    margin: int  # steps by which the best assignment with it is above the best one of all


Alternatives = tuple[Alternative | None, ...]
"""One per layer; None for a layer that has no other method."""


def alternatives(result: AssignResult) -> Alternatives | None:
    """Return each layer's best other method, exactly; None where that is not known or would take too long.

    In chains and trees one pass back through the eliminations yields the least total under every method of
    every layer (the min-marginals); other graphs that reductions solve are solved again without the layer's
    method, once per layer.
    """
    if result.best is None or result.status is not Status.OPTIMAL:
        return None
    if result.runner_up is not None and result.margin is None:
        return None
    instance = Instance.of(result.network)
    reduced, _ = take_apart(instance)
    if reduced.kernels:
        return None
    if all(len(elimination.neighbours) <= 1 for elimination in reduced.eliminations):
        surplus = _surpluses(reduced.eliminations, instance.infinity)
        return tuple(
            _best_other(surplus[layer], chosen, instance.infinity)
            for layer, chosen in enumerate(result.best.choice)
        )
    layers = len(instance.vectors)
    if (
        layers > MOST_SOLVED_AGAIN
        or layers * sum(elimination.entries for elimination in reduced.eliminations) > MOST_ENTRIES_AGAIN
    ):
        return None
    total = result.best.total
    return tuple(_without(instance, layer, value, total) for layer, value in enumerate(result.best.choice))


def _surpluses(eliminations: Sequence[Elimination], infinity: int) -> dict[int, CostArray]:
    """Return per variable and value how far the best total with it is above the least of all.

    Every elimination has one link at most. Back from the last one: what lies beyond the link is the
    neighbour's surplus without the part that this variable had passed on to it.
    """
    surpluses: dict[int, CostArray] = {}
    for elimination in reversed(eliminations):
        if not elimination.links:
            surpluses[elimination.variable] = np.where(
                elimination.vector < infinity, elimination.vector - elimination.vector.min(), infinity
            )
            continue
        (((neighbour,), matrix),) = elimination.links
        passed_on = (elimination.vector[:, None] + matrix).min(axis=0)
        is_open = (surpluses[neighbour] < infinity) & (passed_on < infinity)
        # May be negative: only together with the variable's own costs it is a surplus.
        beyond = np.where(is_open & (matrix < infinity), matrix + surpluses[neighbour] - passed_on, infinity)
        least = beyond.min(axis=1)
        is_open = (elimination.vector < infinity) & (least < infinity)
        surpluses[elimination.variable] = np.where(is_open, elimination.vector + least, infinity)
    return surpluses


def _best_other(surplus: CostArray, chosen: int, infinity: int) -> Alternative | None:
    others = surplus.copy()
    others[chosen] = infinity
    method = int(others.argmin())
    return None if others[method] >= infinity else Alternative(method, int(others[method]))


def _without(instance: Instance, layer: int, chosen: int, total: int) -> Alternative | None:
    """Solve an instance again without one value of one variable."""
    vectors = list(instance.vectors)
    vectors[layer] = vectors[layer].copy()
    vectors[layer][chosen] = instance.infinity
    reduced = reduce_instance(replace(instance, vectors=vectors))
    least = least_total(reduced.eliminations)
    if least >= instance.infinity:
        return None
    choice = [0] * len(vectors)
    restore(reduced.eliminations, choice, instance.infinity)
    return Alternative(choice[layer], least - total)
