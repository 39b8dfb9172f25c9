"""Bounds on the rests of paths against what paths drawn at random cost once they are settled."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.extents import ANY
from model.fused.cascade import Cascade
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.assembly import rooms_left
from solver.fusion.drafts import Given
from solver.fusion.edges import Choice, Left
from solver.fusion.labels import Label, Queue, Step
from solver.fusion.mapper import _Search
from solver.fusion.path import PathSearch
from solver.fusion.space import Frame
from solver.result import Options
from tests.model.fused.random_cascades import cascade_of
from tests.slow import few, slow
from tests.solver.fusion.test_optimum import drawn, windowed
from tests.solver.fusion.test_remainders import with_remainders


def walk(search: PathSearch, random: Random) -> tuple[Label, int] | None:
    """A path to the end, each step of it drawn, and the most that bounds said of it; None without an end."""
    label, most = search.start(0, frozenset()), 0
    while label.at < len(search.space.einsums):
        following = list(search._following(label, Queue(None, None)))
        # Bodies are drawn more often than without a preference, and those with bodies inside.
        deep = [own for own in following if own[0].draft is not None and not own[0].draft.frame.flat]
        if not following:
            return None
        label, rough = random.choice(deep if deep and random.random() < 0.5 else following)
        most = max(most, rough or 0)
    return label, most


def on_path(label: Label | None) -> Iterator[Label]:
    """Yield the labels of a path, the last one first."""
    while label is not None:
        yield label
        label = label.parent


def check_bounds(cascade: Cascade, objective: str, random: Random, walks: int) -> int:
    """Compare the bound at each label of some paths with what the rest costs; how many were compared."""
    run = _Search(cascade, objective, Options(), FusionLimits(), None, None)
    if cascade.einsums[0].mapspace.factors == ANY:
        run.pricer = replace(run.pricer, remainders=True)
    search = PathSearch(run.space, run.pricer, objective, run.counts)
    search.tighten()
    compared = 0
    for last, most in filter(None, (walk(search, random) for _ in range(walks))):
        steps = last.steps()
        rooms = rooms_left(search.space, steps)
        for _ in range(4):
            steps = [
                run._with_known_mapping(search, step, room) for step, room in zip(steps, rooms, strict=True)
            ]
            run._refine(steps, rooms)
        costs = [cheapest(run, step, room) for step, room in zip(steps, rooms, strict=True)]
        if None in costs:
            continue
        assert most <= sum(known or 0 for known in costs)
        for label in on_path(last):
            rest = search.rest_of(label)[objective == "latency"]
            assert rest <= sum(known or 0 for known in costs[label.at :])
            compared += 1
    return compared


def _fits(choice: Choice, room: Left) -> bool:
    if choice.point is not None:
        return room.has_room(choice.point)
    return room.words is None or choice.need_words <= room.words


def cheapest(run: _Search, step: Step, room: Left) -> int | None:
    """Least cost of an edge by a mapping that fits; None if that is not known."""
    if step.kind is None:
        return 0
    known = run.pricer.least(step.kind)
    fitting = [own for own in known if _fits(own, room)]
    costs = [(own.cycles if run.objective == "latency" else own.energy, own.point is None) for own in fitting]
    if not costs or min(costs)[1]:
        return None
    return min(costs)[0] * run.space.einsums[step.place].n_instances


@pytest.mark.parametrize(
    "name, objective",
    [
        ("attention", "energy"),
        ("projections", "energy"),
        ("projections", "latency"),
        slow("three", "latency"),
        slow("diamond", "latency"),
        slow("skip", "energy"),
    ],
)
def test_no_bound_is_above_a_settled_path(name: str, objective: str) -> None:
    random = Random(name)
    cascade = drawn(random, name)
    assert check_bounds(cascade, objective, random, walks=12) > 5


@pytest.mark.parametrize("name", ["depthwise", "residual"])
def test_no_bound_is_above_a_settled_path_with_windows(name: str) -> None:
    random = Random(name)
    cascade = windowed(random, name)
    assert check_bounds(cascade, "energy", random, walks=12) > 5


@pytest.mark.parametrize(
    "name, objective", few([("attention", "latency"), ("three", "energy"), ("diamond", "energy")])
)
def test_no_bound_is_above_a_settled_path_with_remainders(name: str, objective: str) -> None:
    random = Random(f"remainders {name}")
    cascade = with_remainders(drawn(random, name))
    assert check_bounds(cascade, objective, random, walks=6) > 5


@pytest.mark.parametrize("size_words", [3, 4])
def test_held_tiles_below_loops_to_come_have_no_holes_between_strides(size_words: int) -> None:
    """Every other value of T is read: one by one, seven words and not thirteen come from outside."""
    nodes = (
        StorageLevel("Main", energy=AccessEnergy(200, 0, 200)),
        StorageLevel("GLB", size_words=size_words, energy=AccessEnergy(1, 1, 1)),
    )
    architecture = Architecture("small", nodes, Compute("MAC", energy=1))
    shape, bounds = ("U[q,n] = T[2*q+r]", "Z[q] = U[q,n]"), {"q": 7, "r": 1, "n": 3}
    cascade = cascade_of(shape, bounds, architecture)
    run = _Search(cascade, "energy", Options(), FusionLimits(), None, None)
    least, nothing = run._paths(run.space).bodies, [Given((), 0)] * 2
    body, following, left = Frame(0, 2, (), flat=True), np.array([[1, 1]]), np.array([[7, 3]])
    (bound,), _ = least.of_bodies((), body, [following, left], nothing)
    (floor, _) = least.bounds.floor(0, frozenset(), 0).least({"q": 7, "n": 3})
    result = fuse_cascade(cascade, "energy")
    assert result.evaluation is not None
    assert bound <= (result.value or 0)
    assert floor <= result.evaluation.einsum("U").energy
