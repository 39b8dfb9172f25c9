"""The arguments of ``explain``."""

from __future__ import annotations

import argparse

from solver.cli.options import Commands, add_json, add_search_options, add_spec_command

TIME_LIMIT_S = 10.0

DESCRIPTION = f"""\
Say why nothing fits: constraints in conflict, the arithmetic, and what would resolve it.
For a spec that allows mappings, say what each constraint costs: the optimum is searched with
all of them and without each, every search for {TIME_LIMIT_S:g} seconds unless --time-limit says otherwise."""


def add_explain(commands: Commands) -> argparse.ArgumentParser:
    """Add the command ``explain``."""
    parser = add_spec_command(commands, "explain", "say why nothing fits, or what each constraint costs")
    parser.description = DESCRIPTION
    add_search_options(parser)
    add_json(parser)
    return parser
