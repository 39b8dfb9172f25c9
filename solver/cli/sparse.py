"""``map`` on sparse data: what it cannot do, the search, its report and its files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from solver.cli.arguments import CP_SAT
from solver.cli.output import OutputError, deliver, document_steps, plot_steps, report_steps
from solver.cli.progress import watched
from solver.cli.running import EXIT_OF_STATUS, mapped_spec_text, mapping_steps, search_options

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from solver.result import Reason

DENSE_ONLY = {
    "certificate": "certificates of sparse mappings are not written yet: the checker does not know them",
    "check": "certificates of sparse mappings are not written yet: the checker does not know them",
    "sensitivity": "limits are varied for dense data only",
    "price_constraints": "constraints are priced for dense data only",
    "export_model": "the formulation knows dense data only",
}
"""Options of `map` that need what the search for sparse data does not have."""


def map_sparse_data(loaded: LoadedSpec, arguments: argparse.Namespace) -> int:
    """Search the best mapping of sparse data; write and print it."""
    _refuse_options(arguments)
    from solver.report.mapping_picture import draw_mapping
    from solver.report.reading import as_value
    from solver.report.sparse import print_sparse_result, sparse_result_document
    from solver.sparse_search import map_sparse

    mapspace = loaded.mapspace
    spec_text = mapped_spec_text(loaded, arguments)
    with watched(mapspace, arguments.quiet) as callbacks:
        result = map_sparse(mapspace, search_options(arguments), *callbacks)
    reasons: Sequence[Reason] = ()
    mapping = None if result.best is None else result.best.mapping
    outputs = (arguments.mapping, arguments.mapped_spec)
    report = report_steps(lambda console: print_sparse_result(console, mapspace, result), arguments, *outputs)
    document = document_steps(lambda: sparse_result_document(mapspace, result, reasons), arguments)
    plot = plot_steps(
        arguments.plot,
        lambda: draw_mapping(as_value(sparse_result_document(mapspace, result, reasons)), arguments.plot),
        "" if mapping is not None else "mapping",
    )
    deliver([*report, *document, *mapping_steps(arguments, loaded, mapping, spec_text), *plot])
    return EXIT_OF_STATUS[result.status]


def _refuse_options(arguments: argparse.Namespace) -> None:
    hint = "; --ignore-sparse takes the data as dense"
    for name, reason in DENSE_ONLY.items():
        if getattr(arguments, name):
            raise OutputError(f"--{name.replace('_', '-')}: {reason}{hint}")
    if arguments.engine == CP_SAT:
        raise OutputError(f"--engine {CP_SAT} knows dense data only{hint}")
