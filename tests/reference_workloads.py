"""The workload files of AccelForge's users in ``reference/workloads``."""

from pathlib import Path

import pytest

from tests.conftest import SHARED

WORKLOADS = SHARED / "reference" / "workloads"

EINSUMS = {
    "basic/matmuls.yaml": 3,
    "basic/matvecs.yaml": 2,
    "basic/three_matmuls_annotated.yaml": 3,
    "cnns/mobilenet/mobilenet_28.yaml": 6,
    "compute_in_memory/resnet18.yaml": 21,
    "compute_in_memory/vgg16.yaml": 16,
    "transformers/_attention_decode_types/grouped_query.yaml": 8,
    "transformers/_attention_decode_types/grouped_query_chunked.yaml": 9,
    "transformers/_attention_decode_types/multi_head.yaml": 8,
    "transformers/_attention_decode_types/multi_head_latent.yaml": 10,
    "transformers/_feedforward_types/dense_two_layer.yaml": 2,
    "transformers/_feedforward_types/gated_linear_unit.yaml": 4,
    "transformers/_feedforward_types/mixture_of_experts.yaml": 6,
    "transformers/_feedforward_types/mixture_of_experts_shared.yaml": 11,
    "transformers/gpt/_gpt3.yaml": 10,
    "transformers/gpt/gpt3_175B.yaml": 10,
    "transformers/gpt/gpt3_6.7B.yaml": 10,
}
"""How many Einsums each file has."""

FED_FROM_OUTSIDE = {
    "dense_two_layer.yaml": ["FFA"],
    "gated_linear_unit.yaml": ["FFG", "FFU"],
    "mixture_of_experts_shared.yaml": ["SFG", "SFU"],
}
"""Fragments, and those of their Einsums that another file feeds."""


def workload_file(name: str) -> Path:
    """Path of a file; skips the test where the files are absent."""
    path = WORKLOADS / name
    if not path.exists():
        pytest.skip("../shared is absent")
    return path
