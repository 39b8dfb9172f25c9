"""Pictures of mappings say what the JSON says, whatever the names and the sizes."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from model.cost import evaluate
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Problem
from solver.report.document import evaluation_document, result_document
from solver.report.drawing import LIGHT, Box, TextLine, fitted_label, svg_text, text_width
from solver.report.mapped import shown_mapping
from solver.report.mapping_picture import (
    IDLE,
    LATE,
    STATES,
    WORKING,
    array_scene,
    mapping_scene,
    nest_scene,
    tile_text,
)
from solver.report.pictures import PlotError, draw_plot
from solver.report.reading import DocumentError, Value, as_value
from tests.solver.examples import ARCHITECTURE, INFEASIBLE, MAPPING, MAPSPACE, OPTIMAL, PROBLEM

HOSTILE = '</text><script>alert("1")</script>&amp;\x1b[2J\u202e' + "m" * 300
SVG = "{http://www.w3.org/2000/svg}"


def shown(document=None):
    return shown_mapping(as_value(result_document(MAPSPACE, OPTIMAL) if document is None else document))


def texts(scene):
    return [part.text for part in scene.parts if isinstance(part, TextLine)]


@pytest.mark.parametrize("width", [760, 340])
def test_the_nest_shows_every_level_with_the_figures_of_the_json(width):
    document = result_document(MAPSPACE, OPTIMAL)
    said = texts(nest_scene(shown(), width))
    for level in document["levels"]:
        assert level["name"] in said
        for name, space in level["dataspaces"].items():
            shape = " × ".join(f"{extent:,}" for extent in space["tile_shape"])
            assert f"{name}  {shape} = {space['tile_words']:,} word{'s'[: space['tile_words'] != 1]}" in said
    loops = ["for M in [0:2)", "for P in [0:8)", "parallel-for C in [0:4) along X"]
    assert [text for text in said if text in loops] == loops


def uneven():
    """4 x 3 units, C = 5 along X in rounds of 4 and 1, R = 3 along Y, M = 7 in the memory."""
    problem = Problem("conv1d", ("R", "P", "C", "M"), (3, 8, 5, 6), PROBLEM.dataspaces)
    nodes = list(MAPPING.nodes)
    nodes[1] = StorageMapping((Loop("P", 8),), frozenset({"Inputs", "Outputs"}))
    nodes[2] = FanoutMapping((SpatialLoop("C", 3, "x"),))
    nodes[4] = StorageMapping((Loop("C", 2),), frozenset({"Weights"}))
    mapping = Mapping(tuple(nodes))
    mapspace = replace(MAPSPACE, problem=problem, factors="any")
    return evaluation_document(mapspace, mapping, evaluate(problem, ARCHITECTURE, mapping))


def test_the_array_has_a_cell_per_unit_and_shows_what_idles():
    scene = array_scene(shown(), 400)
    inks = Counter(part.fill for part in scene.parts if isinstance(part, Box) and part.width > 11)
    assert inks == {STATES[WORKING]: 12}
    assert {IDLE, LATE}.isdisjoint(texts(scene))
    scene = array_scene(shown(uneven()), 400)
    inks = Counter(part.fill for part in scene.parts if isinstance(part, Box) and part.width > 11)
    assert inks == {STATES[WORKING]: 9, STATES[IDLE]: 3}
    assert IDLE in texts(scene)


def test_units_without_work_in_the_last_round_are_marked():
    document = json.loads(json.dumps(result_document(MAPSPACE, OPTIMAL)))
    (target,) = [t for t in document["mapping"] if t["target"] == "column"]
    target["factors"] = [factor.replace("C=4", "C=4,1") for factor in target["factors"]]
    scene = array_scene(shown(document), 400)
    inks = Counter(part.fill for part in scene.parts if isinstance(part, Box) and part.width > 11)
    assert inks == {STATES[WORKING]: 3, STATES[LATE]: 9}
    assert any("C 4 (last 1) of 4" in text for text in texts(scene))


def test_a_large_array_is_drawn_as_areas():
    document = json.loads(json.dumps(result_document(MAPSPACE, OPTIMAL)))
    for node in (node for node in document["architecture"]["nodes"] if node["type"] == "fanout"):
        node.update(mesh_x=10**9, mesh_y=10**7)
    scene = mapping_scene(shown(document), 760)
    assert len(scene.parts) < 200
    assert all(part.x + part.width <= 760.01 for part in scene.parts if isinstance(part, Box))


def renamed(thing, names):
    """A document with other names in it."""
    if isinstance(thing, dict):
        return {names.get(key, key): renamed(value, names) for key, value in thing.items()}
    if isinstance(thing, list):
        return [renamed(value, names) for value in thing]
    return names.get(thing, thing) if isinstance(thing, str) else thing


def test_names_stay_text():
    document = json.loads(json.dumps(result_document(MAPSPACE, OPTIMAL)))
    names = {"buffer": HOSTILE, "Weights": f"W{HOSTILE}", "mac": HOSTILE, "column": HOSTILE}
    scene = mapping_scene(shown(renamed(document, names)), 340, [HOSTILE])
    root = ElementTree.fromstring(svg_text(scene, LIGHT))
    tags = {element.tag for element in root.iter()}
    assert tags <= {f"{SVG}{tag}" for tag in ("svg", "title", "desc", "text", "rect", "path", "circle")}
    said = "".join(root.itertext())
    assert '</text><script>alert("1")</script>&amp;' in said
    assert "\x1b" not in said and "\u202e" not in said


def test_texts_fit_their_place():
    label = fitted_label(TextLine(0, 0, HOSTILE), 90)
    assert text_width(label.text) <= 90
    assert label.text.endswith("…") and label.note.startswith("</text>")
    for width in (760, 340):
        for part in mapping_scene(shown(), width, ["m" * 500]).parts:
            if isinstance(part, TextLine) and part.anchor == "start":
                assert part.x + text_width(part.text, part.size, part.monospace) <= width + 0.01


@pytest.mark.parametrize(("suffix", "mark"), [(".svg", b"<svg "), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_pictures_are_files_of_their_kind(suffix, mark, tmp_path):
    if suffix != ".svg":
        pytest.importorskip("matplotlib")
    draw_plot(as_value(result_document(MAPSPACE, OPTIMAL)), tmp_path / f"a{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes().startswith(mark)


def test_without_a_mapping_there_is_no_picture():
    with pytest.raises(PlotError, match="no mapping to draw"):
        draw_plot(as_value(result_document(MAPSPACE, INFEASIBLE)), Path("out.svg"))


@pytest.mark.parametrize(
    ("key", "wrong", "message"),
    [
        ("levels", [{}], r"levels\[0\]: the key 'name' is missing"),
        ("levels", [], r"architecture.nodes\[0\]: `levels` has no entry"),
        ("compute_instances", -1, "compute_instances: a whole number that is not negative is expected"),
        ("einsum", 3, "einsum: an object is expected"),
        ("mapping", [{"type": "temporal", "target": "DRAM", "factors": ["P=x"]}], "a factor such as P=4"),
    ],
)
def test_a_document_that_is_none_is_refused_with_the_place(key, wrong, message):
    document = {**json.loads(json.dumps(result_document(MAPSPACE, OPTIMAL))), key: wrong}
    with pytest.raises(DocumentError, match=message):
        shown_mapping(Value(document))


def test_a_tile_of_wider_values_says_what_it_takes():
    tile = replace(shown().levels[1].tiles[0], size_words=999)
    assert tile_text(tile).endswith(", takes 999")
