"""Einsums of networks without a mapping, and why: for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.cost.report import Violation
from model.spec.places import Places
from solver.network.result import NetworkResult
from solver.reasons import Reason
from solver.report.document import violation_document
from solver.report.reasons import INDENT, reason_document, reason_lines
from solver.report.text import violation_text


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
    for own in result.layers:
        transfer = own.layer.transfer if own.result is None else None
        reasons = () if own.result is None else own.result.reasons
        violations = () if transfer is None else transfer.violations
        if reasons or violations:
            names = (other.layer.name for other in result.layers if other.searched_as == own.searched_as)
            yield Failure(tuple(names), reasons, violations)


def failure_lines(failure: Failure, places: Places) -> Iterator[str]:
    """Yield why Einsums have no mapping, with the lines of the user's files; `places` has their text."""
    yield from reason_lines(failure.reasons, places)
    yield from (f"{INDENT}{violation_text(found)}\n" for found in failure.violations)


def failure_document(failure: Failure) -> dict[str, object]:
    """Return a failure as JSON; docs/sweep.md lists the keys."""
    return {
        "einsums": list(failure.names),
        "reasons": [reason_document(reason) for reason in failure.reasons],
        "violations": [violation_document(found) for found in failure.violations],
    }
