"""Several problems in one file, and networks for other commands."""

from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.text.source import SpecError
from tests.conftest import REPOSITORY

SPECS = REPOSITORY / "specs"
EYERISS = SPECS / "architectures" / "eyeriss_like.yaml"


def test_a_network_of_methods_belongs_to_assign():
    with pytest.raises(SpecError, match="unknown top-level key `network`") as caught:
        load_network([SPECS / "networks" / "inception_3a.yaml", EYERISS])
    assert "`assign`" in (caught.value.hint or "")


LIST = """\
problem:
- {shape: cnn-layer, instance: {R: 1, S: 1, P: 4, Q: 1, C: 2, K: 2, N: 1}}
- {shape: cnn-layer, instance: {R: 3, S: 1, P: 8, Q: 1, C: 2, K: 2, N: 1}}
"""


def test_a_list_of_problems_is_one_layer_each(tmp_path: Path):
    path = tmp_path / "net.yaml"
    path.write_text(LIST, encoding="utf-8")
    layers = load_network([SPECS / "layers" / "gemm" / "1024.yaml", path, EYERISS]).layers
    assert [layer.name for layer in layers] == ["1024", "net#1", "net#2"]
    assert [layer.mapspace.problem.bound["P"] for layer in layers[1:]] == [4, 8]
    path.write_text("".join(LIST.splitlines(keepends=True)[:2]), encoding="utf-8")
    assert [layer.name for layer in load_network([path, EYERISS]).layers] == ["net"]


@pytest.mark.parametrize(
    ("problems", "message"),
    [("[]", "`problem` is an empty list"), ("[3]", "`problem` must be a mapping, but is an integer")],
)
def test_wrong_lists_of_problems(tmp_path: Path, problems: str, message: str):
    path = tmp_path / "net.yaml"
    path.write_text(f"problem: {problems}\n", encoding="utf-8")
    with pytest.raises(SpecError, match=message) as caught:
        load_network([path, EYERISS])
    assert caught.value.span is not None
    assert caught.value.span.line == 1


def test_names_of_layer_files_that_a_terminal_would_act_upon(tmp_path: Path):
    folder = tmp_path / "net\n"
    folder.mkdir()
    for name in ("a\r.yaml", "a\n.yaml"):
        (folder / name).write_text("".join(LIST.splitlines(keepends=True)[:2]), encoding="utf-8")
    network = load_network([folder, EYERISS])
    names = [network.name, *(layer.name for layer in network.layers)]
    assert all(name.isprintable() for name in names)
    assert len(set(names)) == 3
