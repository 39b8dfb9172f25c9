"""Which user-defined rules leave no mapping: the search decides, as the feasibility model knows none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from model.mapspace import Mapspace
from model.rules import Rule
from model.source_ref import SourceRef
from solver.formulation.engine import map_by_formulation
from solver.result import Clock, Lever, Options, Progress, Reason, Result, Statement, Status
from solver.search.mapper import map_by_bounds


def rules_reason(
    mapspace: Mapspace, clock: Clock, status_of: Callable[[Mapspace, Clock], Status] | None = None
) -> Reason:
    """Return the rules that conflict, in a mapspace that is empty, but would not be without rules.

    A rule is left out where the others still leave no mapping, all other constraints given. `status_of` says
    whether there is a mapping, that of dense data unless another one is given.
    """
    status_of = status_of or _status
    needed: list[Rule] = []
    sufficient: list[Rule] = []  # those without which there is a mapping
    for place, rule in enumerate(mapspace.rules):
        rest = (*needed, *mapspace.rules[place + 1 :])
        status = status_of(replace(mapspace, rules=rest), clock.share(len(mapspace.rules) - place))
        if status is Status.INFEASIBLE:
            continue
        needed.append(rule)
        sufficient += [rule] if status is not Status.UNKNOWN else []
    statements = tuple(Statement(str(rule), _sources(rule)) for rule in needed)
    return Reason(
        text=_rules_headline(needed),
        sources=tuple(dict.fromkeys(source for statement in statements for source in statement.sources)),
        constraints=statements,
        irreducible=needed == sufficient,
        levers=tuple(Lever(f"without this: {rule}", sources=_sources(rule)) for rule in sufficient),
        complete=not clock.stop(),
    )


def _status(mapspace: Mapspace, clock: Clock) -> Status:
    return any_mapping(mapspace, clock).status


def any_mapping(mapspace: Mapspace, clock: Clock) -> Result:
    """Return whether there is a mapping: the search ends with the first that it finds."""
    found = False

    def hear(progress: Progress) -> None:
        nonlocal found
        found |= progress.incumbent is not None

    options = Options(objectives=mapspace.objectives[:1], time_limit_s=clock.left_s)
    search = map_by_bounds if mapspace.has_simple_rules else map_by_formulation
    return search(mapspace, options, hear, lambda: found or clock.stop())


def _sources(rule: Rule) -> tuple[SourceRef, ...]:
    return () if rule.source is None else (rule.source,)


def _rules_headline(rules: Sequence[Rule]) -> str:
    if len(rules) == 1:
        return "no mapping that satisfies all other constraints satisfies this rule"
    return f"no mapping that satisfies all other constraints satisfies these {len(rules)} rules together"
