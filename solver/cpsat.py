"""CP-SAT behind checks: the only module that imports OR-tools.

A model is solved only if its numbers are small, without the parts of presolve that are known to be unsound,
and in a separate thread, so that the caller reacts to a stop at once. Answers are whole numbers, recomputed
from the values of the variables; an answer that contradicts the model is an error.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from solver.processes import POLL_S

if TYPE_CHECKING:
    from ortools.sat.python import cp_model, cp_model_helper

Variable: TypeAlias = "cp_model.IntVar"
Literal: TypeAlias = "cp_model_helper.Literal"
Expression: TypeAlias = "cp_model.LinearExpr | int"

LARGEST_ACTIVITY = (1 << 31) - 1
"""The presolve of OR-tools 9.15 adds up coefficients of Booleans in 32 bits, and takes a row whose sum wraps
around for one that always holds (google/or-tools #5293)."""

ROUNDING = 1e-6
"""CP-SAT reports objectives in floating point, though they are whole."""


def name() -> str:
    """Return the name of the program with its version."""
    return f"CP-SAT {importlib.metadata.version('ortools')}"


class ModelError(RuntimeError):
    """CP-SAT rejected a model, or its answer contradicts it: a defect."""


class RangeError(ModelError):
    """A number in a model is too large for CP-SAT to be reliable."""


@dataclass(frozen=True)
class Settings:
    """Parameters of CP-SAT that differ from model to model."""

    seed: int = 0
    workers: int = 1  # threads; with one, the same model has the same answer each time
    presolve: bool = True
    linearization: int = 1  # level, 0 to 2
    probing: int = 2  # level in presolve, 0 to 2
    deterministic_s: float = math.inf  # limit in CP-SAT's deterministic seconds


class Answer:
    """Values of all variables of a model; the objective is None in a callback, and without an objective."""

    def __init__(self, source: Any, objective: int | None = None) -> None:
        self._source = source
        self.objective = objective

    def value(self, expression: Expression) -> int:
        """Return the value of a sum of variables."""
        return int(self._source.value(expression))

    def holds(self, literal: Literal) -> bool:
        """Return whether a literal is true."""
        return bool(self._source.boolean_value(literal))

    def choice(self, literals: Iterable[Literal]) -> int:
        """Return the position of the one literal that is true; `ModelError` if none or several are."""
        chosen = [place for place, literal in enumerate(literals) if self.holds(literal)]
        if len(chosen) != 1:
            raise ModelError(f"CP-SAT's answer breaks a constraint of the model: {len(chosen)} of one choice")
        return chosen[0]


@dataclass(frozen=True)
class Outcome:
    """The result of solving a model."""

    answer: Answer | None  # None if there is none, or none was found in time
    is_proven: bool  # whether the answer is optimal; without an answer, whether there is none
    bound: int  # on the objective; 0 without one

    @property
    def is_infeasible(self) -> bool:
        """Whether the model is proven to have no answer."""
        return self.answer is None and self.is_proven


class CheckedModel:
    """A CP-SAT model whose numbers stay where presolve is sound; its objective, if any, is minimised.

    No coefficient and no activity of a row or of the objective exceeds `largest`.
    """

    def __init__(self, largest: int = LARGEST_ACTIVITY) -> None:
        from ortools.sat.python import cp_model  # noqa: PLC0415 (takes about a second)

        self.model = cp_model.CpModel()
        self._largest = largest
        self._domains: list[tuple[int, int]] = []
        self._checked_rows = 0

    @property
    def variables(self) -> int:
        """Number of variables."""
        return len(self.model.proto.variables)

    @staticmethod
    def weighted_sum(terms: Sequence[Expression], weights: Sequence[int]) -> Expression:
        """Return the sum of ``weight * term``; the constant 0 without terms."""
        from ortools.sat.python import cp_model  # noqa: PLC0415 (imported with the model)

        return cp_model.LinearExpr.weighted_sum(terms, weights)

    @staticmethod
    def given(literal: Literal | None, row: cp_model.Constraint) -> None:
        """Let a row hold only where a literal does; always if it is None."""
        if literal is not None:
            row.only_enforce_if(literal)

    def imply(self, literal: Literal | None, others: Sequence[Literal]) -> None:
        """Let one of the others hold where a literal does; always if it is None."""
        self.model.add_bool_or([*others] if literal is None else [literal.negated(), *others])

    def check(self) -> None:
        """Check what was added since the last check; `ModelError` if CP-SAT rejects the model.

        `RangeError` if a coefficient, a domain, or an activity over the domains reaches 2^31, or a
        constraint or the objective is of a kind that is not checked.
        """
        error = self.model.validate()
        if error:
            raise ModelError(f"CP-SAT calls its model invalid: {error}")
        proto = self.model.proto
        for place in range(len(self._domains), len(proto.variables)):
            ends = list(proto.variables[place].domain)  # its own [-1] is not the last entry
            domain = (ends[0], ends[-1])
            self._domains.append(domain)
            self._assert_small("a variable's domain", domain)
        for place in range(self._checked_rows, len(proto.constraints)):
            self._check_row(proto.constraints[place])
        self._checked_rows = len(proto.constraints)
        if proto.has_floating_point_objective():
            raise RangeError("the objective is not a sum of integers")
        self._check_sum("the objective", proto.objective)
        self._assert_small("the objective's offset", (math.ceil(abs(proto.objective.offset)),))

    def solve(
        self,
        settings: Settings,
        stop: Callable[[], bool],
        on_answer: Callable[[Answer], None] | None = None,
        on_bound: Callable[[int], None] | None = None,
    ) -> Outcome:
        """Check the model, and solve it until it is proven or stopped; errors as of `check`.

        `stop` is called every few hundredths of a second in this thread, `on_answer` with every incumbent and
        `on_bound` with every better bound in other ones; what `on_answer` raises ends the solve.
        """
        self.check()
        least = self._least_objective()
        if stop():
            return Outcome(None, False, least)
        solver = _new_solver(settings)
        if on_bound is not None:
            solver.best_bound_callback = lambda told: on_bound(_rounded_bound(told, least))
        listener = None if on_answer is None else _listener(on_answer)
        _run_in_thread(lambda: solver.solve(self.model, listener), solver.stop_search, stop)
        if listener is not None and listener.raised is not None:
            raise listener.raised
        return self._outcome(solver, least)

    def _check_row(self, row: Any) -> None:
        if row.has_linear():
            self._check_sum("a row", row.linear)
        elif row.has_table():
            self._assert_small("a table's entry", row.table.values)
            self._check_parts("a table's column", row.table.exprs)
        elif row.has_int_prod():
            self._check_parts("a product's part", (row.int_prod.target, *row.int_prod.exprs))
        elif not (row.has_bool_or() or row.has_bool_and() or row.has_exactly_one() or row.has_at_most_one()):
            raise RangeError("a constraint is neither a sum nor a table, a product or Boolean")

    def _check_parts(self, name: str, parts: Iterable[Any]) -> None:
        for part in parts:
            self._check_sum(name, part)
            self._assert_small(f"the offset of {name}", (part.offset,))

    def _check_sum(self, name: str, linear: Any) -> None:
        self._assert_small(f"a coefficient of {name}", linear.coeffs)
        terms = zip(linear.coeffs, linear.vars, strict=True)
        activity = sum(abs(c) * max(map(abs, self._domains[v])) for c, v in terms)
        self._assert_small(f"the activity of {name}", (activity,))

    def _assert_small(self, name: str, numbers: Sequence[int]) -> None:
        largest = max(map(abs, numbers), default=0)
        if largest > self._largest:
            raise RangeError(f"{name} reaches {largest:,}, which is not safe in CP-SAT")

    def _least_objective(self) -> int:
        """Return the least value of the objective over the domains alone."""
        objective = self.model.proto.objective
        if objective.scaling_factor < 0:
            raise ModelError("objectives are minimised")
        terms = zip(objective.coeffs, objective.vars, strict=True)
        least: int = sum(min(c * end for end in self._domains[v]) for c, v in terms)
        return least + _nearest_integer(objective.offset)

    def _outcome(self, solver: cp_model.CpSolver, least: int) -> Outcome:
        from ortools.sat.python import cp_model  # noqa: PLC0415 (imported with the model)

        response = solver.response_proto
        if response.status == cp_model.INFEASIBLE:
            return Outcome(None, True, least)
        if response.status == cp_model.UNKNOWN:
            # Stopped early, CP-SAT may report 0 as a bound that it does not have.
            return Outcome(None, False, least if least < 0 else max(least, _reported_bound(response, least)))
        if response.status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            raise ModelError(f"CP-SAT calls its model invalid: {response.solution_info}")
        is_proven = response.status == cp_model.OPTIMAL
        objective = self._recomputed(response)
        if objective is None:
            return Outcome(Answer(solver), is_proven, least)
        bound = max(least, _reported_bound(response, least))
        if bound > objective or (is_proven and bound < objective):
            raise ModelError(f"CP-SAT's bound {bound:,} contradicts its answer {objective:,}")
        return Outcome(Answer(solver, objective), is_proven, bound)

    def _recomputed(self, response: Any) -> int | None:
        """Return the objective of the values in the response, which has to agree with the reported one."""
        values = list(response.solution)
        domains = zip(values, self._domains, strict=False)
        if len(values) != len(self._domains) or any(not low <= x <= high for x, (low, high) in domains):
            raise ModelError("CP-SAT's answer leaves the domains of the model")
        if not self.model.has_objective():
            return None
        objective = self.model.proto.objective
        total: int = sum(c * values[v] for c, v in zip(objective.coeffs, objective.vars, strict=True))
        total += _nearest_integer(objective.offset)
        if _nearest_integer(response.objective_value) != total:
            raise ModelError(f"CP-SAT reports an objective of {response.objective_value!r} for {total:,}")
        return total


def _new_solver(settings: Settings) -> cp_model.CpSolver:
    from ortools.sat.python import cp_model  # noqa: PLC0415 (imported with the model)

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = settings.workers
    solver.parameters.random_seed = settings.seed
    solver.parameters.cp_model_presolve = settings.presolve
    solver.parameters.linearization_level = settings.linearization
    solver.parameters.cp_model_probing_level = settings.probing
    solver.parameters.max_deterministic_time = settings.deterministic_s
    # What goes wrong above LARGEST_ACTIVITY is part of the search for inclusions.
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.catch_sigint_signal = False
    return solver


def _run_in_thread(
    solve: Callable[[], object], stop_search: Callable[[], None], stop: Callable[[], bool]
) -> None:
    """Run `solve` in a thread that does not outlive the call, so that signals and `stop` are heard."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(solve)
        try:
            _wait(running, stop_search, stop)
        finally:
            # Whatever interrupts, perhaps before the search has begun: it must end.
            _wait(running, stop_search, lambda: True)
        running.result()


def _wait(running: Future[object], stop_search: Callable[[], None], stop: Callable[[], bool]) -> None:
    while wait([running], timeout=POLL_S).not_done:
        if stop():
            stop_search()


def _listener(on_answer: Callable[[Answer], None]) -> Any:
    """Return a callback of CP-SAT that keeps exceptions, as they must not pass through the solver."""
    from ortools.sat.python import cp_model  # noqa: PLC0415 (imported with the model)

    class Listener(cp_model.CpSolverSolutionCallback):
        raised: Exception | None = None

        def on_solution_callback(self) -> None:
            try:
                on_answer(Answer(self))
            except Exception as error:  # raised again once the solver has returned
                self.raised = error
                self.stop_search()

    return Listener()


def _nearest_integer(value: float) -> int:
    """Return the whole number that CP-SAT means by a floating-point one."""
    if not math.isfinite(value) or abs(value - round(value)) > ROUNDING:
        raise ModelError(f"CP-SAT reports {value!r} for an integer")
    return round(value)


def _reported_bound(response: Any, least: int) -> int:
    """Return the reported bound, rounded up; `least` if the response has none."""
    return _rounded_bound(response.best_objective_bound, least)


def _rounded_bound(told: float, least: int) -> int:
    return max(least, math.ceil(told - ROUNDING)) if math.isfinite(told) else least
