"""Maps networks on architectures and on variations of them: a table, and a picture of the trade-off.

    python scripts/sweep.py --networks specs/workloads/attention.yaml
        --architectures specs/architectures/eyeriss_like.yaml
        --vary global_buffer.depth=3200,6400,12800 --picture tradeoff.png --jobs 2

Every combination of network, architecture and attribute values is mapped; searches that several of
them need run once and are kept, as by `python -m solver network --resume`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from model.spec.cascade import load_network
from model.spec.cascade.overrides import Override
from model.spec.reader import parse_assignments
from model.spec.source import SpecError
from solver.cli.network_arguments import default_cache
from solver.network import NetworkResult, Processes, ResultCache, Serial, map_network
from solver.network.cluster import Cluster
from solver.network.executors import Executor, ExecutorError
from solver.report.convergence import DOTS_PER_INCH, SIZE_INCHES, PlotError, check_plot
from solver.report.figures import count_text, energy_text, significant
from solver.result import Options, Status

EXIT_INVALID = 2
EXIT_UNPROVEN = 3


@dataclass(frozen=True)
class Point:
    """One combination, and what came out."""

    network: Path
    architecture: Path
    overrides: tuple[Override, ...]
    result: NetworkResult

    @property
    def design(self) -> str:
        """The architecture with what was varied."""
        return " ".join((self.architecture.stem, *map(str, self.overrides)))

    @property
    def costs(self) -> tuple[float, int] | None:
        """Energy in picojoules, and cycles; None if an Einsum has no mapping."""
        energy, cycles = self.result.energy, self.result.cycles
        if energy is None or cycles is None:
            return None
        return energy / self.result.units_per_pj, cycles


def sweep(given: argparse.Namespace, executor: Executor) -> Iterator[Point]:
    """Map every combination."""
    objectives = tuple(name.strip() for name in given.objective.split(","))
    options = Options(objectives, time_limit_s=given.time_limit, jobs=given.jobs)
    cache = ResultCache(given.cache)
    variables = parse_assignments(given.variables)
    for network, architecture, overrides in product(
        given.networks, given.architectures, variations(given.vary)
    ):
        loaded = load_network([network, architecture], variables, overrides=overrides)
        result = map_network(loaded, options, cache, resume=True, executor=executor)
        yield Point(network, architecture, overrides, result)


def variations(texts: Sequence[str]) -> list[tuple[Override, ...]]:
    """All combinations of the values that are given for attributes."""
    choices = []
    for text in texts:
        address, equals, values = text.partition("=")
        choices.append([Override.of(f"{address}{equals}{value}") for value in values.split(",")])
    return list(product(*choices))


def undominated(points: Sequence[Point]) -> set[int]:
    """Places of the points of one network that no other one beats in energy and cycles."""
    best = set()
    for place, point in enumerate(points):
        rivals = [other.costs for other in points if other.network == point.network]
        if point.costs is not None and not any(_beats(rival, point.costs) for rival in rivals):
            best.add(place)
    return best


def _beats(rival: tuple[float, int] | None, own: tuple[float, int]) -> bool:
    return rival is not None and rival != own and rival[0] <= own[0] and rival[1] <= own[1]


def table(points: Sequence[Point]) -> Table:
    """One row per combination; a star marks those that no other one beats in energy and cycles."""
    rows = Table()
    for heading in ("network", "architecture", "energy", "cycles", "EDP (pJ*cycles)", "proven", "status"):
        rows.add_column(heading)
    rows.add_column("best")
    rows.add_column("seconds")
    best = undominated(points)
    for place, point in enumerate(points):
        costs, result = point.costs, point.result
        figures = ("-", "-", "-")
        if costs is not None:
            figures = (energy_text(costs[0]), count_text(costs[1]), significant(costs[0] * costs[1]))
        share = f"{result.proven}/{len(result.network.layers)}"
        star = "*" if place in best else ""
        name = point.network.stem
        rows.add_row(name, point.design, *figures, share, result.status.value, star, f"{result.seconds:.2f}")
    return rows


def draw(points: Sequence[Point], path: Path) -> None:
    """Draw energy against cycles, a line per network through the points that none beats."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    best = undominated(points)
    for network in dict.fromkeys(point.network for point in points):
        own = [(p, place) for place, p in enumerate(points) if p.network == network and p.costs is not None]
        (dots,) = axes.plot(
            [p.costs[1] for p, _ in own], [p.costs[0] / 1e6 for p, _ in own], "o", label=network.stem
        )
        front = sorted((p.costs[1], p.costs[0] / 1e6) for p, place in own if place in best)
        axes.plot([cycles for cycles, _ in front], [energy for _, energy in front], color=dots.get_color())
        for p, _ in own:
            axes.annotate(p.design, (p.costs[1], p.costs[0] / 1e6), fontsize=7)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("cycles")
    axes.set_ylabel("energy (uJ)")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=DOTS_PER_INCH)


def document(points: Sequence[Point]) -> list[dict[str, object]]:
    """The sweep as plain values."""
    return [
        {
            "network": str(point.network),
            "architecture": str(point.architecture),
            "overrides": [str(override) for override in point.overrides],
            "energy_pj": None if point.costs is None else point.costs[0],
            "cycles": None if point.costs is None else point.costs[1],
            "status": point.result.status.value,
            "proven": point.result.proven,
            "einsums": len(point.result.network.layers),
        }
        for point in points
    ]


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", type=Path, required=True, metavar="NETWORK")
    parser.add_argument("--architectures", nargs="+", type=Path, required=True, metavar="ARCH")
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="COMPONENT.ATTRIBUTE=V1,V2",
        help="values of an attribute of the architecture; may be repeated",
    )
    parser.add_argument("--set", dest="variables", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--objective", default="edp", help="as of `network` (default: %(default)s)")
    parser.add_argument("--time-limit", type=float, metavar="S", help="per search")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--cluster", metavar="ADDRESS", help="of a Dask scheduler")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR")
    parser.add_argument(
        "--picture", type=Path, metavar="OUT", help="energy against cycles: .png, .svg or .pdf"
    )
    parser.add_argument("--json", type=Path, metavar="OUT")
    return parser


def main() -> int:
    """Map all combinations, print the table, draw the picture."""
    given = arguments().parse_args()
    try:
        check_plot(given.picture)
        local = Processes(given.jobs) if given.jobs > 1 else Serial()
        points = list(sweep(given, local if given.cluster is None else Cluster(given.cluster)))
    except SpecError as error:
        print(error.render(), file=sys.stderr)
        return EXIT_INVALID
    except (PlotError, ExecutorError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_INVALID
    Console(width=160).print(table(points))
    if given.picture is not None:
        draw(points, given.picture)
    if given.json is not None:
        given.json.write_text(json.dumps(document(points), indent=2) + "\n", encoding="utf-8")
    return 0 if all(point.result.status is Status.OPTIMAL for point in points) else EXIT_UNPROVEN


if __name__ == "__main__":
    sys.exit(main())
