"""toulbar2 in its process: answers, limits, lies, and the end of the process."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from solver import toulbar
from solver.assignment.instance import Instance, price
from solver.assignment.kernel import solve_kernel
from solver.assignment.kernel_model import KernelRequest
from solver.cpsat import ModelError
from solver.result import Clock, ContradictionError

pytestmark = pytest.mark.skipif(not toulbar.is_available(), reason="toulbar2 is not installed")


def looped():
    """Three layers, each beside the other two, of which two must agree: no sweep closes the gap."""
    matrix = np.array([[20, 1], [0, 30]])
    vectors = [np.array(own) for own in ([3, 9], [1, 4], [7, 2])]
    return Instance(vectors, dict.fromkeys([(0, 1), (1, 2), (0, 2)], matrix), 1000)


def hard(count=24, values=6):
    costs = np.random.default_rng(0)
    pairs = [(i, j) for j in range(count) for i in range(j)]
    return Instance(
        [costs.integers(0, 10**6, values) for _ in range(count)],
        {pair: costs.integers(0, 10**6, (values, values)) for pair in pairs},
        10**9,
    )


def never():
    return False


def test_one_process_answers_several_requests():
    own = looped()
    totals = sorted(price(own, (a, b, c)) for a in (0, 1) for b in (0, 1) for c in (0, 1))
    with toulbar.Problem(own.vectors, own.matrices) as problem:
        first = problem.search(own.infinity, never)
        assert (first.is_done, price(own, first.choice)) == (True, totals[0])
        assert problem.search(totals[0], never).choice is None
        own_value = [(np.arange(2) == value).astype(np.int64) for value in first.choice]
        other = problem.search(own.infinity, never, rows=[toulbar.Row(dict(enumerate(own_value)), 2)])
        assert (other.is_done, price(own, other.choice)) == (True, totals[1])
        raised = [np.array([100, 0]), np.array([0, 0]), np.array([0, 0])]
        assert problem.search(own.infinity, never, added=raised).choice[0] == 1
        assert problem.search(own.infinity, never) == first


def test_a_stop_and_too_many_backtracks_leave_what_was_found():
    own = hard()
    with toulbar.Problem(own.vectors, own.matrices) as problem:
        brief = problem.search(own.infinity, never, backtracks=50)
        assert not brief.is_done
        assert brief.bound <= price(own, brief.choice)
        asked = iter(range(10))
        ended = problem.search(own.infinity, lambda: next(asked, 99) == 9)
        assert not ended.is_done


def test_a_process_that_ends_is_no_answer():
    own = hard()
    with toulbar.Problem(own.vectors, own.matrices) as problem:
        os.kill(problem._process.pid, signal.SIGKILL)
        with pytest.raises(ContradictionError, match="ended by itself"):
            problem.search(own.infinity, never)


def test_large_costs_are_refused():
    with pytest.raises(ValueError, match="too large"):
        toulbar.Problem([np.array([0, toulbar.LARGEST])], {})


LIES = {
    "another total": lambda found: replace(found, total=found.total - 1),
    "other values": lambda found: replace(found, choice=tuple(1 - value for value in found.choice)),
    "a forbidden choice": lambda found: replace(found, choice=(0, 0, 0), total=None),
}


@pytest.mark.parametrize("lie", LIES)
def test_wrong_answers_are_errors(lie, monkeypatch):
    own = looped()
    own.matrices[0, 1] = own.matrices[0, 1] + np.array([[980, 0], [0, 0]])
    search = toulbar.Problem.search

    def lying(*words, **options):
        return LIES[lie](search(*words, **{**options, "on_news": None}))

    expected = solve_kernel(own, KernelRequest(), Clock(None))
    assert expected.is_proven
    monkeypatch.setattr(toulbar.Problem, "search", lying)
    monkeypatch.setattr("solver.assignment.kernel.descend", lambda *_: None)
    with pytest.raises(ModelError, match="does not cost what it says"):
        solve_kernel(own, KernelRequest(), Clock(None))
