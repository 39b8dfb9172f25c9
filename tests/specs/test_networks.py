"""The shipped networks against published facts about them."""

import math
import runpy
from fractions import Fraction

import pytest

from model.assignment import ConvolutionShape, price_network
from model.formats.assignment import load_assignment
from solver.assignment import assign
from solver.result import Status
from tests.conftest import REPOSITORY

NETWORKS = REPOSITORY / "specs" / "networks"


def test_shipped_files_are_what_the_generator_writes():
    generator = runpy.run_path(str(REPOSITORY / "scripts" / "generate_networks.py"))
    shipped = {path.name: path.read_text(encoding="utf-8") for path in NETWORKS.glob("*.yaml")}
    assert shipped == generator["network_files"]()


def load(name):
    return load_assignment([NETWORKS / f"{name}.yaml"])


# GoogLeNet: 1.5 billion multiply-adds, and 6.99 million weights (Szegedy et al. 2015 round up their tables
# per stage). ResNet-50: 3.8 billion (He et al. 2015); 25,557,032 parameters less 53,120 of normalisation
# and 1,000 biases. ResNet-18: 1.8 billion; 11,689,512 parameters less 9,600 and 1,000.
@pytest.mark.parametrize(
    ("name", "convolutions", "billions", "weights"),
    [
        ("googlenet", 58, 1.58, 6_990_272),
        ("resnet18", 21, 1.81, 11_678_912),
        ("resnet50", 54, 3.86, 25_502_912),
    ],
)
def test_networks_have_their_published_size(name, convolutions, billions, weights):
    shapes = [layer.shape for layer in load(name).shaped.layers if isinstance(layer.shape, ConvolutionShape)]
    sizes = [shape.in_channels * shape.out_channels * shape.window for shape in shapes]
    computes = sum(size * shape.positions for size, shape in zip(sizes, shapes, strict=True))
    assert len(shapes) == convolutions
    assert sum(sizes) == weights
    assert round(computes / 1e9, 2) == billions


@pytest.mark.parametrize("name", ["googlenet", "resnet18", "resnet50", "inception_3a", "chain_1000"])
def test_channels_fit_along_all_edges(name):
    """What arrives at a layer is what it takes in; into a concatenation, the branches add up."""
    shaped = load(name).shaped
    arriving = {position: [] for position in range(len(shaped.layers))}
    for edge in shaped.edges:
        source, target = (shaped.layers[end].shape for end in (edge.source, edge.target))
        produced = source.out_channels if isinstance(source, ConvolutionShape) else source.channels
        consumed = target.in_channels if isinstance(target, ConvolutionShape) else target.channels
        assert produced == consumed or not isinstance(target, ConvolutionShape)
        arriving[edge.target].append(produced)
    for position, produced in arriving.items():
        shape = shaped.layers[position].shape
        if len(produced) > 1 and "concat" in shaped.layers[position].name:
            assert sum(produced) == shape.channels
        elif produced and not isinstance(shape, ConvolutionShape):
            assert set(produced) == {shape.channels}


@pytest.mark.parametrize(
    ("name", "total_ms"),
    [
        ("inception_3a", "0.156556"),
        ("googlenet", None),
        ("resnet18", None),
        ("resnet50", None),
        ("chain_1000", None),
    ],
)
def test_networks_are_assigned(name, total_ms):
    loaded = load(name)
    result = assign(price_network(loaded.shaped, loaded.hardware.model, *loaded.hardware.array))
    assert result.status is Status.OPTIMAL
    assert len(result.best.choice) == len(loaded.shaped.layers)
    naive = [policy.total for policy in result.policies]
    assert result.total <= min(naive)
    assert result.margin >= 0
    if total_ms is not None:
        assert result.in_unit(result.total) == Fraction(total_ms)


def test_inception_modules_are_the_nine_of_the_paper():
    names = {layer.name.split("_")[0] for layer in load("googlenet").shaped.layers if "concat" in layer.name}
    assert sorted(names) == ["3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"]
    sides = [math.isqrt(layer.shape.height * layer.shape.width) for layer in load("googlenet").shaped.layers]
    assert min(sides) == 1
