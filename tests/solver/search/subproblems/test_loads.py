"""Where bandwidths decide: bounds on loads, alone and together, and the cost model's rounding of cycles."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from model.architecture import AccessEnergy, StorageLevel
from model.cost import Evaluation, evaluate_in
from model.cost.rules import rule_of
from model.mapping import Mapping, StorageMapping
from model.mapspace import COUNTINGS, EXACT, TIMELOOP, Counting, KeepRules, Mapspace
from model.objective import OBJECTIVES as OBJECTIVE_NAMES
from solver.result import Options, Status
from solver.search import map_einsum
from solver.search.branching.completion import Completion, Priced
from solver.search.candidates import Sifted, sift
from solver.search.goal import Goal
from solver.search.space.prices import resources
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import never
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.subproblems.loads import PARTS, loaded
from solver.search.subproblems.mixes import Cost
from tests.bruteforce import Objective, enumerate_mappings
from tests.mapspaces import free_mapspace, matmul, perfect_mapspace
from tests.slow import few, slow
from tests.solver.search.holding import belongs, compare, sharp_bounds
from tests.solver.search.unusual import (
    register_mapspaces,
    subproblems,
    told_apart,
    under_both_rules,
    unlimited_bounds,
)
from tests.strategies import random_mapspaces

SPECS = Path(__file__).parents[4] / "specs"
OBJECTIVES: tuple[Objective, ...] = ("latency", "edp", ("latency", "energy"), ("energy", "latency"))


def scarce(random: Random, mapspace: Mapspace) -> Mapspace:
    """The mapspace with bandwidths of a few words or less per cycle, most of them no binary fractions."""

    def bandwidth(chance: float) -> Fraction | None:
        small = Fraction(random.choice((1, 1, 3, 7)), random.choice((1, 2, 3, 5, 7, 10, 25)))
        return small if random.random() < chance else None

    def narrow(level: StorageLevel) -> StorageLevel:
        return replace(
            level,
            read_bandwidth=bandwidth(0.5),
            write_bandwidth=bandwidth(0.5),
            shared_bandwidth=bandwidth(0.4),
        )

    architecture = mapspace.architecture
    nodes = tuple(narrow(node) if isinstance(node, StorageLevel) else node for node in architecture.nodes)
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))


@pytest.mark.parametrize(("seed", "first_nodes"), few([(300, 200), (301, 0), (302, 0)]))
def test_scarce_bandwidths(seed: int, first_nodes: int, monkeypatch: pytest.MonkeyPatch):
    sharp_bounds(monkeypatch, first_nodes)
    random = Random(seed)
    compare(
        [scarce(random, mapspace) for mapspace in under_both_rules(random_mapspaces(seed, 10, 500))],
        OBJECTIVES,
    )


def test_scarce_bandwidths_of_registers(monkeypatch: pytest.MonkeyPatch):
    sharp_bounds(monkeypatch)
    random = Random(7)
    compare(
        [scarce(random, mapspace) for mapspace in under_both_rules(register_mapspaces(7, 10, 600))],
        OBJECTIVES,
    )


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("bandwidth", [Fraction(1, 7), Fraction(3, 10), Fraction(9, 25), Fraction(2)])
def test_limits_of_loads_lose_no_words_that_the_cost_model_allows(bandwidth: Fraction, counting: Counting):
    """By the exact rule they are the same; Timeloop's quotient of doubles may be above a whole number."""
    level = StorageLevel("spad", size_words=8, energy=AccessEnergy(1, 1, 1), read_bandwidth=bandwidth)
    mapspace = free_mapspace(matmul(2, 3, 2), StorageLevel("dram", energy=AccessEnergy(9, 9, 9)), level)
    only = KeepRules(frozenset("A"), frozenset("BZ"))
    space = SearchSpace(replace(mapspace, keep=(mapspace.keep[0], only), counting=counting))
    (sub,) = subproblems(space)
    ties = 0
    for cycles in range(sub.steps, 20 * sub.steps):
        goal = Goal("latency", incumbent=cycles + 1)
        own = loaded(sub, 0, goal)
        per_word = own.scale / bandwidth
        assert per_word >= PARTS
        for words in range(int(cycles * bandwidth) - 2, int(cycles * bandwidth) + 3):
            takes = rule_of(counting).cycles(level, sub.steps, (("A", words, 0),))
            below = words * per_word < own.limit(goal)
            assert below or takes > cycles
            assert counting == TIMELOOP or below == (takes <= cycles)
            ties += words == cycles * bandwidth and takes > cycles
    assert (ties > 0) == (counting == TIMELOOP) or bandwidth == 2


def shipped(architecture: str, instance: str, tmp_path: Path, counting: Counting = EXACT) -> Mapspace:
    """A convolution on a shipped architecture."""
    layer = tmp_path / "layer.yaml"
    problem = f"{{version: 0.4, shape: cnn-layer, instance: {{{instance}}}}}"
    layer.write_text(f"problem: {problem}\n", encoding="utf-8")
    files = [SPECS / "architectures" / f"{architecture}.yaml", layer]
    return perfect_mapspace(*files, counting=counting)


@pytest.mark.slow
def test_mappings_that_tie_with_the_bound_are_not_priced_one_by_one(tmp_path: Path):
    """Thousands take as long, by Timeloop's quotients of doubles a cycle above the bound."""
    shape = "R: 5, S: 5, P: 27, Q: 27, C: 48, K: 16, N: 1"
    mapspace = shipped("eyeriss_like", shape, tmp_path, TIMELOOP)

    def quarter(level: StorageLevel) -> StorageLevel:
        limits = {name: getattr(level, name) for name in ("read_bandwidth", "write_bandwidth")}
        limits["shared_bandwidth"] = level.shared_bandwidth
        return replace(level, **{name: own / 4 for name, own in limits.items() if own is not None})

    architecture = mapspace.architecture
    nodes = tuple(quarter(node) if isinstance(node, StorageLevel) else node for node in architecture.nodes)
    narrow = replace(mapspace, architecture=replace(architecture, nodes=nodes))
    result = map_einsum(narrow, Options(objectives=("latency",)))
    assert result.status is Status.OPTIMAL
    assert result.value == 209_953
    assert result.statistics.mappings_priced < 200


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("architecture", ["smv_like", "simba_like"])
def test_several_dataspaces_that_tie_with_the_bound_are_not_priced_one_by_one(
    architecture: str, counting: Counting, tmp_path: Path
):
    """Matrix times vector: how doubles add up the words of three dataspaces depends on the steps."""
    mapspace = shipped(architecture, "R: 1, S: 1, P: 1, Q: 1, C: 512, K: 1536, N: 1", tmp_path, counting)
    result = map_einsum(mapspace, Options(objectives=("latency",)))
    assert result.status is Status.OPTIMAL
    assert result.statistics.mappings_priced < 20


@pytest.mark.parametrize(("counting", "cycles"), [(EXACT, 256_608), slow(TIMELOOP, 256_609)])
def test_ties_of_several_dataspaces_are_told_by_the_words_of_all_factors(
    counting: Counting, cycles: int, tmp_path: Path
):
    """Inputs and outputs take 256,608 cycles to read together; by Timeloop's doubles it is one more."""
    mapspace = shipped("tpu_like", "R: 3, S: 3, P: 54, Q: 54, C: 1024, K: 512, N: 1", tmp_path, counting)
    result = map_einsum(mapspace, Options(objectives=("latency",)))
    assert result.status is Status.OPTIMAL
    assert result.value == cycles
    assert result.statistics.mappings_priced < 50


def test_ties_of_energy_that_leaks_while_a_bandwidth_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whole cycles and whole energies tell without orders that thousands of factors are no better."""
    ordered: list[Completion] = []
    best = Completion.best

    def counted(own: Completion, goal: Goal, stop: Callable[[], bool]) -> Iterator[Priced]:
        ordered.append(own)
        return best(own, goal, stop)

    monkeypatch.setattr(Completion, "best", counted)
    shape = "R: 7, S: 5, P: 500, Q: 250, C: 7, K: 820, N: 16, Wstride: 2, Hstride: 2"
    result = map_einsum(shipped("tpu_like", shape, tmp_path), Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    assert len(ordered) < 50


def place_of(space: SearchSpace, mapping: Mapping) -> tuple[EnergySubproblem | None, list[int]]:
    """The subproblem that a mapping belongs to (None: of another arrangement), and its tile per level."""
    spatial: list[list[tuple[int, ...]]] = []
    temporal: list[dict[str, int]] = []
    mask = []
    for node in mapping.nodes:
        if isinstance(node, StorageMapping):
            mask.append(frozenset(view.place for view in space.views if view.name in node.keep))
            temporal.append({loop.dim: loop.bound for loop in node.temporal})
            spatial.append([])
        else:
            spatial[-1].append(
                tuple(
                    math.prod(loop.bound for loop in node.spatial if loop.dim == dim) for dim in space.active
                )
            )
    extents = [1] * len(space.active)
    tiles: list[int] = []
    for own, fanouts in zip(reversed(temporal), reversed(spatial), strict=True):
        extents = [
            math.prod((extent, own.get(dim, 1), *factors))
            for dim, extent, *factors in zip(space.active, extents, *fanouts, strict=True)
        ]
        tiles.insert(0, space.lattice.index(extents))
    stages = [told_apart(space, stage, fanouts) for stage, fanouts in enumerate(spatial)]
    for sub in subproblems(space):
        if sub.mask == tuple(mask) and belongs(space, stages, sub.spatial):
            return sub, tiles
    return None, tiles


def placed_mappings(
    random: Random, mapspaces: Iterable[Mapspace]
) -> Iterator[tuple[EnergySubproblem, list[int], Evaluation]]:
    """Some valid mappings of each mapspace, with scarce bandwidths: subproblem, tile per level, and cost."""
    for mapspace in mapspaces:
        narrow = scarce(random, mapspace)
        space = SearchSpace(narrow)
        mappings = list(enumerate_mappings(narrow, innermost_orders=False))
        for mapping in random.sample(mappings, min(12, len(mappings))):
            evaluation = evaluate_in(narrow, mapping)
            sub, tiles = place_of(space, mapping)
            if sub is not None and evaluation.valid:
                yield sub, tiles, evaluation


def test_the_fewest_words_take_no_more_cycles_than_any_mapping():
    random = Random(23)
    met = rounded = 0
    for sub, _, evaluation in placed_mappings(random, under_both_rules(random_mapspaces(23, 30, 1500))):
        bounds = unlimited_bounds(sub)
        assert bounds.model_cycles <= bounds.least_cycles <= evaluation.cycles
        met += bounds.model_cycles == evaluation.cycles
        rounded += bounds.model_cycles > sub.cycles(sub.base_loads + bounds.loads_inside[0])
    assert met > 20
    assert rounded > 0


@pytest.mark.parametrize("sharp", few([True, False]))
def test_what_is_below_all_limits_survives_their_sums(sharp: bool):
    """Any mapping, with limits on energy and loads that it just keeps: its tiles are still there."""
    random = Random(21)
    kept = dropped = raised = 0
    for sub, tiles, evaluation in placed_mappings(random, under_both_rules(random_mapspaces(21, 13, 800))):
        goal = Goal("latency", incumbent=evaluation.cycles + 1)
        loads = [loaded(sub, number, goal) for number in range(len(resources(sub.space.architecture)))]
        costs = [Cost(sub, evaluation.energy + 1), *(Cost(own, own.limit(goal)) for own in loads)]
        within = tuple(sub.feasible(level) for level in range(1, len(sub.space.levels)))
        sifted = sift(costs, random.randrange(len(costs)), within, sharp, never, lambda *_: False)
        assert sifted is not None
        left = sifted.within
        assert all(tile in own for tile, own in zip(tiles[1:], left, strict=True))
        kept += sum(map(len, left))
        dropped += sum(map(len, within)) - sum(map(len, left))
        raised += joint_bounds_hold(random, sifted, evaluation)
    assert min(kept, dropped, raised) > 100


def joint_bounds_hold(random: Random, sifted: Sifted, evaluation: Evaluation) -> int:
    """Check what sums of costs say of a mapping; return how often that raises a bound."""
    limits = (("energy", evaluation.energy), ("latency", evaluation.cycles))
    floors = random.randint(0, evaluation.energy), random.randint(0, evaluation.cycles)
    raised = 0
    for objective in OBJECTIVE_NAMES:
        goal = Goal(objective, limits)
        value = goal.value(evaluation.energy, evaluation.cycles)
        bounds = [mixed.least_value(goal, total, *floors) for mixed, total in sifted.sums]
        assert all(goal.value(*floors) <= bound <= value for bound in bounds)
        raised += max(bounds, default=0) > goal.value(*floors)
    return raised


@pytest.mark.slow
def test_energy_and_load_together_tell_which_subproblems_are_promising():
    """Two words of weights per unit: the fewest cycles take too many accesses, and EDP is lower elsewhere."""
    files = ["architectures/eyeriss_like.yaml", "layers/resnet18/02_conv2_block1_a.yaml"]
    mapspace = perfect_mapspace(*(SPECS / file for file in files))
    architecture = mapspace.architecture
    nodes = (
        replace(node, size_words=2) if node.name == "weight_spad" else node for node in architecture.nodes
    )
    small = replace(mapspace, architecture=replace(architecture, nodes=tuple(nodes)))
    result = map_einsum(small, Options(objectives=("edp",)))
    assert result.status is Status.OPTIMAL
    assert sum(mask.nodes for mask in result.evidence[0].masks) < 2000


@pytest.mark.parametrize("objectives", [("latency",), ("latency", "energy")])
def test_workers_bound_loads_alike(objectives: tuple[str, ...]):
    files = [SPECS / "architectures" / "tpu_like.yaml", SPECS / "layers" / "alexnet" / "05_conv5.yaml"]
    mapspace = perfect_mapspace(*files)
    one, two = (map_einsum(mapspace, Options(objectives=objectives, jobs=jobs)) for jobs in (1, 2))
    assert one.status is two.status is Status.OPTIMAL
    assert one.mapping == two.mapping
    assert (one.bound, one.later_bounds) == (two.bound, two.later_bounds)
    assert one.statistics.states == two.statistics.states
