"""Einsums of a cascade as the checker reads them: what visits cost, as mapspaces, and how tiles move."""

import json
import math
from collections import Counter, namedtuple
from functools import cache, cached_property
from itertools import chain, product
from math import prod

from claims import EXACT, CannotCheckError, need
from perfect import Space

# Visits of an Einsum: the bounds of each; how many there are, per dimension; dataspaces above the nests;
# what is held (number, moved, first); on-chip levels that keep the outputs (None: any); bandwidths left out;
# dataspaces stored in memories farther in, with the numbers of these, of which the outermost on chip is 1.
Kind = namedtuple("Kind", "bounds trips above held homes loose deep", defaults=(None, False, ()))
UNLIMITED = {"bandwidths": dict.fromkeys(("read", "write", "shared")), "ports": []}


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


def divisors_of(number):
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


def vectors(counts):
    """All lists of divisors of some numbers."""
    return product(*map(divisors_of, counts))
