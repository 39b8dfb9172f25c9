"""Layers that say the same are read, checked and priced once."""

from pathlib import Path

from model.formats.cascade import loader
from tests.conftest import REPOSITORY

EYERISS = REPOSITORY / "specs/architectures/eyeriss_like.yaml"
LAYER = """\
  - version: 0.4
    shape:
      name: gemm
      dimensions: [M, N, K]
      data_spaces:
        - {name: Weights, projection: [[[N]], [[K]]]}
        - {name: Inputs, projection: [[[M]], [[K]]]}
        - {name: Outputs, projection: [[[M]], [[N]]], read_write: true}
    instance: {M: 4, N: SIZE, K: 2}
"""


def write(path: Path, *sizes: int) -> Path:
    path.write_text("problem:\n" + "".join(LAYER.replace("SIZE", str(size)) for size in sizes), "utf-8")
    return path


def test_equal_layers_are_read_once(tmp_path, monkeypatch):
    calls = []
    read = loader.load_node
    monkeypatch.setattr(loader, "load_node", lambda *given: calls.append(1) or read(*given))
    sizes = [8, 8, 16, 8, 16] * 10
    network = loader.load_network([write(tmp_path / "layers.yaml", *sizes), EYERISS])
    assert len(calls) == 2
    assert [layer.mapspace.problem.bound["N"] for layer in network.layers] == sizes
    assert len({layer.name for layer in network.layers}) == 50


def test_equal_files_of_one_directory_are_read_once(tmp_path, monkeypatch):
    calls = []
    read = loader.load_node
    monkeypatch.setattr(loader, "load_node", lambda *given: calls.append(1) or read(*given))
    (tmp_path / "net").mkdir()
    for name in "abc":
        text = write(tmp_path / "net" / f"{name}.yaml", 8).read_text(encoding="utf-8")
        assert text
    network = loader.load_network([tmp_path / "net", EYERISS])
    assert len(calls) == 1 and [layer.name for layer in network.layers] == ["a", "b", "c"]
