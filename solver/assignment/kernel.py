"""What is too wide for any elimination: branch and bound and CP-SAT, in turns.

Where many layers are joined to many others, the bounds of the potentials and a fast tree search decide.
In large graphs of few edges per layer, relaxations are nearly tight, and CP-SAT's clauses and cuts do. No
number tells beforehand, so both get turns that grow, and the time is within a factor of the better one's.
"""

from __future__ import annotations

from solver.assignment.answer import CP_SAT, Answer, Request
from solver.assignment.branching import Branching
from solver.assignment.instance import Choice, Instance, best_neighbour, descend, price
from solver.assignment.kernel_model import KernelModel
from solver.assignment.potentials import Potentials
from solver.result import Clock

MOST_SWEEPS = 200
"""Sweeps over the whole instance, before anything is branched on."""

LEAST_GAIN = 1 / 500
"""Part of the gap that two sweeps must close for more of them to be worth it."""

FIRST_ENTRIES = 50_000_000
"""Entries of matrices in the first turn of branch and bound: a few seconds."""

FIRST_DETERMINISTIC_S = 4.0
"""CP-SAT's first turn, in its own seconds."""

GROWTH = 4


def solve_kernel(instance: Instance, request: Request, clock: Clock) -> Answer:
    """Find the least total of an instance among the assignments asked for."""
    most = instance.infinity - 1 if request.limit is None else min(request.limit, instance.infinity - 1)
    potentials = Potentials.of(instance, most + 1)
    start = _prepare(instance, potentials, request.excluded, clock)
    floor = int(potentials.floors[0])
    branching = Branching(instance, potentials, request.excluded)
    if start is not None:
        branching.accept(start, price(instance, start))
    answer = Answer(None, None, floor)
    entries, seconds = FIRST_ENTRIES, FIRST_DETERMINISTIC_S
    while True:
        branching.run(entries, clock.stop)
        answer = _told(branching, answer)
        if branching.is_done or clock.stop():
            return answer
        # The best assignment itself stays part of the model: CP-SAT must not call that infeasible.
        reached = min(most, branching.limit)
        model = KernelModel(potentials.as_instance(instance, reached), floor, reached, request)
        answer = model.solve(instance, answer, clock, seconds)
        if answer.is_proven:
            return _within(most, answer)
        if answer.choice is not None and answer.total is not None:
            branching.accept(answer.choice, answer.total)
        entries, seconds = entries * GROWTH, seconds * GROWTH


def _within(most: int, answer: Answer) -> Answer:
    """Return a proven answer of CP-SAT, which bounds single costs and the highest digit, but no sum."""
    is_above = answer.total is not None and answer.total > most
    return Answer(None, None, None, CP_SAT) if is_above else answer


def _prepare(
    instance: Instance, potentials: Potentials, excluded: Choice | None, clock: Clock
) -> Choice | None:
    """Sweep as long as it helps, and return the best assignment below the limit found on the way."""
    best = None
    for _ in range(MOST_SWEEPS):
        if excluded is None:
            incumbent = descend(instance, [int(vector[0].argmin()) for vector in potentials.vectors.values()])
        else:
            incumbent = best_neighbour(instance, excluded)
        if incumbent is not None and (total := price(instance, incumbent)) < potentials.limit:
            # One more, so that the assignment itself stays within reach of CP-SAT.
            best, potentials.limit = incumbent, total + 1
        before = int(potentials.floors[0])
        for is_forward in (True, False):
            potentials.sweep(is_forward)
        floor = int(potentials.floors[0])
        if (
            floor >= potentials.limit
            or clock.stop()
            or floor - before < LEAST_GAIN * (potentials.limit - floor)
        ):
            break
    return best


def _told(branching: Branching, before: Answer) -> Answer:
    """Return what branch and bound has found, and the better bound of it and of before."""
    total = None if branching.best is None else branching.limit
    if branching.is_done:
        return Answer(branching.best, total, total)
    bound = branching.bound if before.bound is None else max(before.bound, branching.bound)
    return Answer(branching.best, total, bound if total is None else min(bound, total), before.method)
