"""Bounds on all fused mappings of a cascade: the checker's own dynamic program over its Einsums.

Costs add up from Einsum to Einsum. What an Einsum costs between two cuts is an edge, which is bounded by
claims that were checked, and in closed form. Bodies are enumerated with the trips of their loops, then with
the places between these at which tiles may be held, as far as these bounds do not exclude them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise, permutations, product
from math import inf, prod
from operator import le
from typing import Any, NamedTuple

from solver.certificate.checker.claims import able, ceiling, remembered
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.fused_cascade import (
    Above,
    Cascade,
    Share,
    Shared,
    SharedLoop,
    State,
    changed,
    parted,
    replaced,
)
from solver.certificate.checker.fused_edges import Edge, Edges, Given, Way, undominated
from solver.certificate.checker.fused_einsums import Cut, Einsum, vectors
from solver.certificate.checker.fused_loops import (
    Cuttable,
    Place,
    Ranges,
    between,
    chains,
    further,
    is_single,
    none_of,
    single,
)
from solver.certificate.checker.fused_visits import Numbers, Rooms, Spread

MOST_LABELS = 1 << 22  # that a check looks at


class Open(NamedTuple):
    """A body; trips per class above each of its places."""

    start: int
    end: int
    classes: tuple[Numbers, ...]
    places: tuple[Place, ...]
    trips: Place
    flat: bool


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
Stays = tuple[int | None, ...]  # memories that tensors are stored in, 0 if they are not, None if that is open
Context = tuple[Open, ...]  # open bodies, outermost first


def value(objective: str, energy: Any, cycles: Any) -> Any:
    """Value of an objective."""
    return {"energy": energy, "latency": cycles, "edp": energy * cycles}[objective]


class Paths:
    """The dynamic program: the least value of all paths through the cuts of a cascade, by bounds on edges.

    `rests` are least energy and cycles from each cut on that no body spans, by what is stored there: infinite
    where no path below the limit goes on, and no more than those of a `known` mapping. How tensors are spread
    over the instances of memories is left open, or told apart, if it `is_spread`. Tiles may be as small as
    they like, or have to fill memories, if it `is_filled`: then larger ones than necessary may help.
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
        self.cascade, self.edges, self.objective, self.limit = cascade, edges, objective, limit
        self.count, self.looks_left = len(cascade.einsums), most
        self.is_spread, self.is_filled = is_spread, is_filled
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

    @remembered
    def spreads(self, tensor: int, level: int, ctx: Context) -> list[Shared | None]:
        """Ways to spread a tensor over the instances of a memory, of extents at most those of open bodies."""
        (einsum, v) = next((e, v) for e, v in self.cascade.accesses(tensor) if e.writes[v])
        if not self.is_spread or not einsum.outside(level):
            return [None]
        even = self.even_of(einsum.number, ctx)
        extents = {d: even[d] for d in einsum.lone(v)}
        found: list[Shared | None] = []
        for spread in einsum.divisions(level, extents):
            orders = (self.in_each_order(einsum, v, number, loops, even) for number, loops in spread)
            found += [tuple(chain(*chosen)) for chosen in product(*orders)]
        return found

    def in_each_order(
        self, einsum: Einsum, v: int, number: int, loops: Sequence[tuple[int, int]], even: Sequence[int]
    ) -> list[Shared]:
        """Loops of a fanout that spread what an Einsum writes, in each order that its rules allow."""
        names = einsum.lone(v)
        shares = tuple(Share(number, names[d], n, even[d]) for d, n in loops)
        if number not in self.cascade.ordered:
            return [shares]
        every = (
            tuple(share._replace(along_x=i < along_x) for i, share in enumerate(order))
            for order, along_x in product(permutations(shares), range(len(shares) + 1))
        )
        return [own for own in every if self.cascade.allows(number, einsum, v, own)]

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

    def leaf(self, label: Label, j: int, ctx: Context) -> Iterator[Label]:
        """Yield the label with an Einsum mapped in each way."""
        einsum = self.cascade.einsums[j]
        if einsum.is_copy:
            yield from self.copied(label, einsum)
            return
        levels, cut = {own.tensor: own.memory for own in label.stored}, self.cut(j, ctx)
        if not all(einsum.may_be(bounds) for bounds, _ in einsum.kinds(cut)):
            return
        left, shares = self.unwaiting(label), self.shares(label, einsum, self.even_of(j, ctx))
        if shares is None:
            return
        ways: list[list[tuple[Any, Way]]] = [
            [(None, Way(stored=levels[t]))]
            if t in levels
            else [(None, self.edges.fetched(j, v, cut)), *self.holds(j, v, ctx)]
            for v, t in enumerate(einsum.tensors)
        ]
        for chosen in product(*ways):
            held = frozenset(v for v, (spot, _) in enumerate(chosen) if spot is not None)
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
        self, label: Label, einsum: Einsum, cut: Cut, chosen: Sequence[tuple[Any, Way]], given: Given
    ) -> Iterator[Label]:
        """Yield the label with an Einsum whose tiles are kept as chosen, and what that costs at the least."""
        divided = {d for n, loops in given.shares if n in einsum.outside(1) for d, _ in loops}
        if divided & given.undivided:
            return
        j, waiting = einsum.number, self.waiting(label, 1)
        spots = {v: spot for v, (spot, _) in enumerate(chosen) if spot is not None}
        ways = [way for _, way in chosen]
        for v, (_, above) in spots.items():
            ways[v] = self.edges.held(j, v, above, given.shares)
        rooms = self.roomy(label, [(v, ways[v].room, spots[v]) for v in spots], waiting)
        fills = self.unfilled(label, einsum, {v: above for v, (_, above) in spots.items()}, given.shares)
        if rooms is None or any(words > given.rooms[n - 1] for n, words in fills):
            return
        given = given._replace(fills=fills)
        tiles = tuple(einsum.held(v, above, given.shares) for v, (_, above) in spots.items())
        options = self.edges.choices(j, cut, ways, tiles, given)
        edge = j, cut, tuple(ways), tiles, given.rooms[0] - held_words(rooms), fills
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

    def unwaiting(self, label: Label) -> list[Any]:
        """Room of each on-chip memory but for what waits there."""
        return [self.cascade.room(n) - self.waiting(label, n) for n, _ in enumerate(self.cascade.rooms, 1)]

    def waiting(self, label: Label, memory: int) -> int:
        """Words of an on-chip memory that wait."""
        tiles = ((own.tensor, own.words) for own in label.stored if own.memory == memory)
        return self.cascade.together(tiles)

    def copied(self, label: Label, einsum: Einsum) -> Iterator[Label]:
        """Yield the label with a copy, if it may move what it copies."""
        stored = {own.tensor: own.memory for own in label.stored}
        levels = tuple(stored.get(t, 0) for t in einsum.tensors)
        if einsum.may_lie(levels):
            label = self.beside(label, einsum) if self.is_filled else label
            cost = einsum.transfer(levels)
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
        self, label: Label, held: Iterable[tuple[int, int, Any]], waiting: int
    ) -> tuple[Room, ...] | None:
        """Rooms of open bodies with further held tiles, None if there is too little."""
        rooms = list(label.rooms)
        for _, words, (level, _) in held:
            rooms[level] = rooms[level]._replace(held=rooms[level].held + words)
        total = 0
        for room in rooms:
            total += room.held
            if total + room.peak > self.cascade.usable:
                return None
        return tuple(rooms) if total + waiting <= self.cascade.usable else None

    def holds(self, j: int, v: int, ctx: Context) -> list[tuple[Any, Way]]:
        """Where a tile may be held with profit, as body and trips, and the way that it then is."""
        einsum = self.cascade.einsums[j]
        if not einsum.may_keep[v]:
            return []
        return [(spot, way) for spot, way in self.spots(j, v, ctx) if way.room <= self.cascade.usable]

    @remembered
    def spots(self, j: int, v: int, ctx: Context) -> list[tuple[Any, Way]]:
        """All of these, whatever their room."""
        levels = range(self.least_level(j, v, ctx), len(ctx))
        spots = [(level, at) for level in levels for at in self.profitable(j, v, ctx[level])]
        found = [(level, self.cascade.cut(j, self.loops_above(ctx, level, at))) for level, at in spots]
        return [(spot, self.edges.held(j, v, spot[1])) for spot in found]

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

    # Loops

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
            if is_kind and self.within(ctx, longer, then):
                yield from self.placed(label, ctx, longer, then, whole)

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

    @remembered
    def may_follow(
        self, start: int, end: int, above: frozenset[int], last: frozenset[int], segment: frozenset[int]
    ) -> bool:
        """Whether something may have to lie between two groups of loops: what is held, or keeps an overlap.

        Loops below would drop the latter, where some `above` slide it, or several of them.
        """
        if parted(last, segment, self.every_kind(start, end)):
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
        least = {key: min(getattr(way, key) for way in ways if not way.stored) for key in Way._fields[:4]}
        return [ways[0]._replace(**least), *deep]

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


def held_words(rooms: Iterable[Room]) -> int:
    """Words that tiles take which are held above loops of open bodies."""
    return sum(room.held for room in rooms)
