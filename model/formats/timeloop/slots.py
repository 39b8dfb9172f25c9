"""The nodes of an architecture as places for loops, with what the constraints ask of them."""

from __future__ import annotations

from dataclasses import dataclass

from model.architecture import StorageLevel
from model.formats.timeloop.keeping import Keeping
from model.formats.timeloop.loops import LoopConstraints
from model.mapspace import SpatialRules


@dataclass(frozen=True)
class StorageSlot:
    """A storage level.

    Parameters
    ----------
    loops
        What is asked of its temporal loops.
    level
        The level, without energies.
    keeping
        What it keeps and bypasses.
    """

    loops: LoopConstraints
    level: StorageLevel
    keeping: Keeping


@dataclass(frozen=True)
class FanoutSlot:
    """A fanout.

    Parameters
    ----------
    loops
        What is asked of its spatial loops.
    rules
        What that comes to in the canonical mapspace.
    """

    loops: LoopConstraints
    rules: SpatialRules


Slot = StorageSlot | FanoutSlot
