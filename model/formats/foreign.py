"""Formats of other tools, given where a spec is expected: what a file is, and what to do with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from model.text.files import display_name, is_file
from model.text.source import SpecError

_MOST_READ = 1 << 16
"""Bytes of a file that are looked at."""


@dataclass(frozen=True)
class Format:
    """What a file is, in the singular with its article, and what to do about it."""

    what: str
    way: str


_EXPORT = "export the model to ONNX, which the command `network` reads"
_WEIGHTS = f"it has no layers: {_EXPORT}"
_HARDWARE = "describe it as an `architecture` (docs/timeloop.md); specs/architectures has some to start from"
_LAYERS = f"write each layer as a `problem`, or {_EXPORT}"
_CONSTRAINTS = "write `constraints` on the nodes of the architecture (docs/timeloop.md)"

LFS_POINTER = Format("a Git LFS pointer, not the file itself", "fetch the file with `git lfs pull`")
ONNX_MODEL = Format("an ONNX model", "the command `network` maps it, beside a file with an `architecture`")
TOPOLOGY = Format(
    "a SCALE-Sim topology", "the command `network` maps it, beside a file with an `architecture`"
)
LIBCONFIG = Format(
    "a Timeloop configuration in the syntax of libconfig (version 0.1)",
    "write the same keys as YAML, `arch: {arithmetic: {...}, storage: [...]}`, which is read",
)
_PYTORCH = Format("a PyTorch file", f"export the model with `torch.onnx.export`; {ONNX_MODEL.way}")

_BEGINNINGS: tuple[tuple[bytes, int, Format], ...] = (
    (b"version https://git-lfs.github.com/spec/", 0, LFS_POINTER),
    (b"GGUF", 0, Format("a file of weights (GGUF)", _WEIGHTS)),
    (b"\x89HDF\r\n\x1a\n", 0, Format("an HDF5 file, such as Keras writes", _EXPORT)),
    (b"TFL3", 4, Format("a TensorFlow Lite model", _EXPORT)),
    (b"ORTM", 4, Format("an ONNX Runtime model (.ort)", "give the ONNX model that it was made from")),
    (b"\x93NUMPY", 0, Format("a NumPy array", "it is not a spec: give YAML files")),
    (b"\x1f\x8b", 0, Format("a gzip archive", "unpack it first")),
    (b"%PDF", 0, Format("a PDF document", "it is not a spec: give YAML files")),
)
"""What binary files begin with, at which byte."""

_TORCH_ENTRIES = (
    b"data.pkl",
    b"constants.pkl",
    b"byteorder",
    b".data/",
    b"archive_format",
    b"archive_version",
)
"""Names of files in the archives of PyTorch, one of which comes first."""

_PROTOBUF_MODEL = re.compile(rb"\x08[\x01-\x20](?:\x12|\x3a|\x1a|\x42)")
"""An ONNX model begins with its version, then often with the name of its producer or its graph."""

_GROUP = r"^\s*(?:arch|architecture|mapper|mapspace|problem|mapping|shape)"
_SETTING = r"^(?:[^#\n]*;\s*$|[ \t]*[\w-]+\s*=\s)"
"""A setting of libconfig, by which a group with a colon differs from a mapping of YAML on several lines."""

_TEXTS: tuple[tuple[str, Format], ...] = (
    (r"(?i)^[\s\"']*layer(?: name)?\s*[,\t].*(?:filter|\bm\s*[,\t]\s*n\b)", TOPOLOGY),
    (r"(?m)^\[architecture_presets\]|^\s*ArrayHeight\s*[:=]", Format("a SCALE-Sim configuration", _HARDWARE)),
    (r"(?m)^(?:[^\n]*;)?\s*(?:Network|Layer)\s+\S+?\s*\{", Format("a MAESTRO network", _LAYERS)),
    (r"(?m)^\s*Accelerator\s+\S+?\s*\{", Format("a MAESTRO hardware description", _HARDWARE)),
    (r"(?m)^\s*l[12]_size_cstr\s*:", Format("a MAESTRO hardware description", _HARDWARE)),
    (r"(?m)(?:^|[;{])\s*(?:SpatialMap|TemporalMap)\s*\(", Format("a MAESTRO dataflow", _CONSTRAINTS)),
    (rf"(?m){_GROUP}\s*=\s*[{{(]", LIBCONFIG),
    (rf"(?m){_GROUP}\s*(?::[ \t]*|:?\s*\n\s*)[{{(]\s*$(?s:.*?){_SETTING}", LIBCONFIG),
    (r"(?m)^(?:import|from)\s+\w[\w.]*(?:\s+import\b|\s*$)|^def \w+\(", Format("a Python program", _EXPORT)),
)
"""What texts have, the first that fits."""

_YAML_KEYS: tuple[tuple[tuple[str, ...], Format], ...] = (
    (("memories", "operational_array"), Format("a ZigZag hardware description", _HARDWARE)),
    (("cores", "offchip_core_id"), Format("a Stream hardware description", _HARDWARE)),
    (("cores", "core_connectivity"), Format("a Stream hardware description", _HARDWARE)),
    (("cores", "graph"), Format("a Stream hardware description", _HARDWARE)),
    (("core_allocation",), Format("a Stream mapping", _CONSTRAINTS)),
    (("memory_operand_links",), Format("a ZigZag mapping", _CONSTRAINTS)),
    (("spatial_mapping", "temporal_ordering"), Format("a ZigZag mapping", _CONSTRAINTS)),
    (("spatial_mapping", "operand_links"), Format("a ZigZag mapping", _CONSTRAINTS)),
    (("operator_type", "loop_dims"), Format("a ZigZag workload", _LAYERS)),
    (("equation", "loop_dim_size"), Format("a ZigZag workload", _LAYERS)),
    (("equation", "loop_sizes"), Format("a ZigZag workload", _LAYERS)),
    (("fused_groups", "layers"), Format("a Stream mapping", _CONSTRAINTS)),
)
"""Keys that files of YAML have together, on the outside or in the items of a list."""
_YAML_KEY = re.compile(r"(?m)^(?:- {1,3}|  )?([A-Za-z_]\w*)\s*:")
_OUR_KEYS = frozenset(("problem", "architecture", "arch", "workload", "mapping", "constraints", "network"))


def refuse_foreign(paths: Iterable[Path]) -> None:
    """Raise a SpecError for the first file that is in a format of another tool."""
    for path in paths:
        found = format_of(path)
        if found is not None:
            raise foreign(path, found)


def foreign(path: Path, found: Format) -> SpecError:
    """Return the error for a file in another format, on one line."""
    return SpecError(f"{display_name(path)} is {found.what}: {found.way}")


def format_of(path: Path) -> Format | None:
    """Return what a file is, if that is a known format of another tool; None for what cannot be read."""
    if not is_file(path):
        return None
    try:
        with path.open("rb") as stream:
            head = stream.read(_MOST_READ)
    except OSError:
        return None
    return _binary(path, head) or _text(path, head)


def _binary(path: Path, head: bytes) -> Format | None:
    for beginning, place, found in _BEGINNINGS:
        if head.startswith(beginning, place):
            return found
    if head.startswith(b"PK\x03\x04"):
        is_torch = any(name in head[:1024] for name in _TORCH_ENTRIES)
        return _PYTORCH if is_torch else Format("a ZIP archive", "unpack it first")
    if head[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04"):
        return _PYTORCH  # pickled
    if head[8:10] == b'{"' and b'"dtype"' in head and b'"data_offsets"' in head:
        return Format("a file of weights (safetensors)", _WEIGHTS)
    is_model = path.suffix.lower() == ".onnx" or (_PROTOBUF_MODEL.match(head) is not None and b"\0" in head)
    return ONNX_MODEL if is_model else None


def _text(path: Path, head: bytes) -> Format | None:
    """Return what a text is; nothing of our own is taken for something else."""
    try:
        text = head.decode("utf-8-sig", errors="ignore" if len(head) == _MOST_READ else "strict")
    except UnicodeDecodeError:
        return None
    keys = frozenset(_YAML_KEY.findall(text))
    if keys & _OUR_KEYS and LIBCONFIG is not _format_of_text(text):
        return None
    found = _format_of_text(text)
    if found is not None:
        return found
    return next((found for names, found in _YAML_KEYS if keys.issuperset(names)), None)


def _format_of_text(text: str) -> Format | None:
    return next((found for pattern, found in _TEXTS if re.search(pattern, text) is not None), None)
