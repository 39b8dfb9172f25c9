"""Holds mappings that Timeloop's mapper recorded against the proven optimum of the same design and layer.

    python scripts/bench_timeloop.py DIRECTORY --only eyeriss

DIRECTORY is `workspace/example_designs/example_designs` of the repository timeloop-accelergy-exercises, which
keeps for some designs what its mapper answered for their default layer: `ref_outputs/default_problem/` with
`timeloop-mapper.map.yaml`, the energies `timeloop-mapper.ERT.yaml`, and `timeloop-mapper.stats.txt`. The
recorded mapping and the optimum are both counted by our model, so the gap is that of the mapping alone; what
Timeloop printed stands beside it. Factors are those that Timeloop's mapper draws from: divisors only.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from model.cost import evaluate_in
from model.formats.timeloop import LoadOptions, TimeloopOptions, load_timeloop
from model.objective import EDP
from solver.report.figures import percent, significant
from solver.result import Options, Status
from solver.stages import map_einsum

SPEC, ANSWERS = "top.yaml.jinja2", "ref_outputs/default_problem"
COLUMNS = ("design", "proven EDP", "gap", "s", "recorded mapping", "over the proof", "printed by Timeloop")


@dataclass(frozen=True)
class Comparison:
    """EDP in pJ*cycles: of our answer, of the recorded mapping, and as Timeloop printed it."""

    value: float
    is_proven: bool
    gap: float | None
    seconds: float
    recorded: float
    printed: float


def compared(directory: Path, design: str, time_limit_s: float) -> Comparison:
    """Map the default layer of a design, and price the mapping that Timeloop's mapper found."""
    answers = directory / design / ANSWERS
    paths = [directory / SPEC, answers / "timeloop-mapper.ERT.yaml"]
    options = LoadOptions(
        timeloop=TimeloopOptions(padding=True, mapping_file=answers / "timeloop-mapper.map.yaml"),
        factors="perfect",
    )
    loaded = load_timeloop(paths, {"architecture": design}, options)
    recorded = evaluate_in(loaded.mapspace, loaded.mapping)
    result = map_einsum(loaded.mapspace, Options(objectives=(EDP,), time_limit_s=time_limit_s))
    units = loaded.mapspace.architecture.units_per_pj
    return Comparison(
        value=result.value / units,
        is_proven=result.status is Status.OPTIMAL,
        gap=result.gap,
        seconds=result.statistics.seconds,
        recorded=recorded.edp / units,
        printed=printed_edp((answers / "timeloop-mapper.stats.txt").read_text(encoding="utf-8")),
    )


def printed_edp(text: str) -> float:
    """Return the printed energy times the cycles, in pJ*cycles; the printed EDP has three digits."""
    cycles = re.search(r"^Cycles: (\d+)$", text, re.MULTILINE)
    energy_uj = re.search(r"^Energy: ([\d.]+) uJ$", text, re.MULTILINE)
    if cycles is None or energy_uj is None:
        raise ValueError("the statistics have no lines `Cycles: N` and `Energy: X uJ`")
    return float(energy_uj[1]) * 1e6 * int(cycles[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each design whose answers are kept and which has a dense layer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path, help="the example designs, see above")
    parser.add_argument("--only", default="", help="designs whose name contains this text")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="of each proof")
    arguments = parser.parse_args(argv)
    table = Table(*COLUMNS)
    for stats in sorted(arguments.directory.glob(f"*/{ANSWERS}/timeloop-mapper.stats.txt")):
        design = stats.relative_to(arguments.directory).parts[0]
        if arguments.only not in design or (arguments.directory / design / "problem.yaml").exists():
            continue
        own = compared(arguments.directory, design, arguments.time_limit)
        table.add_row(
            design,
            significant(own.value),
            "proven" if own.is_proven else "-" if own.gap is None else percent(own.gap),
            f"{own.seconds:.1f}",
            significant(own.recorded),
            f"{own.recorded / own.value:.4f}",
            significant(own.printed),
        )
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
