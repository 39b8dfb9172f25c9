"""The execution of random fused mappings against the cost model, and against the unfused cascade."""

from random import Random

import pytest

from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, random_cascade, random_fused


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_cost_and_results_agree_with_the_execution(name: str, seed: int):
    random = Random(f"{name} {seed}")
    cascade = random_cascade(random, name)
    mapping = next(found for found in (random_fused(random, cascade) for _ in range(100)) if found)
    assert not disagreements(cascade, mapping, seed)
