"""Files to a network: a workload, or layers in Timeloop's form, on an architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path

from model.cascade import Layer, Network
from model.formats.accelforge.loader import FOREIGN_SECTIONS, LEVELS_ABOVE, read_workload, read_workload_text
from model.formats.cascade.concerned import Reader, read_each
from model.formats.cascade.layers import network_of
from model.formats.cascade.onnx_model import SUFFIX as ONNX_SUFFIX
from model.formats.cascade.onnx_model import load_onnx
from model.formats.timeloop.document import (
    ANCHOR_MARK,
    ASSIGNED,
    ASSIGNED_HINT,
    FOREIGN_ARCHITECTURE,
    NETWORK_SECTIONS,
    SECTIONS,
    holds_components,
    holds_constraints,
    with_entry,
    without,
)
from model.formats.timeloop.loader import LoadOptions, load_node
from model.note import Note
from model.text.files import SPEC_SUFFIXES, display_name, files_of, is_directory
from model.text.merging import join_specs
from model.text.notes import note_at
from model.text.reader import read_files, unused_notes
from model.text.source import MappingNode, SequenceNode, SpecError, did_you_mean
from model.wording import listing

MAPPING_NOTE = "the `mapping` of the architecture is no constraint for the layers of a network"


@dataclass(frozen=True)
class LoadedNetwork:
    """A network, and the documents that it was read from; an ONNX model is none."""

    network: Network
    documents: tuple[MappingNode, ...]


@dataclass(frozen=True)
class _Given:
    """The files of a network by what they hold, and what its layers are called together."""

    models: tuple[Path, ...]
    workloads: tuple[Path, ...]
    layers: tuple[tuple[Path, tuple[MappingNode, ...]], ...]
    architectures: tuple[Path, ...]
    title: str


def load_network(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> Network:
    """Return the network that `read_network` reads, whose parameters and errors it has."""
    return read_network(paths, variables, options).network


def read_network(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
    names: set[str] | None = None,
) -> LoadedNetwork:
    """Read a network and the architecture that it is to be mapped on.

    Parameters
    ----------
    paths
        A file named ``.onnx`` is a model. Files with `workload` or `renames` make up an AccelForge
        workload. A file with `problem` is one layer in Timeloop's form, or several where that is a list; a
        directory stands for its spec files, in the order of their names, and they may include what lies
        beside the directory. All other files make up the architecture.
    variables
        Template variables, the same for all files.
    options
        How to read them.
    names
        The variables that mean something here are added to it; without it, others are noted.

    Raises
    ------
    SpecError
        For every kind of bad input; for a workload and layers at once, and for neither.
    """
    named = [Path(path) for path in paths]
    options = _with_neighbours(options or LoadOptions(), named)
    values = dict(variables or {})
    used: set[str] = set()
    files = _classified(named, values, options, used)
    kinds = [bool(files.models), bool(files.workloads), bool(files.layers)]
    if sum(kinds) > 1 or len(files.models) > 1:
        raise SpecError("one network at a time: give an ONNX model, a workload, or layer files")
    if not any(kinds):
        hint = "a file with `workload:`, files with `problem:`, a directory of such, or an ONNX model"
        raise SpecError("no workload and no layers are given", hint=hint)
    if files.models:
        loaded = _model(files, values, options, used)
    else:
        loaded = (_cascade if files.workloads else _layers)(files, values, options)
    if names is None:
        return replace(loaded, network=loaded.network.noted(unused_notes(values, used)))
    names.update(used)
    return loaded


def _with_neighbours(options: LoadOptions, paths: Iterable[Path]) -> LoadOptions:
    """Allow includes from above each directory of layers: layers share a base file beside their folder."""
    above = [path.absolute().parent for path in paths if is_directory(path)]
    neighbours = tuple(directory for directory in above if directory != directory.parent)
    return replace(options, allow_include=(*options.allow_include, *neighbours))


def _classified(
    paths: Sequence[Path], variables: Mapping[str, object], options: LoadOptions, names: set[str]
) -> _Given:
    """Read every file to see what it is; the names that templates use are added to `names`."""
    models: list[Path] = []
    workloads: list[Path] = []
    layers: list[tuple[Path, tuple[MappingNode, ...]]] = []
    architectures: list[Path] = []
    for path in _files(paths):
        if path.suffix == ONNX_SUFFIX:
            models.append(path)
            continue
        top = _top(path, variables, options, names)
        _check_keys(top)
        if any(key in top for key in NETWORK_SECTIONS):
            workloads.append(path)
        elif "problem" in top:
            layers.append((path, _each_problem(top)))
        else:
            architectures.append(path)
    title = _title([path for path, _ in layers], paths)
    return _Given(tuple(models), tuple(workloads), tuple(layers), tuple(architectures), title)


def _title(layers: Sequence[Path], named: Sequence[Path]) -> str:
    """Return the name of a single layer's file, if that was named itself, else of the layers' directories."""
    if len(layers) == 1 and layers[0] in named:
        return _names(layers)[0]
    return " and ".join(dict.fromkeys(path.absolute().parent.name for path in layers))


def _top(path: Path, variables: Mapping[str, object], options: LoadOptions, names: set[str]) -> MappingNode:
    """Read one file; only a workload may include files from above its own directory."""
    try:
        return read_files([path], variables, options.limits, options.allow_include, names=names)
    except SpecError:
        top = read_files([path], variables, options.limits, options.allow_include, LEVELS_ABOVE, names)
        if any(key in top for key in NETWORK_SECTIONS):
            return top
        raise


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if not is_directory(path):
            yield path
            continue
        inside = [file for file in files_of(path) if file.name.endswith(SPEC_SUFFIXES)]
        if not inside:
            raise SpecError(f"{display_name(path)} holds no spec files")
        yield from inside


def _cascade(given: _Given, variables: Mapping[str, object], options: LoadOptions) -> LoadedNetwork:
    """Read a workload's own sections by AccelForge's rules, and all others by Timeloop's."""
    text = read_workload_text(given.workloads, variables, options.limits, options.allow_include)
    loaded, top = read_workload(text, options.ignore_sparse), text.top
    own = without(top, NETWORK_SECTIONS)
    notes: list[Note] = []
    files = (*given.workloads, *given.architectures)
    spec = without_mapping(_on_architecture(own, given, variables, options), notes)
    network = network_of(loaded.workload, spec, files, replace(options, refuse_infeasible=False))
    notes = [*loaded.notes, *notes, *network.notes]
    return LoadedNetwork(Network(text.name, network.layers, tuple(dict.fromkeys(notes))), (top, spec))


def _model(
    given: _Given, variables: Mapping[str, object], options: LoadOptions, names: set[str]
) -> LoadedNetwork:
    """Read the nodes of an ONNX model; the sizes that it leaves open are added to `names`."""
    path = given.models[0]
    workload, skips, sizes = load_onnx(path, variables, options.limits)
    names.update(sizes)
    notes: list[Note] = []
    spec = without_mapping(_on_architecture(None, given, variables, options), notes)
    network = network_of(workload, spec, given.architectures, replace(options, refuse_infeasible=False))
    return LoadedNetwork(replace(network, notes=(*skips, *notes, *network.notes)), (spec,))


def _layers(given: _Given, variables: Mapping[str, object], options: LoadOptions) -> LoadedNetwork:
    """Read each layer with the architecture."""
    notes: list[Note] = []
    own = replace(options, refuse_infeasible=False)

    def read(name: str, path: Path, top: MappingNode) -> tuple[Layer, MappingNode]:
        spec = without_mapping(_on_architecture(top, given, variables, options), notes)
        loaded = load_node(spec, (path, *given.architectures), own)
        notes.extend(loaded.notes)
        return Layer(name, replace(loaded.mapspace, notes=())), spec

    readers = (
        Reader(layer[0], partial(read, *layer), file=layer[2].span.file) for layer in _named_layers(given)
    )
    layers = read_each(readers, "layer")
    network = Network(given.title, tuple(layer for layer, _ in layers), tuple(dict.fromkeys(notes)))
    return LoadedNetwork(network, tuple(spec for _, spec in layers))


def _each_problem(top: MappingNode) -> tuple[MappingNode, ...]:
    """Return a file with a list of problems once with each of them, and any other one as it is."""
    problems = top.require("problem", "a layer")
    if not isinstance(problems, SequenceNode):
        return (top,)
    if not problems.items:
        raise SpecError("`problem` is an empty list", problems.span)
    return tuple(with_entry(top, "problem", item) for item in problems.items)


def _named_layers(given: _Given) -> Iterator[tuple[str, Path, MappingNode]]:
    """Yield each layer with its name, that of its file, and its place where a file holds several."""
    names = _names([path for path, _ in given.layers])
    for name, (path, tops) in zip(names, given.layers, strict=True):
        numbered = (name if len(tops) == 1 else f"{name}#{place}" for place in range(1, len(tops) + 1))
        yield from zip(numbered, repeat(path), tops, strict=False)


def _on_architecture(
    top: MappingNode | None, given: _Given, variables: Mapping[str, object], options: LoadOptions
) -> MappingNode:
    """Join what a network's file says with the architecture, unless it brings its own."""
    joined = top
    if given.architectures:
        others = read_files(given.architectures, variables, options.limits, options.allow_include)
        joined = others if top is None else join_specs(others, top)
    if joined is None or "architecture" not in joined:
        raise SpecError("no architecture is given", hint="add a file with `architecture:`")
    return joined


def _check_keys(top: MappingNode) -> None:
    """Refuse a file with keys that no part of a network has, or with two networks."""
    known = (*SECTIONS, *NETWORK_SECTIONS)
    for key, _ in top.entries:
        name = key.text
        if name in known or holds_constraints(name) or holds_components(name) or ANCHOR_MARK in name:
            continue
        hint = did_you_mean(name, known) or f"known are {listing(known)}"
        if name == ASSIGNED:
            hint = ASSIGNED_HINT
        if name in FOREIGN_SECTIONS:
            hint = FOREIGN_ARCHITECTURE
        raise SpecError(f"unknown top-level key `{name}`", key.span, hint=hint)
    if "workload" in top and "problem" in top:
        place, others = top.key("problem").span, ((top.key("workload").span, "the workload"),)
        raise SpecError("one network at a time: this file has a `problem` as well", place, others)


def without_mapping(top: MappingNode, notes: list[Note]) -> MappingNode:
    """Return a spec without its `mapping`.

    Parameters
    ----------
    top
        The spec; returned as it is if it has none.
    notes
        Gets a note that it is left out.
    """
    if "mapping" not in top:
        return top
    notes.append(note_at(top.key("mapping").span, MAPPING_NOTE))
    return without(top, ("mapping",))


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the files' names without suffixes, with as many directories as tell them apart.

    Files that are given again, or differ in their suffixes only, have their places as well.
    """
    resolved = [path.absolute() for path in paths]
    stems = [(*path.parts[1:-1], path.name.split(".")[0]) for path in resolved]
    depth, most = 1, max(map(len, stems))
    while depth < most and len({stem[-depth:] for stem in stems}) < len(set(stems)):
        depth += 1
    names = ["/".join(stem[-depth:]) for stem in stems]
    counts = Counter(names)
    return [f"{name}#{place}" if counts[name] > 1 else name for place, name in enumerate(names, 1)]
