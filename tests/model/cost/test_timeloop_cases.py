"""The cost model reproduces the figures that Timeloop printed, case by case."""

from __future__ import annotations

import pytest

from model.cost import Evaluation, LevelCost, evaluate
from model.counting import TIMELOOP
from tests.model.cost.timeloop_cases import CASES, UNITS_PER_PJ, Case, Json, read_cases

PRINTED_PJ = 0.011
COUNTS = ("reads", "fills", "updates", "tile_words", "partition_words")


def _cases(file: str) -> list[Case]:
    if not CASES.is_dir():
        pytest.skip(f"{CASES} is absent")
    return read_cases(file)


def _assert_level(level: LevelCost, expected: Json) -> None:
    assert level.cycles == expected["cycles"]
    printed = {name: figures for name, figures in expected["dataspaces"].items() if figures["tile_words"]}
    assert {space.dataspace for space in level.dataspaces} == set(printed)
    for space in level.dataspaces:
        figures = printed[space.dataspace]
        assert {count: getattr(space, count) for count in COUNTS} == {c: figures[c] for c in COUNTS}
        assert level.instances == figures["instances"]
        assert space.energy / UNITS_PER_PJ == pytest.approx(figures["energy_pj"], rel=1e-6, abs=PRINTED_PJ)


def _assert_equal(evaluation: Evaluation, expected: Json) -> None:
    assert evaluation.valid
    assert evaluation.cycles == expected["cycles"]
    assert [level.name for level in evaluation.levels] == list(expected["levels"])
    for level in evaluation.levels:
        _assert_level(level, expected["levels"][level.name])
    femtojoules = evaluation.energy_pj * 1000 / evaluation.computes
    assert femtojoules == pytest.approx(expected["fj_per_compute_total"], rel=1e-6, abs=PRINTED_PJ)


@pytest.mark.parametrize(
    ("file", "count", "links"),
    [("plain.jsonl", 160, False), ("flags.jsonl", 60, False), ("link_transfers.jsonl", 30, True)],
)
def test_equals_timeloop(file: str, count: int, links: bool) -> None:
    cases = _cases(file)
    assert len(cases) == count
    for case in cases:
        try:
            _assert_equal(
                evaluate(case.problem, case.architecture, case.mapping, TIMELOOP, links), case.expected
            )
        except AssertionError as error:
            error.add_note(case.name)
            raise


def test_links_matter_in_the_cases_with_links() -> None:
    changed = [
        case.name
        for case in _cases("link_transfers.jsonl")
        if evaluate(case.problem, case.architecture, case.mapping, TIMELOOP)
        != evaluate(case.problem, case.architecture, case.mapping, TIMELOOP, link_transfers=True)
    ]
    assert len(changed) == 3
