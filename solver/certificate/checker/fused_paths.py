"""Bounds on all fused mappings of a cascade: the checker's own dynamic program over its Einsums.

Costs add up from Einsum to Einsum. What an Einsum costs between two cuts is an edge, which is bounded by
claims that were checked, and in closed form. Bodies are enumerated with the trips of their loops, then with
the places between these at which tiles may be held, as far as these bounds do not exclude them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import inf, prod
from typing import Any, NamedTuple

from solver.certificate.checker.claims import able, remembered
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.fused_bodies import Bodies, Context, Open, Spot, Stays
from solver.certificate.checker.fused_cascade import (
    Above,
    Cascade,
    Shared,
    SharedLoop,
    State,
    changed,
    replaced,
)
from solver.certificate.checker.fused_edges import Edge, Edges, Given, Way
from solver.certificate.checker.fused_einsums import Cut, Einsum, vectors
from solver.certificate.checker.fused_loops import (
    Cuttable,
    Place,
    Ranges,
    chains,
    none_of,
    single,
)
from solver.certificate.checker.fused_visits import Numbers, Rooms, Spread

MOST_LABELS = 1 << 22  # that a check looks at


class Room(NamedTuple):
    """Room of an open body."""

    held: int = 0  # words of its tiles
    peak: int = 0  # of all else
    parted: bool = False


class Waiting(NamedTuple):
    """A stored tensor."""

    tensor: int
    bodies: int  # open ones around
    words: int
    memory: int
    spread: Shared | None = None
    fill: Any = inf  # at most what it takes of one instance
    above: Above | None = None  # the loops above it, if that counts
    root: int | None = None  # the tensor whose room it takes there, if that is known


class Label(NamedTuple):
    """A path so far."""

    energy: Any
    cycles: Any
    stored: frozenset[Waiting]
    rooms: tuple[Room, ...]  # per open body
    path: tuple[Any, ...] = ()  # the path before, and its last edge


Rests = dict[tuple[int, State], tuple[Any, Any]]  # energy and cycles from a cut on that no body spans


def value(objective: str, energy: Any, cycles: Any) -> Any:
    """Value of an objective."""
    return {"energy": energy, "latency": cycles, "edp": energy * cycles}[objective]


class Paths(Bodies):
    """The dynamic program: the least value of all paths through the cuts of a cascade, by bounds on edges.

    `rests` are least energy and cycles from each cut on that no body spans, by what is stored there: infinite
    where no path below the limit goes on, and no more than those of a `known` mapping.
    """

    def __init__(
        self,
        cascade: Cascade,
        edges: Edges,
        objective: str,
        limit: int | float,
        most: int = MOST_LABELS,
        is_spread: bool = False,
        is_filled: bool = False,
        known: Rests | None = None,
    ) -> None:
        super().__init__(cascade, edges, is_spread, is_filled)
        self.objective, self.limit, self.looks_left = objective, limit, most
        self.rests: Rests = {(self.count, frozenset()): (0, 0)}
        self.known = known or {}
        self.open_edges: list[Edge] = []  # of the least path below the limit

    def least(self) -> int | float:
        """The least value below the limit, or the limit."""
        self.fill()
        ends = self.parts(Label(0, 0, frozenset(), ()), 0, self.count, ())
        pairs = [(value(self.objective, own.energy, own.cycles), own.path) for own in ends]
        least, path = min(pairs, key=lambda pair: pair[0], default=(self.limit, ()))
        while path:
            path, edge = path
            self.open_edges.append(edge)
        return least

    def fill(self) -> None:
        """Bound the rests of paths, from the last cut back."""
        objective, limit = self.objective, self.limit
        energy, cycles = self.before(Label(0, 0, frozenset(), ()), self.count)
        most = {"energy": limit, "latency": limit}
        if objective == "edp" and limit < inf:  # the product of both
            most = {"energy": -(-limit // max(1, cycles)), "latency": -(-limit // max(1, energy))}
        for place, label in ((n, own) for n in reversed(range(1, self.count)) for own in self.crossing(n)):
            key, spent = (place, self.state(label.stored, place)), self.before(label, place)
            ends = zip(most, spent, self.known.get(key, (inf, inf)), strict=True)
            rests = [
                self.rest(own, label, place, most[own] - less, known) if objective in (own, "edp") else 0
                for own, less, known in ends
            ]
            self.rests[key] = rests[0], rests[1]
        self.objective, self.limit = objective, limit

    def rest(self, objective: str, label: Label, place: int, left: Any, known: Any) -> Any:
        """Least energy or cycles from a cut on, at most those `known`; infinite if nothing is `left`."""
        self.objective, self.limit = objective, min(left, known)
        least = self.least_from(label, place) if self.limit > 0 else self.limit
        return inf if least >= left else least

    def crossing(self, place: int) -> Iterator[Label]:
        """Yield a label for each choice of tensors that are stored across a cut which no body spans."""
        users, storable = self.cascade.users, self.cascade.storable
        tensors = [t for t in sorted(storable) if self.cascade.writer[t] < place <= users[t][-1]]
        for chosen in product(*((0, *storable[t]) for t in tensors)):
            pairs = zip(tensors, chosen, strict=True)
            stored = [((t, level, None), self.deepest(t, ())) for t, level in pairs if level]
            label = self.storing(Label(0, 0, frozenset(), ()), stored, ())
            self.look()
            if self.has_room(label):
                yield label

    def before(self, label: Label, place: int) -> tuple[Any, Any]:
        """Least energy and cycles of all Einsums before a cut, across which a label stores tensors."""
        energy = cycles = 0
        passing = {t for t, own in enumerate(self.cascade.users) if own[-1] >= place}
        passing -= {own.tensor for own in label.stored}
        for j, einsum in enumerate(self.cascade.einsums[:place]):
            if not einsum.is_copy:
                cut = self.cascade.cut(j, ())
                ways = tuple(
                    tuple(way for way in self.ways_without(j, v, cut) if not (way.stored and t in passing))
                    for v, t in enumerate(einsum.tensors)
                )
                more = self.least_of(j, cut, ways, False)
                energy, cycles = energy + more[0] * einsum.times, cycles + more[1] * einsum.cycle_times
        return energy, cycles

    def least_from(self, label: Label, place: int) -> int | float:
        """The least value of a part from a cut on and of the rest after it, or the limit."""
        for stop, own in self.children(label, place, self.count, ()):
            self.limit = min(self.limit, self.worth(own, stop))
        return self.limit

    def worth(self, label: Label, end: int, more: tuple[Any, Any] = (0, 0)) -> Any:
        """Least value of all paths that go on from a label, whose open bodies cost so much `more`."""
        outside = self.rests.get((end, self.state(label.stored, end)), (inf, inf))
        return value(self.objective, label.energy + more[0] + outside[0], label.cycles + more[1] + outside[1])

    @remembered
    def state(self, stored: frozenset[Waiting], end: int) -> State:
        """Tensors that are stored across a cut which no body spans, and their memories."""
        users = self.cascade.users
        return frozenset(
            (own.tensor, own.memory) for own in stored if not own.bodies and users[own.tensor][-1] >= end
        )

    def insert(self, labels: list[Label], label: Label) -> None:
        """Add a label unless another one is as good in everything."""
        for own in labels:
            if own.stored == label.stored and self.covers(own, label):
                return
        labels[:] = [own for own in labels if own.stored != label.stored or not self.covers(label, own)]
        labels.append(label)

    def covers(self, one: Label, other: Label) -> bool:
        """Whether a label has no more of anything that counts."""
        energy = self.objective == "latency" or one.energy <= other.energy
        cycles = self.objective == "energy" or one.cycles <= other.cycles
        rooms = (
            a.held <= b.held and a.peak <= b.peak and a.parted >= b.parted
            for a, b in zip(one.rooms, other.rooms, strict=True)
        )
        return energy and cycles and all(rooms)

    # Parts of a body

    def parts(self, label: Label, start: int, end: int, ctx: Context) -> list[Label]:
        """Labels after all parts of a body, or of the cascade."""
        at = {start: [label]}
        for place in range(start, end):
            following = (self.children(own, place, end, ctx) for own in at.pop(place, []))
            for stop, own in chain.from_iterable(following):
                self.insert(at.setdefault(stop, []), own)
        return at.get(end, [])

    def children(self, label: Label, place: int, end: int, ctx: Context) -> Iterator[tuple[int, Label]]:
        """Yield the end of each part that begins at a place, and the label after it."""
        for stored in self.stored_by(label, place, place + 1, end, ctx):
            for own in self.leaf(stored, place, ctx):
                yield from self.ended(own, place + 1, ctx)
        if ctx and ctx[-1].flat:
            return
        whole = (ctx[-1].start, ctx[-1].end) if ctx else None
        for stop in range(place + 2, end + 1):
            if (place, stop) == whole or not self.cascade.classes(place, stop):
                continue
            for stored, body in self.opened(label, place, stop, end, ctx):
                yield from chain.from_iterable(
                    self.ended(own, stop, ctx) for own in self.inside(stored, (*ctx, body))
                )

    def opened(
        self, label: Label, place: int, stop: int, end: int, ctx: Context
    ) -> Iterator[tuple[Label, Open]]:
        """Yield the label with tensors that a body stores for others, and the body."""
        for stored in self.stored_by(label, place, stop, end, ctx):
            for flat in (True, False)[: 1 + (stop > place + 2)]:
                yield from ((stored, body) for body in self.bodies(stored, place, stop, ctx, flat))

    def ended(self, label: Label, stop: int, ctx: Context) -> Iterator[tuple[int, Label]]:
        """Yield the label after a part of the innermost body, if it is still worth a look."""
        users = self.cascade.users
        kept = frozenset(
            own for own in label.stored if own.bodies < len(ctx) or users[own.tensor][-1] >= stop
        )
        label = label._replace(stored=kept)
        if not self.reaches(label, stop, ctx):
            yield stop, label

    def reaches(self, label: Label, place: int, ctx: Context) -> bool:
        """Whether no path that goes on from a label is below the limit."""
        self.look()
        more = self.left(label, place, ctx)
        return bool(self.worth(label, ctx[0].end if ctx else place, more) >= self.limit)

    def look(self) -> None:
        """Count a part of a path."""
        self.looks_left -= 1
        able(self.looks_left, "the bounds leave too many fused mappings open")

    def left(self, label: Label, place: int, ctx: Context) -> tuple[Any, Any]:
        """Least energy and cycles from a place to the end of all open bodies."""
        energy = cycles = 0
        for depth in reversed(range(len(ctx))):
            own = ctx[: depth + 1]
            for j in range(place, ctx[depth].end):
                more = self.lower(j, own, self.stays(label.stored, j, place, ctx[depth].end))
                energy, cycles = energy + more[0], cycles + more[1]
            place = ctx[depth].end
        return energy, cycles

    def inside(self, label: Label, ctx: Context) -> Iterator[Label]:
        """Labels at the end of a body, which is closed."""
        body = ctx[-1]
        for own in self.parts(label._replace(rooms=(*label.rooms, Room())), body.start, body.end, ctx):
            *outer, last = own.rooms
            if not body.flat and not last.parted:
                continue
            if outer:
                outer[-1] = Room(outer[-1].held, max(outer[-1].peak, last.peak + last.held), True)
            yield own._replace(rooms=tuple(outer))

    def stored_by(self, label: Label, start: int, stop: int, end: int, ctx: Context) -> Iterator[Label]:
        """Yield the label with each choice of tensors that a part stores for others of its body."""
        users, writer = self.cascade.users, self.cascade.writer
        storable = self.cascade.storable
        free = [t for t in sorted(storable) if start <= writer[t] < stop <= users[t][-1] < end]
        ways = [[(n, own) for n in storable[t] for own in self.spreads(t, n, ctx)] for t in free]
        for chosen in product(*([*own, None] for own in ways)):
            tensors = [(t, *way) for t, way in zip(free, chosen, strict=True) if way]
            every = product(*(self.store_places(t, n, ctx) for t, n, _ in tensors))
            found = (self.storing(label, zip(tensors, places, strict=True), ctx) for places in every)
            yield from filter(self.has_room, found if tensors else [label])

    def storing(
        self,
        label: Label,
        tensors: Iterable[tuple[tuple[int, int, Shared | None], tuple[int | None, Above]]],
        ctx: Context,
    ) -> Label:
        """The label with some tensors stored, each at a place.

        It may lie above some loops of an open body: then it takes room in all of that. In memories farther in
        it counts as soon as it is written, which is no more.
        """
        words, rooms = [], list(label.rooms)
        for (t, memory, spread), (level, loops) in tensors:
            room = self.cascade.stored_words(t, loops, memory, spread)
            own = Waiting(t, len(ctx), room, memory, spread)
            if self.is_filled:
                fill = self.cascade.stored_words(t, loops, memory, spread or ())
                own = own._replace(fill=fill, above=loops, root=t)
            if level is not None and memory == 1 and t not in self.cascade.family:
                rooms[level] = rooms[level]._replace(held=rooms[level].held + room)
                own = own._replace(words=0)
            words.append(own)
        return label._replace(stored=label.stored.union(words), rooms=tuple(rooms))

    def leaf(self, label: Label, j: int, ctx: Context) -> Iterator[Label]:
        """Yield the label with an Einsum mapped in each way."""
        einsum = self.cascade.einsums[j]
        if einsum.is_copy:
            yield from self.copied(label, einsum, self.shares(label, einsum, self.even_of(j, ctx)))
            return
        levels, cut = {own.tensor: own.memory for own in label.stored}, self.cut(j, ctx)
        if not all(einsum.may_be(bounds) for bounds, _ in einsum.kinds(cut)):
            return
        left, shares = self.unwaiting(label), self.shares(label, einsum, self.even_of(j, ctx))
        if shares is None:
            return
        ways: list[list[tuple[Spot | None, Way]]] = [
            [(None, Way(stored=levels[t]))]
            if t in levels
            else [(None, self.edges.fetched(j, v, cut)), *self.holds(j, v, ctx)]
            for v, t in enumerate(einsum.tensors)
        ]
        for chosen in product(*ways):
            held = frozenset(v for v, (spot, _) in enumerate(chosen) if spot)
            above = held.union(v for v, (_, way) in enumerate(chosen) if way.stored == 1)
            given = Given(left, shares, einsum.undivided(above, held))
            found = [*self.mapped(label, einsum, cut, chosen, given)]
            is_open = self.is_spread and held and not einsum.are_known(shares)
            if is_open and not all(self.reaches(own, j + 1, ctx) for own in found):
                each = self.divided(einsum, given, self.even_of(j, ctx))
                found = [*chain(*(self.mapped(label, einsum, cut, chosen, own) for own in each))]
            yield from found

    @staticmethod
    def divided(einsum: Einsum, given: Given, even: Sequence[int]) -> Iterator[Given]:
        """Yield what is known of an edge with each way in which fanouts may divide what is held."""
        known = dict(given.shares)
        extents = {d: n for d, n in enumerate(even) if d not in given.undivided}
        for shares in einsum.divisions(1, extents):
            if all(known.get(number, loops) == loops for number, loops in shares):
                yield given._replace(shares=tuple(sorted((known | dict(shares)).items())))

    def mapped(
        self,
        label: Label,
        einsum: Einsum,
        cut: Cut,
        chosen: Sequence[tuple[Spot | None, Way]],
        given: Given,
    ) -> Iterator[Label]:
        """Yield the label with an Einsum whose tiles are kept as chosen, and what that costs at the least."""
        divided = {d for n, loops in given.shares if n in einsum.outside(1) for d, _ in loops}
        if divided & given.undivided:
            return
        j, waiting = einsum.number, self.waiting(label, 1)
        spots = {v: spot for v, (spot, _) in enumerate(chosen) if spot}
        ways = [way for _, way in chosen]
        for v, own in spots.items():
            ways[v] = self.edges.held(j, v, own.cut, given.shares, own.fetching)
        rooms = self.roomy(label, [(own.level, ways[v].room) for v, own in spots.items()], waiting)
        fills = self.unfilled(label, einsum, {v: own.cut for v, own in spots.items()}, given.shares)
        if rooms is None or any(words > given.rooms[n - 1] for n, words in fills):
            return
        given = given._replace(fills=fills)
        tiles = tuple(einsum.held(v, own.fetching, given.shares) for v, own in spots.items())
        passing = sum(ways[v].room for v, own in spots.items() if own.level is None)
        each = self.edges.choices(j, cut, tuple(ways), tiles, given)
        options = ((energy, cycles, words + passing) for energy, cycles, words in each)
        edge = j, cut, tuple(ways), tiles, given.rooms[0] - held_words(rooms) - passing, fills
        yield from self.priced(label._replace(path=(label.path, edge)), rooms, waiting, einsum, options)

    def unfilled(self, label: Label, einsum: Einsum, held: Mapping[int, Cut], shares: Spread) -> Rooms:
        """Words of memories that own tiles of an Einsum have to take, besides what it stores and holds.

        Where it is open how a tile is divided, one instance may have all of it.
        """
        if not self.is_filled:
            return ()
        taken: dict[int, dict[int | None, Any]] = {n: {} for n in einsum.fills}
        for own in (own for own in label.stored if own.tensor in einsum.tensors and own.memory in taken):
            roots = taken[own.memory]
            roots[own.root] = max(own.fill, roots.get(own.root, 0))
        left = {n: words - sum(taken[n].values()) for n, words in einsum.fills.items()}
        for v, cut in held.items() if 1 in left else ():
            words = einsum.tile(v, cut, shares) if einsum.are_known(shares) else einsum.largest(v, cut)
            left[1] -= words * einsum.space.at[einsum.home][v]["size"]
        return tuple((n, words) for n, words in sorted(left.items()) if words > 0)

    def has_room(self, label: Label) -> bool:
        """Whether memories have room for what waits and is held."""
        home, *others = self.unwaiting(label)
        return bool(min(home - held_words(label.rooms), *others, home) >= 0)

    def unwaiting(self, label: Label) -> tuple[Any, ...]:
        """Room of each on-chip memory but for what waits there."""
        rooms = range(1, len(self.cascade.rooms) + 1)
        return tuple(self.cascade.room(n) - self.waiting(label, n) for n in rooms)

    def waiting(self, label: Label, memory: int) -> int:
        """Words of an on-chip memory that wait."""
        tiles = ((own.tensor, own.words) for own in label.stored if own.memory == memory)
        return self.cascade.together(tiles)

    def copied(self, label: Label, einsum: Einsum, shares: Spread | None) -> Iterator[Label]:
        """Yield the label with a copy, if it may move what it copies, and that is spread alike."""
        stored = {own.tensor: own.memory for own in label.stored}
        levels = tuple(stored.get(t, 0) for t in einsum.tensors)
        if einsum.may_lie(levels) and shares is not None:
            label = self.beside(label, einsum) if self.is_filled else label
            cost = einsum.transfer(levels, shares)
            energy, cycles = cost[0] * einsum.times, cost[1] * einsum.cycle_times
            yield label._replace(energy=label.energy + energy, cycles=label.cycles + cycles)

    def beside(self, label: Label, copy: Einsum) -> Label:
        """The label with what is copied beside its source: it takes the room of that."""
        own = {tile.tensor: tile for tile in label.stored if tile.tensor in copy.tensors}
        source = own.get(copy.tensors[copy.writes.index(False)])
        if source is None or source.above is None:
            return label
        one, stored = (source.tensor, source.above), set(label.stored)
        for tile in (tile for tile in own.values() if tile != source and tile.memory == source.memory):
            if tile.above is not None and self.cascade.is_part(copy, one, (tile.tensor, tile.above)):
                stored = stored - {tile} | {tile._replace(root=source.root)}
        return label._replace(stored=frozenset(stored))

    def shares(self, label: Label, einsum: Einsum, even: Sequence[int]) -> Spread | None:
        """Loops of an Einsum that spread what is stored, by fanout; None if there are none that do."""
        found: dict[int, Any] = {}
        spreads = {own.tensor: (own.memory, own.spread) for own in label.stored}
        tiles = [(v, *spreads[t]) for v, t in enumerate(einsum.tensors) if t in spreads]
        for v, memory, spread in tiles:
            loops = {} if spread is None else self.spreading(einsum, v, memory, spread, even)
            if loops is None or any(found.setdefault(n, own) != own for n, own in loops.items()):
                return None
        return tuple(sorted((n, tuple(sorted(own[:2] for own in loops))) for n, loops in found.items()))

    def spreading(
        self, einsum: Einsum, v: int, memory: int, spread: Shared, even: Sequence[int]
    ) -> dict[int, Any] | None:
        """The loops that spread one dataspace; None if it has no such ranks, or rules do not allow them."""
        dims = {name: d for d, name in einsum.lone(v).items()}
        if any(own.rank not in dims or even[dims[own.rank]] != own.extent for own in spread):
            return None
        found = {}
        for number in einsum.outside(memory):
            shares = [own for own in spread if own.fanout == number]
            loops = tuple((dims[own.rank], own.children, own.along_x) for own in shares)
            is_ordered = number in self.cascade.ordered
            if is_ordered and not self.cascade.allows(number, einsum, v, shares):
                return None
            found[number] = loops if is_ordered else tuple(sorted(loops))
        return found

    def priced(
        self,
        label: Label,
        rooms: tuple[Room, ...],
        waiting: int,
        einsum: Einsum,
        options: Iterable[tuple[int, int, int]],
    ) -> Iterator[Label]:
        """Yield the label with each choice for an edge that has room."""
        taken = waiting + sum(room.held for room in rooms)
        for energy, cycles, need_words in options:
            if taken + need_words > self.cascade.usable:
                continue
            own = rooms
            if rooms:
                last = rooms[-1]._replace(peak=max(rooms[-1].peak, waiting + need_words))
                own = (*rooms[:-1], last)
            yield label._replace(
                energy=label.energy + energy * einsum.times,
                cycles=label.cycles + cycles * einsum.cycle_times,
                rooms=own,
            )

    def roomy(
        self, label: Label, held: Iterable[tuple[int | None, int]], waiting: int
    ) -> tuple[Room, ...] | None:
        """Rooms of open bodies with further held tiles, None if there is too little.

        Those below all loops are there only while their Einsum runs.
        """
        rooms = list(label.rooms)
        for level, words in held:
            if level is not None:
                rooms[level] = rooms[level]._replace(held=rooms[level].held + words)
        total = 0
        for room in rooms:
            total += room.held
            if total + room.peak > self.cascade.usable:
                return None
        return tuple(rooms) if total + waiting <= self.cascade.usable else None

    # Loops

    # Bodies

    def bodies(self, label: Label, start: int, stop: int, ctx: Context, flat: bool) -> Iterator[Open]:
        """Yield each body over some Einsums that is worth a look: its trips, and places between its loops."""
        classes = self.cascade.classes(start, stop) or ()
        if self.cascade.is_any:
            yield from self.ragged(label, ctx, Open(start, stop, classes, (), (), flat))
            return
        lefts = [self.left_of(j, ctx) for j in range(start, stop)]
        sliding = [self.cascade.slides(SharedLoop(2, start, own)) for own in classes]
        every = range(start, stop)
        leaders = [not self.cascade.is_followed(j, every) for j in every]
        most = []
        for dims, slides in zip(classes, sliding, strict=True):
            pairs = zip(lefts, dims, leaders, strict=True)
            most.append(math.gcd(*(left[d] for left, d, leads in pairs if leads or not slides)))
        body, ones = Open(start, stop, classes, (), tuple(most), flat), (1,) * len(most)
        if not self.is_sliding(ctx):
            still = tuple(1 if slides else n for slides, n in zip(sliding, most, strict=True))
            for own in self.alike(label, ctx, body._replace(trips=still), ones, lefts):
                yield from self.placed(label, ctx, own, ones)
        for trips in vectors(most):
            own = body._replace(trips=trips)
            slides = any(n > 1 and slides for n, slides in zip(trips, sliding, strict=True))
            is_apart = prod(trips) > 1 and (slides or self.is_sliding(ctx))
            if is_apart and self.may_be(ctx, own):
                yield from self.placed(label, ctx, own, ones)

    def alike(
        self, label: Label, ctx: Context, body: Open, least: Numbers, lefts: Sequence[Sequence[int]]
    ) -> Iterator[Open]:
        """Yield the body with each multiple of the `least` trips that divides its own, if it is worth a look.

        Traffic is bounded by the fewest trips, and the room of tiles by the most, for all of them together.
        """
        if not self.divide(lefts, body.classes, least):
            return
        if least == body.trips:
            yield from [body] if prod(least) > 1 else ()
            return
        is_even = self.divide(lefts, body.classes, body.trips)
        if is_even and self.excluded(label, ctx, body, (1,) * len(least), least):
            return
        ratios = [n // m for n, m in zip(body.trips, least, strict=True)]
        c = max(range(len(least)), key=ratios.__getitem__)
        factor = divisors(ratios[c])[1]
        power = next(n for n in range(1, ratios[c]) if ratios[c] % factor ** (n + 1))
        few = replaced(body.trips, c, body.trips[c] // factor ** (power - power // 2))
        yield from self.alike(label, ctx, body._replace(trips=few), least, lefts)
        many = replaced(least, c, least[c] * factor ** (power // 2 + 1))
        yield from self.alike(label, ctx, body, many, lefts)

    def ragged(self, label: Label, ctx: Context, body: Open) -> Iterator[Open]:
        """Yield the body with all loops that may leave remainders, if they are worth a look.

        Lists of loops of a class that moves no window are told apart by their innermost tiles first.
        """
        every = [self.cuttable(ctx, body.start, body.end, dims) for dims in body.classes]
        lists: list[list[Numbers | None]] = [[None] if own.is_plain else [*own.lists()] for own in every]
        for chosen in product(*lists):
            sliding = body._replace(trips=tuple(trips or () for trips in chosen))
            if self.may_be(ctx, sliding):
                ranges = tuple((own.tiles, trips) for own, trips in zip(every, chosen, strict=True))
                yield from self.cells(label, ctx, body, every, ranges)

    def cells(
        self, label: Label, ctx: Context, body: Open, every: Sequence[Cuttable], ranges: Ranges
    ) -> Iterator[Open]:
        """Yield the body with all loops to tiles of some extents, if it is worth a look.

        Traffic is bounded by the largest tiles, and the room of tiles by the smallest ones.
        """
        pairs = [*zip(every, ranges, strict=True)]
        few, many = (
            tuple(single(own.extent, tiles[i]) if trips is None else trips for own, (tiles, trips) in pairs)
            for i in (0, -1)
        )
        nothing = none_of(many)
        if self.excluded(label, ctx, body._replace(trips=many), nothing, few):
            return
        ratios = [tiles[0] / tiles[-1] if trips is None else 1 for tiles, trips in ranges]
        c = max(range(len(ratios)), key=ratios.__getitem__)
        if ratios[c] > 1:
            tiles, _ = ranges[c]
            for part in (tiles[: len(tiles) // 2], tiles[len(tiles) // 2 :]):
                yield from self.cells(label, ctx, body, every, (*ranges[:c], (part, None), *ranges[c + 1 :]))
            return
        whole = [own.whole for own in every]
        lists = [chains(own.extent, tiles[0]) if trips is None else [trips] for own, (tiles, trips) in pairs]
        for chosen in product(*lists):
            own = body._replace(trips=chosen)
            if any(chosen):
                yield from self.placed(label, ctx, own, nothing, whole)

    def placed(
        self, label: Label, ctx: Context, body: Open, at: Place, whole: Sequence[int | None] = ()
    ) -> Iterator[Open]:
        """Yield the body with each further list of places from one on, `at`, if it is worth a look.

        Between two places the loops of a class are a single one where they cut as one does. Where a class has
        a list of loops, the `whole` is what they cut; None if more than that matters.
        """
        if self.excluded(label, ctx, body, at):
            return
        if at == body.trips:
            yield body
            return
        longer = body._replace(places=(*body.places, at))
        last = frozenset(changed(body.places[-1], at)) if body.places else None
        above = frozenset(changed(none_of(at), at))
        for then in self.following(at, body.trips, tuple(whole)):
            segment = frozenset(changed(at, then))
            is_kind = last is None or self.may_follow(body.start, body.end, above, last, segment)
            is_kind &= self.is_segment(body.start, body.end, segment)
            if is_kind and self.within(ctx, longer, then):
                yield from self.placed(label, ctx, longer, then, whole)

    def excluded(
        self,
        label: Label,
        ctx: Context,
        body: Open,
        at: Place,
        least: Place | None = None,
    ) -> bool:
        """Whether the Einsums of a body cost too much, whatever the loops inside of a place.

        So it is with all trips that are multiples of the `least` ones, or cut into no larger tiles.
        """
        self.look()
        own, places, is_any = (*ctx, body), range(body.start, body.end), self.cascade.is_any
        room = self.unwaiting(label)[0] - held_words(label.rooms)
        stays = {j: self.stays(label.stored, j, body.start, body.end) for j in places}
        outer = self.left(label, body.end, ctx)
        costs = [self.lower(j, own, stays[j], at, least, room, is_any) for j in places]
        end = ctx[0].end if ctx else body.end

        def are_too_much() -> bool:
            energies, cycles = zip(outer, *costs, strict=True)
            return bool(self.worth(label, end, (sum(energies), sum(cycles))) >= self.limit)

        if are_too_much() or not is_any or least is not None or not body.flat:
            return are_too_much()
        for n, j in enumerate(places):  # no more claims than it takes
            costs[n] = self.lower(j, own, stays[j], at, room=room)
            if are_too_much():
                return True
        return False

    @remembered
    def stays(self, stored: frozenset[Waiting], j: int, start: int, stop: int) -> Stays:
        """What is known of an Einsum's tensors at the start of a body, or of its rest, if some are `stored`.

        The others of which an Einsum before writes some, or one after the stop reads some, are not.
        """
        memories = {own.tensor: own.memory for own in stored}
        users, tensors = self.cascade.users, self.cascade.einsums[j].tensors
        ends = [(t, self.cascade.writer.get(t, -1), users[t][-1]) for t in tensors]
        return tuple(
            memories.get(t, None if start <= first and (last < stop or first >= stop) else 0)
            for t, first, last in ends
        )


def held_words(rooms: Iterable[Room]) -> int:
    """Words that tiles take which are held above loops of open bodies."""
    return sum(room.held for room in rooms)
