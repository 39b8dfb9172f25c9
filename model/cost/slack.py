"""What a mapping leaves unused of the limits of its storage levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from model.architecture import BANDWIDTHS, Architecture, Bandwidth, StorageLevel
from model.cost.prices import network_latency
from model.cost.report import Evaluation, LevelCost
from model.counting.cycles import Demand, scaled_words

CAPACITY: Final = "capacity"

Resource = Literal["capacity"] | Bandwidth
RESOURCES: tuple[Resource, ...] = (CAPACITY, *BANDWIDTHS)


@dataclass(frozen=True, slots=True)
class Slack:
    """One limit of a memory, per instance, and how much of it a mapping uses.

    Parameters
    ----------
    level
        Name of the memory: that of its storage level, unless it has several.
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
    return tuple(
        slack
        for places in architecture.memories
        for slack in _memory_slacks(
            architecture.levels[places[0]], [evaluation.levels[place] for place in places], cycles
        )
    )


def _memory_slacks(level: StorageLevel, costs: Sequence[LevelCost], cycles: int) -> Iterator[Slack]:
    name, spaces = level.component, [space for cost in costs for space in cost.dataspaces]
    if level.usable_words is not None:
        size_words = sum(cost.size_words for cost in costs)
        yield Slack(name, CAPACITY, Fraction(level.usable_words), Fraction(size_words))
    moved = [(space.dataspace, space.reads, space.fills + space.updates) for space in spaces]
    yield from bandwidth_slacks(level, moved, cycles)


def bandwidth_slacks(level: StorageLevel, moved: Iterable[Demand], cycles: int) -> Iterator[Slack]:
    """Yield what an instance uses of each limited bandwidth when it moves words in so many cycles."""
    reads, written = scaled_words(level, moved)
    for resource, words in zip(BANDWIDTHS, (reads, written, reads + written), strict=True):
        limit = level.bandwidth(resource)
        if limit is not None:
            yield Slack(level.component, resource, limit, Fraction(words) / cycles)
