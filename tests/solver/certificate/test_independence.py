"""The checker imports nothing of the product."""

import ast
import subprocess
import sys

from solver.cli.certificates import checker_path
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "solver" / "certificate" / "checker"
PARTS = sorted(FOLDER.glob("*.py"))
PACKAGE = "solver.certificate.checker"
LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
import solver.certificate.checker.prove
print(*(name for name in sys.modules if name.split(".")[0] in ("model", "solver")))
"""


def imported(path):
    """All modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module


def test_it_stands_alone():
    own = {f"{PACKAGE}.{path.stem}" for path in PARTS}
    names = {name.split(".")[0] for path in PARTS for name in imported(path) if name not in own}
    assert names - set(sys.stdlib_module_names) == {"numpy"}
    assert not names & {"importlib", "runpy", "subprocess"}
    for path in PARTS:
        for call in ("__import__", "exec(", "eval("):
            assert call not in path.read_text()


def test_nothing_else_is_loaded_with_it():
    words = [sys.executable, "-P", "-c", LOADED, str(REPOSITORY)]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    others = [name for name in loaded if not name.startswith(PACKAGE)]
    assert others == ["solver", "solver.certificate"]


def test_the_package_has_real_files():
    assert checker_path().parent == FOLDER
    assert all(path.is_file() and not path.is_symlink() for path in PARTS)
