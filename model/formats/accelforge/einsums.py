"""Einsums as they are written: strings such as ``Z[m, n] = A[m, k] * B[k, n]``, and dictionaries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from model.formats.accelforge.affine import Affine, read_affine
from model.text.expressions import part_of
from model.text.fields import (
    IDENTIFIER_HINT,
    add_once,
    as_bool,
    as_mapping,
    as_name,
    as_scalar,
    as_sequence,
    check_keys,
    flat_items,
    given,
    keyed_mapping,
    kind_of,
)
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.workload import MOST_EINSUMS


@contextmanager
def within(einsum: str | None) -> Iterator[None]:
    """Name the Einsum in errors that are met inside, but for those that name it themselves."""
    try:
        yield
    except SpecError as error:
        if einsum is None or ("Einsum" in error.message and f"`{einsum}`" in error.message):
            raise
        message = f"Einsum `{einsum}`: {error.message}"
        raise type(error)(message, error.span, error.related, error.hint) from None


SHAPE_KEYS = ("iteration_space_shape", "shape")
"""Where conditions stand: the key, and its older name."""

ACCESS_DENSITY_KEYS = ("density", "density_distribution")
ACCESS_KEYS = (
    "name",
    "projection",
    "output",
    "bits_per_value",
    "persistent",
    "backing_storage_size_scale",
    *ACCESS_DENSITY_KEYS,
)
OPERATION_KEYS = ("map_op", "reduce_op")
COPY_KEY = "is_copy_operation"
EINSUM_KEYS = (
    "name",
    "einsum",
    "tensor_accesses",
    COPY_KEY,
    *SHAPE_KEYS,
    "rank_sizes",
    "n_instances",
    "renames",
    *OPERATION_KEYS,
)

_TENSOR = re.compile(r"([A-Za-z_]\w*)\[([^\]]*)\]")
_BRACKET = re.compile(r"[\[\]{}]")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?=\s*(\()?)")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_RANK = re.compile(r"[A-Z]\w*\Z")
_RANK_VARIABLE = re.compile(r"[a-z_]\w*\Z")


@dataclass(frozen=True)
class WrittenIndex:
    """One rank of an access: its name, its index expression, and their place."""

    rank: str
    affine: Affine
    span: Span


@dataclass(frozen=True)
class WrittenAccess:
    """A tensor access."""

    tensor: str
    span: Span
    indices: tuple[WrittenIndex, ...]  # one per rank, no rank twice; none for a single value
    output: bool
    attributes: MappingNode | None = None

    @property
    def rank_variables(self) -> frozenset[str]:
        """The rank variables that index the tensor."""
        return frozenset(name for index in self.indices for name in index.affine.coefficients)

    def get(self, key: str) -> Node | None:
        """Return an attribute of the access, None where it is not given."""
        return None if self.attributes is None else given(self.attributes, key)


@dataclass(frozen=True)
class BareWord:
    """A word between the tensors of a string."""

    name: str  # of a function, a constant, or a tensor that lacks its indices
    span: Span
    is_called: bool  # whether a parenthesis follows


@dataclass(frozen=True)
class WrittenEinsum:
    """An Einsum as it is written."""

    name: str  # by default that of its output
    span: Span
    # At least one output; an input may appear several times.
    accesses: tuple[WrittenAccess, ...]
    node: MappingNode | None = None  # its other attributes, None for a bare string
    words: tuple[BareWord, ...] = ()  # what stands between the tensors of a string
    rank_variables: tuple[str, ...] = field(init=False)  # in the order of their first use

    def __post_init__(self) -> None:
        """Collect the rank variables in the order of their first use."""
        names = (
            name for access in self.accesses for index in access.indices for name in index.affine.coefficients
        )
        object.__setattr__(self, "rank_variables", tuple(dict.fromkeys(names)))

    def get(self, key: str) -> Node | None:
        """Return an attribute of the Einsum, None where it is not given."""
        return None if self.node is None else given(self.node, key)


def check_einsums(node: Node) -> None:
    """Check that a list has no more Einsums than are mapped, before any of them is read."""
    items = list(islice(flat_items(as_sequence(node, "`einsums`").items), MOST_EINSUMS + 1))
    if len(items) > MOST_EINSUMS:
        raise SpecError(f"more than {MOST_EINSUMS:,} Einsums, the most that are mapped", items[-1].span)


def read_einsums(node: Node) -> tuple[WrittenEinsum, ...]:
    """Read a list of Einsums."""
    einsums: list[WrittenEinsum] = []
    places: dict[str, Span] = {}
    check_einsums(node)
    for item in flat_items(as_sequence(node, "`einsums`").items):
        label = _seeming_name(item)
        with within(label):
            einsum = _read_einsum(item, "an Einsum" if label is None else f"Einsum `{label}`")
        add_once(places, einsum.name, einsum.span, f"two Einsums are named `{einsum.name}`")
        einsums.append(einsum)
    if not einsums:
        raise SpecError("`einsums` must not be empty", node.span)
    return tuple(einsums)


def _seeming_name(node: Node) -> str | None:
    """Return the name that an Einsum seems to have, before anything of it is checked."""
    name = given(node, "name") if isinstance(node, MappingNode) else None
    text = given(node, "einsum") if isinstance(node, MappingNode) else node
    if isinstance(name, ScalarNode):
        return name.text
    output = _TENSOR.match(text.text.lstrip()) if isinstance(text, ScalarNode) else None
    return None if output is None else output.group(1)


def _read_einsum(node: Node, what: str) -> WrittenEinsum:
    if isinstance(node, ScalarNode):
        accesses, bare = _read_text(node)
        output = accesses[-1]
        _check_accesses(output.tensor, output.span, accesses)
        return WrittenEinsum(output.tensor, output.span, accesses, words=bare)
    entry = as_mapping(node, "an Einsum")
    _refuse_split_text(entry)
    check_keys(entry, EINSUM_KEYS, what)
    listed, text, name = (given(entry, key) for key in ("tensor_accesses", "einsum", "name"))
    words: tuple[BareWord, ...] = ()
    if text is not None:
        accesses, words = _read_text(as_scalar(text, "`einsum`"))
        if listed is not None:
            accesses = _with_attributes(accesses, as_sequence(listed, "`tensor_accesses`"))
    elif listed is not None:
        accesses = tuple(_read_access(item) for item in as_sequence(listed, "`tensor_accesses`").items)
    else:
        raise SpecError("an Einsum needs `einsum` or `tensor_accesses`", entry.span)
    if name is None and text is None:
        raise SpecError("an Einsum with `tensor_accesses` needs a `name`", entry.span)
    label = accesses[-1].tensor if name is None else as_name(name, "`name` of an Einsum")
    place = accesses[-1].span if name is None else name.span
    _check_accesses(label, place, accesses)
    return WrittenEinsum(label, place, accesses, entry, words)


def _refuse_split_text(entry: MappingNode) -> None:
    """Raise a SpecError for an Einsum without quotes that a colon makes a mapping for YAML."""
    for key, _ in entry.entries:
        if not key.quoted and "[" in key.text:
            message = f"`{key.text}` is read as a key: the Einsum has `: ` and no quotes"
            raise SpecError(message, key.span, hint='write the whole Einsum in quotes: "Z[m] = A[M: m]"')


def _check_accesses(name: str, place: Span, accesses: tuple[WrittenAccess, ...]) -> None:
    outputs = {access.tensor: access for access in accesses if access.output}
    if not outputs:
        message = f"Einsum `{name}` writes no tensor"
        raise SpecError(message, place, hint="mark one of its tensor_accesses with `output: True`")
    if len(outputs) < sum(access.output for access in accesses):
        raise SpecError(f"Einsum `{name}` writes one tensor twice", place)
    for access in accesses:
        if not access.output and access.tensor in outputs:
            message = f"cyclic dependency: Einsum `{name}` reads `{access.tensor}`, which it writes"
            raise SpecError(message, access.span, ((outputs[access.tensor].span, "written here"),))


def _read_text(node: ScalarNode) -> tuple[tuple[WrittenAccess, ...], tuple[BareWord, ...]]:
    """Return the accesses of a string, the right side's in reading order, then the output; and its words."""
    text = node.text
    output_text, equals, _ = text.partition("=")
    rest = _TENSOR.sub(lambda found: " " * len(found.group()), text)
    if rest.count("=") != 1 or not equals:
        second = rest.find("=", rest.find("=") + 1)
        place = node.span if second < 0 else part_of(node.span, text, second)
        message = "an Einsum is written `OUTPUT[...] = INPUT[...] * ...`, with one `=`"
        raise SpecError(message, place)
    stray = _BRACKET.search(rest)
    if stray:
        hint = "a bracket must directly follow the name of its tensor, as in `A[m, k]`"
        place = part_of(node.span, text, stray.start())
        raise SpecError(f"`{stray.group()}` does not belong to a tensor", place, hint=hint)
    outputs = list(_TENSOR.finditer(output_text))
    if len(outputs) != 1 or rest[: len(output_text)].strip():
        place = part_of(node.span, text, 0, len(output_text.rstrip()))
        raise SpecError("on the left of `=` there must be one tensor, as in `Z[m, n]`", place)
    accesses = [_text_access(found, node, output=False) for found in _TENSOR.finditer(text, len(output_text))]
    if not accesses:
        place = part_of(node.span, text, len(output_text) + 1, len(text))
        raise SpecError("on the right of `=` there must be a tensor, as in `A[m, k]`", place)
    words = tuple(
        BareWord(
            name=found.group(),
            span=part_of(node.span, text, *found.span()) or node.span,
            is_called=found.group(1) is not None,
        )
        for found in _WORD.finditer(rest)
    )
    return (*accesses, _text_access(outputs[0], node, output=True)), words


def _text_access(match: re.Match[str], node: ScalarNode, output: bool) -> WrittenAccess:
    place = part_of(node.span, node.text, *match.span(1)) or node.span
    inner = match.group(2)
    indices: dict[str, WrittenIndex] = {}
    start = match.start(2)
    for entry in inner.split(",") if inner.strip() else ():
        word = entry.strip()
        first = start + len(entry) - len(entry.lstrip())
        span = part_of(node.span, node.text, first, first + max(len(word), 1)) or node.span
        _add_index(indices, _text_index(word, span, (node, first)))
        start += len(entry) + 1
    return WrittenAccess(match.group(1), place, tuple(indices.values()), output)


def _text_index(word: str, span: Span, at: tuple[ScalarNode, int]) -> WrittenIndex:
    """Read ``m`` or ``RANK: expression``."""
    if not word:
        raise SpecError("an index is missing here", span)
    rank, colon, expression = word.partition(":")
    if not colon:
        return _variable_index(word, span)
    node, first = at
    start = first + len(rank) + 1 + len(expression) - len(expression.lstrip())
    place = part_of(node.span, node.text, start, start + max(len(expression.strip()), 1)) or span
    return _rank_index(rank.strip(), span, expression.strip(), place)


def _variable_index(name: str, span: Span) -> WrittenIndex:
    """Return the index of a rank named like its rank variable, in upper case."""
    if not _RANK_VARIABLE.match(name):
        hint = "rank variables begin with a lower-case letter; an expression is written `RANK: expression`"
        raise SpecError(f"`{name}` is not a rank variable", span, hint=hint)
    return WrittenIndex(name.upper(), Affine(0, {name: 1}), span)


def _rank_index(rank: str, span: Span, expression: str, place: Span) -> WrittenIndex:
    if not _RANK.match(rank):
        hint = "ranks begin with an upper-case letter"
        raise SpecError(f"`{rank}` is not the name of a rank", span, hint=hint)
    affine = read_affine(expression, place)
    for name in affine.coefficients:
        if not _RANK_VARIABLE.match(name):
            hint = "rank variables begin with a lower-case letter"
            raise SpecError(f"`{name}` is not a rank variable", place, hint=hint)
    return WrittenIndex(rank, affine, place)


def _add_index(indices: dict[str, WrittenIndex], index: WrittenIndex) -> None:
    if index.rank in indices:
        related = ((indices[index.rank].span, "the first"),)
        raise SpecError(f"rank `{index.rank}` is indexed twice in one access", index.span, related)
    indices[index.rank] = index


def _read_access(node: Node) -> WrittenAccess:
    entry, name, span = _access_entry(node)
    if not _NAME.match(name):
        raise SpecError(f"`{name}` cannot name a tensor", span, hint=IDENTIFIER_HINT)
    output = given(entry, "output")
    return WrittenAccess(
        tensor=name,
        span=span,
        indices=_read_projection(entry.require("projection", f"tensor access `{name}`")),
        output=output is not None and as_bool(output, "`output`"),
        attributes=entry,
    )


def _access_entry(node: Node) -> tuple[MappingNode, str, Span]:
    """Return an item of ``tensor_accesses``, and the tensor's name with its place."""
    entry = keyed_mapping(node, "a tensor access", ACCESS_KEYS, ("name", "projection"))
    name = entry.require("name", "a tensor access")
    return entry, as_name(name, "`name` of a tensor"), name.span


def _read_projection(node: Node) -> tuple[WrittenIndex, ...]:
    if isinstance(node, ScalarNode):
        raise SpecError(f"`projection` must be a list or a mapping, but is {kind_of(node)}", node.span)
    indices: dict[str, WrittenIndex] = {}
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        for index in _read_indices(item):
            _add_index(indices, index)
    return tuple(indices.values())


def _read_indices(item: Node) -> Iterator[WrittenIndex]:
    if not isinstance(item, MappingNode):
        yield _variable_index(as_name(item, "a rank variable"), item.span)
        return
    for key, value in item.entries:
        scalar = as_scalar(value, f"the index into rank `{key.text}`")
        yield _rank_index(key.text, key.span, scalar.text, scalar.span)


def _with_attributes(accesses: tuple[WrittenAccess, ...], listed: SequenceNode) -> tuple[WrittenAccess, ...]:
    """Return the accesses of a string with the attributes that a list of them adds."""
    attributes: dict[str, MappingNode] = {}
    for item in listed.items:
        entry, name, span = _access_entry(item)
        if all(access.tensor != name for access in accesses):
            raise SpecError(f"`{name}` is not a tensor of this Einsum", span)
        given_twice = next((key for key in ("projection", "output") if key in entry), None)
        if given_twice is not None:
            message = f"`{given_twice}` of `{name}` is already given by `einsum`"
            raise SpecError(message, entry.key(given_twice).span)
        if name in attributes:
            related = ((attributes[name].span, "the first"),)
            raise SpecError(f"tensor `{name}` is listed twice", span, related)
        attributes[name] = entry
    return tuple(
        WrittenAccess(a.tensor, a.span, a.indices, a.output, attributes.get(a.tensor)) for a in accesses
    )


@dataclass(frozen=True)
class WrittenCascade:
    """All Einsums of a workload as they are written."""

    einsums: Sequence[WrittenEinsum]

    @cached_property
    def tensors(self) -> dict[str, Span]:
        """All tensors, with the place where each is first accessed."""
        places: dict[str, Span] = {}
        for einsum in self.einsums:
            for access in einsum.accesses:
                places.setdefault(access.tensor, access.span)
        return places

    @cached_property
    def rank_variables(self) -> frozenset[str]:
        """All rank variables."""
        return frozenset(name for einsum in self.einsums for name in einsum.rank_variables)

    @cached_property
    def ranks(self) -> frozenset[str]:
        """The ranks of all tensors."""
        accesses = (access for einsum in self.einsums for access in einsum.accesses)
        return frozenset(index.rank for access in accesses for index in access.indices)

    @cached_property
    def intermediates(self) -> frozenset[str]:
        """Tensors that some Einsum writes and some Einsum reads."""
        accesses = [access for einsum in self.einsums for access in einsum.accesses]
        written = frozenset(access.tensor for access in accesses if access.output)
        return written & frozenset(access.tensor for access in accesses if not access.output)

    @cached_property
    def fed(self) -> frozenset[str]:
        """Tensors that look like intermediates of a larger workload, of which these Einsums are a part.

        No Einsum writes them, and they have a rank that all written tensors have: what runs through
        a network keeps its batch or its tokens, which weights do not have.
        """
        accesses = [access for einsum in self.einsums for access in einsum.accesses]
        ranks = {a.tensor: frozenset(index.rank for index in a.indices) for a in accesses}
        written = {access.tensor for access in accesses if access.output}
        carried = frozenset.intersection(*(ranks[tensor] for tensor in written))
        return frozenset(tensor for tensor in ranks.keys() - written if ranks[tensor] & carried)

    @cached_property
    def shared(self) -> frozenset[str]:
        """Tensors that more than one Einsum accesses."""
        users = Counter(name for e in self.einsums for name in {access.tensor for access in e.accesses})
        return frozenset(name for name, count in users.items() if count > 1)
