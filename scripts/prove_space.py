"""The mapspace that a certificate states: its rules, and the exact cost of a mapping.

Part of the checker `prove.py`; it shares no code with the product's own cost model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import chain, combinations
from typing import Any

INF = 1 << 56  # sums of a few dozen stay below 2**63
MOST_STATES = 1 << 21
ACTIONS = ("read", "fill", "update")
FLAGS = ("keep", "bypass", "no_multicast", "no_temporal_reuse", "rmw_first_update", "no_coalesce")
ORDERS = ("inner", "outer", "uncounted")
Loop = tuple[int, int, int]
"""Dimension, bound, and how far the dimension advances per iteration."""


class InvalidError(Exception):
    """A claim that does not hold."""


class CannotCheckError(Exception):
    """A problem beyond what this program handles."""


def need(condition: object, claim: str, error: type[Exception] = InvalidError) -> None:
    """Raise `error` unless `condition` holds."""
    if not condition:
        raise error(claim)


def natural(value: Any) -> bool:
    """Whether all numbers in a JSON value are natural."""
    if isinstance(value, (list, dict)):
        return all(map(natural, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (str, bool)) or value is None or (type(value) is int and value >= 0)


@cache
def divisors(number: int) -> list[int]:
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


def positive(number: Any) -> Any:
    """The number, or 0 if it is negative; for arrays as well."""
    return (number + abs(number)) // 2


class Space:
    """A mapspace; dimensions and dataspaces are numbers, nodes are positions, the outermost is 0."""

    def __init__(self, doc: Any) -> None:
        self.dims, self.bounds, self.nodes, self.groups = (
            doc["dims"],
            doc["bounds"],
            doc["nodes"],
            doc["parallel"],
        )
        self.levels = [p for p, node in enumerate(self.nodes) if node["kind"] == "storage"]
        self.fans = [p for p, node in enumerate(self.nodes) if node["kind"] == "fanout"]
        self.names, self.rw = ([space[key] for space in doc["dataspaces"]] for key in ("name", "read_write"))
        number = {name: d for d, name in enumerate(self.dims)}
        self.ranks = [[[(number[d], c) for d, c in rank] for rank in s["ranks"]] for s in doc["dataspaces"]]
        self.rules = [[(number[d], sign, value) for d, sign, value in node["factors"]] for node in self.nodes]
        self.order = [[[number[d] for d in node.get(k, [])] for k in ORDERS] for node in self.nodes]
        once = [self.dims, self.names, *([d for d, _ in rank] for ranks in self.ranks for rank in ranks)]
        once += [list(chain(*own)) for own in self.order]
        flags = [node.get(key, []) for node in self.nodes for key in FLAGS]
        lists = [*flags, *(node.get(key, []) for node in self.nodes for key in ORDERS)]
        whole = {type(c) for ranks in self.ranks for rank in ranks for _, c in rank}
        whole |= {type(value) for rules in self.rules for _, _, value in rules}
        need(natural({**doc, "dataspaces": self.names}) and min(self.bounds) > 0, "all numbers are natural")
        need(whole <= {int} and all(type(own) is list for own in lists), "coefficients and factors are whole")
        need(
            {type(flag) for flag in (*self.rw, *(g["may_skip"] for g in self.groups))} <= {bool},
            "flags are flags",
        )
        need(all(len(set(own)) == len(own) for own in once), "nothing is named twice")
        need(set(chain(*flags)) <= set(self.names), "only dataspaces of the problem are named")
        need(len(self.levels) + len(self.fans) == len(self.nodes), "nodes are storage levels or fanouts")
        need(len(self.dims) == len(self.bounds) and 0 in self.levels, "the outermost node is a storage level")
        self.computes, self.computing = (
            math.prod(self.bounds),
            math.prod(self.bounds) * doc["compute"]["energy"],
        )
        self.relevant = [{d for rank in ranks for d, _ in rank} for ranks in self.ranks]
        self.windows = [list(self.sliding(ranks)) for ranks in self.ranks]
        self.least_units = math.ceil(Fraction(*doc["min_parallelism"]))
        self.latency = sum(
            self.nodes[p][f"network_{key}_latency"] for p in self.levels for key in ("fill", "drain")
        )
        holes = math.prod(1 + abs(c) for ranks in self.ranks for rank in ranks for _, c in rank)
        states = math.prod(len(divisors(bound)) for bound in self.bounds)
        need(
            self.computes * holes < INF and states < MOST_STATES, "the problem is too large", CannotCheckError
        )

    def sliding(self, ranks: Any) -> Iterator[Any]:
        """Pairs of dimensions that slide a window along a rank, with how far they move it; both orders."""
        live = [[(d, abs(c)) for d, c in rank if self.bounds[d] > 1] for rank in ranks]
        for rank, signs in zip(live, ranks, strict=True):
            lone = sum(d in dict(other) for d, _ in rank for other in live) == len(rank)
            simple = len(rank) < 2 or (len(rank) == 2 and lone and len({c > 0 for _, c in signs}) == 1)
            need(simple, "a window of more than two dimensions, or over several ranks", CannotCheckError)
            yield from [rank, rank[::-1]] if len(rank) == 2 else []

    def flag(self, p: int, key: str, v: int) -> bool:
        """Whether node `p` names dataspace `v` under `key`."""
        return self.names[v] in self.nodes[p][key]

    def lengths(self, v: int, extent: Any) -> Any:
        """The box that `extent` iterations of each dimension touch, holes included, rank by rank."""
        return [1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks[v]]

    def tile(self, v: int, extent: Any) -> Any:
        """Words of that box."""
        return math.prod(self.lengths(v, extent))

    def move(self, v: int, d: int, stride: Any) -> Any:
        """How far the box moves along each rank when dimension `d` advances by `stride`."""
        return tuple(sum(c * stride for dim, c in rank if dim == d) for rank in self.ranks[v])

    def fresh(self, v: int, extent: Any, move: Any) -> Any:
        """Words of the box that it did not cover before it moved."""
        both = math.prod(
            positive(n - abs(step)) for n, step in zip(self.lengths(v, extent), move, strict=True)
        )
        return self.tile(v, extent) - both

    def usable(self, p: int) -> tuple[int, int]:
        """Least and largest number of words that the kept tiles may take in an instance of level `p`."""
        node = self.nodes[p]
        if node["size_words"] is None:
            return 0, INF
        most = math.floor(node["size_words"] / Fraction(*node["multiple_buffering"]))
        return math.ceil(most * Fraction(*node["min_utilization"])), min(most, INF)

    def rate(self, v: int, p: int, kind: str) -> Fraction:
        """Cycles of a word of dataspace `v` at level `p` by one of its bandwidths, 0 if that is unlimited."""
        node, width = self.nodes[p], self.nodes[p][f"{kind}_bandwidth"]
        return (
            Fraction(*node["bandwidth_scale"].get(self.names[v], (1, 1))) / Fraction(*width)
            if width
            else Fraction(0)
        )

    def allows(self, p: int, d: int, factor: int) -> bool:
        """Whether the factor rules of node `p` allow `factor` for dimension `d`."""
        holds = {"=": factor.__eq__, "<=": factor.__le__, ">=": factor.__ge__}
        return all(holds[sign](value) for dim, sign, value in self.rules[p] if dim == d)

    def children(self, q: int) -> int:
        """Children of fanout `q`."""
        return self.nodes[q]["mesh_x"] * self.nodes[q]["mesh_y"]

    @cache  # noqa: B019
    def along_x(self, p: int) -> list[set[int]]:
        """The sets of dimensions that may lie along X in fanout `p`: the first `split` ones of an order."""
        inner, outer, uncounted = self.order[p]
        free = [d for d in range(len(self.dims)) if d not in (*inner, *outer, *uncounted)]
        every, split = len(inner) + len(free) + len(outer), self.nodes[p]["split"]
        return [
            {*inner[:n], *chosen, *outer[: max(0, n - len(inner) - len(free))]}
            for n in (range(every + 1) if split is None else [split])
            for chosen in combinations(free, min(max(n - len(inner), 0), len(free)))
        ]

    @cache  # noqa: B019
    def keepers(self, v: int) -> list[tuple[int, ...]]:
        """The sets of levels that may keep dataspace `v`."""
        banned = {p for p in self.levels if self.flag(p, "bypass", v)}
        forced = {p for p in self.levels if self.flag(p, "keep", v)} | ({0} - banned)
        free, found = [p for p in self.levels if p not in banned | forced], []
        for chosen in chain.from_iterable(combinations(free, size) for size in range(len(free) + 1)):
            kept = tuple(sorted(forced.union(chosen)))
            inside = [
                (sum(self.levels[i] in kept for i in set(g["levels"])), g["may_skip"]) for g in self.groups
            ]
            if kept and not forced & banned and all(n == 1 or (skip and not n) for n, skip in inside):
                found.append(kept)
                passed = self.flag(kept[0], "no_coalesce", v)
                need(
                    not passed, "no_coalesce at the outermost level that keeps a dataspace", CannotCheckError
                )
        return found

    def accesses(self, v: int, kept: Any, split: Any, part: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the accesses to dataspace `v` as (source, level, action, times, first).

        Words delivered into level `source` (None: the arithmetic) cause max(0, words * times - first)
        accesses per instance. `split(p)` counts the different tiles below fanout `p`, `part(p)` the words
        that level `p` ever holds, whose first write needs no read.
        """
        source, times, rw = None, 1, self.rw[v]
        for p in range(len(self.nodes) - 1, kept[0] - 1, -1):
            times = times * split(p) if p in self.fans else times
            if p not in kept:
                continue
            passes = self.flag(p, "no_coalesce", v)
            first = part(p) if rw and not passes and not self.flag(p, "rmw_first_update", v) else 0
            yield source, p, "read", times, first
            if p > kept[0]:
                yield (source, p, "fill", times, 0) if rw and passes else (p, p, "fill", 1, first)
            if rw:
                yield source, p, "update", times, 0
            source, times = (source, times) if passes else (p, 1)

    def read(self, doc: Any) -> Any:
        """The loops and keeping levels of a mapping, checked against all rules but the capacities."""
        need(natural(doc) and len(doc) == len(self.nodes), "the mapping has an entry per node")
        keys = [{"temporal", "keep"} if p in self.levels else {"spatial"} for p in range(len(doc))]
        need(
            all(entry.keys() == own for entry, own in zip(doc, keys, strict=True)),
            "entries are of the node's kind",
        )
        loops = [
            [(self.dims.index(d), *rest) for d, *rest in entry.get("temporal", entry.get("spatial"))]
            for entry in doc
        ]
        for p, own in enumerate(loops):
            factor, (inner, outer, _), node = {loop[0]: loop[1] for loop in own}, self.order[p], self.nodes[p]
            legal = len(factor) == len(own) and all(
                self.allows(p, d, factor.get(d, 1)) for d in range(len(self.dims))
            )
            live = {d for d in factor if factor[d] > 1}
            if p in self.fans:
                x, y = ({d: n for d, n, axis in own if axis == side} for side in "xy")
                legal &= math.prod(x.values()) <= node["mesh_x"] and math.prod(y.values()) <= node["mesh_y"]
                legal &= len(x) + len(y) == len(own) and any(
                    x.keys() & live == s & live for s in self.along_x(p)
                )
            else:
                rank = [
                    inner.index(d) - len(inner) if d in inner else outer.index(d) + 1 if d in outer else 0
                    for d, _ in own
                    if d in live
                ]
                legal &= rank == sorted(rank)
            need(legal, f"the loops of {node['name']} obey its rules")
        for d, bound in enumerate(self.bounds):
            factors = math.prod(loop[1] for own in loops for loop in own if loop[0] == d)
            need(factors == bound, f"the factors of {self.dims[d]} multiply to its bound")
        need(
            math.prod(loop[1] for p in self.fans for loop in loops[p]) >= self.least_units,
            "enough units are in use",
        )
        mask = [tuple(p for p in self.levels if name in doc[p]["keep"]) for name in self.names]
        need(
            all(own in self.keepers(v) for v, own in enumerate(mask)), "dataspaces are kept where they may be"
        )
        named = [doc[p]["keep"] for p in self.levels]
        known = all(set(own) <= set(self.names) and len(set(own)) == len(own) for own in named)
        need(known and all(type(own) is list for own in named), "known dataspaces are kept, each named once")
        return loops, mask

    def price(self, loops: Any, mask: Any) -> Any:
        """The exact cost of a mapping, as certificates give it, and whether its tiles fit."""
        x, extents, nest = [1] * len(self.dims), [[1] * len(self.dims)], []
        for own in reversed(loops):
            nest.insert(0, [(loop[0], loop[1], x[loop[0]]) for loop in own])
            x = [n * dict(loop[:2] for loop in own).get(d, 1) for d, n in enumerate(x)]
            extents.insert(0, x)
        steps = math.prod(bound for p in self.levels for _, bound, _ in nest[p])
        children = {p: math.prod(bound for _, bound, _ in nest[p]) for p in self.fans}
        found: dict[int, Any] = {p: {} for p in self.levels}
        for v, (name, kept) in enumerate(zip(self.names, mask, strict=True)):
            tiles, words = [self.tile(v, extent) for extent in extents], {None: steps}
            parts = tiles[:1]
            for p in range(kept[-1]):
                parts.append(parts[-1] * tiles[p + 1] // tiles[p] if p in self.fans else parts[-1])
            for p in kept:
                above = [loop for q in reversed(self.levels) if q < p for loop in nest[q]]
                words[p] = self.delivered(v, p, extents[p], above)
                found[p][name] = {
                    "tile_words": tiles[p],
                    "partition_words": parts[p],
                    "reads": 0,
                    "fills": 0,
                    "updates": 0,
                }
            split = lambda p, v=v: self.distinct(v, p, nest[p])  # noqa: E731
            for source, p, action, times, first in self.accesses(v, kept, split, parts.__getitem__):
                found[p][name][f"{action}s"] = max(0, words[source] * times - first)
        cycles = {p: self.level_cycles(p, found[p], steps) for p in self.levels}
        whole, levels, fits, energy = max(cycles.values()) + self.latency, [], True, self.computing
        for p in self.levels:
            node, used = self.nodes[p], math.prod(children[q] for q in self.fans if q < p)
            for counts in found[p].values():
                counts["energy"] = min(used, self.payers(p)) * sum(
                    -(-counts[f"{action}s"] // node["block_size"]) * node["energy"][action]
                    for action in ACTIONS
                )
            least, most = self.usable(p)
            fits &= least <= sum(counts["tile_words"] for counts in found[p].values()) <= most
            levels.append(
                {
                    "name": node["name"],
                    "instances": used,
                    "cycles": cycles[p],
                    "dataspaces": found[p],
                    "leak_energy": self.leak(p, children) * whole,
                }
            )
            energy += levels[-1]["leak_energy"] + sum(counts["energy"] for counts in found[p].values())
        return {
            "energy": energy,
            "cycles": whole,
            "edp": energy * whole,
            "computes": self.computes,
            "fits": fits,
            "compute_cycles": steps,
            "compute_energy": self.computing,
            "levels": levels,
        }

    def payers(self, p: int) -> int:
        """Most instances of level `p` that pay for accesses: those of a cluster share theirs."""
        instances = math.prod(self.children(q) for q in self.fans if q < p)
        return int(max(1, instances // self.nodes[p]["cluster_size"]))

    def leak(self, p: int, children: Any) -> int:
        """Leakage per cycle of level `p`: of its used instances, or of all under a used power gate."""
        above, gate = [q for q in self.fans if q < p], self.nodes[p]["gating_fanouts"]
        gated = [] if gate is None else above[gate:]
        instances = math.prod(self.children(q) if q in gated else children[q] for q in above)
        return int(self.nodes[p]["energy"]["leak_per_cycle"] * instances)

    def level_cycles(self, p: int, spaces: Any, steps: int) -> int:
        """Cycles that level `p` needs, in doubles as the cost model defines them."""
        node, demand, slowdown = self.nodes[p], {"read": 0.0, "write": 0.0}, 1.0
        for name, counts in spaces.items():
            scale = float(Fraction(*node["bandwidth_scale"].get(name, (1, 1))))
            demand["read"] += counts["reads"] / steps * scale
            demand["write"] += (counts["fills"] + counts["updates"]) / steps * scale
        for kind, words in (*demand.items(), ("shared", sum(demand.values()))):
            width = float(Fraction(*(node[f"{kind}_bandwidth"] or (1, 1))))
            if node[f"{kind}_bandwidth"] is not None and width < words:
                slowdown = min(slowdown, width / words)
        return math.ceil(steps / slowdown)

    def delivered(self, v: int, p: int, extent: Any, loops: Any) -> int:
        """Words delivered into an instance of level `p`: the first tile, and what each loop above brings."""
        words = tile = self.tile(v, extent)
        outer, at, first = math.prod(bound for _, bound, _ in loops), [0] * len(self.ranks[v]), None
        for d, bound, stride in loops:
            step = self.move(v, d, stride)
            jump = tuple(a - b for a, b in zip(step, at, strict=True))
            first = step if first is None and any(step) and bound > 1 else first
            new = 0 if not any(jump) else self.fresh(v, extent, jump) if jump == first else tile
            words += (outer - outer // bound) * (tile if self.flag(p, "no_temporal_reuse", v) else new)
            outer, at = outer // bound, [a + b * (bound > 1) for a, b in zip(at, step, strict=True)]
        return words

    def distinct(self, v: int, p: int, loops: Any) -> int:
        """Number of different tiles among the children that the spatial loops of fanout `p` span."""
        if self.flag(p, "no_multicast", v):
            return math.prod(bound for _, bound, _ in loops)
        joint, offsets = {d for (d, _), _ in self.windows[v]}, {(0,) * len(self.ranks[v])}
        for d, bound, stride in loops:
            if d in joint:
                step = self.move(v, d, stride)
                offsets = {
                    tuple(o + i * s for o, s in zip(at, step, strict=True))
                    for at in offsets
                    for i in range(bound)
                }
        return len(offsets) * math.prod(bound for d, bound, _ in loops if d in self.relevant[v] - joint)
