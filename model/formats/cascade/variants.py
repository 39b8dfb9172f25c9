"""Workloads by architectures by attribute values: the networks of a sweep."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from model.cascade import Network
from model.formats.cascade.loader import read_network
from model.formats.timeloop import LoadOptions
from model.formats.timeloop.overrides import AttributeSetting
from model.note import Note
from model.sweep import Variant
from model.text.files import display_name
from model.text.notes import note_at
from model.text.reader import unused_notes
from model.text.source import Node, SpecError

MOST_VARIANTS = 10_000
"""Each is read and checked before the first search begins."""


@dataclass(frozen=True)
class LoadedVariant(Variant):
    """A variant with the documents that it was read from, the values of the attributes included.

    `model.text.places` finds the places of the mapspaces in them.
    """

    documents: tuple[Node, ...] = ()


def load_variants(
    shared: Sequence[str | Path],
    workloads: Sequence[str | Path] = (),
    architectures: Sequence[str | Path] = (),
    settings: Sequence[Sequence[AttributeSetting]] = (),
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> tuple[LoadedVariant, ...]:
    """Read every combination of a workload, an architecture and a value of each attribute.

    Parameters
    ----------
    shared
        Spec files of all combinations, as `load_network` takes them.
    workloads, architectures
        Alternatives, each a file or a directory; none if they are among the shared files. What is
        named again is left out, with a note.
    settings
        For each attribute, its values.
    variables, options
        As `load_network` takes them.

    Returns
    -------
    tuple of LoadedVariant
        The values of the last attribute change fastest, workloads slowest.

    Raises
    ------
    SpecError
        For every kind of bad input, with the values at which it is met.
    """
    load_options = options or LoadOptions()
    names = [setting.name for values in settings for setting in values[:1]]
    twice = next((values[0] for place, values in enumerate(settings) if names[place] in names[:place]), None)
    if twice is not None:
        raise SpecError(f"`{twice.name}` is set twice", twice.span, hint="give all values in one list")
    notes: list[Note] = []
    workloads = _once(workloads, "workload", notes)
    architectures = _once(architectures, "architecture", notes)
    alternatives = (max(1, len(workloads)), max(1, len(architectures)), *map(len, settings))
    if math.prod(alternatives) > MOST_VARIANTS:
        raise SpecError(f"a sweep over {math.prod(alternatives):,} points; at most {MOST_VARIANTS:,} are run")
    documents: dict[tuple[_Alternative, _Alternative], tuple[Node, ...]] = {}
    variants: list[LoadedVariant] = []
    used: set[str] = set()
    for workload, architecture, chosen in product(
        _alternatives(workloads), _alternatives(architectures), list(product(*settings))
    ):
        variant = _variant(workload, architecture, chosen, shared, variables, load_options, used)
        # The same files for all values: their text is kept once.
        text = documents.setdefault((workload, architecture), variant.documents)
        values = tuple(setting.value for setting in chosen)
        variants.append(replace(variant, documents=(*text, *values)))
    # A variable may mean something for one of the alternatives only.
    network = variants[0].network.noted([*dict.fromkeys(notes), *unused_notes(variables or {}, used)])
    return (replace(variants[0], network=network), *variants[1:])


_Alternative = tuple[str | None, tuple[Path, ...]]


def _once(paths: Sequence[str | Path], what: str, notes: list[Note]) -> list[str | Path]:
    """Return the paths, each place once, and note those that are named again."""
    by_place: dict[str, str | Path] = {}
    for path in paths:
        place = os.path.abspath(path)  # noqa: PTH100 (a link is a name of its own)
        if place in by_place:
            sentence = "the {} {} is named more than once, and counts once"
            notes.append(note_at(None, sentence, what, display_name(Path(path))))
        by_place.setdefault(place, path)
    return list(by_place.values())


def _alternatives(paths: Sequence[str | Path]) -> list[_Alternative]:
    """Return each path with a name: the file's own, or the whole path where that is not unique."""
    if not paths:
        return [(None, ())]
    stems = [Path(path).name.split(".")[0] for path in paths]
    return [
        (stem if stems.count(stem) == 1 else str(path), (Path(path),))
        for stem, path in zip(stems, paths, strict=True)
    ]


def _variant(
    workload: _Alternative,
    architecture: _Alternative,
    chosen: tuple[AttributeSetting, ...],
    shared: Sequence[str | Path],
    variables: Mapping[str, object] | None,
    options: LoadOptions,
    names: set[str],
) -> LoadedVariant:
    paths = (*shared, *workload[1], *architecture[1])
    try:
        loaded = read_network(paths, variables, replace(options, settings=chosen), names)
    except SpecError as error:
        point = [name for name, _ in (workload, architecture) if name is not None]
        raise _at(error, point, chosen) from error
    return LoadedVariant(
        workload[0] or loaded.network.name,
        architecture[0] or next(_architecture_names(loaded.network), ""),
        tuple((setting.name, setting.value.text) for setting in chosen),
        loaded.network,
        loaded.documents,
    )


def _architecture_names(network: Network) -> Iterator[str]:
    return (layer.mapspace.architecture.name for layer in network.layers)


def _at(error: SpecError, names: Sequence[str], chosen: Sequence[AttributeSetting]) -> SpecError:
    """Return an error with the point at which it is met, but for what it points at itself."""
    message = f"{error.message} (at {', '.join(names)})" if names else error.message
    places = [
        setting.value.span for setting in chosen if error.span not in (setting.span, setting.value.span)
    ]
    related = tuple((place, "at this value") for place in places)
    return SpecError(message, error.span, (*error.related, *related), error.hint)
