"""Small mappings priced by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, Node, StorageLevel
from model.cost import DataspaceCost, Evaluation, Violation, evaluate
from model.counting import EXACT, TIMELOOP
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem, Term

WEIGHTS = Dataspace("W", ((Term("R"),),))
INPUTS = Dataspace("I", ((Term("P"), Term("R")),))
OUTPUTS = Dataspace("O", ((Term("P"),),), read_write=True)
CONV1D = Problem("conv1d", ("P", "R"), (4, 3), (WEIGHTS, INPUTS, OUTPUTS))

ALL = frozenset({"W", "I", "O"})
DRAM = StorageLevel("dram")
BUFFER = StorageLevel("buffer", size_words=100)

Counts = tuple[int, int, int, int]


def price(
    nodes: list[tuple[Node, NodeMapping]], links: bool = False, compute: Compute | None = None
) -> Evaluation:
    architecture = Architecture(
        "small", tuple(node for node, _ in nodes), compute or Compute("mac"), units_per_pj=1000
    )
    return evaluate(
        CONV1D, architecture, Mapping(tuple(entry for _, entry in nodes)), TIMELOOP if links else EXACT, links
    )


def temporal(*loops: tuple[str, int], keep: frozenset[str] = ALL) -> StorageMapping:
    return StorageMapping(tuple(Loop(dim, bound) for dim, bound in loops), keep)


def spatial(*loops: tuple[str, int]) -> FanoutMapping:
    return FanoutMapping(tuple(SpatialLoop(dim, bound, "x") for dim, bound in loops))


def counts(space: DataspaceCost) -> Counts:
    return space.tile_words, space.reads, space.fills, space.updates


def all_counts(evaluation: Evaluation) -> dict[str, dict[str, Counts]]:
    return {
        level.name: {space.dataspace: counts(space) for space in level.dataspaces}
        for level in evaluation.levels
    }


def test_one_level_serves_every_step() -> None:
    result = price([(DRAM, temporal(("R", 3), ("P", 4)))])
    assert all_counts(result) == {"dram": {"W": (3, 12, 0, 0), "I": (6, 12, 0, 0), "O": (4, 8, 0, 12)}}
    assert (result.computes, result.cycles, result.utilization, result.valid) == (12, 12, 1.0, True)


def test_output_stationary_buffer() -> None:
    """R runs inside the buffer: weights and the overlap of the inputs stay, each output moves once."""
    result = price([(DRAM, temporal(("P", 4))), (BUFFER, temporal(("R", 3)))])
    assert all_counts(result) == {
        "dram": {"W": (3, 3, 0, 0), "I": (6, 6, 0, 0), "O": (4, 0, 0, 4)},
        "buffer": {"W": (3, 12, 3, 0), "I": (3, 12, 6, 0), "O": (1, 8, 0, 12)},
    }


def test_weight_stationary_buffer() -> None:
    """P runs inside: every output comes back for each of the three weights."""
    result = price([(DRAM, temporal(("R", 3))), (BUFFER, temporal(("P", 4)))])
    assert all_counts(result) == {
        "dram": {"W": (3, 3, 0, 0), "I": (6, 6, 0, 0), "O": (4, 0, 0, 4)},
        "buffer": {"W": (1, 12, 3, 0), "I": (4, 12, 6, 0), "O": (4, 8, 0, 12)},
    }


def test_outputs_that_come_back_are_read_and_filled() -> None:
    """With P inside R above the buffer, its one output word changes in every step."""
    result = price([(DRAM, temporal(("P", 4), ("R", 3))), (BUFFER, temporal())])
    assert all_counts(result)["dram"]["O"] == (4, 8, 0, 12)
    assert all_counts(result)["buffer"]["O"] == (1, 8, 8, 12)


def test_bypassed_level_passes_the_stream_on() -> None:
    result = price([(DRAM, temporal(("P", 4))), (BUFFER, temporal(("R", 3), keep=frozenset({"O"})))])
    assert all_counts(result) == {
        "dram": {"W": (3, 12, 0, 0), "I": (6, 12, 0, 0), "O": (4, 0, 0, 4)},
        "buffer": {"O": (1, 8, 0, 12)},
    }


def test_multicast_serves_equal_words_once() -> None:
    """Four positions side by side, one tap at a time: one weight for all, an input for each."""
    result = price([(DRAM, temporal(("R", 3))), (Fanout("array", 4), spatial(("P", 4)))])
    assert all_counts(result) == {"dram": {"W": (3, 3, 0, 0), "I": (6, 12, 0, 0), "O": (4, 8, 0, 12)}}
    assert (result.compute_cycles, result.compute_instances) == (3, 4)


def test_children_at_one_position_share_and_overlaps_do_not() -> None:
    array = Fanout("array", 4, 3)
    both = FanoutMapping((SpatialLoop("P", 4, "x"), SpatialLoop("R", 3, "y")))
    result = price([(DRAM, temporal()), (array, both)])
    assert all_counts(result)["dram"] == {"W": (3, 3, 0, 0), "I": (6, 6, 0, 0), "O": (4, 0, 0, 4)}
    windows = price([(DRAM, temporal()), (array, spatial(("P", 4))), (BUFFER, temporal(("R", 3)))])
    assert all_counts(windows)["dram"]["I"] == (6, 12, 0, 0)


def test_no_multicast_serves_every_child() -> None:
    array = Fanout("array", 4, no_multicast=frozenset({"W"}))
    result = price([(DRAM, temporal(("R", 3))), (array, spatial(("P", 4)))])
    assert all_counts(result)["dram"]["W"] == (3, 12, 0, 0)


def test_neighbours_hand_inputs_on() -> None:
    """After the first tap, three of four children find their input next door."""
    nodes = [(DRAM, temporal(("R", 3))), (Fanout("array", 4), spatial(("P", 4)))]
    assert all_counts(price(nodes, links=True))["dram"]["I"] == (6, 6, 0, 0)
    holders = [*nodes, (BUFFER, temporal())]
    assert all_counts(price(holders))["buffer"]["I"] == (1, 3, 3, 0)
    linked = all_counts(price(holders, links=True))
    assert linked["dram"]["I"] == (6, 6, 0, 0)
    # Six words go from child to child: 1.5 per child, read there and filled here instead of from above.
    assert linked["buffer"]["I"] == (1, 5, 3, 0)


def test_no_link_transfer() -> None:
    array = Fanout("array", 4, no_link_transfer=frozenset({"I"}))
    result = price([(DRAM, temporal(("R", 3))), (array, spatial(("P", 4)))], links=True)
    assert all_counts(result)["dram"]["I"] == (6, 12, 0, 0)


def test_no_temporal_reuse_fills_every_step() -> None:
    buffer = replace(BUFFER, no_temporal_reuse=frozenset({"I", "W"}))
    result = price([(DRAM, temporal(("P", 4))), (buffer, temporal(("R", 3)))])
    assert all_counts(result)["buffer"] == {"W": (3, 12, 12, 0), "I": (3, 12, 12, 0), "O": (1, 8, 0, 12)}


def test_rmw_first_update_reads_before_the_first_write() -> None:
    buffer = replace(BUFFER, rmw_first_update=frozenset({"O"}))
    result = price([(DRAM, temporal(("P", 4))), (buffer, temporal(("R", 3)))])
    assert all_counts(result)["buffer"]["O"] == (1, 12, 4, 12)
    assert all_counts(result)["dram"]["O"] == (4, 0, 0, 4)


def test_first_touches_of_holes_leave_nothing_to_read() -> None:
    """An output of stride 2 has tiles with holes, and more words to touch first than accesses."""
    strided = Dataspace("O", ((Term("P", 2),),), read_write=True)
    problem = Problem("strided", ("P",), (4,), (Dataspace("I", ((Term("P"),),)), strided))
    kept = frozenset({"I", "O"})
    mapping = Mapping((StorageMapping((Loop("P", 4),), kept), StorageMapping((), kept)))
    evaluation = evaluate(problem, Architecture("two", (DRAM, BUFFER), Compute("mac")), mapping)
    assert [counts(level.dataspace("O")) for level in evaluation.levels] == [(7, 0, 0, 4), (1, 0, 0, 4)]


def test_no_coalesce_passes_its_stream_on() -> None:
    buffer = replace(BUFFER, no_coalesce=frozenset({"I", "O"}))
    result = price([(DRAM, temporal(("P", 4))), (buffer, temporal(("R", 3)))])
    assert all_counts(result)["buffer"] == {"W": (3, 12, 3, 0), "I": (3, 12, 6, 0), "O": (1, 12, 12, 12)}
    assert all_counts(result)["dram"] == {"W": (3, 3, 0, 0), "I": (6, 12, 0, 0), "O": (4, 8, 0, 12)}


def test_no_coalesce_on_the_outermost_level_bypasses_it() -> None:
    dram = replace(DRAM, no_coalesce=frozenset({"I"}))
    result = price([(dram, temporal(("P", 4))), (BUFFER, temporal(("R", 3)))])
    assert set(all_counts(result)["dram"]) == {"W", "O"}
    assert all_counts(result)["buffer"]["I"] == (3, 12, 0, 0)


def test_energy_pays_whole_vectors_of_every_instance() -> None:
    level = replace(BUFFER, block_size=4, energy=AccessEnergy(read=10, fill=100, update=1000))
    nodes = [(DRAM, temporal(("R", 3))), (Fanout("array", 4), spatial(("P", 4))), (level, temporal())]
    result = price(nodes, compute=Compute("mac", energy=7))
    # Each of four instances reads 3 words and fills 3: one vector each; O: reads 2, updates 3.
    energies = {space.dataspace: space.energy for space in result.level("buffer").dataspaces}
    assert energies == {"W": 4 * 110, "I": 4 * 110, "O": 4 * 1010}
    assert result.compute_energy == 12 * 7
    assert result.energy == 4 * (110 + 110 + 1010) + 84
    assert result.energy_pj == pytest.approx(result.energy / 1000)
    assert result.edp == result.energy * 3
    assert [result.value(name) for name in ("energy", "latency", "edp")] == [
        result.energy,
        result.cycles,
        result.edp,
    ]
    with pytest.raises(KeyError):
        result.value("delay")
    assert result.edp_pj_cycles == pytest.approx(result.energy_pj * 3)


def test_instances_of_a_cluster_share_accesses() -> None:
    level = replace(BUFFER, cluster_size=2, energy=AccessEnergy(read=10))
    nodes: list[tuple[Node, NodeMapping]] = [
        (DRAM, temporal(("R", 3))),
        (Fanout("array", 4), spatial(("P", 4))),
        (level, temporal()),
    ]
    assert price(nodes).level("buffer").dataspace("W").energy == 2 * 3 * 10
    nodes[0], nodes[1] = (DRAM, temporal(("R", 3), ("P", 2))), (Fanout("array", 4), spatial(("P", 2)))
    assert price(nodes).level("buffer").dataspace("W").energy == 2 * 6 * 10


def test_leakage_of_used_and_of_gated_instances() -> None:
    level = replace(BUFFER, energy=AccessEnergy(leak_per_cycle=5))
    outer, inner = Fanout("rows", 2), Fanout("columns", 4)

    def leak(own: StorageLevel) -> int:
        nodes = [
            (DRAM, temporal(("R", 3), ("P", 2))),
            (outer, spatial()),
            (inner, spatial(("P", 2))),
            (own, temporal()),
        ]
        return price(nodes).leak_energy

    assert leak(level) == 5 * 6 * 2
    assert leak(replace(level, gating_fanouts=2)) == 5 * 6 * 2
    assert leak(replace(level, gating_fanouts=1)) == 5 * 6 * 4
    assert leak(replace(level, gating_fanouts=0)) == 5 * 6 * 8


def test_nothing_leaks_while_networks_fill_and_drain() -> None:
    level = replace(BUFFER, energy=AccessEnergy(leak_per_cycle=5), network_fill_latency=7)
    found = price([(DRAM, temporal(("R", 3), ("P", 4))), (level, temporal())])
    assert (found.cycles, found.leak_energy) == (12 + 7, 5 * 12)


@pytest.mark.parametrize(
    ("change", "cycles"),
    [
        ({"read_bandwidth": Fraction(4)}, 12),
        ({"read_bandwidth": Fraction(2)}, 16),
        ({"write_bandwidth": Fraction(1)}, 21),
        ({"shared_bandwidth": Fraction(4)}, 14),
        ({"read_bandwidth": Fraction(2), "bandwidth_scale": (("I", Fraction(1, 2)),)}, 13),
        ({"network_fill_latency": 7, "network_drain_latency": 5}, 24),
    ],
)
def test_cycles(change: dict[str, object], cycles: int) -> None:
    """The buffer reads 12 + 12 + 8 words and writes 3 + 6 + 12 in twelve steps."""
    level = replace(BUFFER, **change)  # type: ignore[arg-type]
    result = price([(DRAM, temporal(("P", 4))), (level, temporal(("R", 3)))])
    assert result.cycles == cycles
    assert result.utilization == 12 / cycles


def test_cycles_of_many_steps_are_no_fewer_than_the_steps() -> None:
    """Rounded to a double, 3 to the 38th is 89 less."""
    problem = Problem("long", ("M",), (3**38,), (Dataspace("Z", ((Term("M"),),), read_write=True),))
    mapping = Mapping((StorageMapping((Loop("M", 3**38),), frozenset("Z")),))
    for bandwidth in (None, Fraction(1)):
        level = replace(DRAM, write_bandwidth=bandwidth)
        result = evaluate(problem, Architecture("one", (level,), Compute("mac")), mapping)
        assert (result.cycles, result.compute_cycles) == (3**38, 3**38)


def test_capacity_limits() -> None:
    nodes = [(DRAM, temporal(("P", 4))), (BUFFER, temporal(("R", 3)))]

    def violations(level: StorageLevel) -> tuple[Violation, ...]:
        return price([nodes[0], (level, nodes[1][1])]).violations

    assert violations(replace(BUFFER, size_words=7)) == ()
    assert violations(replace(BUFFER, size_words=6)) == (Violation("buffer", "capacity", 7, 6),)
    doubled = replace(BUFFER, size_words=13, multiple_buffering=Fraction(2))
    assert violations(doubled) == (Violation("buffer", "capacity", 7, 6),)
    assert violations(replace(BUFFER, size_words=14, min_utilization=Fraction(1, 2))) == ()
    least = replace(BUFFER, size_words=15, min_utilization=Fraction(1, 2))
    assert violations(least) == (Violation("buffer", "min_utilization", 7, 8),)


def test_mesh_limits() -> None:
    array = Fanout("array", 3, 2)
    result = price([(DRAM, temporal(("R", 3))), (array, spatial(("P", 4)))])
    assert result.violations == (Violation("array", "mesh_x", 4, 3),)
    assert not result.valid
    tall = FanoutMapping((SpatialLoop("P", 2, "x"), SpatialLoop("R", 3, "y")))
    result = price([(DRAM, temporal(("P", 2))), (array, tall)])
    assert result.violations == (Violation("array", "mesh_y", 3, 2),)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((temporal(("P", 4), ("R", 3)),), "1 nodes"),
        ((temporal(("P", 4), ("R", 3)), temporal()), "wrong kind"),
        ((temporal(("P", 4)), spatial()), "not the problem's bound"),
        ((temporal(("P", 4), ("R", 3), ("Q", 2)), spatial()), "not a dimension"),
        ((temporal(("P", 4), ("R", 3)), spatial(("P", 0))), "'P' with the bound 0"),
        (
            (temporal(("P", 4), ("R", 3), keep=frozenset({"W", "I"})), spatial()),
            "no level keeps dataspace 'O'",
        ),
        ((temporal(("P", 4), ("R", 3), keep=ALL | {"X"}), spatial()), "unknown dataspaces"),
    ],
)
def test_mappings_that_do_not_belong_are_refused(nodes: tuple[NodeMapping, ...], message: str) -> None:
    architecture = Architecture("small", (DRAM, Fanout("array", 2)), Compute("mac"))
    with pytest.raises(ValueError, match=message):
        evaluate(CONV1D, architecture, Mapping(nodes))
