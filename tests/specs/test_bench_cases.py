"""The benchmark's cases cover what they claim, each Einsum once."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from model.formats.timeloop import load_timeloop
from model.problem import Problem
from tests.conftest import REPOSITORY

SPECS = REPOSITORY / "specs"
BENCH = runpy.run_path(str(REPOSITORY / "scripts" / "bench_cases.py"))


def _problem(layer: Path) -> Problem:
    problem = load_timeloop([SPECS / "architectures" / "free_three_level.yaml", layer]).mapspace.problem
    return replace(problem, name="")


def test_layers_are_all_einsums_of_the_networks_without_repetition():
    chosen = [_problem(path) for path in BENCH["layer_paths"]()]
    assert len(set(chosen)) == len(chosen)
    networks = ("resnet18", "vgg16", "mobilenet_v2")
    assert {_problem(path) for name in networks for path in (SPECS / "layers" / name).glob("*.yaml")} <= set(
        chosen
    )


def test_cases_are_named_and_complete():
    cases = BENCH["bench_cases"]()
    assert len({case.name for case in cases}) == len(cases) == 4 * len(BENCH["layer_paths"]())
    assert all(path.is_file() for case in cases for path in case.files)
    assert {"tpu_like/gemm/8192x4096x16384", "eyeriss_like/attention/bert_large_qk"} < {
        case.name for case in cases
    }


def test_cases_are_chosen_by_a_part_of_their_name():
    cases = BENCH["bench_cases"]()
    assert {case.name for case in BENCH["containing"]("tpu_like/gemm/1024", cases)} == {"tpu_like/gemm/1024"}
    with pytest.raises(SystemExit, match="no case's name contains 'resnet19'"):
        BENCH["containing"]("resnet19", cases)
