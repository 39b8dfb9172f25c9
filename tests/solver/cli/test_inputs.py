"""Files of others and damaged ones on the command line: what is read, and what is refused at once."""

import json
import os
from pathlib import Path

import pytest

from solver.cli.main import main
from tests.conftest import REPOSITORY

SPECS = REPOSITORY / "specs"
OLDER = """\
architecture:
  version: 0.3
  subtree:
  - name: board
    local:
    - {name: main, class: DRAM, attributes: {width: 64, word-bits: 16}}
    subtree:
    - name: chip
      attributes: {technology: 45nm}
      local:
      - {name: buffer, class: SRAM, attributes: {depth: 64, width: 64, word-bits: 16}}
      - {name: "mac[0..3]", class: intmac, attributes: {datawidth: 16}}
"""
OLDEST = """\
arch:
  arithmetic: {name: mac, instances: 4, word-bits: 16}
  storage:
  - {name: buffer, sizeKB: 1, instances: 1, word-bits: 16, block-size: 4}
  - {name: main, technology: DRAM, instances: 1, word-bits: 16, block-size: 4}
"""
LAYER = "problem: {shape: cnn-layer, instance: {C: 4, K: 4, R: 1, S: 1, N: 1, P: 2, Q: 2}}\n"


@pytest.mark.parametrize(
    ("text", "version"), [(OLDER, "0.3"), (OLDER.replace("0.3", "0.2"), "0.2"), (OLDEST, "0.1")]
)
def test_all_commands_take_older_versions(working_directory, capsys, text, version):
    Path("a.yaml").write_text(text, encoding="utf-8")
    Path("l.yaml").write_text(LAYER, encoding="utf-8")
    assert main(["check", "a.yaml", "l.yaml"]) == 0
    captured = capsys.readouterr()
    assert f"version {version} of Timeloop's format" in captured.out + captured.err
    words = ["--objective", "latency", "--jobs", "1"]
    assert main(["map", "a.yaml", "l.yaml", *words, "--json", "m.json", "--mapped-spec", "new.yaml"]) == 0
    found = json.loads(Path("m.json").read_text(encoding="utf-8"))
    assert found["cycles"] >= 16
    written = Path("new.yaml").read_text(encoding="utf-8")
    assert "version: 0.4" in written
    assert "subtree" not in written
    assert main(["evaluate", "new.yaml", "--json", "e.json"]) == 0
    again = json.loads(Path("e.json").read_text(encoding="utf-8"))
    assert again["cycles"] == found["cycles"]
    assert main(["network", "a.yaml", "l.yaml", *words, "--no-cache", "--json", "n.json"]) == 0
    layer = json.loads(Path("n.json").read_text(encoding="utf-8"))["layers"][0]["result"]
    assert layer["cycles"] == found["cycles"]


TOPOLOGY = """\
Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
first, 4, 4, 1, 1, 2, 2, 1,
"""
SMALL = """\
mapspace: {template: uber}
architecture:
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {datawidth: 8, width: 32}, energy: {read: 9, write: 9}}
  - !Component
    name: buffer
    class: SRAM
    attributes: {datawidth: 8, width: 8, depth: 8}
    energy: {read: 6, write: 5, update: 7, leak: 0}
    constraints: {dataspace: {keep: [Inputs, Weights, Outputs]}}
  - !Component {name: mac, class: intmac, energy: {compute: 1}}
"""


def test_values_wider_than_words_say_how_to_narrow_them(working_directory, capsys):
    Path("layers.csv").write_text(TOPOLOGY, encoding="utf-8")
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    words = ["network", "layers.csv", "small.yaml", "--no-cache", "--jobs", "1"]
    assert main([*words, "--set", "BITS=32", "--objective", "energy"]) == 4
    captured = capsys.readouterr()
    assert "`--set BITS=8` takes all values as 8 bits wide" in captured.out + captured.err
    assert "Any one of these changes suffices:\n    all values 8 bits wide: `--set BITS=8`\n" in captured.out
    assert "words instead of" not in captured.out
    assert main([*words, "--set", "BITS=8", "--objective", "energy"]) == 0
    assert "BITS" not in capsys.readouterr().out


def test_narrower_values_that_are_not_enough_are_not_proposed(working_directory, capsys):
    Path("layers.csv").write_text(TOPOLOGY, encoding="utf-8")
    Path("small.yaml").write_text(SMALL.replace("depth: 8", "depth: 2"), encoding="utf-8")
    words = ["network", "layers.csv", "small.yaml", "--no-cache", "--jobs", "1", "--objective", "energy"]
    assert main([*words, "--set", "BITS=16"]) == 4
    assert "all values 8 bits" not in capsys.readouterr().out


@pytest.mark.parametrize("form", ["Einsums", "layers"])
def test_more_parts_than_are_mapped_are_refused_unread(working_directory, capsys, form):
    broken = "  - {name: %d, nonsense: true}\n"
    Path("many.yaml").write_text(
        "workload:\n  version: 0.4\n  einsums:\n" + "".join(broken % number for number in range(10_001)),
        encoding="utf-8",
    )
    Path("many.csv").write_text(
        "Layer, M, N, K,\n" + "".join(f"l{number}, 1, 1, 1,\n" for number in range(10_001)), encoding="utf-8"
    )
    file = "many.yaml" if form == "Einsums" else "many.csv"
    assert main(["network", file, str(SPECS / "architectures" / "eyeriss_like.yaml"), "--no-cache"]) == 2
    assert "more than 10,000" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["check", "spec.yaml"], ["report", "m.json"], ["network", "m.onnx", "a.yaml"]]
)
def test_a_directory_that_was_deleted(tmp_path, monkeypatch, capsys, words):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(words) == 2
    assert capsys.readouterr().err.strip()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("words", [["check"], ["map"], ["report"], ["evaluate"]])
@pytest.mark.parametrize("path", ["pipe", "/dev/zero"])
def test_what_has_no_end_is_not_read(working_directory, capsys, words, path):
    os.mkfifo("pipe")
    assert main([*words, path]) == 2
    assert "not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["name", "a key"])
def test_a_page_of_names_that_no_spec_has(working_directory, capsys, key):
    long = "x" * 5000
    layer = {"name": long} if key == "name" else {long: 1}
    Path("n.json").write_text(json.dumps({"layers": [layer]}), encoding="utf-8")
    assert main(["report", "n.json"]) == 2
    assert "a name has 5,000 characters" in capsys.readouterr().err
