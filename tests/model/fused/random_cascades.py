"""Small cascades, and fused mappings of them at random."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Access, Cascade, CascadeEinsum
from model.fused.check import FusedMappingError, check_body, check_fused, check_tree
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored
from model.fused.visits import Visits, path_dims
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import KeepRules, Mapspace, SpatialRules, TemporalRules
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


def random_cascade(random: Random, name: str) -> Cascade:
    """Bounds at random, windows that fit the tensors that they slide over, and two or three memories."""
    shape = SHAPES[name]
    letters = sorted({char for text in shape for char in text if char.islower()})
    sizes = {dim: random.choice((2, 2, 3, 4, 4, 6)) for dim in letters}
    if name == "projections":
        sizes["p"] = sizes["m"]
    if name == "skip":
        sizes["d"] = sizes["b"]
    if name in ("window", "depthwise", "residual"):
        sizes["r"] = random.choice((2, 3))
        sizes["p"] = sizes["q"] + sizes["r"] - 1
    if name == "residual":
        sizes["q"] = random.choice((4, 6))
        sizes["p"] = sizes["q"] + sizes["r"] - 1
    if name == "two windows":
        sizes |= {"x": random.choice((2, 4)), "y": 2, "r": random.choice((1, 2, 3)), "s": 2}
        sizes["q"] = sizes["x"] + sizes["y"] - 1
        sizes["p"] = 2 * (sizes["q"] - 1) + sizes["r"] + random.choice((0, 1))
    if name == "plane":
        sizes |= {"x": random.choice((2, 4)), "y": random.choice((2, 3)), "r": 2, "s": 2}
        sizes |= {"p": sizes["x"] + 1, "q": sizes["y"] + 1}
    return cascade_of(shape, sizes, random_architecture(random), random.choice((1, 1, 3)))


def random_architecture(random: Random) -> Architecture:
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
    if random.random() < 0.5:
        nodes += (Fanout("PE", 4, no_multicast=frozenset(random.sample(["A", "V"], 1))),)
        nodes += (StorageLevel("RF", size_words=12, energy=prices[2]),)
    return Architecture("random", nodes, Compute("MAC", energy=2))


def loop_choices(cascade: Cascade, below: Sequence[int]) -> Iterator[dict[str, str]]:
    """Every assignment of a dimension per Einsum that a loop of a body may run over."""
    candidates = [
        [(cascade.einsums[place].name, dim) for dim in cascade.einsums[place].problem.dims] for place in below
    ]
    for chosen in product(*candidates):
        loop = SharedLoop(2, chosen)
        body = Body((loop,), tuple(Leaf(cascade.einsums[place].name, ()) for place in below))
        try:
            check_body(cascade, body)
        except FusedMappingError:
            continue
        yield dict(chosen)


def random_fused(random: Random, cascade: Cascade) -> FusedMapping | None:
    """A fused mapping, None if the draw was none."""
    children = _tree(random, cascade, list(range(len(cascade.einsums))), {})
    skeleton = FusedMapping(tuple(children))
    stored = []
    for tensor in cascade.intermediates:
        users = [skeleton.paths[place] for place in cascade.users[tensor]]
        most = min(a.shared(b) for a in users for b in users)
        if random.random() < 0.75:
            depth = most if random.random() < 0.7 else random.randint(0, most)
            stored.append(Stored(tensor, "GLB", depth))
    skeleton = FusedMapping(skeleton.children, tuple(stored))
    try:
        check_tree(cascade, skeleton)
        filled = FusedMapping(
            tuple(_fill(random, cascade, skeleton, child) for child in skeleton.children), tuple(stored)
        )
        check_fused(cascade, filled)
    except FusedMappingError:
        return None
    return filled


def _tree(
    random: Random, cascade: Cascade, places: list[int], cut: dict[tuple[str, str], int]
) -> list[Body | Leaf]:
    if len(places) == 1:
        return [Leaf(cascade.einsums[places[0]].name, ())]
    if random.random() < 0.25:
        at = random.randint(1, len(places) - 1)
        return [*_tree(random, cascade, places[:at], cut), *_tree(random, cascade, places[at:], cut)]
    choices = list(loop_choices(cascade, places))
    if not choices:
        at = random.randint(1, len(places) - 1)
        return [*_tree(random, cascade, places[:at], cut), *_tree(random, cascade, places[at:], cut)]
    loops: list[SharedLoop] = []
    cut = dict(cut)
    for _ in range(random.choice((1, 1, 2, 2, 3))):
        dims = random.choice(choices)
        last = cascade.einsums[places[-1]]
        left = last.problem.bound[dims[last.name]] // cut.get((last.name, dims[last.name]), 1)
        trips = [f for f in range(2, left + 1) if left % f == 0 or random.random() < 0.2]
        trips = [f for f in trips if (f - 1) * -(-left // f) < left]
        if trips:
            loops.append(SharedLoop(random.choice(trips), tuple(dims.items())))
            for pair in dims.items():
                cut[pair] = cut.get(pair, 1) * loops[-1].trips
    inner = _split(random, cascade, places, cut)
    return [Body(tuple(loops), tuple(inner))] if loops else inner


def _split(
    random: Random, cascade: Cascade, places: list[int], cut: dict[tuple[str, str], int]
) -> list[Body | Leaf]:
    """Children of a body: at least two."""
    at = random.randint(1, len(places) - 1)
    return [*_tree(random, cascade, places[:at], cut), *_tree(random, cascade, places[at:], cut)]


def _fill(random: Random, cascade: Cascade, mapping: FusedMapping, child: Body | Leaf) -> Body | Leaf:
    if isinstance(child, Body):
        return Body(child.loops, tuple(_fill(random, cascade, mapping, below) for below in child.children))
    place = cascade.place(child.einsum)
    einsum, path = cascade.einsums[place], mapping.paths[place]
    if einsum.is_copy:
        return child
    held = tuple(
        Held(access.dataspace, _held_depth(random, cascade, mapping, place, access.tensor))
        for access in einsum.accesses
        if access.tensor not in mapping.stored_at and random.random() < 0.3
    )
    visits = Visits(cascade, mapping)
    dims = path_dims(path, len(path.loops))
    sizes = [visits.extents(place, dim, len(path.loops)) for dim in dims]
    nests = []
    kinds = list(product(*sizes))
    for chosen in kinds:
        bound = {**einsum.problem.bound, **dict(zip(dims, chosen, strict=True))}
        problem = Problem(einsum.name, einsum.problem.dims, tuple(bound.values()), einsum.problem.dataspaces)
        # The nests of one Einsum keep its tensors in the same memories.
        seed = Random(place) if len(kinds) > 1 else random
        nests.append(random_nest(random, einsum, problem, mapping, held, len(kinds) == 1, seed))
    return Leaf(child.einsum, tuple(nests), held)


def _held_depth(random: Random, cascade: Cascade, mapping: FusedMapping, place: int, tensor: str) -> int:
    path, writer = mapping.paths[place], cascade.writers.get(tensor)
    others = [] if writer is None else (cascade.readers(tensor) if writer == place else [writer])
    least = max((path.shared(mapping.paths[other]) for other in others), default=0)
    return random.randint(least, len(path.loops))


def random_nest(
    random: Random,
    einsum: CascadeEinsum,
    problem: Problem,
    mapping: FusedMapping,
    held: Sequence[Held],
    spread: bool,
    keeping: Random,
) -> PrivateNest:
    """Factors, orders and places at random."""
    places = random.choice((1, 1, 2, 3))
    nodes = einsum.mapspace.architecture.nodes
    order: list[StorageLevel | Fanout] = [nodes[0], *[nodes[1]] * places, *nodes[2:]]
    usable = [i for i, node in enumerate(order) if spread or not isinstance(node, Fanout)]
    factors = [dict.fromkeys(problem.dims, 1) for _ in order]
    for dim, bound in problem.bound.items():
        for prime, power in prime_factors(bound):
            for _ in range(power):
                factors[random.choice(usable)][dim] *= prime
    above = {tile.dataspace for tile in held}
    outside = {a.dataspace for a in einsum.accesses if a.tensor not in mapping.stored_at}
    at_home = {a.dataspace for a in einsum.accesses} - outside
    home = {
        space.name: random.randint(1, places) if keeping.random() < 0.7 else None
        for space in problem.dataspaces
        if space.name not in above | at_home
    }
    entries: list[NodeMapping] = []
    for number, (node, own) in enumerate(zip(order, factors, strict=True)):
        dims = random.sample(problem.dims, len(problem.dims))
        if isinstance(node, Fanout):
            entries.append(FanoutMapping(tuple(SpatialLoop(d, own[d], "x") for d in dims if own[d] > 1)))
            continue
        loops = tuple(Loop(dim, own[dim]) for dim in dims if own[dim] > 1)
        keep = outside if number == 0 else {name for name, at in home.items() if at == number}
        if number > places:
            keep = {space.name for space in problem.dataspaces if keeping.random() < 0.6}
        entries.append(StorageMapping(loops, frozenset(keep)))
    return PrivateNest(Mapping(tuple(entries)), (("GLB", places),) if places > 1 else ())
