"""Where the labels of points go in a picture: on no other label, on no point, and nearest to their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import hypot

POINT_RADIUS = 4.0
"""Half the size of a point's marker; like all lengths here in the unit of a font's size."""

GAP = 1.0
"""Between a marker and its label."""


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether two rectangles have an area in common."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.top <= other.bottom or other.top <= self.bottom)

    def holds(self, other: Box) -> bool:
        """Whether another rectangle lies inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.bottom <= other.bottom and other.top <= self.top

    def distance(self, x: float, y: float) -> float:
        """Return how far a place is from the rectangle."""
        across = max(self.left - x, 0, x - self.right)
        return hypot(across, max(self.bottom - y, 0, y - self.top))


@dataclass(frozen=True)
class Label:
    """A point, and the size of the text that belongs to it."""

    x: float
    y: float
    width: float
    height: float

    @property
    def marker(self) -> Box:
        """What the point itself takes."""
        return Box(self.x - POINT_RADIUS, self.y - POINT_RADIUS, self.x + POINT_RADIUS, self.y + POINT_RADIUS)

    def at(self, offset: tuple[float, float]) -> Box:
        """Return what the text takes if its lower left corner is moved by `offset` from the point."""
        left, bottom = self.x + offset[0], self.y + offset[1]
        return Box(left, bottom, left + self.width, bottom + self.height)


def label_offsets(labels: Sequence[Label], frame: Box) -> list[tuple[float, float] | None]:
    """Return for each label where it goes, relative to its point; None where there is no room for it.

    Labels that come first have the first choice of the places around their points.
    """
    taken = [label.marker for label in labels]
    offsets: list[tuple[float, float] | None] = []
    for label in labels:
        near = (offset for offset in _around(label) if _is_nearest(label, label.at(offset), labels))
        offset = next((candidate for candidate in near if _is_free(label.at(candidate), taken, frame)), None)
        offsets.append(offset)
        taken += [] if offset is None else [label.at(offset)]
    return offsets


def _around(label: Label) -> list[tuple[float, float]]:
    """Return the places beside, above and below a point, those to the upper right first."""
    away = POINT_RADIUS + GAP
    across = (away, -away - label.width, -label.width / 2)
    up = (away, -away - label.height, -label.height / 2)
    # The last pair would cover the point itself.
    corners = sorted(product(range(3), range(3)), key=lambda pair: (sum(shift == 2 for shift in pair), pair))
    return [(across[i], up[j]) for i, j in corners[:-1]]


def _is_nearest(label: Label, box: Box, labels: Sequence[Label]) -> bool:
    """Whether no point is nearer to a label than its own: readers would take it for that one's."""
    to_label = box.distance(label.x, label.y)
    return all(box.distance(other.x, other.y) >= to_label for other in labels)


def _is_free(box: Box, taken: Sequence[Box], frame: Box) -> bool:
    return frame.holds(box) and not any(box.meets(other) for other in taken)
