"""Cascades as the checker reads them: tensors and memories, and how shared loops cut Einsums and tensors."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from itertools import chain
from math import inf, prod
from typing import Any, NamedTuple

from solver.certificate.checker.claims import Json, able, natural, need, remembered
from solver.certificate.checker.fused_einsums import Cut, Einsum
from solver.certificate.checker.fused_visits import Numbers
from solver.certificate.checker.remainders import numbers_of_tiles

MOST_EINSUMS, MOST_PARTS = 1 << 10, 1 << 20  # parts: of a dimension, which loops cut


class SharedLoop(NamedTuple):
    """A shared loop: a dimension of each Einsum of its body."""

    trips: int
    start: int
    dims: Numbers


Above = tuple[SharedLoop, ...]  # the shared loops above an Einsum, outermost first
Spans = tuple[tuple[int, int], ...]  # first index and end, in each iteration


class Share(NamedTuple):
    """A spatial loop that spreads a tensor: fanout, rank, children, and the extent that they divide.

    Where rules order the loops of the fanout, it says whether it lies along X; they are innermost first.
    """

    fanout: int
    rank: str
    children: int
    extent: int
    along_x: bool | None = None


Shared = tuple[Share, ...]  # how a tensor is spread

State = frozenset[tuple[int, int]]  # tensors that are stored across a cut, and their memories


class Cascade:
    """The cascade of a certificate, and what of it may be fused."""

    def __init__(self, doc: Json) -> None:
        able(0 < len(doc["einsums"]) <= MOST_EINSUMS, "there are Einsums, and not too many")
        self.einsums = [Einsum(own, number) for number, own in enumerate(doc["einsums"])]
        self.rooms, self.most_loops, self.most_per_rank = (
            doc[key] for key in ("rooms", "most_loops", "most_loops_per_rank")
        )
        limits = [*self.rooms, self.most_loops, self.most_per_rank]
        need(natural(limits), "limits are natural numbers")
        need(doc["shared_factors"] in ("perfect", "any"), "shared loops have factors of a known kind")
        self.is_any = doc["shared_factors"] == "any"
        for key, claim in (("units_per_pj", "energies have one unit"), ("counting", "Einsums count alike")):
            need(len({own.doc[key] for own in self.einsums}) == 1, claim)
        scales = [tuple(own["room_scale"]) for own in doc["tensors"]]
        overlapping = any(own.slid(v) for own in self.einsums for v in own.stay)
        able(
            not (self.is_any and overlapping),
            "the checker does not know remainders of shared loops that slide what overlaps",
        )
        need(
            natural([*map(list, scales)]) and all(len(own) == 2 and all(own) for own in scales),
            "scales are positive",
        )
        self.scales = scales
        users: list[list[int]] = [[] for _ in scales]
        for einsum in self.einsums:
            need(all(type(t) is int and 0 <= t < len(users) for t in einsum.tensors), "tensors are known")
            for tensor in dict.fromkeys(einsum.tensors):
                users[tensor].append(einsum.number)
        self.users = users
        self.writer: dict[int, int] = {}
        for einsum in self.einsums:
            written = [t for t, own in zip(einsum.tensors, einsum.writes, strict=True) if own]
            need(
                len({*written}) == len(written) and not {*written} & self.writer.keys(),
                "tensors are written once",
            )
            self.writer |= dict.fromkeys(written, einsum.number)
        read = {t: [j for j in users[t] if j != own] for t, own in self.writer.items()}
        need(
            all(j > self.writer[t] for t, own in read.items() for j in own),
            "tensors are written before they are read",
        )
        self.readers = {t: own for t, own in read.items() if own}
        for number, room in enumerate(self.rooms, 1):
            sizes = {*self.sizes(number)}
            need(room is None or sizes == {room}, "Einsums share the on-chip memories")
        may_stay = [own["may_stay"] for own in doc["tensors"]]
        need(natural(may_stay), "memories have numbers")
        pairs = {t: [n for n in may_stay[t] if n in self.may_store(t)] for t in self.readers}
        self.storable = {t: own for t, own in pairs.items() if own}
        need(
            {*chain(*self.storable.values())} <= {*self.known},
            "Einsums share the memories that store tensors",
        )

    def sizes(self, number: int) -> Iterator[int]:
        """Most words of an on-chip memory, Einsum by Einsum."""
        need(
            all(len(e.levels) == len(self.rooms) for e in self.einsums), "Einsums share the on-chip memories"
        )
        for e in self.einsums:
            yield e.space.nodes[e.levels[number - 1][0]]["most_size"]

    @cached_property
    def known(self) -> list[int]:
        """Numbers of the memories that may store tensors: of one size, with the same fanouts outside."""
        found = []
        for number in range(1, len(self.rooms) + 1):
            outside = [e.outside(number) for e in self.einsums]
            alike = len({tuple((n, mesh) for n, (_, mesh) in own.items()) for own in outside}) == 1
            if alike and len({*self.sizes(number)}) == 1:
                found.append(number)
        return found

    @cached_property
    def ordered(self) -> set[int]:
        """Numbers of the fanouts whose spatial loops the rules of some Einsum order; copies have none."""
        mapped = (e for e in self.einsums if not e.is_copy)
        return {n for e in mapped for n in range(len(e.space.fans)) if e.is_ordered(n)}

    @staticmethod
    def allows(number: int, einsum: Einsum, v: int, shares: Sequence[Share]) -> bool:
        """Whether the rules of an Einsum allow the loops of a fanout that spread a dataspace, in their order.

        Those along X come first.
        """
        dims = {name: d for d, name in einsum.lone(v).items()}
        along_x = sum(bool(share.along_x) for share in shares)
        return einsum.is_copy or einsum.lays_out(
            number, [(dims[own.rank], own.children) for own in shares], along_x
        )

    def instances(self, number: int) -> int:
        """How often an on-chip memory exists."""
        return prod(prod(mesh) for _, mesh in self.einsums[0].outside(number).values())

    @property
    def usable(self) -> int | float:
        """Room of the outermost on-chip memory."""
        return self.room(1)

    def room(self, number: int) -> int | float:
        """Room of an on-chip memory."""
        room = self.rooms[number - 1]
        return inf if room is None else room

    def accesses(self, tensor: int) -> list[tuple[Einsum, int]]:
        """Einsums and dataspaces that access a tensor."""
        return [
            (self.einsums[j], v)
            for j in self.users[tensor]
            for v, t in enumerate(self.einsums[j].tensors)
            if t == tensor
        ]

    def may_store(self, tensor: int) -> set[int]:
        """Numbers of the memories that a tensor may wait in."""
        accesses = self.accesses(tensor)
        same = len({frozenset(e.names[v]) for e, v in accesses}) == 1
        found = set.intersection(*(e.may_store[v] for e, v in accesses)) if same else set()
        copied = all(e.is_copy for e, _ in accesses)  # nothing says how it is spread
        return {n for n in found if not copied or self.instances(n) == 1}

    @cached_property
    def family(self) -> dict[int, int]:
        """Per tensor that is copied, or a copy, the first one of which it is a copy, or a copy of a copy."""
        found: dict[int, int] = {}
        for einsum in (own for own in self.einsums if own.is_copy):
            source = einsum.tensors[einsum.writes.index(False)]
            first = found.setdefault(source, source)
            found |= dict.fromkeys(einsum.tensors, first)
        return found

    def together(self, tiles: Iterable[tuple[int, int]]) -> int:
        """Least words of some tensors in one memory: of a tensor and its copies the largest one counts."""
        largest: dict[int, int] = {}
        for t, words in tiles:
            first = self.family.get(t, t)
            largest[first] = max(words, largest.get(first, 0))
        return sum(largest.values())

    def is_part(self, copy: Einsum, source: tuple[int, Above], target: tuple[int, Above]) -> bool:
        """Whether the tile of a copy, or that of its source, is always part of the other one."""
        if not source[1] and not target[1]:
            return True
        tiles = []
        for t, loops in (source, target):
            v, spans = copy.tensors.index(t), self.waiting(t, loops)
            ranks = zip(copy.names[v], copy.ranks[v], copy.offsets[v], strict=True)
            alone = [
                (rank[0][0], by, spans[name][0]) for name, rank, by in ranks if rank == [(rank[0][0], 1)]
            ]
            tiles.append({d: [(a - by, b - by) for a, b in own] for d, by, own in alone})
        both = tiles[0].keys() & tiles[1].keys()  # no loop runs over other dimensions
        pairs = [pair for d in both for pair in in_step(tiles[0][d], tiles[1][d])]
        inside = all(a <= c and d <= b for (a, b), (c, d) in pairs)
        return inside or all(c <= a and b <= d for (a, b), (c, d) in pairs)

    def handed(self, start: int, end: int) -> list[int]:
        """Tensors that some of neighbouring Einsums write, and others of them read."""
        inside = range(start, end)
        return [
            t
            for t, j in self.writer.items()
            if j in inside and any(r in inside for r in self.readers.get(t, ()))
        ]

    @remembered
    def classes(self, start: int, end: int) -> tuple[Numbers, ...] | None:
        """The loops that a body may have: a dimension of each Einsum. None if it is not connected."""
        members, handed = self.einsums[start:end], self.handed(start, end)
        known, grown = {start}, True
        while grown:
            groups = [{j for j in self.users[t] if start <= j < end} for t in handed]
            wider = known.union(*(own for own in groups if own & known))
            known, grown = wider, len(wider) > len(known)
        if len(known) < end - start:
            return None
        if len({e.times for e in members}) > 1:
            return ()
        firsts = range(len(members[0].bounds))
        found = chain.from_iterable(self.followed(start, end, handed, {start: d}) for d in firsts)
        allowed = (dims for dims in dict.fromkeys(found) if self.agrees(start, end, handed, dims))
        return tuple(dims for dims in allowed if not self.tangled(start, end, dims))

    def followed(
        self, start: int, end: int, handed: Sequence[int], dims: Mapping[int, int]
    ) -> Iterator[Numbers]:
        """Yield the dimensions of all Einsums of a body that index what some dimensions of others index."""
        if len(dims) == end - start:
            yield tuple(dims[j] for j in range(start, end))
            return
        uses = ((t, i, j) for t in handed for i in self.users[t] for j in self.users[t])
        t, i, j = next(own for own in uses if own[1] in dims and own[2] not in dims and start <= own[2] < end)
        one, other = self.einsums[i], self.einsums[j]
        v, u = one.tensors.index(t), other.tensors.index(t)
        names = [name for name, rank in zip(one.names[v], one.ranks[v], strict=True) if dims[i] in dict(rank)]
        ranks = [rank for name, rank in zip(other.names[u], other.ranks[u], strict=True) if name in names[:1]]
        for d in (d for rank in ranks for d, _ in rank):
            yield from self.followed(start, end, handed, {**dims, j: d})

    def agrees(self, start: int, end: int, handed: Sequence[int], dims: Numbers) -> bool:
        """Whether a loop runs over one rank of each tensor that is handed over, alone where it is written."""
        for t in handed:
            j = self.writer[t]
            one, d = self.einsums[j], dims[j - start]
            v = next(v for v, own in enumerate(one.tensors) if own == t and one.writes[v])
            names = [name for name, rank in zip(one.names[v], one.ranks[v], strict=True) if rank == [(d, 1)]]
            if len(names) != 1 or d in one.joint[v]:
                return False
            reads = [(e, u) for e, u in self.accesses(t) if start <= e.number < end and e.number != j]
            if not all(self.reads_along(e, u, dims[e.number - start], names[0]) for e, u in reads):
                return False
        copies = ((own, dims[own.number - start]) for own in self.einsums[start:end] if own.is_copy)
        return all(self.parts_alike(*own) for own in copies)

    @staticmethod
    def parts_alike(copy: Einsum, d: int) -> bool:
        """Whether a dimension of a copy indexes one rank of what it reads and of what it writes, alone."""
        using = [[rank for rank in ranks if d in dict(rank)] for ranks in copy.ranks]
        return all(ranks == [[(d, 1)]] for ranks in using)

    @staticmethod
    def reads_along(einsum: Einsum, v: int, d: int, name: str) -> bool:
        """Whether a dimension moves an access along one rank, forwards."""
        ranks = zip(einsum.names[v], einsum.ranks[v], strict=True)
        return [(own, dict(rank)[d] > 0) for own, rank in ranks if d in dict(rank)] == [(name, True)]

    def tangled(self, start: int, end: int, dims: Numbers) -> bool:
        """Whether a loop moves a window of an output, or one that slides indexes two ranks of a tensor.

        Or if it moves a window of what is handed over, where places alone decide what stays in a tile.
        """
        slides, handed = self.slides(SharedLoop(2, start, dims)), self.handed(start, end)
        for e, d in zip(self.einsums[start:end], dims, strict=True):
            if any(own and d in e.joint[v] for v, own in enumerate(e.writes)):
                return True
            if e.placed and any(d in e.windows(v) for v, t in enumerate(e.tensors) if t in handed):
                return True
            if slides and any(sum(d in dict(rank) for rank in ranks) > 1 for ranks in e.ranks):
                return True
        return False

    @remembered
    def slides(self, loop: SharedLoop) -> bool:
        """Whether a loop cuts what is handed over into unequal parts, or parts that overlap."""
        start, end = loop.start, loop.start + len(loop.dims)
        if len({e.bounds[d] for e, d in zip(self.einsums[start:end], loop.dims, strict=True)}) > 1:
            return True
        uses = [(t, e, v) for t in self.handed(start, end) for e, v in self.accesses(t)]
        found: dict[tuple[int, str], set[int | None]] = {}
        for t, e, v in (own for own in uses if start <= own[1].number < end):
            d = loop.dims[e.number - start]
            ranks = zip(e.names[v], e.ranks[v], e.offsets[v], strict=True)
            for name, rank, offset in (own for own in ranks if d in dict(own[1])):
                found.setdefault((t, name), set()).add(offset if rank == [(d, 1)] else None)
        return any(len(own) > 1 or None in own for own in found.values())

    # Visits

    @remembered
    def spans(self, j: int, d: int, loops: Above) -> Spans:
        """The parts of a dimension, as first index and end, in each iteration of the loops over it.

        A loop cuts equal tiles. What is handed over goes as far as those that read it under the same loop,
        and on from where it was.
        """
        if not loops:
            return ((0, self.einsums[j].bounds[d]),)
        (*outer, last) = loops
        parents = self.spans(j, d, tuple(outer))
        if last.dims[j - last.start] != d:
            return parents
        able(len(parents) * last.trips <= MOST_PARTS, "loops cut too many parts")
        asked = [*self.asked(j, d, loops)]
        need(
            all(len(own) == len(parents) * last.trips for own in asked),
            "loops move a window along one dimension",
        )
        tile = -(-max(high - low for low, high in parents) // last.trips)
        found, place = [], 0
        for number, (low, high) in enumerate(parents):
            place = low
            for trip in range(last.trips):
                ends = [own[number * last.trips + trip] for own in asked]
                wanted = max(ends) if ends else place + tile
                end = high if ends and trip == last.trips - 1 else max(place, min(high, wanted))
                found.append((place, end))
                place = end
        return tuple(found)

    def asked(self, j: int, d: int, loops: Above) -> Iterator[list[int]]:
        """Yield how far each access goes that reads what an Einsum hands over under the same loops."""
        einsum, last = self.einsums[j], loops[-1]
        below = range(last.start, last.start + len(last.dims))
        ranks = [
            (einsum.tensors[v], name, offset)
            for v in (v for v, own in enumerate(einsum.writes) if own)
            for name, rank, offset in zip(einsum.names[v], einsum.ranks[v], einsum.offsets[v], strict=True)
            if [e for e, _ in rank] == [d]
        ]
        for tensor, name, offset in ranks:
            for e, u in ((e, u) for e, u in self.accesses(tensor) if e.number in below and e.number != j):
                yield [high - offset for _, high in self.indices(e.number, u, name, loops)]

    @remembered
    def indices(self, j: int, v: int, name: str, loops: Above) -> Spans:
        """Indices into a rank that an access takes in each iteration: only the looped dimension is cut."""
        einsum = self.einsums[j]
        place = einsum.names[v].index(name)
        rank, offset = einsum.ranks[v][place], einsum.offsets[v][place]
        looped = [own for own in rank if own[0] in {loop.dims[j - loop.start] for loop in loops}]
        d, c = (looped or rank)[0]
        ways = [own * (einsum.bounds[e] - 1) for e, own in rank if e != d]
        low, high = offset + sum(min(0, way) for way in ways), offset + sum(max(0, way) for way in ways)
        return tuple(
            (low + c * first, high + c * (end - 1) + 1) if first < end else (low + c * first,) * 2
            for first, end in self.spans(j, d, loops)
        )

    @remembered
    def waiting(self, tensor: int, loops: Above) -> dict[str, tuple[list[tuple[int, int]], Spans | None]]:
        """Per rank of a tensor, the indices that wait in each iteration, and those that are produced then."""
        (writer, w) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        found = {}
        for name in dict.fromkeys(name for e, v in self.accesses(tensor) for name in e.names[v]):
            uses = [
                self.indices(e.number, v, name, loops) for e, v in self.accesses(tensor) if name in e.names[v]
            ]
            most = max(map(len, uses))
            columns = zip(*(own for own in uses if len(own) == most), strict=True)
            spans = [(min(low for low, _ in own), max(high for _, high in own)) for own in columns]
            made = self.indices(writer.number, w, name, loops) if name in writer.names[w] else None
            found[name] = spans, made
        return found

    @remembered
    def keeps(self, tensor: int, loops: Above) -> bool:
        """Whether no loop drops what overlaps: it moves the tile before this has slid on."""
        (writer, w) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        for name, (spans, made) in self.waiting(tensor, loops).items():
            if made is None or all(
                low >= first for (low, _), (first, _) in zip(spans[1:], made[1:], strict=False)
            ):
                continue
            d = writer.ranks[w][writer.names[w].index(name)][0][0]
            dims = [loop.dims[writer.number - loop.start] for loop in loops]
            if any(e != d for e in dims[dims.index(d) :]):
                return False
        return True

    @remembered
    def cut(self, j: int, loops: Above) -> Cut:
        """How loops cut the dimensions of an Einsum, as `kinds` takes it."""
        einsum = self.einsums[j]
        dims = [loop.dims[j - loop.start] for loop in loops]
        if not any(map(self.slides, loops)):
            trips: list[Numbers] = [()] * len(einsum.bounds)
            for d, loop in zip(dims, loops, strict=True):
                trips[d] = (*trips[d], loop.trips)
            return tuple(map(parts, einsum.bounds, trips))
        cut: list[tuple[tuple[int, int], ...]] = list(einsum.whole)
        for d in {*dims}:
            sizes = (high - low for low, high in self.spans(j, d, loops))
            cut[d] = tuple(Counter(size for size in sizes if size).items())
        return tuple(cut)

    def may_cut(self, loops: Above) -> bool:
        """Whether the last loop may have its trips: see `divides`, and docs/fusion.md where any are allowed.

        There no tile is empty if each has the largest extent, unless Einsums that follow no other one differ.
        """
        last = loops[-1]
        every = range(last.start, last.start + len(last.dims))
        if not self.is_any:
            return all(self.divides(j, loops) for j in every)
        leading = [j for j in every if not (self.slides(last) and self.is_followed(j, every))]
        sizes = {self.largest(j, last.dims[j - last.start], loops[:-1]) for j in leading}
        if len(sizes) > 1:
            return not math.gcd(*sizes) % last.trips and all(self.has_work(j, loops) for j in every)
        return last.trips in numbers_of_tiles(*sizes) and all(self.has_work(j, loops) for j in every)

    def is_followed(self, j: int, others: range) -> bool:
        """Whether an Einsum hands something over to some of others."""
        return any(self.writer[t] == j for t in self.handed(others.start, others.stop))

    def largest(self, j: int, d: int, loops: Above) -> int:
        """Extent of the largest part of a dimension."""
        return max(size for size, _ in self.cut(j, loops)[d])

    def has_work(self, j: int, loops: Above) -> bool:
        """Whether the last loop has no more trips than the largest part of a dimension has indices."""
        (*outer, last), d = loops, loops[-1].dims[j - loops[-1].start]
        before = prod(loop.trips for loop in outer if loop.dims[j - loop.start] == d)
        return last.trips <= -(-int(self.einsums[j].bounds[d]) // before)

    def divides(self, j: int, loops: Above) -> bool:
        """Whether the last loop leaves no remainder, but where others are followed, nor cuts too often."""
        last, d = loops[-1], loops[-1].dims[j - loops[-1].start]
        trips = prod(loop.trips for loop in loops if loop.dims[j - loop.start] == d)
        if any(True for _ in self.asked(j, d, loops)):
            return trips <= int(self.einsums[j].bounds[d])
        return all((high - low) % last.trips == 0 for low, high in self.spans(j, d, loops[:-1]))

    def moves_once(self, j: int, loops: Above) -> bool:
        """Whether the loops that an Einsum shares with a writer move each window along one dimension."""
        einsum = self.einsums[j]
        for v, t in enumerate(einsum.tensors):
            w = self.writer.get(t, j)
            own = [loop for loop in loops if w != j and loop.start <= w < loop.start + len(loop.dims)]
            looped = {loop.dims[j - loop.start] for loop in own}
            if any(len(looped & {d for d, _ in rank}) > 1 for rank in einsum.ranks[v]):
                return False
        return True

    @remembered
    def stored_words(self, tensor: int, loops: Above, level: int, spread: Shared | None = None) -> int:
        """Room of a tensor that waits below shared loops in an instance of a memory.

        At the least, without a `spread` over the instances.
        """
        (einsum, v) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        if any(map(self.slides, loops)):
            waiting = self.waiting(tensor, loops).items()
            lengths = {name: max(high - low for low, high in spans) for name, (spans, _) in waiting}
        else:
            lengths = self.even_lengths(tensor, einsum, v, loops)
        parts: Counter[str] = Counter()
        for share in spread or ():
            parts[share.rank] = max(1, parts[share.rank]) * share.children
        words = prod(-(-length // max(1, parts[name])) for name, length in lengths.items())
        words = -(-words // self.instances(level)) if spread is None else words
        size, (up, down) = einsum.space.at[einsum.levels[level - 1][0]][v]["size"], self.scales[tensor]
        return int(-(-words * size * up // down))

    def even_lengths(self, tensor: int, einsum: Einsum, v: int, loops: Above) -> dict[str, int]:
        """Per rank what a tensor has between its first and last index, divided by the trips of loops."""
        trips: Counter[int] = Counter()
        for loop in loops:
            d = loop.dims[einsum.number - loop.start]
            trips[d] = max(1, trips[d]) * loop.trips
        divided = {
            n: prod(max(1, trips[d]) for d, _ in r)
            for n, r in zip(einsum.names[v], einsum.ranks[v], strict=True)
        }
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        for e, own in self.accesses(tensor):
            for name, rank, offset in zip(e.names[own], e.ranks[own], e.offsets[own], strict=True):
                ways = [c * (e.bounds[d] - 1) for d, c in rank]
                low[name] = min(low.get(name, inf), offset + sum(min(0, way) for way in ways))
                high[name] = max(high.get(name, -inf), offset + sum(max(0, way) for way in ways) + 1)
        return {name: -(-(high[name] - low[name]) // divided.get(name, 1)) for name in low}


@lru_cache(1 << 14)
def parts(bound: int, trips: Numbers) -> tuple[tuple[int, int], ...]:
    """Extents of the parts of a dimension, the first one's first, and how many there are of each.

    Each loop cuts all parts into tiles of one extent, the last of which may be short.
    """
    found = Counter({bound: 1})
    for n in trips:
        tile, before = -(-max(found) // n), found
        found = Counter()
        for size, times in before.items():
            found += Counter({tile: size // tile * times})
            found += Counter({size % tile: times} if size % tile else {})
    return tuple(found.items())


def in_step(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Parts that wait at the same time: loops below one place cut its parts further."""
    steps = max(len(one), len(other))
    return [(one[n * len(one) // steps], other[n * len(other) // steps]) for n in range(steps)]


def replaced(numbers: Numbers, place: int, number: int) -> Numbers:
    """A tuple with another number at a place."""
    return (*numbers[:place], number, *numbers[place + 1 :])


def changed(one: Sequence[object], other: Sequence[object]) -> set[int]:
    """Classes of loops between two places."""
    return {c for c, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}


def parted(above: Set[int], below: Set[int], kinds: Iterable[tuple[frozenset[int], frozenset[int]]]) -> bool:
    """Whether tiles may be held between two groups of loops so that no loop is better in the other group."""
    using = [(moving, again) for moving, again in kinds if above & moving and below & again]
    moving, again = ({*chain.from_iterable(own[i] for own in using)} for i in (0, 1))
    return above <= moving and below <= again
