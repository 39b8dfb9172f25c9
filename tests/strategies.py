"""Random small mapspaces: Einsums, architectures and constraints of every kind.

One builder serves both a seeded generator (`random_mapspaces`) and a hypothesis strategy (`mapspaces`),
which draws from a random source that hypothesis controls and shrinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from random import Random

from hypothesis import strategies as st

from model.architecture import (
    AccessEnergy,
    Architecture,
    Compute,
    Fanout,
    Node,
    Packing,
    Port,
    StorageLevel,
)
from model.counting import ACCELFORGE
from model.extents import ANY, PERFECT, Factors
from model.mapspace import (
    FactorRule,
    KeepRules,
    Mapspace,
    ParallelGroup,
    Relation,
    SpatialRules,
    TemporalRules,
    toll_rules,
)
from model.mapspace_size import mapspace_size
from model.numbers import divisors
from model.places import gathered, spread, spread_like
from model.problem import Dataspace, Problem, Term
from tests.bruteforce import count_mappings
from tests.mapspaces import free_mapspace

MAX_PRIMES = 6
EMPTY_SHARE = 0.25
PACKED_SHARE = 0.25
MESHES = ((2, 1), (1, 2), (2, 2), (3, 1), (4, 1), (2, 3), (4, 2))


def random_mapspaces(
    seed: int, count: int, max_mappings: int = 2000, packed_share: float = PACKED_SHARE
) -> list[Mapspace]:
    """Return `count` mapspaces of at most `max_mappings` mappings each, the same for the same seed."""
    return list(islice(endless_mapspaces(seed, max_mappings, packed_share), count))


def endless_mapspaces(
    seed: int, max_mappings: int = 2000, packed_share: float = PACKED_SHARE
) -> Iterator[Mapspace]:
    """Yield those of `random_mapspaces` without end, each drawn when it is asked for."""
    random = Random(seed)
    while True:
        yield random_mapspace(random, max_mappings, packed_share)


def mapspaces(max_mappings: int = 2000, packed_share: float = PACKED_SHARE) -> st.SearchStrategy[Mapspace]:
    """Strategy for mapspaces of at most `max_mappings` mappings."""
    return st.randoms(use_true_random=False).map(
        lambda random: random_mapspace(random, max_mappings, packed_share)
    )


def random_mapspace(random: Random, max_mappings: int, packed_share: float = PACKED_SHARE) -> Mapspace:
    """Draw mapspaces, with fewer prime factors as long as they are too large, until one fits.

    Mappings that differ only in the order of the innermost storage level's loops count once. A share of
    the mapspaces may have no mapping at all; others may have none within their capacities. In
    `packed_share` of them, values of the dataspaces differ in size.
    """
    mapspace = _random_mapspace(random, max_mappings)
    if random.random() >= packed_share:
        return mapspace
    return replace(mapspace, architecture=packed(random, mapspace.problem, mapspace.architecture))


def _random_mapspace(random: Random, max_mappings: int) -> Mapspace:
    keep_empty = random.random() < EMPTY_SHARE
    primes = random.randint(2, MAX_PRIMES)
    while True:
        mapspace = _draw(random, primes)
        mappings = count_mappings(mapspace, max_mappings, innermost_orders=False)
        if 0 < mappings <= max_mappings or (mappings == 0 and keep_empty):
            return mapspace
        if mappings > max_mappings:
            primes = max(1, primes - 1)


def _draw(random: Random, primes: int) -> Mapspace:
    problem = random_problem(random, primes)
    architecture = random_architecture(random, problem)
    levels = range(len(architecture.levels))
    groups = _parallel_groups(random, len(levels))
    keep = _keep_rules(random, problem, len(levels), groups)
    return Mapspace(
        problem=problem,
        architecture=_coalesce_outermost(architecture, keep[0].bypass),
        temporal=tuple(_temporal_rules(random, problem) for _ in levels),
        spatial=tuple(_spatial_rules(random, problem) for _ in architecture.fanouts),
        keep=keep,
        parallel=groups,
        min_parallelism=Fraction(random.choice((0, 0, 0, 0, 0, 0, 1, 2, 3))),
        objectives=(random.choice(("energy", "latency", "edp")),),
    )


def random_mapspaces_with_remainders(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Return `count` mapspaces with any factors, some bounds raised by one, the same for the same seed."""
    random, found = Random(seed), []
    while len(found) < count:
        mapspace = _random_mapspace(random, max_mappings // 3)
        bounds = tuple(b + random.choice((0, 1)) if b > 1 else 1 for b in mapspace.problem.bounds)
        wider = replace(mapspace, problem=replace(mapspace.problem, bounds=bounds), factors=ANY)
        if count_mappings(wider, max_mappings, innermost_orders=False) <= max_mappings:
            found.append(wider)
    return found


def random_mapspaces_with_places(
    seed: int, count: int, most: int, factors: Factors = PERFECT
) -> list[Mapspace]:
    """Return mapspaces in which memories are tight and have several places, of at most `most` mappings.

    With remainders they have other bounds.
    """
    random, found = Random(seed), list[Mapspace]()
    while len(found) < count:
        mapspace = _random_mapspace(random, most // 20)
        if factors == ANY:
            bounds = tuple(random.choice((1, 2, 3, 4, 5, 7)) for _ in mapspace.problem.bounds)
            mapspace = replace(mapspace, problem=replace(mapspace.problem, bounds=bounds), factors=ANY)
        words = footprint(mapspace.problem)
        nodes = [
            replace(node, size_words=random.randint(3, max(4, words // 2)))
            if isinstance(node, StorageLevel) and number
            else node
            for number, node in enumerate(mapspace.architecture.nodes)
        ]
        tight = replace(mapspace, architecture=replace(mapspace.architecture, nodes=tuple(nodes)))
        spacious = spread(tight)
        if factors == ANY and (max(bounds) < 3 or not 0 < _many_choices(spacious) <= most):
            continue
        if spacious.joint and 0 < count_mappings(spacious, most, innermost_orders=False) <= most:
            found.append(spacious)
    return found


def _many_choices(mapspace: Mapspace) -> int:
    """Factorizations times keep masks, before it is known which of them go together."""
    size = mapspace_size(mapspace)
    return size.factorizations * size.keep_masks


def with_tolls(random: Random, mapspace: Mapspace) -> Mapspace:
    """Return the mapspace with one or two tolls somewhere inside of its outermost memory."""
    even = gathered(mapspace)
    for number in range(random.choice((1, 1, 2))):
        even = _with_toll(random, even, f"toll{number}")
    return spread_like(mapspace, even)


def _with_toll(random: Random, mapspace: Mapspace, name: str) -> Mapspace:
    problem, nodes = mapspace.problem, mapspace.architecture.nodes
    place = random.randint(1, len(nodes))
    level = sum(isinstance(node, StorageLevel) for node in nodes[:place])
    held = [space.name for space in problem.dataspaces if space.name not in mapspace.keep[0].bypass]
    names = random.sample(held, min(len(held), random.randint(1, 2)))
    rate, leak = random.choice((None, None, Fraction(1, 2), Fraction(3, 2))), random.choice((0, 0, 20))
    price, directions = random.randint(0, 9_000), ("down", "up", "both")
    toll = StorageLevel(
        name,
        tolls=tuple((name, random.choice(directions)) for name in names),
        shared_bandwidth=rate,
        energy=AccessEnergy(price, 0, price, leak),
        gating_fanouts=random.choice((None, 0)),
    )
    loops, keep = toll_rules(toll, problem)
    groups = (
        replace(group, levels=tuple(own + (own >= level) for own in group.levels))
        for group in mapspace.parallel
    )
    return replace(
        mapspace,
        architecture=replace(mapspace.architecture, nodes=(*nodes[:place], toll, *nodes[place:])),
        temporal=(*mapspace.temporal[:level], loops, *mapspace.temporal[level:]),
        keep=(*mapspace.keep[:level], keep, *mapspace.keep[level:]),
        parallel=tuple(groups),
    )


def with_first_values(random: Random, problem: Problem) -> Problem:
    """Return the problem onto values of its outputs, some of them if there are several."""
    outputs = [space.name for space in problem.dataspaces if space.read_write]
    given = random.sample(outputs, random.randint(1, len(outputs)))
    spaces = (replace(space, given=space.name in given) for space in problem.dataspaces)
    return replace(problem, dataspaces=tuple(spaces))


def counted_as_accelforge(mapspace: Mapspace, random: Random) -> Mapspace:
    """Count by AccelForge's rule, with ports, leakage, and some children that share nothing."""
    names = [space.name for space in mapspace.problem.dataspaces]
    nodes, even = [], gathered(mapspace)
    for node in even.architecture.nodes:
        changes: dict[str, object] = {}
        if isinstance(node, StorageLevel):
            changes["block_size"] = 1
        if isinstance(node, StorageLevel) and random.random() < 0.4:
            changes["ports"] = (Port(Fraction(random.randint(0, 3), 2), Fraction(random.randint(0, 5), 3)),)
        if isinstance(node, StorageLevel) and random.random() < 0.4:
            changes["energy"] = replace(node.energy, leak_per_cycle=random.randint(1, 50))
        if isinstance(node, Fanout) and random.random() < 0.3:
            changes["no_multicast"] = frozenset(random.sample(names, 1))
        nodes.append(replace(node, **changes))
    architecture = replace(even.architecture, nodes=tuple(nodes))
    return spread_like(mapspace, replace(even, architecture=architecture, counting=ACCELFORGE))


def free_mapspaces_with_remainders(seed: int, count: int, most: int) -> list[Mapspace]:
    """Return `count` mapspaces without rules, with at most so many mappings with remainders."""
    random, found = Random(seed), []
    while len(found) < count:
        spaces = random.choice((gemm, convolution_1d, depthwise, mttkrp))(random)
        dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
        bounds = tuple(random.choice((1, 1, 2, 3, 5, 7)) for _ in dims)
        problem = Problem("small", dims, bounds, spaces)
        nodes = (
            replace(node, min_utilization=Fraction(0)) if isinstance(node, StorageLevel) else node
            for node in random_architecture(random, problem).nodes
        )
        mapspace = replace(free_mapspace(problem, *nodes), factors=ANY)
        if count_mappings(mapspace, most, innermost_orders=False) <= most and max(bounds) > 2:
            found.append(mapspace)
    return found


# ---------------------------------------------------------------- problems


def _rank(*terms: str | tuple[str, int]) -> tuple[Term, ...]:
    return tuple(Term(t) if isinstance(t, str) else Term(*t) for t in terms)


def _space(name: str, *ranks: tuple[Term, ...] | str, read_write: bool = False) -> Dataspace:
    return Dataspace(name, tuple(_rank(r) if isinstance(r, str) else r for r in ranks), read_write)


def gemm(random: Random) -> tuple[Dataspace, ...]:
    """Matrix product ``Z[m, n] += A[m, k] * B[k, n]``."""
    return _space("A", "M", "K"), _space("B", "K", "N"), _space("Z", "M", "N", read_write=True)


def batched_gemm(random: Random) -> tuple[Dataspace, ...]:
    """One matrix product per batch element."""
    return (
        _space("A", "H", "M", "K"),
        _space("B", "H", "K", "N"),
        _space("Z", "H", "M", "N", read_write=True),
    )


def _window(random: Random, position: str, tap: str) -> tuple[Term, ...]:
    """Input rank of a convolution, with a random stride and dilation."""
    stride, dilation = random.choice(((1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (2, 3)))
    return _rank((position, stride), (tap, dilation))


def convolution_1d(random: Random) -> tuple[Dataspace, ...]:
    """Convolution with channels along one axis."""
    return (
        _space("W", "C", "K", "R"),
        _space("I", "C", _window(random, "P", "R")),
        _space("O", "K", "P", read_write=True),
    )


def convolution_2d(random: Random) -> tuple[Dataspace, ...]:
    """Convolution with channels along two axes."""
    return (
        _space("W", "C", "K", "R", "S"),
        _space("I", "C", _window(random, "P", "R"), _window(random, "Q", "S")),
        _space("O", "K", "P", "Q", read_write=True),
    )


def depthwise(random: Random) -> tuple[Dataspace, ...]:
    """Each channel is convolved with a filter of its own."""
    return (
        _space("W", "C", "R", "S"),
        _space("I", "C", _window(random, "P", "R"), _window(random, "Q", "S")),
        _space("O", "C", "P", "Q", read_write=True),
    )


def grouped_convolution(random: Random) -> tuple[Dataspace, ...]:
    """Convolution whose channels fall into groups."""
    return (
        _space("W", "G", "C", "K", "R"),
        _space("I", "G", "C", _window(random, "P", "R")),
        _space("O", "G", "K", "P", read_write=True),
    )


def mttkrp(random: Random) -> tuple[Dataspace, ...]:
    """Matricised tensor times Khatri-Rao product."""
    return (
        _space("T", "I", "K", "L"),
        _space("B", "K", "J"),
        _space("C", "L", "J"),
        _space("Z", "I", "J", read_write=True),
    )


def elementwise(random: Random) -> tuple[Dataspace, ...]:
    """Product of two matrices entry by entry."""
    return _space("A", "M", "N"), _space("B", "M", "N"), _space("Z", "M", "N", read_write=True)


def two_outputs(random: Random) -> tuple[Dataspace, ...]:
    """A matrix product that also adds up its rows."""
    return (
        _space("A", "M", "K"),
        _space("B", "K", "N"),
        _space("Z", "M", "N", read_write=True),
        _space("S", "M", read_write=True),
    )


EINSUMS: tuple[Callable[[Random], tuple[Dataspace, ...]], ...] = (
    gemm,
    convolution_1d,
    convolution_2d,
    depthwise,
    grouped_convolution,
    mttkrp,
    batched_gemm,
    elementwise,
    two_outputs,
)
CONVOLUTIONS = (convolution_1d, convolution_2d, depthwise, grouped_convolution)


def random_problem(random: Random, primes: int) -> Problem:
    """Draw an Einsum whose bounds have `primes` prime factors in all."""
    einsum = random.choice(EINSUMS)
    spaces = einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    bound = dict.fromkeys(dims, 1)
    for _ in range(primes):
        bound[random.choice(dims)] *= random.choice((2, 2, 2, 2, 3, 3, 5))
    return Problem(einsum.__name__, dims, tuple(bound.values()), spaces)


# ----------------------------------------------------------- architectures


def random_architecture(random: Random, problem: Problem) -> Architecture:
    """Draw two to four storage levels with up to two fanouts below the outermost one."""
    levels = random.choice((2, 2, 3, 3, 3, 4))
    kinds = ["buffer"] * (levels - 1)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2))):
        kinds.insert(random.randint(0, len(kinds)), "fanout")
    nodes: list[Node] = [_dram(random, problem)]
    for position, kind in enumerate(kinds, start=1):
        name = f"{kind}{position}"
        nodes.append(
            _fanout(random, problem, name) if kind == "fanout" else _buffer(random, problem, nodes, name)
        )
    compute = Compute("mac", energy=random.choice((0, 1000, 1375)))
    return Architecture("random", tuple(nodes), compute, units_per_pj=1000)


def _some(random: Random, problem: Problem, chance: float) -> frozenset[str]:
    return frozenset(space.name for space in problem.dataspaces if random.random() < chance)


def _rarely_some(random: Random, problem: Problem) -> frozenset[str]:
    return _some(random, problem, 0.4) if random.random() < 0.12 else frozenset()


def _energy(random: Random, scale: int) -> AccessEnergy:
    if random.random() < 0.3:
        same = random.randint(0, scale)
        return AccessEnergy(same, same, same)
    leak = random.randint(1, 50) if random.random() < 0.2 else 0
    return AccessEnergy(random.randint(0, scale), random.randint(0, scale), random.randint(0, scale), leak)


def _bandwidth(random: Random, chance: float = 0.2) -> Fraction | None:
    if random.random() >= chance:
        return None
    return random.choice(
        (Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(4))
    )


def _storage(random: Random, problem: Problem, name: str, scale: int) -> StorageLevel:
    scaled = random.random() < 0.1
    return StorageLevel(
        name,
        block_size=random.choice((1, 1, 1, 2, 3, 4)),
        read_bandwidth=_bandwidth(random),
        write_bandwidth=_bandwidth(random),
        shared_bandwidth=_bandwidth(random, 0.1),
        bandwidth_scale=((problem.dataspaces[0].name, Fraction(random.randint(1, 5), 2)),) if scaled else (),
        network_fill_latency=random.randint(1, 9) if random.random() < 0.1 else 0,
        network_drain_latency=random.randint(1, 9) if random.random() < 0.1 else 0,
        energy=_energy(random, scale),
        no_temporal_reuse=_rarely_some(random, problem),
        rmw_first_update=_rarely_some(random, problem),
    )


def _dram(random: Random, problem: Problem) -> StorageLevel:
    dram = _storage(random, problem, "dram", 200_000)
    if random.random() < 0.9:
        return dram
    return replace(dram, size_words=random.randint(1, 2 * footprint(problem)))


def footprint(problem: Problem) -> int:
    """Words of all tensors, holes between strided points counted in."""
    return sum(
        math.prod(
            1 + sum(abs(t.coefficient) * (problem.bound[t.dim] - 1) for t in rank) for rank in space.ranks
        )
        for space in problem.dataspaces
    )


def _buffer(random: Random, problem: Problem, above: list[Node], name: str) -> StorageLevel:
    words = footprint(problem)
    fanouts = [node.size for node in above if isinstance(node, Fanout)]
    instances = math.prod(fanouts)
    least, most = random.choice(((3, max(4, words // 4)), (2, words), (2, words), (10 * words, 10 * words)))
    return replace(
        _storage(random, problem, name, random.choice((500, 5_000, 20_000))),
        size_words=random.randint(least, most),
        cluster_size=random.randint(1, instances + 1) if random.random() < 0.3 else 1,
        multiple_buffering=random.choice((Fraction(1),) * 6 + (Fraction(2), Fraction(3, 2))),
        min_utilization=random.choice((Fraction(0),) * 8 + (Fraction(1, 4), Fraction(1, 2))),
        gating_fanouts=random.choice((None, None, None, random.randint(0, len(fanouts)))),
        no_coalesce=_rarely_some(random, problem),
    )


def packed(random: Random, problem: Problem, architecture: Architecture) -> Architecture:
    """Let values of the dataspaces differ in size and in how they lie in the rows of some levels."""
    nodes = tuple(
        _packed_level(random, problem, node)
        if isinstance(node, StorageLevel) and random.random() < 0.7
        else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


def _packed_level(random: Random, problem: Problem, level: StorageLevel) -> StorageLevel:
    packing = tuple(
        Packing(
            space.name,
            block_size=random.choice((1, 1, 2, 3, 4)),
            size_per_value=random.choice((1, 1, 2, 3, 4)),
            accesses_per_block=random.choice((1, 1, 1, 2, 3)),
        )
        for space in problem.dataspaces
        if random.random() < 0.8
    )
    room = random.randint(1, 3)
    size_words = None if level.size_words is None else level.size_words * room
    return replace(level, packing=packing, size_words=size_words)


def as_part(random: Random, problem: Problem, architecture: Architecture) -> Architecture:
    """Let the problem stand for one of several parts of an execution, which share words and bandwidths."""
    nodes = tuple(
        _of_part(random, problem, node) if isinstance(node, StorageLevel) else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


def _of_part(random: Random, problem: Problem, level: StorageLevel) -> StorageLevel:
    shares = (
        (space.name, Fraction(random.randint(0, 7), 7))
        for space in problem.dataspaces
        if random.random() < 0.7
    )
    reads, writes = (Fraction(random.randint(0, 40), random.randint(1, 3)) for _ in range(2))
    return replace(level, free_first_touches=tuple(shares), other_reads=reads, other_writes=writes)


def _fanout(random: Random, problem: Problem, name: str) -> Fanout:
    return Fanout(name, *random.choice(MESHES), no_multicast=_rarely_some(random, problem))


def _coalesce_outermost(architecture: Architecture, bypassed: frozenset[str]) -> Architecture:
    """Drop ``no_coalesce`` from dataspaces that a buffer might be the outermost one to keep."""
    nodes = tuple(
        replace(node, no_coalesce=node.no_coalesce - bypassed) if isinstance(node, StorageLevel) else node
        for node in architecture.nodes
    )
    return replace(architecture, nodes=nodes)


# -------------------------------------------------------------- constraints


def _factor_rules(random: Random, problem: Problem, chance: float) -> tuple[FactorRule, ...]:
    rules = []
    for dim, bound in problem.bound.items():
        if random.random() >= chance:
            continue
        relation: Relation = random.choice(("=", "=", "<=", "<=", ">="))
        value = 1 if relation == "=" and random.random() < 0.5 else random.choice((*divisors(bound), 2))
        rules.append(FactorRule(dim, relation, value))
    return tuple(rules)


def _ends(random: Random, problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draw disjoint lists of dimensions for the inner and the outer end of an order."""
    dims = random.sample(problem.dims, len(problem.dims))
    listed = random.randint(1, len(dims))
    cut = random.choice((0, listed, listed, random.randint(0, listed)))
    return tuple(dims[:cut]), tuple(dims[cut:listed])


def _temporal_rules(random: Random, problem: Problem) -> TemporalRules:
    inner, outer = _ends(random, problem) if random.random() < 0.25 else ((), ())
    chance = random.choice((0.0, 0.0, 0.0, 0.3))
    return TemporalRules(_factor_rules(random, problem, chance), inner, outer)


def _spatial_rules(random: Random, problem: Problem) -> SpatialRules:
    inner, outer = _ends(random, problem) if random.random() < 0.3 else ((), ())
    factors = _factor_rules(random, problem, random.choice((0.0, 0.0, 0.3)))
    unlisted = [dim for dim in problem.dims if dim not in (*inner, *outer)]
    uncounted = frozenset(dim for dim in unlisted if (inner or outer) and random.random() < 0.4)
    fixed = tuple(FactorRule(dim, "=", 1) for dim in problem.dims if dim in uncounted)
    places = len(problem.dims) - len(uncounted)
    split = random.randint(0, places) if random.random() < 0.35 else None
    kept = tuple(rule for rule in factors if rule.dim not in uncounted)
    return SpatialRules((*kept, *fixed), inner, outer, uncounted, split)


def _parallel_groups(random: Random, levels: int) -> tuple[ParallelGroup, ...]:
    if levels < 3 or random.random() < 0.75:
        return ()
    first = random.randint(1, levels - 2)
    size = random.randint(2, levels - first)
    return (ParallelGroup(tuple(range(first, first + size)), random.random() < 0.5),)


def _keep_rules(
    random: Random, problem: Problem, levels: int, groups: tuple[ParallelGroup, ...]
) -> tuple[KeepRules, ...]:
    """Draw what each level must keep and bypass; levels of a ``!Parallel`` mostly leave it open."""
    names = [space.name for space in problem.dataspaces]
    grouped = {level for group in groups for level in group.levels}
    openness = random.choice((0.0, 0.0, 0.1, 0.3))
    rules = []
    for level in range(levels):
        free = 0.7 if level in grouped else openness
        drawn = {
            name: "free" if random.random() < free else random.choice(("keep",) * 4 + ("bypass",))
            for name in names
        }
        if level == 0:
            drawn = {name: "bypass" if random.random() < 0.02 else "keep" for name in names}
        rules.append(
            KeepRules(
                frozenset(name for name in names if drawn[name] == "keep"),
                frozenset(name for name in names if drawn[name] == "bypass"),
            )
        )
    return tuple(rules)
