"""One import for notebooks: specs in any form, and results that show themselves."""

import json
import runpy

import pytest
import yaml

from model.cascade import Network
from model.text.source import SpecError
from solver import (
    FusionLimits,
    Options,
    Status,
    load,
    map_einsum,
    map_fused,
    map_network,
    traffic_curve,
)
from tests.conftest import REPOSITORY
from tests.mapspaces import matmul
from tests.solver.examples import ARCHITECTURE

GEMM = "Z[m,n] = A[m,k] * B[k,n]"


def test_an_einsum_as_text():
    mapspace = load(GEMM, m=6, n=4, k=8, arch="eyeriss_like")
    assert {dim: bound for dim, bound in mapspace.problem.bound.items() if bound > 1} == {
        "m": 6,
        "n": 4,
        "k": 8,
    }
    assert [space.name for space in mapspace.problem.dataspaces] == ["A", "B", "Z"]
    kept = {
        level.name: rule.keep for level, rule in zip(mapspace.architecture.levels, mapspace.keep, strict=True)
    }
    assert kept["weight_spad"] == {"B"} and kept["input_spad"] == {"A"} and kept["psum_spad"] == {"Z"}


@pytest.mark.parametrize(
    ("text", "bounds", "message"),
    [
        (GEMM, {"m": 6, "n": 4}, "the size of `k` is not given"),
        (GEMM, {"m": 6, "n": 4, "k": 2, "q": 3}, "the Einsum has no index `q`"),
        (GEMM, {"m": 6, "n": 4, "k": 0}, "must be a positive integer, but is 0"),
        (GEMM, {"m": 6, "n": 4, "k": 2.5}, "but is 2.5"),
        ("specs/problems/gemm.yaml", {"m": 4}, "no Einsum is given as text"),
        ("Z[m] = A[m] * {{ 7 }}", {}, "there is no file"),
        ("Z[m,n] = A[m,k] * B[k,n", {"m": 2, "n": 2, "k": 2}, "`Z`"),
    ],
)
def test_wrong_einsums_are_refused(text, bounds, message):
    with pytest.raises(SpecError, match=message):
        load(text, **bounds, arch="eyeriss_like")


def test_an_architecture_that_does_not_ship():
    with pytest.raises(SpecError, match="known are eyeriss_like"):
        load(GEMM, m=1, n=1, k=1, arch="eyeris_like")


def test_paths_dictionaries_and_classes(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    layer = load("specs/layers/resnet18/21_fc.yaml", arch="eyeriss_like")
    assert (layer.architecture.name, layer.factors) == ("eyeriss_like", "any")
    with pytest.raises(SpecError, match="unknown top-level key `zzqx`"):
        load({"zzqx": 1}, arch="eyeriss_like")
    free = load(matmul(2, 3, 4), arch=ARCHITECTURE)
    assert free.keep[0].keep == {"A", "B", "Z"} and free.keep[1].keep == frozenset()
    for arch in (None, "eyeriss_like"):
        with pytest.raises(SpecError, match="needs an `Architecture`"):
            load(matmul(2, 3, 4), arch=arch)
    assert isinstance(load("specs/workloads/three_matmuls.yaml", arch="simba_like"), Network)
    one = load("specs/workloads/three_matmuls.yaml", arch="simba_like", einsum="Matmul2")
    assert [space.name for space in one.problem.dataspaces] == ["T1", "W1", "T2"]


def test_a_result_shows_itself(tmp_path):
    result = map_einsum(
        load(matmul(2, 6, 4), arch=ARCHITECTURE, factors="perfect"), Options(objectives=("energy",))
    )
    assert result.status is Status.OPTIMAL
    fragment = result._repr_html_()
    assert fragment.startswith('<div class="tilewright">') and "<script" not in fragment
    result.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads(json.dumps(result.document()))["energy_pj"] == result.evaluation.energy_pj


def test_results_as_frames():
    pytest.importorskip("pandas")
    result = map_einsum(load(matmul(2, 6, 4), arch=ARCHITECTURE, factors="perfect"))
    frame = result.to_frame()
    level = result.evaluation.level("DRAM")
    (reads,) = frame[(frame.level == "DRAM") & (frame.dataspace == "A")].reads
    assert reads == level.dataspace("A").reads
    network = map_network(load("specs/workloads/three_matmuls.yaml", arch="simba_like", factors="perfect"))
    assert list(network.to_frame().cycles) == [layer.cycles for layer in network.layers]
    assert "Matmul1" in network._repr_html_()


def test_frames_need_pandas(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        map_einsum(load(matmul(1, 1, 1), arch=ARCHITECTURE, factors="perfect")).to_frame()


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(path, working_directory, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_fused_results_show_themselves(tmp_path):
    case = load("specs/workloads/three_matmuls.yaml", arch="tpu_like", fuse=True, factors="perfect")
    result = map_fused(case)
    assert result.status is Status.OPTIMAL and "fusion saves" in result._repr_html_()
    result.report(tmp_path / "fused.html")
    assert "<figure>" in (tmp_path / "fused.html").read_text()
    document = result.document()
    assert document["kind"] == "network-fused"
    stages = [own["stage"] for own in document["statistics"]["stages"]]
    assert stages == ["each Einsum alone", "divisors"]
    assert map_fused(case.cascade, "latency").objective == "latency"
    several = load("specs/workloads/three_matmuls.yaml", arch="tpu_like", fuse=True, uneven=True)
    assert all("unified_buffer" in einsum.memories_with_places for einsum in several.cascade.einsums)
    with pytest.raises(ValueError, match="there is no memory 'cache'"):
        map_fused(several, limits=FusionLimits(memories=frozenset(("cache",))))


def test_sparse_data(tmp_path):
    pytest.importorskip("pandas")
    mapspace = load("specs/sparse/dot_product.yaml", "specs/sparse/problems/dot_product.yaml")
    result = map_einsum(mapspace, Options(("energy",)))
    assert (mapspace.factors, result.status, result.document()["kind"]) == (
        "perfect",
        Status.OPTIMAL,
        "map-sparse",
    )
    assert "hypergeometric" in result._repr_html_()
    frame = result.to_frame()
    assert frame["saved_reads"].sum() > 0 and set(frame["dataspace"]) == {"A", "B", "Z", "(compute)"}
    result.report(tmp_path / "report.html")
    dense = load("specs/sparse/gemm_array.yaml", "specs/sparse/problems/gemm.yaml")
    assert dense.sparsity is None


def test_sparse_data_have_remainders_if_they_are_asked_for():
    text = (REPOSITORY / "specs/sparse/problems/dot_product.yaml").read_text(encoding="utf-8")
    short = yaml.safe_load(text.replace("1024", "60"))
    mapspace = load("specs/sparse/dot_product.yaml", short, factors="any")
    result = map_einsum(mapspace, Options(("energy",)))
    assert mapspace.factors == "any"
    assert result.perfect_factors is not None
    assert result.value <= result.perfect_factors.value


FILES = ("specs/architectures/eyeriss_like.yaml", "specs/layers/resnet18/21_fc.yaml")
MATMULS = ("specs/workloads/three_matmuls.yaml", "specs/architectures/tpu_like.yaml")


def test_paths_where_loaded_specs_are_expected(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    quick = Options("latency", time_limit_s=0.0)
    assert map_einsum(FILES, quick).mapspace == load(*FILES)
    one = tmp_path / "both.yaml"
    one.write_text("".join((REPOSITORY / path).read_text() for path in FILES), encoding="utf-8")
    assert map_einsum("both.yaml", quick).mapspace.problem == load(*FILES).problem
    assert len(map_network(MATMULS, quick).network.layers) == 3
    assert len(map_fused(MATMULS, options=quick).cascade.einsums) == 3
    with pytest.raises(SpecError, match="there is no file"):
        map_einsum("absent.yaml")


@pytest.mark.parametrize(
    ("searched", "thing", "message"),
    [
        (map_einsum, MATMULS, "needs one Einsum, and this is a network\nhelp: `map_network` maps"),
        (map_network, FILES, "map_network does not take Mapspace: use map_einsum"),
        (map_network, load(*MATMULS, fuse=True), "does not take FusedCase: use map_fused"),
        (map_fused, load(*FILES), "does not take Mapspace: use map_einsum"),
        (map_einsum, 5, "takes what `load` returns, or a path, and no int"),
    ],
)
def test_what_a_search_does_not_take(searched, thing, message):
    with pytest.raises(SpecError, match=message):
        searched(thing)


def test_objectives_as_one_text():
    assert Options(objectives="energy") == Options(objectives=("energy",))
    assert Options(objectives="latency, energy").objectives == ("latency", "energy")
    assert Options(objectives=["edp"]).objectives == ("edp",)
    with pytest.raises(ValueError, match="unknown objective 'e'"):
        Options(objectives="e")


def test_all_searches_minimise_the_same_by_default():
    case = load(*MATMULS, fuse=True, factors="perfect")
    none = Options(time_limit_s=0.0)
    assert map_fused(case, options=none).objective == map_einsum(FILES, none).objective == "edp"
    assert map_fused(case, options=Options("latency", 0.0)).objective == "latency"
    with pytest.raises(ValueError, match="one objective, not energy, latency"):
        map_fused(case, options=Options("energy,latency"))
    with pytest.raises(ValueError, match="given twice"):
        map_fused(case, "energy", Options("energy"))


@pytest.mark.parametrize(
    "specs",
    [
        (GEMM, "output_stationary"),
        ("specs/sparse/dot_product.yaml", "specs/sparse/problems/dot_product.yaml"),
        ("specs/layers/resnet18/21_fc.yaml", "specs/architectures/simba_like.yaml"),
    ],
    ids=["leaking", "sparse", "dense"],
)
def test_frames_add_up_to_the_total(specs):
    pytest.importorskip("pandas")
    sizes = {"arch": specs[1], "m": 16, "n": 32, "k": 8} if specs[0] == GEMM else {}
    result = map_einsum(load(*(specs[:1] if sizes else specs), **sizes, factors="perfect"), Options("energy"))
    frame = result.to_frame()
    assert frame["energy_pj"].sum() == pytest.approx(result.document()["energy_pj"], rel=1e-12)
    assert "(compute)" in set(frame["dataspace"])
    assert ("(leakage)" in set(frame["dataspace"])) == (result.document()["leak_energy_pj"] > 0)
    assert not frame.isna().any().any()


def test_names_of_energies_say_their_units():
    network = map_network(load(*MATMULS, factors="perfect"))
    assert network.energy_pj == pytest.approx(network.energy_j * 1e12)
    assert network.energy_pj == network.document()["energy_pj"] == network.energy_units / network.units_per_pj
    assert sum(layer.energy_pj for layer in network.layers) == pytest.approx(network.energy_pj)
    assert not hasattr(network, "energy") and not hasattr(network.layers[0], "energy")
    fused = map_fused(load(*MATMULS, fuse=True, factors="perfect"))
    assert (fused.reported_value, fused.reported_bound) == (
        fused.document()["value"],
        fused.document()["bound"],
    )


@pytest.mark.parametrize(
    "thing",
    [
        load(*FILES),
        load(*MATMULS),
        load("specs/workloads/resnet18.yaml", arch="eyeriss_like"),
        load(*MATMULS, fuse=True),
        load(GEMM, m=6, n=4, k=8, arch="eyeriss_like"),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_loaded_fits_ten_lines(thing):
    lines = repr(thing).splitlines()
    assert len(lines) <= 10 and max(map(len, lines)) <= 120


def test_results_fit_one_line():
    quick = Options("latency", time_limit_s=0.0)
    shown = [
        repr(map_einsum(load(matmul(2, 6, 4), arch=ARCHITECTURE, factors="perfect"), Options("latency"))),
        repr(map_network(MATMULS, quick)),
        repr(map_fused(MATMULS, options=quick)),
    ]
    assert all(len(text.splitlines()) == 1 and len(text) < 120 for text in shown)
    assert shown[0].startswith("EinsumResult(OPTIMAL, latency ")


def test_errors_keep_their_hints():
    with pytest.raises(SpecError) as raised:
        load(GEMM, m=6, n=4, arch="eyeriss_like")
    assert str(raised.value) == "the size of `k` is not given\nhelp: give it as load(..., k=64)"


def test_a_curve_of_least_traffic():
    names = []
    curve = traffic_curve("Z[m,n] = A[m,k] * B[k,n]", bits={"Z": 32}, on_layer=names.append, m=9, n=8, k=7)
    assert names == ["Z"]
    assert curve.status is Status.OPTIMAL
    least = 9 * 7 + 7 * 8 + 4 * 9 * 8
    (whole,) = [own.capacity_bits for own in curve.curve.steps() if own.traffic_bits == 8 * least]
    assert (
        str(curve)
        == f"TrafficCurve(OPTIMAL, at least {least} bytes, reached with a buffer of {whole // 8} bytes)"
    )
    assert curve.traffic_bytes(whole // 8) == least < curve.traffic_bytes(whole // 8 - 1)
    assert curve.buffer_bytes(least) == whole / 8
    assert curve.buffer_bytes(least - 1) is None
    assert "<svg" in curve._repr_html_()
    assert curve.document()["kind"] == "bound"


def test_a_curve_of_a_problem_or_a_file():
    problem = load("Z[m,n] = A[m,k] * B[k,n]", m=9, n=8, k=7, arch="eyeriss_like").problem
    text = traffic_curve("Z[m,n] = A[m,k] * B[k,n]", m=9, n=8, k=7)
    assert list(traffic_curve(problem).curve.steps()) == list(text.curve.steps())
    curve = traffic_curve(MATMULS[0], time_limit_s=0.0)
    assert str(curve) == "TrafficCurve(UNKNOWN, 3 of 3 layers missing)"
    with pytest.raises(SpecError, match="no Einsum is given as text"):
        traffic_curve(MATMULS[0], m=4)
    with pytest.raises(SpecError, match="traffic_curve"):
        traffic_curve("Z[m,n] = A[m,k] * B[k,n]", m=9, n=8)


def test_a_table_of_a_curve():
    pytest.importorskip("pandas")
    curve = traffic_curve("Z[m,n] = A[m,k] * B[k,n]", m=9, n=8, k=7)
    frame = curve.to_frame()
    assert len(frame) == len(list(curve.curve.steps()))
    assert frame["traffic_bytes"].iloc[-1] == 9 * 8 + 8 * 7 + 9 * 7
    assert frame["macs_per_byte"].iloc[-1] == 9 * 8 * 7 / (9 * 8 + 8 * 7 + 9 * 7)
