"""Prints what becomes of AccelForge's workloads on its architectures: values, or why they are refused.

    python scripts/accelforge_matrix.py EXAMPLES --costs TABLE --time-limit 5 --only mixtral --only nvdla

EXAMPLES has the folders `workloads` and `arches` of AccelForge. Each pair is searched by `network --fuse`,
in a process of its own that is ended when it takes much longer than its limit. Refusals come last, those that
most pairs meet first. `--unfused` maps each Einsum alone instead. Workloads that ask for variables get
VARIABLES.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.console import Console

VARIABLES = (
    *("BATCH_SIZE=1", "DECODE=False", "N_NEW_TOKENS=1024", "ATTENTION_TYPE=grouped_query"),
    *("N_EINSUMS=3", "M=1024", "KN=1024"),
)
"""Those that the shipped workloads ask for."""

SPARE_S = 60.0
"""Seconds that a pair may take beyond its limit, for reading and for its last searches."""


@dataclass(frozen=True)
class Cell:
    """What became of a workload on an architecture.

    Parameters
    ----------
    status
        Of the search; ``refused``, or ``late`` of one that had to be ended.
    text
        The value with its gap, or the message.
    """

    workload: str
    architecture: str
    status: str
    text: str
    seconds: float


def pairs(examples: Path, only: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Yield the files of each workload and architecture whose names have all of some texts."""
    workloads = sorted((examples / "workloads").rglob("*.yaml"))
    arches = sorted((examples / "arches").rglob("*.yaml"))
    for workload, arch in product(filter(_is_whole, workloads), filter(_is_whole, arches)):
        label = f"{workload.stem} {arch.stem}"
        if all(text in label for text in only):
            yield workload, arch


def _is_whole(file: Path) -> bool:
    """Whether a file is more than a part of others."""
    return "memory_cells" not in file.parts and not any(part.startswith("_") for part in file.parts)


def cell(workload: Path, arch: Path, arguments: argparse.Namespace) -> Cell:
    """Search one pair."""
    command = [sys.executable, "-m", "solver", "network", str(workload), str(arch), "--quiet", "--json", "-"]
    command += ["--no-fuse" if arguments.unfused else "--fuse", "--objective", arguments.objective]
    command += ["--time-limit", str(arguments.time_limit), *(a for v in VARIABLES for a in ("--set", v))]
    command += ["--costs", str(arguments.costs)] if arguments.costs else []
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=arguments.time_limit + SPARE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Cell(workload.stem, arch.stem, "late", "-", time.monotonic() - start)
    seconds = time.monotonic() - start
    if not done.stdout.startswith("{"):
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith("note")]
        return Cell(workload.stem, arch.stem, "refused", lines[0] if lines else str(done.returncode), seconds)
    document = json.loads(done.stdout)
    return Cell(workload.stem, arch.stem, str(document["status"]), _figures(document), seconds)


def _figures(document: dict[str, object]) -> str:
    """Return what was found, for people."""
    figures = {key: document.get(key) for key in ("energy_j", "latency_s", "edp_j_s", "gap")}
    return " ".join(f"{key} {value:.7g}" for key, value in figures.items() if isinstance(value, float))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each pair, then what refusals say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("--costs", type=Path, help="a table of costs, as of `network`")
    parser.add_argument("--only", action="append", default=[], help="pairs whose names have this text")
    parser.add_argument("--objective", default="energy")
    parser.add_argument("--time-limit", type=float, default=5.0, metavar="S")
    parser.add_argument("--unfused", action="store_true")
    arguments = parser.parse_args(argv)
    console = Console(width=180)
    refused: dict[str, list[str]] = defaultdict(list)
    for workload, arch in pairs(arguments.examples, arguments.only):
        own = cell(workload, arch, arguments)
        line = f"{own.workload:26} {own.architecture:26} {own.status:10} {own.seconds:6.1f} s  {own.text}"
        console.print(line, highlight=False)
        if own.status == "refused":
            refused[own.text].append(f"{own.workload} {own.architecture}")
    for message, labels in sorted(refused.items(), key=lambda item: -len(item[1])):
        console.print(f"{len(labels)} times: {message}", highlight=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
