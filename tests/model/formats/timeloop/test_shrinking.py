import math

from hypothesis import given
from hypothesis import strategies as st

from model.formats.timeloop.shrinking import irreducible


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 60))
def test_none_of_the_parts_can_be_left_out(weights, limit):
    parts = list(enumerate(weights))

    def too_heavy(chosen):
        return sum(weight for _, weight in chosen) > limit

    if not too_heavy(parts):
        return
    few = irreducible(parts, too_heavy)
    assert too_heavy(few)
    assert all(not too_heavy([other for other in few if other is not part]) for part in few)


def test_few_of_many_parts_take_few_trials():
    trials = []

    def conflict(chosen):
        trials.append(chosen)
        return {17, 900} <= set(chosen)

    assert irreducible(range(1000), conflict) == [17, 900]
    assert len(trials) < 4 * math.log2(1000) + 4


def test_earlier_parts_are_kept_where_later_ones_can_go():
    assert irreducible("abcd", lambda chosen: len(chosen) >= 2) == ["a", "b"]
