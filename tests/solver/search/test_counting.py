"""Proven optima by either counting rule: windows against enumeration, and where the rules disagree."""

from dataclasses import replace
from pathlib import Path

import pytest

from model.cost import evaluate
from model.formats.timeloop import LoadOptions, load_timeloop
from model.mapping import StorageMapping
from model.mapspace import COUNTINGS, EXACT, TIMELOOP, Counting
from solver.result import Status
from tests.bruteforce import optima
from tests.reference import OBJECTIVES
from tests.solver.search.holding import assert_best, solve
from tests.solver.search.unusual import windowed_mapspaces


@pytest.mark.parametrize("seed", range(10))
def test_windows_by_enumeration(seed: int):
    """Strides, dilations, windows of several ranks and of outputs, registers of one word."""
    different = 0
    for mapspace in windowed_mapspaces(seed, 32, 120):
        best = {}
        for counting in COUNTINGS:
            counted = replace(mapspace, counting=counting)
            best[counting] = [found and found[0] for found in optima(counted, OBJECTIVES)]
            for objective, value in zip(OBJECTIVES, best[counting], strict=True):
                assert_best(counted, objective, solve(counted, objective), value)
        different += best[EXACT] != best[TIMELOOP]
    assert different > 0


def level(name: str, words: int, price: int, kept: str, *, register: bool = False) -> str:
    free = "".join(f", {{name: {action}, energy: 0}}" for action in ("write", "update", "leak"))
    loops = ", temporal: {factors: [Q=1, S=1]}" if register else ""
    return (
        f"  - !Component {{name: {name}, class: SRAM, attributes: {{depth: {words}, width: 8, datawidth: 8}},"
        f" actions: [{{name: read, energy: {price}}}{free}],"
        f" constraints: {{dataspace: {{keep_only: [{kept}]}}{loops}}}}}\n"
    )


ROW = f"""
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {{width: 8, datawidth: 8}}
    actions:
    - {{name: read, energy: 1}}
    - {{name: write, energy: 1}}
    - {{name: update, energy: 1}}
    - {{name: leak, energy: 0}}
{level("ibuf", 7, 10, "Inputs")}{level("wbuf", 3, 3, "Weights")}\
{level("ireg", 1, 0, "Inputs", register=True)}{level("wreg", 1, 0, "Weights", register=True)}\
{level("acc", 1, 0, "Outputs", register=True)}\
  - !Component
    name: mac
    class: intmac
    attributes: {{datawidth: 8}}
    actions: [{{name: compute, energy: 0}}, {{name: leak, energy: 0}}]
problem:
  version: 0.4
  shape:
    name: conv1d
    dimensions: [Q, S]
    data_spaces:
    - {{name: Weights, projection: [[[S]]]}}
    - {{name: Inputs, projection: [[[Q], [S]]]}}
    - {{name: Outputs, projection: [[[Q]]], read_write: true}}
  instance: {{Q: 5, S: 3}}
"""


@pytest.mark.parametrize(("counting", "pj", "outermost"), [(EXACT, 194, "S"), (TIMELOOP, 170, "Q")])
def test_the_optimum_rests_on_no_undercount(counting: Counting, pj: int, outermost: str, tmp_path: Path):
    """One row of a convolution, 5 outputs and 3 taps, registers of one word each.

    With Q outside, the words asked of the inputs' register are 0 1 2 | 1 2 3 | 2 3 4 | ...: no two
    neighbours are equal, so the buffer is read 15 times. Timeloop's rule says 11, and calls 170 pJ the
    optimum for what executes at 210 pJ; with S outside it is 194 pJ.
    """
    spec = tmp_path / "row.yaml"
    spec.write_text(ROW, encoding="utf-8")
    mapspace = load_timeloop([spec], options=LoadOptions(counting=counting)).mapspace
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
