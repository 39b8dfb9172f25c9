"""Extents of parts, and bounds on all of them, against every way to cut small cascades with windows."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count, product
from random import Random

import pytest

from model.counting.words import tile_words
from model.fused.cascade import Cascade
from model.problem import Dataspace, Term
from solver.fusion import FusionLimits, bounds
from solver.fusion.edges import dense
from solver.fusion.mapper import _Search
from solver.fusion.parts import PartSizes
from solver.fusion.space import Frame, Frames, FusionSpace
from solver.fusion.trips import BodyLoops
from solver.result import Clock, Options, Termination
from tests.solver.fusion.test_optimum import drawn, windowed
from tests.solver.fusion.test_remainders import with_remainders

SLIDING = ("window", "two windows", "depthwise", "residual", "plane")


def every_loops(space: FusionSpace, outside: Frames = ()) -> Iterator[Frames]:
    """Yield nested fused groups with all trips that they may have."""
    around = range(outside[-1].start, outside[-1].end) if outside else range(len(space.einsums))
    for start, end in ((s, e) for s in around for e in space.ends(s) if e <= around.stop):
        if outside and (start, end) == (around.start, around.stop):
            continue
        for counts in BodyLoops(space).totals(outside, start, end):
            segment = tuple((number, count) for number, count in enumerate(counts) if count > 1)
            frames = (*outside, Frame(start, end, (segment,)))
            yield frames
            yield from every_loops(space, frames)


def cascades() -> Iterator[tuple[Random, Cascade]]:
    for name, seed in product(SLIDING, range(4)):
        random = Random(f"parts {name} {seed}")
        yield random, windowed(random, name)


def test_all_extents_of_parts_are_known():
    unequal = 0
    for _, cascade in cascades():
        space = FusionSpace(cascade)
        sizes = PartSizes(space)
        for frames in every_loops(space):
            frame = frames[-1]
            for place in range(frame.start, frame.end):
                bound = space.einsums[place].problem.bound
                for dim, parts in space.cuts(frames, place)[-1].parts.items():
                    unequal += 1
                    assert dim in (sizes.unlike(place) or ())
                    for size in (size for size, _ in parts):
                        largest = sizes.largest(place, dim, bound[dim])
                        assert largest is not None
                        assert any(multiple % size == 0 for multiple in largest)
    assert unequal > 100


def test_the_search_for_extents_asks_at_each_loop_whether_to_stop():
    for _, cascade in cascades():
        space, answers = FusionSpace(cascade), list[bool]()
        places = range(len(space.einsums))
        expected = [PartSizes(space).unlike(place) for place in places]
        for calls in count():
            answers[:] = [True, *(False for _ in range(calls))]
            sizes = PartSizes(space, partial(_answer, answers))
            stopped = sizes.unlike(0) is None
            assert stopped == (not answers)
            answers[:] = [False] * 1000
            assert [sizes.unlike(place) for place in places] == expected
            if not stopped:
                break
        assert calls >= max(len(own or ()) for own in expected) + 1


def _answer(answers: list[bool]) -> bool:
    return answers.pop()


def test_all_stages_of_a_search_know_the_clock_of_the_whole():
    whole = Clock(100.0)
    half = whole.share(2)
    half.end(Termination.TIME_LIMIT)
    assert half.share(2).whole is whole
    assert half.stop()
    assert not half.whole.stop()


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_parts_cost_no_less_than_what_was_bounded_before_they_were_cut(objective: str):
    compared = 0
    for random, cascade in cascades():
        pricer = _Search(cascade, objective, Options(), FusionLimits(), None, None).pricer
        every = list(every_loops(pricer.space))
        for frames in random.sample(every, min(len(every), 12)):
            frame = frames[-1]
            for place in (own for own in range(frame.start, frame.end) if pricer.follows(own)):
                *outer, last = pricer.space.cuts(frames, place)
                if not last.parts:
                    continue
                exact = pricer.in_parts(place, last.parts)
                for cut in (*outer, last):
                    bound = pricer.in_open_parts(place, cut)
                    compared += 1
                    assert bound.paid <= exact.paid
                    assert bound.cycles <= exact.cycles
    assert compared > 50


def test_strides_leave_out_what_no_index_takes():
    words = Dataspace("A", ((Term("p", 2), Term("r", 1)),))
    for p, r in product(range(1, 6), range(1, 5)):
        touched = {2 * i + j for i, j in product(range(p), range(r))}
        extents = {"p": p, "r": r}
        assert tile_words(dense(words, {"r": r}), extents) <= len(touched)
        assert r < 2 or tile_words(dense(words, {"r": r}), extents) == len(touched)
        assert tile_words(dense(words, {}), extents) <= len(touched)


@pytest.mark.parametrize("large", [1, 8, 64])
def test_what_an_iteration_costs_in_a_large_box_bounds_all_parts(large: int, monkeypatch: pytest.MonkeyPatch):
    """Where boxes are many, their exact bounds are not known, and this one takes their place."""
    monkeypatch.setattr(bounds, "LARGE", large)
    closer = 0
    for name, seed in product(("products", "attention", "three"), range(3)):
        random = Random(f"rates {name} {seed}")
        cascade = with_remainders(drawn(random, name))
        run = _Search(cascade, "energy", Options(), FusionLimits(), None, None)
        pricer = replace(run.pricer, space=run.widest, remainders=True)
        for place, einsum in enumerate(cascade.einsums):
            dims = [dim for dim in run.widest.looped(place) if einsum.problem.bound[dim] > 1]
            all_boxes = pricer.in_any_parts(place)
            by_rate = pricer._least_by_rate(place, (), dims)
            assert by_rate.paid <= all_boxes.paid
            assert by_rate.cycles <= all_boxes.cycles
            closer += by_rate != pricer.arithmetic(place)
    assert closer > 5
