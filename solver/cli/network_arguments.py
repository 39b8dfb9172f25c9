"""The arguments of ``network``."""

from __future__ import annotations

import argparse

from solver.cli.options import Commands, add_json, add_search_options, add_spec_command, file_path, seconds

NETWORK_FILES = "a workload, an ONNX model, layer files or directories of them; and the architecture"


def add_network(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``network``."""
    summary = "map every Einsum of a workload or network"
    parser = add_spec_command(commands, "network", summary, specs_help=NETWORK_FILES)
    parser.description = """\
Map every Einsum of a network to its proven optimum: an AccelForge workload, an
ONNX model, or layer files of Timeloop's form (each with `problem`; a directory
stands for its files), on the architecture in the other files. Identical Einsums
are searched once. --time-limit holds for each search."""
    add_run_options(parser)
    add_json(parser)
    _add_files(parser)
    return parser


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Add ``--certificates``, ``--mappings``, and how the certificates are checked."""
    group = parser.add_argument_group("files per Einsum")
    group.add_argument(
        "--certificates",
        type=file_path,
        metavar="DIR",
        help="write a certificate for each Einsum, identical ones once, that scripts/prove.py checks",
    )
    group.add_argument(
        "--mappings",
        type=file_path,
        metavar="DIR",
        help="write the mapping of each Einsum as Timeloop v4 YAML",
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="have the certificates checked without the solver, as prove does; where they are not "
        "all VALID, the exit code says so",
    )
    group.add_argument(
        "--check-time-limit", type=seconds, metavar="S", help="give each check up after S seconds"
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that maps networks: how and where to search, what to keep, quiet."""
    add_search_options(parser)
    add_searches(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="no progress and no report; files and exit code only"
    )


def add_searches(parser: argparse.ArgumentParser) -> None:
    """Add the options on where the answers of many searches are kept, and where the searches run."""
    group = parser.add_argument_group("many searches")
    group.add_argument(
        "--cache",
        type=file_path,
        metavar="DIR",
        help="where proven results are kept (default: tilewright in the user's cache directory)",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="use the results that are kept, for instance of a run that was interrupted",
    )
    group.add_argument(
        "--cluster",
        type=address,
        metavar="ADDRESS",
        help="search on the workers of a Dask cluster, such as tcp://host:8786 (extra `cluster`)",
    )


def address(text: str) -> str:
    """Read the address of a Dask scheduler; one without a port Dask refuses, after some time.

    Raises
    ------
    argparse.ArgumentTypeError
        There is no host or no port.
    """
    host, _, port = text.rpartition(":")
    if not host or host.endswith((":", "/")) or not port.isascii() or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as tcp://host:8786")
    return text
