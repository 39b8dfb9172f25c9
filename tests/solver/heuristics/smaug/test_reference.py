"""SMAUG's results: facts from its unit tests, and outputs of its code for further shapes."""

import math
from collections import Counter

import pytest

from model.formats.backends import load_backend
from model.tiling.operators import Unary
from model.tiling.tilings import Tiling
from solver.heuristics.smaug import CannotTile, tile
from tests.solver.heuristics.smaug.reference import (
    oracle_cases,
    oracle_operator,
    unit_test_cases,
    unit_test_operator,
)

SMV = load_backend("smv")
ORACLE = oracle_cases()
UNIT_TESTS = unit_test_cases()
PARTS = 12
COUNTS = {"inputs": "in", "weights": "w", "outputs": "out"}

needs_reference = pytest.mark.skipif(
    not ORACLE or not UNIT_TESTS, reason="the reference data in ../shared is absent"
)


def _answer(tiling: Tiling, keys) -> dict:
    """The tiling in the oracle's words, as far as it answers `keys`."""
    answer: dict = {"dims": [tensor.strategy.value for tensor in tiling.tensors]}
    for tensor in tiling.tensors:
        answer[tensor.name] = list(tensor.tile)
        if (count := f"n_{COUNTS[tensor.name]}") in keys:
            answer[count] = tensor.listed.count
            answer[f"first_last_{COUNTS[tensor.name]}"] = [
                list(tensor.listed.first),
                list(tensor.listed.last),
            ]
    # For operators without weights SMAUG counts the empty shape as one element.
    empty = int("weights" not in answer)
    return {**answer, "total": tiling.total_elements + empty}


@needs_reference
@pytest.mark.parametrize("part", range(PARTS))
def test_the_oracle_answers_alike(part):
    for case in ORACLE[part::PARTS]:
        operator, expected = oracle_operator(case), case["expect"]
        if "abort" in expected:
            with pytest.raises(CannotTile):
                tile(operator, SMV)
            continue
        assert _answer(tile(operator, SMV), expected) == expected, case


@needs_reference
def test_the_oracle_has_what_cannot_be_tiled():
    assert sum("abort" in case["expect"] for case in ORACLE) > 0


@needs_reference
@pytest.mark.parametrize("case", UNIT_TESTS, ids=lambda case: case["id"])
def test_the_unit_tests_hold(case):
    tiling = tile(unit_test_operator(case), SMV)
    if isinstance(tiling.operator, Unary):
        assert all(list(tensor.tile) == case["expected"]["tile"] for tensor in tiling.tensors)
    else:
        _check_choice(tiling, case)
    for name, expected in case.get("expected_tiles", {}).items():
        if name != "lines":
            _check_tiles(tiling, name, expected)


def _check_choice(tiling: Tiling, case) -> None:
    expected = {name: shape for name, shape in case["expected"].items() if shape is not None}
    assert {name: list(tiling[name].tile) for name in expected} == expected
    derived = case["derived"]
    assert [tensor.strategy.value for tensor in tiling.tensors] == derived["tiling_dims"]
    assert tiling.total_elements == derived["total_elements"]
    if "outputs" in derived:
        assert list(tiling["outputs"].tile) == derived["outputs"]


def _check_tiles(tiling: Tiling, name: str, expected) -> None:
    listed = tiling[name].listed
    assert listed.count == expected["count"]
    # One case writes the shapes that repeat as a text.
    given = [entry for entry in expected.get("shapes", ()) if not isinstance(entry, str)]
    shapes = Counter(tuple(span.size for span in listed.spans(index)) for index in listed.indices())
    for shape, number in given:
        assert shapes[tuple(shape)] >= number
    if given and len(given) == len(expected["shapes"]):
        assert sum(number for _, number in given) == sum(shapes.values())
        assert math.prod(listed.counts) == sum(shapes.values())
