"""Fused mappings as the checker reads them: the cascade, the tree, room, and what each Einsum costs."""

import json
import math
from collections import Counter, namedtuple
from functools import cache, cached_property
from itertools import product
from math import inf, prod

from claims import EXACT, CannotCheckError, natural, need
from perfect import Space

MOST_EINSUMS = 1 << 10

Kind = namedtuple(
    "Kind", "trips above held"
)  # of an edge: trips per dimension; dataspaces; (number, moved, first)
Body = namedtuple("Body", "loops children")  # loops: (trips, {Einsum: dimension}), outermost first
Leaf = namedtuple("Leaf", "einsum held nest")


class Edge(Space):
    """All visits of an Einsum as one mapspace; nothing stays from one visit to the next.

    Dataspaces `above` the nests come from the on-chip memory, without room. Bandwidths carry the words of
    held tiles besides. Words of an output that an earlier visit has touched are not touched for the first
    time: only the trips over its own dimensions bring new ones.
    """

    def __init__(self, einsum, kind, room, doc=None):
        super().__init__(doc or einsum.visit(kind, room))
        self.visits = prod(kind.trips)
        self.fresh = [prod(n for d, n in enumerate(kind.trips) if d in dims) for dims in einsum.dims]
        self.computes, self.arithmetic = self.computes * self.visits, self.arithmetic * self.visits
        self.latency, self.steps = self.latency * self.visits, self.steps * self.visits
        most = max([self.computes, self.latency, *(space.most * self.visits for space in self.spaces)])
        need(most * len(self.spaces) < EXACT, "the problem is too large", CannotCheckError)
        self.loads = Counter()
        for v, moved, first in kind.held:
            read, filled, written = einsum.shifted(v, moved, first)
            self.loads[0, v, "read"] += read
            self.loads[0, v, "write"] += written
            self.loads[self.stores[1], v, "write"] += filled

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
        need(self.doc["counting"] == "exact" and self.doc["factors"] == "perfect", "the counting is known")
        need(
            not self.doc.get("memories") and not self.doc.get("rules"),
            "memories have one place, and no rules",
        )
        self.space = Space(self.doc)
        need(len(self.space.stores) > 1, "there is an on-chip memory")
        self.home = self.space.stores[1]
        fans = [self.space.nodes[p] for p in self.space.fans if p < self.home]
        need(all(n["mesh_x"] * n["mesh_y"] == 1 for n in fans), "the on-chip memory exists once")
        self.bounds, self.spaces = self.space.bounds, self.space.spaces
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
        self.may_keep = [any(self.home in own for own in sets) for sets in keep]
        self.may_pass = [any(self.home not in own for own in sets) for sets in keep]
        self.dims = [{d for rank in own for d, _ in rank} for own in self.ranks]
        every = [[d for rank in own for d, _ in rank] for own in self.ranks]
        pairs = zip(self.ranks, every)
        self.joint = [
            {d for rank in own for d, _ in rank if len(rank) > 1 or dims.count(d) > 1} for own, dims in pairs
        ]
        strided = [{d for rank in own for d, c in rank if c != 1} for own in self.ranks]
        self.windowed = [joint | holes for joint, holes in zip(self.joint, strided)]
        self.stay = [v for v, may in enumerate(self.may_keep) if may]
        self.least_visits = tuple(1 for _ in self.bounds)

    @cached_property
    def key(self):
        """What Einsums have in common that differ in names alone."""

        def bare(value):
            if isinstance(value, dict):
                return {key: bare(own) for key, own in value.items() if key not in {"name", "dims"}}
            return [bare(own) for own in value] if isinstance(value, list) else value

        return json.dumps(bare(self.doc), sort_keys=True)

    def left(self, trips):
        """Bounds of a visit."""
        need(all(n % f == 0 for n, f in zip(self.bounds, trips)), "shared loops divide what they split")
        return [n // f for n, f in zip(self.bounds, trips)]

    def visit(self, kind, room):
        """The canonical problem of one visit, with so much room (None: any) for its own tiles."""
        bounds, huge = self.left(kind.trips), EXACT
        nodes = [dict(node) for node in self.doc["nodes"]]
        for node in nodes:
            if node["kind"] != "storage":
                node["factors"] = [[f for f in own if n % f == 0] for own, n in zip(node["factors"], bounds)]
        nodes[0] |= {"least_size": 0, "most_size": huge}
        home = nodes[self.home]
        home |= {"most_size": huge if room is None else room}
        home["dataspaces"] = [
            {**own, "size": 0 if v in kind.above else own["size"]} for v, own in enumerate(home["dataspaces"])
        ]
        spaces = [
            {**own, "keep": self.inside(own["keep"]) if v in kind.above else own["keep"]}
            for v, own in enumerate(self.doc["dataspaces"])
        ]
        return {**self.doc, "bounds": bounds, "nodes": nodes, "dataspaces": spaces}

    def inside(self, sets):
        """Keep sets of a dataspace whose tile in the on-chip memory lies above the nests."""
        kept = {(self.home, *(p for p in own if p > self.home)) for own in sets if self.home in own}
        return [list(own) for own in sorted(kept)]

    @cache
    def tile(self, v, trips):
        """Words of a tile below shared loops."""
        return self.box(v, self.left(trips))

    def box(self, v, extent):
        """Words of the box that iterations touch, holes included."""
        return prod(1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks[v])

    def moved(self, v, trips):
        """Words of all tiles below shared loops, each once."""
        return prod(trips) * self.tile(v, trips)

    @cache
    def touched(self, v, trips):
        """At most the words that all visits touch, those of each visit once: holes do not count.

        Sums of indices take at least as many values as without factors.
        """
        extent, words, seen = self.left(trips), prod(trips), set()
        for rank in self.ranks[v]:
            dims = {d for d, c in rank if c}
            words *= 1 if seen & dims else 1 + sum(extent[d] - 1 for d in dims)
            seen |= dims
        return words

    def held(self, v, trips):
        """A held tile: its number, the words that it moves, and those of them that are touched first."""
        return v, self.moved(v, trips), self.box(v, self.bounds) if self.writes[v] else 0

    def shifted(self, v, moved, first):
        """Words of a held tile that are read outside, filled inside, and written outside."""
        outside, inside = self.space.at[0][v], self.space.at[self.home][v]
        read, filled = (moved - (0 if own["first_write_reads"] else first) for own in (outside, inside))
        return read, filled, moved if self.writes[v] else 0

    def shift_energy(self, held):
        """Energy of the words of held tiles."""
        total = 0
        for v, moved, first in held:
            outside, inside = self.space.at[0][v], self.space.at[self.home][v]
            read, filled, written = self.shifted(v, moved, first)
            total += -(-read // outside["block"]) * outside["read"]
            total += -(-written // outside["block"]) * outside["update"]
            total += -(-filled // inside["block"]) * inside["fill"]
        return total

    def own_words(self, loops, mask, above):
        """Room of the on-chip memory that the tiles of a nest take."""
        extent = [prod(own.get(d, 1) for own in loops[self.home :]) for d in range(len(self.bounds))]
        kept = [v for v, levels in enumerate(mask) if self.home in levels and v not in above]
        return sum(self.box(v, extent) * self.space.at[self.home][v]["size"] for v in kept)


class Cascade:
    """The cascade of a certificate, and what of it may be fused."""

    def __init__(self, doc):
        need(0 < len(doc["einsums"]) <= MOST_EINSUMS, "there are Einsums, and not too many", CannotCheckError)
        self.einsums = [Einsum(own, number) for number, own in enumerate(doc["einsums"])]
        self.room, self.most_loops, self.most_per_rank = (
            doc[key] for key in ("room", "most_loops", "most_loops_per_rank")
        )
        limits = [self.room, self.most_loops, self.most_per_rank]
        need(natural(limits), "limits are natural numbers")
        need(
            {own["units_per_pj"] for own in (e.doc for e in self.einsums)}.__len__() == 1,
            "energies have one unit",
        )
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
        self.storable = {t for t in self.readers if doc["tensors"][t]["may_stay"] and self.may_store(t)}
        homes = [e.space.nodes[e.home]["most_size"] for e in self.einsums]
        need(self.room is None or {*homes} == {self.room}, "Einsums share the on-chip memory")
        leasts = [e.space.nodes[e.home]["least_size"] for e in self.einsums]
        need(not any(leasts), "the on-chip memory has no least utilization")

    @property
    def usable(self):
        """Room of the on-chip memory."""
        return inf if self.room is None else self.room

    def accesses(self, tensor):
        """Einsums and dataspaces that access a tensor."""
        return [
            (self.einsums[j], v)
            for j in self.users[tensor]
            for v, t in enumerate(self.einsums[j].tensors)
            if t == tensor
        ]

    def may_store(self, tensor):
        """Whether a tensor may wait in the on-chip memory."""
        accesses = self.accesses(tensor)
        same = len({frozenset(e.names[v]) for e, v in accesses}) == 1
        return same and all(e.may_keep[v] and not e.is_copy for e, v in accesses)

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
        found = [self.followed(start, end, handed, d) for d in range(len(members[0].bounds))]
        return tuple(own for own in found if own)

    def followed(self, start, end, handed, first):
        """The loop over a dimension of the first Einsum of a body, if it is one of all others as well."""
        dims, before = {start: first}, 0
        uses = [(t, j) for t in handed for j in self.users[t] if start <= j < end]
        while before < len(dims) < end - start:
            before = len(dims)
            for t, j in [(t, j) for t, j in uses if j not in dims]:
                known = next((i for i in self.users[t] if i in dims), None)
                rank = None if known is None else self.alone(self.einsums[known], t, dims[known])
                dims |= {} if known is None or j in dims else {j: self.indexing(self.einsums[j], t, rank)}
            if None in dims.values():
                return None
        places = [(t, self.alone(self.einsums[j], t, dims[j])) for t, j in uses]
        if any(own is None or own != dict(places)[t] for t, own in places):
            return None
        bounds = {self.einsums[j].bounds[d] for j, d in dims.items()}
        free = all(
            not (e.writes[v] and dims[e.number] in e.joint[v])
            for e in self.einsums[start:end]
            for v in range(len(e.writes))
        )
        return tuple(dims[j] for j in range(start, end)) if len(bounds) == 1 and free else None

    def alone(self, einsum, tensor, d):
        """Rank and offset at which a dimension indexes a tensor, the same in all accesses, by itself."""
        found = set()
        for v in (v for v, t in enumerate(einsum.tensors) if t == tensor):
            ranks = zip(einsum.names[v], einsum.ranks[v], einsum.offsets[v])
            found |= {
                (name, offset, tuple(rank) == ((d, 1),)) for name, rank, offset in ranks if d in dict(rank)
            } or {None}
        own = found.pop() if len(found) == 1 else None
        return own[:2] if own and own[2] else None

    def indexing(self, einsum, tensor, place):
        """The dimension that indexes a rank of a tensor by itself."""
        v = einsum.tensors.index(tensor)
        ranks = zip(einsum.names[v], einsum.ranks[v])
        dims = [rank[0][0] for name, rank in ranks if place and name == place[0] and len(rank) == 1]
        return dims[0] if dims else None

    def stored_words(self, tensor, trips):
        """Room of a tensor that waits below shared loops with these trips over its writer's dimensions."""
        (einsum, v) = next((e, v) for e, v in self.accesses(tensor) if e.writes[v])
        divided = {n: prod(trips[d] for d, _ in rank) for n, rank in zip(einsum.names[v], einsum.ranks[v])}
        low, high = {}, {}
        for e, own in self.accesses(tensor):
            for name, rank, offset in zip(e.names[own], e.ranks[own], e.offsets[own]):
                ways = [c * (e.bounds[d] - 1) for d, c in rank]
                low[name] = min(low.get(name, inf), offset + sum(min(0, way) for way in ways))
                high[name] = max(high.get(name, -inf), offset + sum(max(0, way) for way in ways) + 1)
        words = prod(-(-(high[name] - low[name]) // divided.get(name, 1)) for name in low)
        size, (up, down) = einsum.space.at[einsum.home][v]["size"], self.scales[tensor]
        return -(-words * size * up // down)

    # A mapping

    def read(self, doc):
        """The leaves of a mapping from the first to the last: leaf, loops above, body of each loop."""
        bodies, found = Counter(), []

        def walk(part, loops, ids):
            if "einsum" in part:
                found.append((Leaf(part["einsum"], part["held"], part["nest"]), loops, ids))
                return 1
            bodies["all"] += 1
            number, start = bodies["all"], len(found)
            own = [(loop["trips"], dict(map(tuple, loop["over"]))) for loop in part["loops"]]
            need(own and all(type(n) is int and n > 1 for n, _ in own), "a body has loops of 2 trips or more")
            for child in part["children"]:
                walk(child, (*loops, *own), (*ids, *(number for _ in own)))
            self.check_body(own, start, len(found))
            need(len(part["children"]) > 1, "a body with one body is one")
            return None

        for part in doc["tree"]:
            walk(part, (), ())
        need(
            [leaf.einsum for leaf, *_ in found] == [*range(len(self.einsums))],
            "the leaves are the Einsums in order",
        )
        return found

    def check_body(self, loops, start, end):
        """Check the Einsums and the loops of a body."""
        need(end - start > 1, "a body has two Einsums or more")
        classes = self.classes(start, end)
        need(classes is not None, "tensors connect the Einsums of a body")
        for _, over in loops:
            need(sorted(over) == [*range(start, end)], "a shared loop runs over a dimension of each Einsum")
            need(
                tuple(over[j] for j in range(start, end)) in classes,
                "a shared loop cuts what is handed over alike",
            )

    def trips(self, path, depth):
        """Trips of the outermost loops of a path over each dimension of its Einsum."""
        (leaf, loops, _), trips = path, [1] * len(self.einsums[path[0].einsum].bounds)
        for count, over in loops[:depth]:
            trips[over[leaf.einsum]] *= count
        return tuple(trips)

    def price(self, doc):
        """Energy and cycles of a mapping; raises if it is none, or takes too much room."""
        paths, stored = self.read(doc), dict(doc["stored"])
        need(len(stored) == len(doc["stored"]) and natural(doc["stored"]), "tensors are stored once")
        self.check_limits(paths)
        for t, depth in stored.items():
            need(t in self.storable, "what is stored may be")
            need(
                depth <= min(shared(paths[i], paths[j]) for i in self.users[t] for j in self.users[t]),
                "stored tensors lie below loops that all their Einsums share",
            )
        rooms = [(j, *self.place(paths, stored, j)) for j in range(len(paths))]
        energy = cycles = 0
        for j, own, cost in rooms:
            taken = own + self.taken(paths, stored, j)
            need(taken <= self.usable, f"there is room while Einsum {j} runs")
            energy, cycles = (
                energy + cost[0] * self.einsums[j].times,
                cycles + cost[1] * self.einsums[j].times,
            )
        return {"energy": energy, "latency": cycles, "edp": energy * cycles}

    def check_limits(self, paths):
        """Check the number of loops above each Einsum."""
        for leaf, loops, _ in paths:
            dims = Counter(over[leaf.einsum] for _, over in loops)
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
        """Room of an Einsum's own tiles, and its energy and cycles."""
        einsum, path = self.einsums[j], paths[j]
        leaf, loops, _ = path
        if einsum.is_copy:
            need(not leaf.held and leaf.nest is None and not loops, "copies have no nest")
            return 0, (0, 0)
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
            held.append(einsum.held(v, self.trips(path, depth)))
        at_home = {v for v, t in enumerate(einsum.tensors) if t in stored}
        kind = Kind(self.trips(path, len(loops)), frozenset(at_home | {v for v, *_ in held}), tuple(held))
        edge = Edge(einsum, kind, None)
        loops, mask = edge.read(leaf.nest)
        cost = edge.price(loops, mask)
        need(cost["fits"], "the nests respect all capacities")
        self.check_outside(einsum, at_home)
        return einsum.own_words(loops, mask, kind.above), (
            cost["energy"] + einsum.shift_energy(held),
            cost["latency"],
        )

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

    def taken(self, paths, stored, j):
        """Room that held and stored tiles take while an Einsum runs."""
        total = 0
        for i, path in enumerate(paths):
            einsum, later = self.einsums[i], shared(path, paths[j])
            for v, depth in path[0].held:
                words = einsum.tile(v, self.trips(path, depth)) * einsum.space.at[einsum.home][v]["size"]
                total += words if i == j or later > depth else 0
        for t, depth in stored.items():
            users = self.users[t]
            waits = users[0] <= j <= users[-1] or any(shared(paths[i], paths[j]) > depth for i in users)
            total += self.stored_words(t, self.trips(paths[self.writer[t]], depth)) if waits else 0
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
