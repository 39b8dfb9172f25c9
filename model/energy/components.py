"""Components ready to be priced: primitive ones, and Accelergy's compound classes expanded to primitives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from model.energy.estimator import (
    LARGEST_ATTRIBUTE,
    PROCESS_ATTRIBUTES,
    Attributes,
    Primitive,
    asks_for_placeholders,
    assumed_unit,
    dram_hint,
    find_primitive,
    is_placeholder,
    known_classes,
    missing_attribute,
)
from model.energy.request import CLASS, EnergyError
from model.note import Note
from model.text.composer import plain_value
from model.text.expressions import evaluate_expression
from model.text.fields import (
    add_once,
    as_mapping,
    as_name,
    flat_items,
    is_blank,
    items_of,
    keyed_mapping,
    one_of,
)
from model.text.source import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Span,
    SpecError,
    TakeNote,
    note_at,
    source_ref,
)
from model.wording import did_you_mean

_LIBRARY_KEYS = ("classes", "version")
_CLASS_KEYS = ("actions", "attributes", "name", "subcomponents")
# The first of each is the name of today's format, the others are those of older files of it.
AREA_SCALES = ("area_scale", "area_share")
_ENERGY_SCALES = ("energy_scale", "action_share", "repeat")
_SUBCOMPONENT_KEYS = (*AREA_SCALES, "attributes", "class", "energy_scale", "name")
_ACTION_KEYS = ("arguments", "name", "subcomponents")
_PART_KEYS = ("actions", "name")
_STEP_KEYS = tuple(sorted(("name", "arguments", *_ENERGY_SCALES)))
_INDEXED_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[(.*)\])?", re.DOTALL)

T = TypeVar("T")
Arguments = tuple[tuple[str, ScalarNode], ...]
Defaults = tuple[tuple[str, Node], ...]
"""Attributes by name: scalars, or lists and mappings out of which expressions take values."""


@dataclass(frozen=True)
class IndexRange:
    """``first..last`` of ``storage[first..last]``, as expressions; both are included."""

    first: ScalarNode
    last: ScalarNode


@dataclass(frozen=True)
class Subcomponent:
    """A part of a compound class."""

    name: str
    indices: IndexRange | None  # how many there are; one without
    component_class: str
    attributes: Defaults  # expressions over the attributes of the whole
    area_scale: ScalarNode | None  # what its area is multiplied by, None for 1
    # What the energy of all its actions but leakage is multiplied by, None for 1.
    energy_scale: ScalarNode | None
    span: Span


@dataclass(frozen=True)
class SubAction:
    """An action of a subcomponent that an action of the compound class causes."""

    action: str  # its name in the class of the subcomponent
    arguments: Arguments  # attributes that it sets in the subcomponent, as expressions
    energy_scale: ScalarNode | None  # what its energy is multiplied by, leakage included; None for 1
    span: Span


@dataclass(frozen=True)
class ActionPart:
    """Steps that each of some subcomponents takes."""

    name: str
    indices: IndexRange | None  # which of them: only their number counts. One without.
    steps: tuple[SubAction, ...]
    span: Span


@dataclass(frozen=True)
class CompoundAction:
    """An action of a compound class."""

    name: str
    arguments: Arguments  # those that its caller may give: values, or ranges ``first..last``
    parts: tuple[ActionPart, ...]
    span: Span


@dataclass(frozen=True)
class CompoundClass:
    """A class of components that are made of others."""

    name: str
    attributes: Defaults  # with their defaults, which may use those before; ``SET ME`` asks for a value
    # By name, in the order of the spec.
    subcomponents: Mapping[str, Subcomponent]
    actions: Mapping[str, CompoundAction]
    span: Span

    def declares(self, attribute: str) -> bool:
        """Whether the class has an attribute of that name."""
        return any(name == attribute for name, _ in self.attributes)


@dataclass(frozen=True)
class CompoundClasses:
    """The compound classes of a spec by name."""

    by_name: Mapping[str, CompoundClass] = field(default_factory=dict)
    # The components that pricing expands them to
    built: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)


def load_compound_classes(nodes: Iterable[Node], note: TakeNote) -> CompoundClasses:
    """Read the sections of components; of two classes with one name the later counts, as in Accelergy."""
    classes: dict[str, CompoundClass] = {}
    for compound in map(_load_class, _class_nodes(nodes)):
        earlier = classes.get(compound.name)
        if earlier is not None:
            note(_redefined(earlier, compound))
        classes[compound.name] = compound
    return CompoundClasses(classes)


def _redefined(earlier: CompoundClass, later: CompoundClass) -> Note:
    if earlier.span == later.span:  # an alias, or a file that is included twice
        return note_at(later.span, "component class `{}` is listed twice", later.name)
    sentence = "component class `{}` is defined twice: this definition is used, not that at {}"
    return note_at(later.span, sentence, later.name, str(source_ref(earlier.span)))


def _class_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        library = keyed_mapping(node, "the components", _LIBRARY_KEYS)
        yield from flat_items(items_of(library.get("classes"), "`classes`"))


def _load_class(node: Node) -> CompoundClass:
    entry = keyed_mapping(node, "a component class", _CLASS_KEYS)
    name_node = entry.require("name", "a component class")
    name = as_name(name_node, "the class's `name`")
    parts = items_of(entry.get("subcomponents"), "`subcomponents`")
    subcomponents = [_load_subcomponent(item) for item in parts]
    actions = [_load_action(item) for item in items_of(entry.get("actions"), "`actions`")]
    return CompoundClass(
        name,
        _load_attributes(entry.get("attributes")),
        _by_name(((part.name, part.span, part) for part in subcomponents), "subcomponents"),
        _by_name(((action.name, action.span, action) for action in actions), "actions"),
        name_node.span,
    )


def _load_subcomponent(node: Node) -> Subcomponent:
    entry = keyed_mapping(node, "a subcomponent", _SUBCOMPONENT_KEYS)
    name, indices = _load_indexed_name(entry.require("name", "a subcomponent"))
    return Subcomponent(
        name,
        indices,
        as_name(entry.require("class", f"the subcomponent `{name}`"), "the subcomponent's `class`"),
        _load_attributes(entry.get("attributes")),
        _scale_entry(entry, AREA_SCALES, "a subcomponent"),
        _scale_entry(entry, ("energy_scale",), "a subcomponent"),
        entry.span,
    )


def _load_action(node: Node) -> CompoundAction:
    entry = keyed_mapping(node, "an action", _ACTION_KEYS)
    name = as_name(entry.require("name", "an action"), "the action's `name`")
    parts = tuple(_load_part(item) for item in items_of(entry.get("subcomponents"), "`subcomponents`"))
    return CompoundAction(name, _load_arguments(entry.get("arguments")), parts, entry.span)


def _load_part(node: Node) -> ActionPart:
    entry = keyed_mapping(node, "a subcomponent of an action", _PART_KEYS)
    name, indices = _load_indexed_name(entry.require("name", "a subcomponent of an action"))
    steps = tuple(_load_step(item) for item in items_of(entry.get("actions"), "`actions`"))
    return ActionPart(name, indices, steps, entry.span)


def _load_step(node: Node) -> SubAction:
    entry = keyed_mapping(node, "an action of a subcomponent", _STEP_KEYS)
    return SubAction(
        as_name(entry.require("name", "an action of a subcomponent"), "the action's `name`"),
        _load_arguments(entry.get("arguments")),
        _scale_entry(entry, _ENERGY_SCALES, "an action of a subcomponent"),
        entry.span,
    )


def _load_attributes(node: Node | None) -> Defaults:
    return tuple((key.text, value) for key, value in _entries_of(node, "`attributes`"))


def _load_arguments(node: Node | None) -> Arguments:
    return tuple(
        (key.text, _scalar(value, f"`{key.text}`")) for key, value in _entries_of(node, "`arguments`")
    )


def _entries_of(node: Node | None, what: str) -> tuple[tuple[ScalarNode, Node], ...]:
    return () if node is None or is_blank(node) else as_mapping(node, what).entries


def _load_indexed_name(node: Node) -> tuple[str, IndexRange | None]:
    text = as_name(node, "a subcomponent's `name`")
    match = _INDEXED_NAME.fullmatch(text)
    if match is None:
        raise SpecError(
            f"`{text}` is not a name of a subcomponent",
            node.span,
            hint="write name, name[0] or name[1..count]",
        )
    if match[2] is None:
        return match[1], None
    first, dots, last = match[2].partition("..")
    lower = as_expression(first, node.span)
    return match[1], IndexRange(lower, as_expression(last, node.span) if dots else lower)


def as_expression(text: str, span: Span) -> ScalarNode:
    """Return a part of a scalar's text, to be evaluated on its own."""
    stripped = text.strip()
    return ScalarNode(plain_value(stripped, span), stripped, False, span)


def _scale_entry(entry: MappingNode, names: Sequence[str], what: str) -> ScalarNode | None:
    written = one_of(entry, names, what)
    return None if written is None else _scalar(written[1], f"`{written[0].text}`")


def _scalar(node: Node, what: str) -> ScalarNode:
    if not isinstance(node, ScalarNode):
        raise SpecError(f"{what} must be a number, a text or an expression", node.span)
    return node


def _by_name(items: Iterable[tuple[str, Span, T]], what: str) -> dict[str, T]:
    by_name: dict[str, T] = {}
    spans: dict[str, Span] = {}
    for name, span, item in items:
        add_once(spans, name, span, f"two {what} are named `{name}`", "the first one is here")
        by_name[name] = item
    return by_name


MAX_NESTING = 16
MAX_COMPONENTS = 50_000
MAX_ARGUMENT_COMBINATIONS = 4096

_WORD = re.compile(r"[\w.]+")
_PJ_PER_JOULE = 1e12


@dataclass(frozen=True)
class PrimitiveComponent:
    """A component of a class that the estimator has a model of."""

    primitive: Primitive
    attributes: Attributes
    has_placeholders: ClassVar[bool] = False

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions, sorted."""
        return tuple(sorted(self.primitive.actions | {"leak"}))

    def energy_pj(self, action: str) -> float | None:
        """Energy of one access or operation, or of a cycle's leakage, in picojoule; None if unknown."""
        if action in ("leak", "idle"):  # its name in older files
            leak_w = self.primitive.estimate(self.attributes).leak_w
            return leak_w * self.attributes.number("global_cycle_seconds") * _PJ_PER_JOULE
        if action not in self.primitive.actions:
            return None
        return self.primitive.estimate(self.attributes).access_pj

    def area_um2(self) -> float:
        """Area of one instance in square micrometres."""
        return self.primitive.estimate(self.attributes).area_um2


class PlaceholderComponent:
    """A component of any class that asks for placeholder figures: they are those of Accelergy."""

    actions = ("any",)
    has_placeholders = True

    def energy_pj(self, action: str) -> float:
        """Return 1 pJ for any action but the leakage, which is none."""
        return 0.0 if action in ("leak", "idle") else 1.0

    def area_um2(self) -> float:
        """Return the area of one instance, 1 um²."""
        return 1.0


@dataclass(frozen=True)
class CompoundComponent:
    """A component of a compound class."""

    compound: CompoundClass
    names: Mapping[str, object]  # its attributes and the spec's variables, evaluated
    library: Library  # of the classes of its subcomponents
    nesting: int  # compound components around it

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions as the class lists them."""
        return tuple(self.compound.actions)

    @property
    def has_placeholders(self) -> bool:
        """Whether some subcomponent's figures are placeholders; raises what `area_um2` does."""
        parts = self.compound.subcomponents.values()
        return any(self._instantiate(part, ()).has_placeholders for part in parts)

    def energy_pj(self, action: str) -> float | None:
        """Sum of what the subcomponents do in an action."""
        definition = self.compound.actions.get(action)
        if definition is None:
            return None
        return max(
            sum(self._part_energy(part, names) for part in definition.parts)
            for names in _argument_scopes(definition, self.names)
        )

    def area_um2(self) -> float:
        """Sum of the areas (um²) of the subcomponents, each times its number and ``area_scale``."""
        return float(
            sum(
                _count(part.indices, self.names)
                * _scale_factor(part.area_scale, self.names)
                * self._instantiate(part, ()).area_um2()
                for part in self.compound.subcomponents.values()
            )
        )

    def _part_energy(self, part: ActionPart, names: Mapping[str, object]) -> float:
        subcomponent = self.compound.subcomponents.get(part.name)
        if subcomponent is None:
            raise EnergyError(
                f"the class `{self.compound.name}` has no subcomponent `{part.name}`",
                part.span,
                hint=did_you_mean(part.name, self.compound.subcomponents),
            )
        count, declared = _count(part.indices, names), _count(subcomponent.indices, self.names)
        if count > max(1, declared):
            message = (
                f"an action takes place in {count} subcomponents `{part.name}`, of which there are {declared}"
            )
            raise EnergyError(message, part.span, ((subcomponent.span, "they are declared here"),))
        return float(count * sum(self._step_energy(subcomponent, step, names) for step in part.steps))

    def _step_energy(self, subcomponent: Subcomponent, step: SubAction, names: Mapping[str, object]) -> float:
        arguments = tuple((name, _attribute_value(node, names)) for name, node in step.arguments)
        component = self._instantiate(subcomponent, arguments)
        energy = component.energy_pj(step.action)
        if energy is None:
            raise EnergyError(
                f"the class `{subcomponent.component_class}` has no action `{step.action}`",
                step.span,
                hint=did_you_mean(step.action, component.actions)
                or f"its actions: {', '.join(component.actions)}",
            )
        scale = 1.0 if step.action == "leak" else _scale_factor(subcomponent.energy_scale, self.names)
        return energy * scale * _scale_factor(step.energy_scale, names)

    def _instantiate(self, part: Subcomponent, arguments: tuple[tuple[str, object], ...]) -> Component:
        """Build a subcomponent; it inherits what describes the process, the rest it is given."""
        attributes = {name: self.names[name] for name in PROCESS_ATTRIBUTES if name in self.names}
        attributes.update((name, _attribute_value(node, self.names)) for name, node in part.attributes)
        attributes.update(arguments)
        return self.library.instantiate(part.component_class, attributes, self.nesting + 1, part.span)


Component = PrimitiveComponent | PlaceholderComponent | CompoundComponent


@dataclass(frozen=True)
class Library:
    """The classes that components may be of: the spec's compound ones, then the primitive ones."""

    classes: CompoundClasses
    variables: Mapping[str, object]  # the spec's top-level variables, visible in the classes' expressions
    # What was assumed of the components that were built; `instantiate` adds to it.
    remarks: dict[str, None] = field(default_factory=dict)

    def instantiate(
        self,
        component_class: str,
        attributes: Mapping[str, object],
        nesting: int = 0,
        span: Span | None = None,
    ) -> Component:
        """Build a component."""
        if nesting > MAX_NESTING:
            raise EnergyError(f"the class `{component_class}` contains itself, or is nested too deeply", span)
        if next(self.classes.built) >= MAX_COMPONENTS:
            raise EnergyError(f"the expansion takes more than {MAX_COMPONENTS} components", span)
        compound = self.classes.by_name.get(component_class)
        if compound is not None:
            return CompoundComponent(compound, self._resolve(compound, attributes), self, nesting)
        values = {**self._process(), **attributes}
        if asks_for_placeholders(values.get("technology")):
            return PlaceholderComponent()
        primitive = find_primitive(component_class)
        if primitive is not None:
            written = Attributes(component_class, values)
            remark = assumed_unit(primitive.name, written)
            self.remarks.update({} if remark is None else {remark: None})
            return PrimitiveComponent(primitive, written)
        known = tuple(dict.fromkeys((*self.classes.by_name, *known_classes())))
        suggestion = dram_hint(component_class) or did_you_mean(component_class, known)
        listing = (
            f"known classes: {', '.join(known)}; a compound one needs the file that defines it. Figures may "
            "be given instead: `energy` on the component, or an ERT; `technology: -1` allows any class"
        )
        raise EnergyError(
            f"unknown component class `{component_class}`",
            span,
            hint=listing if suggestion is None else f"{suggestion} {listing}",
            about=CLASS,
        )

    def _process(self) -> dict[str, object]:
        return {name: self.variables[name] for name in PROCESS_ATTRIBUTES if name in self.variables}

    def _resolve(self, compound: CompoundClass, attributes: Mapping[str, object]) -> dict[str, object]:
        """Attributes of a component: as given, else the class's defaults, evaluated in their order."""
        names: dict[str, object] = {**self.variables, **attributes}
        process = self._process()
        for name, default in compound.attributes:
            if name in attributes:
                continue
            if not isinstance(default, ScalarNode) or not is_placeholder(default.value):
                names[name] = _attribute_value(default, names)
            elif name not in process:
                raise missing_attribute(name, compound.name)
        return names


def _argument_scopes(action: CompoundAction, names: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Names in an action's expressions, for each combination of the arguments left open."""
    choices = {
        argument: range_or_value
        for argument, range_or_value in _argument_choices(action.arguments, names)
        if argument not in names
    }
    combinations = 1
    for values in choices.values():
        combinations *= len(values)
    if combinations > MAX_ARGUMENT_COMBINATIONS:
        raise EnergyError(f"the action `{action.name}` has too many combinations of arguments", action.span)
    for combination in itertools.product(*choices.values()):
        yield {**names, **dict(zip(choices, combination, strict=True))}


def _argument_choices(
    arguments: Arguments, names: Mapping[str, object]
) -> Iterator[tuple[str, tuple[object, ...] | range]]:
    for name, node in arguments:
        first, dots, last = node.text.partition("..")
        if not dots:
            yield name, (_attribute_value(node, names),)
            continue
        low, high = (_evaluated_integer(as_expression(text, node.span), names) for text in (first, last))
        if high < low:
            raise EnergyError(f"the range `{node.text}` of the argument `{name}` is empty", node.span)
        yield name, range(low, high + 1)


def _count(indices: IndexRange | None, names: Mapping[str, object]) -> int:
    """Number of the subcomponents in a range, both ends included."""
    if indices is None:
        return 1
    return max(0, _evaluated_integer(indices.last, names) - _evaluated_integer(indices.first, names) + 1)


def _evaluated_integer(node: ScalarNode, names: Mapping[str, object]) -> int:
    value = _evaluated_number(node, names)
    if value != int(value):
        raise EnergyError(f"`{node.text}` is {value:g}, but must be a whole number", node.span)
    return int(value)


def _scale_factor(node: ScalarNode | None, names: Mapping[str, object]) -> float:
    if node is None:
        return 1.0
    value = _evaluated_number(node, names)
    if value < 0:
        raise EnergyError(f"the scale `{node.text}` is {value:g}, but must not be negative", node.span)
    return value


def _evaluated_number(node: ScalarNode, names: Mapping[str, object]) -> float:
    value = _attribute_value(node, names)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EnergyError(f"`{node.text}` must be a number, but is {value!r}", node.span)
    if not abs(value) <= LARGEST_ATTRIBUTE:
        raise EnergyError(f"`{node.text}` is out of range", node.span)
    return value


def _attribute_value(node: Node, names: Mapping[str, object]) -> object:
    """Value of an attribute, also in lists and mappings: an expression, or a word that names nothing."""
    if isinstance(node, SequenceNode):
        return [_attribute_value(item, names) for item in node.items]
    if isinstance(node, MappingNode):
        return {key.text: _attribute_value(value, names) for key, value in node.entries}
    assert isinstance(node, ScalarNode)
    if node.quoted or not isinstance(node.value, str):
        return node.value
    if node.text in names:
        return names[node.text]
    if _WORD.fullmatch(node.text):
        return node.text
    return evaluate_expression(node, names)
