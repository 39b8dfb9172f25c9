from decimal import Decimal

import pytest

from model.energy import load_tables
from model.energy.given import component_name
from model.text.reader import read_files
from model.text.source import SpecError
from tests.conftest import SHARED

DESIGNS = SHARED / "reference" / "designs" / "example_designs"

ERT = """\
ERT:
  version: '0.4'
  tables:
    - name: system_top_level.buffer[1..4]
      actions:
        - name: read
          arguments: {data_delta: 0}
          energy: 0.1
        - name: read
          arguments: {data_delta: 1}
          energy: 2.50000000000000000001
        - name: read
          arguments: {data_delta: 2}
          energy: 1
        - {name: write, arguments: {}, energy: 3e-05}
"""


def load(parse, text):
    root = parse(text)
    return load_tables(root.get("ERT"), root.get("ART"))


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("system_top_level.shared_glb[1..1]", "shared_glb"),
        ("system.chip.PE[0..15].spad[1..2]", "spad"),
        ("spad", "spad"),
    ],
)
def test_a_table_is_of_the_component_at_the_end_of_its_path(name, component):
    assert component_name(name) == component


def test_the_largest_of_repeated_actions_counts_and_is_exact(parse):
    table = load(parse, ERT).energies["buffer"]
    assert table.actions["read"] == (Decimal("2.50000000000000000001"), "ERT.yaml:11")
    assert table.actions["write"] == (Decimal("0.00003"), "ERT.yaml:15")


def test_without_files_there_are_no_tables():
    tables = load_tables(None, None)
    assert tables.energies == {}
    assert tables.ert_span is None


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("energy: 0.1", "energy: cheap", "the energy of `read` must be a number", 8),
        ("energy: 0.1", "energy: true", "the energy of `read` must be a number", 8),
        ("energy: 0.1", "energy: -0.1", "must not be negative", 8),
        ("energy: 0.1", "energy: .inf", "must be finite", 8),
        ("energy: 0.1", "enrgy: 0.1", "unknown key `enrgy`", 8),
        ("tables:", "table:", "unknown key `table`", 3),
        ("          energy: 0.1\n", "", "is missing the key `energy`", 6),
        ("- name: system_top_level.buffer[1..4]\n      ", "- ", "is missing the key `name`", 4),
    ],
)
def test_malformed_tables_are_refused_at_their_place(parse, old, new, message, line):
    assert old in ERT
    with pytest.raises(SpecError) as caught:
        load(parse, ERT.replace(old, new, 1))
    assert message in caught.value.message
    assert caught.value.span.line == line


def test_two_tables_of_one_component_are_refused_with_both_places(parse):
    second = "    - {name: other.buffer, actions: []}\n"
    with pytest.raises(SpecError, match="two tables for the component `buffer`") as caught:
        load(parse, ERT + second)
    assert caught.value.span.line == 16
    assert caught.value.related[0][0].line == 4


def test_areas_come_from_the_art(parse):
    tables = load(parse, "ART: {version: 0.4, tables: [{name: top.buffer, area: 12.5}]}\n")
    assert tables.areas == {"buffer": (Decimal("12.5"), "ERT.yaml:1")}


@pytest.mark.parametrize("design", ["eyeriss_like", "simple_output_stationary"])
def test_the_reference_designs_tables_load_as_they_stand(design):
    folder = DESIGNS / design
    if not folder.is_dir():
        pytest.skip("the reference designs under ../shared are absent")
    root = read_files([folder / "ERT.yaml", folder / "ART.yaml"])
    tables = load_tables(root.get("ERT"), root.get("ART"))
    assert tables.energies["DRAM"].actions["read"][0] == Decimal("512.0")
    assert {"shared_glb", "mac"} <= tables.energies.keys() <= tables.areas.keys()
    assert all({"leak", "compute"} >= set(table.actions) for table in [tables.energies["mac"]])
