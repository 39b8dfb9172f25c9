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
FULLY_CONNECTED = "specs/layers/resnet18/21_fc.yaml"
SMALLER = {
    "specs/networks/inception_3a.yaml": "network.yaml",
    "specs/layers/alexnet/02_conv2.yaml": FULLY_CONNECTED,
    "specs/layers/resnet18/02_conv2_block1_a.yaml": FULLY_CONNECTED,
    "specs/workloads/three_matmuls.yaml": "matmuls.yaml",
}
"""What takes long to search, and what takes its place here."""


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example, working_directory):
    (working_directory / "specs").symlink_to(REPOSITORY / "specs")
    large = (REPOSITORY / "specs/workloads/three_matmuls.yaml").read_text(encoding="utf-8")
    (working_directory / "matmuls.yaml").write_text(large.replace("128", "8"), encoding="utf-8")
    small = (REPOSITORY / "tests/solver/cli/data/mapped_network.yaml").read_text(encoding="utf-8")
    (working_directory / "network.yaml").write_text(small.replace(", methods: [rows]", ""), encoding="utf-8")
    assert all((REPOSITORY / path).is_file() for path in re.findall(r"specs/[\w/]+\.yaml", example))
    for path, smaller in SMALLER.items():
        example = example.replace(path, smaller)
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


def test_the_index_lists_every_page():
    text = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"]({page})" not in text} == set()
