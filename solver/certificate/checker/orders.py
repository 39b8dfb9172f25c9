"""Memories in any order: the checker's reading of the claim, and its proof.

The tile of a dataspace in a memory stands at one place of the loop nest. Those of one dataspace stand in the
order of the memories, and so do those of memories whose order is not free; else they stand in any order. With
one order and one choice of spatial factors, all that fanouts do is to multiply: tiles, by the children that
share a memory outside of them, and accesses, by the instances. So each is a mapspace without fanouts, whose
temporal loops are proven like those of any other.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from solver.certificate.checker.claims import (
    CannotCheckError,
    Cost,
    Json,
    Query,
    Refute,
    natural,
    need,
)

FORMAT = "tilewright certificate orders 1"
CLAIMS = "problem problem_sha256 status objectives bounds mapping cost"
KEYS = {"format", "versions", "seed", "command", "digest", *CLAIMS.split()}
MOST_PARTS = 1 << 16  # orders times choices of spatial factors
ACTIONS = "read", "fill", "update"

Tile = tuple[int, int]  # a memory's node, and a dataspace that it keeps
Order = tuple[Tile, ...]  # inside of the outermost memory, outermost first
Spatial = Sequence[Sequence[int]]  # per fanout its factors by dimension
Mapspace = Callable[[Json], Any]


class Orders:
    """A problem whose memories may stand in any order; `space` is its mapspace in the order of its nodes."""

    def __init__(self, doc: Json, mapspace: Mapspace) -> None:
        free = doc["free_order"]
        self.doc = {key: doc[key] for key in doc if key != "free_order"}
        self.space, self.mapspace = mapspace(self.doc), mapspace
        self.nodes, self.dims, self.bounds = doc["nodes"], range(len(doc["bounds"])), doc["bounds"]
        self.stores, self.fans = self.space.stores, self.space.fans
        need(natural(free) and {*free} <= {*self.stores} and len({*free}) == len(free), "memories are free")
        self.free = frozenset(free)
        need(doc["factors"] == "perfect" and not {"sparse", "memories"} & doc.keys(), "loops are plain")
        need(doc["counting"] in ("exact", "accelforge"), "words are counted by place or as executed")
        self.relevant = [{d for rank in own["ranks"] for d, _ in rank} for own in doc["dataspaces"]]
        self.above = {p: sum(q < p for q in self.fans) for p in self.stores}
        kept = [levels for own in doc["dataspaces"] for levels in own["keep"]]
        need(all(levels[0] == self.stores[0] == 0 for levels in kept), "the outermost memory keeps all")
        self.plain()

    def plain(self) -> None:
        """Check that loops are free, words are paid one by one, and fanouts only multiply."""
        for p in self.stores:
            below = [node["factors"] for node in self.nodes[p + 1 : p + 2] if node["kind"] == "temporal"]
            every = [[n for n in range(1, bound + 1) if bound % n == 0] for bound in self.bounds]
            need(below == [every] or {*self.bounds} == {1}, "temporal loops are free", CannotCheckError)
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

    @property
    def choices(self) -> list[Any]:
        """The choices of spatial factors that rules allow."""
        chosen: list[Any] = self.space.spatial[self.space.rules.open].tolist()
        return chosen

    def orders(self) -> Iterator[Order]:
        """Yield every order of every choice of what memories keep."""
        for kept in product(*(own["keep"] for own in self.doc["dataspaces"])):
            yield from self.orders_of([(p, v) for v, levels in enumerate(kept) for p in levels[1:]])

    def orders_of(self, tiles: Sequence[Tile]) -> Iterator[Order]:
        """Yield the orders of some tiles."""
        if not tiles:
            yield ()
        for first in tiles:
            rest = [own for own in tiles if own != first]
            if not any(self.bound(own, first) for own in rest):
                yield from ((first, *order) for order in self.orders_of(rest))

    def bound(self, outer: Tile, inner: Tile) -> bool:
        """Whether one tile has to stand above another one."""
        (p, v), (q, w) = outer, inner
        return p < q and (v == w or not self.free & {p, q})

    def part(self, order: Order, spatial: Spatial) -> Json:
        """The mapspace of one order and one choice of spatial factors, without fanouts."""
        inside = [prod(own[d] for own in spatial) for d in self.dims]
        idle = [p for p in self.stores[1:] if all(p != q for q, _ in order)]
        placed = [0, *(p for p, _ in order), *idle]
        nodes: list[Json] = []
        at: list[int] = []
        for n, p in enumerate(placed):
            at.append(len(nodes))
            nodes.append(self.store(p, spatial, first=p not in placed[:n]))
            if n <= len(order):
                nodes.append(self.loops(n, order, spatial, inside))
        keep = [
            [at[0], *(at[n + 1] for n, own in enumerate(order) if own[1] == v)]
            for v in range(len(self.relevant))
        ]
        several = [[at[n] for n, q in enumerate(placed) if q == p] for p in dict.fromkeys(placed)]
        none = [None] * len(self.bounds)
        memories = [
            {"places": own, "groups": [[p + 1] for p in own], "factors": none}
            for own in several
            if len(own) > 1
        ]
        doc = {key: self.doc[key] for key in self.doc if key != "rules"}
        spaces = zip(self.doc["dataspaces"], keep, strict=True)
        return {
            **doc,
            "bounds": [bound // n for bound, n in zip(self.bounds, inside, strict=True)],
            "dataspaces": [{**space, "keep": [kept]} for space, kept in spaces],
            "nodes": nodes,
            "compute_energy": doc["compute_energy"] * prod(inside),
            "least_units": 0,
            **({"memories": memories} if memories else {}),
        }

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

    def loops(self, slot: int, order: Order, spatial: Spatial, inside: Sequence[int]) -> Json:
        """The loops below a place: none that would make tiles of pieces."""
        lists = []
        for d in self.dims:
            left = self.bounds[d] // inside[d]
            fixed = any(own[d] > 1 and slot in self.crossed(i, d, order) for i, own in enumerate(spatial))
            lists.append([1] if fixed else [n for n in range(1, left + 1) if left % n == 0])
        return {"kind": "temporal", "name": "", "factors": lists}

    def crossed(self, fan: int, d: int, order: Order) -> range:
        """Slots from the first tile inside of a fanout to the last one outside of it, of what `d` indexes."""
        tiles = [(n + 1, self.above[p]) for n, (p, v) in enumerate(order) if d in self.relevant[v]]
        inside = [n for n, above in tiles if above > fan]
        outside = [n for n, above in tiles if above <= fan]
        return range(min(inside, default=len(order) + 1), max(outside, default=0))

    def parts(self) -> Iterator[Any]:
        """Yield the mapspaces of all parts."""
        for number, (order, spatial) in enumerate(product(self.orders(), self.choices)):
            need(number < MOST_PARTS, "there are too many orders and spatial choices", CannotCheckError)
            yield self.mapspace(self.part(order, spatial))

    def cost(self, claim: Json) -> Cost:
        """The cost of a claimed mapping, if it is one."""
        need(claim.keys() == {"order", "slots", "spatial"}, "a mapping has an order, slots and spatial loops")
        order = tuple((p, v) for p, v in claim["order"])
        need(order in {*self.orders()}, "the order is allowed")
        spatial = [[dict(self.pairs(own)).get(d, 1) for d in self.dims] for own in claim["spatial"]]
        need(spatial in self.choices, "the spatial factors fit their meshes")
        need(len(claim["slots"]) == len(order) + 1, "each place has loops")
        doc = self.part(order, spatial)
        slots = iter(claim["slots"])
        loops = [next(slots) if node["kind"] == "temporal" else [] for node in doc["nodes"]]
        space = self.mapspace(doc)
        keep = [own["keep"][0] for own in doc["dataspaces"]]
        cost: Cost = space.price(*space.read({"loops": loops, "keep": keep}))
        return cost

    def pairs(self, loops: Any) -> list[Any]:
        """Loops over different dimensions, with their factors."""
        dims = [d for d, n in loops if type(n) is int and n > 1 and d in self.dims]
        need(len({*dims}) == len(loops), "no fanout has two loops over a dimension")
        return list(loops)


def check_orders(
    doc: Json, sha256: Callable[[object], str], mapspace: Mapspace, refute: Refute
) -> list[int] | None:
    """The bounds of the objectives, which are proven; None if it is proven that there is no mapping."""
    need(doc.keys() == KEYS and doc["format"] == FORMAT, f"it has the keys of a {FORMAT!r}")
    need(doc["digest"] == sha256({key: doc[key] for key in doc if key != "digest"}), "the digest is right")
    need(doc["problem_sha256"] == sha256(doc["problem"]), "the hash matches the problem")
    orders = Orders(doc["problem"], mapspace)
    status, names, bounds = doc["status"], doc["objectives"], doc["bounds"]
    known = bool(names) and len({*names}) == len(names) and {*names} <= {*Query._fields}
    need(known and type(bounds) is list and natural(bounds), "objectives and bounds are known")
    if status == "INFEASIBLE":
        need(doc["mapping"] is doc["cost"] is None and not bounds, "nothing is claimed")
        need(not any(refute(space, Query()) for space in orders.parts()), "no mapping exists")
        return None
    cost = orders.cost(doc["mapping"])
    need(cost.pop("fits"), "the mapping respects all capacities")
    need(doc["cost"] == cost, "the cost matches the mapping")
    values = [cost[name] for name in names]
    proven = {"OPTIMAL": bounds == values, "FEASIBLE": len(bounds) == 1 and bounds <= values}
    need(proven.get(status, False), "the bounds match the status")
    limits: dict[str, int] = {}
    for name, bound in zip(names, bounds, strict=False):
        query = Query(**{**limits, name: bound - 1})
        better = any(refute(space, query) for space in orders.parts()) if bound else False
        need(not better, f"no mapping has {name} below {bound:,}")
        limits[name] = bound
    return list(bounds)
