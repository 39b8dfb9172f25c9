"""Files to a cascade on an architecture, and to a fused mapping of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from model.architecture import Architecture, Node, StorageLevel
from model.counting import rule_of
from model.extents import PERFECT
from model.formats.accelforge.architecture import check_defined, has_arch
from model.formats.accelforge.canonical import Setting
from model.formats.accelforge.loader import LEVELS_ABOVE, LoadedWorkload, read_workload, read_workload_text
from model.formats.accelforge.mapping import MAPPING_SECTION
from model.formats.cascade.constraints import Naming, dataspace_names, place_of
from model.formats.cascade.layers import (
    Known,
    Reader,
    mapspaces_on_arch,
    read_all,
    value_bits,
    written_einsum,
)
from model.formats.cascade.loader import (
    MAPPING_NOTE,
    check_einsums_of,
    read_on_arch,
    without_design,
    without_mapping,
)
from model.formats.cascade.tree_nest import is_tree
from model.formats.foreign import ONNX_MODEL, TOPOLOGY, format_of
from model.formats.fused.alike import UnlikeError, common_of, cycle_lengths, with_common_nodes
from model.formats.fused.joined import read_mapping_tree
from model.formats.fused.tree import SECTION, read_fused_tree
from model.formats.timeloop.document import NETWORK_SECTIONS, without
from model.formats.timeloop.options import LoadOptions
from model.formats.timeloop.values import in_values
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.check import FusedMappingError
from model.fused.mapping import FusedMapping
from model.mapspace import Mapspace
from model.note import Note
from model.text.fields import check_keys
from model.text.files import display_name
from model.text.merging import join_specs
from model.text.reader import unused_notes
from model.text.source import MappingNode, Span, SpecError, note_at
from model.workload import MOST_EINSUMS, Einsum, TensorAccess, Workload

CONSTRAINTS_NOTE = "the constraints of the architecture do not apply to a given fused mapping"


@dataclass(frozen=True)
class LoadedFused:
    """A fused mapping, its cascade, what the user should know, and where parts of the mapping are written."""

    cascade: Cascade
    mapping: FusedMapping
    notes: tuple[Note, ...]
    places: Mapping[int, Span]

    @contextmanager
    def located(self) -> Iterator[None]:
        """Turn what is wrong with the mapping into a SpecError at its place."""
        try:
            yield
        except FusedMappingError as error:
            place = self.places.get(id(error.subject), self.places[id(self.mapping)])
            raise SpecError(str(error), place) from None


def is_fused(
    path: str | Path,
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
    of_einsum: bool = False,
) -> bool:
    """Whether a file has a fused mapping; SpecError for one that is no spec file.

    AccelForge's form has one of the whole workload, unless that `of_einsum` alone matters.
    """
    top = (options or LoadOptions()).files.read([path], variables, levels_above=LEVELS_ABOVE)
    return SECTION in top or (_has_tree(top) and not of_einsum)


def _has_tree(top: MappingNode) -> bool:
    section = top.get(MAPPING_SECTION)
    return section is not None and is_tree(section)


def without_tree(
    paths: Sequence[Path],
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> tuple[list[Path], Path | None]:
    """Return the files but for one with a mapping tree of AccelForge alone, and the one that has it, if any.

    Files that cannot be read are left to those that read them for what else they have.
    """
    for path in paths:
        top = _top_with_mapping(path, variables, options or LoadOptions())
        if top is not None and _has_tree(top):
            alone = not (has_arch(top) or any(key in top for key in NETWORK_SECTIONS))
            return [own for own in paths if own != path or not alone], path
    return list(paths), None


def _top_with_mapping(
    path: Path, variables: Mapping[str, object] | None, options: LoadOptions
) -> MappingNode | None:
    try:
        if not path.is_file() or path.stat().st_size > options.files.limits.file_bytes:  # pipes have no end
            return None
        if MAPPING_SECTION.encode() not in path.read_bytes():
            return None
        return options.files.read([path], variables, levels_above=LEVELS_ABOVE)
    except (OSError, SpecError):
        return None


def load_cascade(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> tuple[Cascade, tuple[Note, ...]]:
    """Read a workload and an architecture as a cascade, with the notes on them.

    Parameters
    ----------
    paths
        Files with `workload` or `renames`, and those of the architecture.

    Raises
    ------
    SpecError
        For every kind of bad input.
    """
    used: set[str] = set()
    return _read_cascade(
        [Path(path) for path in paths], dict(variables or {}), options or LoadOptions(), used
    )


def load_fused(
    paths: Iterable[str | Path],
    mapping_file: str | Path,
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> LoadedFused:
    """Read a fused mapping of a workload on an architecture; parameters and errors as of `load_cascade`.

    Parameters
    ----------
    mapping_file
        Has the key ``fused_mapping`` (docs/fusion.md), and no other; or ``mapping`` in AccelForge's form,
        which may stand in one of the files of the cascade.
    """
    options = replace(options or LoadOptions(), refuse_unsearchable=False, factors=PERFECT)  # not looked at
    values, used, files = dict(variables or {}), set[str](), [Path(path) for path in paths]
    cascade, notes = _read_cascade(files, values, options, used)
    top = options.files.read([mapping_file], values, used, LEVELS_ABOVE)
    if _has_tree(top):
        if Path(mapping_file) not in files:
            check_keys(top, (MAPPING_SECTION,), "a file with a mapping", required=(MAPPING_SECTION,))
        mapping, places = read_mapping_tree(top.require(MAPPING_SECTION), cascade)
        notes = tuple(note for note in notes if note.sentence != MAPPING_NOTE)
    else:
        check_keys(top, (SECTION,), "a file with a fused mapping", required=(SECTION,))
        mapping, places = read_fused_tree(top.require(SECTION, "the file"), cascade)
    return LoadedFused(cascade, mapping, (*notes, *unused_notes(values, used)), places)


def _read_cascade(
    paths: Sequence[Path], variables: Mapping[str, object], options: LoadOptions, names: set[str]
) -> tuple[Cascade, tuple[Note, ...]]:
    options = replace(options, refuse_infeasible=False)
    for path in paths:
        _refuse_other_networks(path)
    tops = {path: options.files.read([path], variables, names, LEVELS_ABOVE) for path in paths}
    if options.problems_only:
        tops = {path: without_design(top, []) for path, top in tops.items()}
    for top in tops.values():
        check_einsums_of(top)
        if has_arch(top):
            check_defined(top)
    if any(map(has_arch, tops.values())):
        return _on_arch(tops, variables, options.on_arch())
    _check_fused(options, hint="use --counting exact or accelforge")
    if options.accelforge.costs is not None:
        raise SpecError("--costs gives costs of the components of an AccelForge `arch`, and there is none")
    workloads = [path for path, top in tops.items() if any(key in top for key in NETWORK_SECTIONS)]
    others = [path for path in paths if path not in workloads]
    if not workloads or not others:
        what = "no workload is given" if not workloads else "no architecture is given"
        raise SpecError(what, hint="a fused mapping belongs to a file with `workload:` and an architecture")
    text = read_workload_text(workloads, variables, options.files.limits, options.files.allow_include)
    loaded = read_workload(text, options.ignore_sparse)
    notes: list[Note] = [*loaded.notes]
    top = without_design(text.top, []) if options.problems_only else text.top
    spec = _one_spec(without(top, NETWORK_SECTIONS), [tops[path] for path in others])
    spec = without_mapping(spec, notes)
    einsums = _einsums(loaded.workload, spec, paths, options, notes)
    if any(map(_constrained, einsums)):
        notes.append(note_at(None, CONSTRAINTS_NOTE))
    return _cascade_of(loaded.workload, text.name, einsums), tuple(dict.fromkeys(notes))


def _refuse_other_networks(path: Path) -> None:
    """Refuse what is a network, and no workload."""
    found = format_of(path)
    if found in (ONNX_MODEL, TOPOLOGY):
        message = f"{display_name(path)} is {found.what}: only the Einsums of a `workload` are fused"
        raise SpecError(message, hint="leave out --fuse")


def _check_fused(options: LoadOptions, hint: str) -> None:
    rule = rule_of(options.rule)
    if not rule.fused:
        raise SpecError(f"{rule.title} does not support fused mappings", hint=hint)


def _on_arch(
    tops: Mapping[Path, MappingNode], variables: Mapping[str, object], options: LoadOptions
) -> tuple[Cascade, tuple[Note, ...]]:
    """Read a workload and an architecture, both of AccelForge."""
    _check_fused(options, hint=f"leave out --counting {options.rule}")
    workloads = [path for path, top in tops.items() if any(key in top for key in NETWORK_SECTIONS)]
    arches = [path for path, top in tops.items() if has_arch(top)]
    others = [path for path in tops if path not in (*workloads, *arches)]
    read = read_on_arch(workloads, arches, others, variables, options)
    notes = [*read.notes, Note(CONSTRAINTS_NOTE)]
    workload, ranks = read.workload.workload, _rank_names(read.workload.workload)
    setting = replace(read.setting, fused=True)
    mapspaces, lengths, keeping_rest = _in_same_units(read.workload, setting, options, notes)
    einsums = tuple(
        CascadeEinsum(
            einsum.name,
            mapspace,
            tuple(_access_slices(einsum, ranks)),
            einsum.is_copy_operation,
            einsum.n_instances,
            cycle_length,
            frozenset(level.name for level in mapspace.architecture.levels if options.has_places),
            keeps_rest,
            einsum.source,
        )
        for einsum, mapspace, cycle_length, keeps_rest in zip(
            workload.einsums, mapspaces, lengths, keeping_rest, strict=True
        )
    )
    return _cascade_of(workload, read.name, einsums), tuple(dict.fromkeys(notes))


def _in_same_units(
    loaded: LoadedWorkload, setting: Setting, options: LoadOptions, notes: list[Note]
) -> tuple[list[Mapspace], list[int], list[bool]]:
    """Return the mapspaces, in the same words, units and memories, and the lengths of their cycles.

    And whether the outermost on-chip memory keeps each tensor that the outermost one does not.
    """
    common = common_of(mapspaces_on_arch(loaded, setting, options, notes)[0])
    mapspaces, keeping_rest = mapspaces_on_arch(loaded, replace(setting, common=common), options, notes)
    try:
        return with_common_nodes(mapspaces), cycle_lengths(mapspaces), keeping_rest
    except UnlikeError as error:
        einsum = loaded.workload.einsums[error.place]
        message = f"Einsum `{einsum.name}` differs from the Einsums before it in {error}"
        hint = "that is not modelled in fused mappings; --no-fuse maps the Einsums one by one"
        raise SpecError(message, place_of(einsum), hint=hint) from None


def _constrained(einsum: CascadeEinsum) -> bool:
    mapspace = einsum.mapspace
    loops = [(rules.factors, rules.inner, rules.outer) for rules in mapspace.temporal]
    loops += [(rules.factors, rules.inner, rules.outer) for rules in mapspace.spatial]
    kept = [rules.keep | rules.bypass for rules in mapspace.keep]
    return bool(any(map(any, loops)) or any(kept) or mapspace.min_parallelism or mapspace.parallel)


def _one_spec(rest: MappingNode | None, architectures: list[MappingNode]) -> MappingNode:
    joined = architectures[0]
    for top in (*architectures[1:], *([] if rest is None else [rest])):
        joined = join_specs(joined, top)
    return joined


def _einsums(
    workload: Workload, spec: MappingNode, files: Sequence[Path], options: LoadOptions, notes: list[Note]
) -> tuple[CascadeEinsum, ...]:
    if len(workload.einsums) > MOST_EINSUMS:
        raise SpecError(f"{len(workload.einsums):,} Einsums; at most {MOST_EINSUMS:,} are read")
    ranks = _rank_names(workload)
    sizes = {access.bits_per_value for einsum in workload.einsums for access in einsum.accesses}

    known: Known = {}

    def read(einsum: Einsum) -> CascadeEinsum:
        mapspace, _, spread_out = written_einsum(Naming(einsum, workload), spec, files, options, notes, known)
        # Values of all sizes in the cascade, so that words are the same for all Einsums.
        bits = {**{f"{size} bits": size for size in sorted(sizes)}, **value_bits(einsum)}
        architecture = _of_own_values(in_values(mapspace.architecture, bits), value_bits(einsum))
        return CascadeEinsum(
            einsum.name,
            replace(mapspace, architecture=architecture, notes=()),
            tuple(_access_slices(einsum, ranks)),
            einsum.is_copy_operation,
            einsum.n_instances,
            memories_with_places=spread_out,
            source=einsum.source,
        )

    readers = (Reader(einsum.name, partial(read, einsum), place_of(einsum)) for einsum in workload.einsums)
    return read_all(readers, "Einsum")


def _of_own_values(architecture: Architecture, names: Container[str]) -> Architecture:
    """Return an architecture that says how these dataspaces lie in rows, and no others."""

    def of_own(node: Node) -> Node:
        if not isinstance(node, StorageLevel):
            return node
        scales = tuple((name, scale) for name, scale in node.bandwidth_scale if name in names)
        packing = tuple(own for own in node.packing if own.dataspace in names)
        return replace(node, bandwidth_scale=scales, packing=packing)

    return replace(architecture, nodes=tuple(map(of_own, architecture.nodes)))


def _rank_names(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Return the names of each tensor's ranks, as the first access has them."""
    ranks: dict[str, tuple[str, ...]] = {}
    for einsum in workload.einsums:
        for access in einsum.accesses:
            ranks.setdefault(access.tensor, tuple(index.rank for index in access.indices))
    return ranks


def _access_slices(einsum: Einsum, ranks: Mapping[str, tuple[str, ...]]) -> Iterator[Access]:
    starts = {name: span[0] for name, span in zip(einsum.rank_variables, einsum.ranges, strict=True)}
    for name, access in zip(dataspace_names(einsum), einsum.accesses, strict=True):
        own, known = [index.rank for index in access.indices], ranks[access.tensor]
        # `B[m, d]` has the ranks M and D where the writer's `B[m, b]` has M and B: matched by position.
        named = own if sorted(own) == sorted(known) else known
        indices = [(rank, i) for rank, i in zip(named, access.indices, strict=True) if i.terms]
        yield Access(
            name,
            access.tensor,
            tuple(rank for rank, _ in indices),
            tuple(i.offset + sum(t.coefficient * starts[t.dim] for t in i.terms) for _, i in indices),
        )


def _cascade_of(workload: Workload, name: str, einsums: tuple[CascadeEinsum, ...]) -> Cascade:
    accesses: dict[str, TensorAccess] = {
        access.tensor: access for einsum in workload.einsums for access in einsum.accesses
    }
    scales = {tensor: access.backing_storage_size_scale for tensor, access in accesses.items()}
    return Cascade(
        name,
        einsums,
        frozenset(tensor for tensor, access in accesses.items() if access.persistent),
        tuple((tensor, scale) for tensor, scale in scales.items() if scale != 1),
    )
