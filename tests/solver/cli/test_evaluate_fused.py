"""``evaluate`` with a fused mapping."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_INVALID, EXIT_OPTIMAL

DATA = Path(__file__).parents[2] / "model" / "fused" / "data"


def evaluate(name: str, *options: str, arch: Path = DATA / "arch.yaml") -> int:
    specs = [str(DATA / f"{name}.workload.yaml"), str(arch)]
    return main(["evaluate", *specs, "--mapping", str(DATA / f"{name}.fused.yaml"), *options])


def test_the_report_draws_the_tree(capsys: pytest.CaptureFixture[str]):
    assert evaluate("attention") == EXIT_OPTIMAL
    out = capsys.readouterr().out
    assert "group m in [0:2) of 4, p in [0:8)" in out
    assert "QK  holds Q above p in GLB (16 words)" in out
    assert "QK stays in GLB (4 x 1)" in out
    assert "AV  holds AV above p in GLB (16 words)" in out
    assert "34.112 nJ" in out
    assert "VALID" in out


def test_the_document(tmp_path: Path):
    file = tmp_path / "out.json"
    assert evaluate("attention", "--json", str(file), "--quiet") == EXIT_OPTIMAL
    document = json.loads(file.read_text())
    assert (document["energy_pj"], document["cycles"], document["valid"]) == (34_112, 576, True)
    (body,) = document["tree"]
    assert body["loops"] == [
        {"trips": 2, "tile": 4, "dims": {"QK": "m", "SM": "m", "AV": "m"}},
        {"trips": 8, "tile": 1, "dims": {"QK": "p", "SM": "p", "AV": "p"}},
    ]
    first = document["einsums"][0]
    assert (first["einsum"], first["visits"], first["cycles"]) == ("QK", 16, 256)
    assert {room["memory"]: room["size_words"] for room in first["room"]}["GLB"] == 37


def test_what_does_not_fit_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arch = tmp_path / "arch.yaml"
    arch.write_text((DATA / "arch.yaml").read_text().replace("depth: 64", "depth: 38"))
    assert evaluate("attention", arch=arch) == EXIT_INFEASIBLE
    out = capsys.readouterr().out
    assert (
        "GLB, while SM runs: QK (stored) 4, SM (stored) 4, Q (QK) 16, AV (AV) 16 take 40 words of 38" in out
    )


@pytest.mark.parametrize(
    "words", [("--einsum", "QK"), ("--no-fuse",), ("--factors", "any"), ("--timeloop-defects",)]
)
def test_options_about_other_mappings_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        evaluate("attention", *words)
    assert ended.value.code == EXIT_INVALID
    assert f"{words[0]} cannot be combined with a fused mapping" in capsys.readouterr().err


ARCH = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    tensors: {keep: ~Intermediates, may_keep: All}
    actions: [{name: read, energy: 16, throughput: inf}, {name: write, energy: 16, throughput: inf}]
  - !Memory
    name: GLB
    size: 512
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 0.5, throughput: inf}, {name: write, energy: 0.5, throughput: inf}]
  - !Compute
    name: MAC
    leak_power: 0
    actions: [{name: compute, energy: 1, throughput: 2}]
"""


def test_on_an_arch_of_accelforge(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arch, out = tmp_path / "arch.yaml", tmp_path / "out.json"
    arch.write_text(ARCH, encoding="utf-8")
    assert evaluate("attention", "--json", str(out), arch=arch) == EXIT_OPTIMAL
    assert "AccelForge's rule" in capsys.readouterr().out
    document = json.loads(out.read_text())
    # AccelForge's own answer for this tree.
    assert (document["counting"], document["energy_j"], document["latency_s"]) == ("accelforge", 34240, 288)
    assert evaluate("attention", "--json", str(out), "--counting", "exact", arch=arch) == EXIT_OPTIMAL
    assert json.loads(out.read_text())["energy_j"] < 34240
    assert evaluate("attention", "--counting", "timeloop", arch=arch) == EXIT_INVALID
    assert "Timeloop's rule does not support fused mappings" in capsys.readouterr().err
    workload = str(DATA / "attention.workload.yaml")
    words = ["network", workload, str(arch), "--fuse", "--max-fused-loops-per-rank", "1"]
    assert main([*words, "--json", str(out)]) == EXIT_OPTIMAL
    found = json.loads(out.read_text())
    assert (found["counting"], found["energy_j"], found["status"]) == ("accelforge", 34240, "OPTIMAL")


def test_computes_with_clocks_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arch, out = tmp_path / "arch.yaml", tmp_path / "out.json"
    nodes = "  - !Compute\n    name: Other\n    enabled: len(All) == 2\n    leak_power: 0\n"
    nodes += "    actions: [{name: compute, energy: 1, throughput: 1}]\n"
    two = ARCH.replace("name: MAC\n", "name: MAC\n    enabled: len(All) == 3\n") + nodes
    arch.write_text(two, encoding="utf-8")
    assert evaluate("attention", "--json", str(out), arch=arch) == EXIT_OPTIMAL
    document = json.loads(out.read_text())
    # 64 steps of SM at one a second, where the others make two: 32 s more than above.
    assert (document["energy_j"], document["latency_s"], document["cycles"]) == (34240, 320, 640)
    assert [each["cycle_length"] for each in document["einsums"]] == [1, 2, 1]
    assert evaluate("attention", "--costs", str(arch)) == EXIT_INVALID
    assert "--costs gives costs of the components of an AccelForge `arch`" in capsys.readouterr().err


def test_errors_point_at_the_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "bad.yaml"
    file.write_text((DATA / "products.fused.yaml").read_text().replace("T2: m}", "T2: c}"))
    specs = [str(DATA / "products.workload.yaml"), str(DATA / "arch.yaml")]
    assert main(["evaluate", *specs, "--mapping", str(file)]) == EXIT_INVALID
    error = capsys.readouterr().err
    assert "bad.yaml:3:5" in error
    assert "^" in error
