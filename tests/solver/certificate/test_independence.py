"""What the checker may know: nothing of the product."""

import ast
import sys

import pytest

from solver.cli.certify import checker_path
from tests.solver.certificate.checker import SCRIPTS

MODULES = ("prove.py", "prove_nests.py", "prove_space.py")
MOST_LINES = 400


def imported(path):
    """Top-level names of all modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module.split(".")[0]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_short_and_stand_alone(name):
    text = (SCRIPTS / name).read_text()
    assert len(text.splitlines()) <= MOST_LINES
    strangers = set(imported(SCRIPTS / name)) - set(sys.stdlib_module_names) - {"numpy"}
    assert strangers <= {"prove_nests", "prove_space", "prove_suite"}
    assert not set(imported(SCRIPTS / name)) & {"importlib", "runpy", "subprocess"}
    for call in ("__import__", "exec(", "eval("):
        assert call not in text


@pytest.mark.parametrize("name", MODULES)
def test_the_package_carries_it(name):
    assert checker_path().with_name(name).read_text() == (SCRIPTS / name).read_text()
