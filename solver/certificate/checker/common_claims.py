"""One spatial unrolling for all layers of a network: the checker's reading of the claim, and its proof.

A common loop is a fanout, a dimension by name, and a width. A box gives each of them a least and a largest
width; in it a layer costs at least what a claim on its factors says, and all layers together the sum.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from math import inf, lcm, prod
from typing import Any

from solver.certificate.checker.claims import Json, Query, Refute, able, natural, need

MOST_BOXES, MOST_DIMS = 1 << 16, 12  # that are looked at; dimensions of a fanout that are arranged


Ends = tuple[int, int]
Slot = tuple[int, str]  # a fanout and a dimension
Widths = dict[Slot, Ends]  # a least and a largest width of each common loop
Meshes = tuple[tuple[str, int, int], ...]


class Layer:
    """A layer: its mapspace as a document, its bounds by name, and what its fanouts' nodes are."""

    def __init__(self, doc: Json, mapspaces: Sequence[Json]) -> None:
        need(type(doc["mapspace"]) is int and type(doc["n_instances"]) is int, "layers have numbers")
        need(0 <= doc["mapspace"] < len(mapspaces) and doc["n_instances"] > 0, "layers have mapspaces")
        self.number, self.times, self.doc = doc["mapspace"], doc["n_instances"], mapspaces[doc["mapspace"]]
        self.dims, self.bound = self.doc["dims"], dict(zip(self.doc["dims"], self.doc["bounds"], strict=True))
        need(len(self.bound) == len(self.dims) == len(self.doc["bounds"]), "dimensions have different names")
        self.fans = [p for p, node in enumerate(self.doc["nodes"]) if node["kind"] == "spatial"]
        need(self.doc["factors"] in {"perfect", "any"} and "sparse" not in self.doc, "data are dense")
        self.perfect = self.doc["factors"] == "perfect"

    @property
    def meshes(self) -> Meshes:
        """Name and mesh of each fanout."""
        nodes = (self.doc["nodes"][p] for p in self.fans)
        return tuple((node["name"], node["mesh_x"], node["mesh_y"]) for node in nodes)


class Common:
    """The common loops that layers may have, and what follows from ranges of their widths."""

    def __init__(self, doc: Json) -> None:
        self.layers = [Layer(own, doc["mapspaces"]) for own in doc["layers"]]
        need(self.layers, "there are layers")
        meshes = {layer.meshes for layer in self.layers}
        need(len(meshes) == 1, "all layers have the same fanouts")
        (self.meshes,) = meshes
        self.most: dict[str, int] = defaultdict(int)
        for layer in self.layers:
            for dim, bound in layer.bound.items():
                self.most[dim] = max(self.most[dim], bound)
        fans = reversed(range(len(self.meshes)))
        self.slots = [(f, dim) for f in fans for dim in self.most]  # the innermost fanout first
        self.widths = {slot: self.possible(*slot) for slot in self.slots}
        self.root = {slot: (own[0], own[-1]) for slot, own in self.widths.items()}

    def possible(self, f: int, dim: str) -> list[int]:
        """The widths of a loop that matter.

        With perfect factors a loop of the innermost fanout divides the bound of each layer, or covers it. One
        outside of it that divides no layer's bound covers what is left in all: so does the width that is the
        most of these, which divides the bound of its layer.
        """
        _, mesh_x, mesh_y = self.meshes[f]
        own = [layer for layer in self.layers if dim in layer.bound]
        bounds = [layer.bound[dim] for layer in own if layer.perfect]
        every = range(1, min(self.most[dim], max(mesh_x, mesh_y)) + 1)
        if self.innermost(f):
            return [w for w in every if all(n <= w or n % w == 0 for n in bounds)]
        if not bounds or len(bounds) < len(self.layers):
            return [*every]
        return [w for w in every if any(n % w == 0 for n in bounds)]

    def innermost(self, f: int) -> bool:
        """Whether a fanout is the innermost one."""
        return f + 1 == len(self.meshes)

    def snapped(self, box: Widths) -> Widths | None:
        """The box with ends that are widths, None if some loop has none."""
        found = {}
        for slot, (low, high) in box.items():
            own = [w for w in self.widths[slot] if low <= w <= high]
            if not own:
                return None
            found[slot] = own[0], own[-1]
        return found

    def factors(self, layer: Layer, box: Widths) -> Widths:
        """The factors that a layer may have: fewer iterations than a width may be left to it."""
        left, found = {dim: (n, n) for dim, n in layer.bound.items()}, {}
        for (f, dim), (low, high) in ((slot, box[slot]) for slot in self.slots if slot[1] in layer.bound):
            few, many = left[dim]
            found[f, dim] = own = min(low, few), min(high, many)
            left[dim] = -(-few // own[1]), -(-many // own[0])
        return found

    def excluded(self, box: Widths) -> bool:
        """Whether no widths of a box fit the fanouts, or the rules of all layers."""
        for f in range(len(self.meshes)):
            least = {dim: low for (own, dim), (low, _) in box.items() if own == f and low > 1}
            able(len(least) <= MOST_DIMS, "too many loops at a fanout")
            if next(self.fitting(f, least), None) is None:
                return True
        return all(low == high for low, high in box.values()) and not self.arranged(box)

    def fitting(self, f: int, widths: Mapping[str, int]) -> Iterator[set[str]]:
        """Yield the sets of dimensions that may lie along X, as far as the mesh goes."""
        _, mesh_x, mesh_y = self.meshes[f]
        sets = chain(*(combinations(sorted(widths), size) for size in range(len(widths) + 1)))
        for chosen in sets:
            wide = prod(widths[dim] for dim in chosen)
            if wide <= mesh_x and prod(widths.values()) // wide <= mesh_y:
                yield {*chosen}

    def arranged(self, box: Widths) -> bool:
        """Whether all layers allow the same axes for single widths."""
        for f in range(len(self.meshes)):
            widths = {dim: low for (own, dim), (low, _) in box.items() if own == f and low > 1}
            able(len(widths) <= MOST_DIMS, "too many loops at a fanout")
            if not any(
                all(self.allows(layer, f, box, x) for layer in self.layers) for x in self.fitting(f, widths)
            ):
                return False
        return True

    def allows(self, layer: Layer, f: int, box: Widths, along_x: set[str]) -> bool:
        """Whether a layer's loops at a fanout may lie along X as some dimensions do, and along Y."""
        own = self.factors(layer, box)
        live = {dim for (other, dim), (low, _) in own.items() if other == f and low > 1}
        sets = layer.doc["nodes"][layer.fans[f]]["along_x"]
        return any({layer.dims[d] for d in chosen} & live == along_x & live for chosen in sets)

    def restricted(self, layer: Layer, ranges: Widths) -> Json | None:
        """The mapspace of a layer with factors within ranges; None if it has none."""
        nodes = [dict(node) for node in layer.doc["nodes"]]
        for (f, dim), ends in ranges.items():
            node, d = nodes[layer.fans[f]], layer.dims.index(dim)
            own = self.within(layer, (f, dim), node["factors"][d], ends)
            if not own:
                return None
            node["factors"] = [*node["factors"][:d], own, *node["factors"][d + 1 :]]
        return {**layer.doc, "nodes": nodes}

    def within(self, layer: Layer, slot: Slot, factors: Sequence[int], ends: Ends) -> list[int]:
        """The factors of a loop within a range that come of a common width; with remainders, ends."""
        if not layer.perfect:
            least, most = overlap((factors[0], factors[1]), ends)
            return [least, most] if least <= most else []
        found = [n for n in factors if ends[0] <= n <= ends[1]]
        if not self.innermost(slot[0]):
            return found
        common = {min(w, layer.bound[slot[1]]) for w in self.widths[slot]}
        return [n for n in found if n in common]


class Proof:
    """Claims on layers, and the boxes that they close."""

    def __init__(self, common: Common, doc: Json, weights: Sequence[int], limit: int | float) -> None:
        self.common, self.objective, self.limit = common, doc["objective"], limit
        self.weights, self.left = weights, MOST_BOXES
        self.claims: dict[int, list[tuple[Widths, int | None, int]]] = defaultdict(list)
        self.used: dict[tuple[Any, ...], tuple[Widths, int | None, int]] = {}
        for own in doc["claims"]:
            layer, bound = own["layer"], own["bound"]
            known = type(layer) is int and 0 <= layer < len(common.layers)
            need(known and (bound is None or (type(bound) is int and bound >= 0)), "claims have bounds")
            self.claims[common.layers[layer].number].append((self.read(own["ranges"]), bound, layer))

    def read(self, ranges: Sequence[Any]) -> Widths:
        """Ranges of factors or widths, by slot."""
        need(natural([row[2:] for row in ranges]), "ranges have natural numbers")
        found = {(f, dim): (low, high) for f, dim, low, high in ranges}
        need(len(found) == len(ranges) and found.keys() <= self.common.root.keys(), "ranges are of loops")
        return found

    def close(self, region: Json, box: Widths) -> None:
        """Check that nothing in a box, for which a region has been searched, is below the limit."""
        self.left -= 1
        able(self.left, "the bounds leave too many sets of unrollings open")
        within = self.common.snapped(box)
        if within is None or self.common.excluded(within) or self.bounded(within):
            return
        rest = [within]
        able(region["parts"], "a set of unrollings is left open")
        for part in region["parts"]:
            ranges = self.read(part["ranges"]).items()
            own = {**within, **{slot: overlap(within[slot], ends) for slot, ends in ranges}}
            if all(low <= high for low, high in own.values()):
                self.close(part, own)
                rest = [piece for old in rest for piece in remaining(old, own)]
        for piece in rest:
            left = self.common.snapped(piece)
            closed = left is None or self.common.excluded(left)
            able(closed, "a set of unrollings is left out")

    def bounded(self, box: Widths) -> bool:
        """Whether claims show that all layers together cost no less than the limit in a box."""
        total: int | float = 0
        used = []
        for layer, weight in zip(self.common.layers, self.weights, strict=True):
            ranges = self.common.factors(layer, box)
            fitting = [
                own
                for own in self.claims[layer.number]
                if all(
                    low <= ranges[slot][0] and ranges[slot][1] <= high for slot, (low, high) in own[0].items()
                )
            ]
            best = max(fitting, key=lambda own: inf if own[1] is None else own[1], default=None)
            used += [] if best is None else [best]
            total += 0 if best is None else inf if best[1] is None else weight * best[1]
        if total < self.limit:
            return False
        chosen = [own for own in used if own[1] is None] if total == inf else used
        for known, bound, number in chosen:
            self.used[self.common.layers[number].number, *sorted(known.items())] = known, bound, number
        return True

    def verify(self, mapspace: Callable[[Json], Any], refute: Refute) -> None:
        """Check all claims that something rests on."""
        for ranges, bound, number in self.used.values():
            layer = self.common.layers[number]
            doc = self.common.restricted(layer, ranges)
            if doc is None or bound == 0:
                continue
            query = Query() if bound is None else Query(**{self.objective: bound - 1})
            what = "no mapping" if bound is None else f"no {self.objective} below {bound:,}"
            need(refute(mapspace(doc), query) is None, f"layer {number} has {what} with factors as listed")


def overlap(one: Ends, other: Ends) -> Ends:
    """What two ranges have in common."""
    return max(one[0], other[0]), min(one[1], other[1])


def remaining(box: Widths, other: Widths) -> Iterator[Widths]:
    """Yield boxes that cover what is in a box and not in another one."""
    common = {slot: overlap(ends, other[slot]) for slot, ends in box.items()}
    if any(low > high for low, high in common.values()):
        yield box
        return
    rest = dict(box)
    for slot, (low, high) in common.items():
        first, last = rest[slot]
        if first < low:
            yield {**rest, slot: (first, low - 1)}
        if high < last:
            yield {**rest, slot: (high + 1, last)}
        rest[slot] = low, high


def priced(common: Common, doc: Json, weights: Sequence[int], mapspace: Callable[[Json], Any]) -> int:
    """The sum over all layers of mappings that have the common loops; raises if one has not."""
    box = dict.fromkeys(common.slots, (1, 1))
    for f, dim, width in doc["loops"]:
        need((f, dim) in box and type(width) is int and width > 1, "common loops have a width")
        need(width in common.widths[f, dim] and box[f, dim] == (1, 1), "a width is possible for all layers")
        box[f, dim] = width, width
    need(common.arranged(box), "the common loops fit the fanouts along the same axes")
    need(len(doc["mappings"]) == len(common.layers), "each layer has a mapping")
    total = 0
    for layer, weight, written in zip(common.layers, weights, doc["mappings"], strict=True):
        space = mapspace(layer.doc)
        mapping = space.read(written)
        cost = space.price(*mapping)
        need(cost.pop("fits") and not space.rules.broken(*mapping, cost), "mappings respect all limits")
        for (f, dim), (factor, _) in common.factors(layer, box).items():
            found = mapping[0][layer.fans[f]].get(layer.dims.index(dim), 1)
            need(found == factor, "mappings have the common loops")
        total += weight * cost[doc["objective"]]
    return total


def check_common(doc: Json, mapspace: Callable[[Json], Any], refute: Refute) -> tuple[int | None, int]:
    """The value that no common unrolling is below, None without one, and its unit; raises unless shown."""
    objective, bound = doc["objective"], doc["bound"]
    need(objective in Query._fields, "the objective is known")
    common, units = Common(doc["problem"]), [own["units_per_pj"] for own in doc["problem"]["mapspaces"]]
    need(all(type(n) is int and n > 0 for n in units), "energies have a unit")
    unit = lcm(*units)
    need(doc["problem"]["units_per_pj"] == unit, "energies add up in one unit")
    scale = [1 if objective == "latency" else unit // units[own.number] for own in common.layers]
    weights = [own.times * n for own, n in zip(common.layers, scale, strict=True)]
    if doc["status"] == "INFEASIBLE":
        need(
            doc["mappings"] is doc["loops"] is doc["cost"] is bound is None,
            "INFEASIBLE claims no mapping, no cost and no bound",
        )
    else:
        need(doc["status"] == "OPTIMAL" and type(bound) is int, "the status is known")
        need(bound == doc["cost"] == priced(common, doc, weights, mapspace), "the cost matches the mappings")
    proof = Proof(common, doc, weights, inf if bound is None else bound)
    if proof.limit:
        proof.close(doc["regions"], common.root)
    proof.verify(mapspace, refute)
    return bound, unit
