"""What an assignment is asked for, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from model.assignment import CostedNetwork
from solver import cpsat, toulbar
from solver.assignment.bounds import Evidence
from solver.result import Reason, Status, Termination, relative_gap

RULES = ("split", "R0", "RI", "RII", "bucket")
"""Rules of elimination: matrices that couple nothing are split, layers go by their number of neighbours."""


CHECKED_BOUND, TOULBAR, CP_SAT = "checked-bound", "toulbar2", "cp-sat"
"""What has the last word on what eliminations leave: a bound that was recomputed, or a library."""


@dataclass(frozen=True, slots=True)
class AssignOptions:
    """How to search; none of it changes what the least total is. ValueError for options out of range."""

    time_limit_s: float | None = None  # None is no limit; dynamic programming and eliminations always finish
    jobs: int = 1  # workers of CP-SAT, as the seed
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges; ``ValueError`` says which option is wrong."""
        if self.time_limit_s is not None and self.time_limit_s < 0:
            raise ValueError("the time limit must not be negative")
        if self.jobs < 1:
            raise ValueError("jobs must be at least 1")


@dataclass(frozen=True)
class Assignment:
    """A method per layer and what it costs."""

    choice: tuple[int, ...]  # position of the chosen method in each layer's `methods`
    execution: tuple[int, ...]  # steps per layer
    transition: tuple[int, ...]  # steps per edge, in the order of the network's edges

    @property
    def total(self) -> int:
        """All costs together, in steps."""
        return sum(self.execution) + sum(self.transition)

    def methods(self, network: CostedNetwork) -> tuple[str, ...]:
        """Return the name of each layer's method."""
        return tuple(layer.methods[k] for layer, k in zip(network.layers, self.choice, strict=True))

    def incoming(self, network: CostedNetwork) -> list[int]:
        """Return per layer the transitions on the edges that lead to it, in steps."""
        sums = [0] * len(network.layers)
        for edge, steps in zip(network.edges, self.transition, strict=True):
            sums[edge.target] += steps
        return sums


@dataclass(frozen=True)
class Policy:
    """A simple rule to choose by, and what it costs."""

    name: str  # for the report
    total: int | None  # steps; None where it takes something forbidden
    layers_followed: int  # layers that offer what the rule wants; the others take their cheapest method
    # Whether all costs are known that the rule asks for. Those that are not count as forbidden.
    known: bool = True


@dataclass(frozen=True)
class Decomposition:
    """How layers were eliminated."""

    structure: str  # ``chain``, ``tree``, ``series-parallel`` or ``general``, of the layers that interact
    # Names of layers: a rule out of `RULES`, the layer that left, and the neighbours it was folded into.
    steps: tuple[tuple[str, ...], ...]
    kernels: tuple[tuple[str, ...], ...]  # layers of each connected remainder that is too wide to eliminate

    def count(self, rule: str) -> int:
        """Return how often a rule was applied."""
        return sum(step[0] == rule for step in self.steps)


@dataclass(frozen=True)
class AssignResult:
    """The answer of an assignment.

    Parameters
    ----------
    status, termination
        What is known, and why the search ended.
    method_used
        ``chain``: shortest path; ``reductions``: of a tree or series-parallel graph;
        ``bucket-elimination``: of another graph that is narrow; ``checked-bound``, ``toulbar2`` or
        ``cp-sat``: eliminations, and what had the last word on what they left.
    network
        The network; costs below are in its steps.
    decomposition
        How the graph was taken apart.
    best
        The best assignment found, None if there is none.
    bound
        No assignment is below it; None if none is feasible.
    runner_up
        The second-best assignment, where known; its total equals the best one's if that is not unique.
    margin
        Steps from the best to the second-best total, None unless both are proven, or where there is
        no other assignment.
    policies
        Naive rules to compare with.
    reasons
        For INFEASIBLE: layers and edges that leave no assignment.
    seconds
        Wall-clock time.
    evidence
        What a bound rests on that can be checked; it may be below `bound`.

    Raises
    ------
    ValueError
        If status, bound and assignments contradict each other.
    """

    status: Status
    termination: Termination
    method_used: str
    network: CostedNetwork
    decomposition: Decomposition
    best: Assignment | None = None
    bound: int | None = None
    runner_up: Assignment | None = None
    margin: int | None = None
    policies: tuple[Policy, ...] = ()
    reasons: tuple[Reason, ...] = ()
    seconds: float = 0.0
    evidence: Evidence | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Hold the statuses apart."""
        has_answer = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        if (self.best is not None) != has_answer:
            raise ValueError(f"{self.status.name} contradicts the presence of an assignment")
        if self.status is Status.OPTIMAL and self.bound != self.total:
            raise ValueError("OPTIMAL needs a bound equal to the total")
        if self.margin is not None and (self.status is not Status.OPTIMAL or self.runner_up is None):
            raise ValueError("a margin needs a proven best and a runner-up")
        proven = self.status in (Status.OPTIMAL, Status.INFEASIBLE)
        if proven != (self.termination is Termination.PROVEN):
            raise ValueError(f"{self.status.name} does not fit {self.termination.name}")

    @property
    def total(self) -> int | None:
        """Total of the best assignment, in steps."""
        return None if self.best is None else self.best.total

    @property
    def proof(self) -> str | None:
        """What the proof rests on: ``exact``, ``checked``, or the name of a library; None without a proof.

        ``exact`` are eliminations in whole numbers; ``checked`` as well, with a bound on what they left that
        was recomputed in whole numbers from costs that were moved. A library's word is taken for the rest.
        """
        if self.termination is not Termination.PROVEN:
            return None
        if self.method_used == TOULBAR:
            return toulbar.name()
        if self.method_used == CP_SAT:
            return cpsat.name()
        return "checked" if self.method_used == CHECKED_BOUND else "exact"

    @property
    def gap(self) -> float | None:
        """Relative distance between total and bound, None unless both are known."""
        return relative_gap(self.total, self.bound)

    def in_unit(self, steps: int | None) -> Fraction | None:
        """Return a cost in the network's unit, exactly."""
        return None if steps is None else self.network.in_unit(steps)
