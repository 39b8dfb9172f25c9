"""Einsums of networks without a mapping, and why: for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from model.cost.report import Violation
from model.source_ref import SourceRef
from model.text.source import Places
from model.wording import listing
from solver.network.run import NetworkResult
from solver.report.document import violation_document
from solver.report.figures import counted
from solver.report.reasons import INDENT, reason_document, reason_lines
from solver.report.text import violation_text
from solver.result import Reason

MOST_CONFLICTS = 10
"""Conflicts that are shown with their lines."""

MOST_LIKE_IT = 10
"""Conflicts of the same lines that are named below each."""


@dataclass(frozen=True)
class Failure:
    """Einsums of one network that are the same problem and have no mapping.

    Parameters
    ----------
    names
        The Einsums.
    reasons
        The conflicts of their constraints.
    violations
        Of a copy: the levels that do not hold its tensors.
    """

    names: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    violations: tuple[Violation, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Why, without the lines."""
        return (*(reason.text for reason in self.reasons), *map(violation_text, self.violations))


def failures(result: NetworkResult) -> Iterator[Failure]:
    """Yield why layers of a network have no mapping, in their order."""
    for answer in result.layers:
        transfer = answer.layer.transfer if answer.result is None else None
        reasons = () if answer.result is None else answer.result.reasons
        violations = () if transfer is None else transfer.violations
        if reasons or violations:
            names = (other.layer.name for other in result.layers if other.searched_as == answer.searched_as)
            yield Failure(tuple(names), reasons, violations)


def failure_lines(failure: Failure, places: Places) -> Iterator[str]:
    """Yield why Einsums have no mapping, with the lines of the user's files."""
    yield from reason_lines(failure.reasons, places)
    yield from (f"{INDENT}{violation_text(found)}\n" for found in failure.violations)


def lines_of(failure: Failure) -> Hashable:
    """Return what a failure comes from: places in files, attributes that are set, too small levels."""
    places = {_without_value(source) for reason in failure.reasons for source in reason.sources}
    return frozenset(places), frozenset((found.node, found.kind) for found in failure.violations)


def _without_value(source: SourceRef) -> SourceRef:
    return replace(source, column=0) if source.origin == "setting" else source


def likewise_lines(others: Sequence[tuple[Failure, str]]) -> Iterator[str]:
    """Yield failures that the same lines lead to as one that was told, each with words on where it is."""
    for failure, where in others[:MOST_LIKE_IT]:
        yield f"Likewise {listing(failure.names)}{where}"
        yield from (f"{INDENT}{text}" for text in failure.texts)
    if len(others) > MOST_LIKE_IT:
        yield f"Likewise {len(others) - MOST_LIKE_IT} more; --json has them all"
    if others:
        yield ""


def more_line(conflicts: int) -> Iterator[str]:
    """Yield a line that says how many conflicts are left out, if any are."""
    if conflicts > MOST_CONFLICTS:
        yield f"{counted(conflicts - MOST_CONFLICTS, 'more conflict')} of other lines; --json has them all\n"


def failure_document(failure: Failure) -> dict[str, object]:
    """Return a failure as JSON; docs/sweep.md lists the keys."""
    return {
        "einsums": list(failure.names),
        "reasons": [reason_document(reason) for reason in failure.reasons],
        "violations": [violation_document(found) for found in failure.violations],
    }
