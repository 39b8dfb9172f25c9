"""Keep masks: which storage level keeps which dataspace, as the rules of a mapspace allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from model.choices import keep_options
from model.mapspace import Mapspace
from solver.search.space.dataspaces import DataspaceView
from solver.search.stopping import Stop, Stopped

BOTH = 2
"""Options where it is free whether a level keeps a dataspace."""

KeepMask = tuple[frozenset[int], ...]
"""Per storage level (outermost first), the places of the dataspaces it keeps."""

Chain = tuple[int, ...]
"""The storage levels that keep a dataspace, outermost first."""


def chain_of(mapspace: Mapspace, mask: KeepMask, view: DataspaceView) -> Chain:
    """Levels that keep a dataspace.

    A level may pass its stream on (`StorageLevel.passing`); so with nothing kept farther out it
    counts as bypassing.
    """
    levels = mapspace.architecture.levels
    chain: list[int] = []
    for level, kept in enumerate(mask):
        if view.place in kept and (chain or view.name not in levels[level].passing):
            chain.append(level)
    return tuple(chain)


def allowed_masks(mapspace: Mapspace, views: Sequence[DataspaceView], stop: Stop) -> list[KeepMask]:
    """All keep masks that the rules leave open, those included that keep a dataspace nowhere."""
    masks: list[KeepMask] = [()]
    for level in range(len(mapspace.architecture.levels)):
        options = _level_masks(mapspace, views, level)
        masks = [
            longer for mask in masks for longer in _with_next_level(mapspace, views, mask, options, stop)
        ]
    return masks


def most_masks(mapspace: Mapspace, views: Sequence[DataspaceView]) -> int:
    """Choices of what each level keeps, before those are left out that keep nothing or cost the same."""
    options = [[len(keep_options(own, n, v.name)) for v in views] for n, own in enumerate(mapspace.keep)]
    outermost = {rules.levels[0]: _most_orders(options[rules.levels[0]]) for rules in mapspace.joint}
    inner = {level for rules in mapspace.joint for level in rules.levels[1:]}
    return math.prod(
        outermost.get(level, math.prod(own)) for level, own in enumerate(options) if level not in inner
    )


def _most_orders(options: Sequence[int]) -> int:
    """Sequences of some of the dataspaces that a memory may keep."""
    free = sum(own == BOTH for own in options)
    return sum(math.perm(free, count) for count in range(free + 1))


def _level_masks(mapspace: Mapspace, views: Sequence[DataspaceView], level: int) -> list[frozenset[int]]:
    """What one level may keep.

    With several places of a memory, one dataspace at each: equal tiles are those of places without loops
    between them. But a place may have to keep several; then it keeps these alone.
    """
    rules = mapspace.keep[level]
    masks: list[frozenset[int]] = [frozenset()]
    for view in views:
        options = keep_options(rules, level, view.name)
        masks = [mask | {view.place} if keeps else mask for keeps in options for mask in masks]
    if any(level in rules.levels for rules in mapspace.joint):
        forced = sum(view.name in rules.keep for view in views)
        return [mask for mask in masks if len(mask) <= max(1, forced)]
    return masks


def _with_next_level(
    mapspace: Mapspace,
    views: Sequence[DataspaceView],
    mask: KeepMask,
    options: Sequence[frozenset[int]],
    stop: Stop,
) -> list[KeepMask]:
    """What the keep masks of the levels so far may be with one more."""
    if stop():
        raise Stopped
    longer = ((*mask, option) for option in options)
    return [extended for extended in longer if _parallel_so_far(mapspace, views, extended)]


def _parallel_so_far(mapspace: Mapspace, views: Sequence[DataspaceView], mask: KeepMask) -> bool:
    """Whether each dataspace takes no more than one branch of every ``!Parallel``, and one where it must.

    Likewise for places of a memory, of which those that keep nothing come last.
    """
    level = len(mask) - 1
    for rules in mapspace.joint:
        if level in rules.levels[1:] and mask[level] and not mask[_before(rules.levels, level)]:
            return False
    for group in mapspace.parallel:
        counts = [sum(v.place in mask[level] for level in group.levels if level < len(mask)) for v in views]
        complete = max(group.levels) < len(mask)
        if any(count > 1 for count in counts):
            return False
        skipped = (v.name for v, count in zip(views, counts, strict=True) if count == 0)
        if complete and not all(map(group.skips, skipped)):
            return False
    return True


def _before(places: Sequence[int], place: int) -> int:
    """The place of a memory before another one."""
    return places[places.index(place) - 1]
