"""Commands on sparse data: `map`, `evaluate` and `check` read it, all others refuse it."""

import json
import re
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL

SPEC = Path(__file__).parent / "data" / "sparse_gemm.yaml"
TEXT = SPEC.read_text(encoding="utf-8")


def evaluated(path: Path, directory: Path, *options: str) -> dict:
    out = directory / "out.json"
    main(["evaluate", str(path), "--json", str(out), *options])
    return json.loads(out.read_text())


def test_a_report_names_kinds_of_accesses_and_what_sparsity_saves(capsys):
    assert main(["evaluate", str(SPEC)]) == EXIT_OPTIMAL
    printed = capsys.readouterr().out
    for words in ("0.25 fixed_structured", "0.5 hypergeometric", "UOP CP", "Skipped", "saved", "VALID"):
        assert words in printed


def test_a_document_has_expected_counts(tmp_path):
    document = evaluated(SPEC, tmp_path)
    buffer = document["levels"][1]["dataspaces"]
    assert (buffer["A"]["fills"], buffer["A"]["dense"]["fills"]) == (16, 64)
    assert (buffer["B"]["reads"], buffer["B"]["skipped"]["reads"]) == (64, 192)
    assert buffer["A"]["metadata"]["fills"] == [{"metadata": 16, "payload": 0}]
    assert buffer["A"]["size_words"] == 2
    assert document["computes"] == {"dense": 256, "actual": 64, "gated": 0, "skipped": 0}
    assert document["cycles"] == 64
    assert document["valid"]


def test_a_written_mapping_is_priced_alike(tmp_path):
    document = evaluated(SPEC, tmp_path)
    other = tmp_path / "mapping.yaml"
    other.write_text(json.dumps({"mapping": document["mapping"]}))
    assert evaluated(SPEC, tmp_path, "--mapping", str(other))["levels"] == document["levels"]


def test_dense_figures_with_ignore_sparse(tmp_path):
    document = evaluated(SPEC, tmp_path, "--ignore-sparse")
    sparse = evaluated(SPEC, tmp_path)
    assert document["energy_pj"] == sparse["dense"]["energy_pj"]
    assert document["cycles"] == sparse["dense"]["cycles"]


def test_accelforges_rule_is_for_dense_data(capsys):
    assert main(["evaluate", str(SPEC), "--counting", "accelforge"]) == 2
    assert "--counting accelforge supports dense data only" in capsys.readouterr().err


def test_a_network_of_sparse_layers(tmp_path, capsys):
    """Two layers under one file of densities; the second time from the cache."""
    problem, architecture = TEXT.split("architecture:")
    (tmp_path / "arch.yaml").write_text("architecture:" + architecture.split("mapping:")[0])
    densities = "problem: {densities: {A: 0.25, B: {distribution: hypergeometric, density: 0.5}}}"
    (tmp_path / "densities.yaml").write_text(densities)
    dense = problem.split("    densities:")[0]
    (tmp_path / "first.yaml").write_text(dense)
    (tmp_path / "second.yaml").write_text(dense.replace("M: 8", "M: 4"))
    out, page = tmp_path / "out.json", tmp_path / "page.html"
    files = [str(tmp_path / f"{name}.yaml") for name in ("first", "second", "arch", "densities")]
    command = [
        "network",
        *files,
        "--objective",
        "energy",
        "--factors",
        "perfect",
        "--cache",
        str(tmp_path / "kept"),
        "--json",
        str(out),
    ]
    assert main([*command, "--check", "--report", str(page)]) == EXIT_OPTIMAL
    assert capsys.readouterr().out.count("VALID: ") == 2
    assert main(["map", str(SPEC), "--objective", "energy", "--json", str(tmp_path / "map.json")]) == 0
    best = json.loads((tmp_path / "map.json").read_text())["energy_pj"]
    first, second = json.loads(out.read_text())["layers"]
    assert first["energy_pj"] == pytest.approx(best) and second["energy_pj"] < best
    assert first["result"]["kind"] == "map-sparse"
    assert main([*command, "--resume"]) == EXIT_OPTIMAL
    assert [own["origin"] for own in json.loads(out.read_text())["layers"]] == ["cached", "cached"]


def test_other_commands_refuse(capsys):
    assert main(["sweep", str(SPEC)]) == 2
    message = capsys.readouterr().err
    assert "this command does not support sparse data" in message
    assert "densities:" in message
    assert "--ignore-sparse treats all data as dense" in message


def test_heuristics_against_the_optimum(tmp_path, capsys):
    out = tmp_path / "out.json"
    command = [
        "compare",
        str(SPEC),
        "--objective",
        "energy",
        "--evaluations",
        "64",
        "--mappers",
        "random,greedy",
    ]
    assert main([*command, "--json", str(out)]) == EXIT_OPTIMAL
    assert "greedy" in capsys.readouterr().out
    document = json.loads(out.read_text())
    best = evaluated(SPEC, tmp_path)["energy_pj"]
    assert document["value"] <= best
    values = [mapper["value"] for mapper in document["mappers"]]
    assert all(value is None or value >= document["value"] for value in values)


def test_a_front(tmp_path, capsys):
    out = tmp_path / "front.json"
    assert main(["map", str(SPEC), "--pareto", "--json", str(out)]) == EXIT_OPTIMAL
    assert "the complete front" in capsys.readouterr().out
    points = json.loads(out.read_text())["points"]
    assert points and points[0]["cycles"] <= evaluated(SPEC, tmp_path)["cycles"]


def test_limits_and_constraints_are_priced(tmp_path, capsys):
    out = tmp_path / "out.json"
    command = ["map", str(SPEC), "--objective", "energy", "--sensitivity", "--price-constraints"]
    page = tmp_path / "page.html"
    assert main([*command, "--json", str(out), "--report", str(page)]) == EXIT_OPTIMAL
    assert "(with all constraints)" in page.read_text() and "Sensitivity" in page.read_text()
    printed = capsys.readouterr().out
    assert "Sensitivity of energy" in printed and "`buffer` holds 48 words" in printed
    document = json.loads(out.read_text())
    halved = next(own for own in document["sensitivity"] if own["factor"] == 0.5)
    assert halved["value"] > document["value"]


@pytest.mark.parametrize(
    ("size", "room", "other", "reason", "lever"),
    [
        (4, "depth: 48", "depth: 1", "too few words", "give `buffer` 3 words instead of 1"),
        (
            4,
            "depth: 16",
            "depth: 0",
            "too few bits of metadata",
            "give `buffer` 4 bits of metadata instead of 0",
        ),
        (
            2,
            "[{format: UOP}, {format: CP}]",
            "[{format: CP}]",
            "formats",
            "store A without a format in `DRAM`",
        ),
    ],
)
def test_why_nothing_fits(size, room, other, reason, lever, tmp_path, capsys):
    """All of a small problem's mappings are ruled out before a time limit ends the explanation."""
    path = tmp_path / "spec.yaml"
    keeps = "constraints: {dataspace: {keep: [A, B, Z]}}"
    text = TEXT.replace("M: 8\n    K: 8\n    N: 4", f"M: {size}\n    K: {size}\n    N: 2")
    assert text != TEXT
    kept = text.replace("energy: {read: 2", f"{keeps}\n    energy: {{read: 2") if "depth" in room else text
    path.write_text(kept.replace(room, other))
    for command in ("map", "explain") if "depth" in room else ("explain",):
        assert main([command, str(path), "--objective", "energy"]) == EXIT_INFEASIBLE
        printed = capsys.readouterr().out
        assert reason in printed and lever in printed


def test_memories_with_several_places_are_refused(capsys):
    for command in (["map"], ["explain"], ["compare"], ["map", "--pareto"], ["prove"]):
        assert main([*command, "--uneven", str(SPEC)]) == 2
        assert "searched for dense data only" in capsys.readouterr().err


def test_the_best_mapping_is_proven_and_priced_alike(tmp_path, capsys):
    out, mapping = tmp_path / "out.json", tmp_path / "mapping.yaml"
    page = tmp_path / "page.html"
    command = ["map", str(SPEC), "--objective", "energy", "--json", str(out), "--mapping", str(mapping)]
    assert main([*command, "--report", str(page)]) == EXIT_OPTIMAL
    printed = capsys.readouterr().out
    for words in ("OPTIMAL energy", "0.25 fixed_structured", "Best mapping on dense data"):
        assert words in printed
    document = json.loads(out.read_text())
    assert document["kind"] == "map-sparse"
    assert document["value"] == document["bound"] == pytest.approx(document["energy_pj"])
    assert document["value"] <= evaluated(SPEC, tmp_path)["energy_pj"]
    again = evaluated(SPEC, tmp_path, "--mapping", str(mapping))
    assert again["energy_pj"] == document["energy_pj"]
    dense = document["dense_optimum"]
    assert dense["energy_pj"] > dense["on_sparse_data"]["energy_pj"] >= document["energy_pj"]
    assert "Best mapping on dense data" in page.read_text()


def test_densities_alone_are_mapped_as_dense_data(tmp_path, capsys):
    out, path = tmp_path / "out.json", tmp_path / "spec.yaml"
    path.write_text(re.sub(r" *sparse_optimizations:\n(      .*\n)+", "", TEXT))
    assert main(["map", str(path), "--json", str(out)]) == EXIT_OPTIMAL
    assert json.loads(out.read_text())["kind"] == "map"
    assert "densities" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--export-model=x.pb", "--engine=cp-sat"])
def test_options_of_dense_searches_are_refused(option, capsys):
    assert main(["map", str(SPEC), option]) == 2
    assert "--ignore-sparse treats the data as dense" in capsys.readouterr().err


def test_the_optimum_is_certified_and_checked(tmp_path, capsys):
    certificate = tmp_path / "certificate.json"
    assert (
        main(["map", str(SPEC), "--objective", "energy", "--certificate", str(certificate), "--check"]) == 0
    )
    assert "VALID: no mapping is below energy" in capsys.readouterr().out
    assert main(["prove", str(SPEC), "--objective", "latency,energy"]) == EXIT_OPTIMAL
    assert "VALID: no mapping is below latency" in capsys.readouterr().out


def test_check_reads_sparse_specs(capsys):
    assert main(["check", str(SPEC)]) == EXIT_OPTIMAL


def test_a_mapping_that_formats_cannot_hold(tmp_path, capsys):
    path = tmp_path / "spec.yaml"
    path.write_text(TEXT.replace("[{format: UOP}, {format: CP}]", "[{format: CP}]"))
    assert main(["evaluate", str(path)]) == EXIT_INFEASIBLE
    assert "DRAM: `A` has more loops than its format has ranks" in capsys.readouterr().err
    document = evaluated(path, tmp_path)
    assert not document["valid"]
    assert "has more loops than its format has ranks" in document["reasons"][0]["text"]


def test_options_that_do_not_go_together(tmp_path, capsys):
    assert main(["evaluate", str(SPEC), "--link-transfers"]) == 2
    assert "--link-transfers applies to dense data" in capsys.readouterr().err
    assert main(["evaluate", str(SPEC), "--ignore-sparse", "--timeloop-defects"]) == 2
    assert "--timeloop-defects applies to sparse data" in capsys.readouterr().err


def test_too_little_room_for_metadata(tmp_path, capsys):
    path = tmp_path / "spec.yaml"
    path.write_text(TEXT.replace("metadata_storage_depth: 16", "metadata_storage_depth: 0"))
    assert main(["evaluate", str(path)]) == EXIT_INFEASIBLE
    assert "buffer: metadata takes 8 bits of 0" in capsys.readouterr().out


def test_a_sweep_over_densities(tmp_path, capsys):
    out = tmp_path / "out.json"
    options = ["--density", "A=0.25,1", "--objective", "energy", "--json", str(out)]
    assert main(["sweep", str(SPEC), *options]) == EXIT_OPTIMAL
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert [row for row in rows if row[1:] == ["OPTIMAL"]] == [["0.25", "OPTIMAL"], ["1", "OPTIMAL"]]
    points = json.loads(out.read_text())["points"]
    assert [point["shares"] for point in points] == [{"A": 0.25}, {"A": 1.0}]
    assert points[0]["value"] < points[1]["value"]


@pytest.mark.parametrize(
    "command", [["map", "--pareto"], ["map", "--engine", "bounds"], ["sweep", "--density", "A=0.25"]]
)
def test_all_rules_are_searched(command, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text('mapspace: {rules: ["innermost(buffer) == K"]}\n', encoding="utf-8")
    assert main([command[0], str(SPEC), str(rules), *command[1:]]) == EXIT_OPTIMAL


def test_a_picture_of_a_sweep_over_densities_names_the_density(tmp_path):
    plot = tmp_path / "out.svg"
    options = ["--density", "A=0.25,1", "--objective", "energy", "--plot", str(plot)]
    assert main(["sweep", str(SPEC), *options]) == EXIT_OPTIMAL
    assert "density of A" in plot.read_text()


@pytest.mark.parametrize("density", ["A=2", "A", "X=0.5", "A=x"])
def test_densities_that_are_none(density, capsys):
    assert main(["sweep", str(SPEC), "--density", density]) == 2
    assert "--density" in capsys.readouterr().err


RULES = ["words(buffer, B) <= 16", "tile(buffer, N) * 4 <= temporal(DRAM, M)", "innermost(buffer) == N"]


@pytest.fixture
def ruled(tmp_path):
    path = tmp_path / "ruled.yaml"
    path.write_text(TEXT + f"mapspace: {{rules: {json.dumps(RULES)}}}\n")
    return path


def test_rules_of_the_users_own(ruled, tmp_path, capsys):
    assert main(["evaluate", str(ruled)]) == EXIT_INFEASIBLE
    printed = capsys.readouterr().out
    assert (
        "INVALID the mapping violates user-defined constraints\n  "
        "words(buffer, B) <= 16 (words(buffer, B) is 32)"
    ) in printed
    broken = [own["rule"] for own in evaluated(ruled, tmp_path)["broken_rules"]]
    assert broken == RULES
    out = tmp_path / "out.json"
    assert main(["map", str(ruled), "--objective", "energy", "--json", str(out)]) == EXIT_OPTIMAL
    best = json.loads(out.read_text())
    assert best["levels"][1]["dataspaces"]["B"]["size_words"] <= 16
    assert main(["check", str(ruled)]) == 2
    assert "the mapping violates a user-defined constraint: words(buffer, B) <= 16" in capsys.readouterr().err


def test_rules_are_not_certified_of_sparse_data(ruled, tmp_path, capsys):
    command = ["map", str(ruled), "--objective", "energy", "--certificate", str(tmp_path / "claim.json")]
    assert main(command) == 2
    message = "the checker does not support user-defined rules on sparse data"
    assert message in capsys.readouterr().err


def test_sparse_data_have_remainders(tmp_path, capsys):
    out = tmp_path / "out.json"
    command = ["map", str(SPEC), "--factors", "any", "--objective", "energy", "--json", str(out)]
    assert main(command) == EXIT_OPTIMAL
    assert "remainders save nothing" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert document["factors"] == "any"
    assert document["perfect_factors"]["status"] == "OPTIMAL"
    assert document["perfect_factors"]["value"] == document["value"]


def test_sparse_data_have_perfect_factors_unless_remainders_are_asked_for(capsys):
    assert main(["map", str(SPEC), "--objective", "energy"]) == EXIT_OPTIMAL
    out = capsys.readouterr().out
    assert "on sparse data, remainders need --factors any" in out
    assert "without remainders is" not in out


def test_certificates_of_sparse_data_are_about_perfect_factors(tmp_path, capsys):
    out = tmp_path / "out.json"
    command = ["map", str(SPEC), "--factors", "any", "--objective", "energy", "--json", str(out), "--check"]
    assert main(command) == EXIT_OPTIMAL
    assert "this search does not support remainders" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert (document["factors"], document["perfect_factors"]) == ("perfect", None)


def test_a_band_has_perfect_factors(tmp_path, capsys):
    path, out = tmp_path / "band.yaml", tmp_path / "out.json"
    text = TEXT.split("mapping:")[0].replace(
        "A: 0.25", "A: {distribution: banded, density: 1, band_width: 1}"
    )
    path.write_text(text)
    main(["map", str(path), "--factors", "any", "--objective", "energy", "--json", str(out)])
    assert "remainders are not supported where nonzeros are in a band" in capsys.readouterr().out
    assert json.loads(out.read_text())["factors"] == "perfect"


def test_tiles_that_fit_only_compressed_are_mapped_and_priced(tmp_path):
    path = tmp_path / "spec.yaml"
    keeps = "constraints: {dataspace: {keep: [A], bypass: [B, Z]}, temporal: {factors: [K=8, M=1]}}"
    text = TEXT.replace("energy: {read: 2", f"{keeps}\n    energy: {{read: 2").replace(
        "depth: 48", "depth: 2"
    )
    path.write_text(text)
    assert main(["map", str(path), "--objective", "energy"]) == EXIT_OPTIMAL
    assert main(["map", str(path), "--objective", "energy", "--ignore-sparse"]) == EXIT_INFEASIBLE
