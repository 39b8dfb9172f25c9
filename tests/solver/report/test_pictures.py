"""Pictures in files: their names, their titles, and fronts."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from solver.report.charts import ChartAxis, Curve, Mark, curves_scene
from solver.report.drawing import LIGHT, Box, Dot, Polyline, TextLine, svg_text
from solver.report.pictures import PlotError, check_plot, draw_plot
from solver.report.plots import front_scene
from solver.report.reading import as_value


def titled(name):
    """A front without points of a problem with that name."""
    return as_value({"kind": "pareto", "problem": name, "points": []})


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a $x$ b", "a $x$ b"),
        (r"$\frac{$", r"$\frac{$"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("a\n\x1b[2J", "a\ufffd\ufffd[2J"),
        ("ü ł", "ü ł"),
        ("日本", "日本"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_names_are_drawn_as_they_are(name, shown, tmp_path):
    draw_plot(titled(name), tmp_path / "out.svg")
    assert f"Energy-latency front of {shown}<" in (tmp_path / "out.svg").read_text(encoding="utf-8")
    pytest.importorskip("matplotlib")
    for suffix in ("png", "pdf"):
        draw_plot(titled(name), tmp_path / f"out.{suffix}")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("-", "pictures cannot be written to stdout"),
        ("a.gif", "must end in .png, .svg, .pdf"),
        ("out", "must end in"),
    ],
)
def test_a_picture_needs_a_file_of_a_known_kind(path, message):
    with pytest.raises(PlotError, match=message):
        check_plot(Path(path))


def test_no_picture_is_fine():
    check_plot(None)


def test_a_picture_that_cannot_be_written(tmp_path):
    with pytest.raises(PlotError, match="cannot write"):
        draw_plot(titled("a"), tmp_path / "absent" / "out.svg")


def test_other_documents_have_no_picture(tmp_path):
    with pytest.raises(PlotError, match="there is no picture of 'assign'"):
        draw_plot(as_value({"kind": "assign"}), tmp_path / "out.svg")


def test_without_matplotlib_there_is_svg_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    check_plot(Path("a.svg"))
    with pytest.raises(PlotError, match=r"pip install 'tilewright\[plot\]'"):
        check_plot(Path("a.png"))


POINTS = [
    {"cycles": cycles, "energy_pj": energy, "edp_pj_cycles": cycles * energy, "proven": energy != 30}
    for cycles, energy in ((10, 90.0), (20, 40.0), (50, 30.0))
]


def front(status="OPTIMAL", ranges=()):
    return as_value({"status": status, "points": POINTS, "open": list(ranges)})


def test_a_front_is_a_staircase_of_its_points():
    parts = front_scene(front(), 800).parts
    dots = [part for part in parts if isinstance(part, Dot)]
    assert sorted(dot.note.split(" cycles")[0] for dot in dots) == ["10", "20", "50"]
    assert [dot.fill == "page" for dot in sorted(dots, key=lambda dot: dot.x)] == [False, False, True]
    (stairs,) = [part for part in parts if isinstance(part, Polyline) and part.ink == "s0"]
    assert {(dot.x, dot.y) for dot in dots} <= set(stairs.points)
    assert all(x == last or y == before for (last, before), (x, y) in pairwise(stairs.points))
    (best,) = [part for part in parts if isinstance(part, TextLine) and part.text == "least EDP"]
    assert min(dots, key=lambda dot: abs(dot.x - best.x)).note.startswith("20 cycles")


def test_a_front_with_missing_points_says_where():
    scene = front_scene(front("FEASIBLE", [{"least_cycles": 51, "most_cycles": None}]), 800)
    (band,) = [
        part for part in scene.parts if isinstance(part, Box) and part.fill == "warn" and part.height > 20
    ]
    assert band.x + band.width == pytest.approx(790)
    assert not any(isinstance(part, TextLine) and part.text == "least EDP" for part in scene.parts)


def test_labels_stand_where_no_line_runs():
    """The line above a point would cross a label at its right; lines stop short of labels where they must."""
    line = Curve("above", "s0", [Mark(1, 1.12), Mark(9, 1.12)], "line", has_dots=False)
    point = Curve("point", "s1", [Mark(1, 0.5), Mark(5, 1.0, label="labelled"), Mark(9, 3)])
    scene = curves_scene("", [line, point], ChartAxis("x"), ChartAxis("y"), 500)
    (label,) = (part for part in scene.parts if isinstance(part, TextLine) and part.text == "labelled")
    (drawn,) = (part for part in scene.parts if isinstance(part, Polyline) and part.ink == "s0")
    (dot,) = (
        part for part in scene.parts if isinstance(part, Dot) and part.y > drawn.points[0][1] and part.x > 100
    )
    assert label.y - label.size > dot.y
    assert f'stroke="{LIGHT["page"]}" stroke-width="3" paint-order="stroke"' in svg_text(scene, LIGHT)


def test_dashed_lines_are_dashed_in_the_legend():
    curves = [
        Curve(name, "s0", [Mark(1, 2), Mark(2, 1)], "line", is_dashed=name == "dashed", has_dots=False)
        for name in ("whole", "dashed")
    ]
    scene = curves_scene("", curves, ChartAxis("x"), ChartAxis("y"), 500)
    assert len([part for part in scene.parts if isinstance(part, Box) and part.fill == "s0"]) == 1
    assert len([part for part in scene.parts if isinstance(part, Polyline) and part.dashed]) == 2
