"""``--uneven``: which commands let memories have several places, and what they say of it."""

import json
from pathlib import Path

import pytest
import yaml

from solver.cli.arguments import parse_arguments
from solver.cli.certificates import reproducing_command
from solver.cli.main import main
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_INVALID
from tests.solver.examples import OPTIMAL

SPEC = """\
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 8, datawidth: 8}
    energy: {read: 100, write: 100, leak: 0}
  - !Component
    name: buffer
    class: SRAM
    attributes: {width: 8, datawidth: 8, depth: 20}
    energy: {read: 1, write: 1, leak: 0}
    constraints:
      dataspace: {keep: [A, B, Z]}
  - !Container
    name: PE
    spatial: {meshX: 2, meshY: 2}
    constraints:
      spatial: {factors: [M=1, N=2, K=2], permutation: [M, K, N], split: 2}
  - !Component
    name: mac
    class: intmac
    energy: 0
problem:
  shape:
    name: gemm
    dimensions: [M, N, K]
    data-spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read-write: true}
  instance: {M: 8, N: 8, K: 8}
"""

ENERGY = ("--objective", "energy")
SMALL = (
    ("M: 8, N: 8, K: 8", "M: 7, N: 3, K: 5"),
    ("M=1, N=2, K=2", "M=1, N<=2, K<=2"),
    ("depth: 20", "depth: 10"),
)
"""Bounds that have no divisors, and little room for them."""

UNEVEN = ("--uneven", "--factors", "perfect")


@pytest.fixture
def spec(working_directory):
    def write(*edits):
        text = SPEC
        for before, after in edits:
            assert before in text
            text = text.replace(before, after)
        Path("spec.yaml").write_text(text, encoding="utf-8")
        return "spec.yaml"

    return write


def document():
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_what_uneven_tiles_save_is_said(spec, capsys):
    assert main(["map", spec(), *UNEVEN, *ENERGY, "--json", "out.json"]) == 0
    shown = capsys.readouterr().out
    assert "uneven tiles reduce" in shown
    assert "buffer#1 keeps" in shown
    even = document()["even_tiles"]
    assert even["status"] == "OPTIMAL"
    assert even["value"] == even["bound"] > document()["value"] == document()["bound"]


def test_a_component_may_ask_for_it(spec, capsys):
    assert main(["map", spec(), *UNEVEN, *ENERGY, "--json", "out.json"]) == 0
    value = document()["value"]
    asked = spec(("keep: [A, B, Z]}", "keep: [A, B, Z], uneven: true}"))
    assert main(["map", asked, "--factors", "perfect", *ENERGY, "--json", "out.json"]) == 0
    assert document()["value"] == value
    assert main(["map", spec(("Z]}", "Z], uneven: often}")), *ENERGY]) == EXIT_INVALID
    assert "`uneven` must be true or false" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--mapping", "--mapped-spec"])
def test_mappings_are_written_and_read(name, spec, capsys):
    """A mapping names places as targets; a spec for Timeloop has a component for each place."""
    assert main(["map", spec(), *UNEVEN, *ENERGY, name, "out.yaml", "--json", "out.json"]) == 0
    found = document()
    assert ("does not check" in capsys.readouterr().err) == (name == "--mapped-spec")
    read = ["spec.yaml", *UNEVEN, "--mapping", "out.yaml"] if name == "--mapping" else ["out.yaml"]
    assert main(["evaluate", *read, "--json", "out.json"]) == 0
    assert (document()["energy_pj"], document()["cycles"]) == (found["energy_pj"], found["cycles"])


def written(spec, **changes):
    """A best mapping with some of the targets' keys changed: by target and type."""
    main(["map", spec(), *UNEVEN, *ENERGY, "--mapping", "m.yaml"])
    targets = yaml.safe_load(Path("m.yaml").read_text(encoding="utf-8"))["mapping"]
    keys = [f"{target['target']}_{target['type']}".replace("#", "_") for target in targets]
    changed = [target | changes.get(key, {}) for target, key in zip(targets, keys, strict=True)]
    Path("m.yaml").write_text(yaml.safe_dump({"mapping": changed}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffer_1_dataspace": {"keep": [], "bypass": ["A", "B", "Z"]}}, "at no place of `buffer`"),
        ({"buffer_2_dataspace": {"keep": ["A", "B", "Z"], "bypass": []}}, "does not say which of"),
        ({"buffer_1_dataspace": {"no_coalesce": ["A"]}}, "belongs to the architecture"),
        ({"DRAM_temporal": {"factors": ["M=1", "N=1", "K=1"]}}, "but its bound is 8"),
    ],
)
def test_wrong_mappings_are_refused(changes, message, spec, capsys):
    written(spec, **changes)
    capsys.readouterr()
    assert main(["evaluate", "spec.yaml", *UNEVEN, "--mapping", "m.yaml"]) == EXIT_INVALID
    assert message in capsys.readouterr().err


def test_constraints_bind_the_loops_of_all_places(spec, capsys):
    written(spec)
    capsys.readouterr()
    one = (
        "keep: [A, B, Z]}",
        "keep: [A, B, Z]}\n      temporal: {factors: [K=1, M<=2], permutation: [N, M, K]}",
    )
    assert main(["evaluate", spec(one), *UNEVEN, "--mapping", "m.yaml"]) == EXIT_INVALID
    assert "at all places of `buffer` together violates the constraint" in capsys.readouterr().err


def test_tiles_that_do_not_fit_together_are_said_place_by_place(spec, capsys):
    written(spec)
    small = spec(("depth: 20", "depth: 7"))
    assert main(["evaluate", small, *UNEVEN, "--mapping", "m.yaml"]) == EXIT_INFEASIBLE
    assert " at the inner place exceed 7" in capsys.readouterr().out


def test_a_mapping_with_places_needs_the_option(spec, capsys):
    written(spec)
    capsys.readouterr()
    assert main(["evaluate", "spec.yaml", "--mapping", "m.yaml"]) == EXIT_INVALID
    assert "--uneven reads mappings that name places of a memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["map --pareto", "compare --mappers random --evaluations 20", "network", "map --sensitivity"],
)
def test_commands_that_take_it(command, spec):
    assert main([*command.split(), spec(), *UNEVEN]) == 0


def test_networks_find_the_same(spec):
    assert main(["map", spec(), *UNEVEN, *ENERGY, "--json", "out.json"]) == 0
    value = document()["value"]
    assert main(["network", "spec.yaml", *UNEVEN, *ENERGY, "--no-cache", "--json", "out.json"]) == 0
    assert document()["energy_pj"] == pytest.approx(value)


def test_the_checker_bears_the_optimum_out(spec, capsys):
    assert main(["prove", spec(), *UNEVEN, *ENERGY]) == 0
    assert "VALID" in capsys.readouterr().out


def test_memories_are_checked_as_one(spec, capsys):
    assert main(["check", spec(), *UNEVEN]) == 0
    assert "up to 3 places; keep A, B, Z" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("map --engine cp-sat", "--engine bounds searches them"),
        ("map --export-model model.mps", "--engine bounds searches them"),
    ],
)
def test_what_is_refused(command, message, spec, capsys):
    assert main([*command.split(), spec(), *UNEVEN, *ENERGY]) == EXIT_INVALID
    assert message in capsys.readouterr().err


def test_remainders_are_searched_by_default(spec, capsys):
    """What uneven tiles save without remainders is said, and what these save."""
    odd = spec(*SMALL)
    assert main(["map", odd, "--uneven", *ENERGY, "--mapping", "m.yaml", "--json", "out.json"]) == 0
    found, shown = document(), capsys.readouterr().out
    assert found["status"] == "OPTIMAL"
    assert found["value"] < found["perfect_factors"]["value"] < found["even_tiles"]["value"]
    assert "without remainders, uneven tiles reduce energy by" in shown
    assert main(["evaluate", odd, "--uneven", "--mapping", "m.yaml", "--json", "out.json"]) == 0
    assert (document()["energy_pj"], document()["cycles"]) == (found["energy_pj"], found["cycles"])


@pytest.mark.parametrize("uneven", [UNEVEN, ("--uneven",)])
def test_rules_on_tiles_hold_at_all_places(uneven, spec, capsys):
    rule = "keep: [A, B, Z]}", "keep: [A, B, Z]}\n      tile: ['M * N * K <= 4']"
    ruled = spec(*SMALL, rule)
    options = (*uneven, *ENERGY, "--json", "out.json", "--mapping", "m.yaml")
    assert main(["map", ruled, *options]) == 0
    value = document()["value"]
    assert main(["evaluate", ruled, *uneven, "--mapping", "m.yaml"]) == 0
    assert main(["map", spec(*SMALL), *options]) == 0
    assert document()["value"] < value
    assert main(["evaluate", spec(*SMALL, rule), *uneven, "--mapping", "m.yaml"]) == EXIT_INFEASIBLE
    assert "tile of buffer" in capsys.readouterr().out


def test_rules_on_loops_are_refused(spec, capsys):
    ruled = spec(("keep: [A, B, Z]}", "keep: [A, B, Z]}\n      temporal: ['innermost == K']"))
    assert main(["map", ruled, *UNEVEN, *ENERGY]) == EXIT_INVALID
    shown = capsys.readouterr().err
    assert "not searched where memories may have several places" in shown
    assert "^" in shown


def test_the_option_is_repeated_in_certificates():
    arguments = parse_arguments(["map", "spec.yaml", "--uneven"])
    assert "--uneven" in reproducing_command(OPTIMAL, arguments)
