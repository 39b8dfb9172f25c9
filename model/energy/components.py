"""Components ready to be priced: primitive ones, and compound ones expanded to primitives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from model.energy.attributes import (
    LARGEST_ATTRIBUTE,
    PROCESS_ATTRIBUTES,
    Attributes,
    is_placeholder,
    missing_attribute,
)
from model.energy.compound import (
    ActionPart,
    Arguments,
    CompoundAction,
    CompoundClass,
    CompoundClasses,
    IndexRange,
    Step,
    Subcomponent,
    as_expression,
)
from model.energy.dram import dram_hint
from model.energy.estimator import Primitive, assumed_unit, find_primitive, known_classes
from model.energy.request import CLASS, EnergyError
from model.energy.technology import asks_for_placeholders
from model.text.expressions import evaluate
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, did_you_mean

MAX_NESTING = 16
MAX_COMPONENTS = 50_000
MAX_ARGUMENT_COMBINATIONS = 4096

_WORD = re.compile(r"[\w.]+")
_PICO = 1e12


class Component(Protocol):
    """Something with actions and an area."""

    def energy_pj(self, action: str) -> float | None:
        """Energy of an action.

        Parameters
        ----------
        action
            Its name; ``leak`` is per cycle.

        Returns
        -------
        float or None
            Picojoule, None when there is no such action.

        Raises
        ------
        SpecError
            When an attribute is missing or wrong (an `EnergyError`), or an expression is.
        """
        ...

    def area_um2(self) -> float:
        """Area of one instance in square micrometres.

        Raises
        ------
        SpecError
            As `energy_pj` does.
        """
        ...

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions."""
        ...

    @property
    def has_placeholders(self) -> bool:
        """Whether some of the figures are placeholders."""
        ...


@dataclass(frozen=True)
class PrimitiveComponent:
    """A component of a class that the estimator has a model of; raises as `Component` does."""

    primitive: Primitive
    attributes: Attributes
    has_placeholders: ClassVar[bool] = False

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions, sorted."""
        return tuple(sorted(self.primitive.actions | {"leak"}))

    def energy_pj(self, action: str) -> float | None:
        """Energy of one access or operation, or of a cycle's leakage, in picojoule; None if unknown."""
        if action == "leak":
            leak_w = self.primitive.estimate(self.attributes).leak_w
            return leak_w * self.attributes.number("global_cycle_seconds") * _PICO
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
        return 0.0 if action == "leak" else 1.0

    def area_um2(self) -> float:
        """Return the area of one instance, 1 um²."""
        return 1.0


@dataclass(frozen=True)
class CompoundComponent:
    """A component of a compound class; raises as `Component` does.

    `names` are its attributes and the spec's variables, evaluated: what the class's expressions may use.
    `library` has the classes of its subcomponents; `nesting` counts the compound components around it.
    """

    compound: CompoundClass
    names: Mapping[str, object]
    library: Library
    nesting: int

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
        """Sum of what the subcomponents do in an action.

        Raises
        ------
        SpecError
            As `Component.energy_pj` does; also for a subcomponent or action that does not exist, more
            subcomponents than are declared, and more than `MAX_ARGUMENT_COMBINATIONS` of open arguments.
        """
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
                * _factor(part.area_scale, self.names)
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

    def _step_energy(self, subcomponent: Subcomponent, step: Step, names: Mapping[str, object]) -> float:
        arguments = tuple((name, _evaluated(node, names)) for name, node in step.arguments)
        component = self._instantiate(subcomponent, arguments)
        energy = component.energy_pj(step.action)
        if energy is None:
            raise EnergyError(
                f"the class `{subcomponent.component_class}` has no action `{step.action}`",
                step.span,
                hint=did_you_mean(step.action, component.actions)
                or f"its actions: {', '.join(component.actions)}",
            )
        scale = 1.0 if step.action == "leak" else _factor(subcomponent.energy_scale, self.names)
        return energy * scale * _factor(step.energy_scale, names)

    def _instantiate(self, part: Subcomponent, arguments: tuple[tuple[str, object], ...]) -> Component:
        """Build a subcomponent; it inherits what describes the process, the rest it is given."""
        attributes = {name: self.names[name] for name in PROCESS_ATTRIBUTES if name in self.names}
        attributes.update((name, _evaluated(node, self.names)) for name, node in part.attributes)
        attributes.update(arguments)
        return self.library.instantiate(part.component_class, attributes, self.nesting + 1, part.span)


@dataclass(frozen=True)
class Library:
    """The classes that components may be of: the spec's compound ones, then the primitive ones.

    Parameters
    ----------
    classes
        The spec's own.
    variables
        The spec's top-level variables, visible in the classes' expressions.
    remarks
        What was assumed of the components that were built; `instantiate` adds to it.
    """

    classes: CompoundClasses
    variables: Mapping[str, object]
    remarks: dict[str, None] = field(default_factory=dict)

    def instantiate(
        self,
        component_class: str,
        attributes: Mapping[str, object],
        nesting: int = 0,
        span: Span | None = None,
    ) -> Component:
        """Build a component.

        Raises
        ------
        EnergyError
            For an unknown class (at `span`), a missing attribute, classes that contain themselves, or more
            than `MAX_COMPONENTS` components in all.
        SpecError
            For an attribute's default that cannot be evaluated.
        """
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
        listing = f"known classes: {', '.join(known)}; a compound one needs the file that defines it"
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
                names[name] = _evaluated(default, names)
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
            yield name, (_evaluated(node, names),)
            continue
        low, high = (_whole(as_expression(text, node.span), names) for text in (first, last))
        if high < low:
            raise EnergyError(f"the range `{node.text}` of the argument `{name}` is empty", node.span)
        yield name, range(low, high + 1)


def _count(indices: IndexRange | None, names: Mapping[str, object]) -> int:
    """Number of the subcomponents in a range, both ends included."""
    if indices is None:
        return 1
    return max(0, _whole(indices.last, names) - _whole(indices.first, names) + 1)


def _whole(node: ScalarNode, names: Mapping[str, object]) -> int:
    value = _number(node, names)
    if value != int(value):
        raise EnergyError(f"`{node.text}` is {value:g}, but must be a whole number", node.span)
    return int(value)


def _factor(node: ScalarNode | None, names: Mapping[str, object]) -> float:
    if node is None:
        return 1.0
    value = _number(node, names)
    if value < 0:
        raise EnergyError(f"the scale `{node.text}` is {value:g}, but must not be negative", node.span)
    return value


def _number(node: ScalarNode, names: Mapping[str, object]) -> float:
    value = _evaluated(node, names)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EnergyError(f"`{node.text}` must be a number, but is {value!r}", node.span)
    if not abs(value) <= LARGEST_ATTRIBUTE:
        raise EnergyError(f"`{node.text}` is out of range", node.span)
    return value


def _evaluated(node: Node, names: Mapping[str, object]) -> object:
    """Value of an attribute: an expression, or a word that names nothing and stands for itself.

    Lists and mappings hold such values.
    """
    if isinstance(node, SequenceNode):
        return [_evaluated(item, names) for item in node.items]
    if isinstance(node, MappingNode):
        return {key.text: _evaluated(value, names) for key, value in node.entries}
    assert isinstance(node, ScalarNode)
    if node.quoted or not isinstance(node.value, str):
        return node.value
    if node.text in names:
        return names[node.text]
    if _WORD.fullmatch(node.text):
        return node.text
    return evaluate(node, names)
