"""What the table of a network says of a layer."""

from dataclasses import replace

import pytest

from solver.report.network import bottleneck
from tests.solver.examples import EVALUATION


@pytest.mark.parametrize(("more", "name"), [(0, "arithmetic"), (1, "buffer")])
def test_what_limits_a_layer_is_the_arithmetic_unless_a_level_is_slower(more, name):
    slow = replace(EVALUATION.level("buffer"), cycles=EVALUATION.compute_cycles + more)
    others = [replace(level, cycles=1) for level in EVALUATION.levels if level.name != "buffer"]
    assert bottleneck(replace(EVALUATION, levels=(*others, slow))) == name
