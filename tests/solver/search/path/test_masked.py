"""Bounds on lists of tiles against the enumeration of all mappings."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.extents import ANY, PERFECT, Factors
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.goal import Goal
from solver.search.path.bounds import Bounds
from solver.search.path.charges import ENERGY, Charges
from solver.search.path.frame import TileFrame
from solver.search.path.masked import Masked, fewest_steps, supported_choices
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.bruteforce import optimum, valid_mappings
from tests.mapspaces import free_mapspace, matmul
from tests.solver.search.path.test_outside import SHIFTED
from tests.strategies import counted_as_accelforge, random_mapspaces


def bypassed() -> Mapspace:
    """A convolution whose inputs go from the outermost memory to the innermost one."""
    spaces = (
        Dataspace("W", ((Term("K"),), (Term("C"),), (Term("R"),))),
        Dataspace("I", ((Term("C"),), (Term("P"), Term("R")))),
        Dataspace("O", ((Term("K"),), (Term("P"),)), read_write=True),
    )
    problem = Problem("convolution", ("K", "C", "P", "R"), (4, 4, 2, 3), spaces)
    dram = StorageLevel("DRAM", energy=AccessEnergy(200, 170, 190))
    buffer = StorageLevel("buffer", 16, energy=AccessEnergy(6, 6, 6))
    registers = StorageLevel("registers", 4, energy=AccessEnergy(1, 1, 1))
    keep = KeepRules(frozenset("WIO")), KeepRules(frozenset("WO"), frozenset("I"))
    found = free_mapspace(problem, dram, buffer, Fanout("row", 1, 1), registers)
    return replace(found, keep=(*keep, KeepRules(frozenset("I"), frozenset("WO"))))


def test_windows_that_bypass_the_level_outside(monkeypatch: pytest.MonkeyPatch):
    """Where windows go back along the same tiles, sums that the buffer keeps are repeated."""
    mapspace = bypassed()
    space = SearchSpace(mapspace)
    (mask,) = space.keep_masks
    best = optimum(mapspace, "energy")
    assert best is not None

    def costs() -> np.ndarray:
        frame = TileFrame(space)
        masked = Masked(frame, Charges(space, mask), {})
        unrolled = supported_choices(frame).repeated(0, len(masked.tiles))
        listed = masked.listed(masked.tiles, unrolled, np.zeros(1, dtype=np.int64))
        fixed = masked.fixed(unrolled, np.zeros(len(unrolled)))
        return np.asarray(fixed + masked.cost(listed, ENERGY, np.full(len(unrolled), 1e30)))

    closer = costs()
    monkeypatch.setattr(
        Masked, "_closed_apart", lambda _, still, places, *rest: np.full(len(places), -np.inf)
    )
    assert np.count_nonzero(costs() < closer) > 0
    assert closer.min() <= best[0]


def depthwise(stride: int) -> Problem:
    """Channels of their own, whose windows along P overlap unless a stride is as long."""
    spaces = (
        Dataspace("W", ((Term("G"),), (Term("R"),))),
        Dataspace("I", ((Term("G"),), (Term("P", stride), Term("R")))),
        Dataspace("O", ((Term("G"),), (Term("P"),)), read_write=True),
    )
    return Problem("depthwise", ("G", "P", "R"), (2, 4, 3), spaces)


def pair_of(space: SearchSpace, mapping: Mapping) -> tuple[KeepMask, tuple[int, ...], tuple[int, ...]]:
    """What each level keeps, numbers of tiles inside of the only fanout, and its factors."""
    place = {view.name: view.place for view in space.views}
    kept = [own.keep for own in mapping.nodes if isinstance(own, StorageMapping)]
    number = next(n for n, own in enumerate(mapping.nodes) if isinstance(own, FanoutMapping))
    factors, inside = dict.fromkeys(space.active, 1), dict.fromkeys(space.active, 1)
    for loop in mapping.nodes[number].spatial:
        factors[loop.dim] *= loop.bound
    for own in mapping.nodes[number + 1 :]:
        for loop in own.temporal:
            inside[loop.dim] *= loop.bound
    tiles = tuple(-(-space.problem.bound[dim] // extent) for dim, extent in inside.items())
    return tuple(frozenset(map(place.get, own)) for own in kept), tiles, tuple(factors.values())


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("factors", "no_multicast"), [(PERFECT, ""), (PERFECT, "I"), (ANY, "")])
def test_no_pair_is_left_out_that_has_a_better_mapping(stride: int, factors: Factors, no_multicast: str):
    dram = StorageLevel("DRAM", energy=AccessEnergy(200, 170, 190))
    buffer = StorageLevel("buffer", 12, energy=AccessEnergy(6, 5, 7))
    registers = StorageLevel("registers", 5, energy=AccessEnergy(1, 2, 1))
    fanout = Fanout("row", 4, no_multicast=frozenset(no_multicast))
    problem = depthwise(stride) if factors == PERFECT else replace(depthwise(stride), bounds=(1, 3, 2))
    mapspace = free_mapspace(problem, dram, buffer, fanout, registers, keep=False)
    rules = KeepRules(), KeepRules(frozenset("O"), frozenset("W")), KeepRules(frozenset("I"), frozenset("O"))
    space = SearchSpace(replace(mapspace, factors=factors, keep=rules))
    least: dict[object, int] = {}
    for own in valid_mappings(space.mapspace, innermost_orders=False):
        pair = pair_of(space, own.mapping)
        least[pair] = min(own.energy, least.get(pair, own.energy))
    frame, goal = TileFrame(space), Goal("energy", incumbent=1)
    every = supported_choices(frame)
    steps, all_of_them = fewest_steps(every), np.arange(len(every))
    left_out = 0
    for mask in space.keep_masks:
        masked = Masked(frame.under(mask), Charges(space, mask), {})
        bounds = Bounds(masked, goal, every, float(steps.min()))
        if not bounds.has_pairs:
            continue
        pairs = bounds.by_pair(masked.tiles, all_of_them, steps)
        for (_, tiles, children), energy in ((own, e) for own, e in least.items() if own[0] == mask):
            goal.incumbent = energy + 1
            (row,) = np.flatnonzero((masked.tiles == tiles).all(axis=1))
            choices = np.flatnonzero((every.factors[1] == children).all(axis=1))
            able = set(zip(*(own.tolist() for own in pairs.able), strict=True))
            assert any((row, choice) in able for choice in choices.tolist())
            assert pairs.by_choice[choices].min() <= energy
            assert pairs.by_tile[row] <= energy
            left_out += len(masked.tiles) * len(every) - len(able)
    assert left_out > 0


@pytest.mark.parametrize("factors", [PERFECT, ANY])
def test_an_order_outside_of_the_fanouts_holds_for_each_choice(factors: Factors):
    """K may lead where children take all of the others, whatever other children there are in a cell."""
    dram = StorageLevel("DRAM", energy=AccessEnergy(200, 170, 190))
    registers = StorageLevel("registers", 4, energy=AccessEnergy(1, 2, 1))
    mapspace = free_mapspace(matmul(2, 2, 3), dram, Fanout("row", 4), registers)
    rules = TemporalRules((FactorRule("K", "=", 3),), outer=("K",)), TemporalRules()
    space = SearchSpace(replace(mapspace, factors=factors, temporal=rules))
    least: dict[object, int] = {}
    for own in valid_mappings(space.mapspace, innermost_orders=False):
        tiles = pair_of(space, own.mapping)[1]
        least[tiles] = min(own.energy, least.get(tiles, own.energy))
    frame, (mask,) = TileFrame(space), space.keep_masks
    every, masked = supported_choices(frame), Masked(frame.under(mask), Charges(space, mask), {})
    bounds = Bounds(masked, Goal("energy"), every, 0.0)
    found = bounds.floors(masked.tiles, every, float(fewest_steps(every).min()))
    assert set(least) <= set(map(tuple, masked.tiles.tolist()))
    pairs = zip(map(tuple, masked.tiles.tolist()), found.tolist(), strict=True)
    assert all(floor <= least[tiles] for tiles, floor in pairs if tiles in least)


@pytest.mark.parametrize("factors", [PERFECT, ANY])
@pytest.mark.parametrize("bypassed", ["O", ""])
def test_an_order_outside_holds_for_each_pair(factors: Factors, bypassed: str):
    """Loops over C leave sums in place where they are inner ones, though outermost ones would not."""
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(200, 170, 190)),
        StorageLevel("buffer", 8, energy=AccessEnergy(6, 5, 7)),
        Fanout("row", 2),
        StorageLevel("registers", 1, energy=AccessEnergy(1, 2, 1)),
    )
    mapspace = free_mapspace(replace(SHIFTED, bounds=(2, 4, 2, 1)), *levels)
    sums, others, single = frozenset("O"), frozenset("WI"), FactorRule("C", "=", 1)
    buffered = KeepRules((sums | others) - frozenset(bypassed), frozenset(bypassed))
    mapspace = replace(
        mapspace,
        factors=factors,
        temporal=(TemporalRules(outer=("C", "R")), TemporalRules(), TemporalRules((single,))),
        spatial=(SpatialRules((single,)),),
        keep=(KeepRules(sums | others), buffered, KeepRules(sums, others)),
    )
    space = SearchSpace(mapspace)
    least: dict[object, int] = {}
    for own in valid_mappings(mapspace, innermost_orders=False):
        pair = pair_of(space, own.mapping)[1:]
        least[pair] = min(own.energy, least.get(pair, own.energy))
    assert least
    frame, (mask,) = TileFrame(space), space.keep_masks
    every, masked = supported_choices(frame), Masked(frame.under(mask), Charges(space, mask), {})
    bounds = Bounds(masked, Goal("energy", incumbent=10**9), every, 0.0)
    for number, factors_of_choice in enumerate(every.factors[frame.meeting].tolist()):
        unrolled = every.repeated(number, len(masked.tiles))
        listed = masked.listed(masked.tiles, unrolled, np.zeros(1, dtype=np.int64))
        found = bounds.closely(listed, masked.steps(masked.tiles, unrolled)).values
        for tiles, floor in zip(masked.tiles.tolist(), found.tolist(), strict=True):
            pair = tuple(tiles), tuple(factors_of_choice)
            assert pair not in least or floor <= least[pair]


def test_words_of_all_mappings_cost_whole_grains(monkeypatch: pytest.MonkeyPatch):
    """Where no tiles overlap, each access moves whole copies of a dataspace: grains are coarser then."""
    random, coarse = Random(5), 0
    for einsums in (strategies.EINSUMS, strategies.CONVOLUTIONS):
        monkeypatch.setattr(strategies, "EINSUMS", einsums)
        drawn = random_mapspaces(41, 6, 200)
        ruled = [counted_as_accelforge(own, random) for own in random_mapspaces(42, 6, 200, packed_share=0)]
        for mapspace in map(without_leakage, (*drawn, *ruled)):
            space = SearchSpace(mapspace)
            masks = space.keep_masks
            if not masks:
                continue
            charges = Charges(space, masks[0])
            energies = {own.energy - charges.compute_energy for own in valid_mappings(mapspace)}
            assert not any(energy % charges.fine.unit for energy in energies)
            coarse += any(charges.words_step(view.place, 0) > 1 for view in space.views)
    assert coarse > 10


def without_leakage(mapspace: Mapspace) -> Mapspace:
    """The same, but nothing leaks."""
    nodes = tuple(
        replace(node, energy=replace(node.energy, leak_per_cycle=0))
        if isinstance(node, StorageLevel)
        else node
        for node in mapspace.architecture.nodes
    )
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
