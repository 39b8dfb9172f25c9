"""Shipped architectures and problems together: what loads, and that it can be mapped."""

from collections.abc import Mapping as MappingType
from pathlib import Path

import pytest
import yaml

from model.architecture import Architecture, Fanout
from model.cost import Evaluation, evaluate
from model.formats.timeloop import load_timeloop
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.text.source import SpecError
from tests.conftest import REPOSITORY

SPECS = REPOSITORY / "specs"
ARCHITECTURES = sorted((SPECS / "architectures").glob("*.yaml"))
LAYERS = sorted((SPECS / "layers").rglob("*.yaml"))
PROBLEMS = sorted((SPECS / "problems").glob("*.yaml"))


def _load(architecture: str | Path, problem: str | Path, has_note: bool = False) -> Mapspace:
    files = [SPECS / "architectures" / f"{Path(architecture).stem}.yaml", SPECS / problem]
    loaded = load_timeloop(files)
    assert [note.text.startswith("the problem has no dimensions") for note in loaded.notes] == [
        True
    ] * has_note
    return loaded.mapspace


def _spread(architecture: Architecture, spatial: MappingType[str, str]) -> list[FanoutMapping]:
    """Spatial loops by fanout name, written ``K=4 C=2``, each along the only axis of its fanout."""
    return [
        FanoutMapping(
            tuple(
                SpatialLoop(dim, int(bound), "x" if fanout.mesh_x > 1 else "y")
                for dim, bound in (part.split("=") for part in spatial.get(fanout.name, "").split())
            )
        )
        for fanout in architecture.fanouts
    ]


def _evaluate_from_outermost(mapspace: Mapspace, spatial: MappingType[str, str]) -> Evaluation:
    """Price the mapping with the given spatial loops and all others around everything on chip."""
    problem, architecture = mapspace.problem, mapspace.architecture
    fanouts = _spread(architecture, spatial)
    left = dict(problem.bound)
    for fanout, rules in zip(fanouts, mapspace.spatial, strict=True):
        bounds = dict.fromkeys(left, 1) | {loop.dim: loop.bound for loop in fanout.spatial}
        assert all(rule.allows(bounds[rule.dim]) for rule in rules.factors)
        for dim, bound in bounds.items():
            assert left[dim] % bound == 0
            left[dim] //= bound
    outermost, *inner = mapspace.temporal
    assert not outermost.factors
    assert all(rule.allows(1) for rules in inner for rule in rules.factors)
    storages = [StorageMapping(keep=rules.keep) for rules in mapspace.keep]
    storages[0] = StorageMapping(
        tuple(Loop(dim, bound) for dim, bound in left.items()), mapspace.keep[0].keep
    )
    nodes = [fanouts.pop(0) if isinstance(node, Fanout) else storages.pop(0) for node in architecture.nodes]
    return evaluate(problem, architecture, Mapping(tuple(nodes)))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda path: path.stem)
def test_every_layer_loads_and_has_a_mapping_on_every_architecture(architecture):
    for layer in LAYERS:
        evaluation = _evaluate_from_outermost(_load(architecture, layer), {})
        assert evaluation.violations == (), layer
        assert evaluation.compute_instances == 1


@pytest.mark.parametrize(
    ("architecture", "layer", "spatial", "used"),
    [
        ("eyeriss_like", "resnet18/02_conv2_block1_a", {"PE_column": "P=14", "PE": "R=3 C=4"}, 168),
        ("eyeriss_like", "mobilenet_v2/05_block02_depthwise", {"PE_column": "P=14", "PE": "R=3 G=4"}, 168),
        ("eyeriss_like", "alexnet/06_fc6", {"PE_column": "K=8", "PE": "C=12"}, 96),
        (
            "simba_like",
            "vgg16/08_conv4_1",
            {"PE_column": "K=4", "PE": "C=4", "vector_mac": "K=8", "lane": "C=8"},
            1024,
        ),
        ("weight_stationary", "gpt3_6.7b/01_query", {"column": "K=16", "PE": "C=16"}, 256),
        ("output_stationary", "gpt3_6.7b/04_scores", {"column": "K=16", "PE": "P=16"}, 256),
        ("tpu_like", "gemm/4096", {"column": "K=256", "cell": "C=256"}, 65536),
    ],
)
def test_arrays_fill_as_their_dataflow_says(architecture, layer, spatial, used):
    mapspace = _load(architecture, f"layers/{layer}.yaml")
    evaluation = _evaluate_from_outermost(mapspace, spatial)
    assert evaluation.violations == ()
    assert evaluation.compute_instances == used


@pytest.mark.parametrize(
    ("architecture", "fanout", "forbidden"),
    [
        ("eyeriss_like", "PE_column", {"R", "S", "Q"}),
        ("eyeriss_like", "PE", {"S", "P", "Q", "N"}),
        ("weight_stationary", "column", {"R", "S", "P", "Q", "C", "N"}),
        ("weight_stationary", "PE", {"P", "Q", "K", "N"}),
        ("output_stationary", "column", {"R", "S", "P", "Q", "C", "N"}),
        ("output_stationary", "PE", {"R", "S", "C", "K"}),
    ],
)
def test_axes_are_closed_to_what_their_wires_cannot_carry(architecture, fanout, forbidden):
    mapspace = _load(architecture, "layers/vgg16/08_conv4_1.yaml")
    names = [node.name for node in mapspace.architecture.fanouts]
    rules = mapspace.spatial[names.index(fanout)].factors
    assert {rule.dim for rule in rules if not rule.allows(2)} == forbidden


def _refused(architecture: Path, problem: Path) -> bool:
    """Whether specs/README.md says that the two do not go together."""
    return problem.stem == "mttkrp" and architecture.stem != "free_three_level"


def _lacks_dimensions(architecture: Path, problem: Path) -> bool:
    """Whether specs/README.md says that constraints of the architecture have no effect on the problem."""
    return architecture.stem == "eyeriss_like" and problem.stem != "dilated_conv"


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda path: path.stem)
def test_problems_under_their_usual_names_load_where_documented(architecture, problem):
    if _refused(architecture, problem):
        with pytest.raises(SpecError, match=r"unknown (dimension|dataspace)"):
            _load(architecture, problem)
        return
    mapspace = _load(architecture, problem, _lacks_dimensions(architecture, problem))
    assert _evaluate_from_outermost(mapspace, {}).violations == ()


def test_every_shape_is_used():
    used = {path.stem for path in (SPECS / "problem-shapes").glob("*.yaml")}
    texts = (path.read_text(encoding="utf-8") for path in [*LAYERS, *PROBLEMS])
    named = {yaml.safe_load(text)["problem"]["shape"] for text in texts}
    assert named == used
