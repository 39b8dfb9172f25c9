"""Edges with other channels than the output of their source are noted."""

from pathlib import Path

import pytest

from model.formats.assignment import load_assignment
from model.formats.assignment.networks import MOST_NOTES
from tests.conftest import REPOSITORY

HEAD = "network:\n  cost_model: {name: systolic_array, rows: 4, columns: 4}\n  layers:\n"
CONV = "  - {{name: {}, conv: {{in_channels: {}, out_channels: {}, height: {}, width: {}}}}}\n"
LAYERS = (
    CONV.format("a", 3, 8, 4, 4)
    + CONV.format("b", 3, 4, 4, 4)
    + "  - {name: both, tensor: {channels: 12, height: 4, width: 4}}\n"
    + CONV.format("dense", 192, 5, 1, 1)
    + CONV.format("wide", 48, 5, 4, 4)
)


def notes_of(text: str, directory: Path) -> list[str]:
    path = directory / "n.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return [str(note).removeprefix(f"{path}:") for note in load_assignment([path]).shaped.notes]


@pytest.mark.parametrize(
    ("edge", "note"),
    [
        ("{from: a, to: both, channels: 8}", None),
        ("{from: a, to: both, channels: 2}", None),
        ("{from: a, to: both, channels: 12}", None),
        ("{from: both, to: dense}", None),
        ("{from: both, to: dense, channels: 192}", None),
        (
            "{from: a, to: both}",
            "without `channels` the edge carries all 12 channels that layer `both` takes in, "
            "but layer `a` has 8 output channels",
        ),
        (
            "{from: both, to: wide}",
            "without `channels` the edge carries all 48 channels that layer `wide` takes in, "
            "but layer `both` has 12 output channels",
        ),
        (
            "{from: a, to: dense}",
            "without `channels` the edge carries all 192 channels that layer `dense` takes in, "
            "but layer `a` has 8 output channels",
        ),
    ],
)
def test_edges_say_what_they_carry(edge: str, note: str | None, tmp_path: Path):
    found = [own for own in notes_of(f"{LAYERS}  edges:\n  - {edge}\n", tmp_path) if "no edge" not in own]
    assert found == ([] if note is None else [f"10:5: {note}"])


def test_a_chain_of_mistakes_is_cut_short(tmp_path: Path):
    layers = "".join(CONV.format(f"l{number}", 3, 4, 4, 4) for number in range(MOST_NOTES + 3))
    notes = notes_of(f"{layers}  edges: chain\n", tmp_path)
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1] == "2 more edges like these"


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "specs" / "networks").glob("*.yaml")), ids=lambda own: own.stem
)
def test_shipped_networks_have_none(path: Path):
    assert load_assignment([path]).shaped.notes == ()
