"""Sweeps: each point is its own network's optimum, shared searches run once, the front, remarks."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.formats.cascade import load_network
from model.formats.cascade.loader import LoadedVariant, load_variants
from model.formats.timeloop.overrides import parse_setting
from solver.network import Processes, ResultCache, Run, Serial, map_network
from solver.network.sweep import SweepResult, area_mm2, energy_remarks, sweep, undominated_places
from solver.result import Options, Status
from tests.small_network import ARCHITECTURE, WORKLOAD
from tests.solver.network.counting import Counting

ENERGY = Options(objectives=("energy",))
ESTIMATED = ARCHITECTURE.replace("    energy: {read: 6, write: 5, update: 7, leak: 0}\n", "").replace(
    "depth: 12", "depth: 12, technology: 45nm"
)


def variants(spec: list[Path], *settings: str) -> tuple[LoadedVariant, ...]:
    return load_variants(spec, settings=[parse_setting(text) for text in settings])


def outcome(result: SweepResult) -> list[object]:
    return [
        [(own.result.value, own.result.mapping) for own in point.result.layers if own.result is not None]
        for point in result.points
    ]


def test_each_point_is_what_its_files_alone_give(spec: list[Path]):
    result = sweep(variants(spec, "buffer.depth=6,12", "PE.meshX=2,4"), ENERGY)
    assert result.status is Status.OPTIMAL
    for point in result.points:
        depth, mesh = (value for _, value in point.variant.settings)
        text = ARCHITECTURE.replace("depth: 12", f"depth: {depth}").replace("meshX: 4", f"meshX: {mesh}")
        Path("own.yaml").write_text(text, encoding="utf-8")
        own = map_network(load_network(["w.yaml", "own.yaml"]), ENERGY)
        assert point.costs == (own.energy_units / own.units_per_pj, own.cycles)


def test_searches_that_points_share_run_once(spec: list[Path]):
    search = Counting()
    Path("v.yaml").write_text(WORKLOAD.replace("L: 2", "L: 1"), encoding="utf-8")
    own = load_variants([spec[1]], ["w.yaml", "v.yaml"], settings=[parse_setting("buffer.depth=6,12")])
    result = sweep(own, ENERGY, Run(executor=Serial(search)))
    assert search.calls == 6  # two depths, by T (also Y) of both, Z of each
    assert result.searched == 6
    later = result.points[2].result.layers
    assert [(layer.origin, layer.same_as) for layer in later] == [
        ("copy", ""),
        ("identical", "T of w"),
        ("searched", ""),
        ("identical", "T of w"),
    ]
    assert [layer.result.value for layer in later[1::2]] == [
        result.points[0].result.layers[1].result.value
    ] * 2


def test_processes_find_what_one_process_finds(spec: list[Path]):
    own = variants(spec, "buffer.depth=6,12")
    assert outcome(sweep(own, ENERGY, Run(executor=Processes(2)))) == outcome(sweep(own, ENERGY))


def test_a_stopped_sweep_continues(spec: list[Path], tmp_path: Path):
    own, cache, search = variants(spec, "buffer.depth=6,12"), ResultCache(tmp_path / "cache"), Counting()
    stopped = sweep(own, ENERGY, Run(cache, executor=Serial(search), should_stop=lambda: search.calls >= 3))
    assert stopped.status is Status.UNKNOWN
    assert [point.costs is None for point in stopped.points] == [False, True]
    assert stopped.front == {0}
    again = Counting()
    whole = sweep(own, ENERGY, Run(cache, resume=True, executor=Serial(again)))
    assert again.calls == 2  # the third was interrupted, the fourth had not begun
    assert outcome(whole) == outcome(sweep(own, ENERGY))


def test_no_point_of_the_front_is_beaten_and_all_others_are(spec: list[Path]):
    result = sweep(variants(spec, "buffer.depth=4,12", "PE.meshX=1,2,4", "DRAM.shared_bandwidth=1,4"))
    costs = [point.costs for point in result.points]
    beaten = [
        any(a <= energy and b <= cycles and (a, b) != (energy, cycles) for a, b in costs)
        for energy, cycles in costs
    ]
    assert result.front == {place for place, is_beaten in enumerate(beaten) if not is_beaten}
    assert 0 < len(result.front) < len(costs)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_front_against_its_definition(costs: list[tuple[int, int]]):
    points = [(own, place) for place, own in enumerate(costs)]
    expected = {
        place
        for (energy, cycles), place in points
        if not any(a <= energy and b <= cycles and (a, b) != (energy, cycles) for a, b in costs)
    }
    assert set(undominated_places(points)) == expected


def test_a_point_without_mapping_is_an_answer_too(spec: list[Path]):
    tight = ARCHITECTURE.replace("keep: [input], bypass: [weight]", "keep: [All]").replace(
        "width: 16", "width: 8"
    )
    spec[1].write_text(tight, encoding="utf-8")
    result = sweep(variants(spec, "buffer.depth=1,12"), ENERGY)
    assert [point.result.status for point in result.points] == [Status.INFEASIBLE, Status.OPTIMAL]
    assert result.status is Status.OPTIMAL
    assert result.front == {1}
    assert sweep(variants(spec, "buffer.depth=1"), ENERGY).status is Status.INFEASIBLE


def test_a_mesh_of_one_that_is_asked_for_more_is_a_point_without_a_mapping(spec: list[Path]):
    asked = "constraints: {spatial: {factors: [m=2]}}"
    text = ARCHITECTURE.replace("spatial: {meshX: 4}", f"spatial: {{meshX: 4}}\n    {asked}")
    spec[1].write_text(text, encoding="utf-8")
    one, two = sweep(variants(spec, "PE.meshX=1,2"), ENERGY).points
    assert (one.result.status, two.result.status) == (Status.INFEASIBLE, Status.OPTIMAL)
    reason = next(own.result.reasons[0] for own in one.result.layers if own.result and own.result.reasons)
    assert "needs at least 2 children" in reason.text


@pytest.mark.parametrize(
    ("architecture", "setting", "remark"),
    [
        (
            ESTIMATED,
            "buffer.depth=12,64",
            "the energies of buffer (read, fill, update, leak) are estimated for each value",
        ),
        (ARCHITECTURE, "buffer.depth=12,64", "the energies of buffer (read, fill, update, leak) are given"),
        (ESTIMATED, "DRAM.shared_bandwidth=1,2", "the energies of DRAM (read, fill, update, leak) are given"),
        (ESTIMATED, "buffer.read_bandwidth=1,4", "no energy per access depends on it"),
        (
            ARCHITECTURE.replace("class: intmac", "class: intmac\n    attributes: {width: 8}"),
            "mac.width=8,9",
            "",
        ),
    ],
)
def test_remarks_on_energies(spec: list[Path], architecture: str, setting: str, remark: str):
    spec[1].write_text(architecture, encoding="utf-8")
    (text,) = energy_remarks(variants(spec, setting))
    name = setting.partition("=")[0]
    assert text.startswith(f"{name}: " if remark else f"{name} has no effect")
    assert remark in text


def test_energies_of_a_table_are_given_however_its_file_is_named(spec: list[Path]):
    actions = ", ".join(f"{{name: {name}, energy: 5}}" for name in ("read", "write", "leak"))
    table = f"ERT: {{version: '0.4', tables: [{{name: buffer, actions: [{actions}]}}]}}\n"
    Path("estimator.yaml").write_text(table, encoding="utf-8")
    spec[1].write_text(ESTIMATED, encoding="utf-8")
    (text,) = energy_remarks(variants([*spec, Path("estimator.yaml")], "buffer.depth=12,64"))
    assert "the energies of buffer (read, fill, update, leak) are given" in text


def test_one_value_and_fanouts_need_no_remark(spec: list[Path]):
    assert energy_remarks(variants(spec, "buffer.depth=12")) == ()
    assert energy_remarks(variants(spec, "PE.meshX=2,4")) == ()
    assert energy_remarks(variants(spec)) == ()
    assert energy_remarks(()) == ()


def test_areas_count_all_instances(spec: list[Path]):
    areas = ESTIMATED.replace("class: intmac", "class: intmac\n    area: 100").replace(
        "class: DRAM", "class: DRAM\n    area: 0"
    )
    spec[1].write_text(areas, encoding="utf-8")
    one, four = sweep(variants(spec, "PE.meshX=1,4"), ENERGY).points
    assert four.area_mm2 - one.area_mm2 == pytest.approx(3 * 100 / 1e6)
    spec[1].write_text(ARCHITECTURE, encoding="utf-8")
    assert area_mm2(load_network(spec).layers[1].mapspace.architecture) is None
