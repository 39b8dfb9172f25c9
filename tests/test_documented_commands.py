"""The commands of the documentation: their options exist, and they run on small inputs."""

import argparse
import importlib
import re
import shlex
import shutil
import sys

import pytest

from solver.cli.arguments import parse_arguments
from solver.cli.main import main
from tests.conftest import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"
sys.path.insert(0, str(SCRIPTS))

import check_docs  # noqa: E402 (a script)

COMMANDS = check_docs.documented()
SMALLER = {
    r"specs/layers/resnet18 (?=specs/sparse)": "sparse_layers ",
    r"(?<!gating\.yaml )specs/layers/\w+/\S+\.yaml": "layers/layer.yaml",
    r"specs/layers/\w+(?= |$)": "layers",
    r"(?<=gemm_array\.yaml )(.*)": r"\1 --gap 20%",
    r"specs/workloads/\w+\.yaml": "workload.yaml",
    r"specs/networks/\w+\.yaml(?=.*--methods)": "network.yaml",
    r"=(16384|1024|128)\b": "=8",
    r"100Mi": "1Ki",
    r"N_TOKENS=\d+": "N_TOKENS=16",
    r"(?<=gpt3\.yaml nvdla\.yaml --fuse)": " --max-fused-loops 1",
    r" --mapper module:Class": "",
    r" --budget \S+": "",
    r"^(?=tilewright compare)(.*)": r"\1 --budget 0.05",
    r"^(?:\S*python scripts/prove.py)": "tilewright prove",
    r"^(tilewright (map|network|sweep|prove (?!.*json)) ?(?!.*--factors).*)": r"\1 --factors perfect",
}
"""What takes long, and what takes its place here."""
LAYER = "problem: {version: 0.4, shape: cnn-layer, instance: {R: 1, S: 3, P: 4, Q: 1, C: 2, K: 8, N: 1}}\n"
SPEC = "specs/architectures/weight_stationary.yaml layers/layer.yaml"
PREPARED = {
    "docs/fusion.md": (
        "network workload.yaml specs/architectures/tpu_like.yaml --fuse --factors perfect "
        "--fused-mapping FUSED.yaml",
    ),
    "docs/reports.md": tuple(f"map {SPEC} --json {name}.json" for name in ("RESULT", "A", "B")),
    "docs/sparse.md": ("map arch.yaml problem.yaml --factors perfect --mapping mapping.yaml",),
    "docs/timeloop.md": (f"map {SPEC} --mapped-spec OUT",),
}
"""What readers of these pages have done before."""
NOT_HERE = "a script", "Timeloop's exercises", "an ONNX model", "the contest", "a cluster"
"""Reasons for not running a command that hold here, too."""


class Parsed(Exception):
    """Ends a script once it has read its options."""


def test_there_are_commands():
    pages = {command.page for command in COMMANDS}
    assert {
        "README.md",
        "specs/README.md",
        "docs/command-line.md",
        "docs/sweep.md",
        "docs/sparse.md",
    } <= pages
    assert len(COMMANDS) > 90
    assert sum(bool(command.shown) for command in COMMANDS) > 8


def test_a_line_that_is_not_printed_is_found():
    shown = ("OPTIMAL edp 8.0062e10, 2 mappings evaluated, 0.2 s", "DRAM   11.485 uJ", "random  5.3159e14")
    printed = "OPTIMAL edp 8.0062e10, 2 mappings evaluated, 1.31 s\nDRAM 11.486 uJ\n"
    assert check_docs.missing(shown, printed) == ["DRAM   11.485 uJ"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.page}: {command.text[:70]}")
def test_options_exist(command, monkeypatch, capsys):
    program, *words = shlex.split(re.sub(r" \[(--[^]]*)\]", r" \1", command.text))
    if program == "tilewright":
        parse_arguments(words)
        return
    script, *given = (word for word in words if word != "--help")
    parse = argparse.ArgumentParser.parse_args

    def parsed(self, arguments=None, namespace=None):
        parse(self, given, namespace)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    with pytest.raises(Parsed):
        importlib.import_module(script.removeprefix("scripts/").removesuffix(".py")).main()


@pytest.fixture
def inputs(working_directory, monkeypatch):
    """Small inputs, under the names that pages use."""
    specs, tests = REPOSITORY / "specs", REPOSITORY / "tests"
    fused = tests / "model" / "formats" / "fused" / "data"
    products = (fused / "products.workload.yaml", fused / "tolled.arch.yaml", fused / "products.fused.yaml")
    workload, arch, mapping = (
        re.sub(r"\bT\b", "Q", path.read_text(encoding="utf-8"))
        .replace("Buffer", "GlobalBuffer")
        .replace("{M: 8, A: 8, B: 8, C: 8}", "{M: 4, A: 2, B: 4, C: 2}")
        for path in products
    )
    matmuls = (specs / "workloads" / "three_matmuls.yaml").read_text(encoding="utf-8")
    network = (tests / "solver" / "cli" / "data" / "mapped_network.yaml").read_text(encoding="utf-8")
    page = (REPOSITORY / "docs" / "writing-a-mapper.md").read_text(encoding="utf-8")
    correlation, mapper = re.findall(
        r"`correlation\.(?:yaml|py)`:\n\n```\w+\n(.*?)```", page, flags=re.DOTALL
    )
    texts = {
        "layers/layer.yaml": LAYER,
        "workload.yaml": matmuls.replace("128", "{{N_TOKENS | default(8)}}"),
        "network.yaml": network.replace(", methods: [rows]", ""),
        "arch.yaml": (specs / "sparse" / "dot_product.yaml").read_text(encoding="utf-8"),
        "problem.yaml": (specs / "sparse" / "problems" / "dot_product.yaml").read_text(encoding="utf-8"),
        "correlation.yaml": correlation,
        "correlation.py": mapper,
        **{"gpt3.yaml": workload, "nvdla.yaml": arch, "eyeriss.yaml": arch, "mapping.yaml": mapping},
        "table.yaml": "GlobalBuffer: {leak_power_w: 0, area_m2: null, actions: {}}\n",
    }
    (working_directory / "specs").symlink_to(specs)
    for folder in ("layers", "sparse_layers"):
        (working_directory / folder).mkdir()
    shutil.copy(specs / "layers" / "resnet18" / "16_conv5_block1_a.yaml", "sparse_layers")
    for name, text in texts.items():
        (working_directory / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(working_directory)
    yield working_directory
    sys.modules.pop("correlation", None)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("page", sorted({command.page for command in COMMANDS}))
def test_commands_run(page, inputs, capsys):
    for prepared in PREPARED.get(page, ()):
        assert main([*prepared.split(), "--quiet"]) == 0
    for command in COMMANDS:
        if command.page != page or any(reason in (command.reason or "") for reason in NOT_HERE):
            continue
        program, *words = command.filled().filled(SMALLER).words(inputs)
        assert program == "tilewright"
        assert main(words) == 0, f"{words}: {capsys.readouterr().err}"


SHOWN = [each for each in COMMANDS if each.page in {"docs/sweep.md", "docs/compare.md"} and each.shown]


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("command", SHOWN, ids=lambda command: command.page)
def test_the_output_is_the_one_that_is_shown(command, capsys, monkeypatch):
    """Other tests hold what the other pages show, or `scripts/check_docs.py`, where it takes long."""
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("COLUMNS", "160")
    quick = ["--mappers", "linear-pruned,log-relaxation,smaug"] if " compare " in command.text else []
    assert main([*command.words(REPOSITORY)[1:], *quick]) == 0
    assert check_docs.missing(command.shown, capsys.readouterr().out) == []


def test_pages_with_output_are_compared():
    assert {each.page for each in SHOWN} == {"docs/sweep.md", "docs/compare.md"}
