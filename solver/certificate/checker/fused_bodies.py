"""Einsums in open bodies: their visits, where their tiles may lie, and what they cost at the least."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise, permutations, product
from math import inf, prod
from operator import le
from typing import Any, NamedTuple

from solver.certificate.checker.claims import ceiling, remembered
from solver.certificate.checker.fused_cascade import (
    Above,
    Cascade,
    Share,
    Shared,
    SharedLoop,
    changed,
    parted,
)
from solver.certificate.checker.fused_edges import Edges, Way, undominated
from solver.certificate.checker.fused_einsums import Cut, Einsum
from solver.certificate.checker.fused_loops import (
    Cuttable,
    Place,
    between,
    further,
    is_single,
    none_of,
)
from solver.certificate.checker.fused_visits import Numbers


class Open(NamedTuple):
    """A body; trips per class above each of its places."""

    start: int
    end: int
    classes: tuple[Numbers, ...]
    places: tuple[Place, ...]
    trips: Place
    flat: bool


class Spot(NamedTuple):
    """Where a tile is held: in which open body, None below all loops; how all loops cut it, and those
    that fetch all of it.
    """

    level: int | None
    cut: Cut
    fetching: Cut


Context = tuple[Open, ...]  # open bodies, outermost first
Stays = tuple[int | None, ...]  # memories that tensors are stored in, 0 if they are not, None if that is open


class Bodies:
    """What open bodies leave to the Einsums of a cascade.

    How tensors are spread over the instances of memories is left open, or told apart, if it `is_spread`.
    Tiles may be as small as they like, or have to fill memories, if it `is_filled`: then larger ones than
    necessary may help.
    """

    def __init__(self, cascade: Cascade, edges: Edges, is_spread: bool, is_filled: bool) -> None:
        self.cascade, self.edges, self.count = cascade, edges, len(cascade.einsums)
        self.is_spread, self.is_filled = is_spread, is_filled

    @remembered
    def spreads(self, tensor: int, level: int, ctx: Context) -> list[Shared | None]:
        """Ways to spread a tensor over the instances of a memory, of extents at most those of open bodies."""
        if not self.is_spread or self.cascade.instances(level) == 1:
            return [None]
        # All that access it spread it alike; a copy has no loops that rules allow.
        (einsum, v) = next((e, v) for e, v in self.cascade.accesses(tensor) if not e.is_copy)
        even = self.even_of(einsum.number, ctx)
        extents = {d: even[d] for d in einsum.lone(v)}
        found: list[Shared | None] = []
        for spread in einsum.divisions(level, extents):
            orders = (self.in_each_order(einsum, v, number, loops, even) for number, loops in spread)
            found += [tuple(chain(*chosen)) for chosen in product(*orders)]
        return found

    @remembered
    def store_places(self, tensor: int, memory: int, ctx: Context) -> list[tuple[int | None, Above]]:
        """Where a tensor may lie: below as many loops as may be, unless a larger tile may fill a memory.

        Then also farther out, as the body above whose loops it lies and the loops that are above it. Copies
        and what they copy lie below as many loops as may be in any case.
        """
        found = [self.deepest(tensor, ctx)]
        filled = any(memory in own.fills for own in self.cascade.einsums)
        if not self.is_filled or not filled or tensor in self.cascade.family:
            return found
        words = [self.cascade.stored_words(tensor, found[0][1], memory)]
        spots = [(level, at) for level, body in enumerate(ctx) for at in body.places]
        for level, above in ((level, self.loops_above(ctx, level, at)) for level, at in reversed(spots)):
            more = self.cascade.stored_words(tensor, above, memory)
            if more > words[-1] and self.cascade.keeps(tensor, above):
                found.append((level, above))
                words.append(more)
        return found

    @remembered
    def deepest(self, tensor: int, ctx: Context) -> tuple[int | None, Above]:
        """The body above whose loops a tensor has to lie, if any, and the loops that are above it."""
        whole = self.loops(ctx)
        if not any(map(self.cascade.slides, whole)) or self.cascade.keeps(tensor, whole):
            return None, whole
        spots = [(level, at) for level, body in enumerate(ctx) for at in body.places]
        for level, at in reversed(spots):
            above = self.loops_above(ctx, level, at)
            if self.cascade.keeps(tensor, above):
                return level, above
        raise AssertionError("nothing is dropped above all loops")

    def holds(self, j: int, v: int, ctx: Context) -> list[tuple[Spot, Way]]:
        """Where a tile may be held with profit, and the way that it then is."""
        einsum = self.cascade.einsums[j]
        if not einsum.may_keep[v]:
            return []
        return [(spot, way) for spot, way in self.spots(j, v, ctx) if way.room <= self.cascade.usable]

    @remembered
    def spots(self, j: int, v: int, ctx: Context) -> list[tuple[Spot, Way]]:
        """All of these, whatever their room.

        A tile that keeps what overlaps moves no more words than above the loop that slides it, in less room.
        """
        least, kept = self.least_level(j, v, ctx), self.overlaps(j, v, ctx)
        pairs = [(own, inner) for own, inner in kept if own[0] >= least]
        worse = {*chain(*pairs)} if not self.is_filled else set()
        levels = range(least, len(ctx))
        spots = [(level, at) for level in levels for at in self.profitable(j, v, ctx[level])]
        ends = [(own, own) for own in spots if own not in worse] + pairs
        found = []
        for own, inner in ends:
            outer, cut = (self.cascade.cut(j, self.loops_above(ctx, *end)) for end in (own, inner))
            level = None if inner == (len(ctx) - 1, ctx[-1].trips) else inner[0]
            spot = Spot(level, cut, outer)
            found.append((spot, self.edges.held(j, v, cut, fetching=outer)))
        return found

    def overlaps(self, j: int, v: int, ctx: Context) -> list[tuple[tuple[int, Place], tuple[int, Place]]]:
        """Places on both sides of loops of a class that slide a tile, as open body and trips.

        The tile may keep what overlaps below such loops, if that moves fewer words.
        """
        if not any(self.sliding(j, v, own.start, own.end) for own in ctx):
            return []
        found = []
        for level, body in enumerate(ctx):
            own, at = self.sliding(j, v, body.start, body.end), (*body.places, body.trips)
            ends = [(level, place) for place in at]
            if level + 1 < len(ctx):
                ends[-1] = level + 1, (*ctx[level + 1].places, ctx[level + 1].trips)[0]
            pairs = zip(pairwise(ends), pairwise(at), strict=True)
            found += [pair for pair, steps in pairs if len(changed(*steps)) == 1 and changed(*steps) <= own]
        return [pair for pair in found if self.is_kept(j, v, ctx, pair)]

    def is_kept(self, j: int, v: int, ctx: Context, pair: tuple[tuple[int, Place], ...]) -> bool:
        """Whether a tile that keeps what overlaps moves fewer words."""
        outer, inner = (self.cascade.cut(j, self.loops_above(ctx, *end)) for end in pair)
        return self.cascade.einsums[j].moved(v, outer) < self.cascade.einsums[j].moved(v, inner)

    @remembered
    def sliding(self, j: int, v: int, start: int, end: int) -> frozenset[int]:
        """Classes of a body's loops that slide a tile, of which what overlaps may stay."""
        classes, slid = self.cascade.classes(start, end) or (), self.cascade.einsums[j].slid(v)
        return frozenset(c for c, own in enumerate(classes) if own[j - start] in slid)

    @remembered
    def alone(self, start: int, end: int) -> frozenset[int]:
        """Classes of a body's loops that slide any tile: each lies alone between two places."""
        tiles = ((j, v) for j in range(start, end) for v in self.cascade.einsums[j].stay)
        return frozenset[int]().union(*(self.sliding(j, v, start, end) for j, v in tiles))

    def profitable(self, j: int, v: int, body: Open) -> Iterator[Place]:
        """Yield places below loops that move a tile, and above some that bring it anew."""
        moving, again = self.kinds(j, v, body.start, body.end)
        befores, afters = (*body.places[:1], *body.places[:-1]), (*body.places[1:], body.trips)
        for before, at, then in zip(befores, body.places, afters, strict=False):  # without places, none
            is_first = at == body.places[0]
            if changed(at, then) & again and (is_first or changed(before, at) & moving):
                yield at

    def least_level(self, j: int, v: int, ctx: Context) -> int:
        """Open bodies that a tile lies inside of if its tensor goes through the outermost memory."""
        tensor = self.cascade.einsums[j].tensors[v]
        writer = self.cascade.writer.get(tensor)
        others = self.cascade.readers.get(tensor, ()) if writer == j else () if writer is None else (writer,)
        return max((sum(body.start <= other < body.end for body in ctx) for other in others), default=0)

    @remembered
    def kinds(self, j: int, v: int, start: int, end: int) -> tuple[set[int], set[int]]:
        """Classes of a body's loops that move a tile, and those below which it is better off.

        These bring words of it again, unless the tile may help to fill a memory: it is larger above any loop.
        """
        einsum, classes = self.cascade.einsums[j], self.cascade.classes(start, end) or ()
        dims = [own[j - start] for own in classes]
        moving = {c for c, d in enumerate(dims) if d in einsum.dims[v]}
        if self.is_filled:
            return moving, {*range(len(dims))}
        return moving, {c for c, d in enumerate(dims) if d not in einsum.dims[v] or d in einsum.windowed[v]}

    @remembered
    def loops(self, ctx: Context) -> Above:
        """The loops of open bodies, outermost first; between two places those that slide come last."""
        found = []
        for body in ctx:
            at = (*(body.places or (none_of(body.trips),)), body.trips)
            for ends in pairwise(at):
                own = [(c, n) for c, pair in enumerate(zip(*ends, strict=True)) for n in between(*pair)]
                loops = [SharedLoop(n, body.start, body.classes[c]) for c, n in own]
                found += sorted(loops, key=self.cascade.slides)
        return tuple(found)

    def loops_above(self, ctx: Context, level: int, at: Place) -> Above:
        """The loops above a place of an open body."""
        body = ctx[level]
        places = tuple(own for own in body.places if own != at and all(map(le, own, at)))
        return self.loops((*ctx[:level], body._replace(places=places, trips=at)))

    def cut(self, j: int, ctx: Context) -> Cut:
        """How all loops of open bodies cut an Einsum."""
        return self.cascade.cut(j, self.loops(ctx))

    @remembered
    def cuttable(self, ctx: Context, start: int, stop: int, dims: Numbers) -> Cuttable:
        """What the loops of a class cut, in open bodies."""
        above, every, slides = (
            self.loops(ctx),
            range(start, stop),
            self.cascade.slides(SharedLoop(2, start, dims)),
        )
        leading = [j for j in every if not (slides and self.cascade.is_followed(j, every))]
        sizes = {self.cascade.largest(j, dims[j - start], above) for j in leading}
        spaces = ((own, d) for own, d in zip(self.cascade.einsums[start:stop], dims, strict=True))
        is_plain = not any(d in windowed for own, d in spaces for windowed in own.windowed)
        is_alone = is_plain and not slides and len(sizes) == 1 and not self.is_sliding(ctx)
        return Cuttable(math.gcd(*sizes), len(sizes) == 1, is_alone)

    def is_sliding(self, ctx: Context) -> bool:
        """Whether some loop of open bodies moves a window."""
        return any(map(self.cascade.slides, self.loops(ctx)))

    @remembered
    def left_of(self, j: int, ctx: Context) -> list[int]:
        """What divides all parts of each dimension."""
        return [math.gcd(*(size for size, _ in parts)) for parts in self.cut(j, ctx)]

    @remembered
    def even_of(self, j: int, ctx: Context) -> list[int]:
        """The extent of each dimension in a visit; 1 of those that visits have unequal parts of."""
        return [parts[0][0] if len(parts) == 1 else 1 for parts in self.cut(j, ctx)]

    def may_be(self, ctx: Context, body: Open) -> bool:
        """Whether the loops of a body may be those of a fused mapping, in open bodies that may."""
        outer, every = len(self.loops(ctx)), self.loops((*ctx, body))
        ends, places = range(outer + 1, len(every) + 1), range(body.start, body.end)
        return all(self.cascade.moves_once(j, every) for j in places) and all(
            self.cascade.may_cut(every[:end]) for end in ends
        )

    @staticmethod
    def divide(lefts: Sequence[Sequence[int]], classes: Sequence[Numbers], trips: Numbers) -> bool:
        """Whether trips of several loops over one dimension divide it together."""
        together: list[Counter[int]] = [Counter() for _ in lefts]
        for (number, own), (dims, count) in product(enumerate(together), zip(classes, trips, strict=True)):
            own[dims[number]] = max(1, own[dims[number]]) * count
        return all(
            left[d] % n == 0 for left, own in zip(lefts, together, strict=True) for d, n in own.items()
        )

    @remembered
    def following(self, at: Place, trips: Place, whole: tuple[int | None, ...]) -> list[Place]:
        """The places that may follow one: not itself, and with no loops in between that one can replace."""
        found = [own for own in product(*map(further, at, trips)) if own != at]
        if not whole:
            return found
        every = [*zip(at, whole, strict=True)]
        left = [None if n is None else ceiling(n, prod(between((), own))) for own, n in every]
        return [
            then
            for then in found
            if all(n is None or is_single(n, between(*pair)) for n, *pair in zip(left, at, then, strict=True))
        ]

    def is_segment(self, start: int, end: int, segment: frozenset[int]) -> bool:
        """Whether the loops of some classes may lie between two places."""
        return len(segment) == 1 or not segment & self.alone(start, end)

    @remembered
    def may_follow(
        self, start: int, end: int, above: frozenset[int], last: frozenset[int], segment: frozenset[int]
    ) -> bool:
        """Whether something may have to lie between two groups of loops: what is held, or keeps an overlap.

        Loops below would drop the latter, where some `above` slide it, or several of them. Loops that slide
        tiles which keep what overlaps are one: they move no more words together, in less room.
        """
        alone = self.alone(start, end)
        is_one = last == segment and segment <= alone and not self.is_filled
        if not is_one and (last <= alone or segment <= alone):
            return True
        if not is_one and parted(last, segment, self.every_kind(start, end)):
            return True
        classes = self.cascade.classes(start, end) or ()
        slides = {c for c, own in enumerate(classes) if self.cascade.slides(SharedLoop(2, start, own))}
        return bool(slides & above) or len(slides & segment) > 1

    @remembered
    def every_kind(self, start: int, end: int) -> set[tuple[frozenset[int], frozenset[int]]]:
        """Kinds of all tiles that may be held."""
        own = {j: self.cascade.einsums[j] for j in range(start, end)}
        tiles = ((j, v) for j, e in own.items() for v in (range(len(e.dims)) if self.is_filled else e.stay))
        kinds = (self.kinds(j, v, start, end) for j, v in tiles)
        return {(frozenset(moving), frozenset(again)) for moving, again in kinds}

    def within(self, ctx: Context, body: Open, then: Place) -> bool:
        """Whether the loops above a place that follows those of a body are no more than allowed."""
        most, per_rank = self.cascade.most_loops, self.cascade.most_per_rank
        if most is None and per_rank is None:
            return True
        at = [*((own, (*own.places, own.trips)) for own in ctx), (body, (*body.places, then))]
        steps = [
            (own, c, len(between(*pair)))
            for own, places in at
            for ends in pairwise(places)
            for c, pair in enumerate(zip(*ends, strict=True))
        ]
        for j in range(body.start, body.end):
            dims: Counter[int] = Counter()
            for own, c, count in steps:
                dims[own.classes[c][j - own.start]] += count
            if dims.total() > (inf if most is None else most):
                return False
            if max(dims.values()) > (inf if per_rank is None else per_rank):
                return False
        return True

    @remembered
    def lower(
        self,
        j: int,
        ctx: Context,
        stays: Stays,
        at: Place | None = None,
        least: Place | None = None,
        room: Any = inf,
        is_open: bool = False,
    ) -> tuple[Any, Any]:
        """Least energy and cycles of an Einsum in open bodies, all its instances.

        Of the innermost one the loops inside of the place `at` are not known yet, and may hold tiles at any;
        it may have any trips from the `least` ones on, if these are given. The outermost on-chip memory has
        `room` for its tiles. Where it `is_open`, further loops may cut the parts.
        """
        einsum, body = self.cascade.einsums[j], ctx[-1]
        if einsum.is_copy:
            return 0, 0
        cut = self.cut(j, (*ctx[:-1], body._replace(trips=least or body.trips)))
        if not all(einsum.may_be(bounds) for bounds, _ in einsum.kinds(cut)):
            return inf, inf
        ways = [self.ways(j, v, ctx, own, at, cut) for v, own in enumerate(stays)]
        # Few bodies differ in what an Einsum may do.
        each = map(undominated, ways) if body.flat else ways
        each = [[way for way in own if way.stored > 1 or way.room <= room] for own in each]
        energy, cycles = self.least_of(j, cut, tuple(map(tuple, each)), body.flat, room, is_open)
        return energy * einsum.times, cycles * einsum.cycle_times

    @remembered
    def least_of(
        self,
        j: int,
        cut: Cut,
        ways: tuple[tuple[Way, ...], ...],
        flat: bool,
        room: Any = inf,
        is_open: bool = False,
    ) -> tuple[Any, Any]:
        """Least energy and cycles of an Einsum that keeps each tile in one of some ways.

        Where it `is_open`, or not flat, further loops may cut the parts.
        """
        if not flat:
            is_open = self.cascade.is_any or j in self.followers
            found = [self.edges.together(j, cut, own, is_open) for own in product(*map(self.cheapest, ways))]
        else:
            fitting = (own for own in product(*ways) if self.has_room_for(own, room))
            found = [self.edges.least(j, cut, chosen, is_open) for chosen in fitting]
        energy, cycles = map(min, zip(*found, strict=True)) if found else (inf, inf)
        return energy, cycles

    @staticmethod
    def cheapest(ways: Sequence[Way]) -> list[Way]:
        """What costs the least in each memory that a tile may be in, if it takes no room."""
        deep = [way for way in ways if way.stored > 1]
        for way in ways:
            if way.stored == 1:
                return [way, *deep]
        fetched = [way for way in ways if not way.stored]
        if not fetched:
            return deep
        least = {key: min(getattr(way, key) for way in fetched) for key in Way._fields[:4]}
        return [fetched[0]._replace(**least), *deep]

    def has_room_for(self, ways: Iterable[Way], room: Any) -> bool:
        """Whether memories have room for all tiles together, if there is so much in the outermost one."""
        taken: Counter[int] = Counter()
        for way in ways:
            taken[max(1, way.stored)] += way.room
        return taken[1] <= room and all(words <= self.cascade.room(level) for level, words in taken.items())

    @cached_property
    def followers(self) -> set[int]:
        """Einsums that loops of some body may cut into unequal parts."""
        found, count = set(), self.count
        for start, end in ((a, b) for a in range(count) for b in range(a + 2, count + 1)):
            if self.may_slide(start, end):
                every = range(start, end)
                found |= {j for j in every if self.cascade.is_followed(j, every)}
        return found

    def ways(self, j: int, v: int, ctx: Context, stay: int | None, at: Place | None, cut: Cut) -> list[Way]:
        """Ways to keep a tile whose tensor is stored in a known memory, or not (0), or perhaps (None)."""
        einsum, body = self.cascade.einsums[j], ctx[-1]
        if stay:
            return [Way(stored=stay)]
        found = [self.edges.fetched(j, v, cut)]
        tensor = einsum.tensors[v]
        for level in self.cascade.storable.get(tensor, ()) if stay is None else ():
            found.append(Way(stored=level, room=self.stored_room(tensor, ctx, level)))
        if einsum.may_keep[v]:
            inner = body if at is None else body._replace(trips=at)
            found += (
                [way for _, way in self.spots(j, v, (*ctx[:-1], inner))]
                if at is None
                else self.open_spots(j, v, ctx, at)
            )
        return found

    def open_spots(self, j: int, v: int, ctx: Context, at: Place) -> list[Way]:
        """Ways of a held tile at the places that are known, and inside of the last one."""
        body, found = ctx[-1], []
        for ends in self.overlaps(j, v, (*ctx[:-1], body._replace(trips=at))):
            outer, inner = (self.spot(j, v, ctx[: level + 1], place) for level, place in ends)
            found.append(outer._replace(room=inner.room))
        for level, own in enumerate(ctx):
            places = own.places if own is not body else (*body.places, at)
            found += [self.spot(j, v, ctx[: level + 1], place) for place in places]
        deep = self.edges.held(j, v, self.cut(j, ctx))
        return (
            [*found, found[-1]._replace(room=min(deep.room, found[-1].room))] if at != body.trips else found
        )

    def spot(self, j: int, v: int, ctx: Context, at: Place) -> Way:
        """The way of a tile that is held at a place of the innermost body."""
        if any(self.may_slide(own.start, own.end) for own in ctx):
            return self.edges.held(j, v, self.cascade.cut(j, self.loops_above(ctx, len(ctx) - 1, at)))
        return self.still_spot(j, v, ctx[:-1], ctx[-1].start, ctx[-1].classes, at)

    @remembered
    def still_spot(
        self, j: int, v: int, outer: Context, start: int, classes: tuple[Numbers, ...], at: Place
    ) -> Way:
        """The way of a tile that is held at a place above which no loop slides: other places do not count."""
        body = Open(start, start, classes, (), at, True)
        return self.edges.held(j, v, self.cut(j, (*outer, body)))

    @remembered
    def may_slide(self, start: int, end: int) -> bool:
        """Whether some loop of a body over some Einsums slides a window."""
        classes = self.cascade.classes(start, end) or ()
        return any(self.cascade.slides(SharedLoop(2, start, own)) for own in classes)

    def ways_without(self, j: int, v: int, cut: Cut) -> tuple[Way, ...]:
        """Ways to keep a tile without shared loops, in any room."""
        einsum = self.cascade.einsums[j]
        stored = (Way(stored=level) for level in self.cascade.storable.get(einsum.tensors[v], ()))
        held = [self.edges.held(j, v, cut)] if einsum.may_keep[v] else []
        return self.edges.fetched(j, v, cut), *stored, *held

    def stored_room(self, tensor: int, ctx: Context, level: int) -> int:
        """Room of a tensor that is stored in the innermost body; others may be there before."""
        users, body = self.cascade.users[tensor], ctx[-1]
        if not (body.start <= users[0] and users[-1] < body.end) or tensor in self.cascade.family:
            return 0
        return self.cascade.stored_words(tensor, self.loops(ctx), level)

    def in_each_order(
        self, einsum: Einsum, v: int, number: int, loops: Sequence[tuple[int, int]], even: Sequence[int]
    ) -> list[Shared]:
        """Loops of a fanout that spread what an Einsum accesses, in each order that its rules allow."""
        names = einsum.lone(v)
        shares = tuple(Share(number, names[d], n, even[d]) for d, n in loops)
        if number not in self.cascade.ordered:
            return [shares]
        every = (
            tuple(share._replace(along_x=i < along_x) for i, share in enumerate(order))
            for order, along_x in product(permutations(shares), range(len(shares) + 1))
        )
        return [own for own in every if self.cascade.allows(number, einsum, v, own)]
