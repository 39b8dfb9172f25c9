"""How often loops return to a window's tiles, against the words that nests of loops deliver."""

import math
from random import Random

import numpy as np
import pytest

from model.cost.counting import Move, delivered_words
from solver.search.space.windows import ALWAYS, NEVER, Returns, led_words


def returning(extent: int, nest: list[Move]) -> list[bool]:
    """Which loops outside of the first one meet a tile again that overlaps with the one at hand."""
    (_, (lead,)), *outer = nest
    moved, found = lead, []
    for _, (move,) in outer:
        found.append(move > 0 and (move == moved or (move - moved == lead < extent)))
        moved += move
    return found


def bounded(extent: int, nest: list[Move], returns: Returns) -> int:
    plain = np.array([extent * math.prod(count for count, _ in nest)])
    count, (move,) = nest[0]
    return int(led_words(plain, np.array([extent]), count, move, returns, np.array([0]))[0])


@pytest.mark.parametrize("seed", range(400))
def test_no_nest_delivers_less(seed: int):
    """The loops outside of a lead are one slot's and those farther out; some leave the tile in place."""
    random = Random(seed)
    extent = random.randint(1, 4)
    nest: list[Move] = [(random.randint(2, 4), (random.randint(1, 3),))]
    nest += [
        (random.randint(2, 4), (random.choice((0, 1, 2, 3, 4, 6)),)) for _ in range(random.randint(1, 4))
    ]
    slot = random.randint(1, len(nest))
    again = returning(extent, nest)
    here, farther = (
        math.prod(count for (count, _), back in zip(part, known, strict=True) if back)
        for part, known in ((nest[1:slot], again[: slot - 1]), (nest[slot:], again[slot - 1 :]))
    )
    between = math.prod(count for count, _ in nest[1:slot])
    delivered = delivered_words((extent,), nest)
    least = bounded(extent, nest, Returns(here, farther, between))
    assert least <= delivered
    assert bounded(extent, nest, ALWAYS) <= least <= bounded(extent, nest, NEVER)
    if not any(again):
        assert least == delivered


@pytest.mark.parametrize(("between", "outer", "expected"), [(1, 4, 4 * 5 + 1), (3, 4, 12 * 5 + 1 + 8)])
def test_returns_to_a_tile_of_one_word(between: int, outer: int, expected: int):
    """A loop that steps as far as the lead begins a run where the last one ended, unlike one between."""
    nest: list[Move] = [(6, (1,)), (between, (0,)), (outer, (1,))]
    assert delivered_words((1,), nest) == expected
    assert bounded(1, nest, Returns(1, outer, between)) == expected
