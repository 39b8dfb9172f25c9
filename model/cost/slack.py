"""What a mapping leaves unused of the limits of its storage levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from model.architecture import BANDWIDTHS, Architecture, Bandwidth, StorageLevel
from model.cost.prices import network_latency
from model.cost.report import Evaluation, LevelCost

CAPACITY: Final = "capacity"

Resource = Literal["capacity"] | Bandwidth
RESOURCES: tuple[Resource, ...] = (CAPACITY, *BANDWIDTHS)


@dataclass(frozen=True, slots=True)
class Slack:
    """One limit of a storage level, per instance, and how much of it a mapping uses.

    Parameters
    ----------
    level
        Name of the storage level.
    resource
        Out of `RESOURCES`: ``capacity`` in words, or a bandwidth in words per cycle.
    limit, used
        The usable capacity and what the tiles take of it; or the bandwidth, and the words of the whole
        run over its cycles, without those of filling and draining the networks. Words count towards
        bandwidths with the scales of their dataspaces.
    """

    level: str
    resource: Resource
    limit: Fraction
    used: Fraction

    @property
    def unused(self) -> Fraction:
        """What is left, in the unit of `limit`; negative where a mapping breaks a capacity."""
        return self.limit - self.used

    @property
    def unused_share(self) -> Fraction:
        """`unused` over `limit`, 0 for a limit of 0."""
        return self.unused / self.limit if self.limit else Fraction(0)


def slacks(architecture: Architecture, evaluation: Evaluation) -> tuple[Slack, ...]:
    """Return what an evaluation says about every limit of an architecture.

    A level without a limit of a kind has no entry for it. Bandwidths are averages over the run: the
    level that decides the latency uses all of its scarcest one, but for rounding up to whole cycles.

    Parameters
    ----------
    architecture
        The hardware.
    evaluation
        Of a mapping onto it.

    Returns
    -------
    tuple of Slack
        Outermost level first, in the order of `RESOURCES` within a level.
    """
    cycles = evaluation.cycles - network_latency(architecture)
    pairs = zip(architecture.levels, evaluation.levels, strict=True)
    return tuple(slack for level, cost in pairs for slack in _level_slacks(level, cost, cycles))


def _level_slacks(level: StorageLevel, cost: LevelCost, cycles: int) -> Iterator[Slack]:
    if level.usable_words is not None:
        yield Slack(level.name, CAPACITY, Fraction(level.usable_words), Fraction(cost.size_words))
    reads = sum((level.scale(space.dataspace) * space.reads for space in cost.dataspaces), Fraction(0))
    written = sum(
        (level.scale(space.dataspace) * (space.fills + space.updates) for space in cost.dataspaces),
        Fraction(0),
    )
    for resource, words in zip(BANDWIDTHS, (reads, written, reads + written), strict=True):
        limit = level.bandwidth(resource)
        if limit is not None:
            yield Slack(level.name, resource, limit, words / cycles)
