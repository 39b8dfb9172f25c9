"""Rules of the user's own on the command line."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL

SPEC = """
problem:
  shape:
    name: gemm
    dimensions: [M, N, K]
    data-spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read-write: true}
  instance: {M: 16, N: 16, K: 16}
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 64, datawidth: 16}
    energy: {read: 512, write: 512, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {width: 64, depth: 64, datawidth: 16}
    energy: {read: 18.18, write: 14.1, update: 15, leak: 0.005}
    constraints:
      tile: ["K % MULTIPLE == 0", "M == N"]
  - !Container
    name: PE
    spatial: {meshX: 4, meshY: 2}
    constraints:
      spatial: ["instances >= 0.75 * fanout"]
  - !Component
    name: mac
    class: intmac
    energy: 0.5
variables: {MULTIPLE: 4}
"""
MAPPING = """
mapping:
- {target: DRAM, type: temporal, factors: [M=4, N=4, K=8], permutation: [M, N, K]}
- {target: buffer, type: temporal, factors: [M=4, N=2], permutation: [M, N]}
- {target: PE, type: spatial, factors: [N=2, K=2], permutation: [N, K, M], split: 1}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC, encoding="utf-8")
    Path("mapping.yaml").write_text(MAPPING, encoding="utf-8")
    Path("both.yaml").write_text(SPEC + MAPPING, encoding="utf-8")
    return tmp_path


def test_a_broken_rule_makes_a_mapping_invalid(folder, capsys):
    words = ["evaluate", "spec.yaml", "--mapping", "mapping.yaml"]
    assert main(words) == EXIT_INFEASIBLE
    assert capsys.readouterr().out.splitlines()[:3] == [
        "INVALID the mapping violates user-defined constraints",
        "  tile of buffer: K % MULTIPLE == 0 (tile(buffer, K) is 2)",
        "  spatial of PE: instances >= 0.75 * fanout (instances(PE) is 4, fanout(PE) is 8)",
    ]
    assert main([*words, "--json", "-"]) == EXIT_INFEASIBLE
    document = json.loads(capsys.readouterr().out)
    assert (document["valid"], document["violations"]) == (False, [])
    assert document["broken_rules"][0] == {
        "rule": "tile of buffer: K % MULTIPLE == 0",
        "figures": {"tile(buffer, K)": 2},
    }


def test_check_refuses_a_mapping_that_breaks_a_rule_and_lists_rules(folder, capsys):
    assert main(["check", "both.yaml"]) not in (EXIT_OPTIMAL, EXIT_INFEASIBLE)
    assert "the mapping violates a user-defined constraint: tile of buffer" in capsys.readouterr().err
    assert main(["check", "spec.yaml"]) == EXIT_OPTIMAL
    assert "spatial of PE: instances >= 0.75 * fanout" in capsys.readouterr().out


def test_a_mapping_that_map_writes_satisfies_all_rules(folder, capsys):
    words = ["map", "spec.yaml", "--quiet", "--time-limit", "none", "--mapping", "best.yaml"]
    assert main(words) == EXIT_OPTIMAL
    assert main(["evaluate", "spec.yaml", "--mapping", "best.yaml"]) == EXIT_OPTIMAL
    assert "VALID the mapping respects every limit" in capsys.readouterr().out


@pytest.mark.parametrize("rule", ["", "tile(buffer, K) <= 2 * spatial(PE, K) or innermost(DRAM) == K"])
def test_results_under_rules_are_certified(rule, folder, capsys):
    """By bounds under rules about single tiles, by CP-SAT alone under others."""
    if rule:
        Path("spec.yaml").write_text(f'{SPEC}mapspace: {{rules: ["{rule}"]}}\n', encoding="utf-8")
    assert (
        main(["prove", "spec.yaml", "--factors", "perfect", "--objective", "energy", "--quiet"])
        == EXIT_OPTIMAL
    )
    printed = capsys.readouterr().out
    assert ("OPTIMAL by CP-SAT alone" in printed) == bool(rule)
    assert "VALID: no mapping is below energy" in printed
    words = ["map", "spec.yaml", "--factors", "perfect", "--objective", "energy", "--quiet", "--certificate"]
    assert main([*words, "proof.json"]) == EXIT_OPTIMAL
    document = json.loads(Path("proof.json").read_text(encoding="utf-8"))
    assert document["rules"][0] == {
        "condition": "(tile(buffer, K) % 4) == 0",
        "text": "K % MULTIPLE == 0",
        "place": ["tile", "buffer"],
    }


def test_a_rule_that_leaves_nothing_is_blamed(folder, capsys):
    Path("spec.yaml").write_text(SPEC.replace("MULTIPLE: 4", "MULTIPLE: 3"), encoding="utf-8")
    for command in ("map", "explain"):
        assert main([command, "spec.yaml", "--factors", "perfect"]) == EXIT_INFEASIBLE
        printed = capsys.readouterr().out
        assert "Conflict: no mapping that satisfies all other constraints satisfies this rule" in printed
        assert "without this: tile of buffer: K % MULTIPLE == 0  (spec.yaml:25:14)" in printed


def test_commands_that_search_refuse_what_they_do_not_know(folder, capsys):
    Path("more.yaml").write_text('mapspace: {rules: ["temporal(buffer, K) == 1"]}\n', encoding="utf-8")
    for command in (["map", "--engine", "bounds"], ["map", "--sensitivity"], ["compare"]):
        assert main([*command, "spec.yaml", "more.yaml"]) not in (EXIT_OPTIMAL, EXIT_INFEASIBLE)
        assert "this rule is not searched yet" in capsys.readouterr().err
    assert main(["evaluate", "spec.yaml", "more.yaml", "--mapping", "mapping.yaml"]) == EXIT_INFEASIBLE


def test_rules_about_several_levels_go_to_cp_sat(folder, capsys):
    rule = "tile(buffer, K) <= 2 * spatial(PE, K) or innermost(DRAM) == K"
    Path("more.yaml").write_text(f'mapspace: {{rules: ["{rule}"]}}\n', encoding="utf-8")
    words = ["map", "spec.yaml", "more.yaml", "--quiet", "--objective", "energy", "--json", "-"]
    words += ["--time-limit", "none"]
    assert main(words) == EXIT_OPTIMAL
    document = json.loads(capsys.readouterr().out)
    assert document["statistics"]["cp_sat"] == "alone: bounds do not support all constraints"
    Path("never.yaml").write_text(
        'mapspace: {rules: ["tile(buffer, K) < spatial(PE, K)"]}\n', encoding="utf-8"
    )
    assert main(["explain", "spec.yaml", "never.yaml", "--time-limit", "none"]) == EXIT_INFEASIBLE
    assert "without this: tile(buffer, K) < spatial(PE, K)  (never.yaml:1:20)" in capsys.readouterr().out


def test_several_layers_are_mapped_under_rules(folder, capsys):
    layer, architecture = SPEC.split("architecture:\n")
    Path("arch.yaml").write_text(f"architecture:\n{architecture}", encoding="utf-8")
    for number, size in enumerate((16, 16, 8)):
        Path(f"layer{number}.yaml").write_text(layer.replace("M: 16", f"M: {size}"), encoding="utf-8")
    words = ["arch.yaml", "layer0.yaml", "layer1.yaml", "layer2.yaml", "--objective", "energy", "--quiet"]
    assert main(["network", *words, "--json", "network.json"]) == EXIT_OPTIMAL
    capsys.readouterr()
    layers = json.loads(Path("network.json").read_text(encoding="utf-8"))["layers"]
    words = ["map", "spec.yaml", "--factors", "perfect", "--objective", "energy", "--quiet", "--json", "-"]
    assert main(words) == EXIT_OPTIMAL
    assert layers[0]["result"]["energy_pj"] == json.loads(capsys.readouterr().out)["energy_pj"]
