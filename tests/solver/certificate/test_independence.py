"""The checker imports nothing of the product."""

import ast
import sys

from solver.cli.certificates import checker_path
from tests.solver.certificate.checker import SCRIPTS

CHECKER = SCRIPTS / "prove.py"
DENSE = ("claims", "conditions", "perfect", "perfect_bounds", "remainders", "remainder_bounds")
FUSED = (
    "fused_visits",
    "fused_further",
    "fused_einsums",
    "fused_cascade",
    "fused_tree",
    "fused_edges",
    "fused_paths",
    "common_claims",
)
SPARSE = ("sparse", "sparse_bounds", "sparse_levels", "zeros")
PARTS = [CHECKER, *(SCRIPTS / f"{name}.py" for name in (*DENSE, *FUSED, *SPARSE))]


def imported(path):
    """Top-level names of all modules that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module.split(".")[0]


def test_it_stands_alone():
    own = {path.stem for path in PARTS}
    names = set().union(*(imported(path) for path in PARTS))
    assert names - set(sys.stdlib_module_names) - own == {"numpy", "prove_suite"}
    assert not names & {"importlib", "runpy", "subprocess"}
    for path in PARTS:
        for call in ("__import__", "exec(", "eval("):
            assert call not in path.read_text()


def test_the_package_carries_it():
    for path in PARTS:
        assert (checker_path().parent / path.name).read_text() == path.read_text()
