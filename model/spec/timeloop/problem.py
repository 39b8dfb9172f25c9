"""The ``problem`` section: a shape, inline or by name, and an instance of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from model.note import Note
from model.problem import Dataspace, Problem, Term
from model.spec.fields import (
    IDENTIFIER_HINT,
    NO_NAMES,
    Names,
    as_bool,
    as_int,
    as_mapping,
    as_name,
    as_scalar,
    as_sequence,
    known_name,
)
from model.spec.keys import check_keys, one_of
from model.spec.limits import DEFAULT_LIMITS, Limits
from model.spec.notes import note_at
from model.spec.sizes import check_count, check_problem
from model.spec.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, did_you_mean
from model.spec.sparsity import check_density
from model.spec.timeloop.editing import with_entry
from model.spec.timeloop.version import check_version
from model.wording import listing

# Far above any layer, low enough that the divisors of a bound are found at once.
MAX_BOUND = 2**31 - 1

# Instance keys of real files that follow from the others, so that nothing reads them.
DERIVED_KEYS = ("H", "W", "Hpad", "Wpad", "H_pad", "W_pad")
SPARSE_KEYS = ("densities", "density", "commonDensity", "common_density")

# What files of layers say about them besides; energies here do not depend on the values of data.
DESCRIPTIVE_KEYS = ("dnn_name", "notes", "histograms")

_PROBLEM_KEYS = ("version", "name", "shape", "instance", *DESCRIPTIVE_KEYS)
_SPACES = ("data_spaces", "data-spaces")
_SHAPE_KEYS = ("version", "name", "dimensions", "coefficients", *_SPACES)
_OF_SHAPE = dict.fromkeys(("dimensions", "coefficients", *_SPACES), "shape")
_READ_WRITE = ("read_write", "read-write")
_DATASPACE_KEYS = ("name", "projection", *_READ_WRITE)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

ShapeLookup = Callable[[str, Span], MappingNode]


@dataclass(frozen=True)
class LoadedProblem:
    """A problem with the places of its bounds.

    Parameters
    ----------
    problem
        The Einsum with its bounds fixed.
    bound_spans
        Where each dimension's bound was written.
    notes
        What a user should know about the reading.
    instance_keys
        The keys of the instance.
    section
        The section as it was understood, with its shape written out and all keys spelt right; None of an
        Einsum that comes from elsewhere.
    """

    problem: Problem
    bound_spans: dict[str, Span]
    notes: tuple[Note, ...]
    instance_keys: tuple[str, ...] = ()
    section: MappingNode | None = None


@dataclass(frozen=True)
class _Shape:
    name: str
    dims: dict[str, Span]
    coefficients: dict[str, tuple[Span, int | None]]
    dataspaces: Node


def read_problem(
    node: Node,
    find_shape: ShapeLookup,
    names: Names = NO_NAMES,
    ignore_sparse: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> LoadedProblem:
    """Read the ``problem`` section.

    Parameters
    ----------
    node
        The section.
    find_shape
        Returns the shape of a name, for ``shape: NAME``.
    names
        Variables that expressions in the instance may use.
    ignore_sparse
        Whether densities are left out instead of refused.
    limits
        How large the problem may be.

    Raises
    ------
    SpecError
        The section is malformed; the error's span is the place.
    """
    if isinstance(node, SequenceNode):
        hint = "the command `network` maps each problem of a list; all others take one"
        raise SpecError("`problem` must be a mapping, but is a list", node.span, hint=hint)
    section = as_mapping(node, "`problem`")
    sparse = [(key, value) for key, value in section.entries if key.text in SPARSE_KEYS]
    check_keys(
        section,
        (*_PROBLEM_KEYS, *SPARSE_KEYS),
        "`problem`",
        ("shape", "instance"),
        _OF_SHAPE | _bounds(section),
    )
    check_version(section)
    written = _shape_node(section.require("shape", "`problem`"), find_shape)
    shape = _read_shape(written, limits)
    instance = _instance(section)
    check_version(instance)
    notes = [
        note_at(section.key(key).span, "`{}` describes the problem; nothing here reads it", key)
        for key in DESCRIPTIVE_KEYS
        if key in section
    ]
    for key, value in sparse:
        check_density(key, value, ignore_sparse, notes.append)
    fields = _instance_fields(instance, shape, ignore_sparse, notes)
    coefficients = _coefficients(shape, fields, instance, names)
    bounds: dict[str, int] = {}
    spans: dict[str, Span] = {}
    for dim, span in shape.dims.items():
        if dim not in fields:
            related = ((span, "the dimension is declared here"),)
            raise SpecError(f"`instance` lacks a bound for dimension `{dim}`", instance.span, related)
        bounds[dim] = as_int(fields[dim], f"bound of dimension `{dim}`", names, 1, MAX_BOUND)
        spans[dim] = fields[dim].span
    dataspaces = _read_dataspaces(shape, coefficients, limits)
    used = frozenset[str]().union(*(space.dims for space in dataspaces))
    idle = [dim for dim in shape.dims if dim not in used and bounds[dim] > 1]
    if idle:
        sentence = "no dataspace is indexed by dimension {}: its loops only repeat the work"
        notes.append(note_at(None, sentence, listing(idle)))
    name = _problem_name(section, instance, shape)
    problem = Problem(name, tuple(shape.dims), tuple(bounds.values()), dataspaces)
    check_problem(problem, limits, instance.span)
    understood = with_entry(section, "shape", written)
    understood = with_entry(understood, "instance", _respelt_instance(instance, fields))
    return LoadedProblem(problem, spans, tuple(notes), tuple(instance.keys()), understood)


def _problem_name(section: MappingNode, instance: MappingNode, shape: _Shape) -> str:
    for holder in (instance, section):
        given = holder.get("name")
        if given is not None and "name" not in shape.dims:
            return as_name(given, "`name`")
    return shape.name or Path(instance.span.file).stem


def _shape_node(node: Node, find_shape: ShapeLookup) -> MappingNode:
    """Return the shape that stands in the section, or that it names."""
    if isinstance(node, ScalarNode):
        return find_shape(as_name(node, "`shape`"), node.span)
    return as_mapping(node, "`shape`")


def _read_shape(shape: MappingNode, limits: Limits) -> _Shape:
    own_spaces = next((key for key in _SPACES if key in shape), _SPACES[0])
    check_keys(shape, _SHAPE_KEYS, "`shape`", ("dimensions", own_spaces))
    check_version(shape)
    dims: dict[str, Span] = {}
    dimensions = as_sequence(shape.require("dimensions", "`shape`"), "`dimensions`")
    check_count(dimensions.items, limits.dimensions, "dimensions", dimensions.span)
    for item in dimensions.items:
        dim = _identifier(item, "dimension")
        if dim in dims:
            raise SpecError(f"two dimensions are named `{dim}`", item.span, ((dims[dim], "the first"),))
        dims[dim] = item.span
    if not dims:
        raise SpecError("`dimensions` must not be empty", shape.key("dimensions").span)
    dataspaces = one_of(shape, _SPACES, "`shape`")
    if dataspaces is None:
        raise SpecError(f"`shape` lacks the key `{_SPACES[0]}`", shape.span)
    name = shape.get("name")
    return _Shape(
        name="" if name is None or _is_blank(name) else as_name(name, "`name`"),
        dims=dims,
        coefficients=_declared_coefficients(shape.get("coefficients"), dims),
        dataspaces=dataspaces[1],
    )


def _is_blank(node: Node) -> bool:
    """Whether a shape's name is the empty text that stands for no name."""
    return isinstance(node, ScalarNode) and not node.text.strip()


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
        entry = as_mapping(item, "a coefficient")
        check_keys(entry, ("name", "default"), "a coefficient", ("name",))
        name_node = entry.require("name", "a coefficient")
        name = _identifier(name_node, "coefficient")
        other = dims.get(name) or (declared[name][0] if name in declared else None)
        if other is not None:
            related = ((other, "the other one"),)
            raise SpecError(f"coefficient `{name}` has a name that is taken", name_node.span, related)
        default = entry.get("default")
        number = None if default is None else as_int(default, f"default of `{name}`", minimum=1)
        declared[name] = (name_node.span, number)
    return declared


def _instance(section: MappingNode) -> MappingNode:
    node = section.require("instance", "`problem`")
    if isinstance(node, ScalarNode) and "<" in node.text:
        hint = "write `{DIMENSION: BOUND}`; cascades with such conditions are read as AccelForge workloads"
        raise SpecError("`instance` has conditions, as LoopTree's has", node.span, hint=hint)
    return as_mapping(node, "`instance`")


def _bounds(section: MappingNode) -> dict[str, str]:
    """Return the keys of what may be bounds, which older versions had in the section itself."""
    scalars = [(key.text, value) for key, value in section.entries if isinstance(value, ScalarNode)]
    return {key: "instance" for key, value in scalars if type(value.value) is int}


def _instance_fields(
    instance: MappingNode, shape: _Shape, ignore_sparse: bool, notes: list[Note]
) -> dict[str, Node]:
    """Return the instance's values by dimension or coefficient, spelling mended where that is safe."""
    known = (*shape.dims, *shape.coefficients)
    fields = {key.text: value for key, value in instance.entries if key.text in known}
    others = [(k, value) for k, value in instance.entries if k.text not in (*known, "name", "version")]
    derived = [key.text for key, _ in others if key.text in DERIVED_KEYS]
    respelt: dict[str, ScalarNode] = {}
    for key, value in others:
        if key.text in SPARSE_KEYS:
            check_density(key, value, ignore_sparse, notes.append)
        if key.text in (*SPARSE_KEYS, *DERIVED_KEYS):
            continue
        name = _respelt(key, shape, instance)
        if name in respelt:
            related = ((respelt[name].span, "the first"),)
            raise SpecError(f"`{key.text}` is a second spelling of `{name}`", key.span, related)
        notes.append(_respelling_note(key, name, fields[name]))
        respelt[name] = key
        fields[name] = value
    if derived:
        sentence = "instance {} not part of the shape: {} from the others, unused"
        follow = "it follows" if len(derived) == 1 else "they follow"
        notes.append(note_at(None, sentence, _keys(derived), follow))
    return fields


def _respelt_instance(instance: MappingNode, fields: dict[str, Node]) -> MappingNode:
    """Return the instance with the values that count, and without the spellings that were mended."""
    kept = (*fields, *SPARSE_KEYS, *DERIVED_KEYS, "name", "version")
    entries = [(key, fields.get(key.text, value)) for key, value in instance.entries if key.text in kept]
    return MappingNode(tuple(entries), instance.span, instance.tag)


def _respelling_note(key: ScalarNode, name: str, default: Node) -> Note:
    value = as_scalar(default, f"`{name}`").text
    sentence = (
        "`{0}` is read as `{1}`, in place of the default {2} that was merged in; "
        "Timeloop reads no `{0}` and evaluates {1} {2}"
    )
    return note_at(key.span, sentence, key.text, name, value)


def _keys(names: list[str]) -> str:
    return f"key {listing(names)} is" if len(names) == 1 else f"keys {listing(names)} are"


def _respelt(key: ScalarNode, shape: _Shape, instance: MappingNode) -> str:
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


def _coefficients(
    shape: _Shape, fields: dict[str, Node], instance: MappingNode, names: Names
) -> dict[str, int]:
    values: dict[str, int] = {}
    for name, (span, default) in shape.coefficients.items():
        if name in fields:
            values[name] = as_int(fields[name], f"coefficient `{name}`", names, minimum=1)
        elif default is not None:
            values[name] = default
        else:
            related = ((span, "it has no default"),)
            raise SpecError(f"`instance` lacks coefficient `{name}`", instance.span, related)
    return values


def _read_dataspaces(shape: _Shape, coefficients: dict[str, int], limits: Limits) -> tuple[Dataspace, ...]:
    node = as_sequence(shape.dataspaces, "`data-spaces`")
    check_count(node.items, limits.dimensions, "dataspaces", node.span)
    found: dict[str, Dataspace] = {}
    places: dict[str, Span] = {}
    for item in node.items:
        entry = as_mapping(item, "a dataspace")
        check_keys(entry, _DATASPACE_KEYS, "a dataspace", ("name", "projection"))
        name_node = entry.require("name", "a dataspace")
        name = _identifier(name_node, "dataspace")
        if name in found:
            related = ((places[name], "the first"),)
            raise SpecError(f"two dataspaces are named `{name}`", name_node.span, related)
        projection = as_sequence(entry.require("projection", f"dataspace `{name}`"), "`projection`")
        check_count(projection.items, limits.dimensions, f"ranks of `{name}`", projection.span)
        flag = one_of(entry, _READ_WRITE, "a dataspace")
        found[name] = Dataspace(
            name=name,
            ranks=tuple(_read_rank(rank, shape, coefficients) for rank in projection.items),
            read_write=flag is not None and as_bool(flag[1], f"`{flag[0].text}`"),
        )
        places[name] = name_node.span
    if not any(space.read_write for space in found.values()):
        raise SpecError("no dataspace is `read_write: true`, so nothing is computed", node.span)
    return tuple(found.values())


def _read_rank(node: Node, shape: _Shape, coefficients: dict[str, int]) -> tuple[Term, ...]:
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
        terms[dim] = terms.get(dim, 0) + factor
    if not terms:
        raise SpecError("a rank needs at least one term", node.span)
    return tuple(Term(dim, factor) for dim, factor in terms.items())


def _read_coefficient(term: SequenceNode, dim: str, shape: _Shape, coefficients: dict[str, int]) -> int:
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
        raise SpecError(f"`{node.text}` is a dimension, no coefficient", node.span, hint=hint)
    return coefficients[known_name(node, coefficients, "coefficient")]
