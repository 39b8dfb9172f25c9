"""Arguments about certificates."""

from __future__ import annotations

import argparse

from solver.cli.options import Commands, add_search_options, add_spec_command, file_path, seconds


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Add ``--certificate OUT``."""
    parser.add_argument(
        "--certificate",
        type=file_path,
        metavar="OUT",
        help="write a certificate that scripts/prove.py checks (- is stdout)",
    )


def add_prove(commands: Commands) -> argparse.ArgumentParser:
    """Add ``prove``."""
    parser = add_spec_command(
        commands,
        "prove",
        "map, certify, and have the certificate checked without the solver",
        specs_help="YAML files with a problem and an architecture, merged by top-level key; "
        "or certificates, which are only checked",
    )
    add_search_options(parser)
    parser.add_argument(
        "--certificate", type=file_path, metavar="OUT", help="keep the certificate in this file"
    )
    parser.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="give the check up after S seconds"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress; the verdict only")
    return parser
