"""Fused mappings as the checker reads them: the cascade, the tree, room, and what each Einsum costs."""

import json
import math
from collections import Counter, namedtuple
from functools import cache, cached_property
from itertools import chain, product
from math import inf, prod

from claims import EXACT, CannotCheckError, natural, need
from perfect import Space

MOST_EINSUMS, MOST_PARTS = 1 << 10, 1 << 20  # parts: of a dimension, which loops cut

# Visits of an Einsum: the bounds of each; how many there are, per dimension; dataspaces above the nests;
# what is held (number, moved, first); on-chip levels that keep the outputs (None: any); bandwidths left out;
# dataspaces stored in memories farther in, with the numbers of these, of which the outermost on chip is 1.
Kind = namedtuple("Kind", "bounds trips above held homes loose deep", defaults=(None, False, ()))
UNLIMITED = {"bandwidths": dict.fromkeys(("read", "write", "shared")), "ports": []}
Loop = namedtuple("Loop", "trips start dims")  # a shared loop: a dimension of each Einsum of its body
Leaf = namedtuple("Leaf", "einsum held nests")


class Edge(Space):
    """Visits of an Einsum with equal bounds as one mapspace; nothing stays from one visit to the next.

    Dataspaces `above` the nests come from the on-chip memory, without room. Bandwidths carry the words of
    held tiles besides. Words of an output that an earlier visit has touched are not touched for the first
    time: only the trips over its own dimensions bring new ones.
    """

    def __init__(self, einsum, kind, room, doc=None):
        super().__init__(doc or einsum.visit(kind, room))
        self.visits, self.outside = prod(kind.trips), kind.above.union(v for v, _ in kind.deep)
        self.fresh = [prod(n for d, n in enumerate(kind.trips) if d in dims) for dims in einsum.dims]
        self.computes, self.arithmetic = self.computes * self.visits, self.arithmetic * self.visits
        self.latency, self.steps = self.latency * self.visits, self.steps * self.visits
        most = max([self.computes, self.latency, *(space.most * self.visits for space in self.spaces)])
        need(most * len(self.spaces) < EXACT, "the problem is too large", CannotCheckError)
        self.loads = Counter()
        for v, moved, first in kind.held:
            read, filled, written, drained = einsum.shifted(v, moved, first)
            self.loads[0, v, "read"] += read
            self.loads[0, v, "write"] += written
            self.loads[einsum.home, v, "write"] += filled
            self.loads[einsum.home, v, "read"] += drained
            for p, down, up in einsum.tolls(v):
                self.loads[p, v, "read"] += read * down
                self.loads[p, v, "write"] += written * up

    def arranged(self, mask, single=False):
        """The same of places of a memory; any number of tiles may be above the nests."""
        own = [() if v in self.outside else kept for v, kept in enumerate(mask)]
        crowded = single and any(max(memory.kept(own)) > 1 for memory in self.memories)
        return not crowded and super().arranged(mask)

    def accesses(self, v, *counts):
        """Accesses of all visits; those of the arithmetic are counted over all of them already."""
        for source, *way, times, first in super().accesses(v, *counts):
            yield source, *way, times * (1 if source is None else self.visits), first * self.fresh[v]

    def level_cycles(self, p, counts, steps):
        """Cycles that level `p` needs, with the words of held tiles."""
        return super().level_cycles(p, Counter(counts) + self.loads, steps)

    def floor(self, v, kept, measure):
        """The floor with the words of held tiles."""
        ways = [(p, kind, words) for (p, own, kind), words in self.loads.items() if own == v and measure]
        loads = [words * self.rates(v, p, kind).get(measure, 0) for p, kind, words in ways]
        return super().floor(v, kept, measure) + float(sum(loads))


class Einsum:
    """One Einsum of a cascade; dataspaces and dimensions are numbers, as in its mapspace."""

    def __init__(self, doc, number):
        self.number, self.doc, self.is_copy, self.times = (
            number,
            doc["mapspace"],
            doc["is_copy"],
            doc["n_instances"],
        )
        need(
            type(self.is_copy) is bool and type(self.times) is int and self.times > 0,
            "Einsums run some times",
        )
        counting, self.placed = self.doc["counting"], self.doc["counting"] == "accelforge"
        known = counting in {"exact", "accelforge"} and self.doc["factors"] == "perfect"
        need(known, "the counting is known")
        need(not self.doc.get("rules"), "there are no rules of the user's own")
        self.space = Space(self.doc)
        tolled = {p for p, own in self.space.at.items() if any("toll" in held for held in own)}
        alike = all("toll" in held for p in tolled for held in self.space.at[p])
        need(alike, "tolls store nothing")
        memories = [p for p in self.space.stores if p not in tolled]
        need(len(memories) > 1, "there is an on-chip memory")
        self.home, self.tolled = memories[1], tolled
        several = {own.places[0]: own.places for own in self.space.memories}
        inner = {p for places in several.values() for p in places[1:]}
        self.levels = [several.get(p, [p]) for p in memories[1:] if p not in inner]
        self.places = self.levels[0]
        fans = [self.space.nodes[p] for p in self.space.fans if p < self.home]
        need(all(n["mesh_x"] * n["mesh_y"] == 1 for n in fans), "the on-chip memory exists once")
        self.bounds, self.spaces = self.space.bounds, self.space.spaces
        dense = all(space.dense for space in self.spaces)
        need(dense or not self.placed, "no windows slide by AccelForge's rule", CannotCheckError)
        self.ranks = [[[(d, c) for d, c in rank] for rank in own["ranks"]] for own in self.doc["dataspaces"]]
        self.writes = [own["read_write"] for own in self.doc["dataspaces"]]
        self.tensors = [access["tensor"] for access in doc["accesses"]]
        self.names = [access["ranks"] for access in doc["accesses"]]
        self.offsets = [access["offsets"] for access in doc["accesses"]]
        counts = zip(self.ranks, self.names, self.offsets)
        need(len(self.tensors) == len(self.ranks), "each dataspace is a tensor")
        need(all(len(a) == len(b) == len(c) == len({*b}) for a, b, c in counts), "accesses name all ranks")
        need({type(n) for own in self.offsets for n in own} <= {int}, "offsets are integers")
        keep = [own["keep"] for own in self.doc["dataspaces"]]
        need(self.is_copy or all(0 in own for sets in keep for own in sets), "the outermost memory keeps all")
        self.may_keep = [any({*own} & {*self.places} for own in sets) for sets in keep]
        self.may_pass = [any(not {*own} & {*self.places} for own in sets) for sets in keep]
        every = range(1, len(self.levels) + 1)
        self.may_store = [{n for n in every if [*self.stored_sets(v, n)]} for v in range(len(keep))]
        self.dims = [{d for rank in own for d, _ in rank} for own in self.ranks]
        every = [[d for rank in own for d, _ in rank] for own in self.ranks]
        pairs = zip(self.ranks, every)
        self.joint = [
            {d for rank in own for d, _ in rank if len(rank) > 1 or dims.count(d) > 1} for own, dims in pairs
        ]
        strided = [{d for rank in own for d, c in rank if c != 1} for own in self.ranks]
        self.windowed = [joint | holes for joint, holes in zip(self.joint, strided)]
        self.stay = [v for v, may in enumerate(self.may_keep) if may]
        self.whole = tuple(((n, 1),) for n in self.bounds)

    @cached_property
    def key(self):
        """What Einsums have in common that differ in names alone."""

        def bare(value):
            if isinstance(value, dict):
                return {key: bare(own) for key, own in value.items() if key not in {"name", "dims"}}
            return [bare(own) for own in value] if isinstance(value, list) else value

        return json.dumps(bare(self.doc), sort_keys=True)

    def parted(self, trips):
        """How loops cut the dimensions into equal parts."""
        need(all(n % f == 0 for n, f in zip(self.bounds, trips)), "shared loops divide what they split")
        return tuple(((n // f, f),) for n, f in zip(self.bounds, trips))

    @staticmethod
    def kinds(cut):
        """Yield the bounds of visits that differ, and how many there are of each, per dimension.

        A `cut` has for each dimension the extents of its parts, and how many there are of each.
        """
        for chosen in product(*cut):
            yield tuple(size for size, _ in chosen), tuple(count for _, count in chosen)

    def units(self):
        """All arithmetic units."""
        return prod(self.space.nodes[p]["mesh_x"] * self.space.nodes[p]["mesh_y"] for p in self.space.fans)

    def stored_sets(self, v, level):
        """Yield the levels that keep a dataspace, which a memory stores: none outside of that."""
        (first, *others), outer = self.levels[level - 1], {*chain(*self.levels[: level - 1])}
        for own in self.doc["dataspaces"][v]["keep"]:
            if {*own} & {first, *others} and not {*own} & outer:
                yield (first, *(p for p in own if p > first and p not in others))

    def outside(self, level):
        """Fanouts outside of a memory that have several children, by number: node, mesh."""
        fans = {n: p for n, p in enumerate(self.space.fans) if p < self.levels[level - 1][0]}
        meshes = {n: (self.space.nodes[p]["mesh_x"], self.space.nodes[p]["mesh_y"]) for n, p in fans.items()}
        return {n: (fans[n], mesh) for n, mesh in meshes.items() if prod(mesh) > 1}

    def is_ordered(self, p):
        """Whether rules say which spatial loops of a fanout lie along X."""
        node = self.space.nodes[p]
        live = [d for d, own in enumerate(node["factors"]) if max(own, default=1) > 1]
        return len({frozenset(own) for own in node["along_x"]}) < 1 << len(live)

    def lone(self, v):
        """Dimensions that index a rank of a dataspace by themselves, and these ranks."""
        return {rank[0][0]: name for name, rank in zip(self.names[v], self.ranks[v]) if len(rank) == 1}

    def visit(self, kind, room, rooms=(), shares=(), is_relaxed=False):
        """The canonical problem of one visit, with so much room (None: any) for its own tiles.

        So it is with `rooms` of memories farther in, by number. Loops outside of these do not move what they
        store, unless it `is_relaxed`: further shared loops may. Fanouts spread it along ranks that dimensions
        index by themselves; `shares` says how, by fanout.
        """
        bounds, huge = list(kind.bounds), EXACT
        nodes = [dict(node) for node in self.doc["nodes"]]
        for node in nodes:
            if node["kind"] != "storage":
                node["factors"] = self.divided(node["factors"], bounds)
            elif kind.loose:
                node.update(UNLIMITED)
        nodes[0] |= {"least_size": 0, "most_size": huge}
        for p in self.places:
            sizes = [
                {**own, "size": 0 if v in kind.above else own["size"]}
                for v, own in enumerate(nodes[p]["dataspaces"])
            ]
            nodes[p] |= {"most_size": huge if room is None else room, "dataspaces": sizes}
        for p, words in ((p, words) for n, words in rooms for p in self.levels[n - 1]):
            nodes[p]["most_size"] = words
        for v, level in kind.deep:
            self.store(nodes, v, level, is_relaxed)
        for number, loops in shares:
            node, counts = nodes[self.space.fans[number]], dict(loops)
            pairs = enumerate(node["factors"])
            node["factors"] = [[f for f in own if f == counts.get(d, 1)] for d, own in pairs]
        spaces = [{**own, "keep": self.kept(v, kind)} for v, own in enumerate(self.doc["dataspaces"])]
        doc = {**self.doc, "bounds": bounds, "nodes": nodes, "dataspaces": spaces}
        memories = [
            {**own, "factors": self.divided(own["factors"], bounds)} for own in doc.get("memories", [])
        ]
        return {**doc, "memories": memories} if memories else doc

    def store(self, nodes, v, level, is_relaxed):
        """Let a memory store a dataspace, without room."""
        places, apart = self.levels[level - 1], {*range(len(self.bounds))} - self.lone(v).keys()
        for p in places:
            own = nodes[p]["dataspaces"]
            nodes[p]["dataspaces"] = [*own[:v], {**own[v], "size": 0}, *own[v + 1 :]]
        outside = [node for node in nodes[: places[0]] if node["kind"] == "temporal"]
        limits = [] if is_relaxed else [(node, self.dims[v]) for node in outside]
        limits += [(nodes[p], apart) for p, _ in self.outside(level).values()]
        for node, still in limits:
            pairs = enumerate(node["factors"])
            node["factors"] = [[f for f in own if f == 1] if d in still else own for d, own in pairs]

    def divided(self, lists, bounds):
        """The factors that are allowed for other bounds, dimension by dimension; None for any."""
        found = []
        for own, n, whole in zip(lists, bounds, self.bounds):
            free = own is None or own == [1] or whole % n == 0 or own == divisors_of(whole)
            need(free, "rules on factors are about the whole dimension", CannotCheckError)
            every = own if own is None or own == [1] or whole % n == 0 else divisors_of(n)
            found.append(every and [f for f in every if n % f == 0])
        return found

    def kept(self, v, kind):
        """Keep sets of a dataspace; above the nests its tile is at the first place of its memory."""
        sets, level = self.doc["dataspaces"][v]["keep"], self.level_of(v, kind)
        if level:
            sets = [list(own) for own in sorted({*self.stored_sets(v, level)})]
        if kind.homes is None or not self.writes[v]:
            return sets
        return [own for own in sets if self.homes_of(v, own, kind) == {*kind.homes}]

    @staticmethod
    def level_of(v, kind):
        """Number of the memory that has a tile above the nests; 0 if there is none."""
        return dict(kind.deep).get(v, int(v in kind.above))

    def homes_of(self, v, kept, kind):
        """The on-chip levels that keep an output, but for a tile above the nests."""
        level = self.level_of(v, kind)
        return {*kept} - self.tolled - ({0, self.levels[level - 1][0]} if level else {0})

    def all_homes(self, above, deep):
        """Yield the sets of on-chip levels that visits of several kinds may keep the output at."""
        outputs = [v for v, own in enumerate(self.writes) if own]
        need(len(outputs) == 1, "visits that differ have one output", CannotCheckError)
        kind = Kind(self.bounds, (), above, (), deep=deep)
        sets = [self.homes_of(outputs[0], own, kind) for own in self.kept(outputs[0], kind)]
        yield from {tuple(sorted(own)) for own in sets}

    def rounding(self):
        """Energy that whole vectors of visits of one kind may take beyond those of all visits together."""
        held = [
            (self.space.nodes[p]["most_paying"], own) for p, all_ in self.space.at.items() for own in all_
        ]
        keys = ("read", "fill", "update")
        return sum(most * sum(own[key] for key in keys) for most, own in held if own["block"] > 1)

    @cache
    def tile(self, v, cut):
        """Words of the largest tile below shared loops."""
        return self.box(v, [max(size for size, _ in parts) for parts in cut])

    def box(self, v, extent):
        """Words of the box that iterations touch, holes included."""
        return prod(1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks[v])

    @cache
    def moved(self, v, cut):
        """Words of all tiles below shared loops, each once."""
        return sum(prod(trips) * self.box(v, bounds) for bounds, trips in self.kinds(cut))

    @cache
    def touched(self, v, cut):
        """At most the words that all visits touch, those of each visit once: holes do not count."""
        return sum(prod(trips) * self.without_holes(v, bounds) for bounds, trips in self.kinds(cut))

    def without_holes(self, v, extent):
        """Words at most: sums of indices take at least as many values as without factors."""
        words, seen = 1, set()
        for rank in self.ranks[v]:
            dims = {d for d, c in rank if c}
            words *= 1 if seen & dims else 1 + sum(extent[d] - 1 for d in dims)
            seen |= dims
        return words

    def held(self, v, cut):
        """A held tile: its number, the words that it moves, and those of them that are touched first."""
        return v, self.moved(v, cut), self.box(v, self.bounds) if self.writes[v] else 0

    def shifted(self, v, moved, first):
        """Words of a held tile that are read outside, filled inside, written outside, and read inside for it.

        Only by AccelForge's rule what drains from a memory is read there.
        """
        outside, inside = self.space.at[0][v], self.space.at[self.home][v]
        read, filled = (moved - (0 if own["first_write_reads"] else first) for own in (outside, inside))
        written = moved if self.writes[v] else 0
        return read, filled, written, written if self.placed else 0

    def tolls(self, v):
        """Tolls between the two outermost memories, and whether words pay that come, and that go."""
        return [(p, *self.space.at[p][v]["toll"]) for p in sorted(self.tolled) if p < self.home]

    def toll_energy(self, v, read, written):
        """Energy of words that pass these tolls."""
        total = 0
        for p, down, up in self.tolls(v):
            own = self.space.at[p][v]
            total += (
                down * -(-read // own["block"]) * own["read"]
                + up * -(-written // own["block"]) * own["update"]
            )
        return total

    def shift_energy(self, held):
        """Energy of the words of held tiles."""
        total = 0
        for v, moved, first in held:
            outside, inside = self.space.at[0][v], self.space.at[self.home][v]
            read, filled, written, drained = self.shifted(v, moved, first)
            total += -(-read // outside["block"]) * outside["read"]
            total += -(-written // outside["block"]) * outside["update"]
            total += -(-filled // inside["block"]) * inside["fill"]
            total += -(-drained // inside["block"]) * inside["read"] + self.toll_energy(v, read, written)
        return total

    def own_words(self, level, loops, mask, kind):
        """Room of an on-chip memory that the tiles of a nest take."""
        total = 0
        for p in self.levels[level - 1]:
            extent = [prod(own.get(d, 1) for own in loops[p:]) for d in range(len(self.bounds))]
            kept = [v for v, own in enumerate(mask) if p in own and self.level_of(v, kind) != level]
            total += sum(self.box(v, extent) * self.space.at[p][v]["size"] for v in kept)
        return total

    def price(self, cut, above, deep, held, nests):
        """Energy, cycles, and rooms of the own tiles of all visits; raises if they are no mapping."""
        given = {self.bounds_of(own): own for own in nests}
        need(len(given) == len(nests) == sum(1 for _ in self.kinds(cut)), "each kind of visits has a nest")
        actions, counts, homes, steps, leaks = Counter(), Counter(), set(), 0, Counter()
        edges, rooms = [], [0] * len(self.levels)
        for bounds, trips in self.kinds(cut):
            need(bounds in given, "each kind of visits has a nest")
            kind = Kind(bounds, trips, above, () if edges else held, deep=deep)
            edge = Edge(self, kind, None)
            loops, mask = edge.read(given[bounds])
            moves, sizes, used = edge.moves(loops, mask)
            need(edge.fits(sizes), "the nests respect all capacities")
            seen = Counter()
            for v, p, way, block, access, paying, count in moves:
                actions[v, p, seen[v, p], block, access, paying] += count
                counts[edge.home[p], v, way] += count
                seen[v, p] += 1
            for p in edge.stores:
                leak = edge.nodes[p]["leak"] * prod(used[q] for q in edge.nodes[p]["leak_fanouts"])
                leaks[p] = max(leaks[p], leak)
            outputs = [(v, *mask[v]) for v, own in enumerate(self.writes) if own]
            homes.add(tuple(outputs))
            steps += edge.computes // prod(used.values())
            own = [self.own_words(n, loops, mask, kind) for n, _ in enumerate(rooms, 1)]
            rooms = [*map(max, rooms, own)]
            edges.append(edge)
        need(len(homes) == 1, "all visits keep the outputs in the same memories")
        apart = [d for d, parts in enumerate(cut) if len(parts) > 1]
        joint = all({*apart} <= self.dims[v] for v, own in enumerate(self.writes) if own)
        need(joint, "parts that differ are parts of the output", CannotCheckError)
        busy = max(edges[0].level_cycles(p, counts, steps) for p in edges[0].homes)
        energy = sum(edge.arithmetic for edge in edges) + self.shift_energy(held)
        energy += sum(round(leak * busy) for leak in leaks.values())
        energy += sum(
            -(-count // block) * access * paying for (*_, block, access, paying), count in actions.items()
        )
        return energy, math.ceil(busy) + sum(edge.latency for edge in edges), rooms

    def bounds_of(self, nest):
        """The bounds that a nest's loops multiply to."""
        pairs = [(d, n) for own in nest["loops"] for d, n in own]
        need(all(type(n) is int and d in range(len(self.bounds)) for d, n in pairs), "nests have loops")
        return tuple(prod(n for e, n in pairs if e == d) for d in range(len(self.bounds)))


class Cascade:
    """The cascade of a certificate, and what of it may be fused."""

    def __init__(self, doc):
        need(0 < len(doc["einsums"]) <= MOST_EINSUMS, "there are Einsums, and not too many", CannotCheckError)
        self.einsums = [Einsum(own, number) for number, own in enumerate(doc["einsums"])]
        self.rooms, self.most_loops, self.most_per_rank = (
            doc[key] for key in ("rooms", "most_loops", "most_loops_per_rank")
        )
        limits = [*self.rooms, self.most_loops, self.most_per_rank]
        need(natural(limits), "limits are natural numbers")
        for key, claim in (("units_per_pj", "energies have one unit"), ("counting", "Einsums count alike")):
            need(len({own.doc[key] for own in self.einsums}) == 1, claim)
        scales = [tuple(own["room_scale"]) for own in doc["tensors"]]
        need(
            natural([*map(list, scales)]) and all(len(own) == 2 and all(own) for own in scales),
            "scales are positive",
        )
        self.scales = scales
        users = [[] for _ in scales]
        for einsum in self.einsums:
            need(all(type(t) is int and 0 <= t < len(users) for t in einsum.tensors), "tensors are known")
            for tensor in dict.fromkeys(einsum.tensors):
                users[tensor].append(einsum.number)
        self.users = users
        self.writer = {}
        for einsum in self.einsums:
            written = [t for t, own in zip(einsum.tensors, einsum.writes) if own]
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
            sizes = {size for size, _ in self.sizes(number)}
            need(room is None or sizes == {room}, "Einsums share the on-chip memories")
        need(not any(least for _, least in self.sizes(1)), "the on-chip memory has no least utilization")
        may_stay = [own["may_stay"] for own in doc["tensors"]]
        need(natural(may_stay), "memories have numbers")
        pairs = {t: [n for n in may_stay[t] if n in self.may_store(t)] for t in self.readers}
        self.storable = {t: own for t, own in pairs.items() if own}
        numbers = {*chain(*self.storable.values())}
        need(numbers <= {1, *self.known}, "memories store tensors without rules on order", CannotCheckError)

    def sizes(self, number):
        """Most and least words of an on-chip memory, Einsum by Einsum."""
        need(
            all(len(e.levels) == len(self.rooms) for e in self.einsums), "Einsums share the on-chip memories"
        )
        for e in self.einsums:
            node = e.space.nodes[e.levels[number - 1][0]]
            yield node["most_size"], node["least_size"]

    @cached_property
    def known(self):
        """Numbers of the memories farther in that may store tensors: no rules order fanouts outside."""
        found = []
        for number in range(2, len(self.rooms) + 1):
            outside = [e.outside(number) for e in self.einsums]
            ordered = any(e.is_ordered(p) for e, own in zip(self.einsums, outside) for p, _ in own.values())
            alike = len({tuple((n, mesh) for n, (_, mesh) in own.items()) for own in outside}) == 1
            if alike and not ordered and not any(least for _, least in self.sizes(number)):
                found.append(number)
        return found

    def instances(self, number):
        """How often an on-chip memory exists."""
        return prod(prod(mesh) for _, mesh in self.einsums[0].outside(number).values())

    @property
    def usable(self):
        """Room of the outermost on-chip memory."""
        return self.room(1)

    def room(self, number):
        """Room of an on-chip memory."""
        room = self.rooms[number - 1]
        return inf if room is None else room

    def accesses(self, tensor):
        """Einsums and dataspaces that access a tensor."""
        return [
            (self.einsums[j], v)
            for j in self.users[tensor]
            for v, t in enumerate(self.einsums[j].tensors)
            if t == tensor
        ]

    def may_store(self, tensor):
        """Numbers of the memories that a tensor may wait in."""
        accesses = self.accesses(tensor)
        same = len({frozenset(e.names[v]) for e, v in accesses}) == 1
        if not same or any(e.is_copy for e, _ in accesses):
            return set()
        return set.intersection(*(e.may_store[v] for e, v in accesses))

    def handed(self, start, end):
        """Tensors that some of neighbouring Einsums write, and others of them read."""
        inside = range(start, end)
        return [
            t
            for t, j in self.writer.items()
            if j in inside and any(r in inside for r in self.readers.get(t, ()))
        ]

    @cache
    def classes(self, start, end):
        """The loops that a body may have: a dimension of each Einsum. None if it is not connected."""
        members, handed = self.einsums[start:end], self.handed(start, end)
        known, grown = {start}, True
        while grown:
            groups = [{j for j in self.users[t] if start <= j < end} for t in handed]
            wider = known.union(*(own for own in groups if own & known))
            known, grown = wider, len(wider) > len(known)
        if len(known) < end - start:
            return None
        if len({e.times for e in members}) > 1 or any(e.is_copy for e in members):
            return ()
        firsts = range(len(members[0].bounds))
        found = chain.from_iterable(self.followed(start, end, handed, {start: d}) for d in firsts)
        allowed = (dims for dims in dict.fromkeys(found) if self.agrees(start, end, handed, dims))
        return tuple(dims for dims in allowed if not self.tangled(start, end, dims))

    def followed(self, start, end, handed, dims):
        """Yield the dimensions of all Einsums of a body that index what some dimensions of others index."""
        if len(dims) == end - start:
            yield tuple(dims[j] for j in range(start, end))
            return
        uses = ((t, i, j) for t in handed for i in self.users[t] for j in self.users[t])
        t, i, j = next(own for own in uses if own[1] in dims and own[2] not in dims and start <= own[2] < end)
        one, other = self.einsums[i], self.einsums[j]
        v, u = one.tensors.index(t), other.tensors.index(t)
        names = [name for name, rank in zip(one.names[v], one.ranks[v]) if dims[i] in dict(rank)]
        ranks = [rank for name, rank in zip(other.names[u], other.ranks[u]) if name in names[:1]]
        for d in (d for rank in ranks for d, _ in rank):
            yield from self.followed(start, end, handed, {**dims, j: d})

    def agrees(self, start, end, handed, dims):
        """Whether a loop runs over one rank of each tensor that is handed over, alone where it is written."""
        for t in handed:
            j = self.writer[t]
            one, d = self.einsums[j], dims[j - start]
            v = next(v for v, own in enumerate(one.tensors) if own == t and one.writes[v])
            names = [name for name, rank in zip(one.names[v], one.ranks[v]) if rank == [(d, 1)]]
            if len(names) != 1 or d in one.joint[v]:
                return False
            reads = [(e, u) for e, u in self.accesses(t) if start <= e.number < end and e.number != j]
            if not all(self.reads_along(e, u, dims[e.number - start], names[0]) for e, u in reads):
                return False
        return True

    @staticmethod
    def reads_along(einsum, v, d, name):
        """Whether a dimension moves an access along one rank, forwards."""
        ranks = zip(einsum.names[v], einsum.ranks[v])
        return [(own, dict(rank)[d] > 0) for own, rank in ranks if d in dict(rank)] == [(name, True)]

    def tangled(self, start, end, dims):
        """Whether a loop moves a window of an output, or one that slides indexes two ranks of a tensor."""
        slides = self.slides(Loop(2, start, dims))
        for e, d in zip(self.einsums[start:end], dims):
            if any(own and d in e.joint[v] for v, own in enumerate(e.writes)):
                return True
            if slides and any(sum(d in dict(rank) for rank in ranks) > 1 for ranks in e.ranks):
                return True
        return False

    @cache
    def slides(self, loop):
        """Whether a loop cuts what is handed over into unequal parts, or parts that overlap."""
        start, end = loop.start, loop.start + len(loop.dims)
        if len({e.bounds[d] for e, d in zip(self.einsums[start:end], loop.dims)}) > 1:
            return True
        uses = [(t, e, v) for t in self.handed(start, end) for e, v in self.accesses(t)]
        found = {}
        for t, e, v in (own for own in uses if start <= own[1].number < end):
            d = loop.dims[e.number - start]
            ranks = zip(e.names[v], e.ranks[v], e.offsets[v])
            for name, rank, offset in (own for own in ranks if d in dict(own[1])):
                found.setdefault((t, name), set()).add(offset if rank == [(d, 1)] else None)
        return any(len(own) > 1 or None in own for own in found.values())

    # Visits

    @cache
    def spans(self, j, d, loops):
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
        need(len(parents) * last.trips <= MOST_PARTS, "loops cut too many parts", CannotCheckError)
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

    def asked(self, j, d, loops):
        """Yield how far each access goes that reads what an Einsum hands over under the same loops."""
        einsum, last = self.einsums[j], loops[-1]
        below = range(last.start, last.start + len(last.dims))
        ranks = [
            (einsum.tensors[v], name, offset)
            for v in (v for v, own in enumerate(einsum.writes) if own)
            for name, rank, offset in zip(einsum.names[v], einsum.ranks[v], einsum.offsets[v])
            if [e for e, _ in rank] == [d]
        ]
        for tensor, name, offset in ranks:
            for e, u in ((e, u) for e, u in self.accesses(tensor) if e.number in below and e.number != j):
                yield [high - offset for _, high in self.indices(e.number, u, name, loops)]

    @cache
    def indices(self, j, v, name, loops):
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

    @cache
    def waiting(self, tensor, loops):
        """Per rank of a tensor, the indices that wait in each iteration, and those that are produced then."""
        (writer, w) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        found = {}
        for name in dict.fromkeys(name for e, v in self.accesses(tensor) for name in e.names[v]):
            uses = [
                self.indices(e.number, v, name, loops) for e, v in self.accesses(tensor) if name in e.names[v]
            ]
            most = max(map(len, uses))
            columns = zip(*(own for own in uses if len(own) == most))
            spans = [(min(low for low, _ in own), max(high for _, high in own)) for own in columns]
            made = self.indices(writer.number, w, name, loops) if name in writer.names[w] else None
            found[name] = spans, made
        return found

    @cache
    def keeps(self, tensor, loops):
        """Whether no loop drops what overlaps: it moves the tile before this has slid on."""
        (writer, w) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        for name, (spans, made) in self.waiting(tensor, loops).items():
            if made is None or all(low >= first for (low, _), (first, _) in zip(spans[1:], made[1:])):
                continue
            d = writer.ranks[w][writer.names[w].index(name)][0][0]
            dims = [loop.dims[writer.number - loop.start] for loop in loops]
            if any(e != d for e in dims[dims.index(d) :]):
                return False
        return True

    @cache
    def cut(self, j, loops):
        """How loops cut the dimensions of an Einsum, as `kinds` takes it."""
        einsum = self.einsums[j]
        dims = [loop.dims[j - loop.start] for loop in loops]
        if not any(map(self.slides, loops)):
            pairs = [(d, loop.trips) for d, loop in zip(dims, loops)]
            every = range(len(einsum.bounds))
            return einsum.parted([prod(n for e, n in pairs if e == d) for d in every])
        cut = list(einsum.whole)
        for d in {*dims}:
            sizes = (high - low for low, high in self.spans(j, d, loops))
            cut[d] = tuple(Counter(size for size in sizes if size).items())
        return tuple(cut)

    def divides(self, j, loops):
        """Whether the last loop leaves no remainder, but where others are followed, nor cuts too often."""
        last, d = loops[-1], loops[-1].dims[j - loops[-1].start]
        trips = prod(loop.trips for loop in loops if loop.dims[j - loop.start] == d)
        if any(True for _ in self.asked(j, d, loops)):
            return trips <= self.einsums[j].bounds[d]
        return all((high - low) % last.trips == 0 for low, high in self.spans(j, d, loops[:-1]))

    def moves_once(self, j, loops):
        """Whether the loops that an Einsum shares with a writer move each window along one dimension."""
        einsum = self.einsums[j]
        for v, t in enumerate(einsum.tensors):
            w = self.writer.get(t, j)
            own = [loop for loop in loops if w != j and loop.start <= w < loop.start + len(loop.dims)]
            looped = {loop.dims[j - loop.start] for loop in own}
            if any(len(looped & {d for d, _ in rank}) > 1 for rank in einsum.ranks[v]):
                return False
        return True

    @cache
    def stored_words(self, tensor, loops, level, spread=None):
        """Room of a tensor that waits below shared loops in an instance of a memory.

        At the least, without a `spread` over the instances: fanouts, ranks, and children.
        """
        (einsum, v) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        if any(map(self.slides, loops)):
            waiting = self.waiting(tensor, loops).items()
            lengths = {name: max(high - low for low, high in spans) for name, (spans, _) in waiting}
        else:
            lengths = self.even_lengths(tensor, einsum, v, loops)
        parts = Counter()
        for _, name, count in spread or ():
            parts[name] = max(1, parts[name]) * count
        words = prod(-(-length // max(1, parts[name])) for name, length in lengths.items())
        words = -(-words // self.instances(level)) if spread is None else words
        size, (up, down) = einsum.space.at[einsum.levels[level - 1][0]][v]["size"], self.scales[tensor]
        return -(-words * size * up // down)

    def even_lengths(self, tensor, einsum, v, loops):
        """Per rank what a tensor has between its first and last index, divided by the trips of loops."""
        trips = Counter()
        for loop in loops:
            d = loop.dims[einsum.number - loop.start]
            trips[d] = max(1, trips[d]) * loop.trips
        divided = {n: prod(max(1, trips[d]) for d, _ in r) for n, r in zip(einsum.names[v], einsum.ranks[v])}
        low, high = {}, {}
        for e, own in self.accesses(tensor):
            for name, rank, offset in zip(e.names[own], e.ranks[own], e.offsets[own]):
                ways = [c * (e.bounds[d] - 1) for d, c in rank]
                low[name] = min(low.get(name, inf), offset + sum(min(0, way) for way in ways))
                high[name] = max(high.get(name, -inf), offset + sum(max(0, way) for way in ways) + 1)
        return {name: -(-(high[name] - low[name]) // divided.get(name, 1)) for name in low}

    # A mapping

    def read(self, doc):
        """The leaves of a mapping from the first to the last: leaf, loops above, body of each loop."""
        bodies, found = Counter(), []

        def walk(part, loops, ids):
            if "einsum" in part:
                found.append((Leaf(part["einsum"], part["held"], part["nests"]), loops, ids))
                return
            bodies["all"] += 1
            number, start = bodies["all"], len(found)
            own = tuple(self.read_loop(loop) for loop in part["loops"])
            need(own, "a body has loops")
            for child in part["children"]:
                walk(child, (*loops, *own), (*ids, *(number for _ in own)))
            self.check_body(own, start, len(found))
            need(len(part["children"]) > 1, "a body with one body is one")

        for part in doc["tree"]:
            walk(part, (), ())
        need(
            [leaf.einsum for leaf, *_ in found] == [*range(len(self.einsums))],
            "the leaves are the Einsums in order",
        )
        for j, (_, loops, _) in enumerate(found):
            need(self.moves_once(j, loops), "shared loops move each window along one dimension")
            trips = Counter()
            for loop in loops:
                trips[loop.dims[j - loop.start]] = max(1, trips[loop.dims[j - loop.start]]) * loop.trips
            need(
                all(n <= self.einsums[j].bounds[d] for d, n in trips.items()),
                "loops cut no more parts than there are",
            )
        return found

    @staticmethod
    def read_loop(doc):
        """A loop over a dimension of each Einsum of its body."""
        over = dict(map(tuple, doc["over"]))
        need(type(doc["trips"]) is int and doc["trips"] > 1 and over, "a shared loop has 2 trips or more")
        need(natural([list(pair) for pair in over.items()]), "a shared loop runs over dimensions of Einsums")
        need(
            [*sorted(over)] == [*range(min(over), min(over) + len(over))], "Einsums of a body are neighbours"
        )
        return Loop(doc["trips"], min(over), tuple(over[j] for j in sorted(over)))

    def check_body(self, loops, start, end):
        """Check the Einsums and the loops of a body."""
        need(end - start > 1, "a body has two Einsums or more")
        classes = self.classes(start, end)
        need(classes is not None, "tensors connect the Einsums of a body")
        for loop in loops:
            each = loop.start == start and len(loop.dims) == end - start
            need(each, "a shared loop runs over a dimension of each Einsum")
            need(loop.dims in classes, "a shared loop cuts what is handed over alike")

    def price(self, doc):
        """Energy and cycles of a mapping; raises if it is none, or takes too much room."""
        paths, stored = self.read(doc), {t: (depth, level) for t, depth, level in doc["stored"]}
        need(len(stored) == len(doc["stored"]) and natural(doc["stored"]), "tensors are stored once")
        self.check_limits(paths)
        for t, (depth, level) in stored.items():
            need(level in self.storable.get(t, ()), "what is stored may be")
            need(
                depth <= min(shared(paths[i], paths[j]) for i in self.users[t] for j in self.users[t]),
                "stored tensors lie below loops that all their Einsums share",
            )
            loops = paths[self.writer[t]][1][:depth]
            sliding = any(map(self.slides, loops))
            need(not sliding or self.keeps(t, loops), "what overlaps is kept until it is not needed any more")
        rooms = [(j, *self.place(paths, stored, j)) for j in range(len(paths))]
        stored = {t: (*own, self.spread(paths, t, own[1])) for t, own in stored.items()}
        energy = cycles = 0
        for j, own, cost in rooms:
            for number, words in enumerate(own, 1):
                taken = words + self.taken(paths, stored, j, number)
                need(taken <= self.room(number), f"there is room while Einsum {j} runs")
            energy, cycles = (
                energy + cost[0] * self.einsums[j].times,
                cycles + cost[1] * self.einsums[j].times,
            )
        return {"energy": energy, "latency": cycles, "edp": energy * cycles}

    def check_limits(self, paths):
        """Check the number of loops above each Einsum."""
        for leaf, loops, _ in paths:
            dims = Counter(loop.dims[leaf.einsum - loop.start] for loop in loops)
            need(
                self.most_loops is None or len(loops) <= self.most_loops,
                "there are no more shared loops than allowed",
            )
            most = max(dims.values(), default=0)
            need(
                self.most_per_rank is None or most <= self.most_per_rank,
                "ranks are looped no more than allowed",
            )

    def place(self, paths, stored, j):
        """Room of an Einsum's own tiles, memory by memory, and its energy and cycles."""
        einsum, (leaf, loops, _) = self.einsums[j], paths[j]
        if einsum.is_copy:
            need(not leaf.held and not leaf.nests and not loops, "copies have no nest")
            return [0], (0, 0)
        need(natural(leaf.held) and len({v for v, _ in leaf.held}) == len(leaf.held), "tiles are held once")
        held = []
        for v, depth in leaf.held:
            need(v < len(einsum.tensors) and einsum.may_keep[v], "what is held may be kept on chip")
            need(
                einsum.tensors[v] not in stored and depth < len(loops),
                "what is held is not stored, and above a loop",
            )
            need(
                depth >= self.least_depth(paths, j, v),
                "what goes through the outermost memory is held inside of that",
            )
            held.append(einsum.held(v, self.cut(j, loops[:depth])))
        levels = {v: stored[t][1] for v, t in enumerate(einsum.tensors) if t in stored}
        above = frozenset({v for v, level in levels.items() if level == 1} | {v for v, *_ in held})
        deep = tuple((v, level) for v, level in levels.items() if level > 1)
        energy, cycles, rooms = einsum.price(self.cut(j, loops), above, deep, tuple(held), leaf.nests)
        self.check_outside(einsum, levels)
        return rooms, (energy, cycles)

    def check_outside(self, einsum, at_home):
        """Check the room of the outermost memory: it has all of what it keeps."""
        sizes = zip(einsum.spaces, einsum.space.at[0])
        words = sum(
            space.tile(einsum.bounds) * own["size"]
            for v, (space, own) in enumerate(sizes)
            if v not in at_home
        )
        need(words <= einsum.space.nodes[0]["most_size"], "the outermost memory has room")

    def least_depth(self, paths, j, v):
        """Loops above which no tile is held that goes through the outermost memory between Einsums."""
        tensor = self.einsums[j].tensors[v]
        writer = self.writer.get(tensor)
        others = self.readers.get(tensor, ()) if writer == j else () if writer is None else (writer,)
        return max((shared(paths[j], paths[other]) for other in others), default=0)

    def spread(self, paths, tensor, level):
        """How loops spread a stored tensor over the instances of its memory: fanouts, ranks, and children."""
        found = set()
        for e, v in self.accesses(tensor):
            lone, fans = e.lone(v), e.outside(level)
            for nest in paths[e.number][0].nests:
                bounds = e.bounds_of(nest)
                loops = ((n, d, count) for n, (p, _) in fans.items() for d, count in nest["loops"][p])
                found.add(tuple((n, lone.get(d), count, bounds[d]) for n, d, count in loops))
        need(len(found) == 1, "all Einsums spread a stored tensor alike")
        (spread,) = found
        return tuple((n, name, count) for n, name, count, _ in spread)

    def taken(self, paths, stored, j, number):
        """Room of a memory that held and stored tiles take while an Einsum runs."""
        total = 0
        for i, path in enumerate(paths) if number == 1 else ():
            einsum, later = self.einsums[i], shared(path, paths[j])
            for v, depth in path[0].held:
                words = einsum.tile(v, self.cut(i, path[1][:depth])) * einsum.space.at[einsum.home][v]["size"]
                total += words if i == j or later > depth else 0
        here = ((t, depth, spread) for t, (depth, level, spread) in stored.items() if level == number)
        for t, depth, spread in here:
            users = self.users[t]
            waits = users[0] <= j <= users[-1] or any(shared(paths[i], paths[j]) > depth for i in users)
            loops = paths[self.writer[t]][1][:depth]
            total += self.stored_words(t, loops, number, spread) if waits else 0
        return total


def shared(one, other):
    """Loops that two paths have in common."""
    count = 0
    for a, b in zip(one[2], other[2]):
        if a != b:
            break
        count += 1
    return count


def divisors_of(number):
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


def vectors(counts):
    """All lists of divisors of some numbers."""
    return product(*map(divisors_of, counts))
