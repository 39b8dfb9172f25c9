"""Where something stands in the user's files: all that the canonical problem knows of their text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Where a constraint stands in the user's files (1-based line and column)."""

    file: str
    line: int
    column: int
