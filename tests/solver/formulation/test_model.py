"""The formulation states the whole mapspace, and its objective is never above what a mapping costs."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import Fanout, StorageLevel
from model.cost import evaluate_in
from model.counting.words import Move, exact_changes
from model.extents import ANY
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.mapspace import FactorRule, Mapspace, SpatialRules, TemporalRules
from solver.cpsat import Settings
from solver.formulation import Formulation
from solver.formulation.chains import Chain
from solver.formulation.program import EmptyProgramError, Program
from solver.formulation.windows import ACROSS, BACK, WHOLE, covered_window
from tests.bruteforce import count_mappings, enumerate_mappings
from tests.mapspaces import free_mapspace, matmul
from tests.strategies import random_mapspaces

Factors = tuple[tuple[tuple[str, int], ...], ...]


def factors_and_keeps(mapping: Mapping) -> tuple[Factors, tuple[frozenset[str], ...]]:
    """What a mapping is without the order of its loops."""
    loops = [part.temporal if isinstance(part, StorageMapping) else part.spatial for part in mapping.nodes]
    keeps = tuple(part.keep for part in mapping.nodes if isinstance(part, StorageMapping))
    return tuple(tuple(sorted((loop.dim, loop.bound) for loop in own)) for own in loops), keeps


def solutions(formulation: Formulation) -> list[Mapping]:
    """All mappings that a formulation has, orders that nothing can tell apart once."""
    found = []
    while True:
        outcome, candidates = formulation.solve(Settings(), lambda: False)
        if outcome.is_infeasible:
            return found
        for candidate in candidates:
            found.append(candidate.mapping)
            formulation.exclude(candidate)


def held(mapspace: Mapspace) -> set[object]:
    """What levels hold in effect in mappings that are allowed and valid, see `factors_and_keeps`."""
    mappings = enumerate_mappings(mapspace, innermost_orders=False)
    return {factors_and_keeps(mapping) for mapping in mappings if evaluate_in(mapspace, mapping).valid}


@pytest.mark.parametrize("factors", ["perfect", "any"])
def test_solutions_are_the_valid_mappings(factors: str):
    checked = 0
    for drawn in random_mapspaces(21, 24, 40):
        mapspace = replace(drawn, factors=factors)
        if count_mappings(mapspace, 60, innermost_orders=False) > 60:
            continue
        expected = held(mapspace)
        try:
            found = solutions(Formulation(mapspace, timed=False))
        except EmptyProgramError:
            found = []
        assert all(evaluate_in(mapspace, mapping).valid for mapping in found)
        assert {factors_and_keeps(mapping) for mapping in found} == expected
        checked += bool(expected)
    assert checked > 5


def test_a_limit_on_loops_is_kept():
    buffers = (StorageLevel("dram"), StorageLevel("buffer", size_words=9))
    free = free_mapspace(matmul(2, 2, 2), *buffers)
    limited = replace(free, max_temporal_loops=3)
    most = [
        sum(m.temporal_loops for m in [mapping]) for mapping in solutions(Formulation(limited, timed=False))
    ]
    assert max(most) == 3


def test_rules_that_contradict_each_other_leave_nothing():
    mapspace = free_mapspace(matmul(4, 1, 1), StorageLevel("dram"), StorageLevel("buffer"))
    fixed = TemporalRules((FactorRule("M", "=", 3),))
    with pytest.raises(EmptyProgramError):
        Formulation(replace(mapspace, temporal=(fixed, TemporalRules())))


def test_what_is_not_formulated_is_refused():
    mapspace = free_mapspace(matmul(2, 2, 2), StorageLevel("dram"))
    with pytest.raises(ValueError, match="timeloop"):
        Formulation(replace(mapspace, counting="timeloop"))


# ------------------------------------------------------------------------ the objective


@pytest.mark.parametrize("factors", ["perfect", "any"])
def test_no_mapping_costs_less_than_the_objective_says(factors: str):
    """Each formulation is held to one mapping after the other, whose factors and kept tiles are fixed."""
    random, checked = Random(5), 0
    for drawn in (*random_mapspaces(31, 8, 60), *windows(62, 6)):
        mapspace = replace(drawn, factors=factors)
        mappings = list(itertools.islice(enumerate_mappings(mapspace, innermost_orders=False), 100))
        valid = [mapping for mapping in mappings if evaluate_in(mapspace, mapping).valid]
        for mapping in random.sample(valid, min(2, len(valid))):
            evaluation = evaluate_in(mapspace, mapping)
            for objective in ("energy", "latency"):
                assert least(mapspace, mapping, objective) <= evaluation.value(objective)
                checked += 1
    assert checked > 25


def windows(seed: int, count: int) -> list[Mapspace]:
    """Mapspaces of convolutions, whose windows are what is bounded most loosely."""
    drawn = random_mapspaces(seed, 64, 150)
    return [mapspace for mapspace in drawn if "convolution" in mapspace.problem.name][-count:]


def least(mapspace: Mapspace, mapping: Mapping, objective: str) -> Fraction:
    """The least that the objective is with the factors, orders and kept dataspaces of a mapping."""
    formulation = Formulation(mapspace, timed=objective == "latency")
    variables = formulation.variables
    for node, part in enumerate(mapping.nodes):
        loops = part.spatial if isinstance(part, FanoutMapping) else part.temporal
        factors = {loop.dim: loop.bound for loop in loops}
        for dim, chain in variables.chains.items():
            choice = chain.factor(node)
            formulation.program.forbid(x for own, x in choice.items() if own != factors.get(dim, 1))
    storage = [part for part in mapping.nodes if isinstance(part, StorageMapping)]
    for name, choice in variables.keeping.items():
        levels = tuple(level for level, part in enumerate(storage) if name in part.keep)
        formulation.program.forbid(x for own, x in choice.items() if own != levels)
    for slot, part in zip(variables.slots, storage[:-1], strict=False):
        for one, other in itertools.combinations([loop.dim for loop in part.temporal], 2):
            inside = slot.inside(one, other)
            assert inside is not False
            if inside is not True:
                formulation.program.model.add_bool_or([inside])
    scale = formulation.minimise(objective)
    outcome, _ = formulation.solve(Settings(), lambda: False)
    assert outcome.is_proven
    assert outcome.answer is not None
    return scale.value(outcome.answer.objective)


def delivered(tile: tuple[int, ...], moves: list[Move]) -> int:
    """Words that one instance receives."""
    return math.prod(tile) + sum(change.repeats * change.words for change in exact_changes(tile, moves))


def test_windows_are_never_overstated():
    """Loops over p and r, q and s, a dimension that indexes nothing, and one that ends all reuse."""
    random = Random(7)
    for _ in range(6000):
        coefficients = {dim: random.choice((1, 1, 2, 3)) for dim in "PRQS"}
        extents = {dim: random.choice((1, 1, 2, 3, 4)) for dim in "PRQS"} | {"C": 1, "K": 1}
        reach, loops = dict(extents), []
        for _ in range(random.randint(1, 6)):
            dim, factor = random.choice("PPRQSKC"), random.choice((2, 2, 3, 4))
            reach[dim] *= random.choice((2, 3)) if dim in "PRQS" and random.random() < 0.2 else 1
            loops.append((dim, factor, reach[dim]))
            reach[dim] *= factor
        tile = tuple(1 + sum(coefficients[d] * (extents[d] - 1) for d in pair) for pair in ("PR", "QS"))
        moves = [(factor, moved(dim, stride, coefficients)) for dim, factor, stride in loops]
        assert understated(loops, coefficients, extents) <= delivered((*tile, 1), moves)


def moved(dim: str, stride: int, coefficients: dict[str, int]) -> tuple[int, ...]:
    """How far a tile moves along its three ranks."""
    step = coefficients.get(dim, 1) * stride
    return tuple(step * (dim in rank) for rank in ("PR", "QS", "C"))


def understated(
    loops: list[tuple[str, int, int]], coefficients: dict[str, int], extents: dict[str, int]
) -> int:
    """Words by the rule of docs/formulation.md, loops innermost first."""
    before = list(itertools.takewhile(lambda loop: loop[0] != "C", loops))
    total = math.prod(factor for _, factor, _ in loops[len(before) :])
    claimed: list[bool] = []
    for place, (dim, factor, _) in enumerate(before):
        inside = {own for own, _, _ in before[:place]}
        free = not any(own == "K" and not claim for (own, _, _), claim in zip(before, claimed, strict=False))
        window = next((pair for pair in ("PR", "QS") if dim in pair), "")
        claimed.append(not (inside - {"K", *window}) and (free or not window))
        total *= 1 if claimed[-1] else factor
    for window in ("PR", "QS"):
        own = [place for place, loop in enumerate(before) if loop[0] in window and claimed[place]]
        reused = [math.prod(before[p][1] for p in own if before[p][0] == dim) for dim in window]
        later = {before[p][0] for p in range(len(before)) if own and p > own[0] and not claimed[p]}
        sweep = ACROSS if later & set(window) else BACK if later else WHOLE
        total *= covered_window(
            [coefficients[d] for d in window], [extents[d] for d in window], reused, sweep
        )
    return total


# ------------------------------------------------------------------------- one dimension


@pytest.mark.parametrize(("bound", "factors"), [(12, "perfect"), (6, ANY), (7, ANY)])
def test_positions_of_loops_are_counted(bound: int, factors: str):
    """Against the digits of all iterations, chain by chain."""
    nodes = (StorageLevel("a"), Fanout("f", 12), StorageLevel("b"), Fanout("g", 12))
    free = free_mapspace(matmul(bound, 1, 1), *nodes)
    mapspace = replace(free, factors=factors, spatial=(SpatialRules(), SpatialRules()))
    for members in ([0, 2], [1, 3], [1, 2], [0, 1, 3]):
        program = Program()
        chain = Chain(program, mapspace, "M")
        positions, choices = chain.positions(members), [chain.factor(node) for node in range(4)]
        found = set()
        while True:
            outcome = program.checked.solve(Settings(), lambda: False)
            if outcome.answer is None:
                break
            answer = outcome.answer
            places = [answer.choice(choice.literals) for choice in choices]
            count = positions.values[answer.choice(positions.literals)]
            found.add((tuple(c.values[p] for c, p in zip(choices, places, strict=True)), *count))
            own = [c.literals[p] for c, p in zip(choices, places, strict=True)]
            program.model.add_bool_or([literal.negated() for literal in own])
        chains = mapspace.extents("M").chains(4)
        assert found == {(own[::-1], digits(bound, own[::-1], members)) for own in chains}


def digits(bound: int, factors: tuple[int, ...], members: list[int]) -> int:
    """Different positions of some of the loops, outermost first, over all iterations."""
    seen = set()
    for iteration in range(bound):
        rest, own = iteration, []
        for node in reversed(range(len(factors))):
            rest, digit = divmod(rest, factors[node])
            own += [digit] if node in members else []
        seen.add(tuple(own))
    return len(seen)


def test_limits_are_exact_however_large_the_costs_are():
    random = Random(3)
    for _ in range(40):
        costs = [Fraction(random.randint(-(10**14), 10**14), random.choice((1, 3))) for _ in range(7)]
        sums = {
            chosen: sum(cost for cost, own in zip(costs, chosen, strict=True) if own)
            for chosen in itertools.product((False, True), repeat=7)
        }
        most = random.choice(sorted(sums.values())) - random.choice((0, Fraction(1, 3)))
        program = Program()
        literals = [program.literal() for _ in costs]
        program.limit(literals, costs, most)
        for chosen, total in random.sample(sorted(sums.items()), 6):
            program.model.clear_assumptions()
            program.model.add_assumptions(
                [x if own else x.negated() for x, own in zip(literals, chosen, strict=True)]
            )
            fits = program.checked.solve(Settings(presolve=False), lambda: False).answer is not None
            assert fits == (total <= most)


def test_hints_are_the_values_of_a_mapping():
    """A program that is held to all hints has the mapping as its answer."""
    for drawn in random_mapspaces(41, 6, 80):
        mappings = itertools.islice(enumerate_mappings(drawn, innermost_orders=False), 30)
        valid = [mapping for mapping in mappings if evaluate_in(drawn, mapping).valid]
        for mapping in valid[-1:]:
            formulation = Formulation(drawn, timed=False)
            formulation.hint(mapping)
            hint = formulation.program.model.proto.solution_hint
            assert len(set(hint.vars)) == len(hint.vars)
            for variable, value in zip(hint.vars, hint.values, strict=True):
                own = formulation.program.model.get_bool_var_from_proto_index(variable)
                formulation.program.model.add_bool_or([own if value else own.negated()])
            outcome, candidates = formulation.solve(Settings(), lambda: False)
            assert outcome.is_proven
            assert factors_and_keeps(candidates[-1].mapping) == factors_and_keeps(mapping)
