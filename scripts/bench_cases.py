"""The benchmark's cases: shipped architectures by unique shipped layers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

SPECS = Path(__file__).resolve().parent.parent / "specs"
ARCHITECTURES = ("eyeriss_like", "simba_like", "tpu_like", "free_three_level")
NETWORKS = ("resnet18", "vgg16", "mobilenet_v2")
SINGLE_LAYERS = (
    "gemm/1024",
    "gemm/4096",
    "gemm/8192x4096x16384",
    "attention/bert_large_qk",
)


class Case(NamedTuple):
    """One run: ``architecture/layer``, and the files to map together."""

    name: str
    files: list[Path]


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
            [SPECS / "architectures" / f"{architecture}.yaml", layer],
        )
        for architecture in architectures
        for layer in layers
    ]
