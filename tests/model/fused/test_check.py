"""Mappings that break a rule of the fused mapspace, and the loops that bodies may have."""

from dataclasses import replace

import pytest

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.fused.cascade import Cascade
from model.fused.check import FusedMappingError, loop_choices
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, PrivateNest, SharedLoop, Stored
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from tests.model.fused.random_cascades import SHAPES, cascade_of

PLAIN = Architecture("plain", (StorageLevel("Main"), StorageLevel("GLB", size_words=100)), Compute("MAC"))
PRODUCTS = cascade_of(SHAPES["products"], {"m": 4, "a": 2, "b": 2, "c": 2}, PLAIN)
WINDOW = cascade_of(SHAPES["plane"], {"x": 4, "y": 4, "r": 2, "s": 2, "p": 5, "q": 5}, PLAIN)


def nest(keep: str = "", **bounds: int) -> PrivateNest:
    """All loops at the outermost memory, which keeps some dataspaces."""
    loops = tuple(Loop(dim, bound) for dim, bound in bounds.items())
    return PrivateNest(Mapping((StorageMapping(loops, frozenset(keep)), StorageMapping())))


def body(*loops: SharedLoop, first: Leaf | None = None, second: Leaf | None = None) -> Body:
    """The two products under loops over m, unless others are given."""
    return Body(
        loops or (SharedLoop(2, (("T", "m"), ("Z", "m"))),),
        (
            first or Leaf("T", (nest("AW", m=2, a=2, b=2),)),
            second or Leaf("Z", (nest("ZV", m=2, b=2, c=2),)),
        ),
    )


STORED = (Stored("T", "GLB", 1),)
GOOD = FusedMapping((body(),), STORED)


def test_a_good_one():
    assert evaluate_fused(PRODUCTS, GOOD).valid


def _held(dataspace: str, depth: int, keep: str = "AW", keeps_overlap: bool = False) -> FusedMapping:
    leaf = Leaf("T", (nest(keep, m=2, a=2, b=2),), (Held(dataspace, depth, keeps_overlap),))
    return FusedMapping((body(first=leaf),), STORED)


BAD: list[tuple[str, FusedMapping]] = [
    ("the leaves are", FusedMapping((Leaf("Z", ()), Leaf("T", ())))),
    ("at least two Einsums", FusedMapping((Body(body().loops, body().children[:1]), Leaf("Z", ())), STORED)),
    ("at least one loop", FusedMapping((Body((), body().children),), STORED)),
    ("at least 2 iterations", FusedMapping((body(SharedLoop(1, (("T", "m"), ("Z", "m")))),), STORED)),
    (
        "parts of 4, which is less than 5 trips",
        FusedMapping((body(SharedLoop(5, (("T", "m"), ("Z", "m")))),), STORED),
    ),
    ("one dimension of each", FusedMapping((body(SharedLoop(2, (("T", "m"),))),), STORED)),
    ("not a dimension of", FusedMapping((body(SharedLoop(2, (("T", "m"), ("Z", "a")))),), STORED)),
    ("does not index a rank", FusedMapping((body(SharedLoop(2, (("T", "a"), ("Z", "m")))),), STORED)),
    ("does not index, or not alone", FusedMapping((body(SharedLoop(2, (("T", "m"), ("Z", "c")))),), STORED)),
    ("stored twice", FusedMapping((body(),), (*STORED, Stored("T", "GLB", 0)))),
    ("no Einsum accesses", FusedMapping((body(),), (Stored("X", "GLB", 0),))),
    ("none of the inner memories", FusedMapping((body(),), (Stored("T", "Main", 1),))),
    ("share the 2 loops", FusedMapping((body(),), (Stored("T", "GLB", 2),))),
    ("not passed", FusedMapping((body(),), (*STORED, Stored("A", "GLB", 0)))),
    (
        "no nest for its visits with m=2",
        FusedMapping((body(first=Leaf("T", (nest("AW", a=2, b=2),))),), STORED),
    ),
    ("has no nest", FusedMapping((body(first=Leaf("T", ())),), STORED)),
    ("not a dataspace of", _held("X", 0)),
    ("is stored, and has no second tile", _held("T", 0)),
    ("has 1 shared loops, not 2", _held("A", 2)),
    ("the loop right above its tile does not slide it", _held("A", 0, keeps_overlap=True)),
    ("the loop right above its tile does not slide it", _held("A", 1, keeps_overlap=True)),
    ("keeps all that `T` does not store", _held("A", 0, keep="A")),
    ("inside 1 shared loops, and is fetched above 1", replace(_held("T", 0, keep="AWT"), stored=())),
]


@pytest.mark.parametrize(("message", "mapping"), BAD, ids=[message for message, _ in BAD])
def test_refusals(message: str, mapping: FusedMapping):
    with pytest.raises(FusedMappingError, match=message) as caught:
        evaluate_fused(PRODUCTS, mapping)
    assert caught.value.subject is not None


def test_einsums_without_a_common_tensor_share_no_loop():
    apart = cascade_of(("T[m] = A[m]", "Z[m] = B[m]"), {"m": 4}, PLAIN)
    children = tuple(Leaf(name, (nest(keep, m=2),)) for name, keep in (("T", "TA"), ("Z", "ZB")))
    with pytest.raises(FusedMappingError, match="no tensor connects"):
        evaluate_fused(apart, FusedMapping((Body((SharedLoop(2, (("T", "m"), ("Z", "m"))),), children),)))
    assert not list(loop_choices(apart, (0, 1)))


def test_a_window_that_another_loop_would_move_is_refused():
    """Rows p overlap from trip to trip; a loop over q inside would have dropped them by then."""
    rows, columns = (SharedLoop(2, (("T", a), ("Z", b))) for a, b in (("p", "x"), ("q", "y")))
    sizes = {"p": (3, 2), "q": (3, 2)}
    nests = tuple(nest("A", p=p, q=q) for p in sizes["p"] for q in sizes["q"])
    leaves = Leaf("T", nests), Leaf("Z", (nest("ZW", x=2, y=2, r=2, s=2),))
    with pytest.raises(FusedMappingError, match="store it above that loop"):
        evaluate_fused(WINDOW, FusedMapping((Body((rows, columns), leaves),), (Stored("T", "GLB", 2),)))
    # Below the loop over p alone, all columns of the window stay.
    cost = evaluate_fused(WINDOW, FusedMapping((Body((rows, columns), leaves),), (Stored("T", "GLB", 1),)))
    assert cost.room("Z", "GLB").size_words == 3 * 5


def test_both_dimensions_of_a_window_are_not_looped():
    loops = tuple(SharedLoop(2, (("T", "p"), ("Z", dim))) for dim in ("x", "r"))
    leaves = Leaf("T", (nest("A", p=1, q=5),)), Leaf("Z", (nest("ZW", x=2, y=4, s=2),))
    with pytest.raises(FusedMappingError, match="move one window"):
        evaluate_fused(WINDOW, FusedMapping((Body(loops, leaves),)))


def test_parts_of_a_stored_tensor_lie_in_the_same_instances():
    nodes = (StorageLevel("Main"), Fanout("core", 2), StorageLevel("GLB"))
    cascade = cascade_of(
        SHAPES["products"], {"m": 4, "a": 2, "b": 2, "c": 2}, Architecture("c", nodes, Compute("M"))
    )

    def leaf(name: str, keep: str, dim: str, **bounds: int) -> Leaf:
        loops = tuple(Loop(d, b) for d, b in bounds.items())
        across = FanoutMapping((SpatialLoop(dim, 2, "x"),))
        mapping = Mapping((StorageMapping(loops, frozenset(keep)), across, StorageMapping()))
        return Leaf(name, (PrivateNest(mapping),))

    loop = SharedLoop(2, (("T", "m"), ("Z", "m")))
    good = Body((loop,), (leaf("T", "AW", "m", a=2, b=2), leaf("Z", "ZV", "m", b=2, c=2)))
    assert evaluate_fused(cascade, FusedMapping((good,), STORED)).room("T", "GLB").size_words == 2
    for other in (leaf("Z", "ZV", "b", m=2, c=2), leaf("Z", "ZV", "c", m=2, b=2)):
        bad = Body((loop,), (leaf("T", "AW", "m", a=2, b=2), other))
        with pytest.raises(FusedMappingError, match="spread"):
            evaluate_fused(cascade, FusedMapping((bad,), STORED))


def names(choices: list[dict[str, str]]) -> set[str]:
    return {"".join(choice.values()) for choice in choices}


@pytest.mark.parametrize(
    ("shape", "below", "expected"),
    [
        ("products", (0, 1), {"mm", "bb"}),
        ("three", (0, 1), {"mm", "bb"}),
        ("three", (0, 1, 2), {"mmm"}),  # b is no rank of U, c none of T
        ("attention", (0, 1, 2), {"mmm", "ppp"}),
        ("projections", (0, 1, 2), {"eee"}),  # m of Q is m of Z, m of K is p
        ("projections", (1, 2), {"mp", "ee"}),
        ("skip", (0, 1, 2), {"mmm"}),
        ("window", (0, 1), {"pq", "pr", "cc"}),
    ],
)
def test_loops_that_a_body_may_have(shape: str, below: tuple[int, ...], expected: set[str]):
    letters = {char for text in SHAPES[shape] for char in text if char.islower()}
    cascade: Cascade = cascade_of(SHAPES[shape], dict.fromkeys(letters, 4), PLAIN)
    assert names(list(loop_choices(cascade, below))) == expected
