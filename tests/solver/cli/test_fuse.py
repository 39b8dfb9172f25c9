"""``network --fuse``."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.exit_codes import EXIT_FEASIBLE, EXIT_INVALID, EXIT_OPTIMAL, EXIT_UNKNOWN, EXIT_UNPROVEN

DATA = Path(__file__).parents[2] / "model" / "fused" / "data"
SMALL = [str(DATA / "products.workload.yaml"), str(DATA / "arch.yaml")]


def test_the_mapping_reads_and_costs_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mapping, found, priced = tmp_path / "fused.yaml", tmp_path / "found.json", tmp_path / "priced.json"
    options = ["--fuse", "--objective", "energy", "--max-fused-loops-per-rank", "1", "--factors", "perfect"]
    code = main(["network", *SMALL, *options, "--fused-mapping", str(mapping), "--json", str(found)])
    assert code == EXIT_OPTIMAL
    out = capsys.readouterr().out
    assert "OPTIMAL energy" in out
    assert "fusion saves" in out
    assert "Restrictions: at most 1 shared loops over one rank of an Einsum; loops have no remainders" in out
    assert " mapped exactly, " in out
    assert out.count("T1 stays in GLB") == 1
    assert "Stored on chip" in out
    assert "group " in out
    assert main(["evaluate", *SMALL, "--mapping", str(mapping), "--json", str(priced), "--quiet"]) == 0
    result, cost = json.loads(found.read_text()), json.loads(priced.read_text())
    assert result["kind"] == "network-fused"
    assert result["value"] == result["bound"] == cost["energy_pj"]
    assert result["value"] < result["unfused_value"]
    assert result["tree"] == cost["tree"]
    assert result["mapping"] == mapping.read_text()


@pytest.mark.parametrize(
    "options, message",
    [
        (
            ["--no-fuse", "T1", "Nothing"],
            "--no-fuse: no Einsum accesses 'Nothing'; tensors between Einsums: `T1`",
        ),
        (["--no-fuse"], "--no-fuse without tensor names"),
        (["--fuse-into", "Main"], "--fuse-into: 'Main' is the outermost memory"),
        (["--fuse-into", "GLB,Cache"], "there is no memory 'Cache'; on chip there are `GLB`"),
        (["--certificates", "certificates"], "--fuse: --certificate OUT writes that of the fused mapping"),
        (["--shared-factors", "any", "--factors", "perfect"], "--shared-factors any: remainders of shared"),
        (["--resume"], "results of fused searches are not cached"),
        (["--check-time-limit", "1"], "it needs --check"),
        (["--certificate", "-", "--check"], "--certificate must name a file"),
        (["--objective", "energy,latency"], "--fuse minimises one objective"),
    ],
)
def test_what_does_not_go_together(options: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["network", *SMALL, "--fuse", *options]) == EXIT_INVALID
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--max-fused-loops", "--fuse-into", "--no-fuse", "--certificate"])
def test_options_of_fusion_need_it(option: str, capsys: pytest.CaptureFixture[str]):
    assert main(["network", *SMALL, option, "1"]) == EXIT_INVALID
    errors = capsys.readouterr().err
    assert option in errors
    assert "needs --fuse" in errors


def test_lists_come_after_the_specs(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["network", "--fuse", "--no-fuse", "T1", *SMALL])
    assert "put SPEC before --" in capsys.readouterr().err


def test_options_narrow_what_is_fused(tmp_path: Path):
    found = tmp_path / "found.json"

    def saved(*options: str) -> float:
        words = ["network", *SMALL, "--fuse", "--objective", "energy", "--factors", "perfect", *options]
        assert main([*words, "--json", str(found), "--quiet"]) == EXIT_OPTIMAL
        document = json.loads(found.read_text())
        return float(document["unfused_value"] - document["value"])

    assert saved("--fuse-into", "GLB") > saved("--max-fused-loops", "0") == saved("--no-fuse", "T1") == 0


def test_certificates_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    certificate, page, found = (tmp_path / name for name in ("certificate.json", "page.html", "found.json"))
    options = ["--fuse", "--objective", "energy", "--check", "--report", str(page), "--json", str(found)]
    assert main(["network", *SMALL, *options, "--certificate", str(certificate)]) == EXIT_OPTIMAL
    printed = capsys.readouterr()
    assert f"VALID: {certificate}: no fused mapping is below energy" in printed.out
    assert "note: the certificate is being checked, for at most 3600 s" in printed.err
    assert "fusion saves" in page.read_text()
    assert main(["report", str(found), "--output", str(tmp_path / "again.html")]) == EXIT_OPTIMAL
    assert (tmp_path / "again.html").read_text() == page.read_text()
    document = json.loads(certificate.read_text())
    document["bound"] += 1
    certificate.write_text(json.dumps(document))
    assert main(["prove", str(certificate)]) == EXIT_UNPROVEN
    assert main(["network", *SMALL, *options[:4], "--quiet"]) == EXIT_OPTIMAL


def test_certificates_know_all_memories_and_remainders(capsys: pytest.CaptureFixture[str]):
    words = [str(DATA / "products.workload.yaml"), "specs/architectures/free_three_level.yaml", "--fuse"]
    options = ["--objective", "energy", "--max-fused-loops", "0", "--check"]
    assert main(["network", *words, *options]) == EXIT_OPTIMAL
    printed = capsys.readouterr().out
    assert "alone" not in printed
    assert "perfect" not in printed
    assert "VALID: no fused mapping is below energy" in printed


def test_without_time_there_is_a_bound_at_least(tmp_path: Path):
    found = tmp_path / "found.json"
    code = main(["network", *SMALL, "--fuse", "--time-limit", "0", "--json", str(found), "--quiet"])
    assert code in (EXIT_FEASIBLE, EXIT_UNKNOWN)
    document = json.loads(found.read_text())
    assert document["termination"] == "TIME_LIMIT"
    assert document["bound"] >= 0


@pytest.mark.usefixtures("patience")
def test_remainders_of_shared_loops_are_searched_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = tmp_path / "found.json"
    words = ["network", *SMALL, "--fuse", "--objective", "energy", "--json", str(found)]
    assert main(words) == EXIT_OPTIMAL
    document, printed = json.loads(found.read_text()), capsys.readouterr().out
    assert "shared loops without remainders\n" in printed.splitlines(keepends=True)[0]
    assert (document["factors"], document["shared_factors"]) == ("any", "perfect")
    assert document["equal_parts"] is None
    assert main([*words, "--shared-factors", "any", "--time-limit", "20"]) in (EXIT_OPTIMAL, EXIT_FEASIBLE)
    document, printed = json.loads(found.read_text()), capsys.readouterr().out
    assert "shared loops without remainders" not in printed
    assert "Without remainders of shared loops" in printed
    assert document["shared_factors"] == "any"
    assert document["equal_parts"]["value"] >= document["value"]
