"""The shipped layers against published facts about the networks."""

import math
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY

LAYERS = REPOSITORY / "specs" / "layers"
SHAPES = REPOSITORY / "specs" / "problem-shapes"


def _problem(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))["problem"]


def _layers(network: str) -> list[dict]:
    return [_problem(path) for path in sorted((LAYERS / network).glob("*.yaml"))]


def _dimensions(layer: dict, dataspace: str | None = None) -> dict[str, int]:
    shape = _problem(SHAPES / f"{layer['shape']}.yaml")["shape"]
    names = shape["dimensions"]
    if dataspace is not None:
        space = next(s for s in shape["data_spaces"] if s["name"] == dataspace)
        names = [term[0] for rank in space["projection"] for term in rank]
    return {name: layer["instance"][name] for name in names}


def _computes(layer: dict) -> int:
    return math.prod(_dimensions(layer).values())


def _words(layer: dict, dataspace: str) -> int:
    """Size of a dataspace without sliding windows."""
    return math.prod(_dimensions(layer, dataspace).values())


def test_shipped_files_are_what_the_generator_writes():
    generator = runpy.run_path(str(REPOSITORY / "scripts" / "generate_layers.py"))
    shipped = {
        path.relative_to(LAYERS).as_posix(): path.read_text(encoding="utf-8")
        for path in LAYERS.rglob("*.yaml")
    }
    assert shipped == generator["layer_files"]()


# Multiply-accumulates as published: AlexNet 724 M, VGG16 15.5 G (Sze et al., Proc. IEEE 2017), ResNet-18
# 1.8 G (He et al.), MobileNetV2 300 M (Sandler et al.); the digits behind follow from the layers' sizes.
# Weights are the reference implementations' parameters (AlexNet 60,965,224; VGG16 138,357,544; ResNet-18
# 11,689,512; MobileNetV2 3,504,872; 12 d_model^2 in a GPT-3 block) less biases and normalisation
# (10,568; 13,416; 10,600; 35,112).
@pytest.mark.parametrize(
    ("network", "layers", "computes", "weights"),
    [
        ("alexnet", 8, 724_406_816, 60_954_656),
        ("vgg16", 16, 15_470_264_320, 138_344_128),
        ("resnet18", 21, 1_814_073_344, 11_678_912),
        ("mobilenet_v2", 53, 300_774_272, 3_469_760),
    ],
)
def test_networks_have_their_published_size(network, layers, computes, weights):
    found = _layers(network)
    assert len(found) == layers
    assert sum(map(_computes, found)) == computes
    assert sum(_words(layer, "Weights") for layer in found) == weights


def test_gpt3_block_has_its_published_size():
    layers = {path.stem: _problem(path) for path in (LAYERS / "gpt3_6.7b").glob("*.yaml")}
    attention = {name: layers.pop(name) for name in ("04_scores", "05_context")}
    assert sum(_words(layer, "Weights") for layer in layers.values()) == 12 * 4096**2
    assert sum(map(_computes, layers.values())) == 2048 * 12 * 4096**2
    assert [_computes(layer) for layer in attention.values()] == [32 * 2048**2 * 128] * 2
    assert _words(attention["04_scores"], "Outputs") == _words(attention["05_context"], "Inputs")


@pytest.mark.parametrize("network", ["alexnet", "vgg16", "resnet18", "mobilenet_v2"])
def test_channels_of_successive_layers_fit(network):
    shortcuts = [path.stem for path in (LAYERS / network).glob("*shortcut*")]
    layers = [
        _problem(path)["instance"]
        for path in sorted((LAYERS / network).glob("*.yaml"))
        if path.stem not in shortcuts
    ]
    for before, after in pairwise(layers):
        produced = before.get("K", 1) * before.get("G", 1)
        consumed = after.get("C", 1) * after.get("G", 1)
        pooled = consumed // produced if consumed % produced == 0 else 0
        assert pooled == 1 or (after["P"] == 1 and pooled == math.isqrt(pooled) ** 2)


def test_gemm_files_are_named_after_their_sizes():
    sizes = {path.stem: _problem(path)["instance"] for path in (LAYERS / "gemm").glob("*.yaml")}
    assert {name: (size["P"], size["K"], size["C"]) for name, size in sizes.items()} == {
        "1024": (1024, 1024, 1024),
        "4096": (4096, 4096, 4096),
        "8192x4096x16384": (8192, 4096, 16384),
    }


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_shape_is_named_after_its_file(path):
    assert _problem(path)["shape"]["name"] == path.stem
