"""The program beside files of a user's that bear the names of modules that it imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from solver.exit_codes import EXIT_OPTIMAL
from tests.conftest import REPOSITORY
from tests.small_network import write_specs

PACKAGES = {"model", "specs", "google", "jinja2", "markupsafe", "numpy", "ortools", "pandas", "rich", "yaml"}
STARTED_FROM = {
    "abc",
    "codecs",
    "collections",
    "contextlib",
    "copyreg",
    "encodings",
    "enum",
    "functools",
    "genericpath",
    "heapq",
    "importlib",
    "inspect",
    "io",
    "keyword",
    "linecache",
    "operator",
    "os",
    "pkgutil",
    "posixpath",
    "re",
    "reprlib",
    "runpy",
    "site",
    "stat",
    "token",
    "tokenize",
    "types",
    "typing",
    "warnings",
    "weakref",
}
"""What ``python -m`` may import itself, before any line of the program runs."""

NAMES = PACKAGES | {name for name in sys.stdlib_module_names if not name.startswith("_")} - STARTED_FROM
RAN = "a file of the user's ran"


def neighbours(directory: Path, names: set[str]) -> None:
    for name in names:
        (directory / f"{name}.py").write_text(f"raise SystemExit({RAN!r})\n", encoding="utf-8")


def run(words: list[str], *paths: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*paths, REPOSITORY)))}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["map", "--einsum", "T", "--engine", "cp-sat"], id="map"),
        pytest.param(["network", "--jobs", "2"], id="worker processes"),
    ],
)
def test_files_of_the_working_directory_are_not_imported(working_directory, words):
    specs = [str(path) for path in write_specs()]
    neighbours(working_directory, NAMES)
    done = run(["solver", *words, *specs])
    assert (done.returncode, done.stderr) == (EXIT_OPTIMAL, "")
    assert "OPTIMAL" in done.stdout


def test_such_files_are_what_python_imports_first(working_directory):
    neighbours(working_directory, {"model"})
    assert RAN in run(["model.mapping"]).stderr


def test_packages_of_the_same_names_may_come_first(working_directory, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    neighbours(elsewhere, {"model", "specs"})
    done = run(["solver", "check", "--einsum", "T", *map(str, write_specs())], elsewhere)
    assert (done.returncode, done.stderr) == (EXIT_OPTIMAL, "")
