"""The shipped benchmark layers, proven one after the other: `prove.py --suite`.

The optimizer runs in separate processes; only its certificates and documents are read here. Four witnesses
say what the optimum is: the search by bounds, the checker of its certificate, CP-SAT alone, and an
enumeration of all mappings. The last two are asked if they are named, and say nothing if they do not end in
time.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from bench_cases import Case, bench_cases, containing
from rich.console import Console
from rich.table import Table

OBJECTIVES = ("energy", "edp")
COLUMNS = ("layer", "objective", "optimum", "bound", "verdict", "agree", "map s", "check s")
FIGURES = ("optimum", "bound", "map s", "check s")
WITNESSES = ("cp-sat", "enumeration")
"""Those that are asked only if they are named."""

UNCERTIFIED = "INVALID"
"""The verdict on a layer that has no certificate, or one that a witness contradicts."""

Check = Callable[[Path], tuple[str, str]]


def run_suite(only: str, verdict: Check, witnesses: Collection[str] = (), seconds: float = 60) -> set[str]:
    """Map, certify and check every case whose name contains `only`; return the verdicts that there are.

    `witnesses` out of `WITNESSES` have so many seconds each.
    """
    table = Table(title="Proofs of the shipped layers (pJ, pJ*cycles)", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in FIGURES else "left")
    console = Console(width=None if sys.stdout.isatty() else 160)
    runs = [(case, objective) for case in containing(only, bench_cases()) for objective in OBJECTIVES]
    verdicts: list[str] = []
    with console.status("") as status:
        for case, objective in runs:
            status.update(f"{case.name} {objective} ({len(verdicts)} of {len(runs)} done)")
            row, result = _row(case, objective, verdict, witnesses, seconds)
            table.add_row(*row)
            verdicts.append(result)
    console.print(table)
    console.print(f"{verdicts.count('VALID')} of {len(verdicts)} proofs are VALID")
    return set(verdicts)


def _row(
    case: Case, objective: str, verdict: Check, witnesses: Collection[str], seconds: float
) -> tuple[list[str], str]:
    """Return the cells of a row, and the verdict."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        start = time.perf_counter()
        ended = _solver("map", case, objective, "--quiet", "--certificate", str(path))
        middle = time.perf_counter()
        if not path.exists():
            cells = [case.name, objective, "-", "-", f"map ended with {ended}", "-"]
            return [*cells, f"{middle - start:.2f}", "-"], UNCERTIFIED
        document = _read(path)
        result, reason = verdict(path)
        times = f"{middle - start:.2f}", f"{time.perf_counter() - middle:.2f}"
        found = {name: _ASKED[name](case, objective, seconds, Path(folder)) for name in witnesses}
    optimum = document["cost"][objective]
    units = document["problem"]["units_per_pj"]
    agree = ["bounds", *(["checker"] if result == "VALID" else [])]
    agree += [name for name, value in found.items() if value is not None and _is_same(value * units, optimum)]
    against = [name for name, value in found.items() if value is not None and name not in agree]
    if against:
        result, reason = UNCERTIFIED, f"contradicted by {', '.join(against)}"
    shown = result if result == "VALID" else f"{result}: {reason}"
    figures = (f"{value / units:.6g}" for value in (optimum, document["bounds"][0]))
    return [case.name, objective, *figures, shown, ", ".join(agree), *times], result


def _is_same(value: float, optimum: int) -> bool:
    """Whether a value, which documents have as a double, is that of the optimum."""
    return math.isclose(value, optimum, rel_tol=1e-12)


def _solver(command: str, case: Case, objective: str, *words: str) -> int:
    """Run a command of the optimizer on a case; return its exit code."""
    common = ("--objective", objective, "--factors", "perfect")
    line = [sys.executable, "-m", "solver", command, *map(str, case.files), *common, *words]
    return subprocess.run(line, check=False, stdout=subprocess.DEVNULL).returncode


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _by_cp_sat(case: Case, objective: str, seconds: float, folder: Path) -> float | None:
    """The optimum by CP-SAT alone, in units of documents; None if it is not proven in time."""
    path = folder / "cp_sat.json"
    words = ("--engine", "cp-sat", "--time-limit", str(seconds), "--quiet", "--json", str(path))
    _solver("map", case, objective, *words)
    document = _read(path) if path.exists() else {}
    return document["value"] if document.get("status") == "OPTIMAL" else None


def _by_enumeration(case: Case, objective: str, seconds: float, folder: Path) -> float | None:
    """The least value of all mappings; None if they are too many for the time."""
    path = folder / "enumeration.json"
    words = ("--mappers", "linear-pruned", "--budget", str(seconds), "--json", str(path))
    _solver("compare", case, objective, *words)
    mappers = _read(path)["mappers"] if path.exists() else []
    return next((own["value"] for own in mappers if own["seconds"] < seconds), None)


_ASKED: dict[str, Callable[[Case, str, float, Path], float | None]] = {
    "cp-sat": _by_cp_sat,
    "enumeration": _by_enumeration,
}
