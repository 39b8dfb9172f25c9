"""Small cascades, and fused mappings of them at random."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from random import Random

from model.architecture import (
    AccessEnergy,
    Architecture,
    Compute,
    Direction,
    Fanout,
    StorageLevel,
    with_order,
)
from model.extents import tiles_of
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.check import FusedMappingError, check_fused, check_spreads, check_tree, loop_choices
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored
from model.fused.visits import Visits, path_dims
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules, toll_rules
from model.numbers import prime_factors
from model.problem import Dataspace, Problem, Term

SHAPES: dict[str, tuple[str, ...]] = {
    "products": ("T[m,b] = A[m,a] W[a,b]", "Z[m,c] = T[m,b] V[b,c]"),
    "three": ("T[m,b] = A[m,a] W[a,b]", "U[m,c] = T[m,b] V[b,c]", "Z[m,d] = U[m,c] X[c,d]"),
    "attention": ("S[m,p] = Q[m,e] K[p,e]", "P[m,p] = S[m,p]", "Z[m,f] = P[m,p] V[p,f]"),
    "projections": ("Q[m,e] = I[m,d] X[d,e]", "K[m,e] = I[m,d] Y[d,e]", "Z[m,p] = Q[m,e] K[p,e]"),
    "diamond": (
        "B[m,n] = A[m,k] W[k,n]",
        "C[m,n] = B[m,n] X[n]",
        "D[m,n] = B[m,n]",
        "Z[m,n] = C[m,n] D[m,n]",
    ),
    "skip": ("B[m,b] = A[m,a] W[a,b]", "C[m,b] = B[m,d] X[d,b]", "Z[m,b] = C[m,b] B[m,b]"),
    "window": ("T[p,c] = A[p,c]", "Z[q] = T[q+r,c] W[r,c]"),
    "two windows": ("T[p] = A[p+s] W[s]", "U[q] = T[2*q+r] V[r]", "Z[x] = U[x+y] Y[y]"),
    "depthwise": ("T[p,c] = A[p,k] W[k,c]", "Z[q,c] = T[q+r,c] D[r,c]"),
    "residual": ("T[p] = A[p] W", "U[q] = T[q+r] V[r]", "Z[q] = U[q] T[q]"),
    "plane": ("T[p,q] = A[p,q]", "Z[x,y] = T[x+r,y+s] W[r,s]"),
    "copy": ("B[m,k] <- A[m,k]", "C[m,n] = B[m,k] W[k,n]", "Z[m,o] = C[m,n] V[n,o]"),
}

COPIES: dict[str, tuple[str, ...]] = {
    "copied input": ("C[m,a] <- A[m,a]", "Q[m,e] = C[m,a] X[a,e]", "Z[m,e] = C[m,a] Y[a,e] Q[m,e]"),
    "copy between": ("T[m,b] = A[m,a] W[a,b]", "C[m,b] <- T[m,b]", "Z[m,c] = C[m,b] V[b,c]"),
    "copy and source": ("T[m,b] = A[m,b]", "C[m,b] <- T[m,b]", "U[m] = T[m,b]", "Z[m,b] = C[m,b] U[m]"),
    "copies of copies": ("T[m,b] = A[m,b]", "C[m,b] <- T[m,b]", "D[m,b] <- C[m,b]", "Z[m] = D[m,b] T[m,b]"),
    "two copies": ("C[m,b] <- A[m,b]", "D[m,b] <- C[m,b]", "E[m,b] <- C[m,b]", "Z[m] = D[m,b] E[m,b]"),
    "copied output": ("T[m,b] = A[m,a] W[a,b]", "Z[m] = T[m,b]", "C[m,b] <- T[m,b]"),
    "copy around": ("T[b] = A[b]", "Q[b] = T[b]", "C[b] <- T[b]", "U[o] = Q[b] V[o]", "Z[b] = C[b] U[o]"),
    "turned copy": ("T[m,b] = A[m,b]", "C[b,m] <- T[m,b]", "Z[m,c] = C[b,m] V[b,c]"),
    "projections of a copy": (
        "C[m,d] <- I[m,d]",
        "Q[m,e] = C[m,d] X[d,e]",
        "K[m,e] = C[m,d] Y[d,e]",
        "Z[m,p] = Q[m,e] K[p,e]",
    ),
}
"""Cascades with copies."""

COPIED_WINDOWS: dict[str, tuple[str, ...]] = {
    "copied window": ("T[p] = A[p]", "C[p] <- T[p]", "Z[q] = C[q+r] V[r]"),
    "window beside": ("T[p] = A[p]", "C[p] <- T[p]", "U[q] = C[q+r] V[r]", "Z[q] = U[q] T[q]"),
    "window ahead": ("T[p] = A[p]", "C[p] <- T[p]", "U[q] = T[q+r] V[r]", "Z[q] = U[q] C[q]"),
    "copied first": ("C[p,c] <- A[p,c]", "Z[q] = C[q+r,c] W[r,c]"),
}


@dataclass(frozen=True)
class _Parsed:
    name: str
    spaces: tuple[Dataspace, ...]
    is_copy: bool


def _parse(text: str) -> _Parsed:
    left, right = text.replace("<-", "=").split("=")
    spaces = tuple(_space(word, place == 0) for place, word in enumerate((left.strip(), *right.split())))
    return _Parsed(spaces[0].name, spaces, "<-" in text)


def _space(word: str, output: bool) -> Dataspace:
    name, _, indices = word.rstrip("]").partition("[")
    ranks = tuple(tuple(_term(part) for part in index.split("+")) for index in indices.split(",") if index)
    return Dataspace(name, ranks, output)


def _term(text: str) -> Term:
    coefficient, _, dim = text.rpartition("*")
    return Term(dim, int(coefficient or 1))


def cascade_of(
    shape: Sequence[str], bounds: dict[str, int], architecture: Architecture, n_instances: int = 1
) -> Cascade:
    """A cascade in the notation of `SHAPES`; bounds of dimensions are the same in all Einsums."""
    einsums = []
    for parsed in map(_parse, shape):
        dims = tuple(dict.fromkeys(t.dim for s in parsed.spaces for rank in s.ranks for t in rank))
        problem = Problem(parsed.name, dims, tuple(bounds[dim] for dim in dims), parsed.spaces)
        levels, fanouts = len(architecture.levels), len(architecture.fanouts)
        mapspace = Mapspace(
            problem,
            architecture,
            (TemporalRules(),) * levels,
            (SpatialRules(),) * fanouts,
            (KeepRules(),) * levels,
        )
        accesses = tuple(
            Access(s.name, s.name, tuple(str(i) for i in range(len(s.ranks))), (0,) * len(s.ranks))
            for s in parsed.spaces
        )
        einsums.append(CascadeEinsum(parsed.name, mapspace, accesses, parsed.is_copy, n_instances))
    return Cascade("random", tuple(einsums))


SIZES, ODD_SIZES = (2, 2, 3, 4, 4, 6), (2, 3, 5, 7)


def random_cascade(
    random: Random, name: str, choices: Sequence[int] = SIZES, cores: bool | None = None
) -> Cascade:
    """Bounds at random, windows that fit the tensors that they slide over, and two or three memories.

    `cores`: whether the buffer exists several times; None for now and then.
    """
    shape = (SHAPES | COPIES | COPIED_WINDOWS)[name]
    letters = sorted({char for text in shape for char in text if char.islower()})
    sizes = {dim: random.choice(choices) for dim in letters}
    if name in ("projections", "projections of a copy"):
        sizes["p"] = sizes["m"]
    if name == "skip":
        sizes["d"] = sizes["b"]
    if name in ("window", "depthwise", "residual", *COPIED_WINDOWS):
        sizes["r"] = random.choice((2, 3))
        sizes["p"] = sizes["q"] + sizes["r"] - 1
    if name == "residual":
        sizes["q"] = random.choice((4, 6) if choices is SIZES else (5, 7))
        sizes["p"] = sizes["q"] + sizes["r"] - 1
    if name == "two windows":
        sizes |= {
            "x": random.choice((2, 4) if choices is SIZES else (3, 5)),
            "y": 2,
            "r": random.choice((1, 2, 3)),
            "s": 2,
        }
        sizes["q"] = sizes["x"] + sizes["y"] - 1
        sizes["p"] = 2 * (sizes["q"] - 1) + sizes["r"] + random.choice((0, 1))
    if name == "plane":
        sizes |= {"x": random.choice((2, 4) if choices is SIZES else (3, 5)), "y": random.choice((2, 3))}
        sizes |= {"r": 2, "s": 2}
        sizes |= {"p": sizes["x"] + 1, "q": sizes["y"] + 1}
    return cascade_of(shape, sizes, random_architecture(random, cores), random.choice((1, 1, 3)))


def random_architecture(random: Random, cores: bool | None) -> Architecture:
    """A main memory and a buffer, perhaps with an array of registers."""
    prices = [AccessEnergy(*(random.randint(1, 9) for _ in range(4))) for _ in range(3)]
    buffer = StorageLevel(
        "GLB",
        size_words=random.choice((20, 60, 200)),
        block_size=random.choice((1, 1, 4)),
        shared_bandwidth=random.choice((None, 2)),
        energy=prices[1],
        network_fill_latency=random.choice((0, 3)),
    )
    main = StorageLevel("Main", energy=prices[0], read_bandwidth=random.choice((None, 1)))
    nodes: tuple[StorageLevel | Fanout, ...] = (main, buffer)
    if cores:
        no_multicast = frozenset(random.choice(((), (), ("A",), ("T", "Z"), ("V", "B"))))
        nodes = (main, Fanout("core", random.choice((2, 2, 4)), no_multicast=no_multicast), buffer)
    elif random.random() < 0.15 and cores is None:
        nodes = (main, Fanout("core", 2), buffer)
    if random.random() < 0.5:
        nodes += (Fanout("PE", 4, no_multicast=frozenset(random.sample(["A", "V"], 1))),)
        nodes += (StorageLevel("RF", size_words=12, energy=prices[2]),)
    return Architecture("random", nodes, Compute("MAC", energy=2))


def with_tolls(random: Random, cascade: Cascade, outside: bool | None = None) -> Cascade:
    """Add one or two tolls to a cascade, which some of its tensors pay; Einsums without these have none.

    `outside`: whether one lies between the outermost memory and the next one; None for anywhere.
    """
    nodes = len(cascade.einsums[0].mapspace.architecture.nodes)
    for number in range(random.choice((1, 1, 2))):
        place = 1 if outside else random.randint(1 if outside is None else 2, nodes + number)
        tensors = sorted(cascade.users)
        paying = random.sample(tensors, random.randint(1, min(3, len(tensors))))
        ways = {tensor: random.choice(("down", "up", "both")) for tensor in paying}
        price, leak = random.randint(0, 9), random.choice((0, 0, 2))
        toll = StorageLevel(
            f"toll{number}",
            energy=AccessEnergy(price, 0, price, leak),
            shared_bandwidth=random.choice((None, Fraction(1, 2))),
        )
        cascade = replace(cascade, einsums=tuple(tolled(own, toll, ways, place) for own in cascade.einsums))
    return cascade


def tolled(
    einsum: CascadeEinsum, toll: StorageLevel, ways: dict[str, Direction], place: int
) -> CascadeEinsum:
    """Add a toll to an Einsum at a place among its nodes, with the ways in which tensors pay it."""
    mapspace, nodes = einsum.mapspace, einsum.mapspace.architecture.nodes
    paid = tuple((own.dataspace, ways[own.tensor]) for own in einsum.accesses if own.tensor in ways)
    if not paid:
        return einsum
    own = replace(toll, tolls=paid)
    place = min(place, len(nodes))
    level = sum(isinstance(node, StorageLevel) for node in nodes[:place])
    loops, keep = toll_rules(own, einsum.problem)
    architecture = replace(mapspace.architecture, nodes=(*nodes[:place], own, *nodes[place:]))
    temporal = (*mapspace.temporal[:level], loops, *mapspace.temporal[level:])
    kept = (*mapspace.keep[:level], keep, *mapspace.keep[level:])
    return replace(
        einsum, mapspace=replace(mapspace, architecture=architecture, temporal=temporal, keep=kept)
    )


def random_fused(
    random: Random, cascade: Cascade, remainders: float = 0, shared: float = 0.2
) -> FusedMapping | None:
    """A fused mapping, None if the draw was none.

    Such a share of its private loops has remainders, and of the trips that leave some shared loops.
    """
    draw = _Draw(random, cascade, remainders, shared)
    skeleton = FusedMapping(tuple(draw.tree(list(range(len(cascade.einsums))), {})))
    memories = [level.name for level in cascade.einsums[0].mapspace.architecture.on_chip]
    stored = []
    for tensor in cascade.intermediates:
        users = [skeleton.paths[place] for place in cascade.users[tensor]]
        most = min(a.shared(b) for a in users for b in users)
        if random.random() < 0.75:
            depth = most if random.random() < 0.7 else random.randint(0, most)
            memory = random.choice((memories[0], memories[0], memories[-1]))
            stored.append(Stored(tensor, memory, depth))
    skeleton = FusedMapping(skeleton.children, tuple(stored))
    try:
        check_tree(cascade, skeleton)
        children = tuple(draw.filled(skeleton, child) for child in skeleton.children)
        mapping = FusedMapping(children, tuple(stored))
        check_fused(cascade, mapping)
        check_spreads(Visits(cascade, mapping))
    except FusedMappingError:
        return None
    return mapping


class _Draw:
    def __init__(self, random: Random, cascade: Cascade, remainders: float, shared: float) -> None:
        self.random, self.cascade, self.remainders, self.shared = random, cascade, remainders, shared
        architecture = cascade.einsums[0].mapspace.architecture
        self.cores = any(node.name == "core" for node in architecture.nodes)
        whole = list(loop_choices(cascade, range(len(cascade.einsums))))
        chosen = random.sample(whole, min(len(whole), random.choice((1, 1, 2)))) if self.cores else []
        self.over_cores = {
            einsum.name: tuple(dims[einsum.name] for dims in chosen) for einsum in cascade.einsums
        }

    def tree(self, places: list[int], cut: dict[tuple[str, str], int]) -> list[Body | Leaf]:
        """Bodies over some neighbouring Einsums; `cut` has the trips of the loops above by dimension."""
        random, cascade = self.random, self.cascade
        if len(places) == 1:
            return [Leaf(cascade.einsums[places[0]].name, ())]
        choices = list(loop_choices(cascade, places))
        if random.random() < 0.25 or not choices:
            return self.split(places, cut)
        loops: list[SharedLoop] = []
        cut = dict(cut)
        for _ in range(random.choice((1, 1, 2, 2, 3))):
            dims = random.choice(choices)
            last = cascade.einsums[places[-1]]
            left = tiles_of(last.problem.bound[dims[last.name]], cut.get((last.name, dims[last.name]), 1))
            trips = [f for f in range(2, left + 1) if left % f == 0 or random.random() < self.shared]
            trips = [f for f in trips if f == tiles_of(left, tiles_of(left, f))]
            if trips:
                loops.append(SharedLoop(random.choice(trips), tuple(dims.items())))
                cut |= {pair: cut.get(pair, 1) * loops[-1].trips for pair in dims.items()}
        inner = self.split(places, cut)
        return [Body(tuple(loops), tuple(inner))] if loops else inner

    def split(self, places: list[int], cut: dict[tuple[str, str], int]) -> list[Body | Leaf]:
        """At least two parts."""
        at = self.random.randint(1, len(places) - 1)
        return [*self.tree(places[:at], cut), *self.tree(places[at:], cut)]

    def filled(self, mapping: FusedMapping, child: Body | Leaf) -> Body | Leaf:
        """The tree with nests and held tiles."""
        if isinstance(child, Body):
            return Body(child.loops, tuple(self.filled(mapping, below) for below in child.children))
        place = self.cascade.place(child.einsum)
        einsum, path = self.cascade.einsums[place], mapping.paths[place]
        if einsum.is_copy:
            return child
        held = tuple(
            Held(access.dataspace, self.held_depth(mapping, place, access.tensor))
            for access in einsum.accesses
            if access.tensor not in mapping.stored_at and self.random.random() < 0.3
        )
        visits = Visits(self.cascade, mapping)
        dims = path_dims(path, len(path.loops))
        kinds = list(product(*(visits.extents(place, dim, len(path.loops)) for dim in dims)))
        seed, over_cores = self.random.random(), self.over_cores[einsum.name]
        if self.cores and self.random.random() < 0.3:
            over_cores = tuple(self.random.sample(einsum.problem.dims, 1))
        unlike = {dim for number, dim in enumerate(dims) if len({own[number] for own in kinds}) > 1}
        nests = []
        for chosen in kinds:
            bound = {**einsum.problem.bound, **dict(zip(dims, chosen, strict=True))}
            # The nests of one Einsum keep its tensors in the same memories.
            nest = _NestDraw(self.random, Random(seed), einsum, bound, mapping, held, self.remainders)
            nests.append(nest.drawn([dim for dim in over_cores if dim not in unlike]))
        return Leaf(child.einsum, tuple(nests), held)

    def held_depth(self, mapping: FusedMapping, place: int, tensor: str) -> int:
        """A number of loops below which a tile may be held."""
        path, writer = mapping.paths[place], self.cascade.writers.get(tensor)
        others = [] if writer is None else (self.cascade.readers(tensor) if writer == place else [writer])
        least = max((path.shared(mapping.paths[other]) for other in others), default=0)
        return self.random.randint(least, len(path.loops))


@dataclass
class _NestDraw:
    """A nest with factors, orders and places at random; `keeping` decides what is kept where."""

    random: Random
    keeping: Random
    einsum: CascadeEinsum
    bound: dict[str, int]
    mapping: FusedMapping
    held: Sequence[Held]
    remainders: float

    def drawn(self, over_cores: Sequence[str]) -> PrivateNest:
        """Return one; the cores share the dimensions `over_cores` where that divides."""
        places = self.random.choice((1, 1, 2, 3))
        nodes = self.einsum.mapspace.architecture.nodes
        order = [node for node in nodes for _ in range(places if node.name == "GLB" else 1)]
        factors = self.factors(order, over_cores)
        home = self.homes(places)
        entries: list[NodeMapping] = []
        number = 0
        for node, own in zip(order, factors, strict=True):
            dims = [dim for dim in self.random.sample(list(own), len(own)) if own[dim] > 1]
            if isinstance(node, Fanout):
                entries.append(FanoutMapping(tuple(SpatialLoop(dim, own[dim], "x") for dim in dims)))
                continue
            if node.tolls:
                entries.append(StorageMapping((), frozenset(dict(node.tolls))))
                continue
            keep = frozenset(name for name, at in home.items() if number in at)
            entries.append(StorageMapping(tuple(Loop(dim, own[dim]) for dim in dims), keep))
            number += 1
        several = (("GLB", places),) if places > 1 else ()
        return PrivateNest(Mapping(tuple(entries)), several, self.bounds_of(factors))

    def bounds_of(self, factors: Sequence[dict[str, int]]) -> tuple[tuple[str, int], ...] | None:
        """What the nest is for, if its loops multiply to something else."""
        products = {dim: math.prod(own[dim] for own in factors) for dim in self.bound}
        found = tuple((dim, size) for dim, size in self.bound.items() if products[dim] != size)
        return found or None

    def uneven(self, nodes: Sequence[int], bound: int) -> dict[int, int]:
        """Factors of two or three nodes, outer ones first in the order; the outermost one has a remainder."""
        count = min(len(nodes), self.random.choice((2, 3)))
        chosen = sorted(self.random.sample(list(nodes), count), reverse=True)
        factors, left = {}, bound
        for node in chosen[:-1]:
            factors[node] = self.random.randint(1, min(4, left))
            left = -(-left // factors[node])
        return {**factors, chosen[-1]: left}

    def factors(
        self, order: Sequence[StorageLevel | Fanout], over_cores: Sequence[str]
    ) -> list[dict[str, int]]:
        """Prime factors anywhere, but those of what registers store within them."""
        factors = [dict.fromkeys(self.bound, 1) for _ in order]
        left = dict(self.bound)
        cores = [
            (i, node) for i, node in enumerate(order) if isinstance(node, Fanout) and node.name == "core"
        ]
        for (number, node), dim in product(cores, over_cores):
            if left[dim] % 2 == 0 and math.prod(factors[number].values()) < node.size:
                factors[number][dim] *= 2
                left[dim] //= 2
        usable = [i for i, node in enumerate(order) if isinstance(node, StorageLevel) and not node.tolls]
        arrays = [i for i, node in enumerate(order) if node.name == "PE"]
        at_registers = {
            dim
            for access in self.einsum.accesses
            if self.mapping.stored_at.get(access.tensor, Stored("", "", 0)).memory == "RF"
            for dim in self.einsum.space(access.dataspace).dims
        }
        if at_registers:
            arrays = []
        for dim, bound in left.items():
            anywhere = [*usable, *arrays] if dim not in at_registers else usable[-1:]
            if not cores and len(anywhere) > 1 and self.remainders and self.random.random() < self.remainders:
                for node, factor in self.uneven(anywhere, bound).items():
                    factors[node][dim] = factor
                continue
            for prime in [prime for prime, power in prime_factors(bound) for _ in range(power)]:
                factors[self.random.choice(anywhere)][dim] *= prime
        return factors

    def homes(self, places: int) -> dict[str, set[int]]:
        """Per dataspace the levels that keep it."""
        levels = 1 + len(self.einsum.mapspace.architecture.on_chip)
        above = {tile.dataspace for tile in self.held}
        home: dict[str, set[int]] = {}
        for access in self.einsum.accesses:
            stored = self.mapping.stored_at.get(access.tensor)
            inner, registers = self.keeping.random() < 0.7, self.keeping.random() < 0.6
            at = {0} if stored is None else set()
            if inner and stored is None and access.dataspace not in above:
                at.add(self.random.randint(1, places))
            if registers and levels > 2 and (stored is None or stored.memory != "RF"):
                at.add(places + 1)
            home[access.dataspace] = at
        return home


def in_other_orders(random: Random, cascade: Cascade, mapping: FusedMapping) -> FusedMapping:
    """The same tree, with the places of memories of each nest in an order at random."""

    def shuffled(child: Body | Leaf) -> Body | Leaf:
        if isinstance(child, Body):
            return replace(child, children=tuple(map(shuffled, child.children)))
        hardware = cascade.einsums[cascade.place(child.einsum)].mapspace.architecture
        return replace(child, nests=tuple(_shuffled(random, hardware, nest) for nest in child.nests))

    return replace(mapping, children=tuple(map(shuffled, mapping.children)))


def _shuffled(random: Random, hardware: Architecture, nest: PrivateNest) -> PrivateNest:
    pairs = list(zip(nest.placed(hardware).nodes, nest.mapping.nodes, strict=True))
    stores = [
        (n.component, e) for n, e in pairs if isinstance(n, StorageLevel) and isinstance(e, StorageMapping)
    ]
    outermost, *inner = [(name, own) for name, own in stores if own.keep or own.temporal or name == "Main"]
    random.shuffle(inner)
    order = tuple(name for name, _ in inner)
    architecture = with_order(hardware, order)
    entries = iter([outermost, *inner])
    fanouts = iter([own for _, own in pairs if isinstance(own, FanoutMapping)])
    nodes: list[NodeMapping] = []
    for node in architecture.nodes:
        if isinstance(node, Fanout):
            nodes.append(next(fanouts))
        elif node.component == "Main" or node.component in order:
            nodes.append(next(entries)[1])
        else:
            nodes.append(StorageMapping())
    return PrivateNest(Mapping(tuple(nodes)), order=order)
