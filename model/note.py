"""What a user should know of how their text was read, beside the answer."""

from __future__ import annotations

from dataclasses import dataclass

from model.source_ref import SourceRef

Value = str | int


@dataclass(frozen=True, slots=True)
class Note:
    """A note for people: one sentence, the names and figures in it, and where it applies.

    A sentence with values has a replacement field of `str.format` for each of them. Notes that differ
    in values only say the same of several things.
    """

    sentence: str
    values: tuple[Value, ...] = ()
    place: SourceRef | None = None

    @property
    def text(self) -> str:
        """What it says, without the place."""
        return self.sentence.format(*self.values) if self.values else self.sentence

    def __str__(self) -> str:
        return self.text if self.place is None else f"{self.place}: {self.text}"
