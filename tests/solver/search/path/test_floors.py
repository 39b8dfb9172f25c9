"""What mapspaces cost at least, without a search, against the enumeration of all mappings."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.extents import ANY
from model.mapspace import FactorRule, Mapspace, SpatialRules, TemporalRules
from solver.fusion.edges import EdgeKind, EdgeSpace
from solver.search.path import floors, unrolled
from solver.search.path.floors import cost_floors
from solver.search.stopping import never
from tests.bruteforce import count_mappings, optima
from tests.mapspaces import free_mapspace, matmul
from tests.model.fused.random_cascades import SHAPES, cascade_of
from tests.solver.fusion.test_remainders import with_remainders
from tests.strategies import (
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
)

OBJECTIVES = ("energy", "latency")

KINDS = {
    "plain": lambda: random_mapspaces(5, 20, 500),
    "remainders": lambda: random_mapspaces_with_remainders(6, 12, 200),
    "places": lambda: random_mapspaces_with_places(7, 12, 500),
    "accelforge": lambda: [
        counted_as_accelforge(own, Random(8)) for own in random_mapspaces(9, 15, 500, packed_share=0)
    ],
}


def check(mapspace: Mapspace, finer: Mapspace) -> tuple[float, float]:
    """Compare with the best of all mappings of another mapspace; the shares of energy and cycles."""
    best = [own for own in optima(finer, OBJECTIVES) if own is not None]
    found = cost_floors(mapspace, never)
    pairs = list(zip(found, (own[0] for own in best), strict=True))
    assert all(floor <= least for floor, least in pairs)
    energy, cycles = (floor / max(1, least) for floor, least in pairs)
    return energy, cycles


@pytest.mark.parametrize("kind", KINDS)
def test_no_mapping_costs_less(kind: str):
    checked = [check(own, own) for own in KINDS[kind]() if None not in optima(own, OBJECTIVES)]
    assert len(checked) > 5
    assert sum(energy for energy, _ in checked) > 0.8 * len(checked)


@pytest.mark.parametrize("cells_per_octave", [0.6, 1, 2])
def test_choices_that_cells_leave_out_cost_more(monkeypatch: pytest.MonkeyPatch, cells_per_octave: float):
    monkeypatch.setattr(unrolled, "CELLS_PER_OCTAVE", cells_per_octave)
    left_out = 0

    def promising(every: floors.InVisits, *others: object) -> floors.InVisits:
        nonlocal left_out
        found = of_cells(every, *others)
        left_out += len(every) - len(found)
        return found

    of_cells = floors._promising
    monkeypatch.setattr(floors, "_promising", promising)
    for mapspace in (*KINDS["remainders"](), *arrays(Random(5), 10)):
        monkeypatch.setattr(floors, "FEW_CHOICES", floors.MOST_CHOICES)
        every = cost_floors(mapspace, never)
        monkeypatch.setattr(floors, "FEW_CHOICES", 0)
        assert cost_floors(mapspace, never) == every
    assert left_out > 100


def arrays(random: Random, number: int) -> Iterator[Mapspace]:
    """Yield matrix products on arrays, with remainders."""
    for _ in range(number):
        problem = matmul(*(random.randint(5, 40) for _ in range(3)))
        buffer = StorageLevel("GLB", random.choice((40, 300)), energy=AccessEnergy(6, 6, 6), read_bandwidth=4)
        sums = StorageLevel("Sum", random.choice((2, 9)), energy=AccessEnergy(2, 2, 2, random.choice((0, 3))))
        nodes = (StorageLevel("Main", energy=AccessEnergy(90, 90, 90), shared_bandwidth=3), buffer)
        nodes = (*nodes, Fanout("row", random.randint(3, 9)), sums, Fanout("lane", random.randint(2, 6)))
        yield replace(free_mapspace(problem, *nodes), factors=ANY)


def architecture(random: Random) -> Architecture:
    """Memories that leak, with fanouts between them that may unroll one dimension together."""

    def energy(most: int) -> AccessEnergy:
        each = (random.randint(0, most) for _ in range(3))
        return AccessEnergy(*each, leak_per_cycle=random.choice((0, random.randint(1, 40))))

    nodes: list[StorageLevel | Fanout] = [
        StorageLevel("Main", energy=energy(90), shared_bandwidth=random.choice((None, 1)))
    ]
    buffer = StorageLevel("GLB", random.choice((4, 6, 9, 14)), energy=energy(30), read_bandwidth=2)
    nodes += [buffer, Fanout("PE", random.choice((2, 3)))]
    if random.random() < 0.5:
        nodes += [StorageLevel("Reg", random.choice((2, 3, 4)), energy=energy(9)), Fanout("lane", 2)]
    return Architecture("small", tuple(nodes), Compute("MAC", energy=1))


def test_no_visits_by_further_loops_cost_less():
    """Nests of visits have remainders, and are no nests of the whole."""
    random, checked = Random(3), 0
    while checked < 20:
        bounds = {dim: random.choice((1, 2, 3, 4, 6, 8)) for dim in "mabc"}
        cascade = with_remainders(cascade_of(SHAPES["products"], bounds, architecture(random)))
        einsum = random.choice(cascade.einsums)
        dims = [dim for dim, bound in einsum.problem.bound.items() if bound % 2 == 0]
        above = frozenset(own.name for own in einsum.problem.dataspaces if random.random() < 0.4)
        if not dims:
            continue
        kind = EdgeKind(cascade.einsums.index(einsum), (), above, remainders=True)
        trips = (random.choice(dims), 2)
        whole, visits = (EdgeSpace(einsum, replace(kind, trips=own)) for own in ((), (trips,)))
        room = einsum.mapspace.architecture.on_chip[0].usable_words
        finer = visits.even_mapspace(room)
        fits = count_mappings(finer, 400, innermost_orders=False) <= 400
        if fits and None not in optima(finer, OBJECTIVES):
            check(whole.even_mapspace(room), finer)
            checked += 1


def leaking(bound: int) -> Mapspace:
    """Rows on three times two registers, of which each that is in use leaks."""
    nodes = (
        StorageLevel("Main"),
        Fanout("PE", 3),
        StorageLevel("buffer"),
        Fanout("lane", 2),
        StorageLevel("registers", energy=AccessEnergy(leak_per_cycle=1000)),
    )
    every = free_mapspace(matmul(bound, 1, 1), *nodes)
    dim = next(dim for dim, own in every.problem.bound.items() if own > 1)
    spatial = tuple(SpatialRules(factors=(FactorRule(dim, "=", size),)) for size in (3, 2))
    single = TemporalRules(factors=(FactorRule(dim, "=", 1),))
    return replace(every, spatial=spatial, temporal=(*every.temporal[:2], single), factors=ANY)


def test_the_last_child_may_have_less_to_do_in_visits():
    """Ten rows use all six registers, but five rows do five of them, twice."""
    ten, five = (cost_floors(leaking(bound), never)[0] for bound in (10, 5))
    assert ten <= 2 * five


def test_stopped_it_says_nothing():
    mapspace = free_mapspace(
        matmul(4, 4, 4), StorageLevel("Main", energy=AccessEnergy(9, 9, 9)), Fanout("PE", 2)
    )
    assert cost_floors(mapspace, lambda: True) == (0, 0)


def test_one_iteration_has_a_floor():
    main, buffer = (StorageLevel(name, energy=AccessEnergy(9, 9, 9)) for name in ("Main", "GLB"))
    mapspace = free_mapspace(matmul(1, 1, 1), main, buffer)
    check(mapspace, mapspace)
