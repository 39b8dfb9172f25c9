"""A fused mapping as the checker reads it: the tree, its stored and held tiles, room, and what it costs."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from solver.certificate.checker.claims import Cost, Json, able, natural, need
from solver.certificate.checker.fused_cascade import Above, Cascade, Share, Shared, SharedLoop, State
from solver.certificate.checker.fused_einsums import Einsum
from solver.certificate.checker.fused_visits import Numbers, Spread


class Leaf(NamedTuple):
    """An Einsum with its held tiles and its nests."""

    einsum: int
    held: list[Any]
    nests: list[Json]


class Path(NamedTuple):
    """A leaf, the loops above it, and the body of each of them."""

    leaf: Leaf
    loops: Above
    bodies: Numbers


class Stored(NamedTuple):
    """Loops above a tensor, and the number of its memory."""

    depth: int
    level: int


class Tree:
    """A fused mapping of a cascade, well formed: `paths` are those of the Einsums, `stored` is by tensor."""

    def __init__(self, cascade: Cascade, doc: Json) -> None:
        self.cascade, self.einsums = cascade, cascade.einsums
        self.paths = self.read(doc["tree"])
        self.check_limits()
        self.stored = {t: Stored(depth, level) for t, depth, level in doc["stored"]}
        need(len(self.stored) == len(doc["stored"]) and natural(doc["stored"]), "tensors are stored once")
        for t, stored in self.stored.items():
            self.check_stored(t, stored)

    def read(self, parts: Sequence[Json]) -> list[Path]:
        """The paths of the leaves, from the first to the last."""
        bodies: Counter[str] = Counter()
        found: list[Path] = []

        def walk(part: Json, loops: Above, ids: Numbers) -> None:
            if "einsum" in part:
                found.append(Path(Leaf(part["einsum"], part["held"], part["nests"]), loops, ids))
                return
            bodies["all"] += 1
            number, start = bodies["all"], len(found)
            own = tuple(self.read_loop(loop) for loop in part["loops"])
            need(own, "a fused group has loops")
            for child in part["children"]:
                walk(child, (*loops, *own), (*ids, *(number for _ in own)))
            self.check_body(own, start, len(found))
            need(len(part["children"]) > 1, "a fused group has more than one child")

        for part in parts:
            walk(part, (), ())
        need(
            [path.leaf.einsum for path in found] == [*range(len(self.einsums))],
            "the leaves are the Einsums in order",
        )
        return found

    @staticmethod
    def read_loop(doc: Json) -> SharedLoop:
        """A loop over a dimension of each Einsum of its body."""
        over = dict(map(tuple, doc["over"]))
        need(type(doc["trips"]) is int and doc["trips"] > 1 and over, "a shared loop has 2 trips or more")
        need(natural([list(pair) for pair in over.items()]), "a shared loop runs over dimensions of Einsums")
        need(
            [*sorted(over)] == [*range(min(over), min(over) + len(over))],
            "Einsums of a fused group are neighbours",
        )
        return SharedLoop(doc["trips"], min(over), tuple(over[j] for j in sorted(over)))

    def check_body(self, loops: Above, start: int, end: int) -> None:
        """Check the Einsums and the loops of a body."""
        need(end - start > 1, "a fused group has at least two Einsums")
        classes = self.cascade.classes(start, end)
        need(classes is not None, "tensors connect the Einsums of a fused group")
        for loop in loops:
            each = loop.start == start and len(loop.dims) == end - start
            need(each, "a shared loop runs over a dimension of each Einsum")
            need(loop.dims in (classes or ()), "a shared loop cuts what is handed over alike")

    def check_limits(self) -> None:
        """Check the loops above each Einsum."""
        most_loops, most_per_rank = self.cascade.most_loops, self.cascade.most_per_rank
        for j, (_, loops, _) in enumerate(self.paths):
            need(self.cascade.moves_once(j, loops), "shared loops move each window along one dimension")
            ends = range(1, len(loops) + 1)
            need(
                all(self.cascade.may_cut(loops[:end]) for end in ends),
                "shared loops have trips that they may have",
            )
            dims = Counter(loop.dims[j - loop.start] for loop in loops)
            need(
                most_loops is None or len(loops) <= most_loops, "there are no more shared loops than allowed"
            )
            most = max(dims.values(), default=0)
            need(most_per_rank is None or most <= most_per_rank, "ranks are looped no more than allowed")

    def check_stored(self, t: int, stored: Stored) -> None:
        """Check the place of a stored tensor."""
        cascade, users = self.cascade, self.cascade.users[t]
        need(stored.level in cascade.storable.get(t, ()), "memories store only tensors that they may store")
        need(
            stored.depth <= min(self.shared(i, j) for i in users for j in users),
            "stored tensors lie below loops that all their Einsums share",
        )
        loops = self.loops_above(t)
        sliding = any(map(cascade.slides, loops))
        need(
            not sliding or cascade.keeps(t, loops), "a stored tensor keeps an overlap as long as it is needed"
        )

    def loops_above(self, tensor: int) -> Above:
        """The loops above the place of a stored tensor."""
        return self.paths[self.cascade.writer[tensor]].loops[: self.stored[tensor].depth]

    def shared(self, i: int, j: int) -> int:
        """Loops that the paths of two Einsums have in common."""
        count = 0
        for a, b in zip(self.paths[i].bodies, self.paths[j].bodies, strict=False):
            if a != b:
                break
            count += 1
        return count

    def price(self) -> Cost:
        """What all Einsums cost together."""
        energy, cycles = map(sum, zip(*self.costs, strict=True))
        return {"energy": energy, "latency": cycles, "edp": energy * cycles}

    def rests(self) -> dict[tuple[int, State], tuple[int, int]]:
        """Energy and cycles from each cut on that no body spans, and the tensors that are stored there."""
        found, users = {}, self.cascade.users
        for place in range(1, len(self.paths)):
            if not self.shared(place - 1, place):
                crossing = [t for t in self.stored if users[t][0] < place <= users[t][-1]]
                state = frozenset((t, self.stored[t].level) for t in crossing)
                energy, cycles = map(sum, zip(*self.costs[place:], strict=True))
                found[place, state] = energy, cycles
        return found

    @cached_property
    def costs(self) -> list[tuple[int, int]]:
        """Energy and cycles of each Einsum; raises if this is no mapping, or takes too much room."""
        rooms = [(j, *self.place(j)) for j in range(len(self.paths))]
        spreads, found = self.spreads, []
        for j, own, cost in rooms:
            for number, words in enumerate(own, 1):
                taken = words + self.taken(spreads, j, number)
                need(
                    taken <= self.cascade.room(number),
                    f"the tiles fit the on-chip memories while Einsum {j} runs",
                )
                filled = words + self.filled(spreads, j, number)
                need(
                    filled >= self.einsums[j].fills.get(number, 0),
                    f"the tiles of Einsum {j} fill the on-chip memories as far as they have to",
                )
            einsum = self.einsums[j]
            found.append((cost[0] * einsum.times, cost[1] * einsum.cycle_times))
        return found

    def place(self, j: int) -> tuple[list[int], tuple[int, int]]:
        """Room of an Einsum's own tiles, memory by memory, and its energy and cycles."""
        einsum, (leaf, loops, _) = self.einsums[j], self.paths[j]
        if einsum.is_copy:
            need(not leaf.held and not leaf.nests, "copies have no nest")
            places = tuple(self.stored[t].level if t in self.stored else 0 for t in einsum.tensors)
            need(einsum.may_lie(places), "copies move words between memories that may have them")
            return [0] * len(self.cascade.rooms), einsum.transfer(places, self.copied(j))
        need(natural(leaf.held) and len({v for v, *_ in leaf.held}) == len(leaf.held), "tiles are held once")
        held = []
        for v, depth, fetching in leaf.held:
            need(
                v < len(einsum.tensors) and einsum.may_keep[v],
                "held tiles are tiles that the on-chip memory may keep",
            )
            need(
                einsum.tensors[v] not in self.stored and fetching < len(loops) >= depth,
                "a held tile is above a shared loop, or keeps what overlaps; and its tensor is not stored",
            )
            slides = depth > 0 and loops[depth - 1].dims[j - loops[depth - 1].start] in einsum.slid(v)
            need(
                fetching == depth or (slides and fetching == depth - 1),
                "a held tile is fetched by all loops above it, or all but the last one, which slides it",
            )
            need(
                fetching >= self.least_depth(j, v),
                "a tile that other Einsums write or read is held inside the loops that they share",
            )
            held.append(einsum.held(v, self.cascade.cut(j, loops[:fetching]), self.shares[j]))
        levels = {v: self.stored[t].level for v, t in enumerate(einsum.tensors) if t in self.stored}
        above = frozenset({v for v, level in levels.items() if level == 1} | {v for v, *_ in held})
        deep = tuple((v, level) for v, level in levels.items() if level > 1)
        cut = self.cascade.cut(j, loops)
        even = all(len(cut[d]) == 1 for _, own in self.shares[j] for d, _ in own)
        need(even, "fanouts divide held tiles along dimensions whose parts are alike")
        energy, cycles, rooms = einsum.price(cut, above, deep, tuple(held), leaf.nests, self.shares[j])
        self.check_outside(einsum, levels)
        return rooms, (energy, cycles)

    @staticmethod
    def check_outside(einsum: Einsum, at_home: Collection[int]) -> None:
        """Check the room of the outermost memory: it has all of what it keeps."""
        sizes = zip(einsum.spaces, einsum.space.at[0], strict=True)
        words = sum(
            space.tile(einsum.bounds) * own["size"]
            for v, (space, own) in enumerate(sizes)
            if v not in at_home
        )
        need(words <= einsum.space.nodes[0]["most_size"], "the outermost memory has room")

    def least_depth(self, j: int, v: int) -> int:
        """Loops above which no tile is held that goes through the outermost memory between Einsums."""
        tensor = self.einsums[j].tensors[v]
        writer = self.cascade.writer.get(tensor)
        others: Collection[int] = () if writer is None else (writer,)
        others = self.cascade.readers.get(tensor, ()) if writer == j else others
        return max((self.shared(j, other) for other in others), default=0)

    @cached_property
    def shares(self) -> list[Spread]:
        """Per Einsum the spatial loops that divide what it holds."""
        pairs = zip(self.einsums, self.paths, strict=True)
        return [e.dividing(own.leaf.nests) if own.leaf.held else () for e, own in pairs]

    def copied(self, j: int) -> Spread:
        """The loops that spread what a copy reads and writes, by fanout, in its own dimensions."""
        einsum, cut = self.einsums[j], self.cascade.cut(j, self.paths[j].loops)
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        for v, t in ((v, t) for v, t in enumerate(einsum.tensors) if t in self.stored):
            dims, spread = {name: d for d, name in einsum.lone(v).items()}, self.spreads[t]
            parts = [[size for size, _ in cut[dims[own.rank]]] for own in spread if own.rank in dims]
            alike = parts == [[own.extent] for own in spread]
            need(alike, "a copy divides its tensors as others spread them")
            for number in einsum.outside(self.stored[t].level):
                loops = tuple((dims[own.rank], own.children) for own in spread if own.fanout == number)
                is_known = not loops or number not in self.cascade.ordered
                able(
                    is_known, "the checker does not know copies where rules order the loops that spread them"
                )
                need(found.setdefault(number, loops) == loops, "a copy and its source are spread alike")
        return tuple(sorted(found.items()))

    @cached_property
    def spreads(self) -> dict[int, Shared]:
        """How loops spread each stored tensor over the instances of its memory."""
        return {t: self.spread(t) for t in self.stored}

    def spread(self, tensor: int) -> Shared:
        """How loops spread a stored tensor over the instances of its memory."""
        found, level = set(), self.stored[tensor].level
        mapped = [(e, v) for e, v in self.cascade.accesses(tensor) if not e.is_copy]
        if not mapped:
            return ()  # it is in a memory that exists once
        fans = mapped[0][0].outside(level)
        for e, v in mapped:
            lone = e.lone(v)
            for nest in self.paths[e.number].leaf.nests:
                bounds = e.bounds_of(nest)
                spans = ((n, *own) for n in fans for own in e.across(nest, n))
                found.add(tuple(Share(n, lone.get(d, ""), count, bounds[d]) for n, d, count in spans))
        need(len(found) == 1, "all Einsums spread a stored tensor alike")
        (spread,) = found
        for number in fans.keys() & self.cascade.ordered:
            loops = [share for share in spread if share.fanout == number]
            ways = (
                [own._replace(along_x=i < n) for i, own in enumerate(loops)] for n in range(len(loops) + 1)
            )
            allowed = (all(self.cascade.allows(number, e, v, way) for e, v in mapped) for way in ways)
            need(any(allowed), "rules of all Einsums allow the loops that spread a stored tensor")
        return spread

    def taken(self, spreads: Mapping[int, Shared], j: int, number: int) -> int:
        """Room of a memory that held and stored tiles take while an Einsum runs."""
        total = 0
        for i, path in enumerate(self.paths) if number == 1 else ():
            later = self.shared(i, j)
            held = ((v, depth) for v, depth, _ in path.leaf.held if i == j or later > depth)
            total += sum(self.held_words(i, *own) for own in held)
        largest: Counter[int] = Counter()
        for t, (depth, level) in self.stored.items():
            users = self.cascade.users[t]
            waits = users[0] <= j <= users[-1] or any(self.shared(i, j) > depth for i in users)
            if level == number and waits:
                words = self.cascade.stored_words(t, self.loops_above(t), number, spreads[t])
                largest[self.roots[t]] = max(words, largest[self.roots[t]])
        return total + largest.total()

    def held_words(self, j: int, v: int, depth: int) -> int:
        """Room of a tile that an Einsum holds below some shared loops."""
        einsum = self.einsums[j]
        words = einsum.tile(v, self.cascade.cut(j, self.paths[j].loops[:depth]), self.shares[j])
        return words * int(einsum.space.at[einsum.home][v]["size"])

    def filled(self, spreads: Mapping[int, Shared], j: int, number: int) -> int:
        """Room of a memory that an Einsum's held tiles take, and the stored ones that it accesses."""
        held = [(v, depth) for v, depth, _ in self.paths[j].leaf.held if number == 1]
        largest: Counter[int] = Counter()
        for t in (t for t in {*self.einsums[j].tensors} & self.stored.keys()):
            if self.stored[t].level == number:
                words = self.cascade.stored_words(t, self.loops_above(t), number, spreads[t])
                largest[self.roots[t]] = max(words, largest[self.roots[t]])
        return sum(self.held_words(j, *own) for own in held) + largest.total()

    @cached_property
    def roots(self) -> dict[int, int]:
        """Per stored tensor the one whose room it takes: its own, or that of what it copies."""
        found = {t: t for t in self.stored}
        for copy in (own for own in self.einsums if own.is_copy):
            source = copy.tensors[copy.writes.index(False)]
            beside = [t for t in copy.tensors if t != source and {t, source} <= self.stored.keys()]
            for t in (own for own in beside if self.stored[own].level == self.stored[source].level):
                pair = (source, self.loops_above(source)), (t, self.loops_above(t))
                found[t] = found[source] if self.cascade.is_part(copy, *pair) else t
        return found
