"""Where constraints stand: on the nodes, and in lists of targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from model.formats.timeloop.context import Context
from model.formats.timeloop.factors import read_factors
from model.formats.timeloop.tree import Leaf
from model.formats.timeloop.version import check_version
from model.text.fields import as_mapping, as_name, as_sequence, given, kind_of, name_list
from model.text.keys import check_keys, one_of
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, did_you_mean
from model.wording import listing

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
_NODE_KEYS = (
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
    """One constraint.

    Parameters
    ----------
    kind
        What it is about.
    leaf
        The node that it holds for.
    node
        Its mapping, the address (`ADDRESS_KEYS`) included. Its other keys are not checked here.
    """

    kind: Kind
    leaf: Leaf
    node: MappingNode


def node_clauses(context: Context) -> list[Clause]:
    """Return the constraints that stand on the nodes of the architecture, outermost node first.

    Raises
    ------
    SpecError
        An unknown key, a constraint that can have no effect where it stands, or one that names another
        target or type.
    """
    clauses: list[Clause] = []
    for leaf in context.tree.leaves:
        constraints = given(leaf.node, "constraints")
        if constraints is not None:
            clauses += _clauses_at(leaf, as_mapping(constraints, "`constraints`"))
    return clauses


def _clauses_at(leaf: Leaf, constraints: MappingNode) -> Iterator[Clause]:
    """Yield the constraints that stand on one node; those that are left empty ask for nothing."""
    if UPPER_UTILIZATION in constraints:
        raise no_upper_utilization(constraints.key(UPPER_UTILIZATION).span)
    check_keys(constraints, _NODE_KEYS, "`constraints`")
    for key, value in constraints.entries:
        if given(constraints, key.text) is None:
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


def _asks_nothing(node: MappingNode, kind: Kind) -> bool:
    """Whether a constraint is left empty, or says so list by list: it may stand anywhere then."""
    values = [(key.text, value) for key, value in node.entries if key.text not in ADDRESS_KEYS]
    return kind in _LISTS and all(key in _LISTS[kind] and _is_empty(value) for key, value in values)


def _is_empty(value: Node) -> bool:
    if isinstance(value, SequenceNode):
        return not value.items
    return isinstance(value, ScalarNode) and value.value is None


def no_upper_utilization(span: Span) -> SpecError:
    """Return the error for what bounds from above how much of a level is used; only its size does."""
    hint = "a smaller `depth` bounds what a level holds, factors with `<=` bound its loops"
    return SpecError(f"`{UPPER_UTILIZATION}` is not modelled", span, hint=hint)


def _check_address(node: MappingNode, leaf: Leaf, kind: Kind) -> None:
    """Raise a SpecError where a constraint on a node says that it is for another one, or of another type."""
    target, type_node = _target_of(node), node.get("type")
    if target is not None and as_name(target, "`target`") != leaf.name:
        raise SpecError(f"this constraint stands on `{leaf.name}`", target.span)
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
        hint = did_you_mean(name, KINDS) or f"known are {listing(KINDS)}"
        raise SpecError(f"unknown constraint type `{name}`", node.span, hint=hint)
    return KINDS[name]


def _short_parallelism(leaf: Leaf, value: Node) -> Clause:
    """Return ``min_parallelism: SHARE`` as the constraint ``parallelism: {min: SHARE}``."""
    key = ScalarNode("min", "min", True, value.span)
    return Clause("parallelism", leaf, MappingNode(((key, value),), value.span))


def target_clauses(node: Node, what: str, context: Context) -> list[Clause]:
    """Return the constraints of a section with ``targets``, or of a plain list of them.

    Raises
    ------
    SpecError
        An unknown target, an unknown type, or a type that the target cannot have.
    """
    if isinstance(node, SequenceNode):
        return _listed_clauses(node.items, context)
    if isinstance(node, ScalarNode):
        raise SpecError(f"{what} must be a list of targets, but is {kind_of(node)}", node.span)
    section = as_mapping(node, what)
    check_keys(section, ("version", "targets", SHORT_PARALLELISM), what)
    check_version(section)
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
        raise SpecError("a target lacks the key `target`", node.span)
    fanout = _fanout_of(as_name(target, "`target`"), context)
    if fanout is not None and kind in ("temporal", "dataspace"):
        _check_idle(node, fanout, kind, context)
        return None
    leaf = fanout or _find(target, kind, context)
    if _asks_nothing(node, kind):
        return None
    _check_place(kind, leaf, target.span)
    return Clause(kind, leaf, node)


def _fanout_of(name: str, context: Context) -> Leaf | None:
    """Return the node whose fanout Timeloop's own files write as the level ``inter_NAME_spatial``."""
    plain = name.removeprefix("inter_").removesuffix("_spatial")
    if name in context.leaves or name != f"inter_{plain}_spatial":
        return None
    return context.leaves.get(plain)


def _find(target: Node, kind: Kind, context: Context) -> Leaf:
    name = as_name(target, "`target`")
    if name not in context.leaves:
        hint = did_you_mean(name, context.leaves) or f"the architecture has {listing(context.leaves)}"
        related = tuple(
            (place, "it is not enabled") for disabled, place in context.tree.disabled if disabled == name
        )
        raise SpecError(f"unknown level `{name}`", target.span, related, hint=hint)
    leaf = context.leaves[name]
    if kind == "spatial" and leaf.role == "storage" and leaf.spatial is None:
        return _fanout_below(leaf, target.span, context)
    return leaf


def _fanout_below(storage: Leaf, span: Span, context: Context) -> Leaf:
    """Return the one fanout between a storage level and the next one.

    A mapping of Timeloop's older versions names the storage level above a fanout.
    """
    leaves = context.tree.leaves
    between: list[Leaf] = []
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


def _check_idle(node: MappingNode, leaf: Leaf, kind: Kind, context: Context) -> None:
    """Check what a file asks of the level that Timeloop puts in place of a fanout: no loops, no data.

    Raises
    ------
    SpecError
        A temporal factor above 1, a dataspace that is kept, or a key besides those that say so.
    """
    known = ("factors", "permutation") if kind == "temporal" else ("keep", "bypass")
    check_keys(node, (*known, *ADDRESS_KEYS), f"a {kind} constraint on a fanout")
    value = given(node, "factors" if kind == "temporal" else "keep")
    if value is None:
        return
    if kind == "temporal":
        factors = read_factors(value, context.bounds, context.names_at(leaf))
        asked = next((factor.span for factor in factors if factor.value > 1), None)
    else:
        asked = next(iter(name_list(value, context.dataspaces, "dataspace").values()), None)
    if asked is not None:
        words = "temporal loops" if kind == "temporal" else "data"
        raise SpecError(f"the fanout `{leaf.name}` holds no {words}", asked)


def _check_place(kind: Kind, leaf: Leaf, span: Span) -> None:
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
            "nothing": "`!Nothing` only says which dataspaces pass by",
            "storage": "a storage level",
        }
        shown = leaf.name or "!Nothing"
        raise SpecError(f"a {kind} constraint has no effect on `{shown}`: {words[leaf.role]}", span)
    if kind == "spatial" and leaf.spatial is None and leaf.role != "container":
        hint = "put it on the node whose `spatial` makes the fanout"
        message = f"a spatial constraint has no effect on `{leaf.name}`, which has no `spatial`"
        raise SpecError(message, span, hint=hint)


def of(clauses: Iterable[Clause], leaf: Leaf, kind: Kind) -> tuple[MappingNode, ...]:
    """Return the mappings of the clauses of one kind at one leaf (the very object), in their order."""
    return tuple(c.node for c in clauses if c.kind == kind and c.leaf is leaf)
