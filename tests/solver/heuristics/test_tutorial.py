"""The mappers of docs/writing-a-mapper.md, run as the page says."""

import json
import re
import sys

import pytest

from solver.cli.main import main
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "writing-a-mapper.md").read_text(encoding="utf-8")
MODULES = ("correlation", "priced_correlation")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with the files of the page, and only for this test on the path of modules."""
    for name, language in (("correlation.yaml", "yaml"), *((f"{name}.py", "python") for name in MODULES)):
        block = re.search(rf"`{re.escape(name)}`:\n\n```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
        (tmp_path / name).write_text(block[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


def run(folder, *words):
    out = folder / "out.json"
    assert main(["compare", "correlation.yaml", "--jobs", "1", "--json", str(out), *words]) == 0
    return {own["name"]: own for own in json.loads(out.read_text())["mappers"]}


def test_the_tiling_comes_near_the_optimum_and_the_priced_one_reaches_it(folder, capsys):
    first, second = "correlation:CorrelationTiling", "priced_correlation:PricedCorrelationTiling"
    found = run(folder, "--mappers", "", "--mapper", first, "--mapper", second)
    assert list(found) == [first, second]
    assert f"{found[first]['ratio']:.4f}" in PAGE
    assert found[first]["evaluations"] == 1
    assert found[second]["ratio"] == 1
    assert f"{found[second]['evaluations']:,} mappings" in PAGE
    assert first in capsys.readouterr().out


def test_the_tiling_cuts_more_dimensions_in_a_smaller_scratchpad(folder):
    text = (folder / "correlation.yaml").read_text().replace("depth: 1024", "depth: 2")
    (folder / "correlation.yaml").write_text(text)
    found = run(folder, "--mappers", "", "--mapper", "correlation:CorrelationTiling")
    assert found["correlation:CorrelationTiling"]["remark"] == ""
    assert found["correlation:CorrelationTiling"]["ratio"] > 1


def test_another_operator_is_refused_with_a_reason(folder):
    text = (folder / "correlation.yaml").read_text().replace("name: correlation", "name: other")
    (folder / "correlation.yaml").write_text(text)
    found = run(folder, "--mappers", "", "--mapper", "correlation:CorrelationTiling")
    assert found["correlation:CorrelationTiling"]["value"] is None
    assert "tiles a correlation" in found["correlation:CorrelationTiling"]["remark"]
