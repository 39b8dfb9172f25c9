"""Small mapspaces whose memories may lie in any order, and complete enumerations of them.

An enumeration places each tile and each loop anywhere in the nest, and leaves it to the cost model which
nests there are. What it shares with `model.orders` is how a nest of one order is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import permutations, product
from math import prod
from random import Random

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.cost import evaluate_in
from model.counting import ACCELFORGE, Counting
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.numbers import divisors
from model.orders import in_order
from tests.model.cost.nests import MATMUL, problem, rank, space

BATCHED = (space("A", "M", "K"), space("B", "K"), space("Z", "M", read_write=True))
POINTWISE = (space("A", "M", "N"), space("B", "N"), space("Z", "M", "N", read_write=True))
TRANSPOSED = (space("A", rank("K"), rank("M")), space("B", "K", "M"), space("Z", "M", read_write=True))


def random_orders(random: Random, counting: Counting = ACCELFORGE, dims: int = 3) -> Mapspace:
    """A mapspace of two or three memories on chip, with one or two fanouts between them."""
    sizes = random.choice(((4, 2, 2), (2, 2, 4), (2, 3, 2), (4, 4, 1), (6, 2, 1)))[:dims]
    bounds = dict(zip("MNK", sizes, strict=False))
    spaces = random.choice((MATMUL, MATMUL, POINTWISE, BATCHED))
    task = problem(spaces, **{dim: bounds.get(dim, 1) for dim in "MNK" if _indexes(spaces, dim)})
    names = [own.name for own in task.dataspaces]
    memories = ("outer", "middle", "inner")[: random.choice((2, 3))]
    free = random.sample(memories, random.randint(1, len(memories)))
    nodes: list[StorageLevel | Fanout] = [_level(random, "dram", None)]
    rules = [KeepRules(keep=frozenset(names))]
    for name in memories:
        if random.random() < 0.6 and len(nodes) < 5:
            nodes.append(Fanout(f"above {name}", random.choice((1, 2)), 2))
        nodes.append(_level(random, name, random.choice((4, 7, 12, 20))))
        kept = {own: random.choice(("keep", "may", "not", "not")) for own in names}
        rules.append(
            KeepRules(
                keep=frozenset(own for own, how in kept.items() if how == "keep"),
                bypass=frozenset(own for own, how in kept.items() if how == "not"),
            )
        )
    if random.random() < 0.5:
        nodes.append(Fanout("array", 2))
    levels = sum(isinstance(node, StorageLevel) for node in nodes)
    return Mapspace(
        problem=task,
        architecture=Architecture("small", tuple(nodes), Compute("mac", energy=3), cycle_s=Fraction(1)),
        temporal=(TemporalRules(),) * levels,
        spatial=tuple(_spatial(random) for node in nodes if isinstance(node, Fanout)),
        keep=tuple(rules),
        counting=counting,
        free_order=frozenset(free),
    )


def _indexes(spaces: tuple, dim: str) -> bool:
    return any(dim in own.dims for own in spaces)


def _level(random: Random, name: str, size: int | None) -> StorageLevel:
    bandwidth = None if random.random() < 0.5 else Fraction(random.choice((1, 2, 3)), random.choice((1, 2)))
    energy = AccessEnergy(*(random.randint(1, 40) for _ in range(3)), leak_per_cycle=random.choice((0, 0, 2)))
    gate = random.choice((None, None, 0)) if name != "dram" else None
    return StorageLevel(name, size_words=size, shared_bandwidth=bandwidth, energy=energy, gating_fanouts=gate)


def _spatial(random: Random) -> SpatialRules:
    fixed = random.choice(((), (), ("M",), ("K",)))
    return SpatialRules(factors=tuple(FactorRule(dim, "=", 1) for dim in fixed))


def every_order(mapspace: Mapspace) -> Iterator[tuple[tuple[int, str], ...]]:
    """Yield the orders of every choice of what memories keep: all permutations that are allowed."""
    levels = mapspace.architecture.levels
    held = [(n, own.name) for n in range(1, len(levels)) for own in mapspace.problem.dataspaces]
    options = [
        [name in mapspace.keep[n].keep]
        if name in mapspace.keep[n].keep | mapspace.keep[n].bypass
        else [False, True]
        for n, name in held
    ]
    for chosen in product(*options):
        kept = [own for own, is_kept in zip(held, chosen, strict=True) if is_kept]
        for order in permutations(kept):
            if all(
                _may_precede(mapspace, first, second)
                for n, first in enumerate(order)
                for second in order[n + 1 :]
            ):
                yield order


def _may_precede(mapspace: Mapspace, first: tuple[int, str], second: tuple[int, str]) -> bool:
    if first[0] <= second[0]:
        return True
    levels = mapspace.architecture.levels
    is_free = {levels[first[0]].name, levels[second[0]].name} & mapspace.free_order
    return bool(is_free) and first[1] != second[1]


def every_mapping(mapspace: Mapspace, order: tuple[tuple[int, str], ...]) -> Iterator[Mapping]:
    """Yield the mappings of one order, each slot with its loops in one order."""
    own = in_order(mapspace, order)
    nodes = own.architecture.nodes
    slots = [n for n, node in enumerate(nodes) if isinstance(node, StorageLevel)]
    usable = [n for n in slots if n == 0 or own.keep[slots.index(n)].keep]
    fanouts = [n for n, node in enumerate(nodes) if isinstance(node, Fanout)]
    dims = mapspace.problem.dims
    splits = [list(_splits(mapspace.problem.bound[dim], len(usable) + len(fanouts))) for dim in dims]
    for chosen in product(*splits):
        at = {n: [own[place] for own in chosen] for place, n in enumerate((*usable, *fanouts))}
        across = [FanoutMapping(tuple(_along(dims, at[n]))) for n in fanouts]
        if all(
            _fits(nodes[n], part, rules) for n, part, rules in zip(fanouts, across, own.spatial, strict=True)
        ):
            spatial = iter(across)
            yield Mapping(
                tuple(
                    next(spatial) if n in fanouts else StorageMapping(_loops(dims, at.get(n)), kept.keep)
                    for n, kept in _with_keeps(nodes, own.keep)
                )
            )


def _with_keeps(nodes: tuple, keeps: tuple[KeepRules, ...]) -> Iterator[tuple[int, KeepRules]]:
    rules = iter(keeps)
    for n, node in enumerate(nodes):
        yield n, next(rules) if isinstance(node, StorageLevel) else KeepRules()


def _splits(bound: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (bound,)
        return
    for factor in divisors(bound):
        for rest in _splits(bound // factor, parts - 1):
            yield (factor, *rest)


def _loops(dims: tuple[str, ...], bounds: list[int] | None) -> tuple[Loop, ...]:
    pairs = zip(dims, bounds or [1] * len(dims), strict=True)
    return tuple(Loop(dim, bound) for dim, bound in pairs if bound > 1)


def _along(dims: tuple[str, ...], bounds: list[int]) -> Iterator[SpatialLoop]:
    pairs = ((dim, bound) for dim, bound in zip(dims, bounds, strict=True) if bound > 1)
    for number, (dim, bound) in enumerate(pairs):
        yield SpatialLoop(dim, bound, "y" if number == 0 else "x")


def _fits(fanout: Fanout, part: FanoutMapping, rules: SpatialRules) -> bool:
    bound = {loop.dim: loop.bound for loop in part.spatial}
    if not all(own.allows(bound.get(own.dim, 1)) for own in rules.factors):
        return False
    return _fits_mesh(fanout, list(bound.values()))


def _fits_mesh(fanout: Fanout, bounds: list[int]) -> bool:
    sides = product((0, 1), repeat=len(bounds))
    for side in sides:
        size = [1, 1]
        for number, bound in zip(side, bounds, strict=True):
            size[number] *= bound
        if size[0] <= fanout.mesh_x and size[1] <= fanout.mesh_y:
            return True
    return False


def small_orders(random: Random, most: int, counting: Counting = ACCELFORGE) -> Mapspace:
    """A mapspace of `random_orders` that has so many mappings at most, valid or not."""
    while True:
        mapspace = random_orders(random, counting)
        if sum(map(partial(_most_mappings, mapspace), every_order(mapspace))) <= most:
            return mapspace


def _most_mappings(mapspace: Mapspace, order: tuple[tuple[int, str], ...]) -> int:
    parts = 1 + len(order) + len(mapspace.architecture.fanouts)
    return prod(len(list(_splits(bound, parts))) for bound in mapspace.problem.bounds)


def priced(mapspace: Mapspace) -> list[tuple[int, int]]:
    """Energy and cycles of every valid mapping of any order."""
    found = []
    for order in every_order(mapspace):
        own = in_order(mapspace, order)
        for mapping in every_mapping(mapspace, order):
            try:
                cost = evaluate_in(own, mapping)
            except ValueError:
                continue  # a tile would be made of pieces
            if not any(own.kind in ("capacity", "min_utilization") for own in cost.violations):
                found.append((cost.energy, cost.cycles))
    return found
