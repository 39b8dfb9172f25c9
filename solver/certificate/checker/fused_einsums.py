"""Einsums of a cascade as the checker reads them: their visits, what these cost, and how tiles move."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from math import prod
from typing import Any

from solver.certificate.checker.claims import (
    EXACT,
    Json,
    Levels,
    Mask,
    able,
    natural,
    need,
    remembered,
)
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.fused_visits import (
    UNLIMITED,
    Deep,
    HeldTile,
    Kind,
    Numbers,
    Visits,
    in_any_order,
)
from solver.certificate.checker.remainders import Access, Bandwidth, Nest, Space

Cut = tuple[tuple[tuple[int, int], ...], ...]  # per dimension the extents of parts, and how many there are
Rooms = tuple[tuple[int, int], ...]  # numbers of memories, and their room
Spread = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]  # by fanout, spatial loops


class Einsum:
    """One Einsum of a cascade; dataspaces and dimensions are numbers, as in its mapspace."""

    def __init__(self, doc: Json, number: int) -> None:
        self.number, self.doc, self.is_copy = number, doc["mapspace"], doc["is_copy"]
        self.runs: list[int] = [doc["n_instances"], doc["cycle_length"]]
        need(type(self.is_copy) is bool and natural(self.runs) and all(self.runs), "Einsums run some times")
        counting, self.placed = self.doc["counting"], self.doc["counting"] == "accelforge"
        need(counting in {"exact", "accelforge"}, "the counting rule is exact or accelforge")
        need(self.doc["factors"] in {"perfect", "any"}, "loops have factors of a known kind")
        self.is_any = self.doc["factors"] == "any"
        self.space, self.is_free = Space(self.doc), "free_order" in self.doc
        able(
            self.space.rules.are_spatial,
            "the checker knows only constraints on factors of fanouts in fused mappings",
        )
        self.even_doc = without_remainders(self.doc) if self.is_any else self.doc
        tolled = {p for p, own in self.space.at.items() if any("toll" in held for held in own)}
        alike = all("toll" in held for p in tolled for held in self.space.at[p])
        need(alike, "tolls store nothing")
        able(not (tolled and self.is_any), "the checker does not know tolls where loops have remainders")
        memories = [p for p in self.space.stores if p not in tolled]
        need(len(memories) > 1, "there is an on-chip memory")
        self.home, self.tolled = memories[1], tolled
        several = {own.places[0]: own.places for own in self.space.memories}
        inner = {p for places in several.values() for p in places[1:]}
        self.levels = [several.get(p, [p]) for p in memories[1:] if p not in inner]
        self.places = self.levels[0]
        fans = [self.space.nodes[p] for p in self.space.fans if p < self.home]
        able(
            all(n["mesh_x"] * n["mesh_y"] == 1 for n in fans),
            "the checker knows only one instance of the outermost on-chip memory",
        )
        self.bounds, self.spaces = self.space.bounds, self.space.spaces
        self.ranks = [[[(d, c) for d, c in rank] for rank in own["ranks"]] for own in self.doc["dataspaces"]]
        self.writes = [own["read_write"] for own in self.doc["dataspaces"]]
        self.tensors = [access["tensor"] for access in doc["accesses"]]
        self.names = [access["ranks"] for access in doc["accesses"]]
        self.offsets = [access["offsets"] for access in doc["accesses"]]
        counts = zip(self.ranks, self.names, self.offsets, strict=True)
        need(len(self.tensors) == len(self.ranks), "each dataspace is a tensor")
        need(all(len(a) == len(b) == len(c) == len({*b}) for a, b, c in counts), "accesses name all ranks")
        need({type(n) for own in self.offsets for n in own} <= {int}, "offsets are integers")
        need(not self.is_copy or self.writes.count(False) == 1, "a copy reads one tensor")
        keep = [own["keep"] for own in self.doc["dataspaces"]]
        need(self.is_copy or all(0 in own for sets in keep for own in sets), "the outermost memory keeps all")
        self.may_keep = [any({*own} & {*self.places} for own in sets) for sets in keep]
        self.may_pass = [any(not {*own} & {*self.places} for own in sets) for sets in keep]
        every = range(1, len(self.levels) + 1)
        self.may_store = [{n for n in every if [*self.stored_sets(v, n)]} for v in range(len(keep))]
        self.dims = [{d for rank in own for d, _ in rank} for own in self.ranks]
        named = [[d for rank in own for d, _ in rank] for own in self.ranks]
        pairs = zip(self.ranks, named, strict=True)
        self.joint = [
            {d for rank in own for d, _ in rank if len(rank) > 1 or dims.count(d) > 1} for own, dims in pairs
        ]
        strided = [{d for rank in own for d, c in rank if c != 1} for own in self.ranks]
        self.windowed = [joint | holes for joint, holes in zip(self.joint, strided, strict=True)]
        self.stay = [v for v, may in enumerate(self.may_keep) if may]
        self.whole = tuple(((n, 1),) for n in self.bounds)

    @cached_property
    def windows(self) -> frozenset[int]:
        """Dimensions that move a window of some dataspace, if it has several tiles."""
        found: set[int] = set()
        for ranks in self.ranks:
            moving = [[(d, c) for d, c in rank if self.bounds[d] > 1] for rank in ranks]
            every = [d for rank in moving for d, _ in rank]
            found |= {d for rank in moving for d, c in rank if len(rank) > 1 or abs(c) > 1}
            found |= {d for d in every if every.count(d) > 1}
        return frozenset(found)

    @property
    def times(self) -> int:
        """How often it runs."""
        return self.runs[0]

    @property
    def cycle_times(self) -> int:
        """How often its cycles count, by the clock of all."""
        return prod(self.runs)

    @cached_property
    def key(self) -> str:
        """What Einsums have in common that differ in names alone."""

        def bare(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: bare(own) for key, own in value.items() if key not in {"name", "dims", "rules"}}
            return [bare(own) for own in value] if isinstance(value, list) else value

        return f"{json.dumps(bare(self.doc), sort_keys=True)} {sorted(map(str, self.space.rules.parts))}"

    @staticmethod
    def kinds(cut: Cut) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the bounds of visits that differ, and how many there are of each, per dimension.

        A `cut` has for each dimension the extents of its parts, and how many there are of each.
        """
        for chosen in product(*cut):
            yield tuple(size for size, _ in chosen), tuple(count for _, count in chosen)

    def unlike(
        self, cut: Cut, above: frozenset[int], deep: Deep, homes: Numbers | None = None, loose: bool = False
    ) -> Iterator[Kind]:
        """Yield the visits that differ, in the order in which some of each come first."""
        firsts = tuple(parts[0][0] for parts in cut)
        for bounds, trips in self.kinds(cut):
            later = frozenset(d for d, (a, b) in enumerate(zip(bounds, firsts, strict=True)) if a != b)
            yield Kind(bounds, trips, above, (), homes, loose, deep, later)

    @remembered
    def transfer(self, levels: Numbers) -> tuple[int, int]:
        """Energy and cycles of a copy whose tensors lie in such memories, 0 for the outermost one.

        Each word moves once: it is read where the source lies, and filled or updated where a copy does. It
        pays once at each toll between: inwards what its source pays, outwards what a copy outside pays. All
        instances of memories that leak while one is in use do so.
        """
        at = [self.levels[level - 1][0] if level else 0 for level in levels]
        reading = self.writes.index(False)
        source = at[reading]
        moves: dict[int, dict[Access, int]] = {p: {} for p in {*at} | self.tolled}
        for p in (own for own in self.tolled if source < own < max(at)):
            if self.space.at[p][reading]["toll"][0]:
                moves[p][Access(reading, p, p, "read", False)] = self.box(reading, self.bounds)
        for p in (own for own in self.tolled if own < source):
            passing = [v for v, own in enumerate(at) if own < p and self.space.at[p][v]["toll"][1]]
            words = {v: self.box(v, self.bounds) for v in passing}
            if words:
                v = max(words, key=words.__getitem__)
                moves[p][Access(v, p, p, "update", False)] = words[v]
        for v, p in enumerate(at):
            way = ("fill" if p > source else "update") if self.writes[v] else "read"
            if {*at} != {source} and (p != source or not self.writes[v]):
                moves[p][Access(v, p, p, way, False)] = self.box(v, self.bounds)
        loads = (self.space.loaded(p, own).values() for p, own in moves.items())
        cycles = max(math.ceil(max(own, default=0)) for own in loads)
        energy = sum(map(self.priced, moves.values()))
        return energy + cycles * sum(self.space.nodes[p]["leak"] for p in self.space.homes), cycles

    def priced(self, moves: Mapping[Access, int]) -> int:
        """Energy of words that single instances move."""
        return sum(self.space.priced(access, words) for access, words in moves.items())

    def may_lie(self, levels: Numbers) -> bool:
        """Whether rules let a copy's tensors lie in such memories: outside, where they may be kept there."""
        keep = (own["keep"] for own in self.doc["dataspaces"])
        return all(level or any(0 in own for own in sets) for level, sets in zip(levels, keep, strict=True))

    def units(self) -> int:
        """All arithmetic units."""
        return prod(self.space.nodes[p]["mesh_x"] * self.space.nodes[p]["mesh_y"] for p in self.space.fans)

    def stored_sets(self, v: int, level: int) -> Iterator[Levels]:
        """Yield the levels that keep a dataspace, which a memory stores: none outside of that."""
        (first, *others), outer = self.levels[level - 1], {*chain(*self.levels[: level - 1])}
        for own in self.doc["dataspaces"][v]["keep"]:
            if {*own} & {first, *others} and not {*own} & outer:
                yield (first, *(p for p in own if p > first and p not in others))

    def outside(self, level: int) -> dict[int, tuple[int, tuple[int, int]]]:
        """Fanouts outside of a memory that have several children, by number: node, mesh."""
        fans = {n: p for n, p in enumerate(self.space.fans) if p < self.levels[level - 1][0]}
        meshes = {n: (self.space.nodes[p]["mesh_x"], self.space.nodes[p]["mesh_y"]) for n, p in fans.items()}
        return {n: (fans[n], mesh) for n, mesh in meshes.items() if prod(mesh) > 1}

    def is_ordered(self, p: int) -> bool:
        """Whether rules say which spatial loops of a fanout lie along X."""
        node = self.space.nodes[p]
        live = [d for d, own in enumerate(node["factors"]) if max(own, default=1) > 1]
        return len({frozenset(own) for own in node["along_x"]}) < 1 << len(live)

    def lone(self, v: int) -> dict[int, str]:
        """Dimensions that index a rank of a dataspace by themselves, and these ranks."""
        return {
            rank[0][0]: name
            for name, rank in zip(self.names[v], self.ranks[v], strict=True)
            if len(rank) == 1
        }

    def visit(
        self, kind: Kind, room: int | None, rooms: Rooms = (), shares: Spread = (), is_relaxed: bool = False
    ) -> Json:
        """The canonical problem of one visit, with so much room (None: any) for its own tiles.

        So it is with `rooms` of memories farther in, by number. Loops outside of these do not move what they
        store, unless it `is_relaxed`: further shared loops may. Fanouts spread it along ranks that dimensions
        index by themselves; `shares` says how, by fanout.
        """
        bounds, huge, given = list(kind.bounds), EXACT, self.doc_for(kind)
        nodes = [dict(node) for node in given["nodes"]]
        for node in nodes:
            if node["kind"] != "storage":
                node["factors"] = self.divided(node["factors"], bounds, given)
            elif kind.loose:
                node.update(UNLIMITED)
        nodes[0] |= {"least_size": 0, "most_size": huge}
        for n, p in ((n, p) for n, places in enumerate(self.levels, 1) for p in places):
            nodes[p]["least_size"] = dict(kind.fills).get(n, 0)
        for p in self.places:
            sizes = [
                {**own, "size": 0 if v in kind.above else own["size"]}
                for v, own in enumerate(nodes[p]["dataspaces"])
            ]
            nodes[p] |= {"most_size": huge if room is None else room, "dataspaces": sizes}
        for p, words in ((p, words) for n, words in rooms for p in self.levels[n - 1]):
            nodes[p]["most_size"] = words
        for v, level in kind.deep:
            self.store(nodes, v, level, is_relaxed, given["factors"] == "any")
        for number, loops in shares:
            node, counts = nodes[self.space.fans[number]], dict(loops)
            pairs = enumerate(node["factors"])
            node["factors"] = [[f for f in own if f == counts.get(d, 1)] for d, own in pairs]
        spaces = [{**own, "keep": self.kept(v, kind)} for v, own in enumerate(given["dataspaces"])]
        doc = {**given, "bounds": bounds, "nodes": nodes, "dataspaces": spaces}
        memories = [
            {**own, "factors": self.divided(own["factors"], bounds, given)} for own in doc.get("memories", [])
        ]
        return {**doc, "memories": memories} if memories else doc

    def store(self, nodes: list[Json], v: int, level: int, is_relaxed: bool, is_any: bool) -> None:
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
            node["factors"] = [without_loop(own, is_any) if d in still else own for d, own in pairs]

    def doc_for(self, kind: Kind) -> Json:
        """The problem of nests: what is stored in memories that exist several times leaves no remainders."""
        return self.even_doc if any(self.outside(level) for _, level in kind.deep) else self.doc

    def divided(
        self, lists: Sequence[list[int] | None], bounds: Sequence[int], doc: Json
    ) -> Sequence[list[int] | None]:
        """The factors that are allowed for other bounds, dimension by dimension; None for any."""
        if doc["factors"] == "any":
            return lists
        found = []
        for own, n, whole in zip(lists, bounds, self.bounds, strict=True):
            free = own is None or own == [1] or whole % n == 0 or own == divisors(whole)
            able(
                free,
                "the checker knows no constraints on factors of dimensions that are cut into unequal parts",
            )
            every = own if own is None or own == [1] or whole % n == 0 else divisors(n)
            found.append(every and [f for f in every if n % f == 0])
        return found

    def kept(self, v: int, kind: Kind) -> list[list[int]]:
        """Keep sets of a dataspace; above the nests its tile is at the first place of its memory."""
        sets, level = self.doc["dataspaces"][v]["keep"], self.level_of(v, kind)
        if level:
            sets = [list(own) for own in sorted({*self.stored_sets(v, level)})]
        if kind.homes is None or not self.writes[v]:
            return list(sets)
        return [own for own in sets if self.homes_of(v, own, kind) == {*kind.homes}]

    @staticmethod
    def level_of(v: int, kind: Kind) -> int:
        """Number of the memory that has a tile above the nests; 0 if there is none."""
        return dict(kind.deep).get(v, int(v in kind.above))

    def homes_of(self, v: int, kept: Sequence[int], kind: Kind) -> set[int]:
        """The on-chip levels that keep an output, but for a tile above the nests."""
        level = self.level_of(v, kind)
        return {*kept} - self.tolled - ({0, self.levels[level - 1][0]} if level else {0})

    def all_homes(self, above: frozenset[int], deep: Deep) -> Iterator[Numbers]:
        """Yield the sets of on-chip levels that visits of several kinds may keep the output at."""
        outputs = [v for v, own in enumerate(self.writes) if own]
        able(len(outputs) == 1, "the checker knows unequal visits only of Einsums with one output")
        kind = Kind(self.bounds, (), above, (), deep=deep)
        sets = [self.homes_of(outputs[0], own, kind) for own in self.kept(outputs[0], kind)]
        yield from {tuple(sorted(own)) for own in sets}

    def rounding(self) -> int:
        """Energy that whole vectors of visits of one kind may take beyond those of all visits together."""
        held = [
            (self.space.nodes[p]["most_paying"], own) for p, all_ in self.space.at.items() for own in all_
        ]
        keys = ("read", "fill", "update")
        return sum(most * sum(own[key] for key in keys) for most, own in held if own["block"] > 1)

    @remembered
    def tile(self, v: int, cut: Cut) -> int:
        """Words of the largest tile below shared loops."""
        return self.box(v, [max(size for size, _ in parts) for parts in cut])

    def box(self, v: int, extent: Sequence[int]) -> int:
        """Words of the box that iterations touch, holes included."""
        return prod(1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks[v])

    @remembered
    def moved(self, v: int, cut: Cut) -> int:
        """Words of all tiles below shared loops, each once."""
        return sum(prod(trips) * self.box(v, bounds) for bounds, trips in self.kinds(cut))

    @remembered
    def touched(self, v: int, cut: Cut) -> int:
        """At most the words that all visits touch, those of each visit once: holes do not count."""
        return sum(prod(trips) * self.without_holes(v, bounds) for bounds, trips in self.kinds(cut))

    def without_holes(self, v: int, extent: Sequence[int]) -> int:
        """At least the words that iterations touch: ranks that share dimensions count once."""
        words = 1
        seen: set[int] = set()
        for rank in self.ranks[v]:
            dims = {d for d, c in rank if c}
            words *= 1 if seen & dims else fewest_sums((abs(c), extent[d]) for d, c in rank if c)
            seen |= dims
        return words

    def held(self, v: int, cut: Cut) -> HeldTile:
        """A held tile: its number, the words that it moves, and those of them that are touched first."""
        return v, self.moved(v, cut), self.box(v, self.bounds) if self.writes[v] else 0

    def shifted(self, v: int, moved: int, first: int) -> dict[Access, int]:
        """Words of a held tile: read and written outside, filled inside, read inside for what is written.

        Only by AccelForge's rule what drains from a memory is read there. What passes between the two
        outermost memories pays the tolls there.
        """
        outside, inside = self.space.at[0][v], self.space.at[self.home][v]
        read, filled = (moved - (0 if own["first_write_reads"] else first) for own in (outside, inside))
        written = moved if self.writes[v] else 0
        words = {(0, "read"): read, (0, "update"): written, (self.home, "fill"): filled}
        words[self.home, "read"] = written if self.placed else 0
        found = {Access(v, p, self.home, action, False): n for (p, action), n in words.items()}
        return found | self.tolls(v, read, written)

    def tolls(self, v: int, read: int, written: int) -> dict[Access, int]:
        """Words that pass the tolls between the two outermost memories and pay there."""
        found = {}
        for p in sorted(p for p in self.tolled if p < self.home):
            down, up = self.space.at[p][v]["toll"]
            found[Access(v, p, self.home, "read", False)] = read * down
            found[Access(v, p, self.home, "update", False)] = written * up
        return found

    def shift_energy(self, held: Iterable[HeldTile]) -> int:
        """Energy of the words of held tiles."""
        return sum(self.priced(self.shifted(*own)) for own in held)

    @remembered
    def least_words(self, outside: frozenset[int]) -> int:
        """Least words of nests in the outermost on-chip memory: a value of each tile that it has to keep.

        Stored and held tiles are `outside` of the nests.
        """
        sizes = (
            self.space.at[self.home][v]["size"]
            for v in self.stay
            if not self.may_pass[v] and v not in outside
        )
        return sum(sizes)

    @cached_property
    def fills(self) -> dict[int, int]:
        """Least words of its tiles in on-chip memories, by number, where that is more than none."""
        least = ((n, self.space.nodes[own[0]]["least_size"]) for n, own in enumerate(self.levels, 1))
        return {} if self.is_copy else {n: words for n, words in least if words}

    def price(
        self, cut: Cut, above: frozenset[int], deep: Deep, held: tuple[HeldTile, ...], nests: Sequence[Json]
    ) -> tuple[int, int, list[int]]:
        """Energy, cycles, and rooms of the own tiles of all visits; raises if they are no mapping."""
        given = {self.bounds_of(own): own for own in nests}
        need(len(given) == len(nests) == sum(1 for _ in self.kinds(cut)), "each kind of visits has a nest")
        edges: list[Visits] = []
        read: list[tuple[Nest, Mask]] = []
        rooms, homes = [0] * len(self.levels), set()
        for kind in self.unlike(cut, above, deep):
            need(kind.bounds in given, "each kind of visits has a nest")
            able(
                not (edges and self.is_free), "the checker knows unequal visits only in the order of memories"
            )
            own_held = () if edges else held
            edge, loops, mask = self.read(kind._replace(held=own_held), given[kind.bounds])
            nest = Nest(edge, loops)
            taken = edge.taken(nest, mask)
            own = [taken[edge.home[edge.place_of[places[0]]]] for places in self.levels]
            rooms = [*map(max, rooms, own)]
            homes.add(tuple((v, *mask[v]) for v, own in enumerate(self.writes) if own))
            edges.append(edge)
            read.append((nest, mask))
        need(len(homes) == 1, "all visits keep the outputs in the same memories")
        total = Together(edges[0])
        for edge, (nest, mask) in zip(edges, read, strict=True):
            total.add(edge, nest, mask)
        energy = total.energy + sum(edge.arithmetic for edge in edges) + self.shift_energy(held)
        return energy, math.ceil(total.busy) + sum(edge.latency for edge in edges), rooms

    def read(self, kind: Kind, nest: Json) -> tuple[Visits, list[dict[int, int]], Mask]:
        """The visits that a nest is for, its loops, and what it keeps."""
        doc, own = self.visit(kind, None), {key: nest[key] for key in nest if key != "bounds"}
        if self.is_free:
            found: tuple[Visits, list[dict[int, int]], Mask] = in_any_order(self, kind, doc).read(own)
            return found
        edge = Visits(self, kind, doc)
        loops, mask = edge.read(own)
        need(not edge.rules.broken(loops, mask), "the nests satisfy all user-defined constraints")
        return edge, loops, mask

    def across(self, nest: Json, number: int) -> Any:
        """The loops of a fanout."""
        return nest["spatial"][number] if self.is_free else nest["loops"][self.space.fans[number]]

    def bounds_of(self, nest: Json) -> Numbers:
        """The bounds of the visits that a nest is for."""
        bounds = nest["bounds"]
        need(len(bounds) == len(self.bounds) and {*map(type, bounds)} <= {int}, "nests are for visits")
        return tuple(bounds)


class Together:
    """What visits of several kinds cost together: blocks fill up over all of them."""

    def __init__(self, first: Visits) -> None:
        self.first, self.steps = first, 0
        self.done: dict[tuple[int, int], Counter[tuple[int, int, Access]]] = defaultdict(Counter)
        self.loads: dict[int, dict[Bandwidth, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self.leaks: Counter[int] = Counter()

    def add(self, edge: Visits, nest: Nest, mask: Mask) -> None:
        """Add visits of one kind; raises if their tiles do not fit."""
        need(edge.fits(nest, mask), "the nests respect all capacities")
        self.leaks |= Counter(edge.leaking(nest))
        self.steps += nest.steps() * edge.visits
        for home, own in edge.moves(mask).items():
            alike = edge.alike(nest, home, own)
            paying = min(nest.instances(home), edge.nodes[home]["most_paying"])
            done = ((number, *each) for number, each in enumerate(alike))
            for number, instances, words in done:
                self.done[home, paying].update({(number, instances, a): n for a, n in words.items()})
            for way, load in max((edge.loaded(home, words) for _, words in alike), key=self.slowest).items():
                self.loads[home][way] += load

    def slowest(self, load: Mapping[Bandwidth, Fraction]) -> Any:
        """Cycles of the bandwidth that takes longest."""
        return self.first.whole(max(load.values(), default=Fraction(0)))

    @property
    def busy(self) -> Any:
        """Cycles of all visits."""
        return max([self.steps, *map(self.slowest, self.loads.values())])

    @property
    def energy(self) -> int:
        """Energy of accesses and leakage."""
        total: int = sum(round(leak * self.busy) for leak in self.leaks.values())
        for (home, _), done in self.done.items():
            found: dict[tuple[int, int], dict[Access, int]] = defaultdict(dict)
            for (number, instances, access), words in done.items():
                found[number, instances][access] = words
            total += self.first.spent(home, [(own[1], words) for own, words in found.items()])
        return total


def without_loop(own: Sequence[int], is_any: bool) -> list[int]:
    """The factors that are allowed to a dimension, of these, if it has no loop."""
    return [own[0], 1] if is_any else [f for f in own if f == 1]


def without_remainders(doc: Json) -> Json:
    """A problem with any factors as one with perfect factors: those that divide what they split."""

    def listed(lists: Sequence[list[int] | None]) -> list[list[int] | None]:
        pairs = zip(lists, doc["bounds"], strict=True)
        return [own and [f for f in divisors(n) if own[0] <= f <= (own[1] or n)] for own, n in pairs]

    nodes = [dict(node) for node in doc["nodes"]]
    for node in (own for own in nodes if "factors" in own):
        node["factors"] = listed(node["factors"])
    memories = [{**own, "factors": listed(own["factors"])} for own in doc.get("memories", [])]
    found = {**doc, "factors": "perfect", "nodes": nodes}
    return {**found, "memories": memories} if memories else found


def fewest_sums(terms: Iterable[tuple[int, int]]) -> int:
    """At least the values of a sum of indices, given factors and numbers of iterations."""
    count, reach = 1, 0
    for factor, number in sorted(terms):
        if factor > reach:  # each iteration has values of its own
            count *= number
        elif count > reach:  # no value is left out so far, so none will be
            count += factor * (number - 1)
        else:
            count += number - 1
        reach += factor * (number - 1)
    return count


def fits_mesh(counts: Numbers, mesh: tuple[int, int]) -> bool:
    """Whether loops may lie along the axes of a mesh."""
    mesh_x, mesh_y = mesh
    along = {1}
    for count in counts:
        along |= {n * count for n in along}
    whole = prod(counts)
    return any(n <= mesh_x and whole // n <= mesh_y for n in along if whole % n == 0)


def vectors(counts: Iterable[int]) -> Iterator[Numbers]:
    """All lists of divisors of some numbers."""
    return product(*map(divisors, counts))
