"""Paths that meet, against all paths one after the other."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from model.architecture import AccessEnergy, StorageLevel
from model.extents import ANY, PERFECT
from solver.search.goal import Goal
from solver.search.path.branch import Branch
from solver.search.path.junctions import Junction, Junctions, walks
from solver.search.path.search import EinsumSearch
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import optimum
from tests.mapspaces import free_mapspace, matmul
from tests.slow import few
from tests.solver.search.path.alone import quiet
from tests.strategies import random_mapspaces, random_mapspaces_with_places, random_mapspaces_with_remainders

DEPTH = 4


@pytest.mark.parametrize("seed", range(20))
def test_every_walk_is_found_once_in_whatever_order_its_ways_are_found(seed: int):
    random, junctions = Random(seed), Junctions()
    # By the boundary where it is: a junction, and all walks that lead to it, as numbers of tiles.
    reached = {DEPTH: [Junction(({DEPTH: (n,)}, {})) for n in range(2)]}
    ways: list[tuple[Junction, Junction | None, int, int]] = []
    found = []
    for tile in range(60):
        slot = random.choice([own - 1 for own, there in reached.items() if own and there])
        start = random.choice(reached[slot + 1])
        if slot == 0:
            ended = [junctions.complete(start, None, (tile,), 0.0, 0.0)]
            ways.append((start, None, slot, tile))
        else:
            end, ended = junctions.step(start, slot, None, (tile,), (slot, random.randrange(3)))
            ways.append((start, end, slot, tile))
            if end not in reached.setdefault(slot, []):
                reached[slot].append(end)
        # What is looked for late holds what was there in time.
        found += [walks(own, max(way.number for way in own)) for own in ended]
    walked = [tuple(own for (own,) in tiles.values()) for some in found for tiles, _ in some]
    assert sorted(walked) == sorted(all_walks(reached[DEPTH], ways))
    assert walked


def all_walks(begun, ways):
    """Every walk through the ways, as the numbers of tiles along it."""

    def onwards(junction):
        for start, end, _, tile in ways:
            if start is junction:
                yield from ([(tile,)] if end is None else ((tile, *rest) for rest in onwards(end)))

    return [(first, *rest) for first, own in enumerate(begun) for rest in onwards(own)]


class Apart(Branch):
    """Follows every path by itself."""

    def _alike(self, *_: object) -> object:
        return object()


@dataclass
class Twice(EinsumSearch):
    """Lists all paths of each row in both ways; `steps` counts junctions."""

    steps: list[int] = field(default_factory=lambda: [0, 0])

    def _paths(self, row, value, *rest):
        best, self.goal.incumbent = self.goal.incumbent, None  # worse ones as well
        given = super()._paths(row, value).branch
        both = [kind(given.masked, given.row, given.worth, given.stop) for kind in (Branch, Apart)]
        listed = [list(own.paths()) for own in both]
        assert {own.path for own in listed[0]} == {own.path for own in listed[1]}
        assert len({own.path for own in listed[0]}) == len(listed[0])
        for number, (own, branch) in enumerate(zip(listed, both, strict=True)):
            assert [found.value for found in own] == sorted(found.value for found in own)
            self.steps[number] += len(branch._junctions._known)
        self.goal.incumbent = best
        return super()._paths(row, value, *rest)


def with_free_levels(mapspace):
    """All but the outermost level cost nothing: many paths cost the same."""
    first, *others = mapspace.architecture.nodes
    free = (replace(own, energy=AccessEnergy()) if isinstance(own, StorageLevel) else own for own in others)
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=(first, *free)))


KINDS = [random_mapspaces, random_mapspaces_with_remainders, random_mapspaces_with_places]


@pytest.mark.parametrize(("kind", "seed"), few([(kind, seed) for seed in range(3) for kind in KINDS], 3))
def test_branches_have_the_paths_that_they_have_without_junctions(kind, seed: int):
    merged = apart = 0
    for mapspace in kind(seed, 12, 1000):
        search = Twice(SearchSpace(with_free_levels(mapspace)), Goal("energy"), quiet())
        search.run()
        merged, apart = merged + search.steps[0], apart + search.steps[1]
    assert 0 < merged < apart


@pytest.mark.parametrize(("bounds", "factors"), [((4, 2, 6), PERFECT), ((3, 1, 4), ANY)])
def test_four_levels_of_which_one_costs_something(bounds, factors):
    levels = [StorageLevel(f"level{n}", size_words=words) for n, words in enumerate((24, 12, 6))]
    dram = StorageLevel("DRAM", energy=AccessEnergy(200, 170, 190))
    mapspace = replace(free_mapspace(matmul(*bounds), dram, *levels), factors=factors)
    search = Twice(SearchSpace(mapspace), Goal("energy"), quiet())
    best = optimum(mapspace, "energy")
    assert search.run() == best[0]
    assert 0 < search.steps[0] < search.steps[1] / 2
