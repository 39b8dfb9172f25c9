"""What a report says, on a page or on a terminal: verdict, facts, sections with tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from model.counting import PRICED_COUNTINGS, rule_of
from solver.report.drawing import Scene
from solver.report.figures import NOTHING, count_text, energy_text, percent, significant
from solver.report.reading import Value

Cell = str | tuple[str, float]
"""A text of a table, and for figures the number by which it is sorted."""

Fact = tuple[str, str, str]
"""A name, its figure, and a remark; parts of the fact above begin with blanks."""

Tone = Literal["good", "fair", "bad", "plain"]

TONES: dict[str, Tone] = {
    "OPTIMAL": "good",
    "VALID": "good",
    "FEASIBLE": "fair",
    "INFEASIBLE": "bad",
    "UNKNOWN": "bad",
    "INVALID": "bad",
}

RULES: Mapping[str, str] = {name: rule_of(name).description for name in PRICED_COUNTINGS}

BOTH, PAGE, TERMINAL, VERBOSE, DETAIL = "both", "page", "terminal", "verbose", "detail"
"""Where a section is shown. Terminals show what is `VERBOSE` or `DETAIL` if asked to; pages, no `DETAIL`."""


@dataclass(frozen=True)
class Figure:
    """A picture that is drawn for a wide and for a narrow page."""

    draw: Callable[[float], Scene | None]
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """A table; headings of figures begin with ``>``, of long texts with ``...``; without any it is a grid.

    A narrow terminal can do without the columns in `optional`, the last one first. If it `is_grouped`, a
    terminal shows a repeated first cell once.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    optional: Sequence[str] = ()
    is_grouped: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a report under a heading."""

    title: str
    text: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()  # shown as they are, in a typewriter face
    is_folded: bool = False
    where: str = BOTH
    remarks: Sequence[str] = ()  # sentences below the tables
    chart: Callable[[int], Sequence[str]] | None = None  # what a terminal of some width shows of the figures

    def __bool__(self) -> bool:
        """Whether there is anything below the heading."""
        return bool(self.text or self.figures or self.tables or self.lines or self.remarks or self.chart)


@dataclass(frozen=True)
class ConflictReport:
    """The reasons why something has no mapping, under a heading, with further lines below."""

    head: str
    reasons: Sequence[Value]
    lines: Sequence[str] = ()


def conflicts_of(document: Value) -> Sequence[ConflictReport]:
    """Return why a document has no mapping, if that is so."""
    reasons = document["reasons"].entries()
    return [ConflictReport("", reasons)] if reasons else []


@dataclass(frozen=True)
class Page:
    """A report: the verdict first, then facts, sections, notes, and the conflicts if nothing fits."""

    title: str
    status: str
    verdict: str
    facts: Sequence[Fact] = ()
    sections: Sequence[Section] = ()
    subtitle: str = ""
    notes: Sequence[str] = ()
    conflicts: Sequence[ConflictReport] = ()
    check: str = ""  # the verdict of the checker, if it was called


def joined(parts: Iterable[str]) -> str:
    """Return the parts of a verdict that there are."""
    return "; ".join(filter(None, parts))


def totals_section(facts: Sequence[Fact]) -> Section:
    """Return facts as a table, which a terminal shows below the sections that they sum up."""
    return Section("Totals", tables=[Table("", (), facts)], where=TERMINAL)


def counting_fact(document: Value) -> Fact:
    """Return the rule by which words and cycles are counted."""
    counting = document["counting"].text()
    return "Counting", counting, RULES.get(counting, "")


def si_facts(document: Value, operations: str = "2 operations per compute") -> list[Fact]:
    """Return energy, latency, EDP, power and throughput in SI units; nothing without a clock.

    `operations` says what counts as one.
    """
    if document.get("latency_s").raw is None:
        return []
    joules, seconds, edp = (document[key].number() for key in ("energy_j", "latency_s", "edp_j_s"))
    facts: list[Fact] = [("In SI units", f"{joules:.6g} J, {seconds:.6g} s", f"EDP {edp:.6g} J*s")]
    quoted = {"W": "power_w", "TOPS": "tops", "TOPS/W": "tops_per_w"}
    known = {unit: document.get(key) for unit, key in quoted.items()}
    if all(figure.raw is not None for figure in known.values()):
        texts = [f"{significant(figure.number())} {unit}" for unit, figure in known.items()]
        time = f"{significant(1e3 * seconds)} ms"
        facts.append(("Power, speed", ", ".join((time, *texts)), operations))
    return facts


SI_UNITS = ("ms", "W")


def si_cells(document: Value) -> tuple[Cell, Cell]:
    """Return milliseconds and watts for a table."""
    return figure_cell(1e3 * document["latency_s"].number()), figure_cell(document["power_w"].number())


def count_cell(number: float) -> Cell:
    """Return a whole number for a table."""
    return count_text(int(number)), number


def energy_cell(picojoules: float) -> Cell:
    """Return an energy for a table."""
    return energy_text(picojoules), picojoules


def figure_cell(number: float) -> Cell:
    """Return a number with five significant digits for a table."""
    return significant(number), number


def share_cell(part: float, whole: float) -> Cell:
    """Return a part of a whole for a table; of nothing, all parts are nothing."""
    share = part / whole if whole else 0.0
    return percent(share), share


def cost_cells(figures: Value) -> tuple[Cell, Cell, Cell]:
    """Return energy, cycles and EDP of something that may have no mapping."""
    if figures.raw is None or figures["energy_pj"].raw is None:
        return NOTHING, NOTHING, NOTHING
    return (
        energy_cell(figures["energy_pj"].number()),
        count_cell(figures["cycles"].count()),
        figure_cell(figures["edp_pj_cycles"].number()),
    )
