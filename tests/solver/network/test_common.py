"""One spatial unrolling for all layers, against all mappings of small networks under all unrollings."""

import math
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cascade import Layer, Network
from model.cost import evaluate_in
from model.extents import ANY, PERFECT
from model.mapping import FanoutMapping
from model.mapspace import FactorRule, Mapspace, SpatialRules
from solver import Options, Status
from solver.network.common import NoCommonError, map_with_common_unrolling
from tests.bruteforce import enumerate_mappings
from tests.mapspaces import free_mapspace, matmul
from tests.slow import slow
from tests.strategies import random_mapspaces

OBJECTIVES = ("energy", "latency", "edp")
SIZES = {PERFECT: (1, 2, 3, 4, 4, 6, 8), ANY: (1, 2, 3, 3, 5)}


def networks(seed: int, count: int, factors: str = PERFECT) -> list[Network]:
    """Random networks of two or three layers that differ in their bounds, and how often they run."""
    random, drawn = Random(seed), random_mapspaces(800 + seed, 60, 60)
    shapes = [own for own in drawn if own.architecture.fanouts][:count]
    found = []
    for number in range(count):
        mapspace = shapes[number] if number % 4 == 0 else wide(random)
        layers = []
        for place in range(random.choice((2, 3, 3))):
            sizes = tuple(
                random.choice(SIZES[factors]) if bound > 1 else 1 for bound in mapspace.problem.bounds
            )
            own = replace(mapspace, problem=replace(mapspace.problem, bounds=sizes), factors=factors)
            layers.append(Layer(f"layer{place}", own, n_instances=random.choice((1, 3))))
        found.append(Network("random", tuple(layers)))
    return found


def wide(random: Random) -> Mapspace:
    """A matrix product on an array whose rules may bind the order of its dimensions."""
    array = Fanout("PE", *random.choice(((6, 1), (4, 2), (3, 2), (2, 2))))
    more = [Fanout("lane", 2, 1)] if random.random() < 0.3 else []
    buffer = StorageLevel("buffer", size_words=random.choice((6, 12, 40)), energy=AccessEnergy(3, 3, 3))
    nodes = random.choice(([array, buffer], [buffer, array]))
    dram = StorageLevel("DRAM", energy=AccessEnergy(100, 100, 100))
    mapspace = free_mapspace(matmul(4, 1, 4), dram, *nodes, *more)
    rules = SpatialRules(inner=random.choice(((), ("K",), ("M",))), split=random.choice((None, None, 1, 2)))
    return replace(mapspace, spatial=(rules, *mapspace.spatial[1:]))


def least(network: Network, objective: str) -> int | None:
    """The least sum of an objective under one unrolling, of all widths; None if no unrolling is possible."""
    tables = [by_factors(layer, objective) for layer in network.layers]
    first = network.layers[0].mapspace
    most = {
        dim: max(layer.mapspace.problem.bound[dim] for layer in network.layers) for dim in first.problem.dims
    }
    fanouts = first.architecture.fanouts
    ranges = [
        range(1, min(most[dim], max(fanout.mesh_x, fanout.mesh_y)) + 1) for fanout in fanouts for dim in most
    ]
    sums = []
    for widths in product(*ranges):
        rows = [widths[i * len(most) : (i + 1) * len(most)] for i in range(len(fanouts))]
        if not all(fits(fanout, row) for fanout, row in zip(fanouts, rows, strict=True)):
            continue
        values = [
            table.get(own_factors(layer.mapspace, rows))
            for layer, table in zip(network.layers, tables, strict=True)
        ]
        if None not in values:
            sums.append(sum(v * layer.n_instances for v, layer in zip(values, network.layers, strict=True)))
    return min(sums, default=None)


def fits(fanout: Fanout, row: tuple[int, ...]) -> bool:
    """Whether widths fit a mesh in some arrangement."""
    whole = math.prod(row)
    sides = {math.prod(own) for size in range(len(row) + 1) for own in combinations(row, size)}
    return any(side <= fanout.mesh_x and whole // side <= fanout.mesh_y for side in sides)


def own_factors(mapspace: Mapspace, rows: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """The factors of a layer's loops, from the innermost fanout outwards: what is left may be less."""
    left, found = list(mapspace.problem.bounds), []
    for row in reversed(rows):
        own = [min(width, rest) for width, rest in zip(row, left, strict=True)]
        left = [-(-rest // width) for rest, width in zip(left, own, strict=True)]
        found.insert(0, tuple(own))
    return tuple(found)


def by_factors(layer: Layer, objective: str) -> dict[tuple[tuple[int, ...], ...], int]:
    """The least value of a layer by the factors of its fanouts."""
    best: dict[tuple[tuple[int, ...], ...], int] = {}
    dims = layer.mapspace.problem.dims
    for mapping in enumerate_mappings(layer.mapspace):
        own = evaluate_in(layer.mapspace, mapping)
        if own.valid:
            loops = [node.spatial for node in mapping.nodes if isinstance(node, FanoutMapping)]
            key = tuple(
                tuple(math.prod(o.bound for o in own if o.dim == dim) for dim in dims) for own in loops
            )
            best[key] = min(own.value(objective), best.get(key, own.value(objective)))
    return best


@pytest.mark.parametrize(
    ("seed", "factors", "count"), [(1, PERFECT, 8), (4, ANY, 6), slow(10, PERFECT, 8), slow(2, PERFECT, 8)]
)
def test_the_best_unrolling_of_all(seed, factors, count):
    dear = 0
    for number, network in enumerate(networks(seed, count, factors)):
        objective = OBJECTIVES[number % 3]
        expected = least(network, objective)
        result = map_with_common_unrolling(network, Options(objectives=(objective,)))
        assert result.value == expected
        assert result.status is (Status.INFEASIBLE if expected is None else Status.OPTIMAL)
        if result.common is not None:
            dear += result.value > result.own_value
            check(result, objective)
    assert dear >= 1


def check(result, objective):
    """Whether the layers' mappings have the common loops, along common axes, and cost what is said."""
    width = {(own.fanout, own.dim): own for own in result.loops}
    total = 0
    for outcome in result.common.layers:
        mapspace, mapping = outcome.layer.mapspace, outcome.result.mapping
        assert evaluate_in(mapspace, mapping).valid
        total += evaluate_in(mapspace, mapping).value(objective) * outcome.layer.n_instances
        for fanout, position in zip(
            mapspace.architecture.fanouts, mapspace.architecture.fanout_indices, strict=True
        ):
            for loop in mapping.nodes[position].spatial:
                common = width[fanout.name, loop.dim]
                assert loop.axis == common.axis
                assert loop.bound <= common.width
    assert total == result.value


def test_a_layer_without_the_dimension_is_idle_along_it():
    """A row of eight over C serves a layer with three channels by three, and one without channels by one."""
    nodes = StorageLevel("DRAM"), Fanout("PE", 8, 1), StorageLevel("buffer", size_words=64)
    deep, shallow = free_mapspace(matmul(1, 1, 8), *nodes), free_mapspace(matmul(1, 1, 3), *nodes)
    layers = [Layer(name, own) for name, own in (("deep", deep), ("shallow", shallow))]
    result = map_with_common_unrolling(Network("two", tuple(layers)), Options(objectives=("latency",)))
    assert [(own.dim, own.width, own.axis) for own in result.loops] == [("K", 8, "x")]
    found = [outcome.result.evaluation.cycles for outcome in result.common.layers]
    assert (found, result.value, result.price) == ([1, 1], 2, 0)


def test_rules_of_a_layer_may_forbid_what_others_need():
    nodes = StorageLevel("DRAM"), Fanout("PE", 4, 1), StorageLevel("buffer", size_words=64)
    free = free_mapspace(matmul(4, 4, 4), *nodes)
    only = [replace(free, spatial=(SpatialRules((FactorRule(dim, "=", 4),)),)) for dim in ("K", "M")]
    layers = tuple(Layer(f"layer{n}", own) for n, own in enumerate(only))
    result = map_with_common_unrolling(Network("two", layers), Options(objectives=("energy",)))
    assert (result.status, result.common, result.loops) == (Status.INFEASIBLE, None, ())


def test_layers_need_the_same_fanouts():
    layers = [
        Layer(f"layer{n}", free_mapspace(matmul(2, 2, 2), StorageLevel("DRAM"), Fanout("PE", n, 1)))
        for n in (1, 2)
    ]
    with pytest.raises(NoCommonError, match="different fanouts"):
        map_with_common_unrolling(Network("two", tuple(layers)))
    with pytest.raises(NoCommonError, match="no layer"):
        map_with_common_unrolling(Network("none", ()))


def test_a_search_that_is_stopped_knows_a_bound():
    (network,) = networks(0, 1)
    result = map_with_common_unrolling(network, Options(objectives=("energy",), time_limit_s=0))
    assert (result.status, result.value) == (Status.UNKNOWN, None)
