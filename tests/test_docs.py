"""The examples in Python of the documentation run; README.md and the tutorial have separate tests."""

import re
import runpy

import pytest

from tests.conftest import REPOSITORY

TUTORIAL = "writing-a-mapper.md"
EXAMPLES = [
    pytest.param(example, id=f"{page.stem}-{number}")
    for page in sorted((REPOSITORY / "docs").glob("*.md"))
    if page.name != TUTORIAL
    for number, example in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    )
]
LONGEST_ROW = 110


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example, working_directory):
    (working_directory / "specs").symlink_to(REPOSITORY / "specs")
    script = working_directory / "example.py"
    script.write_text(example, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")


def test_links_lead_somewhere():
    for page in (*(REPOSITORY / "docs").glob("*.md"), REPOSITORY / "CONTRIBUTING.md"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_modules_that_the_search_is_described_by_exist():
    text = (REPOSITORY / "docs" / "search.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)*\w+\.py|\w+/\w+)`", text)
    assert named
    places = {name: [REPOSITORY / name, REPOSITORY / "solver" / "search" / name] for name in named}
    found = {name for name, own in places.items() if any(path.with_suffix(".py").exists() for path in own)}
    assert {*named} - found == set()


@pytest.mark.parametrize("package", ["model", "solver", "scripts"])
def test_the_map_of_the_house_names_every_room(package):
    """A package that is named covers its modules; `bench_*.py` covers all benchmarks."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [path for path in (REPOSITORY / package).iterdir() if not path.name.startswith(("_", "."))]
    rooms = [path for path in rooms if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert rooms
    named = [rf"{path.name}/" if path.is_dir() else rf"{path.stem}(\.py)?`" for path in rooms]
    kinds = [re.escape(f"{path.stem.split('_')[0]}_*.py`") for path in rooms]
    pairs = zip(rooms, named, kinds, strict=True)
    assert [path.name for path, *ways in pairs if not re.search(rf"[`/]({'|'.join(ways)})", text)] == []


def test_rows_of_the_map_are_short():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [row for row in text.splitlines() if row.startswith("|") and len(row) > LONGEST_ROW] == []
