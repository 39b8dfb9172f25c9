"""The row of PEs with some of its text replaced."""

from pathlib import Path

from model.extents import PERFECT
from model.formats.timeloop import LoadOptions
from model.formats.timeloop.loader import load_node
from model.mapspace import Mapspace
from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document
from tests.conftest import REPOSITORY

ROW = (REPOSITORY / "tests" / "solver" / "cli" / "data" / "row.yaml").read_text(encoding="utf-8")
SPAD = "attributes: {depth: 8, width: 8, datawidth: 8}\n          actions: &spad"
BOTH_SPADS = "depth: 8, width: 8, datawidth: 8}\n          actions: "
OUTPUT_TEMPORAL = "temporal: {factors: [C=1, R=1, P=1]}"
PE_FACTORS = "spatial: {factors: [P=1]}"
MAC = "class: intmac"
IDLE = (
    ("spatial: {factors: [P=1]}", "spatial: {factors: [P=1, M=1, C=1]}"),
    ("[C=1, R=1, P=1]", "[C=1, R=1]"),
)
"""Only R is left for the PEs."""

Edit = tuple[str, str]


def edited(*edits: Edit) -> str:
    text = ROW
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def mapspace_of(*edits: Edit) -> Mapspace:
    top = compose(Document.of("row.yaml", edited(*edits)), Limits())
    return load_node(top, (Path("row.yaml"),), LoadOptions(refuse_infeasible=False, factors=PERFECT)).mapspace


def spad(depth: object, more: str = "") -> Edit:
    return SPAD, SPAD.replace("depth: 8", f"depth: {depth}").replace("datawidth: 8", f"datawidth: 8{more}")


def pe(text: str) -> Edit:
    return PE_FACTORS, f"spatial: {{{text}}}"


def factors(text: str) -> Edit:
    return pe(f"factors: [P=1, {text}]")


def share(value: float) -> Edit:
    return MAC, f"{MAC}\n      constraints: {{min_parallelism: {value}}}"
