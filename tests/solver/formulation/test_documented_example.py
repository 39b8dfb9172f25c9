"""The example of docs/formulation.md: its size, its tables and its optimum."""

import re
from dataclasses import replace

import pytest

from model.architecture import AccessEnergy, StorageLevel
from solver.formulation import Formulation, map_by_formulation
from solver.result import Options, Status
from tests.conftest import REPOSITORY
from tests.mapspaces import free_mapspace, matmul

TEXT = (REPOSITORY / "docs" / "formulation.md").read_text(encoding="utf-8")
EXAMPLE = " ".join(TEXT.split("## An example\n")[1].split("\n## ")[0].split())


@pytest.fixture(scope="module")
def mapspace():
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 100, 100)),
        StorageLevel("buffer", size_words=16, energy=AccessEnergy(5, 5, 5)),
    )
    own = free_mapspace(matmul(6, 4, 4), *levels)
    compute = replace(own.architecture.compute, energy=1)
    return replace(own, architecture=replace(own.architecture, compute=compute), factors="perfect")


def test_size_and_least_entries(mapspace):
    formulation = Formulation(mapspace)
    model = formulation.program.model.proto
    assert f"has {len(model.variables)} Booleans and {len(model.constraints)} rows" in EXAMPLE
    least = formulation.costs.constant_energy + sum(table.least for table in formulation.costs.energy)
    assert f"add up to {int(least):,}" in EXAMPLE


def test_entries_of_tables(mapspace):
    stated = {int(number) for number in re.findall(r"(?<![\w*])\d+", EXAMPLE)}
    for table in Formulation(mapspace).costs.energy:
        for _, cost in table.entries:
            assert abs(cost) in stated


def test_the_optimum_is_the_first_answer(mapspace):
    result = map_by_formulation(mapspace, Options(("energy",)))
    assert result.status is Status.OPTIMAL
    assert f"The optimum is {result.value:,}:" in EXAMPLE
