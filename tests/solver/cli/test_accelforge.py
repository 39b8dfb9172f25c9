"""Workloads and architectures of AccelForge on the command line."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_INVALID
from tests.conftest import REPOSITORY
from tests.model.formats.accelforge.arches import ARCH, WORKLOAD

pytestmark = pytest.mark.usefixtures("working_directory")

ARRAY = "specs/architectures/output_stationary.yaml"
FUSED = ARCH.replace("{keep: All}", "{keep: ~Intermediates, may_keep: All}")


@pytest.fixture(autouse=True)
def specs(working_directory: Path) -> None:
    Path("w.yaml").write_text(WORKLOAD, encoding="utf-8")
    Path("a.yaml").write_text(ARCH, encoding="utf-8")
    Path("f.yaml").write_text(FUSED, encoding="utf-8")


def document(*words: str) -> dict:
    assert main([*words, "--quiet", "--json", "out.json"]) == 0
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_map_and_evaluate_one_einsum(capsys: pytest.CaptureFixture[str]):
    found = document("map", "--einsum", "T", "w.yaml", "a.yaml", "--mapping", "m.yaml", "--counting", "exact")
    assert found["status"] == "OPTIMAL"
    assert found["counting"] == "exact"
    assert found["energy_j"] == pytest.approx(found["energy_pj"] / 1e12)
    assert found["latency_s"] == pytest.approx(found["cycles"] / 1e9)
    assert found["edp_j_s"] == pytest.approx(found["energy_j"] * found["latency_s"])
    again = ["evaluate", "--einsum", "T", "w.yaml", "a.yaml", "--mapping", "m.yaml"]
    assert document(*again, "--counting", "exact")["energy_pj"] == found["energy_pj"]
    priced = document(*again)
    assert priced["counting"] == "accelforge"
    assert priced["energy_pj"] > found["energy_pj"]
    assert "an execution of this mapping takes" in " ".join(priced["notes"])
    assert main(again) == 0
    assert "AccelForge's rule" in capsys.readouterr().out


def test_words_are_counted_as_accelforge_does_by_default(capsys: pytest.CaptureFixture[str]):
    one = ["--einsum", "T", "w.yaml", "a.yaml"]
    found = document("map", *one, "--mapping", "m.yaml")
    explicit = document("map", *one, "--counting", "accelforge", "--uneven")
    assert found["counting"] == explicit["counting"] == "accelforge"
    assert found["edp_j_s"] == explicit["edp_j_s"]
    assert found["edp_j_s"] <= document("map", *one, "--no-uneven")["edp_j_s"]
    # A mapping whose memories have several places is priced by any rule, and names them.
    for rule in ("accelforge", "exact"):
        assert document("evaluate", *one, "--mapping", "m.yaml", "--counting", rule)["counting"] == rule
    for words in (["network"], ["sweep", "--set-attribute", "Buffer.size=512"]):
        document(*words, "w.yaml", "a.yaml", "--no-cache")
    assert main(["explain", *one]) == 0
    assert "`Buffer` keeps W" in capsys.readouterr().out


def test_what_does_not_know_accelforges_rule_says_so(capsys: pytest.CaptureFixture[str]):
    one = ["map", "--einsum", "T", "w.yaml", "a.yaml"]
    for words, message in (
        (["--engine", "cp-sat"], "not by the rule 'accelforge'"),
        (["--factors", "any"], "the rule `accelforge` does not support remainders"),
    ):
        assert main([*one, *words]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["compare", "w.yaml", "a.yaml", "--counting", "accelforge"])
    assert ended.value.code == 2
    assert main(["compare", "w.yaml", "a.yaml"]) == 2
    assert "for map, prove, compare, evaluate, check and explain" in capsys.readouterr().err
    compared = ["compare", "--einsum", "T", "w.yaml", "a.yaml"]
    assert main(compared) == 2
    assert "mappers do not support the counting rule accelforge" in capsys.readouterr().err
    assert main([*compared, "--counting", "exact", "--mappers", "greedy", "--evaluations", "20"]) == 0


def test_results_have_certificates(capsys: pytest.CaptureFixture[str]):
    one = ["map", "--einsum", "T", "w.yaml", "a.yaml", "--objective", "energy"]
    assert document(*one, "--certificate", "c.json", "--check") is not None
    certificate = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert certificate["problem"]["counting"] == "accelforge"


def test_network_and_sweep():
    found = document("network", "w.yaml", "a.yaml", "--no-cache")
    assert found["proven"] == 2
    assert found["latency_s"] == pytest.approx(found["cycles"] / 1e9)
    swept = document("sweep", "w.yaml", "a.yaml", "--no-cache", "--set-attribute", "Buffer.size=256,512")
    assert [point["status"] for point in swept["points"]] == ["OPTIMAL"] * 2
    assert [point["latency_s"] * 1e9 for point in swept["points"]] == pytest.approx(
        [point["cycles"] for point in swept["points"]]
    )


@pytest.mark.parametrize(
    "words",
    [
        ["map", "--einsum", "T"],
        ["explain", "--einsum", "T"],
        ["sweep", "--no-cache"],
    ],
)
def test_fusion_is_not_searched(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([*words, "w.yaml", "f.yaml"]) == 2
    errors = capsys.readouterr().err
    assert "whether `Main` keeps `T`, and so whether Einsums are fused, is left open" in errors
    assert " --> f.yaml:8:21" in errors
    assert "help: --no-fuse keeps every tensor there" in errors
    if words[0] != "explain":
        assert main([*words, "w.yaml", "f.yaml", "--no-fuse", "--quiet"]) == 0


def test_networks_are_fused_where_that_is_left_open(capsys: pytest.CaptureFixture[str]):
    network = ["network", "w.yaml", "f.yaml"]
    assert main([*network, "--cache", "kept"]) == 2
    assert "is left open" in capsys.readouterr().err
    assert main([*network, "--objective", "latency", "--quiet", "--json", "o.json"]) in (0, 3)
    assert json.loads(Path("o.json").read_text(encoding="utf-8"))["kind"] == "network-fused"


def test_check_shows_what_is_not_searched(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "--einsum", "T", "w.yaml", "f.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "Array.X" in printed
    assert "note: whether `Main` keeps `T`" in printed


def test_explain_points_at_the_architecture(capsys: pytest.CaptureFixture[str]):
    Path("a.yaml").write_text(
        ARCH.replace("64 * 8", "8").replace("keep: weight", "keep: All"), encoding="utf-8"
    )
    assert main(["explain", "--einsum", "T", "w.yaml", "a.yaml"]) == EXIT_INFEASIBLE
    assert "a.yaml:15" in capsys.readouterr().out


def test_a_workload_needs_an_einsum_or_the_network(capsys: pytest.CaptureFixture[str]):
    assert main(["map", "w.yaml", "a.yaml"]) == 2
    assert "`--einsum NAME` chooses one of their Einsums" in capsys.readouterr().err
    assert main(["map", "--einsum", "S", "w.yaml", "a.yaml"]) == 2
    assert "there is no Einsum `S`" in capsys.readouterr().err


def test_an_einsum_on_an_architecture_of_timeloop(capsys: pytest.CaptureFixture[str]):
    found = document("map", "--einsum", "T", "w.yaml", ARRAY, "--mapping", "m.yaml")
    assert (found["status"], found["factors"]) == ("OPTIMAL", "any")
    assert found["latency_s"] == pytest.approx(2e-9 * found["cycles"])
    assert main(["evaluate", "--einsum", "T", "w.yaml", ARRAY, "--mapping", "m.yaml"]) == 2
    assert "read for an `arch` of AccelForge only" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("check", "a.yaml"), ("evaluate", "a.yaml", "--mapping", "m.yaml")])
def test_remainders_on_an_arch_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """Unless they are asked for, factors are perfect there, and a note says so."""
    found = document("map", "--einsum", "T", "w.yaml", "a.yaml", "--mapping", "m.yaml")
    assert found["factors"] == "perfect"
    assert (
        "factors are divisors only: remainders are not modelled on AccelForge architectures" in found["notes"]
    )
    assert main([*words, "w.yaml", "--einsum", "T", "--factors", "any"]) == 2
    assert "remainders are not modelled on AccelForge architectures" in capsys.readouterr().err


def test_sparse_features_beside_an_einsum_are_refused(capsys: pytest.CaptureFixture[str]):
    dense = (REPOSITORY / ARRAY).read_text(encoding="utf-8")
    gating = "      sparse_optimizations: {compute_optimization: [{type: gating}]}\n"
    Path("s.yaml").write_text(dense + gating, encoding="utf-8")
    assert main(["map", "--einsum", "T", "w.yaml", "s.yaml"]) == 2
    assert "does not support sparse data" in capsys.readouterr().err
    assert main(["check", "--einsum", "T", "w.yaml", "s.yaml", "--ignore-sparse"]) == 0


def test_link_transfers_are_not_accelforges(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(
            ["evaluate", "--einsum", "T", "w.yaml", "a.yaml", "--link-transfers", "--counting", "accelforge"]
        )
    assert ended.value.code == 2
    assert "cannot be combined with --counting accelforge" in capsys.readouterr().err


def test_a_table_of_costs(capsys: pytest.CaptureFixture[str]):
    lacking = ARCH.replace("    leak_power: 1e-3\n", "")
    Path("a.yaml").write_text(lacking, encoding="utf-8")
    assert main(["map", "--einsum", "T", "w.yaml", "a.yaml"]) == 2
    assert "`leak_power` of `Buffer` is missing" in capsys.readouterr().err
    Path("c.yaml").write_text("Buffer: {leak_power_w: 1e-3, actions: {}}\n", encoding="utf-8")
    assert document("map", "--einsum", "T", "w.yaml", "a.yaml", "--costs", "c.yaml")["status"] == "OPTIMAL"


def test_nothing_is_written_in_timeloops_form(capsys: pytest.CaptureFixture[str]):
    assert main(["map", "--einsum", "T", "w.yaml", "a.yaml", "--mapped-spec", "s.yaml"]) == 2
    assert "--mapped-spec writes Timeloop specs" in capsys.readouterr().err


def test_a_mapping_for_accelforge_is_priced_the_same(capsys: pytest.CaptureFixture[str]):
    found = document("map", "--einsum", "T", "w.yaml", "a.yaml", "--accelforge-mapping", "t.yaml")
    assert "!Compute {einsum: T, component: MAC}" in Path("t.yaml").read_text(encoding="utf-8")
    priced = document("evaluate", "--einsum", "T", "w.yaml", "a.yaml", "t.yaml")
    assert (priced["energy_j"], priced["latency_s"]) == (found["energy_j"], found["latency_s"])
    capsys.readouterr()


def test_a_fused_mapping_for_accelforge_is_priced_the_same(capsys: pytest.CaptureFixture[str]):
    Path("a.yaml").write_text(
        FUSED.replace("  - !Container\n    name: Array\n    spatial: [{name: X, fanout: 4}]\n", ""),
        encoding="utf-8",
    )
    found = document(
        "network", "w.yaml", "a.yaml", "--fuse", "--objective", "energy", "--accelforge-mapping", "t.yaml"
    )
    assert "!Sequential" in Path("t.yaml").read_text(encoding="utf-8")
    priced = document("evaluate", "w.yaml", "a.yaml", "t.yaml")
    assert (priced["energy_j"], priced["latency_s"]) == (found["energy_j"], found["latency_s"])
    assert document("evaluate", "w.yaml", "a.yaml", "--mapping", "t.yaml")["energy_j"] == priced["energy_j"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["map", "--einsum", "T", "w.yaml", ARRAY], "needs an `arch` of AccelForge"),
        (["map", "--einsum", "T", "w.yaml", "a.yaml", "--pareto"], "--pareto finds a front"),
        (["network", "w.yaml", "a.yaml"], "--accelforge-mapping needs --fuse"),
    ],
)
def test_mappings_for_accelforge_are_of_its_architectures(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert main([*words, "--accelforge-mapping", "t.yaml"]) == EXIT_INVALID
    assert message in capsys.readouterr().err


def test_what_is_wrong_with_a_mapping_of_accelforge_is_shown(capsys: pytest.CaptureFixture[str]):
    Path("t.yaml").write_text("mapping:\n  nodes:\n  - !Pipeline\n    nodes: []\n", encoding="utf-8")
    assert main(["evaluate", "w.yaml", "a.yaml", "t.yaml"]) == EXIT_INVALID
    err = capsys.readouterr().err
    assert "`!Pipeline` is not modelled" in err
    assert "t.yaml:3" in err
