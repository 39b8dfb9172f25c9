"""`force_memory_hierarchy_order: False` on the command line, and AccelForge's mappings of such orders."""

import json
from pathlib import Path

import pytest

from solver.cli.main import main
from solver.exit_codes import EXIT_INVALID, EXIT_OPTIMAL
from tests.slow import slow

DATA = Path(__file__).parent / "data"
PRODUCT, MAPPING = str(DATA / "simba_product.yaml"), str(DATA / "simba_product_mapping.yaml")
"""A large product, and a mapping of it that holds a tile of weights above tiles of the global buffer."""

WORKLOAD = """
workload:
  rank_sizes: {M: 16, K: 16, N: 16}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "Z[m, n] = A[m, k] * W[k, n]", renames: {weight: W, input: A, output: Z}}
"""

ARCH = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 8e-12, throughput: 1e9}, {name: write, energy: 8e-12, throughput: 1e9}]
  - !Memory
    name: Global
    size: 512
    leak_power: 0
    tensors: {keep: input | output}
    actions: [{name: read, energy: 1e-12, throughput: inf}, {name: write, energy: 1e-12, throughput: inf}]
  - !Container
    name: Array
    spatial: [{name: X, fanout: 4, min_usage: 1}]
  - !Memory
    name: Weights
    size: 512
    leak_power: 1e-3
    tensors: {keep: weight, force_memory_hierarchy_order: False}
    actions: [{name: read, energy: 2e-13, throughput: inf}, {name: write, energy: 2e-13, throughput: inf}]
  - !Compute
    name: MAC
    leak_power: 0
    actions: [{name: compute, energy: 5e-13, throughput: 1e9}]
"""
KEY = "force_memory_hierarchy_order: False"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(WORKLOAD, encoding="utf-8")
    Path("a.yaml").write_text(ARCH, encoding="utf-8")
    return ["w.yaml", "a.yaml"]


def test_map_proves_writes_and_certifies_any_order(files, capsys):
    options = ["--accelforge-mapping", "m.yaml", "--certificate", "c.json", "--json", "r.json"]
    assert main(["map", "--einsum", "Z", *files, *options]) == EXIT_OPTIMAL
    text = capsys.readouterr().out
    assert "tiles in any order of the memories reduce edp by" in text
    # A quarter of W for each child stays, and rows of A and Z pass through the memory outside.
    assert text.index("Weights keeps W") < text.index("Global")
    found = json.loads(Path("r.json").read_text())
    assert found["hardware_order"]["status"] == "OPTIMAL"
    assert found["value"] < 0.5 * found["hardware_order"]["value"]
    assert main(["prove", "c.json"]) == EXIT_OPTIMAL
    assert (
        main(["evaluate", "--einsum", "Z", *files, "--mapping", "m.yaml", "--json", "e.json"]) == EXIT_OPTIMAL
    )
    given = json.loads(Path("e.json").read_text())
    assert (given["energy_j"], given["cycles"]) == (found["energy_j"], found["cycles"])
    tiles = {level["name"]: level["dataspaces"] for level in found["levels"]}
    assert tiles["Weights"]["W"]["tile_words"] == 64
    assert main(["prove", "--einsum", "Z", *files]) == EXIT_OPTIMAL


def test_the_mapper_may_say_so_of_all_memories(files, capsys):
    Path("a.yaml").write_text(ARCH.replace(f", {KEY}", ""), encoding="utf-8")
    assert main(["map", "--einsum", "Z", *files, "--json", "r.json"]) == EXIT_OPTIMAL
    assert "hardware_order" not in json.loads(Path("r.json").read_text())
    Path("a.yaml").write_text(ARCH.replace(f", {KEY}", "") + f"mapper: {{{KEY}}}\n", encoding="utf-8")
    assert main(["map", "--einsum", "Z", *files, "--json", "r.json"]) == EXIT_OPTIMAL
    assert "hardware_order" in json.loads(Path("r.json").read_text())
    assert "has no effect here" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["network", "--same", "spatial"],
        ["network", "--mappings", "m"],
        ["explain", "--einsum", "Z"],
        ["map", "--einsum", "Z", "--pareto"],
        ["map", "--einsum", "Z", "--sensitivity"],
        ["map", "--einsum", "Z", "--engine", "cp-sat"],
        ["map", "--einsum", "Z", "--mapping", "m.yaml"],
        ["compare", "--einsum", "Z"],
    ],
)
def test_what_does_not_search_any_order_names_the_key(files, capsys, command: list[str]):
    assert main([command[0], *files, *command[1:]]) == EXIT_INVALID
    error = capsys.readouterr().err
    assert f"`{KEY}` of `Weights`: this command does not search any order" in error
    assert "a.yaml:2" in error


def test_a_note_says_what_other_orders_may_save(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["map", "--einsum", "Matmul0", PRODUCT, "--json", "r.json"]) == EXIT_OPTIMAL
    assert "might reduce edp by 88.4 % at most" in capsys.readouterr().out
    assert main(["evaluate", "--einsum", "Matmul0", PRODUCT, "--mapping", MAPPING, "--json", "e.json"]) == 0
    found, given = (json.loads(Path(name).read_text()) for name in ("r.json", "e.json"))
    assert found["status"] == "OPTIMAL"
    assert 5.7 < found["value"] / (given["energy_pj"] * given["cycles"]) < 5.72


@pytest.mark.parametrize("key", [slow(KEY)])
def test_the_mapping_with_weights_outside_is_proven_optimal(key: str, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(Path(PRODUCT).read_text() + f"mapper: {{{key}}}\n")
    assert main(["map", "--einsum", "Matmul0", "p.yaml", "--json", "r.json"]) == EXIT_OPTIMAL
    assert main(["evaluate", "--einsum", "Matmul0", PRODUCT, "--mapping", MAPPING, "--json", "e.json"]) == 0
    found, given = (json.loads(Path(name).read_text()) for name in ("r.json", "e.json"))
    assert found["status"] == "OPTIMAL"
    assert found["value"] == pytest.approx(given["energy_pj"] * given["cycles"], rel=1e-12)
    assert "tiles in any order of the memories reduce edp by 82.49 %" in capsys.readouterr().out


def test_sensitivity_searches_other_orders(files, capsys):
    Path("a.yaml").write_text(ARCH.replace(f", {KEY}", "").replace("size: 512", "size: 64"))
    Path("w.yaml").write_text(CASCADE)
    assert main(["map", "--einsum", "T", *files, "--sensitivity", "--json", "r.json"]) == EXIT_OPTIMAL
    text = capsys.readouterr().out
    Path("a.yaml").write_text(ARCH.replace("size: 512", "size: 64"))
    assert main(["map", "--einsum", "T", *files, "--json", "f.json"]) == EXIT_OPTIMAL
    one, other = (json.loads(Path(name).read_text())["value"] for name in ("r.json", "f.json"))
    assert f"with `{KEY}`, the best mapping has" in text
    assert f": {100 * (1 - other / one):.1f} % less" in text


CASCADE = """
workload:
  rank_sizes: {M: 8, K: 4, N: 4, P: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "T[m, n] = A[m, k] * W[k, n]", renames: {weight: W, input: A, output: T}}
  - {einsum: "Z[m, p] = T[m, n] * V[n, p]", renames: {weight: V, input: T, output: Z}}
"""


def test_network_maps_each_einsum_in_any_order(files, capsys):
    Path("w.yaml").write_text(CASCADE, encoding="utf-8")
    Path("a.yaml").write_text(ARCH.replace("size: 512", "size: 64"), encoding="utf-8")
    assert main(["network", *files, "--check", "--json", "n.json"]) == EXIT_OPTIMAL
    assert "1 of 1 certificates are VALID" in capsys.readouterr().out
    first, second = json.loads(Path("n.json").read_text())["layers"]
    assert second["origin"] == "identical"
    assert first["result"]["value"] < first["result"]["hardware_order"]["value"]
    assert main(["map", "--einsum", "T", *files, "--json", "r.json"]) == EXIT_OPTIMAL
    assert json.loads(Path("r.json").read_text())["value"] == first["result"]["value"]
    cached = ["--cache", "kept", "--resume"]
    for origin in ("searched", "searched"):  # orders are not kept
        assert main(["network", *files, "--json", "n.json", *cached]) == EXIT_OPTIMAL
        assert json.loads(Path("n.json").read_text())["layers"][0]["origin"] == origin


def test_fused_mappings_have_nests_in_any_order(files, capsys):
    Path("w.yaml").write_text(CASCADE.replace("M: 8", "M: 4"), encoding="utf-8")
    arch = ARCH.replace("size: 512", "size: 64").replace(
        "{keep: All}", "{keep: ~Intermediates, may_keep: All}"
    )
    Path("a.yaml").write_text(arch.replace("input | output}", "input | output, may_keep: All}"))
    options = ["--fuse", "--objective", "energy", "--no-fuse", "T"]
    outputs = ["--fused-mapping", "m.yaml", "--json", "f.json", "--report", "f.html"]
    outputs += ["--check", "--accelforge-mapping", "t.yaml"]
    assert main(["network", *files, *options, *outputs]) == EXIT_OPTIMAL
    output = capsys.readouterr().out
    assert "below them, memories lie in any order" in output
    assert "VALID" in output
    text = Path("m.yaml").read_text()
    assert text.index("memory: Weights") < text.index("memory: Global")
    assert main(["evaluate", *files, "--mapping", "m.yaml", "--json", "e.json"]) == EXIT_OPTIMAL
    found, given = (json.loads(Path(name).read_text()) for name in ("f.json", "e.json"))
    assert (given["energy_pj"], given["cycles"]) == (found["energy_pj"], found["cycles"])
    assert main(["evaluate", *files, "t.yaml", "--json", "e.json"]) == EXIT_OPTIMAL
    given = json.loads(Path("e.json").read_text())
    assert (given["energy_pj"], given["cycles"]) == (found["energy_pj"], found["cycles"])


@pytest.mark.parametrize("command", [["map", "--einsum", "T"], ["network", "--fuse"]])
def test_a_mapping_that_accelforge_would_move_is_not_written(files, capsys, command):
    text = CASCADE.replace("M: 8, K: 4, N: 4", "M: 4, K: 2, N: 4")
    Path("w.yaml").write_text(text[: text.index('  - {einsum: "Z')], encoding="utf-8")
    Path("a.yaml").write_text(ARCH.replace("size: 512", "size: 64"), encoding="utf-8")
    options = ["--objective", "energy", "--accelforge-mapping", "t.yaml", "--json", "f.json"]
    assert main([*command, *files, *options]) == EXIT_INVALID
    assert "no mapping for AccelForge is written: AccelForge would lower" in capsys.readouterr().err
    assert not Path("t.yaml").exists()
    assert json.loads(Path("f.json").read_text())["status"] == "OPTIMAL"


def test_one_place_per_memory_has_no_orders(files, capsys):
    assert main(["map", "--einsum", "Z", *files, "--no-uneven"]) == EXIT_INVALID
    assert (
        "memories in any order (force_memory_hierarchy_order: False) have several places"
        in capsys.readouterr().err
    )


def test_tiles_of_pieces_are_refused_in_a_given_mapping(files, capsys):
    loops = """
  - !Spatial {rank_variable: n, tile_shape: 8, name: X, component: Array}
  - !Storage {tensors: [W], component: Weights}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Storage {tensors: [A, Z], component: Global}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: Z, component: MAC}
"""
    text = "mapping:\n  nodes:\n  - !Storage {tensors: [A, W, Z], component: Main}" + loops
    Path("m.yaml").write_text(text, encoding="utf-8")
    assert main(["evaluate", "--einsum", "Z", *files, "--mapping", "m.yaml"]) == EXIT_INVALID
    assert "below a loop of `Array.X`, which is inside of it, and another loop" in capsys.readouterr().err
