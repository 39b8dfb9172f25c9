"""Reports as HTML pages: their structure, that figures are those of the JSON, and that names stay text."""

import base64
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache, reduce
from html.parser import HTMLParser
from operator import getitem
from pathlib import Path
from random import Random

import pytest

from solver.comparison import Comparison, Improvement, MapperRun
from solver.explain import constraint_costs
from solver.fusion import FusionLimits, fuse_cascade
from solver.heuristics.interface import Budget
from solver.pareto import pareto_front
from solver.report import html
from solver.report.comparison import comparison_document
from solver.report.document import (
    evaluation_document,
    explanation_document,
    front_document,
    headed,
    result_document,
)
from solver.report.drawing import DARK, LIGHT, SERIES
from solver.report.figures import count_text, energy_text
from solver.report.fused import fused_result_document
from solver.report.html import NARROW
from solver.report.pages import PAGES, report_fragment, report_html
from solver.report.reading import DocumentError, Value, as_value, read_document
from solver.result import Options, Status
from solver.stages import map_einsum
from tests.solver.examples import (
    EVALUATION,
    FEASIBLE,
    INFEASIBLE,
    MAPPING,
    MAPSPACE,
    OPTIMAL,
    UNKNOWN,
    unaided,
)
from tests.solver.fusion.test_optimum import attention
from tests.solver.golden import assert_golden

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7 * 7 }} \x1b[2J \u202e ' + "n" * 200
VOID = {"meta", "input", "br", "wbr"}
LEAST_OF_SHAPES = 2.4
"""Every bar and area stands beside its figure in words; the guidelines ask for 3 where it does not."""


class Outline(HTMLParser):
    """Headings, captions and titles of figures of a page; fails on tags that do not close."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.open, self.tags, self.texts = [], [], set(), []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        shown = {"h1": "# ", "h2": "## ", "caption": "  table: ", "th": "    ", "dt": "- "}
        if self.open and self.open[-1] in shown and data.strip():
            self.lines.append(shown[self.open[-1]] + data.strip())
        if self.open[-2:] == ["svg", "title"] and "narrow" not in data:
            self.lines.append(f"  figure: {data}")


def outline(document):
    return Outline(report_html(as_value(headed(document))))


def comparison():
    outcome = MapperRun(
        "greedy", 1.5, 80, 60, (Improvement(0.1, OPTIMAL.value * 2, 7), Improvement(0.9, OPTIMAL.value, 80))
    )
    trace = (Improvement(0.2, OPTIMAL.value),)
    return Comparison("case", MAPSPACE, OPTIMAL, trace, (outcome,), Budget(2.0), 0)


@cache
def attended():
    """Attention whose scores wait on chip, with a body and tiles that are held above a loop."""
    return fuse_cascade(attention(6), "energy", limits=FusionLimits(max_loops_per_rank=1))


def fused(**changes):
    return fused_result_document(replace(attended(), **changes), ())


DOCUMENTS = {
    "fused": fused,
    "fused_unknown": lambda: fused(status=Status.UNKNOWN, value=None, mapping=None, unfused=None),
    "optimal": lambda: result_document(MAPSPACE, OPTIMAL, None, "VALID: no mapping is below"),
    "feasible": lambda: result_document(MAPSPACE, FEASIBLE),
    "infeasible": lambda: result_document(MAPSPACE, INFEASIBLE),
    "unknown": lambda: result_document(MAPSPACE, UNKNOWN),
    "evaluation": lambda: evaluation_document(MAPSPACE, MAPPING, EVALUATION),
    "comparison": lambda: comparison_document(comparison()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_structure_of_a_page(name):
    document = {**DOCUMENTS[name](), "run": {"command": "python -m solver", "inputs": []}}
    assert_golden(f"page_{name}.txt", "\n".join(outline(document).lines) + "\n")


def test_the_page_of_a_front_and_of_costs():
    front = pareto_front(MAPSPACE)
    lines = outline(front_document(MAPSPACE, front)).lines
    assert "  figure: Energy against cycles" in lines and "  table: Points" in lines
    costs = constraint_costs(MAPSPACE, Options(objectives=("energy",)), unaided)
    lines = outline(explanation_document(MAPSPACE, (), costs)).lines
    assert lines[0] == "# Constraints of conv1d" and "## Cost of each constraint" in lines


def test_figures_are_those_of_the_json():
    document = result_document(MAPSPACE, OPTIMAL)
    texts = outline(document).texts
    for level in document["levels"]:
        for space in level["dataspaces"].values():
            assert energy_text(space["energy_pj"]) in texts
            for key in ("tile_words", "reads", "fills", "updates"):
                assert count_text(space[key]) in texts
        for slack in level["slack"].values():
            assert count_text(slack["limit"]) in texts
    assert energy_text(document["energy_pj"]) in texts
    assert count_text(document["cycles"]) in texts


def renamed(thing):
    """A document whose every text is hostile, but for those that say what it is."""
    if isinstance(thing, dict):
        return {key: value if key in KEPT else renamed(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return list(map(renamed, thing))
    return HOSTILE if isinstance(thing, str) else thing


KEPT = {"kind", "type", "factors", "units", "units_per_pj", "mapping", "levels", "nodes", "einsum", "status"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_names_stay_text(name):
    page = outline(renamed(json.loads(json.dumps(DOCUMENTS[name]()))))
    assert "img" not in page.tags
    text = "".join(page.texts)
    assert "<script>alert(1)</script>" in text and "{{ 7 * 7 }}" in text
    assert "\x1b" not in text and "\u202e" not in text


def test_a_page_needs_nothing_else_and_allows_no_other_script():
    text = report_html(as_value(headed(result_document(MAPSPACE, OPTIMAL))))
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert len(text) < 1_000_000


@pytest.mark.parametrize("name", DOCUMENTS)
def test_who_does_not_see_it_or_has_a_phone_gets_all_of_it(name):
    """What a browser is not needed for; `scripts/check_pages.py` asks one."""
    text = report_html(as_value(headed(DOCUMENTS[name]())))
    assert '<html lang="en">' in text and 'name="viewport"' in text and text.count("<h1>") == 1
    figures = re.findall(r"<svg ([^>]*)>\s*<title[^>]*>([^<]*)", text)
    assert len(figures) == text.count("<svg ")
    assert all('role="img"' in attributes and "aria-labelledby=" in attributes for attributes, _ in figures)
    assert all(title.strip() for _, title in figures)
    narrow = re.findall(r'<div class="narrow"><svg [^>]*viewBox="0 0 ([\d.]+) ', text)
    assert len(narrow) == len(figures) / 2
    assert all(float(width) <= NARROW for width in narrow)
    assert len(re.findall("<table", text)) == len(re.findall('aria-label="Table: [^"]', text))
    assert len(re.findall("<th", text)) - len(re.findall("<thead", text)) == len(
        re.findall('<th scope="col"', text)
    )
    assert all('tabindex="0"' in tag and "aria-label=" in tag for tag in re.findall("<pre[^>]*>", text))
    assert not re.search(r"style=|<font|width: *\d{3,}px", text.partition("</style>")[2])


def brightness(colour):
    """Relative luminance, as the guidelines for accessibility (WCAG 2, 1.4.3) define it."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [own / 12.92 if own <= 0.04045 else ((own + 0.055) / 1.055) ** 2.4 for own in shares]
    return sum(weight * own for weight, own in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first, second):
    dark, light = sorted(map(brightness, (first, second)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("palette", "scheme"), [(LIGHT, "light"), (DARK, "dark")])
def test_colours_can_be_told_from_what_they_stand_on(palette, scheme):
    style = (Path(html.__file__).parent / "templates" / "report.css").read_text(encoding="utf-8")
    own = dict(re.findall(r"--([\w-]+): (#\w+)", style.partition(f"/*{scheme}*/")[2].partition("}")[0]))
    colours = {**palette, **own}
    for ground in ("page", "panel"):
        for ink in ("text", "muted", "accent"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        for number in range(SERIES):
            assert contrast(colours[f"s{number}"], colours[ground]) >= LEAST_OF_SHAPES, (number, ground)
    for tone, ground in (("good", "good-back"), ("fair", "fair-back"), ("warn", "bad-back")):
        assert contrast(colours[tone], colours[ground]) >= 4.5, tone
        assert contrast(colours["text"], colours[ground]) >= 4.5, tone


def test_pages_are_the_same_every_time_and_fragments_have_no_script():
    value = as_value(headed(result_document(MAPSPACE, OPTIMAL)))
    assert report_html(value) == report_html(value)
    assert "<script" not in report_fragment(value)


def test_ids_are_unique():
    text = report_html(as_value(headed(result_document(MAPSPACE, OPTIMAL))))
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("factor", [0, 1e-30, 1e30])
def test_figures_of_any_size_are_shown(factor):
    document = json.loads(json.dumps(result_document(MAPSPACE, OPTIMAL)))
    for key in ("energy_pj", "compute_energy_pj", "value", "bound"):
        document[key] *= factor
    for level in document["levels"]:
        level["energy_pj"] *= factor
        for space in level["dataspaces"].values():
            space["energy_pj"] *= factor
    assert "nan" not in report_html(as_value(headed(document)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "a JSON object is expected"),
        (b"{", "not valid JSON"),
        (b'{"kind": NaN}', "NaN is not a JSON number"),
        (b'{"kind": "tile"}', "there is no report of 'tile'"),
        (b"{}", "the key 'kind' is missing"),
        (b'{"kind": "sweep", "points": 5}', "points: a list is expected"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_result_is_refused(content, message, tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=message):
        report_html(read_document(path))


def places(thing, place=()):
    """All places in a document but its own."""
    entries = (
        thing.items() if isinstance(thing, dict) else enumerate(thing if isinstance(thing, list) else ())
    )
    for key, value in entries:
        yield (*place, key)
        yield from places(value, (*place, key))


STRANGE = (None, 0, -1, 1e308, 10**299, "", [], {}, "x", True, [None], 1e-320, "P=3,9")


@pytest.mark.parametrize("name", ["optimal", "comparison", "infeasible", "fused"])
def test_a_damaged_document_is_shown_or_refused(name):
    random, text = Random(7), json.dumps(headed(DOCUMENTS[name]()))
    every = list(places(json.loads(text)))
    for _ in range(80):
        document = json.loads(text)
        for place in random.sample(every, 2):
            with suppress(KeyError, IndexError, TypeError):  # the first may have taken the second away
                inner = reduce(getitem, place[:-1], document)
                inner[place[-1]] = random.choice(STRANGE)
        with suppress(DocumentError):
            report_html(Value(document))


def test_bars_that_are_left_out_are_said():
    layer = {
        **{"shape": {}, "n_instances": 1, "origin": "copy", "same_as": None, "status": "OPTIMAL"},
        **{"energy_pj": 2.0, "cycles": 3, "limited_by": None, "result": None, "transfer": None},
    }
    layers = [{"name": f"layer{number}", **layer} for number in range(100)]
    head = {
        "kind": "network",
        "network": "n",
        "status": "OPTIMAL",
        "proven": 100,
        "einsums": 100,
        "seconds": 1,
    }
    figures = {"energy_pj": 200.0, "cycles": 300, "edp_pj_cycles": 60000.0, "notes": [], "infeasible": []}
    text = report_html(Value({**head, **figures, "layers": layers}))
    assert text.count("The first 60 of 100; the table below shows all of them.") == 2
    assert text.count("layer99<") == 1


def test_every_kind_of_document_has_a_page():
    for kind in PAGES:
        with pytest.raises(DocumentError, match="is missing"):
            report_html(Value({"kind": kind}))


def test_a_mapping_that_was_just_found_has_a_page():
    result = map_einsum(MAPSPACE, Options(objectives=("latency", "energy")))
    assert ", then energy " in "".join(outline(result_document(MAPSPACE, result)).texts)
