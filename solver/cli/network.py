"""The command ``network``: every Einsum to its own optimum, or all of them in one search."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from model.text.reader import parse_assignments
from solver.cli.layer_files import (
    certificate_directory,
    check_directories,
    check_layers,
    layer_certificate_steps,
    layer_mapping_steps,
)
from solver.cli.output import (
    OutputError,
    check_outputs,
    deliver,
    documents_last,
    report_steps,
)
from solver.cli.running import (
    exit_code,
    given_options,
    load_options,
    refuse_options,
    results_of,
)
from solver.cli.searches import run_searches
from solver.cli.sparse import PERFECT_NOTE, unasked, with_sparse_data
from solver.cli.together import FUSED_ONLY, UNFUSED_ONLY, fuse, with_common_loops
from solver.exit_codes import EXIT_OPTIMAL


def network_command(arguments: argparse.Namespace) -> int:
    """Map a network, write and print the results, and have the certificates checked if requested."""
    if arguments.fuse:
        return fuse(arguments)
    fused_only = (name for name in FUSED_ONLY if arguments.same is None or name != "certificate")
    refuse_options(arguments, dict.fromkeys(fused_only, ""), "needs --fuse")
    if arguments.no_fuse:
        raise OutputError("--no-fuse with names of tensors needs --fuse")
    if arguments.same is not None:
        return with_common_loops(arguments)
    check_outputs((arguments.json, arguments.report), arguments.specs)
    check_directories(arguments)
    from model.formats.accelforge.canonical import OpenFusionError
    from model.formats.cascade import read_network

    values = parse_assignments(arguments.variables)
    try:
        loaded = read_network(arguments.specs, values, replace(load_options(arguments), model_sparse=True))
    except OpenFusionError:
        if any(given_options(arguments, UNFUSED_ONLY)):
            raise
        return fuse(arguments)
    certified = arguments.certificates is not None or arguments.check
    lack = PERFECT_NOTE if certified else unasked(arguments)
    loaded = replace(loaded, network=with_sparse_data(loaded.network, lack))
    from solver.network import map_network

    result, interrupted = run_searches(arguments, partial(map_network, loaded.network))
    from solver.report.network import network_document

    document = partial(network_document, result)
    files: dict[Path, str] = {}
    with (
        certificate_directory(arguments) as directory,
        documents_last(document, arguments) as verdict,
    ):
        deliver(
            [
                *report_steps(document, arguments, nodes=loaded.documents),
                *layer_mapping_steps(result, arguments.mappings),
                *layer_certificate_steps(result, directory, files, arguments),
            ]
        )
        code = check_layers(files, interrupted, arguments, verdict) if arguments.check else EXIT_OPTIMAL
    return code or exit_code(result.status, results_of(result))
