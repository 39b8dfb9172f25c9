"""Labels of points lie beside these, and on nothing else."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from solver.report.label_places import POINT_RADIUS, Box, Label, label_offsets

FRAME = Box(0, 0, 100, 80)

labels = st.lists(
    st.builds(
        Label,
        x=st.integers(0, 100),
        y=st.integers(0, 80),
        width=st.integers(1, 40),
        height=st.integers(1, 12),
    ),
    max_size=12,
)


@given(labels)
def test_labels_lie_on_no_other_and_on_no_point(labels: list[Label]):
    offsets = label_offsets(labels, FRAME)
    boxes = [label.at(own) for label, own in zip(labels, offsets, strict=True) if own is not None]
    assert all(FRAME.holds(box) for box in boxes)
    assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    assert not any(box.meets(label.marker) for box in boxes for label in labels)


@given(labels)
def test_the_first_is_labelled_where_it_likes(labels: list[Label]):
    middle = Label(50, 40, 10, 5)
    away = [label for label in labels if abs(label.x - 50) > 30 or abs(label.y - 40) > 20]
    first, *_ = label_offsets([middle, *away], FRAME)
    assert first is not None
    assert first[0] == first[1] > POINT_RADIUS


def test_a_label_is_nearest_to_its_own_point():
    lower, upper = label_offsets([Label(50, 40, 10, 5), Label(50, 44, 10, 5)], FRAME)
    assert lower is not None
    assert upper is not None
    assert lower[1] < 0 < upper[1]


def test_labels_go_round_a_point_and_stay_inside():
    corner = [Label(95, 75, 10, 5), *(Label(50, 40, 10, 5) for _ in range(4))]
    offsets = label_offsets(corner, FRAME)
    assert offsets[0] is not None
    assert max(offsets[0]) < 0
    assert len({own for own in offsets[1:] if own is not None}) == 4


def test_what_finds_no_room_has_no_label():
    assert label_offsets([Label(50, 40, 90, 5)] * 9, FRAME)[-1] is None
