"""Reports for people: the sections of a result, notes, and the loop nest of a mapping."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.report import BrokenRule, Evaluation, Violation
from model.cost.slack import slacks
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.note import Note
from model.places import gathered
from model.problem import Problem
from model.rules.language import Quantity, Value
from model.text.source import Places
from solver.report.figures import (
    count_text,
    counted,
    einsum_text,
    objective_text,
    percent,
    seconds_text,
)
from solver.report.reasons import reason_lines
from solver.report.tables import (
    areas_table,
    hierarchy_table,
    levels_table,
    prices_table,
    problem_table,
    sensitivity_table,
    size_table,
    slack_table,
    stages_table,
    totals_table,
)
from solver.result import REMAINDERS_S, Narrower, Result, StageCost, Statistics, Status, Termination
from solver.sensitivity import Effect, variations

STYLES = {
    Status.OPTIMAL: "bold green",
    Status.FEASIBLE: "bold yellow",
    Status.INFEASIBLE: "bold red",
    Status.UNKNOWN: "bold red",
}
ENDINGS = {
    Termination.PROVEN: "",
    Termination.TIME_LIMIT: "stopped by the time limit",
    Termination.REMAINDER_LIMIT: f"stopped by the default limit of {REMAINDERS_S:g} s on each search for "
    "remainders; --time-limit none runs until proven, --factors perfect considers divisors only",
    Termination.GAP: "within the requested gap",
    Termination.INTERRUPTED: "interrupted",
    Termination.MEMORY_LIMIT: "stopped by the memory limit",
    Termination.CHOICES: "too many choices of kept tensors or spatial loops for bounds",
    Termination.TOO_LARGE: "too large for a search",
    Termination.BOUND: "bounds on Einsums whose visits differ are no closer",
    Termination.LOOP_LIMIT: "the best mapping has more temporal loops than "
    "`max_temporal_loops_in_a_mapping` allows, a limit that the search does not model",
}


def print_result(
    console: Console,
    mapspace: Mapspace,
    result: Result,
    places: Places | None = None,
    effects: Sequence[Effect] = (),
    verbose: bool = False,
) -> None:
    """Print the status line of a search, mapping, totals, notes and reasons; with `verbose` all tables."""
    console.print(status_line(result.status, status_parts(result)))
    if result.mapping is not None and result.evaluation is not None:
        _print_cost(console, mapspace, result.mapping, result.evaluation, verbose, verbose)
    if effects:
        print_sensitivity(console, mapspace, result, effects)
    print_notes(console, mapspace.notes)
    for line in reason_lines(result.reasons, places or {}):
        console.print(line)


def print_sensitivity(
    console: Console, mapspace: Mapspace, result: Result, effects: Sequence[Effect]
) -> None:
    """Print how the optimum moves with one limit at a time."""
    heading = (
        f"of {', then '.join(result.objectives)} to one limit at a time, with unchanged energies per access"
    )
    if any(level.size_words and level.multiple_buffering != 1 for level in mapspace.architecture.levels):
        heading += "; capacities before multiple buffering"  # as slack has them after it
    console.print(title("Sensitivity"), heading)
    console.print(sensitivity_table(result, effects))
    left = len(tuple(variations(gathered(mapspace).architecture))) - len(effects)
    if left > 0:
        console.print(f"Interrupted: {counted(left, 'limit')} left untried.")


def status_line(status: Status, parts: Iterable[str]) -> Text:
    """Return the first line of a report: the status, and what there is to say about it."""
    return Text.assemble((status.value, STYLES[status]), " ", "; ".join(filter(None, parts)))


def status_parts(result: Result) -> tuple[str, ...]:
    """Return value, bound and gap; why the search ended; the work done."""
    return outcome_text(result), ENDINGS[result.termination], work_text(result.statistics)


def work_text(statistics: Statistics) -> str:
    """Return how much work a search was."""
    priced = f"{counted(statistics.mappings_priced, 'mapping')} priced"
    return f"{counted(statistics.states, 'state')}, {priced}, {seconds_text(statistics.seconds)}"


def print_stages(console: Console, stages: Sequence[StageCost]) -> None:
    """Print what each stage of a search took."""
    if stages:
        console.print(title("Search"))
        console.print(stages_table(stages))


def print_evaluation(
    console: Console, mapspace: Mapspace, mapping: Mapping, evaluation: Evaluation, verbose: bool = False
) -> None:
    """Print a priced mapping, and the limits of the hardware that it breaks; with `verbose` all tables."""
    print_verdict(console, evaluation.violations, evaluation.broken_rules)
    _print_cost(console, mapspace, mapping, evaluation, True, verbose)
    print_notes(console, mapspace.notes)


def print_verdict(
    console: Console, violations: Sequence[Violation], broken: Sequence[BrokenRule] = ()
) -> None:
    """Print whether a mapping is valid, the limits of the hardware that it breaks, and the rules."""
    if not violations and not broken:
        console.print(
            Text.assemble(("VALID", "bold green"), " the mapping respects every limit of the hardware")
        )
        return
    what = "limits of the hardware" if violations else "rules"
    console.print(Text.assemble(("INVALID", "bold red"), f" the mapping breaks {what}"))
    for line in (*map(violation_text, violations), *map(broken_rule_text, broken)):
        console.print(f"  {line}", markup=False)


def broken_rule_text(broken: BrokenRule) -> str:
    """Return a rule of the user's own that is broken, with the figures that it is about."""
    figures = (f"{asked} is {_figure_text(asked, value)}" for asked, value in broken.figures)
    return f"{broken.rule} ({', '.join(figures)})"


def _figure_text(asked: Quantity, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value or "none"
    return f"{float(value):,.6g} pJ" if asked.kind == "energy" else count_text(int(value))


def violation_text(violation: Violation) -> str:
    """Return what is broken, with both figures."""
    demand, limit = count_text(violation.demand), f"{float(violation.limit):,g}"
    if violation.kind == "capacity" and violation.parts:
        *others, last = _places_text(violation)
        joined = f"{', '.join(others)} and {last} exceed" if others else f"{last} exceeds"
        return f"{violation.node}: {joined} {limit}"
    if violation.kind == "capacity":
        return f"{violation.node}: tiles take {demand} words of {limit}"
    if violation.kind == "metadata":
        return f"{violation.node}: metadata takes {demand} bits of {limit}"
    if violation.kind == "min_utilization":
        return f"{violation.node}: tiles take {demand} words, at least {limit} are required"
    return f"{violation.node}: {demand} children along {violation.kind[-1].upper()}, there are {limit}"


def _places_text(violation: Violation) -> Iterator[str]:
    """Yield what the tiles at the places of a memory take, such as ``Inputs 512 at the inner place``."""
    levels = list(dict.fromkeys(level for _, level, _ in violation.parts))
    for dataspace, level, words in violation.parts:
        yield f"{dataspace} {count_text(words)} {_place_text(levels.index(level), len(levels))}"


def _place_text(number: int, places: int) -> str:
    if places == 2:
        return f"at the {('outer', 'inner')[number]} place"
    return f"at place {number + 1} of {places}"


def print_check(console: Console, mapspace: Mapspace) -> None:
    """Print problem, hierarchy, prices, areas as far as known, and the size of the mapspace."""
    console.print(heading(mapspace.problem, "Problem"))
    console.print(einsum_text(mapspace.problem))
    console.print(problem_table(mapspace.problem))
    console.print(title("Hierarchy, outermost first"))
    console.print(hierarchy_table(mapspace))
    console.print(title("Energy per access"))
    architecture = gathered(mapspace).architecture
    console.print(prices_table(architecture))
    if any(component.area_um2 is not None for component, _ in architecture.components):
        console.print(title("Area"))
        console.print(areas_table(architecture))
    console.print(title("Mapspace"))
    console.print(size_table(mapspace))
    if mapspace.rules:
        console.print(title("Rules"))
    for rule in mapspace.rules:
        console.print(str(rule), markup=False)
    print_notes(console, mapspace.notes)


def _print_cost(
    console: Console,
    mapspace: Mapspace,
    mapping: Mapping,
    evaluation: Evaluation,
    has_levels: bool,
    verbose: bool,
) -> None:
    """Print mapping and totals, accesses by level if asked for; with `verbose` slack and prices as well."""
    problem, architecture = mapspace.problem, mapspace.architecture
    console.print(heading(problem, "\nMapping"))
    for line in loop_nest(problem, architecture, mapping):
        console.print(line)
    if has_levels:
        scope = "(tiles, reads, fills, updates: words of one instance; energy: all instances)"
        console.print(title("Levels"), scope)
        console.print(levels_table(architecture, evaluation))
    unused = slacks(architecture, evaluation)
    if verbose and unused:
        console.print(title("Slack"), "(of one instance; bandwidths: average over the run)")
        console.print(slack_table(unused))
    if verbose:
        console.print(title("Energy per access"))
        console.print(prices_table(architecture))
    console.print(title("Totals"))
    console.print(totals_table(architecture, evaluation, mapspace.counting))


def outcome_text(result: Result) -> str:
    """Return value, bound and gap, and the later objectives."""
    if result.status is Status.INFEASIBLE:
        return "no mapping satisfies all constraints"
    value = _shown(result, result.objective, result.value)
    found = "no mapping was found" if result.value is None else f"{result.objective} {value}"
    parts = [found, f"bound {_shown(result, result.objective, result.bound)}"]
    if result.gap is not None:
        parts.append(f"gap {percent(result.gap)}")
    if result.evaluation is not None:
        parts.extend(_later_values(result, result.evaluation))
    parts += narrower_parts(result, result.value)
    return ", ".join(parts)


def narrower_parts(result: Result, value: int | None) -> Iterator[str]:
    """Yield what remainders and uneven tiles save; of an open result, what is known of narrower mapspaces."""
    perfect, even = result.perfect_factors, result.even_tiles
    if value is None or result.status is not Status.OPTIMAL:
        if perfect is not None:
            yield _best_text(result, perfect, "without remainders")
        if even is not None:
            yield _best_text(result, even, "with even tiles" + (", no remainders" if perfect else ""))
        return
    if even is not None and perfect is None:
        yield _saved_text(result, value, even, "uneven tiles")
    elif even is not None and perfect is not None and perfect.value is not None:
        yield f"{_saved_text(result, perfect.value, even, 'uneven tiles')} where loops have no remainders"
    if perfect is not None:
        yield _saved_text(result, value, perfect, "remainders")


def _best_text(result: Result, narrower: Narrower, which: str) -> str:
    """Return the best mapping of a narrower mapspace, and whether that is proven."""
    if narrower.status is Status.INFEASIBLE:
        return f"nothing fits {which} (proven)"
    if narrower.value is None:
        return f"nothing found {which}"
    value, bound = (_shown(result, result.objective, own) for own in (narrower.value, narrower.bound))
    if narrower.status is Status.OPTIMAL:
        return f"the best {which} is {value} (proven)"
    return f"the best found {which} is {value} (bound {bound})"


def _saved_text(result: Result, value: int, narrower: Narrower, what: str) -> str:
    """Return what remainders or uneven tiles save."""
    if narrower.status is Status.INFEASIBLE:
        return f"nothing fits without {what}"
    if narrower.value is None:
        return f"without {what} nothing was found"
    if narrower.value == value:
        return f"{what} save nothing"
    return f"{what} save {percent(1 - value / narrower.value)} {result.objective}"


def _later_values(result: Result, evaluation: Evaluation) -> Iterator[str]:
    """Yield the values of the second and later objectives, with their bounds as far as known."""
    for objective, bound in zip_longest(result.objectives[1:], result.later_bounds):
        value = _shown(result, objective, evaluation.value(objective))
        yield f"then {objective} {value} (bound {_shown(result, objective, bound)})"


def _shown(result: Result, objective: str, quantity: int | None) -> str:
    return objective_text(objective, quantity, result.units_per_pj)


def heading(problem: Problem, what: str) -> Text:
    """Return the first line of a report about a problem."""
    return Text.assemble((what, "bold"), f" of {problem.name}" if problem.name else "")


def title(text: str) -> Text:
    """Return the line above a table."""
    return Text.assemble("\n", (text, "bold"))


def print_notes(console: Console, notes: Iterable[Note | str]) -> None:
    """Print notes, one a line."""
    for note in notes:
        console.print(f"note: {note}")


def brief_notes(notes: Iterable[Note]) -> Iterator[str]:
    """Yield notes; of those on one place that differ in their values only, the first with a count."""
    kinds: dict[Hashable, list[Note]] = {}
    for note in notes:
        kinds.setdefault(_kind(note), []).append(note)
    for first, *others in kinds.values():
        more = f" (and {len(others)} more like it)" if others else ""
        yield f"{first}{more}"


def _kind(note: Note) -> Hashable:
    """Return a note's sentence and place without names and figures; the note itself if it has no place."""
    return note if note.place is None else (note.place, note.sentence)


STEP = "  "


def loop_nest(problem: Problem, architecture: Architecture, mapping: Mapping) -> tuple[str, ...]:
    """Return the lines of the loop nest, outermost loop first, without loops of bound 1.

    A storage level heads its temporal loops with its name and the dataspaces it keeps, a fanout
    its spatial loops. ``last`` is what a loop has in the last pass over its dimension if that is cut short.
    """
    lines: list[str] = []
    depth = 0
    remainders = mapping.remainders(problem.bound)
    for node, chosen, last in zip(architecture.nodes, mapping.nodes, remainders, strict=True):
        loops = tuple(_loops(chosen, last))
        if isinstance(node, StorageLevel) or loops:
            lines.append(STEP * depth + _nodeheading(problem, node, chosen))
        lines.extend(STEP * (depth + 1 + step) + loop for step, loop in enumerate(loops))
        depth += len(loops)
    lines.append(f"{STEP * depth}{architecture.compute.name}: {einsum_text(problem)}")
    return tuple(lines)


def _nodeheading(problem: Problem, node: StorageLevel | Fanout, chosen: NodeMapping) -> str:
    if not isinstance(chosen, StorageMapping):
        return f"{node.name}:"
    kept = [space.name for space in problem.dataspaces if space.name in chosen.keep]
    verb = "lets pass" if isinstance(node, StorageLevel) and node.tolls else "keeps"
    return f"{node.name} {verb} {', '.join(kept) or 'nothing'}:"


def _loops(chosen: NodeMapping, remainders: Sequence[int]) -> Iterator[str]:
    loops: Sequence[Loop | SpatialLoop] = (
        chosen.spatial if isinstance(chosen, FanoutMapping) else chosen.temporal
    )
    for loop, remainder in reversed(list(zip(loops, remainders, strict=True))):
        if loop.bound == 1:
            continue
        last = "" if remainder == loop.bound else f", last [0:{remainder})"
        spans = f"{loop.dim} in [0:{loop.bound}){last}"
        along = f" along {loop.axis.upper()}" if isinstance(loop, SpatialLoop) else ""
        yield f"parallel-for {spans}{along}" if along else f"for {spans}"
