"""Random mapspaces of Einsums beyond the usual ones, and what several tests of the search share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import cycle
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.counting import COUNTINGS
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.numbers import divisors, prime_factors
from model.problem import Dataspace, Problem, Term
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.bruteforce import count_mappings

COEFFICIENTS = (1, 1, 1, 2, 2, 3, 4, -1, -2)


def unusual_einsum(random: Random) -> tuple[Dataspace, ...]:
    """Operands with long sums, negative coefficients and dimensions in several ranks; a dense output."""
    dims = "PQRSK"[: random.randint(2, 5)]
    operands = []
    for name in ("A", "B"):
        ranks = []
        for _ in range(random.randint(0, 3)):
            terms = random.sample(dims, min(random.choice((1, 1, 2, 2, 3)), len(dims)))
            ranks.append(tuple(Term(dim, random.choice(COEFFICIENTS)) for dim in terms))
        operands.append(Dataspace(name, tuple(ranks)))
    loose = random.sample(dims, random.randint(1, len(dims)))
    ranks = []
    while loose:
        size = random.choice((1, 1, 2, 3))
        ranks.append(tuple(Term(dim, random.choice((1, 1, -1))) for dim in loose[:size]))
        loose = loose[size:]
    return (*operands, Dataspace("Z", tuple(ranks), read_write=True))


def windows_anywhere(random: Random) -> tuple[Dataspace, ...]:
    """Any dataspace may slide along any dimensions, up to three of them together."""
    return tuple(Dataspace(name, tuple(_sliding_ranks(random)), name == "Z") for name in "ABZ")


def _sliding_ranks(random: Random) -> Iterator[tuple[Term, ...]]:
    dims = [dim for dim in random.sample("PQRS", 4) if random.random() < 0.7] or ["P"]
    while dims:
        together = random.choice((1, 2, 3))
        yield tuple(Term(dim, random.choice((1, 1, 2, 3))) for dim in dims[:together])
        dims = dims[together:]


def unusual_mapspaces(
    monkeypatch: pytest.MonkeyPatch, seed: int, count: int, max_mappings: int
) -> list[Mapspace]:
    """Mapspaces of `unusual_einsum`, otherwise as `tests.strategies.random_mapspaces` draws them."""
    monkeypatch.setattr(strategies, "EINSUMS", (unusual_einsum,))
    return strategies.random_mapspaces(seed, count, max_mappings)


def with_signs(random: Random, mapspace: Mapspace) -> Mapspace:
    """The mapspace with the sign of every coefficient drawn anew."""

    def signed(term: Term) -> Term:
        return replace(term, coefficient=term.coefficient * random.choice((1, -1)))

    spaces = (
        replace(space, ranks=tuple(tuple(map(signed, rank)) for rank in space.ranks))
        for space in mapspace.problem.dataspaces
    )
    return replace(mapspace, problem=replace(mapspace.problem, dataspaces=tuple(spaces)))


def under_both_rules(mapspaces: Iterable[Mapspace]) -> Iterator[Mapspace]:
    """The mapspaces, counted by each rule in turn: half of them by either."""
    for mapspace, counting in zip(mapspaces, cycle(COUNTINGS), strict=False):
        yield replace(mapspace, counting=counting)


def _drawn(draw: Callable[[Random], Mapspace], seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces with a mapping at least, and not too many."""
    random = Random(seed)
    found: list[Mapspace] = []
    while len(found) < count:
        mapspace = draw(random)
        if 0 < count_mappings(mapspace, max_mappings, innermost_orders=False) <= max_mappings:
            found.append(mapspace)
    return found


def register_mapspaces(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces with small levels for one dataspace each, so that tiles often stay over several slots."""
    return _drawn(_register_mapspace, seed, count, max_mappings)


def _register_mapspace(random: Random) -> Mapspace:
    problem = strategies.random_problem(random, random.choice((3, 4, 4, 5)))
    names = [space.name for space in problem.dataspaces]
    nodes: list[StorageLevel | Fanout] = [strategies._dram(random, problem)]
    keep = [KeepRules(frozenset(names))]
    if random.random() < 0.4:
        nodes.append(strategies._fanout(random, problem, "array"))
    tenants = [*random.sample(names, len(names)), *random.sample(names, random.randint(0, 1))]
    for number, tenant in enumerate(tenants):
        level = strategies._storage(random, problem, f"register{number}", 1)
        size = random.choice((1, 1, 2, 4, None))
        nodes.append(replace(level, size_words=size, min_utilization=Fraction(0)))
        keep.append(KeepRules(frozenset((tenant,)), frozenset(names) - {tenant}))
    architecture = Architecture("registers", tuple(nodes), Compute("mac", energy=1000), units_per_pj=1000)
    return Mapspace(
        problem,
        architecture,
        tuple(strategies._temporal_rules(random, problem) for _ in architecture.levels),
        tuple(strategies._spatial_rules(random, problem) for _ in architecture.fanouts),
        tuple(keep),
    )


def sliding_register_mapspaces(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces of one window over a small level after the other, so that its lead is several slots off."""
    return _drawn(_sliding_register_mapspace, seed, count, max_mappings)


def _sliding_register_mapspace(random: Random) -> Mapspace:
    problem = _one_window(random)
    names = frozenset(space.name for space in problem.dataspaces)
    nodes: list[StorageLevel | Fanout] = [strategies._dram(random, problem)]
    keep = [KeepRules(names)]
    for number in range(random.choice((3, 4, 4, 5))):
        if random.random() < 0.15:
            nodes.append(Fanout(f"array{number}", random.choice((2, 3)), 1))
        tenants = frozenset(random.choice(("A", "A", "W", "W", "Z", "AZ", "AW")))
        level = strategies._storage(random, problem, f"register{number}", 1)
        size = random.choice((1, 1, 1, 2, 3, 4, None) if len(tenants) == 1 else (2, 4, 8, None))
        nodes.append(replace(level, size_words=size, min_utilization=Fraction(0)))
        keep.append(KeepRules(tenants, names - tenants))
    architecture = Architecture("registers", tuple(nodes), Compute("mac", energy=1000), units_per_pj=1000)
    return Mapspace(
        problem,
        architecture,
        tuple(strategies._temporal_rules(random, problem) for _ in architecture.levels),
        tuple(strategies._spatial_rules(random, problem) for _ in architecture.fanouts),
        tuple(keep),
    )


def _one_window(random: Random) -> Problem:
    """A convolution in one dimension, with one or two more that leave some dataspaces alone."""
    near, far = random.choice(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (3, 1), (1, 3), (2, 3)))
    bounds = {"P": random.choice((4, 6, 8, 8, 9, 12)), "R": random.choice((2, 2, 3, 3, 4))}
    ranks: dict[str, list[tuple[Term, ...]]] = {
        "A": [(Term("P", near), Term("R", far))],
        "W": [(Term("R"),)],
        "Z": [(Term("P"),)],
    }
    for dim, indexed in random.sample((("M", "WZ"), ("M", "WZ"), ("C", "AW"), ("Q", "AZ")), 2):
        if dim not in bounds and random.random() < 0.6:
            bounds[dim] = random.choice((2, 2, 3))
            for name in indexed:
                ranks[name].append((Term(dim),))
    spaces = tuple(Dataspace(name, tuple(own), name == "Z") for name, own in ranks.items())
    return Problem("one window", tuple(bounds), tuple(bounds.values()), spaces)


def windowed_mapspaces(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces of windows along one to three ranks, of operands or outputs, over registers of few words."""
    return _drawn(_windowed_mapspace, seed, count, max_mappings)


def _windowed_mapspace(random: Random) -> Mapspace:
    problem = _windows(random)
    names = frozenset(space.name for space in problem.dataspaces)
    nodes: list[StorageLevel | Fanout] = [strategies._dram(random, problem)]
    keep = [KeepRules(names)]
    if random.random() < 0.3:
        nodes.append(Fanout("array", random.choice((2, 3)), 1))
    if random.random() < 0.3:
        nodes.append(strategies._storage(random, problem, "buffer", 20_000))
        keep.append(KeepRules(names))
    for tenant in random.sample(sorted(names), random.randint(1, len(names))):
        level = strategies._storage(random, problem, f"register_{tenant}", 100)
        size = random.choice((1, 1, 1, 2, 3, 4))
        nodes.append(replace(level, size_words=size, min_utilization=Fraction(0)))
        keep.append(KeepRules(frozenset(tenant), names - {tenant}))
    architecture = Architecture("windows", tuple(nodes), Compute("mac", energy=1000), units_per_pj=1000)
    still = TemporalRules(tuple(FactorRule(dim, "=", 1) for dim in problem.dims))
    rules = (TemporalRules(), *(random.choice((TemporalRules(), still, still)) for _ in keep[1:]))
    return Mapspace(problem, architecture, rules, (SpatialRules(),) * len(architecture.fanouts), tuple(keep))


def _windows(random: Random) -> Problem:
    """A convolution along one to three ranks, or the operation that spreads its operand over windows."""
    dims, ranks = ["K"], []
    for position, tap in random.sample(("PR", "QS", "TU", "TR"), random.choice((1, 1, 1, 2, 2, 3))):
        stride, dilation = random.choice(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (2, 3)))
        turned = random.random() < 0.15
        ranks.append((Term(position, stride), Term(tap, -dilation if turned else dilation)))
        dims += [dim for dim in (position, tap) if dim not in dims]
    if len(ranks) == 1 and random.random() < 0.3:
        dims.append("X")
        ranks = [(*ranks[0], Term("X", random.choice((1, 2))))]
    used = {term.dim for rank in ranks for term in rank}
    bounds = dict.fromkeys(dims, 1)
    for dim in random.choices(dims[1:], k=random.randint(2, 3)):
        bounds[dim] *= random.choice((2, 2, 2, 3, 3, 5))
    bounds["K"] = random.choice((1, 1, 2, 3))
    sparse = tuple((Term(dim),) for dim in dims if dim in "PQT")
    taps = ((Term("K"),), *((Term(dim),) for dim in dims if dim in used - set("PQT")))
    window, other = Dataspace("A", tuple(ranks)), Dataspace("Z", ((Term("K"),), *sparse), read_write=True)
    if random.random() < 0.3:
        window, other = replace(window, name="Z", read_write=True), Dataspace("A", other.ranks)
    return Problem("windows", tuple(dims), tuple(bounds.values()), (window, Dataspace("W", taps), other))


def alike_mapspaces(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces with dimensions that no dataspace tells apart, and fanouts that unroll different ones."""
    return _drawn(_alike_mapspace, seed, count, max_mappings)


def _alike_mapspace(random: Random) -> Mapspace:
    """Up to three dimensions that are alike; most dimensions may be unrolled by one of the fanouts only."""
    names = "BMNK"[: random.randint(3, 4)]
    several = tuple((Term(dim),) for dim in names[:-1])
    spaces = (
        Dataspace("A", (*several, (Term("K"),))),
        Dataspace("W", ((Term("K"),),)),
        Dataspace("Z", several, read_write=True),
    )
    dims = (*names[:-1], "K")
    problem = Problem("alike", dims, tuple(random.choice((2, 2, 3, 4)) for _ in dims), spaces)
    nodes: list[StorageLevel | Fanout] = [strategies._dram(random, problem)]
    for number in range(random.choice((2, 2, 3))):
        nodes.append(Fanout(f"array{number}", *random.choice(((2, 1), (2, 2), (3, 1), (4, 1)))))
        size = random.choice((None, None, 4, 8, 12, 18))
        energy = AccessEnergy(*(random.choice((1, 10, 100)) for _ in range(3)))
        nodes.append(StorageLevel(f"buffer{number}", size_words=size, energy=energy))
    fanouts = [node for node in nodes if isinstance(node, Fanout)]
    owner = {dim: random.choice(fanouts) for dim in dims}
    rules = (
        SpatialRules(
            tuple(FactorRule(d, "=", 1) for d in dims if owner[d] is not own and random.random() < 0.8)
        )
        for own in fanouts
    )
    levels = [node for node in nodes if isinstance(node, StorageLevel)]
    fixed = (
        tuple(FactorRule(dim, "=", 1) for dim in dims if random.random() < share)
        for share in (*([0.9] * (len(levels) - 1)), 0.3)
    )
    return Mapspace(
        problem,
        Architecture("alike", tuple(nodes), Compute("mac", energy=1)),
        tuple(map(TemporalRules, fixed)),
        tuple(rules),
        (KeepRules(frozenset("AWZ")),) * len(levels),
        min_parallelism=Fraction(random.choice((1, 2, 2, 3))),
    )


def fixed_mapspaces(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces whose factors are all fixed: nothing but the orders of the loops is open."""
    return _drawn(_fixed_mapspace, seed, count, max_mappings)


def unrolled_mapspaces(seed: int, count: int, max_mappings: int) -> list[Mapspace]:
    """Mapspaces with fixed factors and with fanouts between most levels, which unroll what they can."""

    def draw(random: Random) -> Mapspace:
        return _fixed_mapspace(random, (1, 2, 4, 6, 6, 8, 12), random.randint(1, 3), unrolled=0.6)

    return _drawn(draw, seed, count, max_mappings)


def _fixed_mapspace(
    random: Random,
    bounds: Sequence[int] = (1, 2, 2, 3, 3, 4, 5, 6),
    fanouts: int = 0,
    unrolled: float = 0.4,
) -> Mapspace:
    """Levels that hold everything they keep: few or one dataspace each, with bandwidths now and then."""
    spaces = random.choice(strategies.EINSUMS)(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    problem = Problem("fixed", dims, tuple(random.choice(bounds) for _ in dims), spaces)
    names = [space.name for space in spaces]
    tenants = [frozenset((name,)) for name in random.sample(names, len(names)) if random.random() < 0.8]
    if random.random() < 0.4:
        tenants.insert(0, frozenset(name for name in names if random.random() < 0.7))
    levels = [_priced_level(random, f"level{number}") for number in range(len(tenants))]
    nodes: list[StorageLevel | Fanout] = [strategies._dram(random, problem), *levels]
    for number in range(fanouts or random.random() < 0.3):
        nodes.insert(random.randint(1, len(nodes)), Fanout(f"array{number}", random.choice((2, 3, 4))))
    architecture = Architecture("fixed", tuple(nodes), Compute("mac", energy=1))
    return _with_fixed_factors(
        random,
        problem,
        architecture,
        tuple(KeepRules(own, frozenset(names) - own) for own in tenants),
        unrolled,
    )


def _priced_level(random: Random, name: str) -> StorageLevel:
    prices = (random.choice((0, 1, 5, random.randint(1, 60), random.randint(1, 300))) for _ in range(3))
    return StorageLevel(
        name,
        energy=AccessEnergy(*prices),
        read_bandwidth=strategies._bandwidth(random),
        write_bandwidth=strategies._bandwidth(random),
    )


def _with_fixed_factors(
    random: Random,
    problem: Problem,
    architecture: Architecture,
    keep: tuple[KeepRules, ...],
    unrolled: float,
) -> Mapspace:
    """The mapspace of one way to split the bounds; the order of a level's loops is ruled now and then."""
    levels, fanouts = len(architecture.levels), architecture.fanouts
    shares = [random.choice((0.1, 1, 3)) for _ in range(levels)]
    temporal, spatial = (
        [[1] * len(problem.dims) for _ in range(levels)],
        [[1] * len(problem.dims) for _ in fanouts],
    )
    for d, bound in enumerate(problem.bounds):
        left = bound
        for own, fanout in zip(spatial, fanouts, strict=True):
            fits = [n for n in divisors(left) if math.prod(own) * n <= fanout.mesh_x]
            own[d] = random.choice(fits) if random.random() < unrolled else 1
            left //= own[d]
        for prime in (p for p, times in prime_factors(left) for _ in range(times)):
            temporal[random.choices(range(levels), shares)[0]][d] *= prime
    ends = [strategies._ends(random, problem) if random.random() < 0.25 else ((), ()) for _ in temporal]

    def exactly(factors: Sequence[int]) -> tuple[FactorRule, ...]:
        return tuple(FactorRule(dim, "=", n) for dim, n in zip(problem.dims, factors, strict=True))

    return Mapspace(
        problem,
        architecture,
        tuple(TemporalRules(exactly(own), *end) for own, end in zip(temporal, ends, strict=True)),
        tuple(SpatialRules(exactly(own)) for own in spatial),
        (KeepRules(frozenset(space.name for space in problem.dataspaces)), *keep),
    )


def told_apart(space: SearchSpace, stage: int, factors: Sequence[Sequence[int]]) -> tuple[object, ...]:
    """What bounds and costs depend on of the factors of a stage's fanouts.

    It matters at which fanout windows are unrolled, and tiles that are no partition of what is produced;
    otherwise only products do, and how many children each fanout uses where a level gates their power.
    """
    places, dims = space.fanouts_below[stage], range(len(space.active))
    fanouts = [space.architecture.fanouts[place] for place in places]
    together = tuple(math.prod(own[d] for own in factors) for d in dims)
    counted = tuple(
        math.prod(
            own[d]
            for fanout, own in zip(fanouts, factors, strict=True)
            for d in dims
            if d in view.relevant or view.name in fanout.no_multicast
        )
        for view in space.views
    )
    odd = {d for view in space.views if view.read_write and not view.simple for d in view.relevant}
    windows = tuple(own[d] for own in factors for d in sorted(space.window_dims | odd))
    gated = any(level.gating_fanouts in places[1:] for level in space.levels)
    units = tuple(math.prod(own) for own in factors) if gated else ()
    return together, counted, windows, units
