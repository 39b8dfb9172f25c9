"""What the searches of an instance are asked for, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from solver.assignment.instance import Choice

BRANCH_AND_BOUND, CP_SAT = "branch-and-bound", "cp-sat"


@dataclass(frozen=True)
class Answer:
    """What is known about the least total of an instance.

    Parameters
    ----------
    choice, total
        The best assignment found, None if there is none.
    bound
        No assignment that was asked for is below it; None is infinite: there is none at all.
    method
        `BRANCH_AND_BOUND`, or `CP_SAT` where that had the last word.
    """

    choice: Choice | None
    total: int | None
    bound: int | None
    method: str = BRANCH_AND_BOUND

    @property
    def is_proven(self) -> bool:
        """Whether value and bound meet, or no assignment exists."""
        return self.total == self.bound


@dataclass(frozen=True)
class Request:
    """Which assignments are asked for, and how.

    Parameters
    ----------
    limit
        Only assignments of at most this total; None is any.
    excluded
        An assignment that does not count.
    jobs, seed
        Workers and seed of CP-SAT.
    """

    limit: int | None = None
    excluded: Choice | None = None
    jobs: int = 1
    seed: int = 0
