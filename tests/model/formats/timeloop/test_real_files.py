from dataclasses import replace
from pathlib import Path

import pytest

from model.architecture import Fanout
from model.formats.timeloop import LoadedSpec, load_timeloop
from model.formats.timeloop.mapped import mapped_spec
from model.text.writing import spec_text
from tests.conftest import SHARED

DESIGNS = SHARED / "reference" / "designs"
EXAMPLES = DESIGNS / "example_designs"
LAYERS = sorted((DESIGNS / "layer_shapes").glob("*/*.yaml"))
ARCHITECTURES = ("eyeriss_like", "simple_output_stationary")


def load_design(name: str, problem: str | Path | None = None) -> LoadedSpec:
    if not DESIGNS.is_dir():
        pytest.skip("../shared is absent")
    variables: dict[str, object] = {"architecture": name}
    if problem is not None:
        variables["problem"] = str(problem)
    paths = [EXAMPLES / "top.yaml.jinja2", EXAMPLES / name / "ERT.yaml", EXAMPLES / name / "ART.yaml"]
    return load_timeloop(paths, variables)


def test_a_row_stationary_design():
    arch = load_design("eyeriss_like").mapspace.architecture
    meshes = [(node.name, node.mesh_x, node.mesh_y) for node in arch.nodes if isinstance(node, Fanout)]
    assert [node.name for node in arch.nodes] == [
        "DRAM",
        "shared_glb",
        "PE_column",
        "PE",
        "ifmap_spad",
        "weights_spad",
        "psum_spad",
    ]
    assert meshes == [("PE_column", 14, 1), ("PE", 1, 12)]
    assert [level.size_words for level in arch.levels] == [None, 131072, 24, 384, 16]
    assert arch.compute_instances == 168
    assert arch.levels[1].energy.read == int(18.1838 * 10**4) * arch.units_per_pj // 10**4
    assert arch.levels[1].area_um2 == 217363.0


def test_an_output_stationary_design():
    mapspace = load_design("simple_output_stationary").mapspace
    assert mapspace.architecture.compute_instances == 256
    assert mapspace.spatial[0].inner == ("C", "M")
    assert mapspace.spatial[0].split == 1
    assert mapspace.spatial[0].uncounted == {"R", "S", "P", "Q", "N"}
    assert len(mapspace.parallel) == 1
    assert any("--timeloop-padding" in note.text for note in mapspace.notes)


@pytest.mark.parametrize(("number", "architecture"), list(enumerate(ARCHITECTURES)))
def test_all_layers_load(number, architecture):
    """Each on one of the architectures."""
    for layer in LAYERS[number::2] or [None]:
        loaded = load_design(architecture, layer)
        assert loaded.mapspace.objectives == ("edp",)
        strided = layer is not None and "HStride" in layer.read_text(encoding="utf-8")
        assert any("is read as `Hstride`" in note.text for note in loaded.notes) == strided


def test_the_stride_is_the_one_that_the_author_meant():
    problem = load_design("eyeriss_like", "../layer_shapes/resnet18/00.yaml").mapspace.problem
    assert {t.dim: t.coefficient for t in problem.dataspace("Inputs").ranks[2]} == {"R": 1, "P": 2}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_file_says_the_same(architecture, tmp_path):
    """Also where the stride that was meant has a name that Timeloop does not read."""
    loaded = load_design(architecture, "../layer_shapes/resnet18/00.yaml")
    path = tmp_path / "design.yaml"
    path.write_text(spec_text(mapped_spec(loaded)), encoding="utf-8")
    again = load_timeloop([path])
    assert not any("is read as" in note.text for note in again.notes)
    # A shape without a name is called as its file is.
    assert replace(again.mapspace.problem, name="") == replace(loaded.mapspace.problem, name="")
    first, second = loaded.mapspace.architecture, again.mapspace.architecture
    assert first.compute_instances == second.compute_instances
    for before, after in zip(first.levels, second.levels, strict=True):
        assert (before.name, before.size_words) == (after.name, after.size_words)
        assert (before.energy.read, before.energy.fill) == (after.energy.read, after.energy.fill)
