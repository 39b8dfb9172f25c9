"""What the bound on a fused mapping rests on: bounds on Einsums in closed form, and on edges by searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from solver.fusion.amounts import UNLIMITED
from solver.fusion.bounds import Deeper
from solver.fusion.edges import EdgeKind
from solver.fusion.least import EdgePricer
from solver.fusion.space import Parts
from solver.result import Status

Corner = tuple[int, int]
"""Energy and cycles."""


@dataclass(frozen=True, slots=True)
class LeastClaim:
    """What an Einsum costs at the least if all its tiles that may be are on chip, without room.

    Parameters
    ----------
    place
        In the cascade.
    exchanging
        Dataspaces of which all words cross between the two outermost memories once, and load bandwidths.
    free, paid
        Energy, if what bypasses the on-chip memory comes for nothing; and if each word of it is paid once.
    trips
        Of shared loops, all of which bring anew what is inside; sorted by name.
    parts
        Like `EdgeKind.parts`: extents of visits along dimensions whose parts are not alike. Bandwidths limit
        nothing then.
    deeper
        Dataspaces that are stored in memories farther in, like `EdgeKind.deeper`.
    """

    place: int
    exchanging: frozenset[str]
    free: int
    paid: int
    cycles: int
    trips: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, Parts], ...] = ()
    deeper: Deeper = ()


@dataclass(frozen=True, slots=True)
class EdgeClaim:
    """A bound on all mappings of an edge whose own tiles take no more than some room.

    Parameters
    ----------
    room_words
        None for a memory without limit.
    corners
        Each mapping has the energy and the cycles of one of them at least, without the energy of held tiles;
        without corners there is none. By rising energy and falling cycles.
    is_ruled
        Whether rules bind the loops of the outermost memory: if not, no mapping with further shared loops is
        below, as they may be the outermost private ones.
    is_loose
        Whether bandwidths limit nothing.
    """

    kind: EdgeKind
    room_words: int | None
    corners: tuple[Corner, ...]
    is_ruled: bool = True
    is_loose: bool = False


@dataclass(frozen=True, slots=True)
class FusionEvidence:
    """All claims about edges that a bound was found with."""

    least: tuple[LeastClaim, ...] = ()
    edges: tuple[EdgeClaim, ...] = ()


def evidence_of(pricer: EdgePricer, perfect: EdgePricer | None = None) -> FusionEvidence:
    """Return what a search knows about edges, each once, whatever their names.

    Where nests may have remainders, what is known without any says nothing, but of those Einsums that store
    tensors in memories which exist several times, and have none: what is known of them by `perfect`.
    """
    pricers, may_leave = [pricer] if perfect is None else [pricer, perfect], pricer.space.stores.may_leave
    least = [c for own in pricers for c in _least_claims(own) if own is pricer or not may_leave(c.deeper)]
    cores = [
        c
        for own in pricers
        for c in _cores(own)
        if own is pricer or not may_leave(c.kind.deeper, c.kind.above)
    ]
    edges = (*cores, *_edges(pricer), *_shared(pricer), *_alone(pricer))
    return FusionEvidence(tuple(_counted(claim, pricer.objective) for claim in least), edges)


def _counted(claim: LeastClaim, objective: str) -> LeastClaim:
    """Return a claim about what the objective counts alone."""
    if objective == "energy":
        return replace(claim, cycles=0)
    return replace(claim, free=0, paid=0) if objective == "latency" else claim


def _least_claims(pricer: EdgePricer) -> Iterator[LeastClaim]:
    for (place, exchanging, trips, deeper), found in pricer.known_inner.items():
        yield LeastClaim(place, exchanging, *found, trips, deeper=deeper)
    for (place, parts), (energy, cycles) in pricer.in_unlike_parts.items():
        trips = tuple((dim, count) for dim, ((_, count),) in parts)
        yield LeastClaim(place, frozenset(), 0, energy, cycles, trips, parts)


def _cores(pricer: EdgePricer) -> Iterator[EdgeClaim]:
    room = pricer.space.memory.usable_words
    for kind, found in pricer.known_cores.items():
        corners = [] if found[0] >= UNLIMITED else [found]
        yield EdgeClaim(kind, room, _least(corners, pricer.objective), is_ruled=False)


def _edges(pricer: EdgePricer) -> Iterator[EdgeClaim]:
    cores = {id(edge.core): edge for edge in reversed(pricer.edges.values())}
    for edge in cores.values():
        kind = edge.space.kind
        if not _is_whole(pricer, kind):
            continue
        for solved in () if kind.parts else edge.core.solved:
            corners = [(point.energy, point.cycles) for point in solved.points]
            corners += [solved.beyond] if solved.beyond is not None else []
            yield EdgeClaim(kind, solved.room_words, _least(corners, pricer.objective))


def _is_whole(pricer: EdgePricer, kind: EdgeKind) -> bool:
    """Whether an edge has all mappings that the space allows."""
    may_leave = pricer.remainders and pricer.space.stores.may_leave(kind.deeper, kind.above)
    return kind.remainders or not may_leave


def _shared(pricer: EdgePricer) -> Iterator[EdgeClaim]:
    """Yield bounds by floors where it is known how stored tensors are spread over instances."""
    room = pricer.space.memory.usable_words
    for kind, found in pricer.in_shares.items():
        yield EdgeClaim(kind, room, _least([found], pricer.objective))


def _alone(pricer: EdgePricer) -> Iterator[EdgeClaim]:
    """Yield what is known of visits of one kind, where there are others."""
    known: dict[tuple[EdgeKind, int | None], list[Corner]] = {}
    for space, room, objectives, result in pricer.alone.values():
        key = space.kind, room
        if not _is_whole(pricer, space.kind):
            continue
        if result.status is Status.INFEASIBLE:
            known[key] = []
        elif space.unlimited is pricer.timed and objectives == ("energy",):
            known.setdefault(key, []).append((result.bound or 0, 0))
        elif space.unlimited is pricer.timed and objectives == ("latency",):
            known.setdefault(key, []).append((0, result.bound or 0))
    for (kind, room), corners in known.items():
        joint = [(max(e for e, _ in corners), max(c for _, c in corners))] if corners else []
        yield EdgeClaim(kind, room, _least(joint, pricer.objective), is_loose=pricer.timed)


def _least(corners: Sequence[Corner], objective: str) -> tuple[Corner, ...]:
    """Return the corners that count, of which none has no less of both than another one."""
    counted = {
        (energy if objective != "latency" else 0, cycles if objective != "energy" else 0)
        for energy, cycles in corners
    }
    kept: list[Corner] = []
    for corner in sorted(counted):
        if not kept or corner[1] < kept[-1][1]:
            kept.append(corner)
    return tuple(kept)
