"""Files to networks, and to the variants of a sweep."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from itertools import product, repeat
from pathlib import Path

from model.cascade import Layer, Network
from model.extents import ANY
from model.formats.accelforge.architecture import (
    ARCH_SECTION,
    check_beside,
    check_defined,
    free_order_of,
    has_arch,
    read_architecture,
    with_arch_settings,
)
from model.formats.accelforge.canonical import Setting
from model.formats.accelforge.costs import load_costs
from model.formats.accelforge.einsums import check_einsums
from model.formats.accelforge.loader import LEVELS_ABOVE, LoadedWorkload, read_workload, read_workload_text
from model.formats.cascade.layers import (
    PERFECT_ON_ARCH,
    Reader,
    bits_text,
    network_of,
    network_on_arch,
    read_all,
)
from model.formats.cascade.mapping import mapping_section, read_targets
from model.formats.cascade.tree_nest import TREE_NOTE, is_tree, on_given_places, read_tree_nest
from model.formats.foreign import ONNX_MODEL, TOPOLOGY, format_of, refuse_foreign
from model.formats.onnx import BITS, load_onnx
from model.formats.scalesim import load_topology
from model.formats.timeloop.document import (
    ANCHOR_MARK,
    ASSIGNED,
    ASSIGNED_HINT,
    FLATTENED_MARK,
    NETWORK_SECTIONS,
    SECTIONS,
    section_name,
    with_entry,
    without,
    without_section,
)
from model.formats.timeloop.loader import LoadedSpec, load_node
from model.formats.timeloop.options import LoadOptions
from model.formats.timeloop.overrides import AttributeSetting
from model.formats.timeloop.places import names_places
from model.formats.timeloop.problem import SPARSE_KEYS
from model.formats.timeloop.tree import read_variables
from model.formats.timeloop.versions import older_architecture
from model.mapping import Mapping as LoopNest
from model.mapping import StorageMapping
from model.mapspace import Mapspace
from model.note import Note
from model.places import gathered, spread
from model.sweep import Variant
from model.text.fields import as_mapping, as_name, is_blank
from model.text.files import SPEC_SUFFIXES, display_name, files_of, is_directory
from model.text.merging import join_specs
from model.text.reader import unused_notes
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, SpecError, note_at
from model.wording import listing, printable, suggestion
from model.workload import MOST_EINSUMS

DESIGN_SECTIONS = (
    *(name for name in SECTIONS if name not in ("problem", "variables")),
    ARCH_SECTION,
    "config",
)
MAPPING_NOTE = "the `mapping` of the architecture does not constrain the layers of a network"


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
    # Those with an architecture of AccelForge; a file may have the workload as well
    arches: tuple[Path, ...] = ()


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
        A file named ``.onnx`` is a model, a table of layers a topology of SCALE-Sim. Files with
        `workload` or `renames` make up an AccelForge workload, and a file with `arch` has an
        architecture for it. A file with `problem` is one layer in Timeloop's form, or several where that
        is a list; a directory stands for its spec files, in the order of their names, and they may
        include what lies beside the directory. All other files make up the architecture.
    names
        The variables that mean something here are added to it; without it, others are noted.

    Raises
    ------
    SpecError
        For every kind of bad input; for a workload and layers at once, and for neither.
    """
    named = [Path(path) for path in paths]
    options = replace(_with_neighbours(options or LoadOptions(), named), refuse_infeasible=False)
    values = dict(variables or {})
    used: set[str] = set()
    notes: list[Note] = []
    files = _classified(named, values, options, used, notes)
    kinds = [bool(files.models), bool(files.workloads), bool(files.layers)]
    if sum(kinds) > 1 or len(files.models) > 1:
        raise SpecError(
            "one network at a time: give an ONNX model, a SCALE-Sim topology, a workload, or layer files"
        )
    if not any(kinds):
        hint = "a file with `workload:`, files with `problem:`, a directory of such, or an ONNX model"
        raise SpecError("no workload and no layers are given", hint=hint)
    if not files.layers:  # what is said of sparse data is read of layers in Timeloop's form alone
        options = replace(options, model_sparse=False)
    if files.arches:
        loaded = _on_arch(files, values, options)
    elif files.models:
        loaded = _model(files, values, options, used)
    else:
        loaded = (_read_sections if files.workloads else _read_layers)(files, values, options)
    if names is None:
        notes += unused_notes(values, used)
    else:
        names.update(used)
    return replace(loaded, network=loaded.network.noted(notes)) if notes else loaded


def load_einsum(
    paths: Iterable[str | Path],
    einsum: str,
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> LoadedSpec:
    """Read one Einsum of a workload on an architecture, with a mapping where one is asked for.

    Parameters
    ----------
    paths, variables, options
        See `read_network`.
    einsum
        Its name.

    Raises
    ------
    SpecError
        For every kind of bad input, and for an Einsum that there is not, or that has nothing to map.
    """
    options, files = options or LoadOptions(), tuple(Path(path) for path in paths)
    options = replace(options, accelforge=replace(options.accelforge, einsum=einsum))
    loaded = read_network(
        files, variables, replace(options, timeloop=replace(options.timeloop, require_mapping=False))
    )
    mapspace, mapping, notes = _mapspace_of(loaded.network, einsum), None, list[Note]()
    if options.timeloop.require_mapping:
        if not mapspace.architecture.is_accelforge:
            message = "a given mapping of one Einsum is read for an `arch` of AccelForge only"
            raise SpecError(message, hint="write the Einsum as a `problem`, beside its architecture")
        section = _given_mapping(options, variables)
        if is_tree(section):
            return _with_tree(loaded, mapspace, einsum, section, (files, variables, options))
        if not mapspace.joint and names_places([section], spread(mapspace)):
            options, mapspace = replace(options, has_places=True), spread(mapspace)
        kept = _kept_by(mapspace, read_targets(section, mapspace, list[Note]().append))
        loaded = read_network(
            files, variables, replace(options, accelforge=replace(options.accelforge, kept=kept))
        )
        mapspace = _mapspace_of(loaded.network, einsum)
        mapping = read_targets(section, mapspace, notes.append)
    all_notes = (*loaded.network.notes, *notes)
    return LoadedSpec(
        replace(mapspace, notes=all_notes), mapping, all_notes, files, loaded.documents[0], None
    )


def _with_tree(
    loaded: LoadedNetwork,
    mapspace: Mapspace,
    einsum: str,
    section: Node,
    reading: tuple[tuple[Path, ...], Mapping[str, object] | None, LoadOptions],
) -> LoadedSpec:
    """Return an Einsum with its nest in AccelForge's mapping tree; the constraints do not apply to it."""
    files, variables, options = reading
    read = read_tree_nest(section, einsum, gathered(mapspace))
    kept = tuple(read.kept.items())
    loaded = read_network(
        files, variables, replace(options, accelforge=replace(options.accelforge, kept=kept))
    )
    mapspace = _mapspace_of(loaded.network, einsum)
    notes = (*(note for note in loaded.network.notes if note.sentence != MAPPING_NOTE), Note(TREE_NOTE))
    mapspace = replace(on_given_places(gathered(mapspace), read.places, read.order), notes=notes)
    return LoadedSpec(mapspace, read.mapping, notes, files, loaded.documents[0], None)


def _mapspace_of(network: Network, einsum: str) -> Mapspace:
    layers = {layer.name: layer for layer in network.layers}
    if einsum not in layers:
        hint = suggestion(einsum, layers, "the Einsums are")
        raise SpecError(f"there is no Einsum `{einsum}`", hint=hint)
    layer = layers[einsum]
    if layer.is_copy:
        raise SpecError(f"Einsum `{einsum}` is a copy operation: there is nothing to map")
    if layer.overfull:
        raise SpecError(layer.overfull[0].text)
    if layer.mapspace.factors == ANY and layer.mapspace.architecture.is_accelforge:
        raise SpecError(PERFECT_ON_ARCH, hint="--factors perfect")
    if layer.mapspace.sparsity is not None:
        hint = "--ignore-sparse treats its data as dense"
        raise SpecError("sparse data are not modelled for one Einsum of a workload", hint=hint)
    return layer.mapspace


def _given_mapping(options: LoadOptions, variables: Mapping[str, object] | None) -> Node:
    if options.timeloop.mapping_file is None:
        raise SpecError("no mapping is given", hint="--mapping MAP names a file that has one")
    return mapping_section(options.files.read([options.timeloop.mapping_file], variables))


def _kept_by(mapspace: Mapspace, mapping: LoopNest) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return what a mapping keeps in each memory; what memories farther in keep may follow from it."""
    entries = (entry for entry in mapping.nodes if isinstance(entry, StorageMapping))
    kept: dict[str, frozenset[str]] = {}
    for level, entry in zip(mapspace.architecture.levels, entries, strict=True):
        kept[level.component] = kept.get(level.component, frozenset()) | entry.keep
    return tuple(kept.items())


def _with_neighbours(options: LoadOptions, paths: Iterable[Path]) -> LoadOptions:
    """Allow includes from above each directory of layers: layers share a base file beside their folder."""
    above = [path.absolute().parent for path in paths if is_directory(path)]
    neighbours = tuple(directory for directory in above if directory != directory.parent)
    return replace(
        options, files=replace(options.files, allow_include=(*options.files.allow_include, *neighbours))
    )


def _classified(
    paths: Sequence[Path],
    variables: Mapping[str, object],
    options: LoadOptions,
    names: set[str],
    notes: list[Note],
) -> _Given:
    """Read every file to see what it is; the names that templates use are added to `names`.

    What is left out of it is added to `notes`.
    """
    models: list[Path] = []
    workloads: list[Path] = []
    layers: list[tuple[Path, tuple[MappingNode, ...]]] = []
    architectures: list[Path] = []
    arches: list[Path] = []
    for path in _files(paths):
        found = format_of(path)
        if found in (ONNX_MODEL, TOPOLOGY):
            models.append(path)
            continue
        refuse_foreign([path])
        top = _top(path, variables, options, names, notes)
        if options.problems_only:
            _check_sections(top)
            top = without_design(top, notes)
        if has_arch(top):
            check_defined(top)
            arches.append(path)
        _check_sections(top)
        if any(key in top for key in NETWORK_SECTIONS):
            check_einsums_of(top)
            workloads.append(path)
        elif has_arch(top):
            continue
        elif "problem" in top and not _has_densities_alone(top):
            layers.append((path, _each_problem(top)))
        else:
            architectures.append(path)
    _check_layers(layers)
    title = _layers_title([path for path, _ in layers], paths)
    return _Given(tuple(models), tuple(workloads), tuple(layers), tuple(architectures), title, tuple(arches))


def _check_layers(layers: Sequence[tuple[Path, tuple[MappingNode, ...]]]) -> None:
    """Refuse more layers than a network may have."""
    count = sum(len(tops) for _, tops in layers)
    if count > MOST_EINSUMS:
        raise SpecError(f"{count:,} layers; at most {MOST_EINSUMS:,} are mapped")


def check_einsums_of(top: MappingNode) -> None:
    """Refuse a workload with too many Einsums, before its files are read as a whole."""
    workload = top.get("workload")
    einsums = workload.get("einsums") if isinstance(workload, MappingNode) else None
    if isinstance(einsums, SequenceNode):
        check_einsums(einsums)


def _layers_title(layers: Sequence[Path], named: Sequence[Path]) -> str:
    """Return the name of a single layer's file, if that was named itself, else of the layers' directories."""
    if len(layers) == 1 and layers[0] in named:
        return _distinct_names(layers)[0]
    return " and ".join(dict.fromkeys(printable(path.absolute().parent.name) for path in layers))


def _top(
    path: Path, variables: Mapping[str, object], options: LoadOptions, names: set[str], notes: list[Note]
) -> MappingNode:
    """Read one file; only a workload may include files from above its directory."""
    try:
        return options.files.read([path], variables, names, notes=notes)
    except SpecError:
        top = options.files.read([path], variables, names, LEVELS_ABOVE)
        if any(key in top for key in (*NETWORK_SECTIONS, ARCH_SECTION)):
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


def _read_sections(given: _Given, variables: Mapping[str, object], options: LoadOptions) -> LoadedNetwork:
    """Read the sections of a workload by AccelForge's rules, and all others by Timeloop's."""
    text = read_workload_text(given.workloads, variables, options.files.limits, options.files.allow_include)
    loaded, top = read_workload(text, options.ignore_sparse), text.top
    rest = without(without_design(top, []) if options.problems_only else top, NETWORK_SECTIONS)
    notes: list[Note] = []
    files = (*given.workloads, *given.architectures)
    spec = without_mapping(_on_architecture(rest, _architecture(given, variables, options)), notes)
    network = network_of(loaded.workload, spec, files, options)
    notes = [*loaded.notes, *notes, *network.notes]
    return LoadedNetwork(Network(text.name, network.layers, tuple(dict.fromkeys(notes))), (top, spec))


def _on_arch(given: _Given, variables: Mapping[str, object], options: LoadOptions) -> LoadedNetwork:
    """Read a workload and an architecture, both of AccelForge."""
    options = options.on_arch()
    read = read_on_arch(given.workloads, given.arches, given.architectures, variables, options)
    network = network_on_arch(read.workload, read.setting, options)
    notes = [*read.notes, *network.notes]
    return LoadedNetwork(Network(read.name, network.layers, tuple(dict.fromkeys(notes))), (read.top,))


@dataclass(frozen=True)
class OnArch:
    """A workload and an architecture, both of AccelForge, read and not yet evaluated for any Einsum."""

    name: str
    workload: LoadedWorkload
    setting: Setting
    top: MappingNode
    notes: tuple[Note, ...]


def read_on_arch(
    workloads: Sequence[Path],
    arches: Sequence[Path],
    architectures: Sequence[Path],
    variables: Mapping[str, object],
    options: LoadOptions,
) -> OnArch:
    """Read files with workloads and those with an `arch`; other `architectures` beside them are refused."""
    if not workloads:
        hint = "give a workload in AccelForge's form as well: a file with `workload:`"
        raise SpecError(f"{display_name(arches[0])} has an `arch` of AccelForge, but no workload", hint=hint)
    if architectures:
        named = display_name(architectures[0])
        raise SpecError(f"two architectures: `arch` of {display_name(arches[0])}, and {named}")
    files = tuple(dict.fromkeys((*workloads, *arches)))
    text = read_workload_text(files, variables, options.files.limits, options.files.allow_include)
    top, notes = text.top, list[Note]()
    loaded = read_workload(text, options.ignore_sparse)
    check_beside(top, NETWORK_SECTIONS, notes.append)
    top = without_mapping(top, notes)
    section = with_arch_settings(top.require(ARCH_SECTION), options.files.settings)
    written = top.get("variables")
    setting = Setting(
        arch=read_architecture(section, _file_stem(arches[0]), notes.append),
        table=None
        if options.accelforge.costs is None
        else load_costs(options.accelforge.costs, options.files.limits),
        variables={}
        if written is None or is_blank(written)
        else read_variables(as_mapping(written, "`variables`")),
        stored_outside=options.accelforge.stored_outside,
        any_order=options.accelforge.any_order,
        free_order=free_order_of(top.get("mapper")),
    )
    return OnArch(text.name, loaded, setting, top, (*loaded.notes, *notes))


def _file_stem(path: Path) -> str:
    return printable(path.name.split(".")[0])


def _model(
    given: _Given, variables: Mapping[str, object], options: LoadOptions, names: set[str]
) -> LoadedNetwork:
    """Read an ONNX model or a SCALE-Sim topology; the variables that it has are added to `names`."""
    path = given.models[0]
    load = load_topology if format_of(path) == TOPOLOGY else load_onnx
    model = load(path, variables, options.files.limits)
    names.update(model.variables)
    notes: list[Note] = []
    spec = without_mapping(_on_architecture(None, _architecture(given, variables, options)), notes)
    network = network_of(model.workload, spec, given.architectures, options, resize=BITS)
    return LoadedNetwork(replace(network, notes=(*model.notes, *notes, *network.notes)), (spec,))


def _read_layers(given: _Given, variables: Mapping[str, object], options: LoadOptions) -> LoadedNetwork:
    """Read each layer with the architecture; of those that say the same in one directory, the first."""
    notes: list[Note] = []
    known: dict[tuple[Path, MappingNode], tuple[Mapspace, MappingNode]] = {}
    architecture = cache(partial(_architecture, given, variables, options))

    def read(name: str, path: Path, top: MappingNode) -> tuple[Layer, MappingNode]:
        own_name, unnamed = _own_name(top)
        key = path.parent, unnamed
        if key not in known:
            spec = without_mapping(_on_architecture(top, architecture()), notes)
            loaded = load_node(spec, (path, *given.architectures), options)
            notes.extend(loaded.notes)
            known[key] = replace(loaded.mapspace, notes=()), spec
        mapspace, spec = known[key]
        if own_name is not None and own_name != mapspace.problem.name:
            mapspace = replace(mapspace, problem=replace(mapspace.problem, name=own_name))
        return Layer(name, mapspace), spec

    readers = (
        Reader(layer[0], partial(read, *layer), file=layer[2].span.file) for layer in _named_layers(given)
    )
    layers = read_all(readers, "layer")
    each = (layer.mapspace.architecture.levels for layer, _ in layers)
    words = {level.word_bits for levels in each for level in levels if not level.packing}
    if words:  # values of several sizes are stated by problems
        notes.append(Note(WORDS_COUNT, (bits_text(words),)))
    network = Network(given.title, tuple(layer for layer, _ in layers), tuple(dict.fromkeys(notes)))
    return LoadedNetwork(network, tuple(spec for _, spec in layers))


WORDS_COUNT = "values have {}, the sizes of the architecture's words, unless a problem has `bitwidths`"


def _own_name(top: MappingNode) -> tuple[str | None, MappingNode]:
    """Return the name of the problem beside its instance, and the spec without it; None where it has none."""
    problem = top.get("problem")
    if not isinstance(problem, MappingNode) or "shape" not in problem or "name" not in problem:
        return None, top
    instance = problem.get("instance")
    if not isinstance(instance, MappingNode) or "name" in instance:
        return None, top
    if not isinstance(problem.get("shape"), ScalarNode):  # in others a dimension may be called `name`
        return None, top
    name = as_name(problem.require("name"), "`name`")
    return name, with_entry(top, "problem", without(problem, ("name",)))


def _has_densities_alone(top: MappingNode) -> bool:
    """Whether a file says of its problem only how dense tensors are, for all layers."""
    problem = top.require("problem", "a layer")
    if not isinstance(problem, MappingNode) or not problem.keys():
        return False
    parts = [problem]
    instance = problem.get("instance")
    if isinstance(instance, MappingNode):
        parts.append(instance)
    return all({*part.keys()} <= {"instance", *SPARSE_KEYS} for part in parts)


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
    names = _distinct_names([path for path, _ in given.layers])
    for name, (path, tops) in zip(names, given.layers, strict=True):
        numbered = (name if len(tops) == 1 else f"{name}#{place}" for place in range(1, len(tops) + 1))
        yield from zip(numbered, repeat(path), tops, strict=False)


def _architecture(given: _Given, variables: Mapping[str, object], options: LoadOptions) -> MappingNode | None:
    """Read the files of the architecture, if any are given; what there is to note was noted before."""
    return options.files.read(given.architectures, variables, notes=[]) if given.architectures else None


def _on_architecture(top: MappingNode | None, architecture: MappingNode | None) -> MappingNode:
    """Join what a network's file says with the architecture, unless it has one itself."""
    both = [part for part in (architecture, top) if part is not None]
    joined = reduce(join_specs, both) if both else None
    if joined is None or ("architecture" not in joined and older_architecture(joined) is None):
        raise SpecError("no architecture is given", hint="add a file with `architecture:`")
    return joined


def _check_sections(top: MappingNode) -> None:
    """Refuse a file with keys that no part of a network has, or with two networks."""
    known = (*SECTIONS, *NETWORK_SECTIONS, ARCH_SECTION)
    for key, _ in () if has_arch(top) else top.entries:
        name = section_name(key.text)
        if name in (*known, ANCHOR_MARK, FLATTENED_MARK):
            continue
        hint = suggestion(name, known, "known keys are")
        if name == ASSIGNED:
            hint = ASSIGNED_HINT
        raise SpecError(f"unknown top-level key `{name}`", key.span, hint=hint)
    if "workload" in top and "problem" in top:
        place, others = top.key("problem").span, ((top.key("workload").span, "the workload"),)
        raise SpecError("one network at a time: this file has a `problem` as well", place, others)


def without_design(top: MappingNode, notes: list[Note]) -> MappingNode:
    """Return a spec with a problem or a workload without what is about a design; others as they are."""
    keys = [key for key, _ in top.entries if section_name(key.text) in DESIGN_SECTIONS]
    if not keys or not any(key in top for key in ("problem", *NETWORK_SECTIONS)):
        return top
    named = listing(key.text for key in keys)
    notes.append(note_at(keys[0].span, "{}: ignored, as only the problem is read", named))
    return without(top, {key.text for key in keys})


def without_mapping(top: MappingNode, notes: list[Note]) -> MappingNode:
    """Return a spec without its `mapping`."""
    keys = (key for key, _ in top.entries if section_name(key.text) == "mapping")
    notes.extend(note_at(key.span, MAPPING_NOTE) for key in keys)
    return without_section(top, "mapping")


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return the files' names without suffixes, with as many directories (or places) as tell them apart."""
    resolved = [path.absolute() for path in paths]
    stems = [(*path.parts[1:-1], path.name.split(".")[0]) for path in resolved]
    depth, most = 1, max(map(len, stems))
    while depth < most and len({stem[-depth:] for stem in stems}) < len(set(stems)):
        depth += 1
    return _numbered([printable("/".join(stem[-depth:])) for stem in stems])


def _numbered(names: Sequence[str]) -> list[str]:
    """Return names with their places where several are the same."""
    counts = Counter(names)
    return [f"{name}#{place}" if counts[name] > 1 else name for place, name in enumerate(names, 1)]


MOST_VARIANTS = 10_000
"""Each is read and checked before the first search begins."""


@dataclass(frozen=True)
class LoadedVariant(Variant):
    """A variant with the documents that it was read from, the values of the attributes included."""

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
    shared, variables, options
        Spec files of all combinations, and how to read them, as for `load_network`.
    workloads, architectures
        Alternatives, each a file or a directory; none if they are among the shared files. What is
        named again is left out, with a note.
    settings
        For each attribute, its values; those of the last attribute change fastest, workloads slowest.

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
        raise SpecError(
            f"a sweep over {math.prod(alternatives):,} points; at most {MOST_VARIANTS:,} are supported"
        )
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
        place = os.path.abspath(path)  # noqa: PTH100 (a link counts as another name)
        if place in by_place:
            sentence = "the {} {} is given more than once; the repetition is ignored"
            notes.append(note_at(None, sentence, what, display_name(Path(path))))
        by_place.setdefault(place, path)
    return list(by_place.values())


def _alternatives(paths: Sequence[str | Path]) -> list[_Alternative]:
    """Return each path with a name: that of the file, or the whole path where that is not unique."""
    if not paths:
        return [(None, ())]
    stems = [Path(path).name.split(".")[0] for path in paths]
    names = [
        printable(stem if stems.count(stem) == 1 else str(path))
        for stem, path in zip(stems, paths, strict=True)
    ]
    return [(name, (Path(path),)) for name, path in zip(_numbered(names), paths, strict=True)]


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
        loaded = read_network(
            paths, variables, replace(options, files=replace(options.files, settings=chosen)), names
        )
    except SpecError as error:
        point = [name for name, _ in (workload, architecture) if name is not None]
        raise _at(error, point, chosen) from error
    return LoadedVariant(
        workload[0] or loaded.network.name,
        architecture[0] or next((layer.mapspace.architecture.name for layer in loaded.network.layers), ""),
        tuple((setting.name, setting.value.text) for setting in chosen),
        loaded.network,
        loaded.documents,
    )


def _at(error: SpecError, names: Sequence[str], chosen: Sequence[AttributeSetting]) -> SpecError:
    """Return an error with the point at which it is met, but for what it points at itself."""
    message = f"{error.message} (at {', '.join(names)})" if names else error.message
    places = [
        setting.value.span for setting in chosen if error.span not in (setting.span, setting.value.span)
    ]
    related = tuple((place, "at this value") for place in places)
    return SpecError(message, error.span, (*error.related, *related), error.hint)
