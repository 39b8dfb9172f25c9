"""The arguments of ``map`` that concern the energy-latency front."""

from __future__ import annotations

import argparse

from solver.cli.options import file_path


def add_pareto(parser: argparse.ArgumentParser) -> None:
    """Add ``--pareto`` and the picture of what it finds."""
    parser.add_argument(
        "--pareto",
        action="store_true",
        help="find every mapping that no other beats in both energy and latency; --time-limit holds for all",
    )
    parser.add_argument(
        "--plot",
        type=file_path,
        metavar="OUT",
        help="with --pareto: draw the front into a PNG, SVG or PDF file; needs matplotlib",
    )
