"""The benchmark's cases: shipped architectures by unique shipped layers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import yaml

from model.extents import PERFECT, Factors
from model.formats.timeloop import LoadOptions, load_timeloop
from model.mapspace import Mapspace

SPECS = Path(__file__).resolve().parent.parent / "specs"
ARCHITECTURES = ("eyeriss_like", "simba_like", "tpu_like", "free_three_level")
NETWORKS = ("resnet18", "vgg16", "mobilenet_v2")
SINGLE_LAYERS = (
    "gemm/1024",
    "gemm/4096",
    "gemm/8192x4096x16384",
    "attention/bert_large_qk",
)


GEMM, CONVOLUTION, DEPTHWISE = "gemm/1024", "resnet18/02_conv2_block1_a", "mobilenet_v2/50_block17_depthwise"
AWKWARD: dict[str, tuple[str, dict[str, int]]] = {
    "gemm_127": (GEMM, {"P": 127, "C": 127, "K": 127}),
    "vit_projection": (GEMM, {"P": 197, "C": 768, "K": 768}),
    "vocabulary_50257": (GEMM, {"P": 16, "C": 768, "K": 50257}),
    "whisper_1500": (GEMM, {"P": 1500, "C": 512, "K": 512}),
    "gemm_257x4099": (GEMM, {"P": 257, "C": 4099, "K": 257}),
    "vit_attention": (GEMM, {"P": 197, "C": 64, "K": 197}),
    "whisper_attention": (GEMM, {"P": 1500, "C": 64, "K": 1500}),
    "alexnet_55": (CONVOLUTION, {"R": 11, "S": 11, "P": 55, "Q": 55, "C": 3, "K": 96}),
    "alexnet_27": (CONVOLUTION, {"R": 5, "S": 5, "P": 27, "Q": 27, "C": 48, "K": 256}),
    "alexnet_13": (CONVOLUTION, {"P": 13, "Q": 13, "C": 256, "K": 384}),
    "resnet_28": (CONVOLUTION, {"P": 28, "Q": 28, "C": 128, "K": 128}),
    "resnet_14": (CONVOLUTION, {"P": 14, "Q": 14, "C": 256, "K": 256}),
    "resnet_7": (CONVOLUTION, {"P": 7, "Q": 7, "C": 512, "K": 512}),
    "depthwise_7": (DEPTHWISE, {}),
}
"""Shapes whose bounds have few divisors: a layer that ships, and the bounds of it that differ."""


class Case(NamedTuple):
    """One run: ``architecture/layer``, the files to map together, and bounds that differ from theirs."""

    name: str
    files: list[Path]
    bounds: dict[str, int] = {}  # noqa: RUF012 (never changed)

    def mapspace(self, factors: Factors = PERFECT) -> Mapspace:
        """Read the files; factors are divisors unless benchmarks ask for more."""
        found = load_timeloop(self.files, options=LoadOptions(factors=factors)).mapspace
        bounds = tuple(self.bounds.get(dim, bound) for dim, bound in found.problem.bound.items())
        return replace(found, problem=replace(found.problem, bounds=bounds)) if self.bounds else found


def awkward_cases() -> list[Case]:
    """Every architecture by every awkward shape."""
    return [
        Case(
            f"{architecture}/awkward/{name}", _files(architecture, SPECS / "layers" / f"{layer}.yaml"), bounds
        )
        for architecture in ARCHITECTURES
        for name, (layer, bounds) in AWKWARD.items()
    ]


def _files(architecture: str, layer: Path) -> list[Path]:
    return [SPECS / "architectures" / f"{architecture}.yaml", layer]


def layer_paths() -> list[Path]:
    """The benchmark's layer files; of several with the same Einsum only the first."""
    paths = [path for network in NETWORKS for path in sorted((SPECS / "layers" / network).glob("*.yaml"))]
    paths += [SPECS / "layers" / f"{layer}.yaml" for layer in SINGLE_LAYERS]
    unique: dict[str, Path] = {}
    for path in paths:
        unique.setdefault(_einsum(path), path)
    return list(unique.values())


def _einsum(path: Path) -> str:
    problem = yaml.safe_load(path.read_text(encoding="utf-8"))["problem"]
    return f"{problem['shape']} {sorted(problem['instance'].items())}"


def bench_cases() -> list[Case]:
    """Every architecture by every unique layer, architecture by architecture."""
    return cases(ARCHITECTURES, layer_paths())


def containing(text: str, found: Sequence[Case]) -> list[Case]:
    """The cases whose name contains `text`; the program ends where there is none."""
    chosen = [case for case in found if text in case.name]
    if not chosen:
        sys.exit(f"error: no case's name contains {text!r}; the first one is {found[0].name}")
    return chosen


def cases(architectures: Sequence[str], layers: Sequence[Path]) -> list[Case]:
    """Every one of `architectures` by every layer, architecture by architecture."""
    return [
        Case(
            f"{architecture}/{layer.parent.name}/{layer.stem}",
            _files(architecture, layer),
        )
        for architecture in architectures
        for layer in layers
    ]
