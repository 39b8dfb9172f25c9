"""Tensors that are held for a later Einsum take space in the level that stores them."""

from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.formats.cascade.loader import load_variants
from model.formats.timeloop.overrides import parse_setting
from solver.network import NetworkResult, map_network
from solver.network.sweep import sweep
from solver.report.network import network_document
from solver.result import Options, Status
from tests.small_network import HOMES, write_specs
from tests.solver.golden import reported

pytestmark = pytest.mark.usefixtures("working_directory")

ENERGY = Options(objectives=("energy",))
ARCHITECTURE = HOMES.replace("OUTER", "[Intermediates]").replace("INNER", "{keep: [Intermediates]}")
SKIP = """
workload:
  rank_sizes: {M: 4, K: 2, N: 4, J: 2}
  bits_per_value: {All: 8}
  einsums:
  - "T[m, n] = A[m, k] * W[k, n]"
  - "U[m, n] = B[m, j] * V[j, n]"
  - "Z[m] = T[m, n] * U[m, n]"
"""
"""T, of 16 values, waits while U is computed, of as many."""
TWO = SKIP.replace('  - "Z[m]', '  - "X[m, n] = C[m, j] * D[j, n]"\n  - "Z[m]')


def mapped(workload: str, depth: int, width: int = 1) -> NetworkResult:
    text = ARCHITECTURE.replace("DEPTH", str(depth)).replace("WIDTH", str(width))
    return map_network(load_network(write_specs(workload, text)), ENERGY)


def statuses(result: NetworkResult) -> list[str]:
    return [layer.status.value for layer in result.layers]


def shown(result: NetworkResult) -> str:
    return reported(network_document(result))


def test_a_tensor_that_waits_leaves_the_others_less_room():
    """With T waiting in 40 words, U costs what it costs alone in 24, and in 80 what it does in 64."""
    alone = SKIP.replace('  - "T[m, n] = A[m, k] * W[k, n]"\n', "")
    costs = [mapped(SKIP, depth).layers[1].energy_units for depth in (32, 33, 40, 80)]
    assert costs == [mapped(alone, depth).layers[0].energy_units for depth in (16, 17, 24, 64)]
    assert sorted(costs, reverse=True) == costs
    assert costs[0] > 2 * costs[-1]


def test_what_waits_may_leave_too_little():
    assert statuses(mapped(SKIP, 32)) == ["OPTIMAL"] * 3
    result = mapped(SKIP, 31)
    assert statuses(result) == ["OPTIMAL", "INFEASIBLE", "INFEASIBLE"]
    (reason,) = result.layers[1].result.reasons
    assert reason.text == "U needs at least 16 words, `buffer` holds 15: 1 too few"
    assert "`buffer` holds 15 words besides 16 for tensors that stay there" in [
        c.text for c in reason.constraints
    ]
    assert "`buffer` with 32 words instead of 31" in [lever.text for lever in reason.levers]


def test_a_note_says_what_waits_where():
    notes = [*map(str, mapped(TWO, 64).network.notes)]
    assert [note for note in notes if "is stored" in note] == [
        "T is stored at `buffer`, and takes space there, while `U` and `X` run",
        "U is stored at `buffer`, and takes space there, while `X` runs",
    ]
    chain = SKIP.replace("T[m, n] * U", "C[m, n] * U")
    assert not any("is stored" in note.text for note in mapped(chain, 64).network.notes)


def test_instances_hold_an_even_share_at_the_least():
    """Two buffers hold 8 of the 16 words of T each, whatever was computed where."""
    result = mapped(SKIP, 16, width=2)
    assert [layer.layer.mapspace.architecture.levels[1].size_words for layer in result.layers] == [16, 8, 16]
    assert statuses(result) == ["OPTIMAL"] * 3


def test_tensors_that_alone_overfill_a_level_leave_no_mapping():
    """T and U need all of 32 words while X runs, which needs none, and more than 31."""
    assert statuses(mapped(TWO, 32)) == ["OPTIMAL"] * 4
    result = mapped(TWO, 31)
    taken = "tensors stored for later (`T` and `U`) take 32 words of `buffer`, which holds 31 of 8 bits"
    text = f"while Einsum `X` runs, {taken}"
    assert result.layers[2].status is Status.INFEASIBLE
    (reason,) = result.layers[2].result.reasons
    assert reason.text == text
    assert [(own.text, len(own.sources)) for own in reason.constraints] == [("`buffer` holds 31 words", 1)]
    (lever,) = reason.levers
    assert lever.text == "`buffer` with 32 words, in addition to those that this Einsum needs there itself"
    assert [(own.demand, own.limit, own.gap) for own in reason.shortfalls] == [(32, 31, 1)]
    assert text in shown(result)
    document = network_document(result)["layers"][2]
    assert (document["origin"], document["status"]) == ("no room", "INFEASIBLE")


def test_a_sweep_goes_on_where_tensors_overfill_a_level():
    write_specs(TWO, ARCHITECTURE.replace("DEPTH", "64").replace("WIDTH", "1"))
    variants = load_variants([Path("w.yaml"), Path("a.yaml")], settings=[parse_setting("buffer.depth=31,32")])
    result = sweep(variants, ENERGY)
    assert [point.result.status for point in result.points] == [Status.INFEASIBLE, Status.OPTIMAL]
    assert result.points[0].costs is None
