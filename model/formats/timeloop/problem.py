"""The ``problem`` section: a shape, inline or by name, and an instance of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path, PurePath

from model.counting.words import extents
from model.formats.timeloop.document import check_density, check_version, with_entry
from model.note import Note
from model.problem import Dataspace, Problem, Term
from model.sparsity import DENSE, DISTRIBUTIONS, Density
from model.sparsity import Distribution as DistributionName
from model.text.fields import (
    IDENTIFIER_HINT,
    NO_NAMES,
    Names,
    add_once,
    as_bool,
    as_int,
    as_mapping,
    as_name,
    as_scalar,
    as_sequence,
    as_share,
    check_count,
    check_keys,
    check_problem,
    keyed_mapping,
    known_name,
    one_of,
)
from model.text.files import SHIPPED_SPECS, SPEC_SUFFIXES, include_roots, is_file
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.reader import read_files
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, note_at
from model.wording import did_you_mean, listing, suggestion

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


_SHIPPED_SHAPES = SHIPPED_SPECS / "problem-shapes"


def find_shape(
    name: str,
    span: Span,
    spec_files: Sequence[Path],
    limits: Limits,
    allow_include: Iterable[Path],
    notes: list[Note],
) -> MappingNode:
    """Return the shape in ``NAME.yaml``: shipped, in ``problem-shapes`` beside a spec file, or beside it."""
    if name.endswith(SPEC_SUFFIXES):
        stem = PurePath(name).name.partition(".")[0]
        hint = f"write `shape: {stem}`: it is looked for as a shipped shape, and as a file beside the spec"
        raise SpecError(f"`{name}` is a file, not the name of a problem shape", span, hint=hint)
    if not _NAME.match(name):
        hint = "the name of a shipped shape, or of a file beside the spec without its `.yaml`"
        raise SpecError(f"`{name}` cannot name a problem shape", span, hint=hint)
    # Timeloop's own shapes have underscores: `cnn_layer`.
    shipped = _SHIPPED_SHAPES / f"{name.replace('_', '-')}.yaml"
    beside = [folder for path in spec_files for folder in (path.parent / "problem-shapes", path.parent)]
    for path in (shipped, *(folder / f"{name}.yaml" for folder in beside)):
        if is_file(path):
            include_roots(spec_files, {}, allow_include).check(path)
            return _shipped_shape(path, limits) if path == shipped else _shape_in_file(path, limits, notes)
    known = sorted(path.stem for path in _SHIPPED_SHAPES.glob("*.yaml"))
    hint = suggestion(name, known, "shipped shapes are")
    raise SpecError(f"unknown problem shape `{name}`", span, hint=hint)


@cache
def _shipped_shape(path: Path, limits: Limits) -> MappingNode:
    return _shape_in_file(path, limits, [])


def _shape_in_file(path: Path, limits: Limits, notes: list[Note]) -> MappingNode:
    top = read_files([path], limits=limits, notes=notes)
    problem = top.get("problem")
    holder = top if problem is None else as_mapping(problem, "`problem`")
    return as_mapping(holder.require("shape", f"problem shape {path}"), "`shape`")


# Far above any layer, low enough that the divisors of a bound are found at once.
MAX_BOUND = 2**31 - 1

# Instance keys of real files that follow from the others, so that nothing reads them.
DERIVED_KEYS = ("H", "W", "Hpad", "Wpad", "H_pad", "W_pad")
WIDTH_KEYS = ("bitwidths", "bit_widths")
"""Keys of the bits of a value by dataspace, which a fork of Timeloop reads."""
SPARSE_KEYS = ("densities", "density", "commonDensity", "common_density")


@dataclass(frozen=True)
class WrittenShape:
    """A shape as it is written."""

    name: str  # empty if it has none
    dims: dict[str, Span]  # where each dimension is declared
    # Where each coefficient is declared, and its default, None if it has none
    coefficients: dict[str, tuple[Span, int | None]]
    dataspaces: Node


def _read_instance(section: MappingNode) -> MappingNode:
    """Return the instance of a problem's section."""
    node = section.require("instance", "`problem`")
    if isinstance(node, ScalarNode) and "<" in node.text:
        hint = "write `{DIMENSION: BOUND}`; cascades with such conditions are read as AccelForge workloads"
        raise SpecError("`instance` has conditions, as in LoopTree", node.span, hint=hint)
    return as_mapping(node, "`instance`")


def _instance_fields(instance: MappingNode, shape: WrittenShape, notes: list[Note]) -> dict[str, Node]:
    """Return the instance's values by dimension or coefficient, spelling mended where that is safe."""
    known = (*shape.dims, *shape.coefficients)
    fields = {key.text: value for key, value in instance.entries if key.text in known}
    others = [(k, value) for k, value in instance.entries if k.text not in (*known, "name", "version")]
    derived = [key.text for key, _ in others if key.text in DERIVED_KEYS]
    respelt: dict[str, Span] = {}
    for key, value in others:
        if key.text in (*SPARSE_KEYS, *DERIVED_KEYS, *WIDTH_KEYS):
            continue
        name = _respelt(key, shape, instance)
        add_once(respelt, name, key.span, f"`{key.text}` is a second spelling of `{name}`")
        notes.append(_respelling_note(key, name, fields[name]))
        fields[name] = value
    if derived:
        names, one = listing(derived), len(derived) == 1
        keys = f"key {names} is" if one else f"keys {names} are"
        follow = "it follows from the others and is" if one else "they follow from the others and are"
        notes.append(note_at(None, "instance {} not part of the shape: {} not used", keys, follow))
    return fields


def _respelt_instance(instance: MappingNode, fields: dict[str, Node]) -> MappingNode:
    """Return the instance with the values that count, and without the spellings that were mended."""
    kept = (*fields, *SPARSE_KEYS, *DERIVED_KEYS, *WIDTH_KEYS, "name", "version")
    entries = [(key, fields.get(key.text, value)) for key, value in instance.entries if key.text in kept]
    return MappingNode(tuple(entries), instance.span, instance.tag)


def _respelling_note(key: ScalarNode, name: str, default: Node) -> Note:
    value = as_scalar(default, f"`{name}`").text
    sentence = (
        "`{0}` is read as `{1}`, in place of the default {2} that was merged in; "
        "Timeloop does not know `{0}` and evaluates {1} {2}"
    )
    return note_at(key.span, sentence, key.text, name, value)


def _respelt(key: ScalarNode, shape: WrittenShape, instance: MappingNode) -> str:
    """Return the name that a key meant which differs from it in case only.

    Accepted only where the right spelling came in through a merge, from a base of defaults: there
    the author can only have meant to override it. Anywhere else it is an error.
    """
    known = (*shape.dims, *shape.coefficients)
    folded = [name for name in known if name.casefold() == key.text.casefold()]
    if len(folded) == 1 and folded[0] in instance and not _written_in(instance, folded[0]):
        return folded[0]
    similar = did_you_mean(key.text, known) or did_you_mean(key.text, (*SPARSE_KEYS, "name", "version"))
    defaults = [name for name, (_, default) in shape.coefficients.items() if default is not None]
    missing = [name for name in known if name not in instance and name not in defaults]
    lacking = f", which lacks {listing(missing)}" if missing and not similar else ""
    hint = similar or f"the shape has {listing(known)}"
    raise SpecError(f"unknown key `{key.text}` in `instance`{lacking}", key.span, hint=hint)


def _written_in(mapping: MappingNode, name: str) -> bool:
    """Whether the key `name` stands inside the text of `mapping`, not merged from elsewhere."""
    span, outer = mapping.key(name).span, mapping.span
    inside = (outer.line, outer.column) <= (span.line, span.column) < (outer.end_line, outer.end_column)
    return span.file == outer.file and inside


_NO_STEP = "`{}` is 0: as in Timeloop, its dimension has no part in the rank; 1 means steps of one value"


def _read_coefficients(
    shape: WrittenShape,
    fields: dict[str, Node],
    instance: MappingNode,
    names: Names,
    notes: list[Note],
) -> dict[str, int]:
    """Return the coefficients by name, from the instance or their defaults."""
    values: dict[str, int] = {}
    for name, (span, default) in shape.coefficients.items():
        if name in fields:
            values[name] = as_int(fields[name], f"coefficient `{name}`", names, minimum=0)
        elif default is not None:
            values[name] = default
        else:
            related = ((span, "it has no default"),)
            raise SpecError(f"`instance` lacks coefficient `{name}`", instance.span, related)
    notes += [note_at(fields[name].span, _NO_STEP, name) for name, value in values.items() if value == 0]
    return values


def _read_bounds(
    shape: WrittenShape, fields: dict[str, Node], instance: MappingNode, names: Names
) -> dict[str, int]:
    """Return the bounds by dimension; parameters as of `_read_coefficients`."""
    bounds: dict[str, int] = {}
    for dim, span in shape.dims.items():
        if dim not in fields:
            related = ((span, "the dimension is declared here"),)
            raise SpecError(f"`instance` lacks a bound for dimension `{dim}`", instance.span, related)
        bounds[dim] = as_int(fields[dim], f"bound of dimension `{dim}`", names, 1, MAX_BOUND)
    return bounds


# What files of layers say about them besides; energies here do not depend on the values of data.
DESCRIPTIVE_KEYS = ("dnn_name", "notes", "histograms")

_PROBLEM_KEYS = ("version", "name", "shape", "instance", *DESCRIPTIVE_KEYS)
_SPACES = ("data_spaces", "data-spaces")
_SHAPE_KEYS = ("version", "name", "dimensions", "coefficients", *_SPACES)
_OF_SHAPE = dict.fromkeys(("dimensions", "coefficients", *_SPACES), "shape")
_READ_WRITE = ("read_write", "read-write")
_INITIAL = "initial"
_INITIALLY = {"nothing": False, "given": True}
"""What outputs hold before the first computation, and whether that is read."""
_DATASPACE_BITS = ("bits", "bits_per_value", "bitwidth", "bit_width", "datawidth", "word_bits", "word-bits")
_DATASPACE_KEYS = ("name", "projection", *_READ_WRITE, _INITIAL, *_DATASPACE_BITS)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

ShapeLookup = Callable[[str, Span], MappingNode]


@dataclass(frozen=True)
class LoadedProblem:
    """A problem with the places of its bounds."""

    problem: Problem
    bound_spans: dict[str, Span]  # where each dimension's bound was written
    notes: tuple[Note, ...]
    instance_keys: tuple[str, ...] = ()
    densities: Mapping[str, Density] = field(default_factory=dict)  # of dataspaces that are not dense
    bits: Mapping[str, int] = field(default_factory=dict)  # of a value by dataspace; empty: one word each
    # The section as it was understood, with its shape written out and all keys spelt right; None of an Einsum
    # that comes from elsewhere
    section: MappingNode | None = None
    given: Span | None = None  # what says that first values of outputs are given


def read_problem(
    node: Node,
    find_shape: ShapeLookup,
    names: Names = NO_NAMES,
    ignore_sparse: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    models_sparse: bool = False,
    given: Span | None = None,
) -> LoadedProblem:
    """Read the ``problem`` section; densities are read with `models_sparse`, else refused or ignored.

    `given` is what says that first values are given of outputs that do not say it themselves.
    """
    section = _section(node)
    written = section.require("shape", "`problem`")
    if isinstance(written, ScalarNode):
        written = find_shape(as_name(written, "`shape`"), written.span)
    written = as_mapping(written, "`shape`")
    shape = _read_shape(written, limits)
    instance = _read_instance(section)
    check_version(instance)
    notes = [
        note_at(section.key(key).span, "`{}` describes the problem; it is not used here", key)
        for key in DESCRIPTIVE_KEYS
        if key in section
    ]
    written_densities = [
        (key, value) for part in (section, instance) for key, value in part.entries if key.text in SPARSE_KEYS
    ]
    for key, value in () if models_sparse else written_densities:
        check_density(key, value, ignore_sparse, notes.append)
    fields = _instance_fields(instance, shape, notes)
    coefficients = _read_coefficients(shape, fields, instance, names, notes)
    bounds = _read_bounds(shape, fields, instance, names)
    dataspaces, places = _read_dataspaces(shape, coefficients, limits, given)
    name = _problem_name(section, instance, shape)
    problem = Problem(name, tuple(shape.dims), tuple(bounds.values()), dataspaces)
    check_problem(problem, limits, instance.span)
    notes += _idle_notes(problem)
    densities = read_densities(written_densities, problem, names, notes) if models_sparse else {}
    spans = {dim: fields[dim].span for dim in shape.dims}
    understood = with_entry(section, "shape", written)
    understood = with_entry(understood, "instance", _respelt_instance(instance, fields))
    return LoadedProblem(
        problem=problem,
        bound_spans=spans,
        notes=tuple(notes),
        instance_keys=tuple(instance.keys()),
        densities=densities,
        bits=_read_bits((section, instance), shape, problem, names),
        section=understood,
        given=next(iter(places), None),
    )


_MOST_BITS = 4096


def _read_bits(
    holders: Sequence[MappingNode], shape: WrittenShape, problem: Problem, names: Names
) -> dict[str, int]:
    """Return the bits of a value of each dataspace, nothing where none are given."""
    spaces = [space.name for space in problem.dataspaces]
    written = [(key, value) for part in holders for key, value in part.entries if key.text in WIDTH_KEYS]
    items = [as_mapping(item, "a dataspace") for item in as_sequence(shape.dataspaces, "`data-spaces`").items]
    own = [one_of(item, _DATASPACE_BITS, "a dataspace") for item in items]
    places = [key.span for key, _ in written] + [entry[0].span for entry in own if entry is not None][:1]
    if not places:
        return {}
    if len(places) > 1:
        raise SpecError("bits of values are given twice", places[1], ((places[0], "the first"),))
    if not written:
        given = [(name, entry[1]) for name, entry in zip(spaces, own, strict=True) if entry is not None]
    elif isinstance(written[0][1], ScalarNode):
        given = [(name, written[0][1]) for name in spaces]
    else:
        entries = as_mapping(written[0][1], f"`{written[0][0].text}`").entries
        given = [(known_name(name, spaces, "dataspace"), value) for name, value in entries]
    bits = {name: as_int(node, f"bits of `{name}`", names, 1, _MOST_BITS) for name, node in given}
    lacking = [name for name in spaces if name not in bits]
    if lacking:
        hint = "give the bits of a value of every dataspace"
        raise SpecError(f"bits of {listing(lacking)} are missing", places[0], hint=hint)
    return bits


_COMMON = ("commonDensity", "common_density")
_DISTRIBUTION_NAMES: dict[str, DistributionName] = {
    **{name: name for name in DISTRIBUTIONS},
    "fixed": "fixed_structured",
    "fixed-structured": "fixed_structured",
    "diagonal": "banded",
}
_DENSITY_KEYS = ("distribution", "density", "band_width", "workload_tensor_size")


def read_densities(
    written: Sequence[tuple[ScalarNode, Node]], problem: Problem, names: Names, notes: list[Note]
) -> dict[str, Density]:
    """Read densities of single dataspaces, or a common one of all; dense dataspaces are left out."""
    places: dict[str, Span] = {}
    for key, _ in written:
        add_once(places, "densities", key.span, f"`{key.text}` is a second place of densities")
    spaces = {space.name: space for space in problem.dataspaces}
    densities: dict[str, Density] = {}
    for key, value in written:
        common = key.text in _COMMON or not isinstance(value, MappingNode) or "distribution" in value
        listed = dict.fromkeys(spaces, value) if common else _by_dataspace(key, value, spaces)
        for name, node in listed.items():
            densities[name] = _read_density(node, spaces[name], problem, names, notes)
    return {name: density for name, density in densities.items() if density != DENSE}


def _by_dataspace(key: ScalarNode, value: Node, spaces: Iterable[str]) -> dict[str, Node]:
    entries = as_mapping(value, f"`{key.text}`").entries
    return {known_name(name, spaces, "dataspace"): node for name, node in entries}


def _read_density(node: Node, space: Dataspace, problem: Problem, names: Names, notes: list[Note]) -> Density:
    what = f"density of `{space.name}`"
    if not isinstance(node, MappingNode):
        return Density(share=as_share(node, what, names))
    check_keys(node, _DENSITY_KEYS, f"the {what}")
    given_name = node.get("distribution")
    distribution: DistributionName = "fixed_structured"
    if given_name is not None:
        distribution = _DISTRIBUTION_NAMES[known_name(given_name, _DISTRIBUTION_NAMES, "distribution")]
    size = node.get("workload_tensor_size")
    if size is not None and as_int(size, "`workload_tensor_size`", names, minimum=0):
        sentence = "`workload_tensor_size` is not used: the size of `{}` follows from the problem"
        notes.append(note_at(node.key("workload_tensor_size").span, sentence, space.name))
    if distribution == "banded":
        if "density" in node:
            sentence = "the density of a band is not used: it follows from the `band_width` of `{}`"
            notes.append(note_at(node.key("density").span, sentence, space.name))
        return _read_band(node, space, problem, names)
    width = node.get("band_width")
    if width is not None and as_int(width, "`band_width`", names, minimum=0):
        message = f"`band_width` does not apply to the distribution `{distribution}`"
        raise SpecError(message, node.key("band_width").span)
    return Density(distribution, as_share(node.require("density", f"the {what}"), what, names))


def _read_band(node: MappingNode, space: Dataspace, problem: Problem, names: Names) -> Density:
    """Read a banded matrix, whose density follows from its width."""
    tensor = extents(space, problem.bound)
    if len(tensor) != 2 or tensor[0] != tensor[1]:
        shown = " x ".join(map(str, tensor))
        raise SpecError(f"a band needs a square matrix, and `{space.name}` is {shown}", node.span)
    width = node.require("band_width", f"the density of `{space.name}`")
    most = tensor[0] - 1
    return Density("banded", Fraction(1), as_int(width, "`band_width`", names, minimum=0, maximum=most))


def _idle_notes(problem: Problem) -> Iterator[Note]:
    used = frozenset[str]().union(*(space.dims for space in problem.dataspaces))
    idle = [dim for dim in problem.dims if dim not in used and problem.bound[dim] > 1]
    if idle:
        sentence = "no dataspace is indexed by dimension {}: its loops only repeat the work"
        yield note_at(None, sentence, listing(idle))


def _section(node: Node) -> MappingNode:
    if isinstance(node, SequenceNode):
        hint = "the command `network` maps each problem of a list; all others take one"
        raise SpecError("`problem` must be a mapping, but is a list", node.span, hint=hint)
    section = as_mapping(node, "`problem`")
    known, required = (*_PROBLEM_KEYS, *SPARSE_KEYS, *WIDTH_KEYS), ("shape", "instance")
    check_keys(section, known, "`problem`", required, _OF_SHAPE | _bound_keys(section))
    check_version(section)
    return section


_GENERAL_NAMES = frozenset(path.stem.replace("-", "") for path in _SHIPPED_SHAPES.glob("*.yaml"))
"""Names of shapes that many layers have."""

_GENERAL_FILES = frozenset({"problem", "prob", "spec", "layer", "workload"})


def _problem_name(section: MappingNode, instance: MappingNode, shape: WrittenShape) -> str:
    """Return the name of a problem: its own, that of a shape of its own, or that of its file."""
    for holder in (instance, section):
        name = holder.get("name")
        if name is not None and "name" not in shape.dims:
            return as_name(name, "`name`")
    stem = Path(instance.span.file).name.partition(".")[0]
    is_general = shape.name.casefold().replace("-", "").replace("_", "") in _GENERAL_NAMES
    return stem if not shape.name or (is_general and stem.casefold() not in _GENERAL_FILES) else shape.name


def _read_shape(shape: MappingNode, limits: Limits) -> WrittenShape:
    own_spaces = next((key for key in _SPACES if key in shape), _SPACES[0])
    check_keys(shape, _SHAPE_KEYS, "`shape`", ("dimensions", own_spaces))
    check_version(shape)
    dims: dict[str, Span] = {}
    dimensions = as_sequence(shape.require("dimensions", "`shape`"), "`dimensions`")
    check_count(dimensions.items, limits.dimensions, "dimensions", dimensions.span)
    for item in dimensions.items:
        dim = _identifier(item, "dimension")
        add_once(dims, dim, item.span, f"two dimensions are named `{dim}`")
    if not dims:
        raise SpecError("`dimensions` must not be empty", shape.key("dimensions").span)
    dataspaces = one_of(shape, _SPACES, "`shape`")
    if dataspaces is None:
        raise SpecError(f"`shape` is missing the key `{_SPACES[0]}`", shape.span)
    name = shape.get("name")
    has_no_name = name is None or (isinstance(name, ScalarNode) and not name.text.strip())
    return WrittenShape(
        name="" if name is None or has_no_name else as_name(name, "`name`"),
        dims=dims,
        coefficients=_declared_coefficients(shape.get("coefficients"), dims),
        dataspaces=dataspaces[1],
    )


def _identifier(node: Node, what: str) -> str:
    name = as_name(node, f"name of a {what}")
    if not _IDENTIFIER.match(name):
        raise SpecError(f"`{name}` cannot name a {what}", node.span, hint=IDENTIFIER_HINT)
    return name


def _declared_coefficients(node: Node | None, dims: dict[str, Span]) -> dict[str, tuple[Span, int | None]]:
    if node is None:
        return {}
    declared: dict[str, tuple[Span, int | None]] = {}
    for item in as_sequence(node, "`coefficients`").items:
        entry = keyed_mapping(item, "a coefficient", ("name", "default"), ("name",))
        name_node = entry.require("name", "a coefficient")
        name = _identifier(name_node, "coefficient")
        other = dims.get(name) or (declared[name][0] if name in declared else None)
        if other is not None:
            related = ((other, "the other one"),)
            raise SpecError(f"the name of coefficient `{name}` is already used", name_node.span, related)
        default = entry.get("default")
        number = None if default is None else as_int(default, f"default of `{name}`", minimum=1)
        declared[name] = (name_node.span, number)
    return declared


def _bound_keys(section: MappingNode) -> dict[str, str]:
    """Return the keys of what may be bounds, which older versions had in the section itself."""
    scalars = [(key.text, value) for key, value in section.entries if isinstance(value, ScalarNode)]
    return {key: "instance" for key, value in scalars if type(value.value) is int}


def _says_given(entry: MappingNode, space: str, written: bool, default: Span | None) -> Span | None:
    """Return what says that first values of a dataspace are given, `default` of outputs that say nothing."""
    value = entry.get(_INITIAL)
    if value is None:
        return default if written else None
    if not written:
        message = f"`{_INITIAL}` is for outputs, and `{space}` is only read"
        raise SpecError(message, entry.key(_INITIAL).span)
    return value.span if _INITIALLY[known_name(value, _INITIALLY, "first value")] else None


def _read_dataspaces(
    shape: WrittenShape, coefficients: dict[str, int], limits: Limits, given: Span | None
) -> tuple[tuple[Dataspace, ...], list[Span]]:
    """Return the dataspaces, and what says that first values of outputs are given."""
    node = as_sequence(shape.dataspaces, "`data-spaces`")
    check_count(node.items, limits.dimensions, "dataspaces", node.span)
    dataspaces: dict[str, Dataspace] = {}
    places: dict[str, Span] = {}
    starts: dict[str, Span | None] = {}
    for item in node.items:
        entry = keyed_mapping(item, "a dataspace", _DATASPACE_KEYS, ("name", "projection"))
        name_node = entry.require("name", "a dataspace")
        name = _identifier(name_node, "dataspace")
        add_once(places, name, name_node.span, f"two dataspaces are named `{name}`")
        projection = as_sequence(entry.require("projection", f"dataspace `{name}`"), "`projection`")
        check_count(projection.items, limits.dimensions, f"ranks of `{name}`", projection.span)
        flag = one_of(entry, _READ_WRITE, "a dataspace")
        written = flag is not None and as_bool(flag[1], f"`{flag[0].text}`")
        starts[name] = _says_given(entry, name, written, given)
        dataspaces[name] = Dataspace(
            name=name,
            ranks=tuple(_read_rank(rank, shape, coefficients) for rank in projection.items),
            read_write=written,
            given=starts[name] is not None,
        )
    if not any(space.read_write for space in dataspaces.values()):
        raise SpecError("no dataspace is `read_write: true`, so nothing is computed", node.span)
    return tuple(dataspaces.values()), [place for place in starts.values() if place is not None]


def _read_rank(node: Node, shape: WrittenShape, coefficients: dict[str, int]) -> tuple[Term, ...]:
    """Read one rank: a dimension, or a sum of terms; terms over the same dimension are added up."""
    if isinstance(node, ScalarNode):
        return (Term(known_name(node, shape.dims, "dimension"), 1),)
    terms: dict[str, int] = {}
    for item in as_sequence(node, "a rank of a projection").items:
        if isinstance(item, ScalarNode):
            hint = f"write `{item.text}` or `[[{item.text}]]` for a rank that one dimension indexes"
            raise SpecError("a rank is a list of terms such as `[dimension]`", node.span, hint=hint)
        term = as_sequence(item, "a term of a projection")
        if len(term.items) not in (1, 2):
            raise SpecError("a term is `[dimension]` or `[dimension, coefficient]`", term.span)
        dim = known_name(term.items[0], shape.dims, "dimension")
        factor = _read_coefficient(term, dim, shape, coefficients)
        if factor > 0:
            terms[dim] = terms.get(dim, 0) + factor
    if not terms:
        raise SpecError("a rank needs at least one term whose coefficient is not 0", node.span)
    return tuple(Term(dim, factor) for dim, factor in terms.items())


def _read_coefficient(term: SequenceNode, dim: str, shape: WrittenShape, coefficients: dict[str, int]) -> int:
    if len(term.items) == 1:
        return 1
    node = as_scalar(term.items[1], "a coefficient")
    if isinstance(node.value, int) and node.value < 0:
        hint = "count the dimension from its other end, and its coefficient is positive"
        raise SpecError(f"a coefficient must be at least 1, but is {node.value}", node.span, hint=hint)
    if isinstance(node.value, int):
        return as_int(node, "a coefficient", minimum=1)
    if node.text in shape.dims and node.text not in coefficients:
        hint = f"a sum of two dimensions is written `[[{dim}], [{node.text}]]`"
        raise SpecError(f"`{node.text}` is a dimension, not a coefficient", node.span, hint=hint)
    return coefficients[known_name(node, coefficients, "coefficient")]
