"""Checks curves: at no capacity of the buffer does a mapping move fewer words than the curve says.

A mapping is a tile, an order of the loops around it, and the dataspaces that the buffer keeps. What comes
whenever a loop advances depends on which loops lie inside of it, and on nothing else. So the least of a tile
over all orders is a running minimum over sets of loops that lie inside. Tiles go through it in two rounds:
first all that are equally many along each dimension together, with the least of what any of them moves and
takes; then, one by one, those that this leaves below the curve.

A point of a fused cascade rests on two certificates of fused mappings, of a buffer with as many words or
more for the bound, and of any for the mapping, which has to fit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import chain, combinations, product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import (
    MOST_CHOICES,
    MOST_NUMBERS,
    Array,
    Json,
    able,
    ceiling,
    need,
)
from solver.certificate.checker.dataspaces import Dims, Group
from solver.certificate.checker.fused_cascade import Cascade
from solver.certificate.checker.fused_tree import Tree
from solver.certificate.checker.remainders import Nest, Space, When

FORMAT, WITH_FUSED = (f"tilewright certificate curves {number}" for number in (1, 2))
KEYS = {"format", "curves", "versions", "seed", "command", "digest"}
FUSED = {"name", "point", "bound", "mapping"}
OWN = {"layers", "problem", "problem_sha256", "points"}
MEMORY = 0  # the outermost node
LEVEL = ["storage", "temporal"]  # the nodes of each level: itself, and its loops if there are any
CHUNK, MOST_COST = 1 << 15, 1 << 60  # tiles that are looked at together; costs that 64 bits hold

Kind = tuple[frozenset[int], int | None]  # dimensions whose loops lie inside, and the one that advances


class Table(NamedTuple):
    """Words of a dataspace along one group of dimensions, by the places of tiles along these.

    `every`: of all tiles in all steps. `begun`: distinct ones. `kept`: those that stay when a loop advances.
    `new`: those that do not, where the loop over a dimension is the innermost one.
    """

    dims: Dims
    every: Array
    begun: Array
    kept: dict[Kind, Array]
    new: dict[int, Array]

    def together(self, starts: Sequence[Array]) -> "Table":
        """The least words, and the most that are saved, over the places from each start to the next one."""

        def ends(by: np.ufunc, table: Array) -> Array:
            for axis, d in enumerate(self.dims):
                table = by.reduceat(table, starts[d], axis=axis)
            return table

        kept = {kind: ends(np.maximum, own) for kind, own in self.kept.items()}
        new = {d: ends(np.minimum, own) for d, own in self.new.items()}
        return Table(self.dims, ends(np.minimum, self.every), ends(np.maximum, self.begun), kept, new)


class Grid(NamedTuple):
    """Extents of tiles by dimension, at least, and the words of each dataspace."""

    sides: list[Array]
    tables: list[list[Table]]


def check_curves(
    doc: Json, sha256: Callable[[object], str], mapspace: Callable[[Json], Any], check: Callable[[Json], str]
) -> str:
    """What a certificate of curves proves; `check` says what other certificates do."""
    fused = doc["format"] == WITH_FUSED
    need(doc.keys() == (KEYS | {"fused", "proofs"} if fused else KEYS), "it has the keys of its format")
    need(
        doc["digest"] == sha256({key: doc[key] for key in doc if key != "digest"}),
        "`digest` is the hash of the certificate",
    )
    need(type(doc["curves"]) is list and (doc["curves"] or fused), "there are curves")
    for own in doc["curves"]:
        need(own.keys() == OWN, "curves have the keys of one")
        need(own["problem_sha256"] == sha256(own["problem"]), "`problem_sha256` is the hash of the problem")
        Curve(mapspace(own["problem"]), own["points"]).check()
    points = sum(len(own["points"]) for own in doc["curves"])
    text = f"{len(doc['curves'])} with {points:,} points"
    if fused:
        check_points(doc["fused"], doc["proofs"], mapspace, check)
        text += f", and {len(doc['fused'])} points of fused cascades"
    return f"no mapping is below the curves: {text}"


def check_points(
    points: list[Json], proofs: list[Json], mapspace: Callable[[Json], Any], check: Callable[[Json], str]
) -> None:
    """Check points of fused cascades, and the proofs that they rest on."""
    need(type(points) is type(proofs) is list and points, "there are points of fused cascades")
    for proof in proofs:
        need(proof["format"].startswith("tilewright certificate fused "), "proofs are about fused mappings")
        need(proof["objective"] == "energy" and proof["mapping"] is not None, "proofs are about words")
        check(proof)
    for own in points:
        need(own.keys() == FUSED and len(own["point"]) == 2, "points of fused cascades have the keys of one")
        numbers = (*own["point"], own["bound"], own["mapping"])
        need(all(type(n) is int and 0 <= n < MOST_COST for n in numbers), "points are numbers")
        need(max(numbers[2:]) < len(proofs), "points name proofs")
        words, traffic = own["point"]
        check_point(words, traffic, proofs[own["bound"]], proofs[own["mapping"]], mapspace)


def check_point(
    words: int, traffic: int, bound: Json, mapping: Json, mapspace: Callable[[Json], Any]
) -> None:
    """Check that a mapping moves so much with a buffer of so many words, and that none moves less."""
    problem = with_buffer(bound["problem"], words)
    need(problem == with_buffer(mapping["problem"], words), "both proofs are about the same cascade")
    need(bound["problem"]["rooms"][0] >= words, "the bound is about a buffer that is no smaller")
    cost = Tree(Cascade(problem), mapping["mapping"]).price()
    need(cost["energy"] == traffic, "the traffic is that of the mapping")
    spaces = [Curve(mapspace(own["mapspace"]), []).space for own in problem["einsums"]]
    prices = [own[key] for space in spaces for own in space.at[MEMORY] for key in ("read", "fill", "update")]
    # All costs are multiples of a price that divides every one.
    need(ceiling(bound["bound"], gcd(*prices)) * gcd(*prices) == traffic, "the bound is the traffic")


def with_buffer(problem: Json, words: int) -> Json:
    """A cascade with a buffer of so many words."""
    need(len(problem["rooms"]) == 1 and type(problem["rooms"][0]) is int, "there is one buffer with a limit")
    einsums = []
    for own in problem["einsums"]:
        nodes, stores = [*own["mapspace"]["nodes"]], own["mapspace"]["nodes"]
        for place in [n for n, node in enumerate(stores) if node["kind"] == "storage"][1:]:
            nodes[place] = nodes[place] | {"most_size": words}
        einsums.append(own | {"mapspace": own["mapspace"] | {"nodes": nodes}})
    return problem | {"einsums": einsums, "rooms": [words]}


class Curve:
    """The claim about one Einsum: from each capacity on, the least words, with a mapping."""

    def __init__(self, space: Space, points: list[Any]) -> None:
        self.active = [d for d in space.every if space.bounds[d] > 1]
        nodes = LEVEL if self.active else LEVEL[:1]
        self.buffer = len(nodes)
        held, memory = space.at.get(self.buffer, []), space.at[MEMORY]
        need([node["kind"] for node in space.nodes] == 2 * nodes, "it is about a memory and one buffer")
        need(space.counting == "exact" and not space.rules.parts, "words are those of an execution")
        need(not space.memories and all(own["temporal_reuse"] for own in held), "tiles stay in place")
        need(all("toll" not in own and not own["passes_on"] for own in (*held, *memory)), "levels keep tiles")
        free = not any(own[key] for own in held for key in ("read", "fill", "update"))
        free = free and not (space.arithmetic or any(space.nodes[p]["leak"] for p in space.stores))
        need(free and all(own["block"] == 1 for own in memory), "each word of the memory costs, and no more")
        kept = all({*own.keep} <= {(MEMORY,), (MEMORY, self.buffer)} for own in space.spaces)
        need(kept, "the memory keeps everything")
        self.space, self.points, self.spaces = space, points, space.spaces
        self.shares = [Counter({n: 1}) for n in space.bounds]
        self.prices = [self.price(v) for v in range(len(self.spaces))]
        most = sum(each * own.most for (each, _), own in zip(self.prices, self.spaces, strict=True))
        able(most < MOST_COST, "the words cost too much")

    def price(self, v: int) -> tuple[int, int]:
        """What a word costs that the buffer gets or gives, and what less if it is written first."""
        own = [access for access in self.space.accesses(v, (MEMORY, self.buffer)) if access.p == MEMORY]
        costs = [(self.space.at[MEMORY][v][access.action], access.first) for access in own]
        return sum(cost for cost, _ in costs), sum(cost for cost, first in costs if first)

    def nest(self, outer: dict[int, int], inner: dict[int, int]) -> Nest:
        """The nest with these loops below the memory and below the buffer."""
        return Nest(self.space, [{}, outer, {}, inner] if self.active else [{}, {}])

    def check(self) -> None:
        """Check the mappings of all points, and that no mapping is below them."""
        numbers = [*chain(*(own[:2] for own in self.points))]
        need(numbers and all(type(n) is int and 0 <= n < MOST_COST for n in numbers), "points are numbers")
        self.capacities = np.array(numbers[::2], dtype=np.int64)
        self.words = np.array(numbers[1::2], dtype=np.int64)
        need((np.diff(self.capacities) > 0).all(), "capacities rise")
        need((np.diff(self.words) < 0).all(), "words become fewer")
        for capacity, words, mapping in self.points:
            loops, mask = self.space.read(mapping)
            cost, tile = self.space.price(loops, mask), Nest(self.space, loops).extents[self.buffer]
            need(cost["fits"] and cost["energy"] == words, "the words match the mapping")
            room = sum(self.room(v, tile) for v, levels in enumerate(mask) if self.buffer in levels)
            need(room == capacity, "the capacity is what the tiles take")
        self.refute()

    def refute(self) -> None:
        """Check that no tile is below the curve."""
        pairs = [self.sides(d) for d in self.space.every]
        sides, starts = [own for own, _ in pairs], [own for _, own in pairs]
        one = Grid(
            sides,
            [[self.counted(v, own, sides) for own in space.groups] for v, space in enumerate(self.spaces)],
        )
        least = [own[first] for own, first in pairs]
        alike = Grid(least, [[own.together(starts) for own in tables] for tables in one.tables])
        for places, kept in product(chunks([*map(len, starts)]), self.keep_sets()):
            left = places[self.below(alike, kept, places)]
            for tiles in self.singled(left, sides, starts):
                need(not self.below(one, kept, tiles).any(), "no mapping moves fewer words")

    def keep_sets(self) -> Iterator[list[int]]:
        """The sets of dataspaces that the buffer may keep."""
        every = product(*([self.buffer in levels for levels in space.keep] for space in self.spaces))
        return ([v for v, kept in enumerate(own) if kept] for own in every)

    def room(self, v: int, extents: Sequence[Any]) -> Any:
        """Words of the buffer that tiles take."""
        return self.spaces[v].tile(extents) * self.space.at[self.buffer][v]["size"]

    def sides(self, d: int) -> tuple[Array, Array]:
        """Extents of tiles along a dimension, the most tiles first, and where a next number of tiles begins.

        Along a rank of its own, tiles never meet, and have all words of it together: of extents that make
        as many tiles the least is enough there.
        """
        bound, found, starts = self.space.bounds[d], list[int](), list[int]()
        groups = [group for own in self.spaces for group in own.groups if d in group[0]]
        alone = not self.space.any or all(dims == (d,) and len(ranks) < 2 for dims, ranks in groups)
        for number in self.space.numbers[d]:
            least, most = ceiling(bound, number), bound if number == 1 else (bound - 1) // (number - 1)
            starts.append(len(found))
            found += [least] if alone else range(least, most + 1)
        return np.array(found), np.array(starts)

    def counted(self, v: int, group: Group, sides: Sequence[Array]) -> Table:
        """The table of one group of a dataspace."""
        dims, ranks = group
        if len(dims) == 1 and len(ranks) < 2:
            return self.apart(dims[0], abs(dict(ranks[0])[dims[0]]) if ranks else 0, sides[dims[0]])
        shape = [len(sides[d]) for d in dims]
        inside = [frozenset(own) for n in range(len(dims) + 1) for own in combinations(dims, n)]
        kinds: list[Kind] = [(own, d) for own in inside for d in (None, *(d for d in dims if d not in own))]
        able(prod(shape) * len(kinds) < MOST_CHOICES, "windows have too many tiles")
        bounds, alone = (
            tuple(self.space.bounds[d] for d in dims),
            [1 + kinds.index((frozenset(), d)) for d in dims],
        )
        rows = []
        for extents in product(*(sides[d].tolist() for d in dims)):
            tile = dict(zip(dims, extents, strict=True))
            counts = {d: ceiling(self.space.bounds[d], own) for d, own in tile.items()}
            outer, inner = ({d: n for d, n in own.items() if n > 1} for own in (counts, tile))
            nest = self.nest(outer, inner)
            whens: list[list[When]] = [["every"] * len(dims)]
            whens += [[(d in outer and d in own, d in outer and d == by) for d in dims] for own, by in kinds]
            words = [
                nest.sums_apart(v, group, self.buffer, self.shares, own, [()] * len(dims)) for own in whens
            ]
            begun = nest.covered(v, group, MEMORY, self.buffer, bounds) if ranks else 1
            moves = [by is None or by in outer for _, by in kinds]
            stay = [kept * there for (_, kept), there in zip(words[1:], moves, strict=True)]
            come = [whole - kept for whole, kept in (words[n] for n in alone)]
            rows.append([words[0][0], begun, *stay, *come])
        every, begun, *others = np.array(rows, dtype=np.int64).T.reshape(-1, *shape)
        kept, new = dict(zip(kinds, others, strict=False)), dict(zip(dims, others[len(kinds) :], strict=True))
        return Table(dims, every, begun, kept, new)

    def apart(self, d: int, step: int, side: Array) -> Table:
        """The table of a dimension that alone indexes a rank, in steps of so many words; 0: it indexes none.

        Neighbouring tiles have no word in common, so that only a tile that does not move stays.
        """
        bound, none, never = self.space.bounds[d], np.zeros_like(side), frozenset[int]()
        number, own, other, within = ceiling(bound, side), (never, d), (never, None), (frozenset((d,)), None)
        if not step:
            one = np.ones_like(side)
            return Table((d,), number, one, {other: number, own: number - 1, within: one}, {d: none})
        every, first = step * (bound - number) + number, step * (side - 1) + 1
        kept: dict[Kind, Array] = {other: every, own: none, within: np.where(number == 1, every, none)}
        return Table((d,), every, every, kept, {d: every - first})

    def singled(self, places: Array, sides: Sequence[Array], starts: Sequence[Array]) -> Iterator[Array]:
        """Yield the places of all tiles, one by one, that are as many as some."""
        for first in range(0, len(places), CHUNK):
            rows = places[first : first + CHUNK]
            for d, own in enumerate(starts):
                low, high = own[rows[:, d]], np.append(own, len(sides[d]))[rows[:, d] + 1]
                able((high - low).sum() < MOST_NUMBERS, "the bounds leave too many tiles open")
                index = np.repeat(np.arange(len(rows)), high - low)
                number = np.arange(len(index)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
                rows = rows[index]
                rows[:, d] = low[index] + number
            yield from (rows[n : n + CHUNK] for n in range(0, len(rows), CHUNK))

    def below(self, grid: Grid, kept: Sequence[int], places: Array) -> Array:
        """Which of some tiles may be below the curve if the buffer keeps these dataspaces."""
        extents = [side[places[:, d]] for d, side in enumerate(grid.sides)]
        rooms = sum((self.room(v, extents) for v in kept), np.zeros(len(places), dtype=np.int64))
        claimed = np.append(MOST_COST, self.words)[np.searchsorted(self.capacities, rooms, side="right")]
        claimed = claimed - sum(self.passing[v] for v in range(len(self.spaces)) if v not in kept)
        found = np.flatnonzero(self.floors(grid, kept, places, extents) < claimed)
        left = np.zeros(len(places), dtype=np.bool_)
        left[found] = self.least(grid, kept, places[found]) < claimed[found]
        return left

    @cached_property
    def passing(self) -> list[int]:
        """What each dataspace costs that the buffer does not keep: the arithmetic asks for every word."""
        nest, found = self.nest({}, {d: self.space.bounds[d] for d in self.active}), []
        for v in range(len(self.spaces)):
            own = self.space.accesses(v, (MEMORY,))
            words = ((access, self.space.words(nest, access, self.shares)) for access in own)
            found.append(sum(self.space.priced(access, number) for access, number in words))
        return found

    def floors(self, grid: Grid, kept: Sequence[int], places: Array, extents: Sequence[Array]) -> Array:
        """The least of each tile, whichever loop is innermost; less than all without any.

        If that one has a rank of a dataspace of its own, all tiles of it come in every step.
        """
        found = np.full(len(places), MOST_COST)
        for d in self.active:
            total = sum((self.floor(grid.tables[v], v, places, d) for v in kept), np.zeros_like(found))
            found = np.where(extents[d] < self.space.bounds[d], np.minimum(found, total), found)
        return np.where(found == MOST_COST, -MOST_COST, found)

    def floor(self, own: Sequence[Table], v: int, places: Array, d: int) -> Array:
        """The least of what a dataspace costs with the loop over a dimension innermost."""
        (each, first), tables = self.prices[v], located(own, places)
        words = multiplied((table.new[d] if d in table.dims else table.every)[at] for table, at in tables)
        if d in self.spaces[v].relevant and any(table.dims == (d,) for table in own):
            words = multiplied(table.every[at] for table, at in tables)
        begun = multiplied(table.begun[at] for table, at in tables)
        cost: Array = each * np.maximum(words, self.spaces[v].least) - first * begun
        return cost

    def least(self, grid: Grid, kept: Sequence[int], places: Array) -> Array:
        """The least of each tile over all orders of the loops around it: of all steps, less what stays."""
        kinds = [(self.prices[v], located(grid.tables[v], places)) for v in kept]
        known = {frozenset[int](): np.zeros(len(places), dtype=np.int64)}
        for (each, first), tables in kinds:
            known[frozenset()] += each * multiplied(table.every[at] for table, at in tables)
            known[frozenset()] -= first * multiplied(table.begun[at] for table, at in tables)

        def after(inside: frozenset[int], d: int) -> Array:
            saved = (each * self.staying(tables, inside, d) for (each, _), tables in kinds)
            return reduce(np.subtract, saved, known[inside])

        sizes = range(1, len(self.active) + 1)
        for chosen in chain(*(map(frozenset, combinations(self.active, size)) for size in sizes)):
            known[chosen] = reduce(np.minimum, (after(chosen - {d}, d) for d in chosen))
        return known[frozenset(self.active)]

    @staticmethod
    def staying(tables: Sequence[tuple[Table, Any]], inside: frozenset[int], d: int) -> Array:
        """Words of a dataspace, at most, that stay whenever the loop over a dimension advances."""
        kinds = ((inside.intersection(own.dims), d if d in own.dims else None) for own, _ in tables)
        return multiplied(own.kept[kind][at] for (own, at), kind in zip(tables, kinds, strict=True))


def chunks(shape: Sequence[int]) -> Iterator[Array]:
    """Yield the places of all tiles, so many at a time."""
    for first in range(0, prod(shape), CHUNK):
        cells = np.arange(first, min(first + CHUNK, prod(shape)))
        yield np.stack(np.unravel_index(cells, shape), axis=1)


def located(tables: Sequence[Table], places: Array) -> list[tuple[Table, tuple[Array, ...]]]:
    """Tables, and where some tiles are in them."""
    return [(own, tuple(places[:, d] for d in own.dims)) for own in tables]


def multiplied(factors: Iterable[Array]) -> Array:
    """The product of arrays."""
    found: Array = reduce(np.multiply, factors)
    return found
