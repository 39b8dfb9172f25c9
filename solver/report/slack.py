"""What the optimum leaves unused, and how it moves with the limits: tables and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from rich.table import Table

from model.architecture import BANDWIDTHS
from model.cost.slack import CAPACITY, Resource, Slack
from solver.report.figures import count_text, objective_text, percent, significant
from solver.report.tables import NOTHING, plain_table
from solver.result import Result, Status
from solver.sensitivity import FACTORS, Effect

RESOURCES: dict[Resource, str] = {
    CAPACITY: "capacity",
    **{resource: resource.replace("_", " ") for resource in BANDWIDTHS},
}
UNITS: dict[Resource, str] = {CAPACITY: "words", **dict.fromkeys(BANDWIDTHS, "words/cycle")}
HEADINGS = {Fraction(1, 2): "Halved", Fraction(2): "Doubled"}
UNCHANGED = "unchanged"


def slack_table(slacks: Iterable[Slack]) -> Table:
    """Return a row per limit of one instance: its size, and what the mapping uses and leaves of it."""
    table = _level_table("Limit", "Used", "Unused", "Of limit")
    previous = ""
    for slack in slacks:
        figures = (amount_text(slack.resource, part) for part in (slack.limit, slack.used, slack.unused))
        unit = UNITS[slack.resource]
        table.add_row(
            _once(slack.level, previous),
            RESOURCES[slack.resource],
            unit,
            *figures,
            percent(slack.unused_share),
        )
        previous = slack.level
    return table


def sensitivity_table(base: Result, effects: Iterable[Effect]) -> Table:
    """Return a row per limit: the optimum if it is halved and doubled, and by how much it moves."""
    table = _level_table(*(heading for name in HEADINGS.values() for heading in (name, "Optimum", "Change")))
    rows: dict[tuple[str, Resource], dict[Fraction, Effect]] = {}
    for effect in effects:
        key = (effect.variation.level, effect.variation.resource)
        rows.setdefault(key, {})[effect.variation.factor] = effect
    previous = ""
    for (level, resource), by_factor in rows.items():
        cells = (cell for factor in FACTORS for cell in _effect_cells(by_factor.get(factor), base))
        table.add_row(_once(level, previous), RESOURCES[resource], UNITS[resource], *cells)
        previous = level
    return table


def slack_document(slacks: Iterable[Slack]) -> dict[str, Mapping[str, float]]:
    """Return the limits of one level by resource."""
    return {
        slack.resource: {
            "limit": _number(slack.limit),
            "used": _number(slack.used),
            "unused": _number(slack.unused),
        }
        for slack in slacks
    }


def effect_document(effect: Effect) -> dict[str, object]:
    """Return one variation and its optimum."""
    result = effect.result
    return {
        "level": effect.variation.level,
        "resource": effect.variation.resource,
        "factor": float(effect.variation.factor),
        "limit": _number(effect.limit),
        "status": result.status.value,
        "termination": result.termination.value,
        "value": result.reported_value,
        "bound": result.reported_bound,
        "energy_pj": None if result.evaluation is None else result.evaluation.energy_pj,
        "cycles": None if result.evaluation is None else result.evaluation.cycles,
        "ratio": None if effect.ratio is None else float(effect.ratio),
        "later_ratios": [None if ratio is None else float(ratio) for ratio in effect.later_ratios],
        "searched": effect.searched,
    }


def amount_text(resource: Resource, amount: Fraction) -> str:
    """Return words exactly, words per cycle with five significant digits."""
    if resource == CAPACITY or amount.denominator == 1:
        return count_text(int(amount))
    return significant(amount)


def change_text(ratio: Fraction | None) -> str:
    """Return by how much a value moved, with its sign.

    Parameters
    ----------
    ratio
        New value over old one; None where one of them is missing.
    """
    if ratio is None:
        return NOTHING
    if ratio == 1:
        return UNCHANGED
    sign = "+" if ratio > 1 else "-"
    return f"{sign}{percent(abs(ratio - 1))}"


def _effect_cells(effect: Effect | None, base: Result) -> tuple[str, str, str]:
    """Return the limit, the optimum and its change; anything but a proven optimum says what it is."""
    if effect is None:
        return (NOTHING,) * 3
    result = effect.result
    limit = amount_text(effect.variation.resource, effect.limit)
    if result.value is None:
        return limit, result.status.value, NOTHING
    value = objective_text(base.objective, result.value, base.units_per_pj)
    suffix = "" if result.status is Status.OPTIMAL else f" ({result.status.value})"
    return limit, value + suffix, _change(effect)


def _change(effect: Effect) -> str:
    """Return by how much the first objective moved; if it did not, the next one that did, with its name."""
    for name, ratio in zip(effect.result.objectives[1:], effect.later_ratios, strict=False):
        if effect.ratio == 1 and ratio not in (1, None):
            return f"{change_text(ratio)} {name}"
    return change_text(effect.ratio)


def _level_table(*figures: str) -> Table:
    table = plain_table("Level", "Resource", "Unit")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _once(name: str, previous: str) -> str:
    return "" if name == previous else name


def _number(amount: Fraction) -> float:
    return amount.numerator if amount.denominator == 1 else float(amount)
