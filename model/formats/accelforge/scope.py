"""What expressions of an architecture see of one Einsum: its sets, what memories keep, and variables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from model.formats.accelforge.architecture import WrittenArchitecture, WrittenNode
from model.formats.accelforge.numbers import evaluated
from model.formats.accelforge.sets import EinsumNames, Kind, SetValue, evaluate_set, set_of
from model.numbers import subsets
from model.problem import Problem
from model.text.fields import Names, as_mapping, as_scalar, given
from model.text.limits import LONGEST_CHAIN
from model.text.source import Node, ScalarNode, Span, SpecError
from model.workload import Einsum

ABOVE = "Above"
MOST_CHOICES = 1 << 10
"""Ways in which outer memories may keep tensors, for each of which an expression is evaluated."""

CONSTANTS: Names = {"inf": math.inf, "pi": math.pi}


@dataclass(frozen=True)
class Kept:
    """The tensors that a memory must keep, and those that it may keep, the former included."""

    certain: frozenset[str]
    possible: frozenset[str]

    @property
    def free(self) -> frozenset[str]:
        """Those that the mapping decides on."""
        return self.possible - self.certain


@dataclass(frozen=True)
class Subject:
    """The Einsum that an architecture is read for: its problem, its sets, and its dataspaces by tensor."""

    einsum: Einsum
    problem: Problem
    names: EinsumNames
    dataspaces: Mapping[str, tuple[str, ...]]

    def spaces(self, tensors: Iterable[str]) -> frozenset[str]:
        """Return the dataspaces of tensors."""
        return frozenset(space for tensor in tensors for space in self.dataspaces[tensor])


@dataclass
class Scope:
    """Names of one Einsum in an architecture; memories are added from the outermost inwards.

    Parameters
    ----------
    sets, values
        Sets of the Einsum, and variables.
    memories
        What each memory farther out keeps.
    named
        Memories that the last expression has asked for.
    """

    sets: EinsumNames
    values: Names
    memories: dict[str, Kept] = field(default_factory=dict)
    _chosen: Mapping[str, frozenset[str]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def find(self, name: str) -> SetValue | None:
        """Return the set called `name`; a memory's is what it keeps."""
        if name in self.memories:
            self.named.add(name)
            return set_of(self._chosen.get(name, self.memories[name].certain), "tensors")
        if name == ABOVE:
            self.named.update(self.memories)
            kept = (self._chosen.get(memory, own.certain) for memory, own in self.memories.items())
            return set_of(frozenset().union(*kept), "tensors")
        return self.sets.find(name)

    def candidates(self) -> Iterable[str]:
        """Return the known names, to suggest one of them."""
        return (*self.memories, ABOVE, *self.sets.candidates())

    def unknown(self) -> str:
        """Return a hint on an unknown name."""
        return self.sets.unknown()

    def everything(self, kind: Kind | None) -> SetValue:
        """Return all tensors or all rank variables of the Einsum."""
        return self.sets.everything(kind)

    def attribute(self, value: SetValue, name: str) -> object:
        """Return an attribute of a set; the tensors of what a memory keeps are these themselves."""
        return value if (name, value.kind) == ("tensors", "tensors") else self.sets.attribute(value, name)

    def tensors(self, node: Node, what: str) -> frozenset[str]:
        """Return the tensors that a set expression means; it must not depend on what the mapping decides."""
        kept = self.varying(node, what)
        if kept.free:
            hint = "name tensors, or memories whose `keep` leaves nothing open"
            raise SpecError(
                f"{what} depends on the tensors that outer memories keep in the mapping", node.span, hint=hint
            )
        return kept.certain

    def varying(self, node: Node, what: str) -> Kept:
        """Return what a set expression means for every choice of what memories farther out keep."""
        scalar = as_scalar(node, what)
        self.named.clear()
        first = self._tensors(scalar, what)
        named = sorted(self.named)
        found = [
            first,
            *(self._tensors(scalar, what, chosen) for chosen in self._choices(named, scalar.span)),
        ]
        return Kept(frozenset.intersection(*found), frozenset.union(*found))

    def _choices(self, named: Iterable[str], span: Span) -> Iterator[dict[str, frozenset[str]]]:
        """Yield each way in which memories may keep tensors, but for the least one."""
        open_ones = {name: self.memories[name] for name in named if self.memories[name].free}
        if math.prod(2 ** len(kept.free) for kept in open_ones.values()) > MOST_CHOICES:
            raise SpecError("this depends on too many choices of tensors that outer memories keep", span)
        options = [
            [kept.certain.union(chosen) for chosen in subsets(sorted(kept.free))]
            for kept in open_ones.values()
        ]
        for chosen in product(*options):
            yield dict(zip(open_ones, chosen, strict=True))

    def _tensors(
        self, node: ScalarNode, what: str, chosen: Mapping[str, frozenset[str]] | None = None
    ) -> frozenset[str]:
        self._chosen = chosen or {}
        value = evaluate_set(node, self, self.values)
        self._chosen = {}
        if value.kind == "rank variables":
            raise SpecError(f"{what} gives rank variables, but tensors are expected", node.span)
        return value.members

    def rank_variables(self, node: Node, what: str) -> frozenset[str]:
        """Return the rank variables that a set expression means."""
        value = evaluate_set(as_scalar(node, what), self, self.values)
        if value.kind == "tensors":
            hint = "`.rank_variables` of a set of tensors gives those that index them"
            raise SpecError(f"{what} gives tensors, but rank variables are expected", node.span, hint=hint)
        return value.members


class ArchVariables(Mapping[str, object]):
    """``arch: variables`` over the top-level ones; each is evaluated for the Einsum when it is used."""

    def __init__(self, arch: WrittenArchitecture, sets: EinsumNames, outer: Names) -> None:
        self._own = {key.text: value for key, value in arch.variables}
        self._outer = {**CONSTANTS, **outer}
        self._sets = sets
        self._known: dict[str, object] = {}
        self._open: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter({**self._outer, **self._own})

    def __len__(self) -> int:
        return len({**self._outer, **self._own})

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._outer

    def __getitem__(self, name: str) -> object:
        if name not in self._own:
            return self._outer[name]
        if name not in self._known:
            self._known[name] = self._evaluated(name, self._own[name])
        return self._known[name]

    def _evaluated(self, name: str, node: Node) -> object:
        if name in self._open:
            chain_text = " -> ".join((*self._open, name))
            raise SpecError(f"variables depend on each other: {chain_text}", node.span)
        if not isinstance(node, ScalarNode):
            raise SpecError(f"variable `{name}` is not a single value and cannot be used here", node.span)
        if node.value is None:
            raise SpecError(f"variable `{name}` has no value", node.span)
        if len(self._open) > LONGEST_CHAIN:
            raise SpecError("variables depend on each other in too long a chain", node.span)
        self._open.append(name)
        value = evaluated(node, f"variable `{name}`", self._sets, self)
        self._open.pop()
        return value


def component_attributes(arch: WrittenArchitecture, node: WrittenNode, scope: Scope) -> dict[str, object]:
    """Return the extra attributes of a component, over those of all, as far as they are single values."""
    own = given(node.node, "extra_attributes_for_component_model")
    what = f"`extra_attributes_for_component_model` of `{node.name}`"
    entries = () if own is None else as_mapping(own, what).entries
    pairs = [(key.text, value) for key, value in (*arch.attributes, *entries)]
    return {
        name: value
        for name, node_value in pairs
        if isinstance(node_value, ScalarNode) and (value := _attribute(node_value, name, scope)) is not None
    }


def _attribute(node: ScalarNode, name: str, scope: Scope) -> object:
    """Return an attribute's value; text that is no expression stays text."""
    if node.quoted or not isinstance(node.value, str):
        return node.value
    if node.text.isidentifier() and node.text not in scope.values and scope.find(node.text) is None:
        return node.text
    return evaluated(node, f"attribute `{name}`", scope, scope.values)
