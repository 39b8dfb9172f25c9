"""Complete enumeration of small mapspaces, and their optima by pricing every mapping.

It shares nothing with the search: the rules of a mapspace are applied one mapping at a time, and mappings
are priced by the cost model, the best ones by the plain one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, islice, permutations, product
from typing import NamedTuple

from model.architecture import Fanout
from model.cost import evaluate_in
from model.cost.batch import BatchEvaluator, encode
from model.cost.batch.counts import most_words
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import FactorRule, Mapspace, SpatialRules, TemporalRules
from model.numbers import divisors
from model.problem import Problem
from model.sparse import MappingError, evaluate_sparse_in

Factors = dict[str, int]
Orders = list[tuple[Loop, ...]]
Objective = str | tuple[str, ...]
Optimum = tuple[object, Mapping] | None

MOST_TOGETHER = 4096
"""Mappings that are priced together."""

MOST_EXACT = 1 << 53
"""Energies that doubles hold exactly are below it."""


class Priced(NamedTuple):
    """A mapping, its energy in the architecture's unit, and its cycles."""

    mapping: Mapping
    energy: int
    cycles: int


def enumerate_mappings(mapspace: Mapspace, *, innermost_orders: bool = True) -> Iterator[Mapping]:
    """Yield every mapping that the constraints of `mapspace` allow.

    Capacities and user-defined rules are left to the cost model, see `optima`.

    Loops of bound 1 are left out, so orders differ only in loops that do something. Of the axis
    assignments and orders of a fanout's spatial loops only the first that fits the mesh is yielded: the
    cost depends on how many children have equal data, and not on where they sit. With
    ``innermost_orders=False`` the innermost storage level's loops come in one order only: all of them lie
    below every boundary with temporal reuse, the arithmetic takes its operands anew at each step.
    """
    masks = list(_keep_masks(mapspace))
    for spatial, orders in _loops(mapspace, innermost_orders):
        for loops, mask in product(product(*orders), masks):
            if places_allowed(mapspace, loops, mask):
                yield _assemble(mapspace, loops, mask, spatial)


def places_allowed(
    mapspace: Mapspace, loops: Sequence[tuple[Loop, ...]], mask: Sequence[frozenset[str]]
) -> bool:
    """Whether rules on memories with several places allow the loops, and no place is there for nothing."""
    for rules in mapspace.joint:
        idle = [not mask[level] for level in rules.levels]
        if idle != sorted(idle):
            return False
        if any(loops[level] for level, own in zip(rules.levels[1:], idle[1:], strict=True) if own):
            return False
        joined = [loop for level in reversed(rules.levels) for loop in loops[level]]
        if not joined_allowed(rules.temporal, mapspace.problem, joined):
            return False
    return True


def joined_allowed(rules: TemporalRules, problem: Problem, loops: Sequence[Loop]) -> bool:
    """Whether rules allow the loops of all places of a memory together, innermost first."""
    factor = dict.fromkeys(problem.dims, 1)
    for loop in loops:
        factor[loop.dim] *= loop.bound
    if not all(rule.allows(factor[rule.dim]) for rule in rules.factors):
        return False
    middle = [dim for dim in problem.dims if dim not in (*rules.inner, *rules.outer)]
    groups = [*([dim] for dim in rules.inner), middle, *([dim] for dim in rules.outer)]
    places = [next(n for n, group in enumerate(groups) if loop.dim in group) for loop in loops]
    return places == sorted(places)


def valid_mappings(mapspace: Mapspace, *, innermost_orders: bool = True) -> Iterator[Priced]:
    """Yield the mappings of `enumerate_mappings` that break no limit and no rule, with what they cost.

    Where batches can tell, mappings are priced in batches, and each 17th by the plain cost model as well.
    """
    ported = any(level.ports for level in mapspace.architecture.levels)
    if mapspace.rules or ported or not mapspace.counting_rule.is_general or _too_many_words(mapspace.problem):
        yield from _priced_one_by_one(mapspace, innermost_orders)
        return
    problem, architecture = mapspace.problem, mapspace.architecture
    evaluator = BatchEvaluator(problem, architecture, mapspace.counting)
    mappings = enumerate_mappings(mapspace, innermost_orders=innermost_orders)
    while some := list(islice(mappings, MOST_TOGETHER)):
        batch = evaluator.evaluate(encode(problem, architecture, some))
        for row, mapping in enumerate(some):
            energy, cycles = int(batch.energy[row]), int(batch.cycles[row])
            if row % 17 == 0 or energy >= MOST_EXACT:
                plain = evaluate_in(mapspace, mapping)
                energy = plain.energy if energy >= MOST_EXACT else energy
                assert (plain.valid, plain.energy, plain.cycles) == (batch.valid[row], energy, cycles)
            if batch.valid[row]:
                yield Priced(mapping, energy, cycles)


def _too_many_words(problem: Problem) -> bool:
    """Whether batches cannot count the words of a dataspace."""
    return any(most_words(problem, space) >= 2**53 for space in problem.dataspaces)


def _priced_one_by_one(mapspace: Mapspace, innermost_orders: bool) -> Iterator[Priced]:
    """Yield the mappings priced by the plain model; where an order of loops breaks a limit, all do."""
    masks = list(_keep_masks(mapspace))
    for spatial, orders in _loops(mapspace, innermost_orders):
        for mask in masks:
            for loops in product(*orders):
                if not places_allowed(mapspace, loops, mask):
                    continue
                mapping = _assemble(mapspace, loops, mask, spatial)
                evaluation = evaluate_in(mapspace, mapping)
                if evaluation.violations:
                    break
                if evaluation.valid:
                    yield Priced(mapping, evaluation.energy, evaluation.cycles)


def _loops(mapspace: Mapspace, innermost_orders: bool) -> Iterator[tuple[list[FanoutMapping], list[Orders]]]:
    """Yield the spatial loops of every fanout, and the orders of the temporal ones of every storage level."""
    for factors, spatial in _placed_factors(mapspace):
        orders = [
            list(temporal_orders(rules, factors[node]))
            for node, rules in zip(mapspace.architecture.storage_indices, mapspace.temporal, strict=True)
        ]
        if not innermost_orders:
            orders[-1] = orders[-1][:1]
        yield spatial, orders


def _placed_factors(mapspace: Mapspace) -> Iterator[tuple[list[Factors], list[FanoutMapping]]]:
    """Yield the factors of every node that find room on the meshes, and the spatial loops of every fanout."""
    fanouts = mapspace.architecture.fanout_indices
    for factors in _factorizations(mapspace):
        spatial = _spatial_parts(mapspace, factors)
        if spatial is not None and _parallel_enough(mapspace, factors, fanouts):
            yield factors, spatial


def _parallel_enough(mapspace: Mapspace, factors: Sequence[Factors], fanouts: Sequence[int]) -> bool:
    least = mapspace.min_parallelism
    most = math.prod(factor for node in fanouts for factor in factors[node].values())
    return not least or (most >= least and units_in_use(mapspace.problem, factors, fanouts) >= least)


def count_mappings(mapspace: Mapspace, limit: int, *, innermost_orders: bool = True) -> int:
    """Count the mappings of `mapspace`, stopping at ``limit + 1``."""
    masks, count = sum(1 for _ in islice(_keep_masks(mapspace), limit + 1)), 0
    # Those of memories with several places are not all allowed.
    storage = list(zip(mapspace.architecture.storage_indices, mapspace.temporal, strict=True))
    ordered = storage if innermost_orders else storage[:-1]
    for factors, _ in _placed_factors(mapspace):
        count += masks * math.prod(_number_of_orders(rules, factors[node]) for node, rules in ordered)
        if count > limit:
            return limit + 1
    return count


def enumerate_sparse(mapspace: Mapspace) -> Iterator[Mapping]:
    """Yield every mapping of sparse data that the constraints of `mapspace` allow, in all orders.

    Formats and units see the order of spatial loops and the axes, too. Fanouts may have more children than
    there are: those that are skipped need no hardware. The cost model judges that.
    """
    masks = list(_keep_masks(mapspace))
    fanouts = mapspace.architecture.fanout_indices
    for factors in _factorizations(mapspace):
        if not _parallel_enough(mapspace, factors, fanouts):
            continue
        orders: list[list[tuple[Loop, ...]]] = [
            list(temporal_orders(rules, factors[node]))
            for node, rules in zip(mapspace.architecture.storage_indices, mapspace.temporal, strict=True)
        ]
        arranged = [
            list(dict.fromkeys(_arrangements(rules, factors[node])))
            for node, rules in zip(fanouts, mapspace.spatial, strict=True)
        ]
        for spatial in product(*arranged):
            for loops, mask in product(product(*orders), masks):
                yield _assemble(mapspace, loops, mask, spatial)


def _arrangements(rules: SpatialRules, factors: Factors) -> Iterator[FanoutMapping]:
    """Yield the loops of a fanout in every order, on every axis."""
    counted = [dim for dim in factors if dim not in rules.uncounted]
    free = [dim for dim in counted if dim not in (*rules.inner, *rules.outer)]
    for middle in permutations(free):
        order = (*rules.inner, *middle, *rules.outer)
        for split in range(len(order) + 1) if rules.split is None else (rules.split,):
            yield FanoutMapping(
                tuple(
                    SpatialLoop(dim, factors[dim], axis)
                    for axis, dims in (("x", order[:split]), ("y", order[split:]))
                    for dim in dims
                    if factors[dim] > 1
                )
            )


def sparse_optima(mapspace: Mapspace, objectives: Sequence[Objective]) -> list[Optimum]:
    """Return the optimum of each objective on sparse data, as `optima` does; energies in parts of a unit."""
    best: list[Optimum] = [None] * len(objectives)
    for mapping in enumerate_sparse(mapspace):
        try:
            evaluation = evaluate_sparse_in(mapspace, mapping)
        except MappingError:
            continue
        if not evaluation.valid:
            continue
        for i, objective in enumerate(objectives):
            value = objective_value(objective, evaluation.fixed_energy, evaluation.cycles)
            incumbent = best[i]
            if incumbent is None or value < incumbent[0]:
                best[i] = (value, mapping)
    return best


def optimum(mapspace: Mapspace, objective: Objective) -> Optimum:
    """Return the least value of `objective` and a mapping that has it, None when no mapping is valid."""
    return optima(mapspace, [objective])[0]


def optima(mapspace: Mapspace, objectives: Sequence[Objective]) -> list[Optimum]:
    """Return the optimum of each of `objectives`, pricing each mapping once.

    An objective is ``energy`` (the architecture's energy units), ``latency`` (cycles), ``edp`` (their
    product), or a tuple of these, whose value is the tuple of theirs in lexicographic order.
    """
    return list(_optima(mapspace, tuple(objectives)))


@lru_cache(maxsize=1000)
def _optima(mapspace: Mapspace, objectives: tuple[Objective, ...]) -> list[Optimum]:
    best: list[Optimum] = [None] * len(objectives)
    asked = {quantity.kind for rule in mapspace.rules for quantity in rule.quantities}
    for mapping, energy, cycles in valid_mappings(mapspace, innermost_orders="innermost" in asked):
        for i, objective in enumerate(objectives):
            value = objective_value(objective, energy, cycles)
            incumbent = best[i]
            if incumbent is None or value < incumbent[0]:
                best[i] = (value, mapping)
    for objective, found in zip(objectives, best, strict=True):
        plain = None if found is None else evaluate_in(mapspace, found[1])
        assert plain is None or plain.valid
        assert plain is None or objective_value(objective, plain.energy, plain.cycles) == found[0]
    return best


def objective_value(objective: Objective, energy: int, cycles: int) -> int | tuple[int, ...]:
    """Value of `objective` for a mapping with this energy and latency."""
    figures = {"energy": energy, "latency": cycles, "edp": energy * cycles}
    return figures[objective] if isinstance(objective, str) else tuple(figures[name] for name in objective)


def temporal_orders(rules: TemporalRules, factors: Factors) -> Iterator[tuple[Loop, ...]]:
    """Yield the orders (innermost first) of the nontrivial loops that `rules` allow."""
    live = [dim for dim, factor in factors.items() if factor > 1]
    inner = [dim for dim in rules.inner if dim in live]
    outer = [dim for dim in rules.outer if dim in live]
    middle = [dim for dim in live if dim not in (*inner, *outer)]
    for order in permutations(middle):
        yield tuple(Loop(dim, factors[dim]) for dim in (*inner, *order, *outer))


def _number_of_orders(rules: TemporalRules, factors: Factors) -> int:
    fixed = (*rules.inner, *rules.outer)
    return math.factorial(sum(factor > 1 and dim not in fixed for dim, factor in factors.items()))


def axis_choices(rules: SpatialRules, dims: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every set of dimensions that may lie along X; the others lie along Y."""
    listed = (*rules.inner, *rules.outer)
    free = [dim for dim in dims if dim not in listed and dim not in rules.uncounted]
    places = len(listed) + len(free)
    for split in range(places + 1) if rules.split is None else (rules.split,):
        beyond_inner = split - len(rules.inner)
        if beyond_inner <= 0:
            yield rules.inner[:split]
        elif beyond_inner <= len(free):
            yield from ((*rules.inner, *chosen) for chosen in combinations(free, beyond_inner))
        else:
            yield (*rules.inner, *free, *rules.outer[: beyond_inner - len(free)])


def _allowed(rules: Iterable[FactorRule], dim: str, factor: int) -> bool:
    return all(rule.allows(factor) for rule in rules if rule.dim == dim)


def _factorizations(mapspace: Mapspace) -> Iterator[list[Factors]]:
    """Yield, per node, the factor of every dimension."""
    problem, architecture = mapspace.problem, mapspace.architecture
    storage, spatial = iter(mapspace.temporal), iter(mapspace.spatial)
    rules = [
        next(spatial).factors if isinstance(node, Fanout) else next(storage).factors
        for node in architecture.nodes
    ]
    choices = [
        [
            split
            for chain in mapspace.extents(dim).chains(len(rules))
            for split in (chain[::-1],)
            if all(_allowed(rule, dim, factor) for rule, factor in zip(rules, split, strict=True))
        ]
        for dim in problem.dims
    ]
    for chosen in product(*choices):
        yield [
            {dim: split[node] for dim, split in zip(problem.dims, chosen, strict=True)}
            for node in range(len(rules))
        ]


def _spatial_parts(mapspace: Mapspace, factors: list[Factors]) -> list[FanoutMapping] | None:
    """Return the spatial loops of every fanout, None when some fanout's do not fit its mesh."""
    parts: list[FanoutMapping] = []
    architecture = mapspace.architecture
    for node, fanout, rules in zip(
        architecture.fanout_indices, architecture.fanouts, mapspace.spatial, strict=True
    ):
        part = _fit(fanout, rules, factors[node])
        if part is None:
            return None
        parts.append(part)
    return parts


def _fit(fanout: Fanout, rules: SpatialRules, factors: Factors) -> FanoutMapping | None:
    if math.prod(factors.values()) > fanout.size:
        return None
    for along_x in axis_choices(rules, list(factors)):
        along_y = [dim for dim in factors if dim not in along_x]
        width = math.prod(factors[dim] for dim in along_x)
        height = math.prod(factors[dim] for dim in along_y)
        if width <= fanout.mesh_x and height <= fanout.mesh_y:
            x = [SpatialLoop(dim, factors[dim], "x") for dim in along_x if factors[dim] > 1]
            y = [SpatialLoop(dim, factors[dim], "y") for dim in along_y if factors[dim] > 1]
            return FanoutMapping((*x, *y))
    return None


def units_in_use(problem: Problem, factors: Sequence[Factors], fanouts: Sequence[int]) -> int:
    """Arithmetic units that some iteration is computed on, dimension by dimension; nodes outermost first."""
    units = 1
    for dim, bound in problem.bound.items():
        places = set()
        for iteration in range(bound):
            digits, rest = [], iteration
            for node in reversed(range(len(factors))):
                rest, digit = divmod(rest, factors[node][dim])
                digits += [digit] if node in fanouts else []
            places.add(tuple(digits))
        units *= len(places)
    return units


def _keep_masks(mapspace: Mapspace) -> Iterator[tuple[frozenset[str], ...]]:
    """Yield, per storage level, the dataspaces it keeps."""
    names = [space.name for space in mapspace.problem.dataspaces]
    for kept_at in product(*(list(_keepers(mapspace, name)) for name in names)):
        yield tuple(
            frozenset(name for name, levels in zip(names, kept_at, strict=True) if level in levels)
            for level in range(len(mapspace.keep))
        )


def _keepers(mapspace: Mapspace, dataspace: str) -> Iterator[frozenset[int]]:
    """Yield the sets of storage levels that may keep `dataspace`."""
    levels = range(len(mapspace.keep))
    banned = {i for i in levels if dataspace in mapspace.keep[i].bypass}
    forced = {i for i in levels if dataspace in mapspace.keep[i].keep} | ({0} - banned)
    if forced & banned:
        return
    free = [i for i in levels if i not in forced | banned]
    subsets = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
    for subset in subsets:
        kept = frozenset(forced.union(subset))
        if kept and all(
            len(kept.intersection(group.levels))
            in ((0, 1) if group.may_skip and dataspace not in group.always else (1,))
            for group in mapspace.parallel
        ):
            yield kept


def _assemble(
    mapspace: Mapspace,
    loops: Sequence[tuple[Loop, ...]],
    mask: Sequence[frozenset[str]],
    spatial: Sequence[FanoutMapping],
) -> Mapping:
    storage = (StorageMapping(temporal, keep) for temporal, keep in zip(loops, mask, strict=True))
    fanouts = iter(spatial)
    nodes: list[NodeMapping] = [
        next(fanouts) if isinstance(node, Fanout) else next(storage) for node in mapspace.architecture.nodes
    ]
    return Mapping(tuple(nodes))


def ordered_factorizations(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of positive integers whose product is `number`, in lexicographic order."""
    if parts == 1:
        yield (number,)
        return
    for first in divisors(number):
        for rest in ordered_factorizations(number // first, parts - 1):
            yield (first, *rest)
