"""Words of many orders at once, against the cost model's own count of each."""

from itertools import permutations
from random import Random

import numpy as np
import pytest

from model.counting import COUNTINGS, Counting, rule_of
from model.counting.words import Move
from solver.search.path.completion import Arrivals


def random_loops(random: Random, ranks: int, count: int) -> tuple[Move, ...]:
    moves = (tuple(random.choice((0, 0, 1, 1, 2, 3, 4, -1)) for _ in range(ranks)) for _ in range(count))
    return tuple((random.choice((2, 2, 3, 5)), move) for move in moves)


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("scale", [1, 1 << 61])
@pytest.mark.parametrize("seed", range(10))
def test_words_are_those_of_the_cost_model(seed: int, scale: int, counting: Counting):
    """Also where 64 bits do not suffice."""
    random = Random(seed)
    for _ in range(40):
        ranks = random.randint(0, 3)
        tile = tuple(random.choice((1, 1, 2, 3, 5)) for _ in range(ranks))
        inner, slot, outer = (random_loops(random, ranks, random.randint(0, 3)) for _ in range(3))
        outer = (*outer, (scale, (0,) * ranks)) if scale > 1 else outer
        orders = list(permutations(range(len(slot))))
        places = np.array(orders, dtype=np.int64).reshape(len(orders), len(slot))
        words = Arrivals(counting, tile, inner, slot, outer, places).words()
        nests = [(*inner, *(slot[place] for place in order), *outer) for order in orders]
        assert words == [rule_of(counting).delivered_words(tile, nest) for nest in nests]
