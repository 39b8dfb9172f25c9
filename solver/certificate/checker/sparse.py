"""The checker's reading of sparse data: what a mapping moves and costs where tensors have zeros.

Words are rounded as docs/certificates.md ("Sparse data") says, energies are exact fractions of these.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, pairwise, permutations, product, takewhile
from math import prod
from typing import Any, NamedTuple

import numpy as np

from solver.certificate.checker.claims import SLACK, Array, Cost, Json, Loops, Mask, Number, need, remembered
from solver.certificate.checker.dataspaces import Extent, Whole
from solver.certificate.checker.remainders import Nest, Space
from solver.certificate.checker.sparse_levels import (
    ACCESSES,
    Flow,
    Level,
    Moved,
    RankWords,
    expected_metadata,
    layout_key,
    saved,
    without,
)
from solver.certificate.checker.zeros import Chances, tensor

UNIT = 1 << 20  # parts of the energy unit that energies of sparse data are whole numbers of
PACKED = {"CP", "RLE", "B"}
FORMATS = PACKED | {"UOP", "UB"}
UNITS = {"gating", "skipping", "skipping_spatial"}
HAIR = 1e-6  # shares of operands, and of cases that units let by, are rounded to millionths

Side = tuple[tuple[int, int], ...]  # loops of a fanout: dimension, axis
Sides = dict[int, Side]
Shape = tuple[int, int, Whole]  # dimension, factor, tile
Span = dict[int, tuple[int, int, float]]  # by place, instances along X and Y, and the share in use


class NestLoop(NamedTuple):
    """A loop of the whole nest."""

    place: int
    dim: int
    factor: int
    axis: int | None  # None in time, 0 along X, 1 along Y


class FiberTree(NamedTuple):
    """The ranks of a tile."""

    fibers: tuple[tuple[int, Whole], ...]  # coordinates and tile, the lowest rank first
    lowest: Whole


class Held(NamedTuple):
    """What a level holds of a dataspace."""

    tile: Whole
    words: int
    tree: FiberTree | None
    layout: Json | None
    expected: float
    metadata: RankWords
    arriving: float


class Unit(NamedTuple):
    """What saves accesses."""

    chance: Any
    skips: bool | None  # None if it saves instances
    empty: tuple[tuple[int, float], ...]


class Full:
    """A mapping's whole nest, loops of one iteration included, innermost first, and the boxes that they span.

    A storage level has a loop over each dimension. A fanout has one over each, and loops in time of one
    iteration outside of them. Loops that a mapping does not name are innermost, those of a fanout along X.
    """

    def __init__(self, space: "Sparse", loops: Loops, sides: Sides) -> None:
        places = sorted((*space.stores, *space.fans), reverse=True)
        self.loops: list[NestLoop] = []
        self.ends: dict[int, tuple[int, int]] = {}
        for p in places:
            named = space.named(p, loops, sides)
            axis = 0 if p in space.fans else None
            found = {d for d, *_ in named}
            own = [NestLoop(p, d, 1, axis) for d in space.every if d not in found]
            own += [NestLoop(p, *loop) for loop in named]
            own += [NestLoop(p, d, 1, None) for d in space.every] if p in space.fans else []
            self.ends[p] = len(self.loops), len(self.loops) + len(own)
            self.loops += own
        self.ones = (1,) * len(space.bounds)
        self.boxes, box = [], [*self.ones]
        for loop in self.loops:
            box[loop.dim] *= loop.factor
            self.boxes.append(tuple(box))

    def box(self, p: int) -> Whole:
        """Iterations at and inside of place `p`."""
        return self.boxes[self.ends[p][1] - 1]

    def before(self, i: int) -> Whole:
        """Iterations inside of loop number `i`."""
        return self.boxes[i - 1] if i else self.ones

    def served(self, p: int, child: int | None) -> range:
        """Numbers of the loops from outside of `child` (None: the arithmetic) to those of `p`."""
        return range(0 if child is None else self.ends[child][1], self.ends[p][1])


class Sparse(Space):
    """A mapspace of sparse data."""

    is_sparse = True

    def __init__(self, doc: Json) -> None:
        self.doc = doc["sparse"]
        need(not doc.get("memories"), "no memory with several places is priced on sparse data")
        self.skips = any(
            unit["kind"] == "skipping_spatial" for own in self.doc["levels"] for unit in own["units"]
        )
        super().__init__(doc)
        need(len(self.doc["levels"]) == len(self.stores), "all levels say what they have for sparse data")
        need(self.doc["unit"] == UNIT, "energies have the stated unit")
        self.has = dict(zip(self.stores, self.doc["levels"], strict=True))
        self.units_per_pj, self.compute_energy = doc["units_per_pj"], doc["compute_energy"]
        self.ranks = [own["ranks"] for own in doc["dataspaces"]]  # dimensions of bound 1 included
        self.dims = [frozenset(d for rank in own for d, _ in rank) for own in self.ranks]
        self.tensors = [
            tensor(own, self.lengths(v, self.bounds)) for v, own in enumerate(self.doc["densities"])
        ]
        self.checked()
        self.operands = [v for v, space in enumerate(self.spaces) if not space.rw]

    def checked(self) -> None:
        """Raise unless formats and units are well formed."""
        count = range(len(self.spaces))
        for own in self.doc["levels"]:
            ranks = [rank for layout in own["layouts"] if layout for rank in layout["fibers"]]
            need({rank["kind"] for rank in ranks} <= FORMATS, "ranks have a known format")
            need(all(layout is None or layout["fibers"] for layout in own["layouts"]), "layouts have ranks")
            need({unit["kind"] for unit in own["units"]} <= UNITS, "units are of a known kind")
            options = [option for unit in own["units"] for option in unit["options"]]
            need(all(unit["options"] for unit in own["units"]), "units have options")
            named = [d for option in options for d in (option["target"], *option["conditions"])]
            need(
                len(own["layouts"]) == len(count) and all(v in count for v in named), "units name dataspaces"
            )

    def lengths(self, v: int, box: Extent) -> tuple[Number, ...]:
        """Words per rank of what a box of iterations touches; boxes of whole blocks may exceed bounds."""
        return tuple(1 + sum(abs(c) * (box[d] - 1) for d, c in rank) for rank in self.ranks[v])

    def packs(self, layout: Json | None) -> bool:
        """Whether a layout leaves out what is empty."""
        return layout is not None and any(rank["kind"] in PACKED for rank in layout["fibers"])

    def exchangeable(self, mask: Mask) -> bool:
        """Whether levels can unpack and pack what they exchange, and units have the words that they save."""
        pairs = ((v, p, q) for v, kept in enumerate(mask) for p, q in pairwise(kept))
        served = (
            (p, option["target"])
            for p in self.stores
            for unit in self.has[p]["units"]
            for option in unit["options"]
            if unit["kind"] != "skipping_spatial"
        )
        return all(self.exchange(*pair) for pair in pairs) and all(mask[v][0] <= p for p, v in served)

    def exchange(self, v: int, p: int, q: int) -> bool:
        """Whether level `q` can unpack and pack what it exchanges with the next outer level `p`."""
        outer, inner = self.has[p]["layouts"][v], self.has[q]["layouts"][v]
        if self.packs(outer) == self.packs(inner):
            return True
        able = self.has[q]["decompresses"] and (self.has[q]["compresses"] or not self.spaces[v].rw)
        return able and not self.packs(inner)

    def states(self, v: int, passed: float | None, mask: Mask) -> dict[str, float]:
        """Chances that an operand is not zero, zero, or not there, given the share that units let by."""
        share = millionths(self.tensors[v].mean)
        if passed is not None:
            share = min(1.0, share / passed) if passed else 1.0
        absent = self.has[mask[v][-1]]["layouts"][v] is not None
        return {
            "nonzero": share,
            "zero": 0.0 if absent else 1 - share,
            "absent": 1 - share if absent else 0.0,
        }

    def by_kind(
        self, total: float, states: Sequence[Mapping[str, float]]
    ) -> tuple[float, float, float, float]:
        """Computations, not rounded, that are made, gated, skipped, and those without any operand."""
        does = self.doc["compute"]
        joint: dict[tuple[str, ...], float] = {}
        for kinds in product(("nonzero", "zero", "absent"), repeat=len(states)):
            key = tuple(sorted(kinds))
            joint[key] = joint.get(key, 0.0) + prod(
                own[kind] for own, kind in zip(states, kinds, strict=True)
            )
        skipped = gated = none = 0.0
        for kinds, chance in joint.items():
            if {*kinds} == {"absent"}:
                none += total * chance
            elif "absent" in kinds and does["skips_unaligned"]:
                skipped += total * chance
            elif {*kinds} != {"nonzero"} and does["gates_zeros"]:
                gated += total * chance
        return total - skipped - gated - none, gated, skipped, none

    # ---------------------------------------------------------------------------------------- bounds

    def figure(self, v: int, name: str, box: Extent, confidence: float | None = None) -> Number:
        """A figure of the tiles of a dataspace in boxes of iterations, which may be arrays."""
        lengths = np.broadcast_arrays(*map(np.asarray, self.lengths(v, box) or (1,)))
        if not lengths[0].ndim:
            return self.figure_of(v, name, tuple(map(int, lengths)), confidence)
        different, places = np.unique(np.stack([own.ravel() for own in lengths]), axis=1, return_inverse=True)
        values = [self.figure_of(v, name, tuple(own), confidence) for own in different.T.tolist()]
        return np.array(values, dtype=float)[places.ravel()].reshape(lengths[0].shape)

    @remembered
    def figure_of(self, v: int, name: str, tile: Whole, confidence: float | None) -> float:
        """The figure of one tile."""
        own = self.tensors[v]
        if name == "empty":
            return own.empty(tile)
        return own.most(tile, 1.0 if confidence is None else confidence)

    def empty_at_most(self, v: int, box: Extent | None) -> Number:
        """Chance that a dataspace is empty in boxes or larger ones, at most; None: single iterations."""
        if not self.tensors[v].monotone:
            return 1.0
        return self.figure(v, "empty", [1] * len(self.bounds) if box is None else box)

    def least_density(self, v: int) -> float:
        """Share of nonzeros in the tiles of a level, empty ones included, at least."""
        return self.tensors[v].mean * (1 - SLACK) if self.tensors[v].monotone else 0.0

    def room(self, v: int, p: int, box: Extent) -> Number:
        """Words of level `p` that tiles take, at least."""
        has, size = self.has[p], self.at[p][v]["size"]
        if not self.packs(has["layouts"][v]):
            return self.spaces[v].tile(box) * size
        confidence = 1.0 - float(Fraction(*has["max_overbooked"])) if has["allow_overbooking"] else 1.0
        return self.figure(v, "most", box, confidence) * size

    def choices(self) -> Array:
        """All choices of spatial factors; where instances are skipped, with more children than there are."""
        if not self.skips:
            return super().choices()
        meshes = {p: (self.nodes[p]["mesh_x"], self.nodes[p]["mesh_y"]) for p in self.fans}
        for p in self.fans:
            self.nodes[p] = {**self.nodes[p], "mesh_x": self.computes, "mesh_y": self.computes}
        rows = super().choices()
        for p, (mesh_x, mesh_y) in meshes.items():
            self.nodes[p] = {**self.nodes[p], "mesh_x": mesh_x, "mesh_y": mesh_y}
        return rows

    # ---------------------------------------------------------------------------------------- mappings

    def read(  # type: ignore[override]  # the sides of spatial loops as well
        self, mapping: Json
    ) -> tuple[list[dict[int, int]], Mask, Sides]:
        """Factors by node, levels by dataspace, and loops (dimension, axis) by fanout, if they are legal."""
        fans = {p: mapping["loops"][p] for p in self.fans}
        need(all(len(loop) == 3 for own in fans.values() for loop in own), "spatial loops have an axis")
        plain = [[loop[:2] for loop in own] for own in mapping["loops"]]
        loops, mask = super().read({**mapping, "loops": plain})
        sides = {p: tuple((d, axis) for d, _, axis in own) for p, own in fans.items()}
        need(
            all(own in self.sides(p, loops[p]) for p, own in sides.items()),
            "spatial loops have an allowed order",
        )
        need(self.few_loops(loops), "there are no more loops than allowed")
        return loops, mask, sides

    def few_loops(self, loops: Loops) -> bool:
        """Whether a limit on the number of temporal loops is kept."""
        most = self.doc["most_loops"]
        return most is None or sum(len(own) for p, own in enumerate(loops) if p not in self.fans) <= most

    def sides(self, p: int, factors: Mapping[int, int]) -> list[Side]:
        """Orders of a fanout's loops, as (dimension, axis) pairs, X first, that rules and mesh allow."""
        node = self.nodes[p]
        found: dict[Side, None] = {}
        for along in node["along_x"]:
            x, y = [d for d in factors if d in along], [d for d in factors if d not in along]
            wide, high = prod(factors[d] for d in x), prod(factors[d] for d in y)
            if self.skips or (wide <= node["mesh_x"] and high <= node["mesh_y"]):
                pairs = product(self.ordered(node, x), self.ordered(node, y))
                found |= dict.fromkeys(
                    (*((d, 0) for d in own), *((d, 1) for d in other)) for own, other in pairs
                )
        return [*found]

    @staticmethod
    def ordered(node: Json, dims: Sequence[int]) -> Iterator[Whole]:
        """Orders of the loops along one axis, innermost first."""
        inner, outer = ([d for d in node[key] if d in dims] for key in ("inner", "outer"))
        for middle in permutations(sorted({*dims}.difference(inner, outer))):
            yield (*inner, *middle, *outer)

    def named(self, p: int, loops: Loops, sides: Sides) -> list[tuple[int, int, int | None]]:
        """The loops (dimension, factor, axis) of a place that a mapping names, innermost first."""
        if p in self.fans:
            return [(d, loops[p][d], axis) for d, axis in sides[p]]
        inside = [q for q in range(p + 1, len(loops)) if q in self.fans or q in self.stores]
        nodes = range(p + 1, min(inside, default=len(loops)))
        return [(d, n, None) for q in reversed(nodes) for d, n in loops[q].items()]

    # ---------------------------------------------------------------------------------------- costs

    def price(  # type: ignore[override]  # by the sides of spatial loops as well
        self, loops: Loops, mask: Mask, sides: Sides
    ) -> Cost:
        """The cost of a mapping, in parts of an energy unit, and whether it fits: formats have to hold it."""
        try:
            return Priced(self, loops, mask, sides).cost()
        except UnheldError:
            return {"energy": 0, "latency": 0, "edp": 0, "fits": False}

    def dense(self, loops: Loops, mask: Mask) -> Counter[Any]:
        """Words that an instance reads, fills and updates at (dataspace, level), for dense data."""
        nest, counts = Nest(self, loops), Counter[tuple[int, int, str]]()
        for own in chain(*(self.accesses(v, kept) for v, kept in enumerate(mask))):
            alone = [Counter(dict.fromkeys(nest.shares(d, own.p), 1)) for d in self.every]
            counts[own.v, own.p, own.action] += self.words(nest, own, alone)
        return counts


class UnheldError(Exception):
    """Formats cannot hold a mapping."""


class Priced:
    """What a mapping moves and costs, dataspace by dataspace and level by level."""

    def __init__(self, space: Sparse, loops: Loops, mask: Mask, sides: Sides) -> None:
        self.space, self.spaces, self.mask = space, space.spaces, mask
        self.loops, self.sides, self.nest = loops, sides, Full(space, loops, sides)
        self.every = range(len(self.spaces))
        self.used = {p: prod(loops[p].values()) for p in space.fans}
        self.dense = space.dense(loops, mask)

    def layout(self, v: int, p: int) -> Json | None:
        """How level `p` stores dataspace `v`, if with metadata."""
        layout: Json | None = self.space.has[p]["layouts"][v]
        return layout

    def packs(self, v: int, p: int) -> bool:
        """Whether level `p` leaves out what is empty of dataspace `v`."""
        return self.space.packs(self.layout(v, p))

    def lengths(self, v: int, box: Extent) -> tuple[Number, ...]:
        """Words per rank of what a box of iterations touches."""
        return self.space.lengths(v, box)

    def child(self, v: int, p: int) -> int | None:
        """The next keeping level inside of `p`."""
        return next((q for q in self.mask[v] if q > p), None)

    def keeper(self, v: int, p: int) -> int | None:
        """The level at `p` or next outside of it that keeps a dataspace."""
        return max((q for q in self.mask[v] if q <= p), default=None)

    def instances(self, p: int) -> int:
        """Instances of place `p` in use with dense data."""
        return prod(n for q, n in self.used.items() if q < p)

    # ---------------------------------------------------------------------------------------- tiles

    def held(self, v: int) -> dict[int, Held]:
        """What each level holds of a dataspace, by place."""
        kept, trees, found = self.mask[v], self.trees(v), {}
        chances_of, parent = self.space.tensors[v], None
        for p in kept:
            tile = self.lengths(v, self.nest.box(p))
            told = parent is not None and self.layout(v, parent) is not None
            known = told and not chances_of.never_empty(tile)
            chances, arriving = coming(chances_of.chances(tile), known)
            expected, layout = 0.0, self.layout(v, p)
            for k, chance in chances:
                expected += chance * k
            metadata = (
                expected_metadata(layout_key(layout), trees[p], tile, chances_of, chances) if layout else ()
            )
            found[p] = Held(tile, prod(tile), trees.get(p), layout, expected, metadata, arriving)
            parent = p
        return found

    def trees(self, v: int) -> dict[int, FiberTree]:
        """Per level with metadata, its tile as a tree of fibers; raises where formats do not go together."""
        kept, inner = self.mask[v], None
        trees: dict[int, FiberTree] = {}
        if not all(self.space.exchange(v, p, q) for p, q in pairwise(kept)):
            raise UnheldError
        if not any(self.layout(v, p) for p in kept):
            return {}
        for p in reversed(kept):
            layout = self.layout(v, p)
            packed = inner and self.packs(v, p) and prod(self.lengths(v, self.nest.box(inner))) > 1
            copied: int | None = inner if packed else None
            if copied:
                self.stacked(v, p, copied, trees[copied])
            trees[p] = self.tree(v, p, inner, layout, trees[copied] if copied else None)
            inner = p
        return trees

    def stacked(self, v: int, p: int, q: int, tree: FiberTree) -> None:
        """Raise unless the lowest ranks of level `p` can be those of level `q`."""
        layout, inner = self.layout(v, p), self.layout(v, q)
        assert layout is not None
        outer = layout["fibers"]
        if len(tree.fibers) > len(outer):
            raise UnheldError
        pairs = zip(outer, inner["fibers"], strict=False) if inner and self.packs(v, q) else ()
        if any(one["kind"] != other["kind"] for one, other in pairs):
            raise UnheldError

    def tree(
        self, v: int, p: int, child: int | None, layout: Json | None, copied: FiberTree | None
    ) -> FiberTree:
        """The ranks of a tile; a packed level is tiled for the next inner one, others down to words."""
        served = self.nest.served(p, child)
        below = {} if copied else dict(enumerate(self.nest.before(served.start)))
        shapes = []  # dimension, factor, tile
        for i in served:
            loop = self.nest.loops[i]
            if loop.dim in self.space.dims[v]:
                factor = loop.factor * below.pop(loop.dim, 1)
                shapes.append((loop.dim, factor, self.lengths(v, self.nest.boxes[i])))
        one = self.lengths(v, self.nest.ones)
        idle, live = (1, shapes[0][2] if shapes else one), [shape for shape in shapes if shape[1] > 1]
        if layout is None:
            return FiberTree((self.fiber(v, live[::-1]) if live else idle,), one)
        fibers, lowest = copied or ((), one)
        ranks = range(len(fibers), len(layout["fibers"]))
        upward = layout["inner_to_outer"]
        groups = self.taken(layout, live if upward else live[::-1], ranks if upward else ranks[::-1])
        skipped = (1, one) if upward else idle
        own = [self.fiber(v, group) if group else skipped for group in groups]
        spare = [idle] * (len(ranks) - len(own))
        return FiberTree((*fibers, *(own + spare if upward else spare + own[::-1])), lowest)

    @staticmethod
    def taken(layout: Json, shapes: Sequence[Shape], ranks: Iterable[int]) -> list[list[Shape]]:
        """The loops that ranks take, one each or all of a flattened group; raises if some are left over."""
        groups, left = [], [*shapes]
        for r in ranks:
            if not left:
                break
            rules = layout["fibers"][r]["flattened"]
            together: list[int] = next((rule for rule in rules if left[0][0] in rule), [])
            group = [left.pop(0)] if together or not rules else []
            while group and left and left[0][0] in together:
                group.append(left.pop(0))
            groups.append(group)
        if left:
            raise UnheldError
        return groups

    def fiber(self, v: int, group: Sequence[Shape]) -> tuple[int, Whole]:
        """Coordinates of a rank of some loops, and the tile of the one that was taken first."""
        box = [*self.nest.ones]
        for d, n, _ in group:
            box[d] *= n
        return prod(self.lengths(v, box)), group[0][2]

    # ---------------------------------------------------------------------------------------- units

    def units(self, held: Sequence[Mapping[int, Held]]) -> list[dict[int, Unit]]:
        """By dataspace, the units that save accesses, by place; of two at one place the stronger counts."""
        found: list[dict[int, Unit]] = [{} for _ in self.every]
        every = [(p, own) for p in reversed(self.space.stores) for own in self.space.has[p]["units"]]
        gates, skips = (
            [pair for pair in every if pair[1]["kind"] == kind] for kind in ("gating", "skipping")
        )
        for p, own in (*gates, *skips):
            v, at, unit = self.served_option(p, own, held)
            known = found[v].get(at)
            found[v][at] = unit if known is None or known.chance < unit.chance else known
        return found

    def served_option(self, p: int, unit: Json, held: Sequence[Mapping[int, Held]]) -> tuple[int, int, Unit]:
        """Target, place and effect of the option that saves most; of equals, the last one."""
        best = 0.0
        chosen: tuple[int, int, Unit] | None = None
        for option in unit["options"]:
            v = option["target"]
            at = self.keeper(v, p)
            if at is None:
                raise UnheldError
            empty = self.empty(v, at, option["conditions"])
            useful = 1.0
            for chance in empty.values():
                useful *= 1 - chance
            own = v, at, Unit(1 - useful, unit["kind"] == "skipping", tuple(empty.items()))
            value = self.worth(v, at, held) * (1 - useful)
            if chosen is None or value >= best:
                best, chosen = max(best, value), own
        assert chosen is not None
        return chosen

    def worth(self, v: int, at: int, held: Sequence[Mapping[int, Held]]) -> float:
        """What an option is about: the energy of reading all words of a tile, in pJ."""
        has, child = self.space.has[at], self.child(v, at)
        ratio = has["metadata_word_bits"] // has["word_bits"]
        words = ratio * sum(m + f for m, f in held[v][at if child is None else child].metadata)
        read = has["read_energy"] / self.space.units_per_pj / self.space.at[at][v]["block"]
        return float(read * (held[v][at].expected + words))

    def empty(self, v: int, at: int, conditions: Iterable[int]) -> dict[int, float]:
        """By condition, the chance that all its words are zero that meet one access of level `at` to `v`."""
        nest, child, dims = self.nest, self.child(v, at), self.space.dims[v]
        served = nest.served(at, child)
        i = self.aimed(served, child, dims)
        loop, scalar = nest.loops[i], child is None and nest.loops[i].axis is None
        box = nest.ones if scalar else nest.boxes[i]
        kept = [*self.staying(nest.loops[i + 1 : served.stop], loop.axis is not None, child is None, dims)]
        if scalar:  # children that need words of their own are not served together
            kept = [own for own in kept if own.dim not in dims]
        block, tensors = self.space.at[at][v]["block"], self.space.tensors
        return {c: tensors[c].empty(self.met(v, c, loop, kept, box, scalar, block)) for c in conditions}

    def aimed(self, served: range, child: int | None, dims: frozenset[int]) -> int:
        """Number of the loop whose tile an access serves: the innermost one that moves the target."""
        loops = self.nest.loops
        moves = (i for i in served if loops[i].dim in dims and loops[i].factor > 1)
        if child is not None:
            return next(moves, served.stop - 1)
        last = next(i for i in served if loops[i].axis is None)
        if last == 0:
            return 0
        return min(next(moves, last - 1), last - 1)

    @staticmethod
    def staying(
        loops: Iterable[NestLoop], spatial: bool, innermost: bool, dims: frozenset[int]
    ) -> Iterator[NestLoop]:
        """Spatial loops outside; for a spatial target, also those in time up to one that moves it."""
        waiting = spatial
        for loop in (loop for loop in loops if loop.factor > 1):
            if loop.axis is not None or (waiting and not innermost and loop.dim not in dims):
                yield loop
            waiting = waiting and (loop.axis is not None or (not innermost and loop.dim not in dims))

    def met(
        self, v: int, c: int, loop: NestLoop, kept: Sequence[NestLoop], box: Whole, scalar: bool, block: int
    ) -> Whole:
        """The tile of condition `c` that meets an access to `v`."""
        tile = [*box]
        for own in kept:
            tile[own.dim] *= own.factor
        together = self.space.dims[v] & self.space.dims[c]
        shared = [own for own in (() if scalar else (loop, *kept)) if own.dim in together]
        factors: dict[int, int] = {}
        for own in shared:
            factors[own.dim] = factors.get(own.dim, 1) * own.factor
        scale = float(math.ceil(block / (prod(self.lengths(v, box)) / prod(factors.values()))))
        for d in sorted(factors):
            tile[d] = math.ceil(tile[d] / (factors[d] / scale))
            scale /= factors[d]
        if scale > 1:
            tile[loop.dim] = int(tile[loop.dim] * scale)
        return self.lengths(c, tile)

    # ---------------------------------------------------------------------------------------- counts

    def moved(
        self, v: int, held: Mapping[int, Held], units: Mapping[int, Unit]
    ) -> tuple[dict[int, Moved], Unit | None]:
        """What each level moves of a dataspace, by place, and the innermost unit."""
        found, outer, rw = {}, None, self.spaces[v].rw
        for p in sorted({*held, *units}):
            unit = units.get(p)
            flow = self.unsaved(v, p, held[p]) if p in held else None
            if flow and outer:
                flow = without(flow, outer.chance)
            if flow and unit and unit.skips is not None:
                chance = unit.chance if not outer else rest(unit.chance, outer.chance)
                ranks, child = len(held[p].metadata), self.child(v, p)
                ranks = ranks if child is None else min(ranks, len(held[child].metadata))
                found[p] = saved(flow, chance, ranks, rw, unit.skips)
            elif flow:
                found[p] = Moved(flow, None, False)
            outer = unit or outer
        return found, outer

    def unsaved(self, v: int, p: int, held: Held) -> Flow:
        """Words of data and metadata without any unit: of a tile with metadata only nonzeros move."""
        words = {access: self.dense[v, p, access] for access in ACCESSES}
        if held.layout is None:
            return Flow(words, dict.fromkeys(ACCESSES, ()))
        times = {access: n / held.words for access, n in words.items()}
        ranks = {
            access: tuple((math.ceil(m * n), math.ceil(f * n)) for m, f in held.metadata)
            for access, n in times.items()
        }
        share = min(1.0, held.expected / held.words)
        few = {access: n - math.floor(n * (1 - share)) for access, n in words.items()}
        return Flow(few if self.spaces[v].rw else {**few, "update": words["update"]}, ranks)

    def computes(self, units: Sequence[Unit | None]) -> tuple[int, int, int]:
        """Computations that are made, gated and skipped; `units` are the innermost ones of dataspaces."""
        total, own = self.space.computes, [(v, units[v]) for v in self.space.operands]
        passed: dict[int, float] = {}
        if len(own) == 2:
            pairs = [(unit, other) for (_, unit), (other, _) in (own, own[::-1])]
            for unit, other in ((unit, other) for unit, other in pairs if unit):
                total -= math.floor(total * unit.chance)
                passed[other] = 1 - millionths(unit.chance)
        else:
            empty: dict[int, float] = {}
            seen = [unit.empty for _, unit in own if unit and unit.skips is not None]
            for c, chance in chain(*seen):
                empty[c] = max(chance, empty.get(c, 0.0))
            total -= math.floor(total * (1 - prod(1 - chance for chance in empty.values())))
            passed = {c: 1 - chance for c, chance in empty.items()}
        states = [self.space.states(v, passed.get(v), self.mask) for v, _ in own]
        _, gated, skipped, none = self.space.by_kind(total, states)
        skipped, gated, none = math.floor(skipped), math.floor(gated), math.floor(none)
        return total - skipped - gated - none, gated, skipped

    # ---------------------------------------------------------------------------------------- costs

    def cost(self) -> Cost:
        """Energy in parts of a unit, cycles, their product, and whether the tiles fit."""
        space = self.space
        held = [self.held(v) for v in self.every]
        spans, shares = self.spans(held)
        units = self.units(held)
        for v, own in enumerate(shares):
            units[v] |= {p: Unit(share, None, ()) for p, share in own.items()}
        moved, last = zip(*(self.moved(v, held[v], units[v]) for v in self.every), strict=True)
        made, gated, skipped = self.computes(last)
        everything = len(space.nodes)
        working = max(self.instances(everything) * spans[v][everything][2] for v in self.every)
        steps = max(1, math.ceil((made + gated) / working)) if working else 1
        levels = [Level(self, p, held, moved, spans) for p in space.stores]
        busy = max(steps, *(space.cycles(level.p, level.demand(), steps) for level in levels))
        prices = space.doc["compute"]["energy"]
        energy = made * space.compute_energy + gated * prices.get("gated_compute", 0)
        energy += skipped * prices.get("skipped_compute", prices.get("gated_compute", 0))
        energy = Fraction(energy) + sum(level.energy(levels) + busy * level.leak() for level in levels)
        cycles, fixed = busy + space.latency, round(energy * UNIT)
        fits = all(level.fits() for level in levels) and self.meshes(spans) and space.few_loops(self.loops)
        return {"energy": fixed, "latency": cycles, "edp": fixed * cycles, "fits": fits}

    # ---------------------------------------------------------------------------------------- instances

    def spans(self, held: Sequence[Mapping[int, Held]]) -> tuple[list[Span], list[dict[int, float]]]:
        """By dataspace and place, the most instances along X and Y and the share in use on average.

        Without units that skip instances, the share is that of tiles that come. Also returns, by dataspace,
        what share of the instances below units is not needed.
        """
        dense = self.whole()
        if not self.skippers():
            arriving = [{p: own.arriving for p, own in of.items()} for of in held]
            return [{p: (x, y, own.get(p, 1.0)) for p, (x, y, _) in dense.items()} for own in arriving], [
                {}
            ] * len(held)
        spans = [self.own_span(v, dense) for v in self.every]
        before = [{**own} for own in spans]
        stops: list[set[int]] = [set() for _ in self.every]
        for p, option in self.skippers():
            v = option["target"]
            self.skip(spans[v], p, option)
            stops[v].add(p)
        for v in self.every:
            self.hand_on(spans[v], before[v], stops[v])
        after = {p: self.following(p) for p in dense if p != len(self.space.nodes)}
        return spans, [{p: 1 - spans[v][after[p]][2] for p in stops[v]} for v in self.every]

    def following(self, p: int) -> int:
        """The next storage level or fanout inside of `p`, or the arithmetic."""
        return min(
            (q for q in (*self.space.stores, *self.space.fans) if q > p), default=len(self.space.nodes)
        )

    def whole(self) -> Span:
        """Instances of dense data."""
        found, x, y = {}, 1, 1
        for p in sorted((*self.space.stores, *self.space.fans)):
            found[p] = x, y, 1.0
            for d, axis in self.sides.get(p, ()):
                x, y = (x * self.loops[p][d], y) if axis == 0 else (x, y * self.loops[p][d])
        return found | {len(self.space.nodes): (x, y, 1.0)}

    def skippers(self) -> list[tuple[int, Json]]:
        """Pairs (fanout, option) of units that skip instances, the innermost fanout first."""
        found = []
        for p in reversed(self.space.stores):
            own = [unit for unit in self.space.has[p]["units"] if unit["kind"] == "skipping_spatial"]
            inner = min((q for q in self.space.stores if q > p), default=len(self.space.nodes))
            fans = [q for q in self.space.fans if p < q < inner]
            found += [(q, unit["options"][0]) for unit in own for q in fans]
        return sorted(found, key=lambda own: -own[0])

    def own_span(self, v: int, dense: Span) -> Span:
        """What a dataspace's own metadata saves, handed on inwards."""
        span, stops = {**dense}, set()
        for p in (p for p in sorted(dense) if self.knows(v, p)):
            after = self.following(p)
            shares = [self.narrow(span, after, v, box, i) for i, box in self.fibers(v, p)]
            if shares and shares[0] != 1:
                span[after] = (*span[after][:2], shares[0])
                stops.add(p)
        self.hand_on(span, dense, stops)
        return span

    def skip(self, span: Span, p: int, option: Json) -> None:
        """Narrow what a unit saves below its fanout."""
        share, after = 1.0, self.following(p)
        for c in (c for c in option["conditions"] if self.knows(c, p)):
            boxes = [(i, self.beside(box, i, p, option["target"])) for i, box in self.fibers(c, p)]
            shares = [self.narrow(span, after, c, box, i) for i, box in boxes]
            share *= shares[0] if shares else 1.0
        span[after] = (*span[after][:2], share)

    def hand_on(self, span: Span, before: Span, stops: set[int]) -> None:
        """Scale what lies inside of places whose instances are fewer, shares up to the next unit."""
        places = sorted(span)
        for i, p in enumerate(places):
            (x, y, share), (wide, high, _), passed = span[p], before[p], True
            if (x, y) == (wide, high):
                continue
            for outer, q in pairwise(places[i:]):
                passed = passed and outer not in stops
                own_x, own_y, own = span[q]
                span[q] = own_x * x // wide, own_y * y // high, own * share if passed else own

    def knows(self, v: int, p: int) -> bool:
        """Whether the level that feeds place `p` has metadata of a dataspace."""
        keeper = self.keeper(v, p) if p < len(self.space.nodes) else None
        return keeper is not None and self.layout(v, keeper) is not None

    def fibers(self, v: int, p: int) -> Iterator[tuple[int, Whole]]:
        """Yield the spatial loops of a place that move a dataspace, with the iterations inside of each."""
        for i in range(*self.nest.ends[p]):
            loop = self.nest.loops[i]
            if loop.axis is not None and loop.factor > 1 and loop.dim in self.space.dims[v]:
                yield i, self.nest.before(i)

    def beside(self, box: Whole, i: int, p: int, target: int) -> Whole:
        """Iterations of a condition while the target's tile stays, where both move together."""
        loops, dims, keeper = self.nest.loops, self.space.dims[target], self.keeper(target, p)
        if self.child(target, p) is None or loops[i].dim not in dims or keeper is None:
            return box
        wide = [*box]
        inner = loops[self.nest.ends[p][0] : self.nest.ends[keeper][1]]
        live = [loop for loop in inner if loop.factor > 1 and loop.axis is None]
        for loop in takewhile(lambda own: own.dim not in dims, live):
            wide[loop.dim] *= loop.factor
        return tuple(wide)

    def narrow(self, span: Span, after: int, v: int, box: Whole, i: int) -> float:
        """Narrow the instances along a loop to the most that are not empty; the average share of these."""
        loop, fiber = self.nest.loops[i], [*box]
        fiber[loop.dim] *= loop.factor
        piece, own = self.lengths(v, box), self.space.tensors[v]
        pieces = own.pieces(self.lengths(v, fiber), piece)
        x, y, share = span[after]
        x, y = (x * pieces // loop.factor, y) if loop.axis == 0 else (x, y * pieces // loop.factor)
        span[after] = x, y, share
        return 1 - own.empty(piece)

    def meshes(self, spans: Sequence[Span]) -> bool:
        """Whether fanouts have children for all instances that are needed."""
        for p, axis in product(self.space.fans, (0, 1)):
            mesh = self.space.nodes[p][("mesh_x", "mesh_y")[axis]]
            if max(own[self.following(p)][axis] // max(1, own[p][axis]) for own in spans) > mesh:
                return False
        return True


def rest(own: float, outer: float) -> float:
    """Share that is useless of what an outer unit lets by, whose cases are among the own ones."""
    return 0.0 if outer >= 1 else max(0.0, 1 - (1 - own) / (1 - outer))


def coming(chances: Chances, known: bool) -> tuple[Chances, float]:
    """The chances of tiles that come, and their share: empty ones do not if it is known that they are."""
    (first, none), *others = chances
    if not known or first:
        return chances, 1.0
    return tuple((k, chance / (1 - none)) for k, chance in others), 1 - none


def millionths(share: float) -> float:
    """A share, rounded to millionths, halves up."""
    return math.floor(share * 1_000_000 + 0.5) / 1_000_000
