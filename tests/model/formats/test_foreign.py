"""Files of other tools where a spec is expected: they are named, and what to do is said."""

import zipfile
from pathlib import Path

import pytest

from model.formats.cascade import read_network
from model.formats.foreign import format_of
from model.formats.timeloop import load_timeloop
from model.text.files import SHIPPED_SPECS
from model.text.source import SpecError

TEXTS = {
    "pointer.onnx": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "a Git LFS pointer",
    ),
    "pointer.yaml": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "a Git LFS pointer",
    ),
    "net.csv": (
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels,\n",
        "a SCALE-Sim topology",
    ),
    "mnk.csv": ("\ufeffLayer,M,N,K,\na,1,2,3,\n", "a SCALE-Sim topology"),
    "scale.cfg": (
        "[general]\nrun_name = x\n[architecture_presets]\nArrayHeight:    32\n",
        "a SCALE-Sim configuration",
    ),
    "net.m": ("Network net {\nLayer CONV1 {\nType: CONV\n", "a MAESTRO network"),
    "line.m": ("Network n { Layer A { Type: CONV Dimensions { K: 4, C: 3 } } }\n", "a MAESTRO network"),
    "constants.m": ("Constant K 3;Network n{Layer A{Type:DSCONV}}", "a MAESTRO network"),
    "chip.m": ("Accelerator A { num_pes: 16 }", "a MAESTRO hardware description"),
    "hw.m": ("num_pes: 256\nl1_size_cstr: 100\n", "a MAESTRO hardware description"),
    "flow.m": ("Dataflow {\n  SpatialMap(1,1) K;\n", "a MAESTRO dataflow"),
    "old.cfg": (
        "mapper = {\n};\narch =\n{\n  storage = ( );\n};\n",
        "a Timeloop configuration in the syntax",
    ),
    "old2.cfg": ("problem :\n{\n  R = 3;\n};\n", "a Timeloop configuration in the syntax"),
    "one_line.cfg": ("problem = { shape = 3; P = 8; };\n", "a Timeloop configuration in the syntax"),
    "shape.cfg": ("shape =\n{\n  name = 1;\n};\n", "a Timeloop configuration in the syntax"),
    "tpu.yaml": (
        "name: t\nmemories:\n  rf:\n    size: 8\noperational_array:\n  sizes: [8]\n",
        "a ZigZag hardware",
    ),
    "map.yaml": (
        "- name: default\n  spatial_mapping:\n    D1: [K]\n  memory_operand_links:\n    O: O\n",
        "a ZigZag mapping",
    ),
    "load.yaml": ("- id: 0\n  operator_type: Conv\n  equation: O\n  loop_dims: [B]\n", "a ZigZag workload"),
    "soc.yaml": ("name: s\ncores:\n  0: ./c.yaml\noffchip_core_id: 4\n", "a Stream hardware description"),
    "alloc.yaml": ("- name: Conv\n  core_allocation: [0]\n", "a Stream mapping"),
    "arch.py": ("from zigzag.hardware import Core\n\ndef get():\n    pass\n", "a Python program"),
}
BINARIES = {
    "weights.gguf": (b"GGUF\x03\0\0\0", "a file of weights (GGUF)"),
    "model.h5": (b"\x89HDF\r\n\x1a\n\0", "an HDF5 file"),
    "model.tflite": (b"\x1c\0\0\0TFL3\0", "a TensorFlow Lite model"),
    "model.safetensors": (
        b'\x40\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        "a file of weights (safetensors)",
    ),
    "model.pkl": (b"\x80\x02}q\0.", "a PyTorch file"),
    "model.onnx": (b"\x08\x08\x12\x07pytorch\0", "an ONNX model"),
    "model.ONNX": (b"\x08\x08", "an ONNX model"),
    "model.pb": (b"\x08\x08\x12\x07pytorch:\x02\x0a\0", "an ONNX model"),
    "specs.gz": (b"\x1f\x8b\x08\0", "a gzip archive"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_named(tmp_path: Path, name: str):
    text, what = TEXTS[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_timeloop([path])
    assert caught.value.message.startswith(f"{path} is {what}")
    assert "\n" not in caught.value.render()


@pytest.mark.parametrize("name", BINARIES)
def test_binaries_are_named(tmp_path: Path, name: str):
    content, what = BINARIES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_timeloop([path])
    assert caught.value.message.startswith(f"{path} is {what}")


@pytest.mark.parametrize(
    "entry", ["model/data.pkl", "archive/constants.pkl", "model/byteorder", "x/.data/version"]
)
def test_archives_of_pytorch(tmp_path: Path, entry: str):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, b"1")
    with pytest.raises(SpecError, match=r"is a PyTorch file: export the model with `torch\.onnx\.export`"):
        load_timeloop([path])


def test_an_exported_program_is_known_by_its_name(tmp_path: Path):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("serialized_exported_program.json", b"{}")
    with pytest.raises(SpecError, match="is a PyTorch file"):
        load_timeloop([path])


def test_other_archives(tmp_path: Path):
    path = tmp_path / "specs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("arch.yaml", b"a: 1")
    with pytest.raises(SpecError, match="is a ZIP archive: unpack it first"):
        load_timeloop([path])


@pytest.mark.parametrize("name", ["pointer.onnx", "net.m", "tpu.yaml", "old.cfg"])
def test_networks_name_them_too(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_text(TEXTS[name][0], encoding="utf-8")
    with pytest.raises(SpecError, match=" is a "):
        read_network([path, SHIPPED_SPECS / "architectures" / "tpu_like.yaml"])


def test_an_onnx_model_belongs_to_networks(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08")
    with pytest.raises(
        SpecError, match="the command `network` maps it, beside a file with an `architecture`"
    ):
        load_timeloop([path])


def test_no_spec_of_our_own_is_taken_for_something_else():
    paths = [path for path in SHIPPED_SPECS.rglob("*") if path.suffix in (".yaml", ".jinja2")]
    assert len(paths) > 100
    assert [path for path in paths if format_of(path) is not None] == []


@pytest.mark.parametrize(
    "text",
    [
        "architecture:\n  version: 0.4\n  nodes: []\n# memories:\nmemories: 1\noperational_array: 2\n",
        "problem:\n  shape: x\n  instance: {P: 1}\n",
        "mapping:\n- {target: a, type: spatial, permutation: [K]}\n",
        "workload:\n  einsums:\n  - name: Layer\n",
        "# Layer name, filter\nvariables: {a: 1}\n",
        "problem: {\n  shape: gemm,\n  instance: {M: 8} # P = 8;\n}\narchitecture:\n  {\n  nodes: []\n  }\n",
    ],
)
def test_specs_are_not_taken_for_something_else(tmp_path: Path, text: str):
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    assert format_of(path) is None


def test_what_is_no_file_has_no_format(tmp_path: Path):
    assert format_of(tmp_path) is None
    assert format_of(tmp_path / "missing") is None
