"""Keys that are given twice with the same value: every reader takes them once, with a note."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from model.formats.accelforge import load_workload
from model.formats.assignment import load_assignment
from model.formats.assignment.methods import load_method_network
from model.formats.cascade import load_network
from model.formats.fused import load_fused
from model.formats.timeloop import load_timeloop
from model.note import Note
from model.text.source import SpecError
from tests.conftest import REPOSITORY
from tests.model.formats.accelforge.arches import ARCH, WORKLOAD

SPECS = REPOSITORY / "specs"
FUSED = REPOSITORY / "tests" / "model" / "fused" / "data"
METHODS = REPOSITORY / "tests" / "solver" / "cli" / "data"


def _workload(files: Sequence[Path]) -> Iterable[Note]:
    return load_workload(files).notes


def _fused(files: Sequence[Path]) -> Iterable[Note]:
    return load_fused(files[:2], files[2]).notes


def _methods(files: Sequence[Path]) -> Iterable[Note]:
    return load_method_network(files[:2], files[2]).notes


def _assignment(files: Sequence[Path]) -> Iterable[Note]:
    loaded = load_assignment(files)
    held = loaded.network or loaded.shaped
    assert held is not None
    return held.notes


def _network(files: Sequence[Path]) -> Iterable[Note]:
    return load_network(files).notes


def _shape(files: Sequence[Path]) -> Iterable[Note]:
    return load_timeloop(files[:2]).notes


def _text(*path: str) -> str:
    return (REPOSITORY.joinpath(*path)).read_text(encoding="utf-8")


LAYER = "problem: {shape: own, instance: {K: 8, M: 8, N: 1}}\n"
OWN = _text("specs", "problem-shapes", "gemm.yaml")
KINDS = {
    "workload": (_workload, [WORKLOAD], 0),
    "arch": (_network, [WORKLOAD, ARCH], 1),
    "fused": (
        _fused,
        [
            (FUSED / name).read_text()
            for name in ("products.workload.yaml", "arch.yaml", "products.fused.yaml")
        ],
        2,
    ),
    "fused workload": (
        _fused,
        [
            (FUSED / name).read_text()
            for name in ("products.workload.yaml", "arch.yaml", "products.fused.yaml")
        ],
        0,
    ),
    "methods": (
        _methods,
        [(METHODS / f"mapped_{name}.yaml").read_text() for name in ("architecture", "network", "methods")],
        2,
    ),
    "assignment": (_assignment, [_text("specs", "networks", "inception_3a.yaml")], 0),
    "shape": (_shape, [LAYER, _text("specs", "architectures", "free_three_level.yaml"), OWN], 2),
}


def repeated(text: str) -> str:
    """Return a text whose first key is given twice, the second time by an alias."""
    lines = text.splitlines()
    place = next(n for n, line in enumerate(lines) if line and line[0].isalpha() and ":" in line)
    key, _, rest = lines[place].partition(":")
    lines[place] = f"{key}: &again{rest}"
    return "\n".join([*lines, f"{key}: *again", ""])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_values_are_noted(tmp_path: Path, kind: str):
    read, texts, place = KINDS[kind]
    files = [tmp_path / name for name in ("one.yaml", "two.yaml", "own.yaml")[: len(texts)]]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    before = [str(note) for note in read(files)]
    files[place].write_text(repeated(texts[place]), encoding="utf-8")
    assert [note for note in map(str, read(files)) if "given twice, with the same value" in note]
    assert not [note for note in before if "given twice" in note]
    files[place].write_text(repeated(texts[place]).replace("*again", "{}"), encoding="utf-8")
    with pytest.raises(SpecError, match="is given twice"):
        read(files)
