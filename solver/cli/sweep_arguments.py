"""The arguments of ``sweep``."""

from __future__ import annotations

import argparse

from solver.cli.network_arguments import NETWORK_FILES, add_run_options
from solver.cli.options import Commands, add_csv_and_plot, add_json, add_spec_command, file_path

SETTING = "--set-attribute"
"""Also what messages call the text of a setting."""


def add_sweep(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``sweep``."""
    summary = "map networks on many variants of an architecture"
    files = f"{NETWORK_FILES}: what all combinations have in common"
    parser = add_spec_command(commands, "sweep", summary, specs_nargs="*", specs_help=files)
    parser.description = """\
Map every combination of a workload, an architecture and attribute values, each
Einsum to its proven optimum, and say which no other one beats. SPEC files belong
to every combination; they are read as by `network`. Searches that several
combinations need run once. --time-limit holds for each search."""
    parser.add_argument(
        SETTING,
        dest="settings",
        action="append",
        default=[],
        metavar="NODE.ATTRIBUTE=VALUE,...",
        help="values of an attribute of a component or container, such as buffer.depth=1024,2048, or "
        "PE.meshX=8,16 for its fanout; may be repeated, for all combinations",
    )
    parser.add_argument(
        "--architectures",
        nargs="+",
        action="extend",
        default=[],
        type=file_path,
        metavar="PATH",
        help="architectures, each one file or one directory of files",
    )
    parser.add_argument(
        "--workloads",
        nargs="+",
        action="extend",
        default=[],
        type=file_path,
        metavar="PATH",
        help="workloads or networks, each one file or one directory of files",
    )
    add_run_options(parser)
    add_json(parser)
    add_csv_and_plot(parser, "energy against cycles, and against area,")
    return parser
