"""The combinations of a sweep: their order, their names, and the places of errors."""

from pathlib import Path

import pytest

from model.formats.cascade.loader import load_variants
from model.formats.timeloop.overrides import parse_setting
from model.text.source import SpecError
from tests.small_network import ARCHITECTURE, WORKLOAD


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in {
        "w.yaml": WORKLOAD,
        "v.yaml": WORKLOAD.replace("L: 2", "L: 1"),
        "a.yaml": ARCHITECTURE,
        "b.yaml": ARCHITECTURE.replace("depth: 12", "depth: 24"),
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_combination_in_order(files: Path):
    own = load_variants(
        [],
        [files / "w.yaml", files / "v.yaml"],
        [files / "a.yaml", files / "b.yaml"],
        [parse_setting("buffer.depth=6,8"), parse_setting("PE.meshX=2,4")],
    )
    assert len(own) == 16
    assert [(v.workload, v.architecture) for v in own[::4]] == [
        ("w", "a"),
        ("w", "b"),
        ("v", "a"),
        ("v", "b"),
    ]
    assert [tuple(value for _, value in v.settings) for v in own[:4]] == [
        ("6", "2"),
        ("6", "4"),
        ("8", "2"),
        ("8", "4"),
    ]
    for variant in own:
        depth, mesh = (int(value) for _, value in variant.settings)
        architecture = variant.network.layers[1].mapspace.architecture
        assert architecture.levels[1].size_words == 2 * depth
        assert architecture.compute_instances == mesh
        assert variant.network.layers[2].mapspace.problem.bound["l"] == (2 if variant.workload == "w" else 1)


def test_variables_that_no_alternative_uses_are_noted_once(files: Path):
    text = WORKLOAD.replace("L: 2", "L: {{ long }}")
    (files / "w.yaml").write_text(text, encoding="utf-8")
    workloads = [files / "w.yaml", files / "v.yaml"]
    own = load_variants([files / "a.yaml"], workloads, variables={"long": 2, "lang": 2})
    notes = [note.text for variant in own for note in variant.network.notes if "variable" in note.text]
    assert notes == ["no template uses the variable `lang`; did you mean `long`?"]


def test_without_alternatives_there_is_one_variant(files: Path):
    (own,) = load_variants([files / "w.yaml", files / "a.yaml"])
    assert (own.workload, own.architecture, own.settings) == ("w", "PE", ())


def test_files_of_one_name_are_told_apart_by_their_paths(files: Path):
    other = files / "other"
    other.mkdir()
    (other / "a.yaml").write_text(ARCHITECTURE, encoding="utf-8")
    paths = [files / "a.yaml", other / "a.yaml", files / "b.yaml"]
    own = load_variants([files / "w.yaml"], architectures=paths)
    assert [variant.architecture for variant in own] == [str(paths[0]), str(paths[1]), "b"]


def test_a_directory_is_one_architecture(files: Path):
    inside = files / "design"
    inside.mkdir()
    (inside / "a.yaml").write_text(ARCHITECTURE.replace("energy: {compute: 1}", ""), encoding="utf-8")
    (inside / "ert.yaml").write_text(
        "ERT: {version: 0.4, tables: [{name: mac, actions: [{name: compute, energy: 5}]}]}\n",
        encoding="utf-8",
    )
    (own,) = load_variants([files / "w.yaml"], architectures=[inside])
    architecture = own.network.layers[1].mapspace.architecture
    assert architecture.compute.energy == 5 * architecture.units_per_pj
    assert own.architecture == "design"


def test_an_error_names_the_values_at_which_it_is_met(files: Path):
    settings = [parse_setting("DRAM.depth=1000,0"), parse_setting("PE.meshX=2,4")]
    with pytest.raises(SpecError, match="depth") as raised:
        load_variants([files / "w.yaml", files / "a.yaml"], settings=settings)
    assert "DRAM.depth=1000,0" in raised.value.render()


def test_an_error_names_the_alternative_at_which_it_is_met(files: Path):
    (files / "b.yaml").write_text(ARCHITECTURE.replace("name: buffer", "name: cache"), encoding="utf-8")
    architectures, settings = [files / "a.yaml", files / "b.yaml"], [parse_setting("buffer.depth=6")]
    with pytest.raises(SpecError, match=r"has no node `buffer` \(at b\)"):
        load_variants([files / "w.yaml"], architectures=architectures, settings=settings)


def test_an_attribute_is_set_once(files: Path):
    settings = [parse_setting("buffer.depth=6"), parse_setting("buffer.depth=8")]
    with pytest.raises(SpecError, match=r"`buffer\.depth` is set twice"):
        load_variants([files / "w.yaml", files / "a.yaml"], settings=settings)


def test_too_many_points_are_refused_before_any_is_read(files: Path):
    values = ",".join(map(str, range(1, 102)))
    settings = [parse_setting(f"buffer.depth={values}"), parse_setting(f"PE.meshX={values}")]
    with pytest.raises(SpecError, match="a sweep over 10,201 points; at most 10,000"):
        load_variants([files / "absent.yaml"], settings=settings)


def test_names_of_files_that_a_terminal_would_act_upon(files: Path):
    """Two of them look alike once they are printable."""
    workloads = [files / "w\x1b[31m.yaml", files / "w\x9b[31m.yaml"]
    for path in workloads:
        path.write_text(WORKLOAD, encoding="utf-8")
    variants = load_variants([files / "a.yaml"], workloads)
    names = [variant.workload for variant in variants]
    assert names == ["w\N{REPLACEMENT CHARACTER}[31m#1", "w\N{REPLACEMENT CHARACTER}[31m#2"]
    assert all(variant.network.name.isprintable() for variant in variants)
