"""The least traffic of a cascade whose intermediates may stay in the buffer, at some capacities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from model.architecture import StorageLevel
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.report import FusedEvaluation
from model.objective import ENERGY
from solver.fusion import FusedResult, fuse_cascade
from solver.result import Clock, Options, Status, relative_gap


@dataclass(frozen=True)
class FusedPoint:
    """What is known of the least traffic with a buffer of so many bits.

    Parameters
    ----------
    value_bits
        Traffic of the best mapping found; None without one.
    bound_bits
        No mapping of the searched space moves less.
    room_bits
        What the mapping takes of the buffer: the point holds from there on.
    found_by, bounded_by
        The searches that the mapping and the bound come from: at this capacity, a smaller and a larger one.
    """

    capacity_bits: int
    value_bits: int | None
    bound_bits: int
    room_bits: int | None
    found_by: FusedResult | None = field(default=None, repr=False)
    bounded_by: FusedResult | None = field(default=None, repr=False)

    @property
    def status(self) -> Status:
        """OPTIMAL only if bound and value meet."""
        if self.value_bits is None:
            return Status.UNKNOWN
        return Status.OPTIMAL if self.value_bits == self.bound_bits else Status.FEASIBLE

    @property
    def gap(self) -> float | None:
        """By how much less the traffic might be, as a share."""
        return relative_gap(self.value_bits, self.bound_bits)


@dataclass(frozen=True)
class FusedCurve:
    """Points by rising capacities, and what the searched space leaves out, as phrases."""

    points: tuple[FusedPoint, ...]
    restrictions: tuple[str, ...]


def fused_curve(
    cascade: Cascade,
    capacities_bits: Sequence[int],
    clock: Clock,
    on_capacity: Callable[[int], None] | None = None,
) -> FusedCurve:
    """Search the least traffic of a cascade at some capacities, from the largest one down.

    A mapping that is proven holds for all capacities down to the room that it takes. A bound holds for all
    smaller capacities, and a mapping for all larger ones.

    Parameters
    ----------
    cascade
        On a memory and a buffer, of which each bit that the memory reads or writes costs one unit of energy.
    capacities_bits
        Of the buffer.
    clock
        Each search has an equal share of the time left.
    on_capacity
        Called with each capacity before its search.

    Returns
    -------
    FusedCurve
        A point for each capacity; of one that there was no time for, with the bound of a larger one alone.

    Raises
    ------
    NotSearchedError
        A ValueError: the cascade has what the search does not know.
    """
    found: list[FusedPoint] = []
    restrictions: tuple[str, ...] = ()
    descending = sorted(set(capacities_bits), reverse=True)
    for number, capacity in enumerate(descending):
        above = found[-1] if found else None
        if above is not None and _holds_at(above, capacity):
            found.append(replace(above, capacity_bits=capacity))
            continue
        if clock.stop():
            found.append(_unsearched(capacity, above))
            continue
        if on_capacity is not None:
            on_capacity(capacity)
        own = clock.share(len(descending) - number)
        options, sized = Options(time_limit_s=own.left_s, jobs=1), _with_buffer(cascade, capacity)
        result = fuse_cascade(sized, ENERGY, options, should_stop=own.stop, grain=word_bits(cascade))
        restrictions = result.restrictions
        found.append(_point(result, capacity, above))
    return FusedCurve(tuple(_with_mappings_of_smaller(found[::-1])), restrictions)


def _holds_at(point: FusedPoint, capacity_bits: int) -> bool:
    is_proven = point.status is Status.OPTIMAL
    return is_proven and point.room_bits is not None and point.room_bits <= capacity_bits


def _unsearched(capacity: int, above: FusedPoint | None) -> FusedPoint:
    """A point that only larger buffers say something about."""
    if above is None:
        return FusedPoint(capacity, None, 0, None)
    return replace(above, capacity_bits=capacity, value_bits=None, room_bits=None, found_by=None)


def _point(result: FusedResult, capacity: int, above: FusedPoint | None) -> FusedPoint:
    """The point of a result; what bounds a larger buffer bounds a smaller one.

    Only whole words move, so that the bound is rounded up to a multiple of their bits.
    """
    bound, source = whole_words(result.cascade, result.bound or 0), result
    if above is not None and above.bounded_by is not None and above.bound_bits > bound:
        bound, source = above.bound_bits, above.bounded_by
    if result.value is None or result.evaluation is None:
        return FusedPoint(capacity, None, bound, None, None, source)
    room = _room_bits(result.cascade, result.evaluation)
    return FusedPoint(capacity, result.value, bound, room, result, source)


def _with_mappings_of_smaller(points: Sequence[FusedPoint]) -> Iterator[FusedPoint]:
    """Yield points by rising capacities, each with the best mapping that fits it."""
    best: FusedPoint | None = None
    for point in points:
        value = point.value_bits
        if best is None or best.value_bits is None or (value is not None and value < best.value_bits):
            best = point
        yield replace(point, value_bits=best.value_bits, room_bits=best.room_bits, found_by=best.found_by)


def whole_words(cascade: Cascade, bits: int) -> int:
    """Round traffic up to whole words: no part of one moves."""
    word = word_bits(cascade)
    return -(-bits // word) * word


def _buffer(cascade: Cascade) -> StorageLevel:
    return cascade.einsums[0].mapspace.architecture.levels[1]


def word_bits(cascade: Cascade) -> int:
    """Bits of a word: values of all tensors have multiples of them."""
    return int(_buffer(cascade).word_bits)


def _room_bits(cascade: Cascade, evaluation: FusedEvaluation) -> int:
    """What a mapping takes of the buffer, at most at any time."""
    buffer = _buffer(cascade)
    own = (room.size_words for room in evaluation.rooms if room.memory == buffer.name)
    return int(buffer.word_bits * max(own, default=0))


def _with_buffer(cascade: Cascade, capacity_bits: int) -> Cascade:
    """The cascade with a buffer of so many bits."""
    words = capacity_bits // _buffer(cascade).word_bits

    def sized(einsum: CascadeEinsum) -> CascadeEinsum:
        mapspace = einsum.mapspace
        memory, buffer = mapspace.architecture.nodes
        assert isinstance(buffer, StorageLevel)
        nodes = (memory, replace(buffer, size_words=words))
        return replace(
            einsum, mapspace=replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
        )

    return replace(cascade, einsums=tuple(map(sized, cascade.einsums)))
