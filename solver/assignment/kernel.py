"""Kernels, what is too wide for any elimination: costs are moved, then toulbar2 or CP-SAT searches what is
left.

Sweeps (`solver.assignment.bounds`) raise a bound that is checked in integers, and where it meets an
assignment nothing is searched. toulbar2 proved more than CP-SAT, and than a branch and bound of our own by
numpy, in the race that docs/assignment.md reports. CP-SAT decides where toulbar2 is not installed, or where
costs that remain are too large for its doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solver import toulbar
from solver.assignment.bounds import MOST_SWEEPS, Evidence, Sweeps, verified_bound
from solver.assignment.instance import Choice, Instance, best_neighbour, descend, price
from solver.assignment.kernel_model import KernelModel, KernelRequest, KernelResult
from solver.assignment.result import CHECKED_BOUND, CP_SAT, TOULBAR
from solver.cpsat import ModelError
from solver.result import Clock

LEAST_GAIN = 1 / 500
"""Part of the gap that two sweeps must close for more of them to be worth it."""

MOST_SWEPT = 1 << 25
"""Entries of all sweeps together: a second, about."""

FIRST_DETERMINISTIC_S, GROWTH = 4.0, 4
"""CP-SAT's first turn in its own seconds; the next ones are longer, each with what the last one found."""

Told = Callable[[int | None, int], None]
"""Is told of totals and bounds."""


def solve_kernel(
    instance: Instance, request: KernelRequest, clock: Clock, told: Told | None = None
) -> KernelResult:
    """Find the least total of an instance among the assignments asked for."""
    most = instance.infinity - 1 if request.limit is None else min(request.limit, instance.infinity - 1)
    sweeps = Sweeps(instance, most + 1)
    answer = _sweep(instance, sweeps, most, request.excluded, clock)
    if answer.is_proven or clock.stop():
        return answer
    if told is not None and answer.bound is not None:
        told(answer.total, answer.bound)
    if request.engine != CP_SAT and toulbar.is_available() and most - sweeps.floor < toulbar.LARGEST:
        return _by_toulbar(instance, sweeps, most, answer, request, clock, told)
    return _by_cp_sat(instance, sweeps, most, answer, request, clock)


def _sweep(
    instance: Instance, sweeps: Sweeps, most: int, excluded: Choice | None, clock: Clock
) -> KernelResult:
    """Sweep as long as it helps; the answer has the best assignment found on the way, and a checked bound."""
    choice = None if excluded is None else best_neighbour(instance, excluded)
    total = most + 1 if choice is None else price(instance, choice)
    if total > most:
        choice, total = None, most + 1
    rounds = max(1, min(MOST_SWEEPS // 2, MOST_SWEPT // (2 * sweeps.entries + 1)))
    for _ in range(rounds):
        before = sweeps.floor
        for is_forward in (True, False):
            sweeps.sweep(is_forward)
        found = None if sweeps.floor > most else descend(instance, sweeps.decoded())
        if found is not None and found != excluded and price(instance, found) < total:
            choice, total = found, price(instance, found)
        gain = sweeps.floor - before
        if sweeps.floor >= total or clock.stop() or gain < LEAST_GAIN * (total - sweeps.floor):
            break
    bound = verified_bound(instance, sweeps.moved)
    if bound < sweeps.floor:
        raise ModelError("costs that were moved do not add up to the bound")
    evidence = Evidence(bound, moved=sweeps.moved)
    if bound > most:
        return KernelResult(None, None, None, CHECKED_BOUND, evidence)
    if choice is None:
        return KernelResult(None, None, bound, CHECKED_BOUND, evidence)
    return KernelResult(choice, total, min(bound, total), CHECKED_BOUND, evidence)


def _by_toulbar(
    instance: Instance,
    sweeps: Sweeps,
    most: int,
    found: KernelResult,
    request: KernelRequest,
    clock: Clock,
    told: Told | None,
) -> KernelResult:
    """Let toulbar2 look for something better than what was found."""
    if found.total is not None:
        most = found.total - 1
    # toulbar2 proves more in the costs as they were than in those that sweeps left; those may be too large.
    is_small = most < toulbar.LARGEST
    floor, rest = (0, instance) if is_small else (sweeps.floor, sweeps.rest(most))
    answer = [replace(found, method=TOULBAR)]
    rows = []
    if request.excluded is not None:
        taken = [
            (np.arange(len(vector)) == value).astype(np.int64)
            for vector, value in zip(instance.vectors, request.excluded, strict=True)
        ]
        rows = [toulbar.Row(dict(enumerate(taken)), len(taken) - 1)]

    def take(found: toulbar.Found) -> None:
        """Price what toulbar2 says in the original costs."""
        answer[0] = _better(instance, answer[0], found, floor)
        if told is not None and answer[0].bound is not None:
            told(answer[0].total, answer[0].bound)

    top = most + 1 - floor
    capped = [[costs.clip(max=top) for costs in part] for part in (rest.vectors, rest.matrices.values())]
    with toulbar.Problem(
        capped[0], dict(zip(rest.matrices, capped[1], strict=True)), request.seed
    ) as problem:
        outcome = problem.search(top, clock.stop, rows=rows, backtracks=request.backtracks, on_news=take)
    if outcome.choice is not None and outcome.choice == request.excluded:
        raise ModelError("toulbar2's answer is the assignment that was excluded")
    last = _better(instance, answer[0], outcome, floor)
    return replace(last, bound=last.total) if outcome.is_done else last


def _better(instance: Instance, known: KernelResult, found: toulbar.Found, floor: int) -> KernelResult:
    """Return the better one of two answers; a bound is never above the total."""
    if found.choice is not None:
        total = price(instance, found.choice)
        if total >= instance.infinity or found.total not in (None, total - floor):
            raise ModelError("toulbar2's answer does not cost what it says")
        if known.total is None or total < known.total:
            known = replace(known, choice=found.choice, total=total)
    bounds = [bound for bound in (known.bound, found.bound and found.bound + floor) if bound is not None]
    bound = max(bounds, default=None)
    if known.total is not None and bound is not None:
        bound = min(bound, known.total)
    return replace(known, bound=bound)


def _by_cp_sat(
    instance: Instance, sweeps: Sweeps, most: int, answer: KernelResult, request: KernelRequest, clock: Clock
) -> KernelResult:
    """Let CP-SAT search in turns that grow."""
    seconds = FIRST_DETERMINISTIC_S
    while not clock.stop():
        # The best assignment itself stays part of the model: CP-SAT must not call that infeasible.
        reached = most if answer.total is None else min(most, answer.total)
        model = KernelModel(sweeps.rest(reached), sweeps.floor, reached, request)
        answer = model.solve(instance, answer, clock, seconds)
        if answer.is_proven:
            # CP-SAT bounds single costs and the highest digit, but no sum.
            is_above = answer.total is not None and answer.total > most
            return KernelResult(None, None, None, CP_SAT) if is_above else answer
        seconds *= GROWTH
    return answer
