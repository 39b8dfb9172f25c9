"""Set expressions and renames: which tensors or rank variables of an Einsum a name means."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from model.formats.accelforge.einsums import WrittenCascade, WrittenEinsum
from model.text.expressions import Evaluator
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
    flat_items,
    given,
    items_of,
    keyed_mapping,
    known_name,
)
from model.text.limits import LONGEST_CHAIN
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError, TakeNote, note_at
from model.wording import did_you_mean, listing

Kind = Literal["tensors", "rank variables"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Sub: "-",
}


@dataclass(frozen=True, slots=True)
class SetValue:
    """A set of tensors or of rank variables, equal by members; `kind` is None for an empty set of either."""

    members: frozenset[str]
    kind: Kind | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def described(self) -> str:
        """What it is, for messages about wrong types."""
        return f"a set of {self.kind}" if self.kind else "the empty set"


NOTHING = SetValue(frozenset())


def set_of(members: Iterable[str], kind: Kind) -> SetValue:
    """Return a set of one kind."""
    return SetValue(frozenset(members), kind)


class UndefinedNameError(SpecError):
    """A name that means nothing where it is used."""


class SetNames(Protocol):
    """The names of sets that an expression may use."""

    def find(self, name: str) -> SetValue | None:
        """Return the set called `name`, None if there is none."""
        ...

    def candidates(self) -> Iterable[str]:
        """Return the known names, to suggest one of them."""
        ...

    def unknown(self) -> str:
        """Return a hint on an unknown name."""
        ...

    def everything(self, kind: Kind | None) -> SetValue:
        """Return all tensors or all rank variables of the Einsum."""
        ...

    def attribute(self, value: SetValue, name: str) -> object:
        """Return an attribute of a set; TypeError if it has none of that name."""
        ...


def evaluate_set(node: ScalarNode, names: SetNames, values: Names = NO_NAMES) -> SetValue:
    """Return the set that a set expression stands for.

    Names of sets, tensors, rank variables and renames are combined by ``& | ^ - ~``, parentheses
    and conditionals; ``Inputs()`` means ``Inputs``; ``len(...)`` counts; ``.tensors`` and
    ``.rank_variables`` lead from one kind to the other. `values` are further names, for conditions.
    """
    value = evaluate_with_sets(node, names, values)
    if not isinstance(value, SetValue):
        raise SpecError("the expression does not give a set of tensors or rank variables", node.span)
    return value


def evaluate_with_sets(node: ScalarNode, names: SetNames, values: Names) -> object:
    """Return the value of an expression over sets and numbers: a set, a number, a truth value or a text."""
    return _SetEvaluator(node, names, values).value()


class _SetEvaluator(Evaluator):
    def __init__(self, node: ScalarNode, names: SetNames, values: Names = NO_NAMES) -> None:
        super().__init__(node.text, node.span, values)
        self._sets = names

    def _known_value(self, node: ast.expr, depth: int) -> object:
        match node:
            case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in _OPERATORS:
                values = self._value(left, depth), self._value(right, depth)
                if any(isinstance(value, SetValue) for value in values):
                    return _combined(_OPERATORS[type(symbol)], *values)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                members = _as_set(self._value(operand, depth))
                return _combined("-", self._sets.everything(members.kind), members)
            case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
                return len(_as_set(self._value(argument, depth)))
            case ast.Call(func=ast.Name() as name, args=[], keywords=[]):
                return self._value(name, depth)
            case ast.Attribute(value=owner, attr=name) if not self._is_value(owner):
                return self._sets.attribute(_as_set(self._value(owner, depth)), name)
        return super()._known_value(node, depth)

    def _is_value(self, owner: ast.expr) -> bool:
        """Whether an attribute is looked up among the values: ``variables.depth``."""
        return isinstance(owner, ast.Name) and self._sets.find(owner.id) is None and owner.id in self._names

    def _named(self, name: str, node: ast.expr) -> object:
        known = self._sets.find(name)
        if known is not None:
            return known
        if self._names:
            return self._number_named(name, node)
        hint = did_you_mean(name, self._sets.candidates()) or self._sets.unknown()
        message = f"`{name}` is not a tensor, rank variable, rename or set"
        raise UndefinedNameError(message, self._text.at(node), hint=hint)

    def _number_named(self, name: str, node: ast.expr) -> object:
        """Return a value; an unknown name may be meant as a set as well."""
        try:
            return super()._named(name, node)
        except SpecError as error:
            hint = did_you_mean(name, self._sets.candidates()) or error.hint or self._sets.unknown()
            message = f"`{name}` is not a tensor, rank variable, rename, set or variable"
            raise UndefinedNameError(message, error.span, hint=hint) from None


def _as_set(value: object) -> SetValue:
    if isinstance(value, SetValue):
        return value
    raise TypeError("a set is needed here")


def _combined(symbol: str, first_value: object, second_value: object) -> SetValue:
    first, second = _as_set(first_value), _as_set(second_value)
    if first.kind and second.kind and first.kind != second.kind:
        raise TypeError(f"`{symbol}` joins {first.kind} with {second.kind}")
    members = {
        "&": first.members & second.members,
        "|": first.members | second.members,
        "^": first.members ^ second.members,
        "-": first.members - second.members,
    }
    return SetValue(members[symbol], first.kind or second.kind)


DEFAULT = "default"

_SECTION_KINDS: Mapping[str, Kind] = {"tensor_accesses": "tensors", "rank_variables": "rank variables"}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Rename:
    """A name for what a set expression gives."""

    name: str
    span: Span
    source: ScalarNode
    expected_count: ScalarNode | None = None
    kind: Kind | None = None  # None for either


Renames = dict[str, Rename]


def read_renames(node: Node | None, kind: Kind | None = None) -> Renames:
    """Read ``{name: source}``, or a list of mappings with ``name``, ``source`` and ``expected_count``."""
    if node is None:
        return {}
    if isinstance(node, MappingNode):
        return {key.text: _rename(key, value, None, kind) for key, value in node.entries}
    renames: Renames = {}
    places: dict[str, Span] = {}
    for item in as_sequence(node, "`renames`").items:
        entry = keyed_mapping(item, "a rename", ("name", "source", "expected_count"), ("name", "source"))
        rename = _rename(
            entry.require("name", "a rename"),
            entry.require("source", "a rename"),
            given(entry, "expected_count"),
            kind,
        )
        add_once(places, rename.name, rename.span, f"rename `{rename.name}` is given twice")
        renames[rename.name] = rename
    return renames


def _rename(key: Node, source: Node, expected: Node | None, kind: Kind | None) -> Rename:
    name = as_name(key, "`name` of a rename")
    if not _IDENTIFIER.match(name):
        raise SpecError(f"`{name}` cannot be a name", key.span, hint=IDENTIFIER_HINT)
    return Rename(
        name=name,
        span=key.span,
        source=as_scalar(source, f"the source of `{name}`"),
        expected_count=None if expected is None else as_scalar(expected, "`expected_count`"),
        kind=kind,
    )


def read_top_renames(node: Node | None, einsums: Iterable[str]) -> dict[str, Renames]:
    """Read the top-level section ``renames``; several entries for one Einsum count together."""
    if node is None:
        return {}
    section = keyed_mapping(node, "`renames`", ("einsums", "version"))
    items = items_of(section.get("einsums"), "`einsums` of `renames`")
    names = (DEFAULT, *einsums)
    by_einsum: dict[str, Renames] = {}
    for item in flat_items(items):
        entry = keyed_mapping(item, "an Einsum's renames", ("name", *_SECTION_KINDS), ("name",))
        name = known_name(entry.require("name", "an Einsum's renames"), names, "Einsum")
        renames = [read_renames(given(entry, key), kind) for key, kind in _SECTION_KINDS.items()]
        for rename in (rename for of_kind in renames for rename in of_kind.values()):
            _add_rename(by_einsum.setdefault(name, {}), rename)
    return by_einsum


def _add_rename(renames: Renames, rename: Rename) -> None:
    known = renames.setdefault(rename.name, rename)
    same = known.source.text == rename.source.text and known.expected_count == rename.expected_count
    if not same or known.kind != rename.kind:
        related = ((known.source.span, "the first"),)
        raise SpecError(f"rename `{rename.name}` has two sources", rename.source.span, related)


def effective_renames(local: Renames, top: Mapping[str, Renames], einsum: str) -> Renames:
    """Return the renames that hold in an Einsum."""
    return {**top.get(DEFAULT, {}), **top.get(einsum, {}), **local}


OTHER = "Other"
BUILT_IN = ("All", "Tensors", "Nothing", "Inputs", "Outputs", "Intermediates", "Shared", "Persistent")
RESERVED = (*BUILT_IN, OTHER, "Above")

_WORD = re.compile(r"[A-Za-z_]\w*")
_UNQUALIFIED = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_MOST_BITS = 1 << 20
_Value = TypeVar("_Value")


class _CountError(SpecError):
    """A rename that matches more or less than it expects."""


@dataclass(frozen=True)
class TensorRules:
    """What a workload says of its tensors by set expressions."""

    bits_per_value: Node | None
    persistent_tensors: Node | None
    variables: Names


@dataclass
class EinsumNames:
    """The sets of one Einsum; each is worked out when it is asked for."""

    einsum: WrittenEinsum
    cascade: WrittenCascade
    renames: Renames
    rules: TensorRules
    fed: frozenset[str] = frozenset()  # tensors that count as intermediates beside those of the cascade
    # Where a rename matches less than expected: takes a note; None if that is an error.
    on_unmet: TakeNote | None = None
    _known: dict[str, object] = field(default_factory=dict)
    _unmet: set[str] = field(default_factory=set)
    _open: list[str] = field(default_factory=list)
    _other: SetValue | None = None

    def find(self, name: str) -> SetValue | None:
        """Return the set called `name`, restricted to the Einsum."""
        if name == OTHER:
            return self._other
        if name in BUILT_IN:
            return self._built_in(name)
        if name in self.renames:
            return self.rename(self.renames[name])
        if name in self.cascade.tensors:
            return set_of({name} & self._tensors, "tensors")
        if name in self.cascade.rank_variables:
            return set_of({name} & set(self.einsum.rank_variables), "rank variables")
        return None

    def candidates(self) -> Iterable[str]:
        """Return the known names, to suggest one of them."""
        return (*BUILT_IN, *self.renames, *self.cascade.tensors, *self.cascade.rank_variables)

    def unknown(self) -> str:
        """Return a hint that names the Einsum: what is written once may lack a rename in one of them."""
        renames = f"the renames {listing(self.renames)}" if self.renames else "no renames"
        return f"this is evaluated for Einsum `{self.einsum.name}`, which has {renames}"

    def everything(self, kind: Kind | None) -> SetValue:
        """Return all tensors or all rank variables of the Einsum."""
        members = self.einsum.rank_variables if kind == "rank variables" else self._tensors
        return set_of(members, kind or "tensors")

    def attribute(self, value: SetValue, name: str) -> object:
        """Return an attribute of a set."""
        accesses = self.einsum.accesses
        if name == "rank_variables" and value.kind != "rank variables":
            indexing = (access.rank_variables for access in accesses if access.tensor in value.members)
            return set_of(frozenset().union(*indexing), "rank variables")
        if name == "tensors" and value.kind != "tensors":
            indexed = (access.tensor for access in accesses if value.members & access.rank_variables)
            return set_of(indexed, "tensors")
        if name == "bits_per_value" and value.kind == "tensors":
            if len(value) != 1:
                raise TypeError(f"`.bits_per_value` takes one tensor, not {len(value)}")
            return self.bits_per_value()[next(iter(value.members))]
        raise TypeError(f"there is no `.{name}` of {value.kind or 'the empty set'}")

    @cached_property
    def _tensors(self) -> frozenset[str]:
        return frozenset(access.tensor for access in self.einsum.accesses)

    def _built_in(self, name: str) -> SetValue:
        if name == "Nothing":
            return NOTHING
        if name == "Persistent":
            return set_of(self.persistent(), "tensors")
        written = frozenset(access.tensor for access in self.einsum.accesses if access.output)
        members = {
            "All": self._tensors,
            "Tensors": self._tensors,
            "Inputs": self._tensors - written,
            "Outputs": written,
            "Intermediates": self._tensors & (self.cascade.intermediates | self.fed),
            "Shared": self._tensors & self.cascade.shared,
        }
        return set_of(members[name], "tensors")

    def rename(self, rename: Rename) -> SetValue:
        """Return what a rename stands for."""
        return self._once(rename.name, rename.span, lambda: self._renamed(rename))

    def meets_counts(self) -> bool:
        """Whether each rename matches as many elements as it expects."""
        try:
            for rename in self.renames.values():
                self.rename(rename)
        except _CountError:
            return False
        return True

    def _renamed(self, rename: Rename) -> SetValue:
        # Those that it names come first, so that a chain of renames is no chain of evaluations.
        words = [
            word for word in dict.fromkeys(_UNQUALIFIED.findall(rename.source.text)) if word in self.renames
        ]
        for word in words:
            if word != rename.name:
                self.rename(self.renames[word])
        if not self._unmet.isdisjoint(words):
            self._unmet.add(rename.name)
        value = evaluate_set(rename.source, self)
        if value.kind and rename.kind and value.kind != rename.kind:
            message = f"this gives {value.kind}, but {rename.kind} are renamed here"
            raise SpecError(message, rename.source.span)
        if rename.expected_count is None:
            return value
        return self._counted(rename, rename.expected_count, value)

    def _counted(self, rename: Rename, expected: ScalarNode, value: SetValue) -> SetValue:
        """Return what a rename stands for if it has the expected size, or may fall short of it."""
        count = _SetEvaluator(expected, self).value()
        if isinstance(count, bool) or not isinstance(count, int):
            raise SpecError("`expected_count` must be a whole number", expected.span)
        if count == len(value):
            return value
        if self.on_unmet is None or (len(value) > count and rename.name not in self._unmet):
            raise self._miscounted(rename, expected, count, value)
        place, shown = rename.source.span, (self._matches(rename, value), count)
        if len(value) < count:
            self._unmet.add(rename.name)
            sentence = "{}, but expected_count is {}: the producers of its inputs are not in this file"
            self.on_unmet(note_at(place, sentence, *shown))
            return value
        # Which of them is meant, only the tensors that are missing elsewhere would tell.
        sentence = (
            "{}, but expected_count is {}: it is taken as empty, since the tensors that it excludes are not "
            "in this file"
        )
        self.on_unmet(note_at(place, sentence, *shown))
        return NOTHING

    def _matches(self, rename: Rename, value: SetValue) -> str:
        matched = f"{len(value)} ({listing(sorted(value.members))})" if value.members else "none"
        return f"rename `{rename.name}` of Einsum `{self.einsum.name}` matches {matched}"

    def _miscounted(self, rename: Rename, expected: ScalarNode, count: int, value: SetValue) -> _CountError:
        roles = (f"{a.tensor} ({'output' if a.output else 'input'})" for a in self.einsum.accesses)
        related = (
            (expected.span, f"expected_count is {count} here"),
            (self.einsum.span, f"the Einsum has {', '.join(roles)}"),
        )
        return _CountError(
            f"{self._matches(rename, value)}, but expected_count is {count}",
            rename.source.span,
            related,
            hint=f"give the Einsum a rename `{rename.name}` if you mean another tensor",
        )

    def persistent(self) -> frozenset[str]:
        """Return the tensors of the Einsum that stay in their backing storage."""
        place = self.einsum.span
        return self._once("Persistent", place, self._persistent)

    def _persistent(self) -> frozenset[str]:
        node = self.rules.persistent_tensors
        ruled: frozenset[str] = frozenset()
        if isinstance(node, ScalarNode):
            ruled = _tensors_in(node, self)
        elif node is not None:
            raise SpecError("`persistent_tensors` is a set expression", node.span)
        flags: dict[str, bool] = {}
        for access in self.einsum.accesses:
            written = access.get("persistent")
            if written is not None:
                flag = as_bool(written, "`persistent`", self.rules.variables)
                _settle(flags, access.tensor, flag, "persistent", written)
        return ruled - flags.keys() | {tensor for tensor, flag in flags.items() if flag}

    def bits_per_value(self) -> dict[str, int]:
        """Return the bits of a value of each tensor: what its accesses say, else the workload."""
        return self._once(".bits_per_value", self.einsum.span, self._bits_per_value)

    def _bits_per_value(self) -> dict[str, int]:
        ruled = self._ruled_bits()
        written: dict[str, int] = {}
        for access in self.einsum.accesses:
            node = access.get("bits_per_value")
            if node is not None:
                bits = as_int(node, "`bits_per_value`", self.rules.variables, 1, _MOST_BITS)
                _settle(written, access.tensor, bits, "bits_per_value", node)
        for access in self.einsum.accesses:
            if access.tensor not in written and access.tensor not in ruled:
                hint = "give `workload` an entry such as `bits_per_value: {All: 8}`"
                raise SpecError(f"tensor `{access.tensor}` has no bits_per_value", access.span, hint=hint)
        return {**ruled, **written}

    def _ruled_bits(self) -> dict[str, int]:
        """Return the bits that the workload's set expressions give; those that say `Other` come last."""
        if self.rules.bits_per_value is None:
            return {}
        entries = as_mapping(self.rules.bits_per_value, "`bits_per_value`").entries
        covered: dict[str, tuple[int, Span]] = {}
        for last in (False, True):
            self._other = set_of(self._tensors - covered.keys(), "tensors") if last else None
            in_turn = [(key, value) for key, value in entries if (OTHER in _WORD.findall(key.text)) is last]
            for key, value in in_turn:
                self._cover(key, value, covered)
        self._other = None
        return {tensor: bits for tensor, (bits, _) in covered.items()}

    def _cover(self, key: ScalarNode, value: Node, covered: dict[str, tuple[int, Span]]) -> None:
        bits = as_int(value, "`bits_per_value`", self.rules.variables, 1, _MOST_BITS)
        for tensor in sorted(_tensors_in(key, self)):
            if tensor in covered:
                message = f"`bits_per_value` covers tensor `{tensor}` of Einsum `{self.einsum.name}` twice"
                raise SpecError(message, key.span, ((covered[tensor][1], "the first"),))
            covered[tensor] = (bits, key.span)

    def _once(self, key: str, place: Span, compute: Callable[[], _Value]) -> _Value:
        """Return a value, worked out at the first call; SpecError where it needs itself."""
        if key in self._open:
            chain = " -> ".join((*self._open[self._open.index(key) :], key))
            raise SpecError(f"set expressions depend on each other: {chain}", place)
        if len(self._open) >= LONGEST_CHAIN:
            raise SpecError(
                f"set expressions depend on each other in a chain of more than {LONGEST_CHAIN}", place
            )
        if key not in self._known:
            self._open.append(key)
            self._known[key] = compute()
            self._open.pop()
        return self._known[key]  # type: ignore[return-value]


def names_of_part(
    einsum: WrittenEinsum,
    cascade: WrittenCascade,
    renames: Renames,
    rules: TensorRules,
    note: TakeNote,
) -> EinsumNames:
    """Return the sets of an Einsum in a file that is a part of a larger workload.

    Where its renames do not match what they expect, tensors that look as if another part wrote them
    count as intermediates. If that does not help, what falls short is noted.
    """
    for fed in (frozenset[str](), cascade.fed):
        names = EinsumNames(einsum, cascade, renames, rules, fed)
        if not names.meets_counts():
            continue
        handed_on = sorted(fed & {access.tensor for access in einsum.accesses})
        if handed_on:
            sentence = (
                "{} counts as an intermediate in Einsum `{}`: nothing in this fragment writes it, but it "
                "shares a rank with everything that is written here"
            )
            note(note_at(einsum.span, sentence, listing(handed_on), einsum.name))
        return names
    return EinsumNames(einsum, cascade, renames, rules, on_unmet=note)


def _settle(values: dict[str, _Value], tensor: str, value: _Value, what: str, node: Node) -> None:
    """Note what an access says of its tensor; SpecError where another access of the Einsum says otherwise."""
    if values.setdefault(tensor, value) != value:
        raise SpecError(f"`{tensor}` has two values of `{what}`", node.span)


def _tensors_in(node: ScalarNode, names: EinsumNames) -> frozenset[str]:
    value = evaluate_set(node, names)
    if value.kind == "rank variables":
        raise SpecError("this gives rank variables, but tensors are expected here", node.span)
    return value.members
