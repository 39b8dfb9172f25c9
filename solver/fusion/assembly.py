"""Paths put together: the room that they leave to each Einsum, and the fused mappings that they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.fused.cascade import Cascade
from model.fused.check import FusedMappingError, check_held_spread, check_spreads
from model.fused.mapping import Body, FusedMapping, Held, Leaf, Stored
from model.fused.visits import Visits
from solver.fusion.edges import Left, Point
from solver.fusion.labels import Step, StoredTile, room_of
from solver.fusion.least import EdgePricer
from solver.fusion.space import FusionSpace
from solver.fusion.stores import Spread


def rooms_left(space: FusionSpace, steps: Sequence[Step]) -> list[Left]:
    """Room of the on-chip memories that is left for each Einsum's own tiles."""
    rooms = {1: space.memory.usable_words, **space.rooms}
    stored = [tile for step in steps for tile in step.stores]

    def left(level: int, step: Step) -> int | None:
        room = rooms.get(level)
        return None if room is None else room - _taken(space, steps, stored, step, level)

    return [Left(left(1, step), tuple(left(level, step) for level in space.inner)) for step in steps]


def _taken(
    space: FusionSpace, steps: Sequence[Step], stored: Sequence[StoredTile], running: Step, level: int
) -> int:
    """Words that stored and held tiles take of a memory while an Einsum runs."""
    cascade, total = space.cascade, 0
    around = _around(steps, running) if level == 1 else ()
    held = ((step, name, depth) for step in around for name, depth in step.held)
    for step, name, depth in held:
        if step is running or _shared(step, running) > depth:
            own = next(t for t in space.tiles[step.place] if t.space.name == name)
            cut = space.cuts(step.frames, step.place)[depth]
            total += space.held_words(own, cut, () if step.kind is None else step.kind.shares)
    waiting: list[StoredTile] = []
    for tile in (own for own in stored if own.level == level):
        users = cascade.users[tile.tensor]
        waits = any(_shared(steps[user], running) > tile.depth for user in users)
        waiting += [tile] if users[0] <= running.place <= users[-1] or waits else []
    roots = {tile.tensor: tile.root for tile in stored if tile.root}
    return total + room_of(tile._replace(root=_root_of(tile.tensor, roots)) for tile in waiting)


def _shared(one: Step, other: Step) -> int:
    """Segments that two Einsums have in common."""
    total = 0
    for a, b in zip(one.frames, other.frames, strict=False):
        if a != b or not a.start <= other.place < a.end:
            break
        total += len(a.segments)
    return total


def _root_of(tensor: str, roots: Mapping[str, str]) -> str:
    """The first tensor whose room another one takes; steps may name one that takes that of a third."""
    root = roots.get(tensor, "")
    while roots.get(root, root) != root:
        root = roots[root]
    return root


def _around(steps: Sequence[Step], running: Step) -> Sequence[Step]:
    """The Einsums in one body with another one."""
    if not running.frames:
        return [running]
    return steps[running.frames[0].start : running.frames[0].end]


# Paths as fused mappings


def fused_mapping(
    space: FusionSpace, pricer: EdgePricer, steps: Sequence[Step], points: Sequence[Point | None]
) -> FusedMapping:
    """Return the fused mapping that a path is, with a known mapping of each edge."""
    spreads = {tile.tensor: tile.spread or () for step in steps for tile in step.stores}
    leaves = [_leaf(space, pricer, step, point, spreads) for step, point in zip(steps, points, strict=True)]
    children = tuple(_children(space, steps, leaves, 0, len(steps), 0))
    memories = space.einsums[0].mapspace.architecture.on_chip
    stored = tuple(
        Stored(tile.tensor, memories[tile.level - 1].name, space.loops_above(step.frames, tile.depth))
        for step in steps
        for tile in step.stores
    )
    return FusedMapping(children, stored)


def _children(
    space: FusionSpace, steps: Sequence[Step], leaves: Sequence[Leaf], start: int, end: int, level: int
) -> Iterator[Body | Leaf]:
    """Yield the parts between two Einsums, inside of `level` bodies."""
    place = start
    while place < end:
        frames = steps[place].frames
        if len(frames) <= level:
            yield leaves[place]
            place += 1
            continue
        frame = frames[level]
        below = tuple(_children(space, steps, leaves, place, frame.end, level + 1))
        yield Body(space.loops(frame), below)
        place = frame.end


def _leaf(
    space: FusionSpace, pricer: EdgePricer, step: Step, point: Point | None, spreads: Mapping[str, Spread]
) -> Leaf:
    name = space.einsums[step.place].name
    if step.kind is None or point is None:
        return Leaf(name, ())
    held = tuple(_held(space, step, *own) for own in step.held)
    nests = (space.stores.aligned(step.kind, nest, spreads) for nest in pricer.edge(step.kind).nests(point))
    return Leaf(name, tuple(nests), held)


def _held(space: FusionSpace, step: Step, name: str, depth: int) -> Held:
    tile = next(own for own in space.tiles[step.place] if own.space.name == name)
    keeps_overlap = space.fetch_depth(step.frames, tile, depth) < depth
    return Held(name, space.loops_above(step.frames, depth), keeps_overlap)


def is_spread_alike(cascade: Cascade, mapping: FusedMapping) -> bool:
    """Whether all Einsums spread what they store and hold over instances as a fused mapping has to."""
    try:
        check_spreads(Visits(cascade, mapping))
        check_held_spread(cascade, mapping)
    except FusedMappingError:
        return False
    return True
