"""First touches: whether the first access to an output word reads its previous value."""

from __future__ import annotations

from fractions import Fraction

from model.architecture import StorageLevel
from model.problem import Dataspace


def reads_firsts(level: StorageLevel, space: Dataspace) -> bool:
    """Whether first touches of a dataspace's words at a level need a read and a fill, as other accesses do.

    This holds for operands, for outputs with given first values, and if the level requires it.
    """
    return not space.read_write or space.given or space.name in level.rmw_first_update


def free_share(level: StorageLevel, space: Dataspace) -> Fraction:
    """Share of the first touches of a dataspace's words at a level that need neither a read nor a fill."""
    return Fraction(0) if reads_firsts(level, space) else level.free_share(space.name)
