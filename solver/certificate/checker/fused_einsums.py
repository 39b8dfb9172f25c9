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

import numpy as np

from solver.certificate.checker.claims import (
    EXACT,
    Array,
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
    NO_LIMITS,
    UNLIMITED,
    Deep,
    HeldTile,
    Kind,
    Limits,
    Numbers,
    Spread,
    Visits,
    in_any_order,
)
from solver.certificate.checker.remainders import Access, Bandwidth, Nest, Space

Cut = tuple[tuple[tuple[int, int], ...], ...]  # per dimension the extents of parts, and how many there are


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
        for node in (self.space.nodes[p] for p in self.space.fans):
            order = [*node.get("inner", ()), *node.get("outer", ())]
            formal = {*map(type, order)} <= {int} and {*order} <= {*self.space.every}
            need(formal and len({*order}) == len(order), "fanouts order dimensions, each once")
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

    def windows(self, v: int) -> set[int]:
        """Dimensions that move a window of a dataspace, if it has several tiles."""
        moving = [[(d, c) for d, c in rank if self.bounds[d] > 1] for rank in self.ranks[v]]
        every = [d for rank in moving for d, _ in rank]
        found = {d for rank in moving for d, c in rank if len(rank) > 1 or abs(c) > 1}
        return found | {d for d in every if every.count(d) > 1}

    def slid(self, v: int) -> set[int]:
        """Dimensions of shared loops that slide a held tile, of which what overlaps then stays.

        Only by AccelForge's rule; they index a rank together with others.
        """
        ranks = (rank for rank in self.ranks[v] if self.placed and len(rank) > 1)
        return {d for rank in ranks for d, _ in rank}

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
    def transfer(self, levels: Numbers, spread: Spread = ()) -> tuple[int, int]:
        """Energy and cycles of a copy whose tensors lie in such memories, 0 for the outermost one.

        Each word moves once: it is read where the source lies, and filled or updated where a copy does. It
        pays once at each toll between: inwards what its source pays, outwards what a copy outside pays. The
        instances among which loops of fanouts spread the tensors move equal shares. All instances of memories
        that leak while these are in use do so. Both are the least there is, where some loops are not known.
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
        few = {self.space.fans[number]: prod(n for _, n in own) for number, own in spread}
        outside = dict(chain.from_iterable(self.outside(level).values() for level in levels if level))
        many = {p: few.get(p, prod(mesh)) for p, mesh in outside.items()}
        shares = (
            {access: -(-n // prod(many.get(q, 1) for q in many if q < p)) for access, n in own.items()}
            for p, own in moves.items()
        )
        loads = (self.space.loaded(p, own).values() for p, own in zip(moves, shares, strict=True))
        cycles = max(math.ceil(max(own, default=0)) for own in loads)
        nodes = (self.space.nodes[p] for p in self.space.homes)
        leak = sum(own["leak"] * prod(few.get(q, 1) for q in own["leak_fanouts"]) for own in nodes)
        every = [pair for own in moves.values() for pair in own.items()]
        # More instances pay for more blocks that are not full, but those that pay may be fewer than move.
        energy = sum(min(self.paid(*pair, few), self.paid(*pair, many)) for pair in every)
        return energy + cycles * leak, cycles

    def paid(self, access: Access, words: int, children: Mapping[int, int]) -> int:
        """Energy of words that instances have equal shares of; so many children of fanouts are in use."""
        used = prod(n for p, n in children.items() if p < access.p)
        paying = min(used, self.space.nodes[access.p]["most_paying"])
        return int(self.space.priced(access, -(-words // used)) * paying)

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

    @remembered
    def outside(self, level: int) -> dict[int, tuple[int, tuple[int, int]]]:
        """Fanouts outside of a memory that have several children, by number: node, mesh."""
        fans = {n: p for n, p in enumerate(self.space.fans) if p < self.levels[level - 1][0]}
        meshes = {n: (self.space.nodes[p]["mesh_x"], self.space.nodes[p]["mesh_y"]) for n, p in fans.items()}
        return {n: (fans[n], mesh) for n, mesh in meshes.items() if prod(mesh) > 1}

    def divisions(self, level: int, extents: Mapping[int, int]) -> list[Spread]:
        """All spatial loops of the fanouts outside of a memory that divide the extents of dimensions."""
        numbers, sizes = [*self.outside(level)], [extents.get(d, 1) for d, _ in enumerate(self.bounds)]
        rows = np.unique(self.spatial[:, numbers], axis=0)
        rows = rows[(np.array(sizes) % rows.prod(axis=1) == 0).all(axis=1)].tolist()
        return [
            tuple(
                (number, tuple((d, n) for d, n in enumerate(own) if n > 1))
                for number, own in zip(numbers, row, strict=True)
            )
            for row in rows
        ]

    @cached_property
    def spatial(self) -> Array:
        """Choices of spatial factors that rules allow, without remainders, by fanout and dimension."""
        space = Space(self.even_doc) if self.is_any else self.space
        return space.spatial[space.rules.open]

    @remembered
    def may_be(self, bounds: Numbers) -> bool:
        """Whether fanouts allow visits of such bounds at all."""
        rows = self.spatial.prod(axis=1)
        return self.is_any or bool((np.array(bounds) % rows == 0).all(axis=1).any())

    def instances(self, p: int) -> int:
        """How often a node exists."""
        nodes = (self.space.nodes[q] for q in self.space.fans if q < p)
        return prod(node["mesh_x"] * node["mesh_y"] for node in nodes)

    def is_ordered(self, number: int) -> bool:
        """Whether rules order the spatial loops of a fanout, or say which of them lie along X."""
        node = self.space.nodes[self.space.fans[number]]
        live = [d for d, own in enumerate(node["factors"]) if max(own, default=1) > 1]
        is_any = len({frozenset(own) for own in node["along_x"]}) == 1 << len(live)
        return not is_any or bool(node.get("inner") or node.get("outer"))

    def lays_out(self, number: int, loops: Sequence[tuple[int, int]], along_x: int) -> bool:
        """Whether a fanout may have spatial loops in this order, innermost first, so many of them along X."""
        node, dims = self.space.nodes[self.space.fans[number]], {d for d, _ in loops}
        places = {d: (0, place) for place, d in enumerate(node.get("inner", ()))}
        places |= {d: (2, place) for place, d in enumerate(node.get("outer", ()))}
        order = [places.get(d, (1, 0)) for d, _ in loops]
        sides = loops[:along_x], loops[along_x:]
        wide, high = (prod(count for _, count in side) for side in sides)
        first = {d for d, _ in sides[0]}
        fits = wide <= node["mesh_x"] and high <= node["mesh_y"]
        return fits and order == sorted(order) and any({*own} & dims == first for own in node["along_x"])

    def lone(self, v: int) -> dict[int, str]:
        """Dimensions that index a rank of a dataspace by themselves, and these ranks."""
        return {
            rank[0][0]: name
            for name, rank in zip(self.names[v], self.ranks[v], strict=True)
            if len(rank) == 1
        }

    @remembered
    def undivided(self, above: frozenset[int], held: frozenset[int]) -> frozenset[int]:
        """Dimensions that no fanout outside of the outermost on-chip memory divides.

        Where tiles are `above` the nests there, some of them `held`, these are dimensions of windows and
        strides, and those that do not index a rank of what is stored by themselves.
        """
        if not above or not self.outside(1):
            return frozenset()
        apart = ({*range(len(self.bounds))} - self.lone(v).keys() for v in above - held)
        return frozenset().union(*self.windowed, *apart)

    def visit(
        self,
        kind: Kind,
        room: int | None,
        limits: Limits = NO_LIMITS,
        is_relaxed: bool = False,
        given: Json | None = None,
    ) -> Json:
        """The canonical problem of one visit, with so much room (None: any) for its own tiles.

        Loops outside of memories farther in do not move what these store, unless it `is_relaxed`: further
        shared loops may. Fanouts spread it along ranks that dimensions index by themselves. `given` is the
        problem of nests, where it is another one than that of `doc_for`.
        """
        bounds, huge, given = list(kind.bounds), EXACT, given or self.doc_for(kind)
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
        for p, words in ((p, words) for n, words in limits.rooms for p in self.levels[n - 1]):
            nodes[p]["most_size"] = words
        for node in (nodes[p] for p, _ in self.outside(1).values()):
            pairs = enumerate(node["factors"])
            node["factors"] = [
                without_loop(own, given["factors"] == "any") if d in limits.undivided else own
                for d, own in pairs
            ]
        for v, level in kind.deep:
            self.store(nodes, v, level, is_relaxed, given["factors"] == "any")
        for number, loops in limits.shares:
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
        """The problem of nests; none has remainders below a tile in a memory that exists several times."""
        levels = {level for _, level in kind.deep} | ({1} if kind.above else set())
        return self.even_doc if any(map(self.outside, levels)) else self.doc

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
    def tile(self, v: int, cut: Cut, shares: Spread = ()) -> int:
        """Words of the largest tile below shared loops in one instance of the outermost on-chip memory.

        At the least, where it is open how fanouts divide it.
        """
        extent = self.extent(cut)
        if self.are_known(shares):
            return self.box(v, self.part(extent, shares))
        return -(-self.without_holes(v, extent) // self.instances(self.home))

    def largest(self, v: int, cut: Cut) -> int:
        """Words of the largest tile below shared loops in all instances together."""
        return self.box(v, self.extent(cut))

    @staticmethod
    def extent(cut: Cut) -> list[int]:
        """The largest parts of all dimensions."""
        return [max(size for size, _ in parts) for parts in cut]

    def are_known(self, shares: Spread) -> bool:
        """Whether all spatial loops outside of the outermost on-chip memory are known."""
        return dict(shares).keys() >= self.outside(1).keys()

    def part(self, extent: Sequence[int], shares: Spread) -> list[int]:
        """The part of a tile that one instance of the outermost on-chip memory has."""
        loops = chain(*(own for number, own in shares if number in self.outside(1)))
        counts = Counter[int]()
        for d, count in loops:
            counts[d] = max(1, counts[d]) * count
        return [-(-n // max(1, counts[d])) for d, n in enumerate(extent)]

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

    @remembered
    def held(self, v: int, cut: Cut, shares: Spread = ()) -> HeldTile:
        """A held tile: its number, the words that it moves, and those of them that are touched first.

        Words of several instances count once where they are equal. Where it is open how fanouts divide the
        tile, words in holes between strides do not count: parts may leave them out.
        """
        first = self.box(v, self.bounds) if self.writes[v] else 0
        if not self.outside(1):
            return v, self.moved(v, cut), first
        if not self.are_known(shares):
            return v, self.touched(v, cut), first
        moved = 0
        for bounds, trips in self.kinds(cut):
            part = self.part(bounds, shares)
            times = prod(
                -(-n // m) for d, (n, m) in enumerate(zip(bounds, part, strict=True)) if d in self.dims[v]
            )
            moved += prod(trips) * times * self.box(v, part)
        return v, moved, first

    def shifted(self, held: HeldTile, shares: Spread = ()) -> dict[Access, Any]:
        """Words of a held tile: read and written outside, filled inside, read inside for what is written.

        Only by AccelForge's rule what drains from a memory is read there. What passes between the two
        outermost memories pays the tolls there. The words are those of one instance of each node, at the
        least where it is open how fanouts divide the tile.
        """
        v, moved, first = held
        outside, inside = self.space.at[0][v], self.space.at[self.home][v]
        new, begun = (0 if own["first_write_reads"] else first for own in (outside, inside))
        written = moved if self.writes[v] else 0
        words = {(0, "read"): (moved, new), (0, "update"): (written, 0), (self.home, "fill"): (moved, begun)}
        words[self.home, "read"] = (written if self.placed else 0), 0
        for p, down, up in self.tolls(v):
            words |= {(p, "read"): (moved * down, new * down), (p, "update"): (written * up, 0)}
        return {
            Access(v, p, self.home, action, False): self.each(v, p, every, shares)
            - self.each(v, p, free, shares, is_first=True)
            for (p, action), (every, free) in words.items()
        }

    def each(self, v: int, p: int, words: int, shares: Spread, is_first: bool = False) -> Any:
        """Words of one instance of a node on the way to a held tile, given those of all instances together.

        Children that share no accesses have words of their own; by AccelForge's rule these are all touched
        first.
        """
        if not self.are_known(shares):
            several = self.instances(p)
            return words if several == 1 else Fraction(words, several)
        for number, (q, _) in self.outside(1).items():
            loops = dict(shares)[number]
            moving = prod(count for d, count in loops if d in self.dims[v])
            if q < p:
                words //= moving
            elif not self.space.nodes[q]["multicast"][v] and (self.placed or not is_first):
                words *= prod(count for _, count in loops) // moving
        return words

    def tolls(self, v: int) -> Iterator[tuple[int, bool, bool]]:
        """Yield the tolls between the two outermost memories, and whether words pay on both ways."""
        for p in sorted(p for p in self.tolled if p < self.home):
            yield p, *self.space.at[p][v]["toll"]

    @remembered
    def shift_energy(self, held: tuple[HeldTile, ...], shares: Spread = ()) -> int:
        """Energy of the words of held tiles; at the least where it is open how fanouts divide them."""
        total = 0
        for access, words in chain(*(self.shifted(own, shares).items() for own in held)):
            several = self.instances(access.p)
            if several > 1 and not self.are_known(shares):
                total += self.least_priced(access, words * several)
                continue
            used = prod(prod(count for _, count in own) for n, own in shares if self.is_outside(n, access.p))
            total += self.space.priced(access, words) * min(used, self.space.nodes[access.p]["most_paying"])
        return total

    def is_outside(self, number: int, p: int) -> bool:
        """Whether a fanout lies outside of a node."""
        return number in self.outside(1) and self.outside(1)[number][0] < p

    def least_priced(self, access: Access, words: Any) -> int:
        """Energy of words at the least, however fanouts divide them among instances; blocks may be full."""
        held, several = self.space.at[access.p][access.v], self.instances(access.p)
        paying = min(several, self.space.nodes[access.p]["most_paying"])
        energy = words * held[access.action] * Fraction(paying, several * held["block"])
        return int(energy // 1)

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
        self,
        cut: Cut,
        above: frozenset[int],
        deep: Deep,
        held: tuple[HeldTile, ...],
        nests: Sequence[Json],
        shares: Spread = (),
    ) -> tuple[int, int, list[int]]:
        """Energy, cycles, and rooms of the own tiles of all visits; raises if they are no mapping.

        Spatial loops divide held tiles as `shares` says.
        """
        limits = Limits(undivided=self.undivided(above, frozenset(v for v, *_ in held)))
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
            edge, loops, mask = self.read(kind._replace(held=own_held), given[kind.bounds], limits, shares)
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
        energy = total.energy + sum(edge.arithmetic for edge in edges) + self.shift_energy(held, shares)
        return energy, math.ceil(total.busy) + sum(edge.latency for edge in edges), rooms

    def read(
        self, kind: Kind, nest: Json, limits: Limits, shares: Spread
    ) -> tuple[Visits, list[dict[int, int]], Mask]:
        """The visits that a nest is for, its loops, and what it keeps."""
        doc, own = self.visit(kind, None, limits), {key: nest[key] for key in nest if key != "bounds"}
        if self.is_free:
            orders = in_any_order(self, kind, doc, shares)
            found: tuple[Visits, list[dict[int, int]], Mask] = orders.read(own)
            return found
        edge = Visits(self, kind, doc, shares=shares)
        loops, mask = edge.read(own)
        need(not edge.rules.broken(loops, mask), "the nests satisfy all user-defined constraints")
        return edge, loops, mask

    def across(self, nest: Json, number: int) -> Any:
        """The loops of a fanout."""
        return nest["spatial"][number] if self.is_free else nest["loops"][self.space.fans[number]]

    def dividing(self, nests: Sequence[Json]) -> Spread:
        """The spatial loops outside of the outermost on-chip memory, where nests divide held tiles."""
        found = {
            tuple((n, tuple(sorted(map(tuple, self.across(own, n))))) for n in self.outside(1))
            for own in nests
        }
        need(len(found) == 1, "all nests of an Einsum divide its held tiles alike")
        (shares,) = found
        return shares

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


def vectors(counts: Iterable[int]) -> Iterator[Numbers]:
    """All lists of divisors of some numbers."""
    return product(*map(divisors, counts))
