"""The shipped benchmark layers, proven one after the other: `prove.py --suite`.

The optimizer runs in a separate process; only its certificates are read here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_cases import bench_cases, containing
from rich.console import Console
from rich.table import Table

OBJECTIVES = ("energy", "edp")
COLUMNS = ("layer", "objective", "optimum", "bound", "verdict", "map s", "check s")


UNCERTIFIED = "INVALID"
"""The verdict on a layer that has no certificate."""


def run_suite(only: str, verdict: Callable[[Path], tuple[str, str]]) -> set[str]:
    """Map, certify and check every case whose name contains `only`; return the verdicts that there are."""
    table = Table(title="Proofs of the shipped layers (pJ, pJ*cycles)", title_justify="left")
    for column in COLUMNS:
        table.add_column(
            column, justify="right" if column in ("optimum", "bound", "map s", "check s") else "left"
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    runs = [(case, objective) for case in containing(only, bench_cases()) for objective in OBJECTIVES]
    verdicts: list[str] = []
    with console.status("") as status:
        for case, objective in runs:
            status.update(f"{case.name} {objective} ({len(verdicts)} of {len(runs)} done)")
            row, result = _row(case.name, case.files, objective, verdict)
            table.add_row(*row)
            verdicts.append(result)
    console.print(table)
    console.print(f"{verdicts.count('VALID')} of {len(verdicts)} proofs are VALID")
    return set(verdicts)


def _row(
    name: str, files: list[Path], objective: str, verdict: Callable[[Path], tuple[str, str]]
) -> tuple[list[str], str]:
    """Return the cells of a row, and the verdict."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        words = ["map", *map(str, files), "--factors", "perfect", "--objective", objective]
        words += ["--quiet", "--certificate", str(path)]
        start = time.perf_counter()
        mapped = subprocess.run([sys.executable, "-m", "solver", *words], check=False)
        middle = time.perf_counter()
        if not path.exists():
            ended = f"map ended with {mapped.returncode}"
            return [name, objective, "-", "-", ended, f"{middle - start:.2f}", "-"], UNCERTIFIED
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        result, reason = verdict(path)
        seconds = f"{middle - start:.2f}", f"{time.perf_counter() - middle:.2f}"
    shown = result if result == "VALID" else f"{result}: {reason}"
    units = document["problem"]["units_per_pj"]
    figures = document["cost"][objective] / units, document["bounds"][0] / units
    return [name, objective, *(f"{figure:.6g}" for figure in figures), shown, *seconds], result
