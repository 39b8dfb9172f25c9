"""The specs with a mapping in them: they cost what the search found, and allow the mapping."""

import json
import re
from pathlib import Path

import pytest

from model.formats.timeloop import load_timeloop
from model.formats.timeloop.document import LEFT_OUT
from model.text.source import to_plain
from solver.cli.main import main
from solver.saving import save
from tests.conftest import REPOSITORY

DATA = Path(__file__).parent / "data"
ROW = (DATA / "row.yaml").read_text()
ARCHITECTURES = sorted((REPOSITORY / "specs" / "architectures").glob("*.yaml"))
SMALL = """\
problem: {version: 0.4, shape: cnn-layer, instance: {R: 3, S: 1, P: 4, Q: 2, C: 8, K: 16, N: 1, Wstride: 2}}
"""
TEMPLATE = """\
{% set sizes = [64, 8] %}
variables: {WIDTH: 8, COLUMNS: WIDTH // 2}
ignore_bounds: &bounds {R: 3, P: 1, C: 4, K: {{ k }}, N: 1, Wstride: 1}
problem:
  shape: conv1d
  instance: {<<: *bounds, P: 4, WSTRIDE: 2}
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: WIDTH * 4, datawidth: WIDTH}
    energy: &energy {read: 512, write: 512, leak: 0}
  - !Container
    name: chip
    attributes: {has_power_gating: true, technology: "45nm"}
  - !Hierarchical
    nodes:
    - !Component
      <<: &storage
        class: SRAM
        attributes: &attributes {width: WIDTH, depth: depth_of_all, datawidth: WIDTH}
      name: buffer
      attributes: {<<: *attributes, depth_of_all: {{ sizes[0] }}}
      energy: {<<: *energy, read: 6.25, leak: 0.04}
      constraints:
        dataspace: {keep: [Inputs, Outputs]}
        temporal: &temporal {permutation: [C, R], no_reuse: [Inputs]}
  - !Container
    name: PE
    spatial: {meshX: COLUMNS, meshY: 3}
    constraints:
      spatial:
        factors: [R=1, N=1, ('P=' + str(WIDTH // 8))]
        permutation: [C, K]
        split: 1
        no_reuse: [Inputs]
  - !Parallel
    nodes:
    - !Component
      <<: *storage
      name: weight_spad
      attributes: {<<: *attributes, depth_of_all: {{ sizes[1] }}}
      energy: *energy
      constraints: {dataspace: {keep: [Weights]}, temporal: {factors_only: [C=0]}}
    - !Component
      <<: *storage
      name: output_spad
      attributes: {<<: *attributes, depth_of_all: {{ sizes[1] }}}
      energy: {<<: *energy, update: 2}
      constraints: {dataspace: {keep: [Outputs]}}
    - !Nothing
      constraints: {dataspace: {keep: [Inputs]}}
  - !Component {name: mac, class: intmac, energy: 1.15}
architecture_constraints:
  targets:
  - {target: output_spad, type: temporal, factors: [C=1, R=1], permutation: [P, K]}
  - {target: output_spad, type: temporal, rmw_first_update: [Outputs]}
constraints_II:
- {target: mac, type: utilization, min: 0.05}
"""


SLIDING = """\
problem: {version: 0.4, shape: conv1d, instance: {R: 3, P: 4, C: 1, K: 1, N: 1}}
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 8, datawidth: 8}
    energy: {read: 64, write: 64, leak: 0}
  - !Container
    name: row
    spatial: {meshX: 4}
    constraints: {spatial: {factors: [P=4], no_reuse: []}}
  - !Component
    name: cell
    class: regfile
    attributes: {width: 8, depth: 8, datawidth: 8}
    energy: {read: 1, write: 1, leak: 0}
    constraints: {temporal: {factors: [R=1]}, dataspace: {keep: [Inputs]}}
  - !Component {name: mac, class: intmac, energy: 1}
"""


def round_trip(words, tmp_path):
    """Map, price what was written, and return the written file."""
    found, priced, out = tmp_path / "found.json", tmp_path / "priced.json", tmp_path / "out" / "mapped.yaml"
    out.parent.mkdir()
    quick = ("--factors", "perfect", "--quiet", "--json", str(found))
    assert main(["map", *words, *quick, "--mapped-spec", str(out)]) == 0
    assert main(["evaluate", str(out), "--quiet", "--json", str(priced)]) == 0
    first, second = json.loads(found.read_text()), json.loads(priced.read_text())
    for key in ("energy_pj", "cycles", "edp_pj_cycles", "utilization", "levels", "mapping"):
        assert first[key] == second[key]
    return out


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "spec.yaml.jinja2"
    path.write_text(TEMPLATE)
    return str(path)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda path: path.stem)
def test_shipped_architectures_price_the_same(architecture, tmp_path):
    layer = tmp_path / "layer.yaml"
    layer.write_text(SMALL)
    round_trip([str(architecture), str(layer)], tmp_path)


@pytest.mark.parametrize("options", [[], ["--timeloop-padding"]])
def test_a_template_with_all_that_specs_may_hold_prices_the_same(options, template, tmp_path):
    out = round_trip([template, "--set", "k=6", *options], tmp_path)
    text, _, left_out = out.read_text().partition(LEFT_OUT)
    assert "utilization of mac" in left_out
    assert [mark for mark in ("{{", "{%", "<<", "permutation: [C, R]", "utilization") if mark in text] == []
    assert "depth: depth_of_all" in text
    assert "technology: '45nm'" in text


def test_what_the_front_end_joins_does_not_collide(template, tmp_path):
    """Constraints and mapping share no key but those whose dataspaces are joined one by one."""
    document = load_timeloop([round_trip([template, "--set", "k=6"], tmp_path)]).document
    constrained = {}
    for node in _leaves(to_plain(document.get("architecture"))):
        for kind, keys in node.get("constraints", {}).items():
            constrained.setdefault((node.get("name"), kind), set()).update(keys)
    for target in to_plain(document.get("architecture_constraints"))["targets"]:
        constrained.setdefault((target["target"], target["type"]), set()).update(target)
    mapping = to_plain(document.get("mapping"))
    kinds = {(target["target"], target["type"]) for target in mapping}
    assert len(kinds) == len(mapping)
    shared = [constrained.get((own["target"], own["type"]), set()) & set(own) for own in mapping]
    assert set().union(*shared) == {"keep", "target", "type"}


def _leaves(part):
    for node in part.get("nodes", ()):
        yield node
        yield from _leaves(node)


def test_the_file_is_written_beside_the_mapping(tmp_path):
    whole, mapping = tmp_path / "whole.yaml", tmp_path / "mapping.yaml"
    words = ["map", str(DATA / "row.yaml"), "--quiet", "--mapped-spec", str(whole), "--mapping", str(mapping)]
    assert main(words) == 0
    assert whole.read_text().endswith(mapping.read_text())


def test_stdout_holds_the_file_alone(capsys, tmp_path):
    assert main(["map", str(DATA / "row.yaml"), "--mapped-spec", "-"]) == 0
    path = tmp_path / "out.yaml"
    path.write_text(capsys.readouterr().out)
    assert load_timeloop([path]).mapping is not None


def test_without_a_mapping_nothing_is_written_and_that_is_said_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("solver.stages.drawn", lambda *_: None)
    out = tmp_path / "out.yaml"
    words = ["--quiet", "--time-limit", "0", "--mapped-spec", str(out), "--mapping", str(tmp_path / "m.yaml")]
    assert main(["map", str(DATA / "row.yaml"), *words]) == 5
    assert capsys.readouterr().err == "note: no mapping is written: none was found\n"
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mapped-spec", "{spec}"], "it is one of the inputs"),
        (["--mapped-spec", "-", "--mapping", "-"], "two outputs have the same path"),
        (["--mapped-spec", "{spec}.out", "--json", "{spec}.out"], "two outputs"),
        (["--mapped-spec", "no/such/out.yaml"], "there is no directory"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_the_search(words, message, tmp_path, capsys):
    spec = tmp_path / "spec.yaml"
    spec.write_text(ROW)
    assert main(["map", str(spec), *(word.format(spec=spec) for word in words)]) == 2
    assert message in capsys.readouterr().err
    assert spec.read_text() == ROW


def test_specs_that_cannot_be_written_are_refused_before_the_search(tmp_path, capsys, monkeypatch):
    spec = tmp_path / "spec.yaml.jinja2"
    spec.write_text(ROW.replace("name: conv1d", "name: \"{{ '{' }}{ x\""))
    monkeypatch.setattr("solver.stages.map_einsum", None)
    assert main(["map", str(spec), "--mapped-spec", str(tmp_path / "out.yaml")]) == 2
    assert "would make the text a template" in capsys.readouterr().err


def test_an_output_that_fails_does_not_take_the_other_along(tmp_path, capsys, monkeypatch):
    out, mapping = tmp_path / "out.yaml", tmp_path / "mapping.yaml"

    def failing(path, content):
        if path == mapping:
            raise OSError(28, "No space left on device")
        save(path, content)

    monkeypatch.setattr("solver.cli.output.save", failing)
    words = ["--quiet", "--mapping", str(mapping), "--mapped-spec", str(out)]
    assert main(["map", str(DATA / "row.yaml"), *words]) == 2
    assert f"cannot write {mapping}: No space left" in capsys.readouterr().err
    assert load_timeloop([out]).mapping is not None


@pytest.mark.parametrize("name", ["M", "MM"])
def test_names_that_timeloop_does_not_read_are_noted(name, tmp_path, capsys):
    spec = tmp_path / "row.yaml"
    spec.write_text(re.sub(r"\bM\b", name, ROW))
    assert main(["map", str(spec), "--quiet", "--mapping", str(tmp_path / "mapping.txt")]) == 0
    noted = "names dimension `MM`; Timeloop's programs" in capsys.readouterr().err
    assert noted is (len(name) > 1)


def test_the_file_has_the_prices_of_the_search_where_timeloop_looks_for_them(tmp_path):
    layer = tmp_path / "layer.yaml"
    layer.write_text(SMALL)
    out = round_trip(
        [str(REPOSITORY / "specs" / "architectures" / "eyeriss_like.yaml"), str(layer)], tmp_path
    )
    document = to_plain(load_timeloop([out]).document)
    energies = {
        table["name"]: {action["name"]: action["energy"] for action in table["actions"]}
        for table in document["ERT"]["tables"]
    }
    assert energies["DRAM"] == {"read": 512, "write": 512, "update": 512, "leak": 0}
    assert energies["global_buffer"]["read"] == 42.8801
    assert energies["mac"] == {"compute": 1.67359}
    assert all(type(figure) is float for actions in energies.values() for figure in actions.values())
    assert {table["name"]: table["area"] for table in document["ART"]["tables"]}["global_buffer"] == 505279
    assert "energy: 512.0" in out.read_text()


def test_what_was_left_out_is_noted_when_the_file_is_mapped_again(tmp_path, capsys):
    out, again = tmp_path / "out.yaml", tmp_path / "again.yaml"
    for source, target in ((DATA / "row.yaml", out), (out, again)):
        assert main(["map", str(source), "--quiet", "--mapped-spec", str(target)]) == 0
    capsys.readouterr()
    note = (
        "`--mapped-spec` removed constraints, which the search therefore ignores: `factors of PE (spatial)`"
    )
    for path in (out, again):
        assert main(["map", str(path)]) == 0
        assert note in capsys.readouterr().out
        assert main(["evaluate", str(path)]) == 0
        assert note not in capsys.readouterr().out


def test_link_transfers_are_noted_where_they_save_energy(tmp_path, capsys):
    spec = tmp_path / "spec.yaml"
    spec.write_text(SLIDING)
    assert main(["map", str(spec)]) == 0
    assert "Timeloop counts link transfers by default" in capsys.readouterr().out
    spec.write_text(SLIDING.replace("no_reuse: []", "no_link_transfer: [Inputs, Weights, Outputs]"))
    assert main(["map", str(spec)]) == 0
    assert "link transfers" not in capsys.readouterr().out
