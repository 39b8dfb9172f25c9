"""Paths whose Einsums spread tensors alike, out of one that leaves open how: for good mappings soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.objective import objective_value
from solver.fusion.labels import Label, Step
from solver.fusion.path import PathSearch

MOST = 500
"""Labels at a cut that are looked at."""


def is_open(search: PathSearch, step: Step) -> bool:
    """Whether a step leaves open how a tensor is spread, or a held tile parted."""
    has_open = step.kind is not None and search.space.stores.is_open(step.kind)
    return has_open or any(tile.spread is None for tile in step.stores)


def agreed(search: PathSearch, steps: Sequence[Step], limit: int | None) -> list[Step] | None:
    """The best path with the bodies, and the stored and held tiles, of another one, that leaves nothing open.

    By what is known of the edges, and if it is below a limit; None where there is none.
    """
    einsums = search.space.einsums
    keys = {(tile.tensor, tile.level, step.frames) for step in steps for tile in step.stores}
    keys.update((einsums[step.place].name, 0, step.frames) for step in steps if step.held)
    successors = replace(search.successors, by_spread=keys)

    def value(label: Label) -> int:
        return objective_value(search.objective, label.energy, label.cycles)

    labels = [search.start(0, frozenset())]
    for step in steps:
        best: dict[object, Label] = {}
        opened = (_opened(search, label, step) for label in labels)
        following = (own for label in opened for own in successors.of(label) if _is_alike(own.step, step))
        for label in following:
            known = best.get(label.key)
            best[label.key] = label if known is None or value(label) < value(known) else known
        labels = sorted(best.values(), key=value)[:MOST]
    if not labels or (limit is not None and value(labels[0]) >= limit):
        return None
    return labels[0].steps()


def _opened(search: PathSearch, label: Label, step: Step) -> Label:
    """A label with the bodies that begin with a step."""
    for frame in step.frames[len(label.frames) :]:
        label = search.with_body(label, frame, (1,))
    return label


def _is_alike(one: Step | None, other: Step) -> bool:
    if one is None or (one.frames, one.held) != (other.frames, other.held):
        return False
    return [tile[:2] + tile[3:5] for tile in one.stores] == [tile[:2] + tile[3:5] for tile in other.stores]
