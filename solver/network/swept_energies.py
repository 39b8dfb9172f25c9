"""Which energies follow an attribute that is swept, and which stay because they are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from model.architecture import Architecture
from model.sweep import MESHES, Variant

_Action = tuple[str, str]


@dataclass
class _Effects:
    """What the values of one attribute change: components and actions by what happens to their energies."""

    matters: bool = False
    moved: dict[_Action, None] = field(default_factory=dict)
    given: dict[_Action, None] = field(default_factory=dict)
    components: set[str] = field(default_factory=set)


def energy_remarks(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Say for each attribute with several values which energies change with it, and which do not.

    Parameters
    ----------
    variants
        Of one sweep: the same attributes are set in all of them.

    Returns
    -------
    tuple[str, ...]
        In the order of the attributes; none for those of which there is nothing to say.
    """
    names = [name for name, _ in variants[0].settings] if variants else []
    texts = [_remark(name, _effects(variants, place)) for place, name in enumerate(names)]
    return tuple(text for text in texts if text)


def _effects(variants: Sequence[Variant], place: int) -> _Effects | None:
    """Compare the variants that differ in one attribute only; None if it has a single value."""
    if len({variant.settings[place] for variant in variants}) == 1:
        return None
    groups: dict[object, list[Variant]] = {}
    for variant in variants:
        others = (*variant.settings[:place], *variant.settings[place + 1 :])
        groups.setdefault((variant.workload, variant.architecture, others), []).append(variant)
    effects = _Effects()
    for group in groups.values():
        spaces = [tuple(layer.mapspace for layer in variant.network.layers) for variant in group]
        effects.matters |= any(space != spaces[0] for space in spaces)
        _compare([space[0].architecture for space in spaces if space], effects)
    return effects


def _compare(architectures: Sequence[Architecture], effects: _Effects) -> None:
    tables = [dict(_energies(architecture)) for architecture in architectures]
    for action in dict.fromkeys(action for table in tables for action in table):
        figures = [table[action] for table in tables if action in table]
        effects.components.add(action[0])
        if len({energy for energy, _ in figures}) > 1:
            effects.moved[action] = None
        elif figures[0][1]:
            effects.given[action] = None


def _energies(architecture: Architecture) -> Iterator[tuple[_Action, tuple[Fraction, bool]]]:
    """Yield the energy of every action in picojoule, and whether it is given."""
    units = architecture.units_per_pj
    for level in architecture.levels:
        price = level.energy
        figures = {
            "read": price.read,
            "fill": price.fill,
            "update": price.update,
            "leak": price.leak_per_cycle,
        }
        for action, _ in price.sources:
            yield (level.name, action), (Fraction(figures[action], units), action in price.given)
    compute = architecture.compute
    yield (compute.name, "compute"), (Fraction(compute.energy, units), compute.is_given)


def _remark(name: str, effects: _Effects | None) -> str:
    if effects is None:
        return ""
    if not effects.matters:
        return f"{name} changes nothing in the model of the architecture"
    node, _, attribute = name.rpartition(".")
    if attribute in MESHES and not effects.moved:
        return ""
    given = [action for action in effects.given if action[0] == node or node not in effects.components]
    parts = []
    if effects.moved:
        parts.append(f"the energies of {_listed(effects.moved)} are derived anew for each value")
    if given:
        parts.append(f"the energies of {_listed(given)} are given, and the same for each value")
    return f"{name}: {'; '.join(parts) or 'no energy of an access depends on it'}"


def _listed(actions: Iterable[_Action]) -> str:
    by_component: dict[str, list[str]] = {}
    for component, action in actions:
        by_component.setdefault(component, []).append(action)
    return ", ".join(f"{component} ({', '.join(own)})" for component, own in by_component.items())
