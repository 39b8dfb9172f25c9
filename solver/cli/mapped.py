"""The files that hold a mapping: the mapping alone, and the specs with it."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from solver.cli.options import file_path
from solver.cli.output import NO_MAPPING, Step, write_output, write_stderr

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from model.mapping import Mapping

LONG_NAMES = "note: the mapping names dimension `{dim}`; Timeloop's programs read one-letter names only\n"
"""Said beside a mapping that this product reads and Timeloop does not."""


def add_mapping(parser: argparse.ArgumentParser, condition: str = "") -> None:
    """Add ``--mapping OUT`` and ``--mapped-spec OUT``; `condition` says what they need."""
    parser.add_argument(
        "--mapping",
        type=file_path,
        metavar="OUT",
        help=f"{condition}write the mapping as Timeloop v4 YAML (- is stdout)",
    )
    parser.add_argument(
        "--mapped-spec",
        type=file_path,
        metavar="OUT",
        help=f"{condition}write all specs as one Timeloop v4 YAML file, with the mapping in place of the "
        "constraints that it meets (- is stdout)",
    )


def mapped_spec_text(loaded: LoadedSpec, arguments: argparse.Namespace) -> str:
    """Return what ``--mapped-spec`` writes before the mapping; `SpecError` before a search takes its time."""
    if arguments.mapped_spec is None:
        return ""
    from model.formats.timeloop.mapped import mapped_spec
    from model.text.writing import spec_text

    return spec_text(mapped_spec(loaded))


def mapping_steps(
    loaded: LoadedSpec, mapping: Mapping | None, spec: str, arguments: argparse.Namespace
) -> list[Step]:
    """Return the steps that write a mapping where it is asked for; without one, that say so."""
    prefixes = ((arguments.mapping, ""), (arguments.mapped_spec, spec))
    asked = [(path, prefix) for path, prefix in prefixes if path is not None]
    if not asked:
        return []
    if mapping is None:
        return [partial(write_stderr, NO_MAPPING)]
    from solver.report.timeloop_mapping import mapping_targets, mapping_yaml

    mapspace = loaded.mapspace
    text = mapping_yaml(mapping_targets(mapspace.problem, mapspace.architecture, mapping))
    steps: list[Step] = [partial(write_output, path, prefix + text) for path, prefix in asked]
    long = [dim for dim in mapspace.problem.dims if len(dim) > 1]
    return [*steps, partial(write_stderr, LONG_NAMES.format(dim=long[0]))] if long else steps
