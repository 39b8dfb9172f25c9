"""What the table of a network says of a layer."""

from dataclasses import replace

import pytest

from model.cascade import Layer, Network
from solver.network.result import LayerResult, NetworkResult
from solver.report.network import bottleneck, status_line
from solver.result import Termination
from tests.solver.examples import EVALUATION, FEASIBLE, MAPSPACE


@pytest.mark.parametrize(("more", "name"), [(0, "arithmetic"), (1, "buffer")])
def test_what_limits_a_layer_is_the_arithmetic_unless_a_level_is_slower(more, name):
    slow = replace(EVALUATION.level("buffer"), cycles=EVALUATION.compute_cycles + more)
    others = [replace(level, cycles=1) for level in EVALUATION.levels if level.name != "buffer"]
    assert bottleneck(replace(EVALUATION, levels=(*others, slow))) == name


@pytest.mark.parametrize(
    ("termination", "words"),
    [
        (Termination.TIME_LIMIT, "1 stopped by the time limit (`--time-limit`)"),
        (Termination.MEMORY_LIMIT, "1 stopped by the memory limit (`--memory-limit`)"),
    ],
)
def test_the_status_tells_which_limit_stopped_searches(termination, words):
    layer = Layer("one", MAPSPACE)
    answer = LayerResult(layer, replace(FEASIBLE, termination=termination), "searched")
    result = NetworkResult(Network("net", (layer,)), (answer,), 1.0)
    assert status_line(result).plain == f"FEASIBLE 0 of 1 Einsums proven; {words}"
