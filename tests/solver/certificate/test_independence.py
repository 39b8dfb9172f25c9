"""The checker imports nothing of the product."""

import ast
import sys

from solver.cli.certify import checker_path
from tests.solver.certificate.checker import SCRIPTS

CHECKER = SCRIPTS / "prove.py"


def imported(path):
    """Top-level names of all modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module.split(".")[0]


def test_it_stands_alone():
    assert set(imported(CHECKER)) - set(sys.stdlib_module_names) == {"numpy", "prove_suite"}
    assert not set(imported(CHECKER)) & {"importlib", "runpy", "subprocess"}
    text = CHECKER.read_text()
    for call in ("__import__", "exec(", "eval("):
        assert call not in text


def test_the_package_carries_it():
    assert checker_path().read_text() == CHECKER.read_text()
