"""Proven optima by either counting rule: windows against enumeration, and where the rules disagree."""

from dataclasses import replace

import pytest

from model.cost import evaluate
from model.counting import COUNTINGS, EXACT, TIMELOOP, Counting
from model.mapping import StorageMapping
from solver.result import Status
from tests.bruteforce import optima
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.search.holding import assert_best, solve
from tests.solver.search.unusual import windowed_mapspaces

ONE_WORD_REGISTERS = REPOSITORY / "tests/solver/cli/data/one_word_registers.yaml"


@pytest.mark.parametrize("seed", few(range(2)))
def test_windows_by_enumeration(seed: int):
    """Strides, dilations, windows of several ranks and of outputs, registers of one word."""
    different = 0
    for mapspace in windowed_mapspaces(seed, 14, 120):
        best = {}
        for counting in COUNTINGS:
            counted = replace(mapspace, counting=counting)
            best[counting] = [found and found[0] for found in optima(counted, OBJECTIVES)]
            for objective, value in zip(OBJECTIVES, best[counting], strict=True):
                assert_best(counted, objective, solve(counted, objective), value)
        different += best[EXACT] != best[TIMELOOP]
    assert different > 0


@pytest.mark.parametrize(("counting", "pj", "outermost"), [(EXACT, 194, "S"), (TIMELOOP, 170, "Q")])
def test_the_optimum_rests_on_no_undercount(counting: Counting, pj: int, outermost: str):
    """One row of a convolution, 5 outputs and 3 taps, registers of one word each.

    With Q outside, the words asked of the inputs' register are 0 1 2 | 1 2 3 | 2 3 4 | ...: no two
    neighbours are equal, so the buffer is read 15 times. Timeloop's rule says 11, and calls 170 pJ the
    optimum for what executes at 210 pJ; with S outside it is 194 pJ.
    """
    mapspace = perfect_mapspace(ONE_WORD_REGISTERS, counting=counting)
    result = solve(mapspace, "energy")
    assert result.status is Status.OPTIMAL
    assert result.reported_value == pj
    levels = [part for part in result.mapping.nodes if isinstance(part, StorageMapping)]
    assert next(loop.dim for own in levels for loop in reversed(own.temporal)) == outermost
    if counting == TIMELOOP:
        executed = evaluate(mapspace.problem, mapspace.architecture, result.mapping, EXACT)
        assert executed.level("ibuf").dataspace("Inputs").reads == 15
        assert result.evaluation.level("ibuf").dataspace("Inputs").reads == 11
        assert executed.energy_pj == 210
