"""The search of mappings with remainders, against complete enumeration with the plain cost model."""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.extents import ANY, PERFECT
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.places import spread
from model.problem import Dataspace, Problem, Term
from solver.pareto import pareto_front
from solver.result import Narrower, Options, Status, Termination
from solver.search import map_by_bounds, mapper
from solver.search.mapper import SharedSearch
from solver.search.priced import Priced
from solver.stages import map_einsum
from tests import strategies
from tests.bruteforce import count_mappings, optima, optimum
from tests.conftest import REPOSITORY
from tests.mapspaces import (
    copies,
    free_mapspace,
    matmul,
    outer_product,
    perfect_mapspace,
    uneven_split,
)
from tests.reference import OBJECTIVES
from tests.slow import few, slow
from tests.solver.search.holding import compare, solve, start_below
from tests.solver.search.unusual import fixed_mapspaces, unusual_einsum, unusual_mapspaces
from tests.strategies import (
    CONVOLUTIONS,
    convolution_2d,
    random_mapspaces,
    random_mapspaces_with_remainders,
)


def wider(mapspaces: Sequence[Mapspace], seed: int, most: int) -> list[Mapspace]:
    """Allow remainders and raise some bounds; drop mapspaces with `most` mappings or more."""
    random, found = Random(seed), []
    for mapspace in mapspaces:
        bounds = tuple(b + random.choice((0, 1)) if b > 1 else 1 for b in mapspace.problem.bounds)
        changed = replace(mapspace, problem=replace(mapspace.problem, bounds=bounds), factors=ANY)
        if max(bounds) <= 12 and count_mappings(changed, most, innermost_orders=False) < most:
            found.append(changed)
    return found


@pytest.mark.parametrize("seed", few(range(4)))
def test_the_best_of_all_mappings(seed: int):
    results = compare(random_mapspaces_with_remainders(seed, 5, 300), OBJECTIVES)
    assert Status.OPTIMAL in {result.status for result in results}


@pytest.mark.parametrize("seed", few(range(20, 24)))
def test_nothing_that_improves_is_ruled_out(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Also where the only mappings that are good enough are the best."""
    for mapspace in random_mapspaces_with_remainders(seed, 3, 300):
        for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
            with monkeypatch.context() as patch:
                start_below(patch, 1 << 200 if best is None else best[0] + 1)
                result = solve(mapspace, objective)
            assert result.value == (None if best is None else best[0])


@pytest.mark.parametrize("einsums", [(unusual_einsum, convolution_2d), slow(CONVOLUTIONS)])
def test_windows(einsums: tuple, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", einsums)
    mapspaces = wider(strategies.random_mapspaces(3, 9, 60), 3, 150)
    assert len(mapspaces) > 2
    compare(mapspaces, OBJECTIVES)


@pytest.mark.parametrize("seed", few(range(3)))
def test_fixed_factors_and_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    unusual = unusual_mapspaces(monkeypatch, seed, 3, 100)
    mapspaces = wider([*fixed_mapspaces(seed, 2, 200), *unusual], seed, 600)
    assert mapspaces
    compare(mapspaces, OBJECTIVES)


def test_an_uneven_split_may_be_faster():
    """Of 100 iterations on 4 children that hold 24 each, tiles of 24 take 28 steps, tiles of 20 take 40."""
    mapspace = uneven_split()
    assert solve(mapspace, "latency").value == optimum(mapspace, "latency")[0] == 28


def rounds_of_two(words: int, children: int, iterations: int) -> Mapspace:
    """Registers of children keep A while K repeats, unless there is a second round for them."""
    spaces = (
        Dataspace("A", ((Term("P"),),)),
        Dataspace("B", ((Term("K"),),)),
        Dataspace("Z", ((Term("P"),), (Term("K"),)), read_write=True),
    )
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 0, 0)),
        Fanout("PE", children),
        StorageLevel("register", size_words=words),
    )
    mapspace = free_mapspace(Problem("outer product", ("P", "K"), (iterations, 3), spaces), *nodes)
    keep = KeepRules(frozenset("ABZ")), KeepRules(frozenset("A"), frozenset("BZ"))
    temporal = (
        TemporalRules((FactorRule("P", "=", 2),), inner=("P", "K")),
        TemporalRules((FactorRule("K", "=", 1),)),
    )
    return replace(mapspace, keep=keep, temporal=temporal, factors=ANY)


def convolution(coefficient: int, bounds: tuple[int, int], *nodes: StorageLevel | Fanout) -> Mapspace:
    """Input windows over P and R; the first memory on chip keeps them alone, the second one the rest."""
    spaces = (
        Dataspace("I", ((Term("P", coefficient), Term("R")),)),
        Dataspace("W", ((Term("R"),),)),
        Dataspace("O", ((Term("P"),),), read_write=True),
    )
    mapspace = free_mapspace(Problem("convolution", ("P", "R"), bounds, spaces), *nodes)
    keep = KeepRules(frozenset("IWO")), KeepRules(frozenset("I"), frozenset("WO"))
    keep = (*keep, KeepRules(frozenset("WO"), frozenset("I")))[: len(mapspace.keep)]
    return replace(mapspace, keep=keep, factors=ANY)


LONGEST = [rounds_of_two(*case) for case in ((4, 3, 9), (4, 2, 9), (5, 2, 11), (6, 2, 13))]
"""Of 9 words in 3 tiles, one of 4 may stay where one of 3 would: the others have 5 words."""

SHORT_WINDOWS = replace(
    convolution(
        2,
        (17, 4),
        StorageLevel("DRAM", energy=AccessEnergy(10, 10, 0)),
        StorageLevel("L0", size_words=3, energy=AccessEnergy(0, 3, 0)),
    ),
    temporal=(TemporalRules(inner=("P", "R")), TemporalRules()),
)
"""Tiles of 3 and 1 along R bring fewer words per step of P than two tiles of 2."""

ALONE_FARTHER_IN = replace(
    convolution(
        1,
        (3, 13),
        StorageLevel("DRAM", energy=AccessEnergy(100, 0, 0)),
        Fanout("F0", 4),
        StorageLevel("L0", size_words=3, energy=AccessEnergy(1, 1, 0)),
        Fanout("F1", 4),
        StorageLevel("L1", size_words=3, energy=AccessEnergy(0, 0, 0)),
    ),
    temporal=(TemporalRules((FactorRule("P", "=", 2),)), TemporalRules(), TemporalRules()),
)
"""Two rounds of P at L0 are full, but at L1 the second one has one tile for two children."""


WHOLE_ONCE = replace(
    convolution(
        1,
        (3, 9),
        StorageLevel("DRAM", energy=AccessEnergy(10, 10, 0)),
        Fanout("F0", 2),
        StorageLevel("L0", size_words=4, energy=AccessEnergy(0, 3, 0)),
    ),
    keep=(KeepRules(frozenset("IWO")), KeepRules(frozenset("IW"), frozenset("O"))),
    temporal=(TemporalRules(inner=("R", "P")), TemporalRules()),
)
"""The window of each child comes whole at first only, and that is no step."""


IDLE = replace(
    convolution(
        1,
        (3, 9),
        StorageLevel("DRAM", energy=AccessEnergy(10, 10, 0)),
        Fanout("F0", 2),
        StorageLevel("L0", size_words=8, energy=AccessEnergy(1, 3, 0)),
        Fanout("F1", 4),
        StorageLevel("L1", size_words=4, energy=AccessEnergy(0, 0, 0)),
    ),
    keep=(
        KeepRules(frozenset("IWO")),
        KeepRules(frozenset("W"), frozenset("IO")),
        KeepRules(frozenset("WI"), frozenset("O")),
    ),
    temporal=(*(TemporalRules(inner=("P", "R")),) * 2, TemporalRules((FactorRule("P", "<=", 1),))),
)
"""Of 2 x 3 children one has nothing to do, so that all windows together are smaller."""


@pytest.mark.parametrize("mapspace", [*LONGEST, SHORT_WINDOWS, ALONE_FARTHER_IN, WHOLE_ONCE, IDLE])
def test_what_stays_depends_on_more_than_the_number_of_tiles(
    mapspace: Mapspace, monkeypatch: pytest.MonkeyPatch
):
    best, _ = optimum(mapspace, "energy")
    assert solve(mapspace, "energy").value == best
    start_below(monkeypatch, best + 1)
    assert solve(mapspace, "energy").value == best


def two_children(
    *words: int, bounds: tuple[int, int, int], keep: str, rules: Sequence[FactorRule]
) -> Mapspace:
    """A product of matrices with fanouts of two outside of each memory on chip; `rules` hold outermost."""
    nodes: list[StorageLevel | Fanout] = [StorageLevel("DRAM", energy=AccessEnergy(100, 100, 0))]
    for number, size in enumerate(words):
        energy = AccessEnergy(1, 3, 0)
        nodes += [Fanout(f"F{number}", 2), StorageLevel(f"L{number}", size_words=size, energy=energy)]
    mapspace = free_mapspace(matmul(*bounds), *nodes)
    names = frozenset(space.name for space in mapspace.problem.dataspaces)
    kept = (names, *(frozenset(own) for own in keep.split()))
    return replace(
        mapspace,
        keep=tuple(KeepRules(own, names - own) for own in kept),
        temporal=(TemporalRules(tuple(rules)), *(TemporalRules() for _ in words)),
        factors=ANY,
    )


TWO_CHILDREN = [
    two_children(12, bounds=(3, 4, 15), keep="B", rules=(FactorRule("K", "=", 1), FactorRule("M", "=", 3))),
    two_children(8, 12, bounds=(2, 15, 1), keep="ABZ Z", rules=(FactorRule("M", "=", 1),)),
    # One dimension only.
    two_children(5, bounds=(1, 13, 1), keep="BZ", rules=()),
    convolution(
        2,
        (15, 3),
        StorageLevel("DRAM", energy=AccessEnergy(10, 10, 0)),
        Fanout("F", 2),
        StorageLevel("L0", size_words=8, energy=AccessEnergy(1, 3, 0)),
    ),
    replace(
        convolution(
            1,
            (4, 13),
            StorageLevel("DRAM", energy=AccessEnergy(100, 100, 0)),
            Fanout("F", 2),
            StorageLevel("L0", size_words=5, energy=AccessEnergy(0, 1, 0)),
        ),
        keep=(KeepRules(frozenset("IWO")), KeepRules(frozenset("IW"), frozenset("O"))),
        temporal=(
            TemporalRules((FactorRule("P", ">=", 2),), inner=("P", "R")),
            TemporalRules(inner=("P", "R")),
        ),
    ),
]


@pytest.mark.parametrize("mapspace", TWO_CHILDREN)
def test_few_tiles_of_two_children(mapspace: Mapspace, monkeypatch: pytest.MonkeyPatch):
    for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
        with monkeypatch.context() as patch:
            start_below(patch, 1 << 200 if best is None else best[0] + 1)
            assert solve(mapspace, objective).value == (None if best is None else best[0])


@pytest.mark.parametrize("most", [3, 4])
def test_a_tile_alone_in_its_pass_is_brought_anew(most):
    """Of 5 tiles, a loop of 4 leaves the last one alone while K repeats, which saves nothing."""
    assert solve(outer_product(most, most), "energy").value == (5 * 3 + 3) * 100


def test_energy_may_depend_on_how_full_the_last_round_is():
    """Of 13 iterations on 2 children, tiles of 6 read a weight for both 7 times, tiles of 5 do so 8 times."""
    ranks = {"A": "N", "B": "K", "Z": "N"}
    spaces = tuple(Dataspace(name, ((Term(dim),),), read_write=name == "Z") for name, dim in ranks.items())
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 0, 0)),
        Fanout("PE", 2),
        StorageLevel("buffer", size_words=12),
    )
    mapspace = free_mapspace(Problem("scaling", ("N", "K"), (13, 1), spaces), *nodes)
    keep = mapspace.keep[0], KeepRules(frozenset("AZ"), frozenset("B"))
    found = []
    for most in (5, 6):
        limits = FactorRule("N", ">=", 5), FactorRule("N", "<=", most)
        temporal = TemporalRules(), TemporalRules(limits)
        changed = replace(mapspace, keep=keep, temporal=temporal, factors=ANY)
        found += compare([changed], ("energy",))
    assert found[0].value - found[1].value == 100


def test_padding_never_beats_it():
    """What a mapping of a padded problem costs, a mapping with remainders does not exceed."""
    random = Random(4)
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(200, 200, 200)),
        StorageLevel("buffer", size_words=90, energy=AccessEnergy(6, 6, 6)),
        Fanout("PE", 4, 4),
        StorageLevel("register", size_words=8, energy=AccessEnergy(1, 1, 1)),
    )
    better = 0
    for _ in range(2):
        bounds = [random.choice((5, 7, 11)) for _ in range(3)]
        padded = list(bounds)
        padded[random.randrange(3)] += random.choice((1, 3))
        for objective in OBJECTIVES:
            options = Options((objective,))
            wide = map_by_bounds(replace(free_mapspace(matmul(*bounds), *nodes), factors=ANY), options)
            other = map_by_bounds(replace(free_mapspace(matmul(*padded), *nodes), factors=PERFECT), options)
            assert wide.status is Status.OPTIMAL
            assert wide.value <= other.value
            better += wide.value < wide.perfect_factors.value
    assert better > 2


def test_remainders_save_nothing_where_every_extent_divides():
    """Of bounds of 1 and 2 all extents are divisors."""
    for mapspace in random_mapspaces(5, 6, 200):
        bounds = tuple(min(bound, 2) for bound in mapspace.problem.bounds)
        even = replace(mapspace, problem=replace(mapspace.problem, bounds=bounds))
        for objective in OBJECTIVES:
            perfect, wide = (solve(replace(even, factors=kind), objective) for kind in (PERFECT, ANY))
            assert (wide.status, wide.value) == (perfect.status, perfect.value)


@pytest.mark.parametrize(
    ("architecture", "layer"),
    [("simba_like", "resnet18/21_fc"), ("output_stationary", "mobilenet_v2/42_block14_project")],
)
def test_shipped_layers_get_no_worse(architecture: str, layer: str, monkeypatch: pytest.MonkeyPatch):
    """Whether or not it ends in a proof, and the proof without remainders stays what it is."""
    files = [
        REPOSITORY / "specs" / f"{name}.yaml" for name in (f"architectures/{architecture}", f"layers/{layer}")
    ]
    mapspace = perfect_mapspace(*files)
    perfect = solve(mapspace, "edp")
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.5)
    wide = map_by_bounds(replace(mapspace, factors=ANY), Options(("edp",)))
    assert wide.bound <= wide.value <= perfect.value == wide.perfect_factors.value
    assert wide.perfect_factors.bound == perfect.bound


def test_more_rows_of_an_array_take_a_last_round_that_does_not_fill_them():
    """388 outputs on 48 lanes take 9 rounds; the largest divisor that fits is 4, which takes 97."""
    lanes = free_mapspace(matmul(388, 1, 1), StorageLevel("DRAM"), Fanout("lane", 48))
    found = [solve(replace(lanes, factors=kind), "latency").value for kind in (PERFECT, ANY)]
    assert found == [97, 9]


def test_perfect_factors_come_first():
    mapspace = replace(copies((7,), 6, 4), factors=ANY)
    result = map_by_bounds(mapspace, Options(("latency",)))
    perfect = map_by_bounds(replace(mapspace, factors=PERFECT), Options(("latency",)))
    assert result.perfect_factors.status is Status.OPTIMAL
    assert result.perfect_factors.value == result.perfect_factors.bound == perfect.value > result.value
    assert perfect.perfect_factors is None


def far_from_proven() -> Mapspace:
    """Matrix product of primes on an array: without remainders hardly anything fits."""
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(200, 200, 200)),
        StorageLevel("buffer", size_words=200, energy=AccessEnergy(6, 6, 6)),
        Fanout("PE", 4),
        StorageLevel("register", size_words=12, energy=AccessEnergy(1, 1, 1)),
    )
    return replace(free_mapspace(matmul(29, 31, 37), *nodes), factors=ANY)


def test_without_a_time_limit_the_wider_search_ends_by_default(monkeypatch: pytest.MonkeyPatch):
    mapspace = far_from_proven()
    best = map_by_bounds(mapspace, Options(("edp",), time_limit_s=math.inf))
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    found = map_by_bounds(mapspace, Options(("edp",)))
    assert (found.status, found.termination) == (Status.FEASIBLE, Termination.REMAINDER_LIMIT)
    first = found.perfect_factors
    assert first is not None
    assert first.status is Status.OPTIMAL
    assert found.value == first.value == map_by_bounds(replace(mapspace, factors=PERFECT)).value
    assert (found.bound or 0) <= (best.value or 0) < (found.value or 0)
    assert best.status is Status.OPTIMAL
    assert best.perfect_factors == first


@pytest.mark.parametrize("uneven", [False, True])
def test_what_the_wider_search_cannot_do_takes_nothing_from_the_narrower_one(
    uneven: bool, monkeypatch: pytest.MonkeyPatch
):
    """With remainders numbers of tiles take too much memory; divisors are proven all the same."""
    even = replace(far_from_proven(), problem=matmul(1009, 997, 991), factors=PERFECT)
    perfect = spread(even) if uneven else even
    monkeypatch.setattr(mapper, "MANY_HINTED", 32)
    best = map_by_bounds(perfect, Options(("edp",)))
    found = map_by_bounds(replace(perfect, factors=ANY), Options(("edp",), memory_limit_mib=1))
    assert (found.status, found.termination) == (Status.FEASIBLE, Termination.MEMORY_LIMIT)
    assert best.status is Status.OPTIMAL
    assert found.perfect_factors == Narrower(Status.OPTIMAL, best.value, best.bound)
    assert (found.value or 0) <= (best.value or 0)


def test_a_known_mapping_does_not_take_the_place_of_the_narrower_search():
    mapspace = replace(copies((7,), 6, 4), factors=ANY)
    first = map_by_bounds(replace(mapspace, factors=PERFECT), Options(("latency",)))
    assert first.mapping is not None
    assert first.evaluation is not None
    known = Priced(first.mapping, first.evaluation)
    search = SharedSearch(mapspace)
    found, again = (search.minimise(("latency",), known=known) for _ in range(2))
    assert found.perfect_factors == Narrower(Status.OPTIMAL, first.value, first.bound)
    assert again.perfect_factors is None
    assert found.value == again.value


def test_the_default_limit_is_for_remainders_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    mapspace = replace(far_from_proven(), factors=PERFECT)
    assert map_by_bounds(mapspace).status is Status.OPTIMAL
    assert (
        map_by_bounds(replace(mapspace, factors=ANY), Options(time_limit_s=math.inf)).status is Status.OPTIMAL
    )


def test_the_default_limit_holds_for_all_searches_of_a_front_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    front = pareto_front(far_from_proven())
    assert (front.status, front.termination) == (Status.FEASIBLE, Termination.REMAINDER_LIMIT)
    assert front.points
    assert front.open_ranges


def test_what_fits_with_remainders_only_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch):
    """Seven iterations keep three units busy, by the feasibility check if the search has no time."""
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    mapspace = replace(copies((7,), 100, 3, units=3), factors=ANY)
    assert map_by_bounds(mapspace).termination is Termination.REMAINDER_LIMIT
    assert map_einsum(mapspace).mapping is not None
    assert map_einsum(replace(mapspace, factors=PERFECT)).status is Status.INFEASIBLE
