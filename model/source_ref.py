"""Where something stands in what the user wrote: all that the canonical problem knows of their text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["file", "setting"]
"""What text stands in: a file, or an attribute's values that are set from outside of all files."""


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Where a constraint stands in the user's text; line and column are counted from 1."""

    file: str  # for people; of a setting, the setting's name
    line: int
    column: int
    origin: Origin = "file"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"
