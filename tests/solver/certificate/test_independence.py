"""What the checker may know: nothing of the product."""

import ast
import sys

import pytest

from solver.cli.certify import checker_path
from tests.solver.certificate.checker import SCRIPTS

MODULES = ("prove", "prove_bounds", "prove_choice", "prove_space")
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
    path = SCRIPTS / f"{name}.py"
    assert len(path.read_text().splitlines()) <= MOST_LINES
    strangers = set(imported(path)) - set(sys.stdlib_module_names) - {"numpy", *MODULES}
    assert strangers <= {"prove_suite"}
    assert not set(imported(path)) & {"importlib", "runpy", "subprocess"}
    for call in ("__import__", "exec(", "eval("):
        assert call not in path.read_text()


@pytest.mark.parametrize("name", MODULES)
def test_the_package_carries_the_checker(name):
    carried = checker_path().with_name(f"{name}.py")
    assert carried.read_text() == (SCRIPTS / f"{name}.py").read_text()
