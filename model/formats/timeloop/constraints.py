"""Constraints as they are written: on nodes or in lists of targets, with their factors and loop orders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from model.formats.timeloop.context import Context
from model.formats.timeloop.document import read_section, without
from model.formats.timeloop.tree import ArchLeaf
from model.mapspace import FactorRule, Relation
from model.text.expressions import evaluate_expression
from model.text.fields import (
    Names,
    add_once,
    as_int,
    as_mapping,
    as_name,
    as_scalar,
    as_sequence,
    check_keys,
    given,
    is_blank,
    kind_of,
    name_list,
    one_of,
)
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, source_ref
from model.wording import listing, suggestion

_OPERATOR = re.compile(r" ?(<=|>=|==|=|<|>) ?")
_ANY = -1
_FORMS = "write `P=4`, `P<=4` or `P>=4`, in a list, a mapping `{P: 4}` or a text `P=4, Q=2`"


@dataclass(frozen=True, slots=True)
class WrittenFactor:
    """One factor rule and where it was written."""

    dim: str
    # What its loop's bound at the node is compared with; the value is at least 1
    relation: Relation
    value: int
    span: Span
    default: bool = False  # whether it is there for all dimensions without one
    free: bool = False  # whether it says that there is no rule; relation and value mean nothing then
    remainder: int | None = None  # iterations in the last pass, where a mapping says so

    def rule(self) -> FactorRule:
        """Return the rule of the canonical problem."""
        return FactorRule(self.dim, self.relation, self.value, source_ref(self.span))

    def __str__(self) -> str:
        remainder = "" if self.remainder is None else f",{self.remainder}"
        return f"{self.dim}{self.relation}{self.value}{remainder}"


def read_factors(node: Node, context: Context, names: Names) -> tuple[WrittenFactor, ...]:
    """Read factors in any of their forms; a value of 0 means the full bound, one of -1 any factor."""
    factors = (
        _checked(_spelt_out(text, part, names), part, context, names) for text, part in factor_texts(node)
    )
    return tuple(factor for factor in factors if factor is not None)


def _spelt_out(text: str, node: Node, names: Names) -> str:
    if not text.startswith("("):
        return text
    value = evaluate_expression(ScalarNode(text, text, False, node.span), names)
    if not isinstance(value, str):
        raise SpecError(f"`{text}` is {value}, not the text of a factor", node.span, hint=_FORMS)
    return value


def factor_texts(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the factors of a list, a mapping or a text as texts, each with its node."""
    if isinstance(node, MappingNode):
        for key, value in node.entries:
            text = as_scalar(value, f"factor of `{key.text}`").text.strip()
            yield (f"{key.text}{text}" if text[:1] in "<>=" else f"{key.text}={text}"), value
        return
    if isinstance(node, SequenceNode):
        yield from _with_remainders([(_factor_text(item), item) for item in node.items])
        return
    if node.value is None:
        return
    # Spaces around an operator belong to the factor; all others separate factors.
    yield from _with_remainders([(text, node) for text in separated(_close(node.text))])


def separated(text: str) -> list[str]:
    """Return the words of a text, between which there are commas or spaces."""
    return [word for word in re.split(r"[,\s]+", text) if word]


def _with_remainders(parts: Sequence[tuple[str, Node]]) -> Iterator[tuple[str, Node]]:
    """Yield factors, with a bare number joined to the one before: ``P=4,3`` is a factor and its remainder."""
    found: list[tuple[str, Node]] = []
    for text, node in parts:
        if text.isdecimal() and found and "," not in found[-1][0]:
            found[-1] = f"{found[-1][0]},{text}", found[-1][1]
        else:
            found.append((text, node))
    yield from found


def _close(text: str) -> str:
    """Return a text without spaces around the operators of factors."""
    return _OPERATOR.sub(lambda match: match.group(1), " ".join(text.split()))


def split_factor(text: str) -> tuple[str, str, str]:
    """Split ``P<=4`` or ``P4`` into name, operator and value; what is missing is empty."""
    match = _OPERATOR.search(text)
    if match:
        return text[: match.start()].strip(), match.group(1), text[match.end() :].strip()
    name = text.rstrip("0123456789")
    return name, "", text[len(name) :]


def _factor_text(item: Node) -> str:
    """Return a factor of a list as one text; it may be a list of parts, such as ``[P, "=", WIDTH]``."""
    parts = item.items if isinstance(item, SequenceNode) else (item,)
    texts = [part.text.strip() for part in parts if isinstance(part, ScalarNode)]
    if not texts or len(texts) < len(parts):
        raise SpecError(f"a factor must be text, but is {kind_of(item)}", item.span, hint=_FORMS)
    return "".join(texts)


def _checked(text: str, node: Node, context: Context, names: Names) -> WrittenFactor | None:
    """Return a factor, None for one of a dimension that the problem lacks, and that asks for no loop."""
    text, remainder = _split_remainder(text, node)
    _refuse_several(text, node)
    dim, operator, value_text = _split_factor(text, node, context.problem.dims)
    if operator in ("<", ">"):
        hint = f"`{operator}` is silently ignored by Timeloop; write `{dim}{operator}={value_text}` or so"
        raise SpecError(f"`{text}`: strict bounds on factors are not supported", node.span, hint=hint)
    value = _value(value_text, text, node, names)
    relation: Relation = "<=" if operator == "<=" else ">=" if operator == ">=" else "="
    if not context.is_dimension(dim, node.span, asks_for_loop=relation != "<=" and value > 1):
        return None
    if relation == "=" and value == _ANY:
        return WrittenFactor(dim, "=", 1, node.span, free=True)
    if relation == "=" and value == 0:
        value = context.problem.bound[dim]
    if value < 1:
        raise SpecError(f"`{text}`: a factor is at least 1", node.span)
    return WrittenFactor(dim, relation, value, node.span, remainder=remainder)


def _split_remainder(text: str, node: Node) -> tuple[str, int | None]:
    """Split ``P=4,3`` into its factor and its remainder."""
    factor, comma, remainder = text.rpartition(",")
    if not comma or not re.fullmatch(r"[^,\s]*[\w)]", factor.strip()) or not remainder.strip().isdecimal():
        return text, None
    value = as_int(ScalarNode(remainder.strip(), remainder.strip(), False, node.span), "the remainder", {})
    if value < 1:
        raise SpecError(f"`{text}`: a remainder is at least 1", node.span)
    return factor.strip(), value


def _refuse_several(text: str, node: Node) -> None:
    """Raise a SpecError for one item of a list that holds several factors, such as ``R=1 S=1``."""
    factors = separated(_close(text))
    if len(factors) > 1 and all(
        re.fullmatch(r"[A-Za-z_]\w*(?:(?:<=|>=|==?)\w+|(?<=\d))", part) for part in factors
    ):
        hint = f"write `[{', '.join(factors)}]`, with a comma between the items"
        raise SpecError(f"`{text}` is {len(factors)} factors in one item", node.span, hint=hint)


def _split_factor(text: str, node: Node, dims: Sequence[str]) -> tuple[str, str, str]:
    """Split ``P<=4`` or ``P4`` into dimension, operator and value."""
    name, operator, value = split_factor(text)
    if operator:
        if not name.isidentifier():
            raise SpecError(f"`{name}` is not a dimension", node.span, hint=_FORMS)
        return name, operator, value
    if value and not name:
        raise SpecError(f"`{text}` names no dimension", node.span, hint=_FORMS)
    fits = [dim for dim in dims if text.startswith(dim) and re.fullmatch(r"\d+", text[len(dim) :])]
    if len(fits) > 1:
        message = f"`{text}` can be a factor of {listing(fits)}"
        raise SpecError(message, node.span, hint="put `=` between dimension and factor")
    if fits:
        return fits[0], "=", text[len(fits[0]) :]
    if value and name.isidentifier():
        return name, "=", value
    raise SpecError(f"`{text}` is not a factor", node.span, hint=_FORMS)


def _value(value_text: str, text: str, node: Node, names: Names) -> int:
    if not value_text or value_text.endswith(";"):
        raise SpecError(f"`{text}` is not a factor", node.span, hint=_FORMS)
    written = ScalarNode(value_text, value_text, False, node.span)
    return as_int(written, f"the factor of `{text}`", names)


@dataclass(frozen=True)
class Permutation:
    """An order of dimensions, innermost first."""

    inner: tuple[str, ...]
    # The outermost dimensions, in order, the last one being the outermost loop; those in neither list lie
    # between
    outer: tuple[str, ...]
    span: Span
    # Places that dimensions have in the full order which the problem lacks: `split` counts them
    lacking: tuple[int, ...] = ()

    @property
    def listed(self) -> tuple[str, ...]:
        """All dimensions that it names."""
        return (*self.inner, *self.outer)


def read_permutation(node: Node, context: Context) -> Permutation:
    """Read a permutation: ``[R, S, P]``, ``RSP``, ``R,S,P``, ``R S P``, ``RS P`` or ``RS_P``.

    In a text each character names a dimension, unless what separators part does; ``_`` parts the
    innermost dimensions from the outermost ones.
    """
    known = context.problem.dims
    if isinstance(node, SequenceNode):
        parts = _part(list(node.items))
    else:
        parts = _split_text(as_scalar(node, "`permutation`"), known)
    named = [[(as_name(item, "dimension"), item) for item in part] for part in parts]
    _check_once([pair for part in named for pair in part])
    inner, outer = ([(name, context.is_dimension(name, item.span)) for name, item in part] for part in named)
    written = (*inner, *[("", True)] * (len(known) - sum(has for _, has in (*inner, *outer))), *outer)
    return Permutation(
        tuple(name for name, has in inner if has),
        tuple(name for name, has in outer if has),
        node.span,
        tuple(place for place, (_, has) in enumerate(written) if not has),
    )


def _part(items: list[Node]) -> tuple[list[Node], list[Node]]:
    """Part a list at its first entry ``_``, if there is one; further ones mean nothing."""
    parting = [place for place, item in enumerate(items) if isinstance(item, ScalarNode) and item.text == "_"]
    if not parting:
        return items, []
    outer = [item for place, item in enumerate(items) if place > parting[0] and place not in parting]
    return items[: parting[0]], outer


def order_words(text: str, known: Iterable[str]) -> list[str]:
    """Return the words of a permutation that is a text; only one, of letters, if nothing parts names in it.

    Among names of single letters blanks mean nothing, as in Timeloop: ``RS PQ`` is ``RSPQ``.
    """
    words = separated(text)
    has_names = "," in text or any(len(name) > 1 for name in known)
    return words if has_names or all(len(word) == 1 for word in words) else ["".join(words)]


def _split_text(node: ScalarNode, known: tuple[str, ...]) -> tuple[list[Node], list[Node]]:
    text = node.text.strip()
    words = order_words(text, known)
    if len(words) > 1 or "," in text:
        return _part([_word(word, node) for word in words])
    text = "".join(words)
    characters = list(text)
    if text in known and len(text) > 1:
        if all(character in known for character in characters):
            hint = "write it as a list"
            message = f"permutation `{text}` can be one dimension or {listing(characters)}"
            raise SpecError(message, node.span, hint=hint)
        return [node], []
    stray = next((c for c in characters if c not in known and c != "_" and not c.isupper()), None)
    if len(text) > 1 and (stray or not set(characters).intersection(known)):
        stray = stray or characters[0]
        hint = f"the problem has {listing(known)}; names of several letters need a list or commas"
        raise SpecError(f"unknown dimension `{stray}` in permutation `{text}`", node.span, hint=hint)
    return _part([_word(character, node) for character in characters])


def _word(text: str, node: ScalarNode) -> Node:
    return ScalarNode(text, text, True, node.span)


def _check_once(named: list[tuple[str, Node]]) -> None:
    first: dict[str, Span] = {}
    for dim, node in named:
        add_once(first, dim, node.span, f"dimension `{dim}` is listed twice in the permutation", "first here")


Kind = Literal["temporal", "spatial", "dataspace", "overbooked", "parallelism"]

ADDRESS_KEYS = ("target", "name", "type", "version")

KINDS: dict[str, Kind] = {
    "temporal": "temporal",
    "spatial": "spatial",
    "dataspace": "dataspace",
    "datatype": "dataspace",
    "bypass": "dataspace",
    "bypassing": "dataspace",
    "max_overbooked_proportion": "overbooked",
    "utilization": "parallelism",
    "parallelism": "parallelism",
}
SHORT_PARALLELISM = "min_parallelism"
UPPER_UTILIZATION = "max_utilization"
_LISTS: dict[Kind, tuple[str, ...]] = {
    "temporal": ("factors", "permutation", "no_reuse", "no_iteration_over_dataspaces"),
    "spatial": ("factors", "permutation", "no_reuse", "no_iteration_over_dataspaces"),
    "dataspace": ("keep", "bypass", "no_coalesce"),
}
"""Keys whose lists ask for nothing where they are empty."""
TILE, RULES = "tile", "rules"
"""Where user-defined rules stand, see `model.formats.timeloop.rules`."""

_NODE_KEYS = (
    TILE,
    "temporal",
    "spatial",
    "dataspace",
    "max_overbooked_proportion",
    "utilization",
    "parallelism",
    SHORT_PARALLELISM,
)


@dataclass(frozen=True)
class Clause:
    """One constraint."""

    kind: Kind
    leaf: ArchLeaf
    # Its mapping, the address (`ADDRESS_KEYS`) included. Its other keys are not checked here
    node: MappingNode


def node_clauses(context: Context) -> list[Clause]:
    """Return the constraints that stand on the nodes of the architecture, outermost node first."""
    clauses: list[Clause] = []
    for leaf in context.tree.leaves:
        constraints = given(leaf.node, "constraints")
        if constraints is not None:
            clauses += _clauses_at(leaf, as_mapping(constraints, "`constraints`"))
    return clauses


def _clauses_at(leaf: ArchLeaf, constraints: MappingNode) -> Iterator[Clause]:
    """Yield the constraints that stand on one node; those that are left empty ask for nothing."""
    if UPPER_UTILIZATION in constraints:
        raise no_upper_utilization(constraints.key(UPPER_UTILIZATION).span)
    check_keys(constraints, _NODE_KEYS, "`constraints`")
    for key, written in constraints.entries:
        value = without_rules(key.text, written)
        if value is None or given(constraints, key.text) is None:
            continue
        kind = KINDS.get(key.text, "parallelism")
        if isinstance(value, MappingNode) and _asks_nothing(value, kind):
            _check_address(value, leaf, kind)
            continue
        _check_place(kind, leaf, key.span)
        if key.text == SHORT_PARALLELISM:
            yield _short_parallelism(leaf, value)
            continue
        node = as_mapping(value, f"`{key.text}`")
        _check_address(node, leaf, kind)
        yield Clause(kind, leaf, node)


def without_rules(name: str, constraint: Node) -> Node | None:
    """Return a constraint on a node without user-defined rules; None if it consists of them."""
    if name == TILE or (name in ("temporal", "spatial") and not isinstance(constraint, MappingNode)):
        return None
    is_mixed = name in ("temporal", "spatial") and isinstance(constraint, MappingNode) and RULES in constraint
    return without(as_mapping(constraint, f"`{name}`"), (RULES,)) if is_mixed else constraint


def _asks_nothing(node: MappingNode, kind: Kind) -> bool:
    """Whether a constraint is left empty, or says so list by list: it may stand anywhere then."""
    values = [(key.text, value) for key, value in node.entries if key.text not in ADDRESS_KEYS]
    return kind in _LISTS and all(key in _LISTS[kind] and _says_nothing(value) for key, value in values)


def _says_nothing(value: Node) -> bool:
    return not value.items if isinstance(value, SequenceNode) else is_blank(value)


def no_upper_utilization(span: Span) -> SpecError:
    """Return the error for what bounds from above how much of a level is used; only its size does."""
    hint = "a smaller `depth` bounds what a level holds, factors with `<=` bound its loops"
    return SpecError(f"`{UPPER_UTILIZATION}` is not modelled", span, hint=hint)


def _check_address(node: MappingNode, leaf: ArchLeaf, kind: Kind) -> None:
    """Raise a SpecError where a constraint on a node says that it is for another one, or of another type."""
    target, type_node = _target_of(node), node.get("type")
    if target is not None and as_name(target, "`target`") != leaf.name:
        raise SpecError(f"this constraint is on `{leaf.name}`", target.span)
    if type_node is not None and _kind_of(type_node) != kind:
        raise SpecError(f"this is a {kind} constraint", type_node.span)


def _target_of(node: MappingNode) -> Node | None:
    target = one_of(node, ("target", "name"), "a target")
    return None if target is None else target[1]


def _kind_of(node: Node) -> Kind:
    """Return the kind of constraint that the value of ``type`` names."""
    name = as_name(node, "`type`")
    if name == UPPER_UTILIZATION:
        raise no_upper_utilization(node.span)
    if name not in KINDS:
        hint = suggestion(name, KINDS, "known types are")
        raise SpecError(f"unknown constraint type `{name}`", node.span, hint=hint)
    return KINDS[name]


def _short_parallelism(leaf: ArchLeaf, value: Node) -> Clause:
    """Return ``min_parallelism: SHARE`` as the constraint ``parallelism: {min: SHARE}``."""
    key = ScalarNode("min", "min", True, value.span)
    return Clause("parallelism", leaf, MappingNode(((key, value),), value.span))


def target_clauses(node: Node, what: str, context: Context) -> list[Clause]:
    """Return the constraints of a section with ``targets``, or of a plain list of them."""
    if isinstance(node, SequenceNode):
        return _listed_clauses(node.items, context)
    if isinstance(node, ScalarNode):
        raise SpecError(f"{what} must be a list of targets, but is {kind_of(node)}", node.span)
    section = read_section(node, what, ("version", "targets", SHORT_PARALLELISM))
    clauses: list[Clause] = []
    share, targets = given(section, SHORT_PARALLELISM), given(section, "targets")
    if share is not None:
        clauses += [_short_parallelism(leaf, share) for leaf in context.tree.leaves if leaf.role == "compute"]
    if targets is not None:
        clauses += _listed_clauses(as_sequence(targets, f"the targets of {what}").items, context)
    return clauses


def _listed_clauses(items: Iterable[Node], context: Context) -> list[Clause]:
    clauses = (_target_clause(item, context) for item in items)
    return [clause for clause in clauses if clause is not None]


def _target_clause(item: Node, context: Context) -> Clause | None:
    node = as_mapping(item, "a target")
    kind = _kind_of(node.require("type", "a target"))
    target = _target_of(node)
    if target is None:
        raise SpecError("a target has no key `target`", node.span)
    fanout = _fanout_of(as_name(target, "`target`"), context)
    if fanout is not None and kind in ("temporal", "dataspace"):
        _check_idle(node, fanout, kind, context)
        return None
    leaf = fanout or _find(target, kind, context)
    if _asks_nothing(node, kind):
        return None
    _check_place(kind, leaf, target.span)
    return Clause(kind, leaf, node)


def _fanout_of(name: str, context: Context) -> ArchLeaf | None:
    """Return the node whose fanout Timeloop's own files write as the level ``inter_NAME_spatial``."""
    plain = name.removeprefix("inter_").removesuffix("_spatial")
    if name in context.leaves or name != f"inter_{plain}_spatial":
        return None
    return context.leaves.get(plain)


def _find(target: Node, kind: Kind, context: Context) -> ArchLeaf:
    name = as_name(target, "`target`")
    if name not in context.leaves:
        hint = suggestion(name, context.leaves, "the architecture has")
        if name.partition("#")[0] in context.leaves:
            hint = "--uneven reads mappings that name places of a memory"
        related = tuple(
            (place, "it is not enabled") for disabled, place in context.tree.disabled if disabled == name
        )
        raise SpecError(f"unknown level `{name}`", target.span, related, hint=hint)
    leaf = context.leaves[name]
    if kind == "spatial" and leaf.role == "storage" and leaf.spatial is None:
        return _fanout_below(leaf, target.span, context)
    return leaf


def _fanout_below(storage: ArchLeaf, span: Span, context: Context) -> ArchLeaf:
    """Return the fanout below a storage level, which mappings of Timeloop's older versions name instead."""
    leaves = context.tree.leaves
    between: list[ArchLeaf] = []
    for leaf in leaves[leaves.index(storage) + 1 :]:
        between.append(leaf)
        if leaf.role in ("storage", "compute"):
            break
    # One of 1 x 1 is meant where there is no other: a variable or a sweep may have made it so small.
    candidates = [leaf for leaf in between if leaf.fanout > 1]
    candidates = candidates or [leaf for leaf in between if leaf.spatial is not None]
    if len(candidates) == 1:
        return candidates[0]
    below = listing(leaf.name for leaf in candidates) if candidates else "no fanout"
    message = f"a spatial target needs a node with `spatial`; `{storage.name}` has {below} below it"
    raise SpecError(message, span, ((storage.span, "the storage level"),))


def _check_idle(node: MappingNode, leaf: ArchLeaf, kind: Kind, context: Context) -> None:
    """Check what a file asks of the level that Timeloop puts in place of a fanout: no loops, no data."""
    known = ("factors", "permutation") if kind == "temporal" else ("keep", "bypass")
    check_keys(node, (*known, *ADDRESS_KEYS), f"a {kind} constraint on a fanout")
    value = given(node, "factors" if kind == "temporal" else "keep")
    if value is None:
        return
    if kind == "temporal":
        factors = read_factors(value, context, context.names_at(leaf))
        asked = next((factor.span for factor in factors if factor.value > 1), None)
    else:
        asked = next(iter(name_list(value, context.dataspaces, "dataspace").values()), None)
    if asked is not None:
        words = "temporal loops" if kind == "temporal" else "data"
        raise SpecError(f"the fanout `{leaf.name}` holds no {words}", asked)


def _check_place(kind: Kind, leaf: ArchLeaf, span: Span) -> None:
    """Raise a SpecError for a constraint that can have no effect at `leaf`."""
    allowed: dict[str, tuple[Kind, ...]] = {
        "container": ("spatial",),
        "storage": ("temporal", "spatial", "dataspace", "overbooked", "parallelism"),
        "compute": ("spatial", "parallelism"),
        "nothing": ("dataspace",),
    }
    if kind not in allowed[leaf.role]:
        words = {
            "container": "a container stores nothing",
            "compute": "a compute unit stores nothing and has no loops",
            "nothing": "`!Nothing` only lists dataspaces that bypass the other branches",
            "storage": "a storage level",
        }
        shown = leaf.name or "!Nothing"
        raise SpecError(f"a {kind} constraint has no effect on `{shown}`: {words[leaf.role]}", span)
    if kind == "spatial" and leaf.spatial is None and leaf.role != "container":
        hint = "put it on the node whose `spatial` makes the fanout"
        message = f"a spatial constraint has no effect on `{leaf.name}`, which has no `spatial`"
        raise SpecError(message, span, hint=hint)


def of(clauses: Iterable[Clause], leaf: ArchLeaf, kind: Kind) -> tuple[MappingNode, ...]:
    """Return the mappings of the clauses of one kind at one leaf (the very object), in their order."""
    return tuple(c.node for c in clauses if c.kind == kind and c.leaf is leaf)
