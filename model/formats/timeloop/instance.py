"""The ``instance`` of a problem: bounds and coefficients for what its shape declares, spellings mended."""

from __future__ import annotations

from dataclasses import dataclass

from model.formats.sparsity import check_density
from model.note import Note
from model.text.fields import Names, as_int, as_mapping, as_scalar
from model.text.notes import note_at
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError, did_you_mean
from model.wording import listing

# Far above any layer, low enough that the divisors of a bound are found at once.
MAX_BOUND = 2**31 - 1

# Instance keys of real files that follow from the others, so that nothing reads them.
DERIVED_KEYS = ("H", "W", "Hpad", "Wpad", "H_pad", "W_pad")
SPARSE_KEYS = ("densities", "density", "commonDensity", "common_density")


@dataclass(frozen=True)
class Shape:
    """A shape as it is written.

    Parameters
    ----------
    name
        Empty if it has none.
    dims
        Where each dimension is declared.
    coefficients
        Where each coefficient is declared, and its default, None if it has none.
    dataspaces
        The list of its dataspaces.
    """

    name: str
    dims: dict[str, Span]
    coefficients: dict[str, tuple[Span, int | None]]
    dataspaces: Node


def read_instance(section: MappingNode) -> MappingNode:
    """Return the instance of a problem's section.

    Raises
    ------
    SpecError
        It is missing, or not a mapping.
    """
    node = section.require("instance", "`problem`")
    if isinstance(node, ScalarNode) and "<" in node.text:
        hint = "write `{DIMENSION: BOUND}`; cascades with such conditions are read as AccelForge workloads"
        raise SpecError("`instance` has conditions, as LoopTree's has", node.span, hint=hint)
    return as_mapping(node, "`instance`")


def instance_fields(
    instance: MappingNode, shape: Shape, ignore_sparse: bool, notes: list[Note]
) -> dict[str, Node]:
    """Return the instance's values by dimension or coefficient, spelling mended where that is safe.

    Raises
    ------
    SpecError
        A key that is not known, or given twice; a density, unless it is left out.
    """
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


def respelt_instance(instance: MappingNode, fields: dict[str, Node]) -> MappingNode:
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


def _respelt(key: ScalarNode, shape: Shape, instance: MappingNode) -> str:
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


def read_coefficients(
    shape: Shape, fields: dict[str, Node], instance: MappingNode, names: Names
) -> dict[str, int]:
    """Return the coefficients by name, from the instance or their defaults.

    Raises
    ------
    SpecError
        A coefficient has neither a value nor a default.
    """
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


def read_bounds(shape: Shape, fields: dict[str, Node], instance: MappingNode, names: Names) -> dict[str, int]:
    """Return the bounds by dimension; parameters as of `read_coefficients`.

    Raises
    ------
    SpecError
        A dimension has no bound, or one out of range.
    """
    bounds: dict[str, int] = {}
    for dim, span in shape.dims.items():
        if dim not in fields:
            related = ((span, "the dimension is declared here"),)
            raise SpecError(f"`instance` lacks a bound for dimension `{dim}`", instance.span, related)
        bounds[dim] = as_int(fields[dim], f"bound of dimension `{dim}`", names, 1, MAX_BOUND)
    return bounds
