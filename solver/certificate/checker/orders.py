"""Memories in any order: the checker's reading of the claim, and its proof.

The tile of a dataspace in a memory stands at one place of the loop nest. Those of one dataspace stand in the
order of the memories, and so do those of memories whose order is not free; else they stand in any order. With
one order and one choice of spatial factors, all that fanouts do is to multiply: tiles, by the children that
share a memory outside of them, and accesses, by the instances. So each is a mapspace without fanouts, whose
temporal loops are proven like those of any other.

A tile that the outermost memory does not have is there before the nest begins, and takes no room. It stands
as far outside as tiles of memories outside of its own allow; in the outermost memory on chip above all loops.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import product
from math import inf, isqrt, prod
from typing import Any

import numpy as np

from solver.certificate.checker.bounds import Choice, Choices, Measure, left_open
from solver.certificate.checker.claims import (
    Array,
    CannotCheckError,
    Cost,
    Json,
    Mask,
    Query,
    Refute,
    able,
    natural,
    need,
    remembered,
)
from solver.certificate.checker.dataspaces import divisors

MOST_PARTS = 1 << 16  # choices of spatial factors, and orders that are looked at one by one
ACTIONS = "read", "fill", "update"

Tile = tuple[int, int]  # a memory's node, and a dataspace that it keeps
Order = tuple[Tile, ...]  # inside of the outermost memory, outermost first
Tiles = frozenset[Tile]
Spatial = Sequence[Sequence[int]]  # per fanout its factors by dimension
Mapspace = Callable[[Json, Sequence[int]], Any]  # of a problem, and the number of each level's memory


class Orders:
    """A problem whose memories may stand in any order; `space` is its mapspace in the order of its nodes."""

    def __init__(self, doc: Json, mapspace: Mapspace) -> None:
        free = doc["free_order"]
        self.doc = {key: doc[key] for key in doc if key != "free_order"}
        self.nodes, self.dims, self.bounds = doc["nodes"], range(len(doc["bounds"])), doc["bounds"]
        self.stores = [p for p, node in enumerate(self.nodes) if node["kind"] == "storage"]
        self.space, self.mapspace = mapspace(self.doc, range(len(self.stores))), mapspace
        self.fans = self.space.fans
        need(natural(free) and {*free} <= {*self.stores} and len({*free}) == len(free), "memories are free")
        self.free = frozenset(free)
        need(doc["factors"] == "perfect" and not {"sparse", "memories"} & doc.keys(), "loops are plain")
        need(doc["counting"] in ("exact", "accelforge"), "words are counted by place or as executed")
        self.relevant = [{d for rank in own["ranks"] for d, _ in rank} for own in doc["dataspaces"]]
        self.above = {p: sum(q < p for q in self.fans) for p in self.stores}
        firsts = [{levels[0] for levels in own["keep"]} for own in doc["dataspaces"]]
        able(all(len(own) == 1 for own in firsts), "dataspaces may have several outermost memories")
        homes = [(p, v) for v, (p,) in enumerate(firsts) if p]
        roomy = any(self.nodes[p]["dataspaces"][v]["size"] for p, v in homes)
        able(not roomy, "what the outermost memory does not keep takes room")
        self.first = [own for own in homes if own[0] == self.stores[1]]
        self.homes = [own for own in homes if own not in self.first]
        self.plain()

    def plain(self) -> None:
        """Check that loops are free, words are paid one by one, and fanouts only multiply."""
        for p in self.stores:
            pairs = zip(self.factors(p), self.bounds, strict=True)
            free = all(own in ([1], divisors(bound)) for own, bound in pairs)
            need(free, "temporal loops are free", CannotCheckError)
            most = prod(self.nodes[q]["mesh_x"] * self.nodes[q]["mesh_y"] for q in self.fans if q < p)
            held = self.nodes[p]["dataspaces"]
            single = all(own["block"] == 1 and not own["passes_on"] and "toll" not in own for own in held)
            need(single and self.nodes[p]["most_paying"] >= most, "words are paid alone", CannotCheckError)
        temporal = sum(node["kind"] == "temporal" for node in self.nodes)
        need(temporal <= len(self.stores), "temporal loops are free", CannotCheckError)
        need(self.space.rules.are_spatial, "rules are about fanouts alone", CannotCheckError)
        for i, p in enumerate(self.fans):
            used = {d for d in self.dims if any(own[i][d] > 1 for own in self.choices)}
            for v, space in enumerate(self.doc["dataspaces"]):
                odd = [rank for rank in space["ranks"] if len(rank) != 1 or abs(rank[0][1]) != 1]
                dims = [d for rank in space["ranks"] for d, _ in rank]
                sliding = {d for rank in odd for d, _ in rank} | {d for d in dims if dims.count(d) > 1}
                need(not used & sliding, "no fanout unrolls windows", CannotCheckError)
                alone = used - self.relevant[v] if not self.nodes[p]["multicast"][v] else set()
                need(not alone, "fanouts multicast what they unroll", CannotCheckError)

    def factors(self, p: int) -> list[list[int]]:
        """The factors that loops right below a memory may have, dimension by dimension."""
        below = [node["factors"] for node in self.nodes[p + 1 : p + 2] if node["kind"] == "temporal"]
        able(below or {*self.bounds} <= {1}, "temporal loops are free")
        found: list[list[int]] = below[0] if below else [[1] for _ in self.dims]
        return found

    @cached_property
    def choices(self) -> list[Any]:
        """The choices of spatial factors that rules allow."""
        chosen: list[Any] = self.space.spatial[self.space.rules.open].tolist()
        return chosen

    # Orders

    def kept(self) -> Iterator[Tiles]:
        """Yield what may stand inside of the outermost memory, but for what is there above all loops."""
        for kept in product(*(own["keep"] for own in self.doc["dataspaces"])):
            own = ((p, v) for v, levels in enumerate(kept) for p in levels[1:])
            yield frozenset((*own, *self.homes))

    def orders(self, left: Tiles) -> Iterator[Order]:
        """Yield the orders of some tiles."""
        if not left:
            yield ()
        for first in self.nexts(left):
            yield from ((first, *order) for order in self.orders(left - {first}))

    @remembered
    def nexts(self, left: Tiles) -> list[Tile]:
        """The tiles of those to come that may stand outside of all others."""
        found = [own for own in sorted(left) if not any(self.bound(other, own) for other in left)]
        return [own for own in found if own in self.homes][:1] or found

    def bound(self, outer: Tile, inner: Tile) -> bool:
        """Whether one tile has to stand above another one."""
        (p, v), (q, w) = outer, inner
        return p < q and (v == w or inner in self.homes or not self.free & {p, q})

    # One order and one choice of spatial factors

    def part(self, order: Order, spatial: Spatial) -> tuple[Json, list[int]]:
        """The mapspace of one order and one choice, without fanouts, and which memory each level is."""
        inside = [prod(own[d] for own in spatial) for d in self.dims]
        tiles = [*self.first, *order]
        placed = [0, *(p for p, _ in tiles)]
        placed += [p for p in self.stores if p not in placed]
        nodes: list[Json] = []
        at: list[int] = []
        for n, p in enumerate(placed):
            at.append(len(nodes))
            nodes.append(self.store(p, spatial, first=p not in placed[:n]))
            if n <= len(tiles):
                nodes.append(self.loops(n, order, spatial, inside))
        spaces = []
        for v, space in enumerate(self.doc["dataspaces"]):
            levels = [at[n + 1] for n, own in enumerate(tiles) if own[1] == v]
            outside = all(own[1] != v for own in (*self.first, *self.homes))
            spaces.append({**space, "keep": [[at[0], *levels] if outside else levels]})
        several = [[at[n] for n, q in enumerate(placed) if q == p] for p in dict.fromkeys(placed)]
        none = [None] * len(self.bounds)
        memories = [
            {"places": own, "groups": [[p + 1] for p in own], "factors": none}
            for own in several
            if len(own) > 1
        ]
        doc = {
            **{key: self.doc[key] for key in self.doc if key != "rules"},
            "bounds": [bound // n for bound, n in zip(self.bounds, inside, strict=True)],
            "dataspaces": spaces,
            "nodes": nodes,
            "compute_energy": self.doc["compute_energy"] * prod(inside),
            "least_units": 0,
        }
        return ({**doc, "memories": memories} if memories else doc), [*map(self.stores.index, placed)]

    def store(self, p: int, spatial: Spatial, *, first: bool) -> Json:
        """A memory at one place, for all of its instances; leakage counts at the first place."""
        node, above = self.nodes[p], self.above[p]
        held = [
            {
                **own,
                "size": own["size"] * self.children(spatial[above:], v, indexing=True),
                "bandwidth_scale": self.scaled(own, self.children(spatial[above:], v, indexing=True)),
                **{action: own[action] * self.accesses(spatial, above, v) for action in ACTIONS},
            }
            for v, own in enumerate(node["dataspaces"])
        ]
        used = prod(prod(spatial[self.fans.index(q)]) for q in node["leak_fanouts"])
        leak = node["leak"] * used if first else 0
        return {**node, "dataspaces": held, "leak": leak, "leak_fanouts": [], "most_paying": 1}

    def scaled(self, own: Json, by: int) -> list[int]:
        """What a word counts on a bandwidth, several times."""
        number, parts = own["bandwidth_scale"]
        return [number * by, parts]

    def children(self, spatial: Spatial, v: int, *, indexing: bool) -> int:
        """Product of the factors of the dimensions that index a dataspace, or of all others."""
        dims = [d for d in self.dims if (d in self.relevant[v]) == indexing]
        return prod(own[d] for own in spatial for d in dims)

    def accesses(self, spatial: Spatial, above: int, v: int) -> int:
        """Accesses in all instances of a memory for each one without fanouts."""
        alone = self.children(spatial[:above], v, indexing=False)
        return self.children(spatial, v, indexing=True) * alone

    def loops(self, n: int, order: Order, spatial: Spatial, inside: Sequence[int]) -> Json:
        """The loops below the n-th tile: none where it is there above all loops."""
        place = max(0, n - len(self.first))
        still = {*self.dims}
        if place or not n:
            p = order[place - 1][0] if place else 0
            still = self.still(frozenset(order[:place]), frozenset(order[place:]), p, spatial)
        left = [bound // by for bound, by in zip(self.bounds, inside, strict=True)]
        lists = [[1] if d in still else divisors(number) for d, number in enumerate(left)]
        return {"kind": "temporal", "name": "", "factors": lists}

    def still(self, begun: Tiles, left: Tiles, p: int, spatial: Spatial) -> set[int]:
        """Dimensions without a loop below a tile in memory `p`, after some tiles that have `begun`.

        None may move what is there before the nest begins, unless loops of the outermost memory may do so.
        Nor may any make tiles of pieces: of two in memories inside and outside of a fanout that unrolls the
        dimension, the first one stands above, and the second one is to come.
        """
        fixed = {d for d, own in enumerate(self.factors(p)) if own == [1]}
        outer = {d for d, own in enumerate(self.factors(0)) if own == [1]}
        for own in (own for own in self.homes if own in left):
            fixed |= self.relevant[own[1]] & outer
        for fan, d in product(range(len(spatial)), self.dims):
            if spatial[fan][d] > 1:
                inside = any(self.above[q] > fan and d in self.relevant[v] for q, v in begun)
                outside = any(self.above[q] <= fan and d in self.relevant[v] for q, v in left)
                fixed |= {d} if inside and outside else set()
        return fixed

    # Claims

    def made(self, order: Order, spatial: Spatial) -> Any:
        """The mapspace of one order and one choice of spatial factors."""
        return self.mapspace(*self.part(order, spatial))

    def read(self, claim: Json) -> tuple[Any, list[dict[int, int]], Mask]:
        """The mapspace of a claimed mapping, its loops and what it keeps, if it is one."""
        need(claim.keys() == {"order", "slots", "spatial"}, "a mapping has an order, slots and spatial loops")
        order = tuple((p, v) for p, v in claim["order"])
        left = frozenset(order)
        need(len(left) == len(order) and left in {*self.kept()}, "tiles are kept where they may be")
        for tile in order:
            need(tile in self.nexts(left), "the order is allowed")
            left -= {tile}
        spatial = [[dict(self.pairs(own)).get(d, 1) for d in self.dims] for own in claim["spatial"]]
        need(spatial in self.choices, "the spatial factors fit their meshes")
        need(len(claim["slots"]) == len(order) + 1, "each place has loops")
        doc, placed = self.part(order, spatial)
        outermost, *others = claim["slots"]
        slots = iter([outermost, *([] for _ in self.first), *others])
        loops = [next(slots) if node["kind"] == "temporal" else [] for node in doc["nodes"]]
        space = self.mapspace(doc, placed)
        return space, *space.read({"loops": loops, "keep": [own["keep"][0] for own in doc["dataspaces"]]})

    def pairs(self, loops: Any) -> list[Any]:
        """Loops over different dimensions, with their factors."""
        dims = [d for d, n in loops if type(n) is int and n > 1 and d in self.dims]
        need(len({*dims}) == len(loops), "no fanout has two loops over a dimension")
        return list(loops)

    # Proof

    def refuted(self, query: Query, refute: Refute) -> Cost | None:
        """The cost of a mapping that satisfies a query, None if there is none."""
        few = len(self.choices) * prod(len(own["keep"]) for own in self.doc["dataspaces"]) <= MOST_PARTS
        able(few, "there are too many spatial choices")
        left = (own for own in product(self.choices, self.kept()) if not self.excludes(*own, query))
        parts = ((order, spatial) for spatial, tiles in left for order in self.orders(tiles))
        for number, own in enumerate(parts):
            able(number < MOST_PARTS, "there are too many orders")
            if (found := refute(self.made(*own), query)) is not None:
                return found
        return None

    def excludes(self, spatial: Spatial, tiles: Tiles, query: Query) -> bool:
        """Whether no order of some tiles satisfies a query, by tables over all orders at once."""
        order = next(self.orders(tiles), None)
        if order is None or self.doc["counting"] != "accelforge":
            return order is None
        choices = Choices(self.made(order, spatial))
        every = (
            self.closed(order, spatial, query, choices, *own[:2], *own[3:4])
            for own in left_open(choices, query)
        )
        return all(every)

    def closed(
        self,
        order: Order,
        spatial: Spatial,
        query: Query,
        choices: Choices,
        cycles: tuple[int, int | float],
        measures: Sequence[Measure],
        mask: Mask,
    ) -> bool:
        """Whether tables leave nothing open with so many cycles: of one bandwidth, of all, or by parts."""
        low, high = cycles[0], min(cycles[1], query.latency)
        for counted in dict.fromkeys((measures[:2], measures)) if low <= high else ():
            if not AnyOrder(self, order, spatial, choices, mask, query, low, high, counted).open:
                return True
        if low > high or query.edp == inf or len(measures) == 1 or not 1.05 * low < high < inf:
            return low > high
        middle = isqrt(low * int(high))
        parts = (low, middle), (middle + 1, high)
        return all(self.closed(order, spatial, query, choices, own, measures, mask) for own in parts)


class AnyOrder(Choice):
    """Tables over all orders of some tiles, by which of them stand above a point.

    By AccelForge's counting rule, what a tile costs depends on the point alone where it stands. Other tiles
    above take room as well, if they are in its memory, with no smaller extents.
    """

    def __init__(
        self, orders: Orders, order: Order, spatial: Spatial, choices: Choices, mask: Mask, *given: Any
    ) -> None:
        super().__init__(choices, mask, 0, *given)
        self.orders, self.unrolled_by = orders, spatial
        places = [p for p in self.space.stores if p][len(orders.first) :]
        self.at = dict(zip(order, places, strict=False))
        self.every = frozenset(order)
        self.divisors = [
            [[own.index(n) for n in own if number % n == 0] for number in own] for own in self.numbers
        ]

    @property
    def open(self) -> bool:
        """Whether the tables leave a nest within the limits."""
        return bool((self.below(frozenset())[self.spot(self.origin.cell)] < self.limits).all())

    @remembered
    def below(self, left: Tiles) -> Array:
        """The least costs outside of each point below the loops of a tile, where some tiles are to come."""
        begun = self.every - left
        if not begun:
            return self.looped_over(self.end, 0, begun, left)
        lasts = [own for own in begun if own in self.orders.nexts(left | {own})]
        tables = [self.looped_over(self.right_below(left | {own}, own), own[0], begun, left) for own in lasts]
        return np.minimum.reduce(tables) if tables else np.full(self.end.shape, inf)

    def looped_over(self, table: Array, p: int, begun: Tiles, left: Tiles) -> Array:
        """A table below the loops of a memory `p`, given that above them."""
        still = self.orders.still(begun, left, p, self.unrolled_by)
        return reduce(self.widened, (d for d in self.orders.dims if d not in still), table)

    def right_below(self, left: Tiles, tile: Tile) -> Array:
        """The least costs outside of each point right below a tile, the first one of those to come."""
        (_, v), q = tile, self.at[tile]
        beside = [own for own in (self.every - left) | {tile} if own[0] == tile[0]]
        extent = self.extents(q, self.cell)
        room = sum(self.spaces[w].tile(extent) * self.space.at[q][w]["size"] for _, w in beside)
        fits = (room <= self.space.sizes[q][1]) | (self.end[..., 0] < 0)
        cost = self.cost(v, q, q) if tile not in self.orders.homes else 0.0
        return np.asarray(self.below(left) + cost + np.where(fits, 0.0, inf)[..., None])

    def widened(self, table: Array, d: int) -> Array:
        """For every point the least of those that a loop over a dimension leads to."""
        along = np.moveaxis(table, d, 0)
        return np.moveaxis(np.stack([along[own].min(axis=0) for own in self.divisors[d]]), 0, d)


def check_orders(doc: Json, mapspace: Callable[[Json], Any], refute: Refute) -> list[int] | None:
    """The bounds of the objectives, which are proven; None if it is proven that there is no mapping."""
    orders = Orders(doc["problem"], lambda problem, _: mapspace(problem))
    status, names, bounds = doc["status"], doc["objectives"], doc["bounds"]
    known = bool(names) and len({*names}) == len(names) and {*names} <= {*Query._fields}
    need(known and type(bounds) is list and natural(bounds), "objectives and bounds are known")
    if status == "INFEASIBLE":
        need(doc["mapping"] is doc["cost"] is None and not bounds, "nothing is claimed")
        need(orders.refuted(Query(), refute) is None, "no mapping exists")
        return None
    space, *mapping = orders.read(doc["mapping"])
    cost = space.price(*mapping)
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(doc["cost"] == cost, "the cost matches the mapping")
    values = [cost[name] for name in names]
    proven = {"OPTIMAL": bounds == values, "FEASIBLE": len(bounds) == 1 and bounds <= values}
    need(proven.get(status, False), "the bounds match the status")
    limits: dict[str, int] = {}
    for name, bound in zip(names, bounds, strict=False):
        better = orders.refuted(Query(**{**limits, name: bound - 1}), refute) if bound else None
        need(better is None, f"no mapping has {name} below {bound:,}")
        limits[name] = bound
    return list(bounds)
