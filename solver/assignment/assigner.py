"""The entry point: from a network to a proven assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.assignment import CostedNetwork
from solver.assignment.answer import CP_SAT, Answer, Request
from solver.assignment.chain import find_paths, relax_path
from solver.assignment.conflicts import find_conflicts
from solver.assignment.elimination import Departure, depart, least_total, restore
from solver.assignment.instance import Choice, Instance, part_of
from solver.assignment.kernel import solve_kernel
from solver.assignment.policies import naive_policies
from solver.assignment.reductions import Reduced, reduce_instance
from solver.assignment.result import RULES, Assignment, AssignOptions, AssignResult, Decomposition
from solver.assignment.structure import CHAIN, graph_structure
from solver.result import Clock, Status, StopCallback, Termination

REDUCTIONS, BUCKET_ELIMINATION = "reductions", "bucket-elimination"


def assign(
    network: CostedNetwork,
    options: AssignOptions = AssignOptions(),
    should_stop: StopCallback | None = None,
) -> AssignResult:
    """Choose a method for every layer so that all costs add up to the least.

    Parameters
    ----------
    network
        The layers with their costs, however those were found.
    options
        Limits of the search, and CP-SAT's workers; only graphs that eliminations leave need them.
    should_stop
        Asked often during a search; once it answers True the best assignment is returned.

    Returns
    -------
    AssignResult
        OPTIMAL only if the bound meets the total of the assignment, in exact integers.
    """
    clock = Clock(options.time_limit_s, should_stop)
    instance = Instance.of(network)
    reduced, method = take_apart(instance)
    solution = _solve(reduced, instance.infinity, options, clock)
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
    )


@dataclass(frozen=True)
class _Solution:
    """Choices for all variables; `bound` None means that there are none.

    `searched_by` is what decided a rest that was searched; None where there is no rest.
    """

    choice: list[int] | None
    bound: int | None
    second: list[int] | None = None
    is_second_proven: bool = True
    searched_by: str | None = None


def take_apart(instance: Instance) -> tuple[Reduced, str]:
    """Eliminate what can be eliminated, and say by what method."""
    paths = find_paths(instance)
    if paths is not None:
        eliminations = [step for path in paths for step in relax_path(instance, path)]
        return Reduced(eliminations, [], [], instance), CHAIN
    reduced = reduce_instance(instance)
    has_buckets = any(len(elimination.neighbours) > 2 for elimination in reduced.eliminations)
    return reduced, BUCKET_ELIMINATION if has_buckets else REDUCTIONS


def _solve(reduced: Reduced, infinity: int, options: AssignOptions, clock: Clock) -> _Solution:
    bound = least_total(reduced.eliminations)
    if bound >= infinity:
        return _Solution(None, None)
    parts = [part_of(reduced.instance, kernel) for kernel in reduced.kernels]
    request = Request(jobs=options.jobs, seed=options.seed)
    answers: list[Answer] = []
    searched_by = None
    for part in parts:
        answer = solve_kernel(part, request, clock)
        searched_by = CP_SAT if CP_SAT in (searched_by, answer.method) else answer.method
        if answer.bound is None:
            return _Solution(None, None, searched_by=searched_by)
        answers.append(answer)
        bound += answer.bound
    choice = [0] * len(reduced.instance.vectors)
    for kernel, answer in zip(reduced.kernels, answers, strict=True):
        if answer.choice is None:
            return _Solution(None, bound, searched_by=searched_by)
        _place(choice, kernel, answer.choice)
    departure = restore(reduced.eliminations, choice, infinity)
    if not all(answer.is_proven for answer in answers):
        return _Solution(choice, bound, searched_by=searched_by)
    second, is_proven = _second_best(reduced, choice, departure, answers, request, clock)
    return _Solution(choice, bound, second, is_proven, searched_by)


def _second_best(
    reduced: Reduced,
    choice: list[int],
    departure: Departure | None,
    answers: Sequence[Answer],
    request: Request,
    clock: Clock,
) -> tuple[list[int] | None, bool]:
    """Return the best assignment but one, and whether it is proven to be that.

    It leaves the best one in a kernel, or after all kernels at one of the eliminated variables.
    """
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
        other = solve_kernel(part, replace(request, limit=limit, excluded=answer.choice), clock)
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
