"""Keep masks: which storage level keeps which dataspace, as the rules of a mapspace allow."""

from __future__ import annotations

from collections.abc import Sequence

from model.choices import keep_options
from model.mapspace import Mapspace
from solver.search.space.dataspaces import DataspaceView
from solver.search.stopping import Stop, Stopped

KeepMask = tuple[frozenset[int], ...]
"""Per storage level (outermost first), the places of the dataspaces it keeps."""

Chain = tuple[int, ...]
"""The storage levels that keep a dataspace, outermost first."""


def chain_of(mapspace: Mapspace, mask: KeepMask, view: DataspaceView) -> Chain:
    """Levels that keep a dataspace.

    A level that does not coalesce it passes its stream on, so with nothing kept farther out it
    counts as bypassing.
    """
    levels = mapspace.architecture.levels
    chain: list[int] = []
    for level, kept in enumerate(mask):
        if view.place in kept and (chain or view.name not in levels[level].no_coalesce):
            chain.append(level)
    return tuple(chain)


def allowed_masks(mapspace: Mapspace, views: Sequence[DataspaceView], stop: Stop) -> list[KeepMask]:
    """All keep masks that the rules leave open, those included that keep a dataspace nowhere."""
    masks: list[KeepMask] = [()]
    for level in range(len(mapspace.architecture.levels)):
        options = _level_masks(mapspace, views, level)
        masks = [longer for mask in masks for longer in _extended(mapspace, views, mask, options, stop)]
    return masks


def _level_masks(mapspace: Mapspace, views: Sequence[DataspaceView], level: int) -> list[frozenset[int]]:
    """What one level may keep."""
    masks: list[frozenset[int]] = [frozenset()]
    for view in views:
        options = keep_options(mapspace.keep[level], level, view.name)
        masks = [mask | {view.place} if keeps else mask for keeps in options for mask in masks]
    return masks


def _extended(
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
    """Whether each dataspace takes no more than one branch of every ``!Parallel``, and one where it must."""
    for group in mapspace.parallel:
        counts = [sum(v.place in mask[level] for level in group.levels if level < len(mask)) for v in views]
        complete = max(group.levels) < len(mask)
        if any(count > 1 for count in counts):
            return False
        if complete and not group.may_skip and any(count == 0 for count in counts):
            return False
    return True
