"""The canonical sweep: variants of a design."""

from __future__ import annotations

from dataclasses import dataclass

from model.cascade import Network

MESHES = ("meshX", "meshY")
"""What a fanout has in the place of attributes."""

Point = tuple[str, str, tuple[tuple[str, str], ...]]
"""Workload, architecture and settings, which no other variant of a sweep has."""


@dataclass(frozen=True)
class Variant:
    """One point of a sweep: workload, architecture and settings by name, and what is to be mapped."""

    workload: str
    architecture: str
    settings: tuple[tuple[str, str], ...]  # as written, such as ``("buffer.depth", "1024")``
    network: Network

    @property
    def point(self) -> Point:
        """What tells it from the others."""
        return self.workload, self.architecture, self.settings
