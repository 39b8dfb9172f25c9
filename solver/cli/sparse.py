"""Sparse data on the command line: what commands cannot do with them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from model.extents import ANY, PERFECT
from model.note import Note
from solver.cli.output import OutputError
from solver.result import CP_SAT

if TYPE_CHECKING:
    from model.cascade import Network
    from model.formats.timeloop import LoadedSpec
    from model.mapspace import Mapspace

PERFECT_NOTE = Note("factors are divisors only: on sparse data, this search does not support remainders")

UNASKED_NOTE = Note("factors are divisors only: on sparse data, remainders need --factors any")

LACK_NOTE = "factors are divisors only: on sparse data, remainders are not supported {}"


def unasked(arguments: argparse.Namespace) -> Note | None:
    """Return a note that says how to ask for remainders; None if they were requested."""
    return None if arguments.factors == ANY else UNASKED_NOTE


def as_searched(loaded: LoadedSpec, lack: Note | None = PERFECT_NOTE) -> LoadedSpec:
    """Return a spec as searches take it, without densities that change no count.

    Parameters
    ----------
    lack
        Says why loops over sparse data have no remainders; with None they have where the search knows these.
    """
    sparsity = loaded.mapspace.sparsity
    if sparsity is None:
        return loaded
    if not sparsity.optimized:
        return replace(loaded, mapspace=replace(loaded.mapspace, sparsity=None))
    _refuse_unsearched(loaded.mapspace)
    note = _lack_of_remainders(loaded.mapspace, lack)
    if note is None:
        return loaded
    noted = loaded.noted([note])
    return replace(noted, mapspace=replace(noted.mapspace, factors=PERFECT))


def with_sparse_data(network: Network, lack: Note | None = None) -> Network:
    """Return a network as searches take it, see `as_searched`."""
    layers, notes = [], []
    for layer in network.layers:
        mapspace = layer.mapspace
        if mapspace.sparsity is None or not mapspace.sparsity.optimized:
            layers.append(replace(layer, mapspace=replace(mapspace, sparsity=None)))
            continue
        _refuse_unsearched(mapspace)
        note = _lack_of_remainders(mapspace, lack)
        notes += [] if note is None else [note]
        layers.append(layer if note is None else replace(layer, mapspace=replace(mapspace, factors=PERFECT)))
    return replace(network, layers=tuple(layers)).noted(dict.fromkeys(notes))


def _lack_of_remainders(mapspace: Mapspace, known: Note | None) -> Note | None:
    """Return a note that says why loops have no remainders though they might; None if they may have some."""
    from solver.sparse_search import lack_of_remainders

    if mapspace.factors == PERFECT:
        return None
    if known is not None:
        return known
    lack = lack_of_remainders(mapspace)
    return None if lack is None else Note(LACK_NOTE, (lack,))


def _refuse_unsearched(mapspace: Mapspace) -> None:
    """Refuse what the search for sparse data does not know."""
    if mapspace.joint:
        raise OutputError(
            "memories with several places (--uneven) are searched for dense data only; "
            "--ignore-sparse treats the data as dense"
        )


def refuse_dense_only_options(arguments: argparse.Namespace) -> None:
    """Refuse options of `map` that are about dense data."""
    hint = "; --ignore-sparse treats the data as dense"
    if arguments.export_model:
        raise OutputError(f"--export-model supports dense data only{hint}")
    if arguments.engine == CP_SAT:
        raise OutputError(f"--engine {CP_SAT} supports dense data only{hint}")
