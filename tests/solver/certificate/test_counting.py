"""Certificates under each counting rule: enumerated optima, false claims, and bounds on words."""

import copy
from dataclasses import replace
from itertools import permutations
from math import inf, prod
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.counting import COUNTINGS, EXACT, TIMELOOP
from model.mapspace import KeepRules
from model.numbers import prime_factors
from model.problem import Dataspace, Problem, Term
from solver.certificate.canonical import canonical, canonical_mapping, canonical_sha256
from solver.certificate.checker.counting import Executed
from tests import strategies
from tests.bruteforce import objective_value, valid_mappings
from tests.mapspaces import free_mapspace
from tests.solver.certificate.checker import bounds, dataspaces, digested, prove, verdict
from tests.solver.certificate.enumerated import claimed, enumerated
from tests.solver.search.unusual import (
    register_mapspaces,
    sliding_register_mapspaces,
    windowed_mapspaces,
    windows_anywhere,
)

OBJECTIVES = (("energy",), ("latency",), ("edp",), ("energy", "latency"), ("latency", "energy"))
KINDS = ("windows", "registers", "sliding registers", "windowed registers")

COST = "this claim fails: the cost matches the mapping"


def of_a_kind(kind, monkeypatch, count):
    """Mapspaces with strides, dilations, outputs with windows and registers of one word."""
    if kind == "sliding registers":
        return sliding_register_mapspaces(3, count, 300)
    if kind == "windowed registers":
        return windowed_mapspaces(3, count, 300)
    monkeypatch.setattr(strategies, "EINSUMS", (windows_anywhere,))
    draw = register_mapspaces if kind == "registers" else strategies.random_mapspaces
    return draw(3, count, 300)


def priced(mapspace):
    """All mappings that fit, with their costs."""
    return list(valid_mappings(mapspace))


def ranked(objectives, mappings):
    """The best mapping of each value, best first, as `tests.bruteforce.optima` returns optima."""
    best = {
        objective_value(objectives, energy, cycles): mapping for mapping, energy, cycles in reversed(mappings)
    }
    return sorted(best.items(), key=lambda item: item[0])


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_optima_are_valid_and_nothing_else(kind, counting, monkeypatch, tmp_path):
    for number, drawn in enumerate(of_a_kind(kind, monkeypatch, 6)):
        mapspace = replace(drawn, counting=counting)
        objectives = OBJECTIVES[number % len(OBJECTIVES)]
        best = ranked(objectives, priced(mapspace))
        document = claimed(mapspace, objectives, best[0] if best else None)
        assert verdict(document, tmp_path)[0] == "VALID"
        if not best:
            continue
        lower = copy.deepcopy(document)
        lower["bounds"][0] -= 1
        lower["cost"][objectives[0]] -= 1
        assert verdict(digested(lower), tmp_path)[0] == "INVALID"
        raised = digested({**document, "status": "FEASIBLE", "bounds": [document["bounds"][0] + 1]})
        assert verdict(raised, tmp_path)[0] == "INVALID"
        for second in best[1:2]:
            assert verdict(claimed(mapspace, objectives, second), tmp_path)[0] == "INVALID"


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_excludes_a_mapping(kind, counting, monkeypatch):
    """With its own costs as limits each mapping has to be found, or another that is as good."""
    random = Random(kind)
    for drawn in of_a_kind(kind, monkeypatch, 6):
        mapspace = replace(drawn, counting=counting)
        space, mappings = prove.Space(canonical(mapspace)), priced(mapspace)
        for own in random.sample(mappings, min(5, len(mappings))):
            cost = space.price(*space.read(canonical_mapping(mapspace, own.mapping)))
            assert (cost["energy"], cost["latency"], cost["fits"]) == (own.energy, own.cycles, True)
            assert prove.refute(space, prove.Query(energy=own.energy, latency=own.cycles)) is not None


def random_space(random):
    """A dataspace under the exact rule with windows, or with any ranks, and the bounds of its dimensions."""
    bounds = tuple(random.choice((1, 2, 3, 4, 6, 8, 9, 12)) for _ in range(4))
    if random.random() < 0.5:
        near, far = random.choice(((1, 1), (2, 1), (1, 2), (3, 1), (1, 3), (2, 3), (1, 4), (-1, -2)))
        ranks = [
            [[0, near], [1, far]],
            *random.choice(([], [[[2, 1]]], [[[2, 1], [3, 1]]], [[[2, 1], [3, 2]]])),
        ]
    else:
        ranks = [
            [
                [d, random.choice((1, 1, 2, 3, -1))]
                for d in random.sample(range(4), random.choice((1, 2, 2, 3)))
            ]
            for _ in range(random.choice((1, 2, 2)))
        ]
    document = {"read_write": True, "keep": [[0]], "ranks": ranks}
    return Executed(document, bounds), bounds


def random_nest(random, bounds):
    """Extents of a tile, and temporal loops outside of it, some of which have spatial ones in between."""
    extent, factors = [], []
    for d, bound in enumerate(bounds):
        inside = random.choice(dataspaces.divisors(bound))
        extent.append(inside)
        left = bound // inside
        while left > 1:
            n = random.choice(dataspaces.divisors(left)[1:])
            factors.append((d, n, random.random() < 0.2))
            left //= n
    random.shuffle(factors)
    stride, loops = list(extent), []
    for d, n, spatial in factors:
        loops += [] if spatial else [(d, n, stride[d])]
        stride[d] *= n
    return tuple(extent), tuple(loops)


def executed(space, extent, loops):
    """Words that an execution of a nest fetches, iteration by iteration."""
    lengths, places = space.lengths(extent), [(0,) * len(space.ranks)]
    for d, n, stride in loops:
        step = space.move(d, stride)
        places = [tuple(a + i * b for a, b in zip(at, step, strict=True)) for i in range(n) for at in places]
    words, before = 0, set()
    for at in places:
        held = {()}
        for first, length in zip(at, lengths, strict=True):
            held = {(*word, first + i) for word in held for i in range(length)}
        words, before = words + len(held - before), held
    return words


def test_exact_counts_are_those_of_an_execution_and_above_their_bounds():
    random, seen = Random(5), 0
    while seen < 400:
        space, bounds = random_space(random)
        extent, loops = random_nest(random, bounds)
        if prod(n for _, n, _ in loops) * space.tile(extent) > 3000:
            continue
        seen += 1
        words = executed(space, extent, loops)
        assert space.delivered(extent, loops, True) == words
        leads = [place for place, (d, _, _) in enumerate(loops) if d in space.relevant]
        if leads:
            assert table_words(space, extent, loops[leads[0] :]) <= words


def test_no_order_of_loops_brings_less_than_tables_take_for_granted():
    """All orders of prime factors, the steps of a dimension growing outwards."""
    random, nests = Random(6), 0
    while nests < 30_000:
        space, bounds = random_space(random)
        extent = tuple(random.choice(dataspaces.divisors(bound)) for bound in bounds)
        left = tuple(n // inside for n, inside in zip(bounds, extent, strict=True))
        primes = [d for d, n in enumerate(left) for _ in range(sum(times for _, times in prime_factors(n)))]
        if not 2 <= len(primes) <= 6 or not space.windows:
            continue
        few = int(space.few_words(extent, extent, left, prod(left)))
        for order in set(permutations(primes)):
            for descending in (False, True):
                loops = factored(extent, left, order, descending)
                nests += 1
                if loops[0][0] in space.relevant:
                    assert few <= space.delivered(extent, loops, True)


def factored(extent, left, order, descending):
    """Loops over these dimensions, each with one of the prime factors that are left of it."""
    primes = {
        d: sorted((p for p, times in prime_factors(n) for _ in range(times)), reverse=descending)
        for d, n in enumerate(left)
    }
    now, loops = list(extent), []
    for d in order:
        n = primes[d].pop(0)
        loops.append((d, n, now[d]))
        now[d] *= n
    return tuple(loops)


def products(loops):
    """Iterations per dimension."""
    return tuple(prod(n for other, n, _ in loops if other == d) for d in range(4))


def table_words(space, extent, loops):
    """What tables take it to get at least when the first of `loops` ends its reuse."""
    left = products(loops)
    return int(space.few_words(extent, extent, left, prod(left)))


def one_word_register(counting):
    """One row of a convolution, 5 outputs and 3 taps, whose inputs pass through a register of one word.

    Timeloop's rule has the register take 11 words where Q is outside. An execution fetches 15; with S
    outside it is 13.
    """
    spaces = (
        Dataspace("Weights", ((Term("S"),),)),
        Dataspace("Inputs", ((Term("Q"), Term("S")),)),
        Dataspace("Outputs", ((Term("Q"),),), read_write=True),
    )
    problem = Problem("row", ("Q", "S"), (5, 3), spaces)
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(10, 10, 0)),
        StorageLevel("register", size_words=1),
    )
    keep = (KeepRules(frozenset({"Weights", "Inputs", "Outputs"})), KeepRules(frozenset({"Inputs"})))
    keep = (keep[0], replace(keep[1], bypass=keep[0].keep - keep[1].keep))
    return replace(free_mapspace(problem, *levels), keep=keep, counting=counting)


def recounted(document, counting):
    """The certificate with another rule, or none, and all hashes computed anew."""
    changed = copy.deepcopy(document)
    del changed["problem"]["counting"]
    if counting is not None:
        changed["problem"]["counting"] = counting
    changed["problem_sha256"] = canonical_sha256(changed["problem"])
    return digested(changed)


@pytest.mark.parametrize("counting", COUNTINGS)
def test_a_certificate_of_one_rule_is_none_of_the_other(counting, tmp_path):
    document = enumerated(one_word_register(counting), "energy")
    assert verdict(document, tmp_path)[0] == "VALID"
    for other in (EXACT, TIMELOOP, None, "other", ["exact"], 1):
        result, reason = verdict(recounted(document, other), tmp_path)
        assert result == ("VALID" if other == counting else "INVALID"), reason
        assert (other in COUNTINGS) == (reason == COST or result == "VALID")


def test_the_rules_certify_different_optima():
    exact, timeloop = (enumerated(one_word_register(counting), "energy") for counting in COUNTINGS)
    assert exact["bounds"] > timeloop["bounds"]
    assert exact["problem_sha256"] != timeloop["problem_sha256"]


def test_nests_are_compared_by_the_children_that_have_different_tiles():
    """Loops of a fanout advance a window by the iterations inside of each: here every child has its own."""
    window = Dataspace("I", ((Term("C"),), (Term("P"), Term("R"))))
    output = Dataspace("Z", ((Term("P"),),), read_write=True)
    problem = Problem("window", ("C", "P", "R"), (2, 2, 4), (window, output))
    nodes = StorageLevel("DRAM"), Fanout("PE", 2, 2), StorageLevel("spad")
    space = prove.Space(canonical(free_mapspace(problem, *nodes)))
    (fan,) = space.fans
    (i,) = np.flatnonzero((space.spatial == [[1, 2, 2]]).all(axis=(1, 2)))
    mask = tuple(own.keep[-1] for own in space.spaces)
    choice = bounds.Choice(bounds.Choices(space), mask, int(i), prove.Query(), 1, inf, (None,))
    points = [choice.origin]
    while points[0].p >= fan or choice.loops(points[0])[-1] != {2: 2}:
        points = [*points[1:], *choice.grown(points[0])]
    assert space.spaces[0].distinct(((1, 2, 1), (2, 2, 2)), True) == 4
    assert choice.compared(points[0])[1][-1] == 4


@pytest.mark.parametrize("seed", range(20))
def test_plain_tiles_come_whole_from_the_first_loop_on_that_moves_them(seed: int):
    """As by what each loop brings, one by one."""
    random = Random(seed)
    dims = random.sample(range(4), random.randint(0, 4))
    ranks = [[[d, random.choice((1, 1, 2, 3, -1))]] for d in dims]
    extent = tuple(random.choice((1, 2, 3)) for _ in range(4))
    loops, at = [], [*extent]
    for d, n in ((random.randrange(4), random.choice((1, 2, 3))) for _ in range(6)):
        loops.append((d, n, at[d]))
        at[d] *= n
    plain, one_by_one = (Executed({"ranks": ranks, "read_write": False, "keep": []}, at) for _ in range(2))
    assert plain.is_plain
    one_by_one.is_plain = False
    for reuse in (True, False):
        own, other = (space.delivered(extent, tuple(loops), reuse) for space in (plain, one_by_one))
        assert own == other
