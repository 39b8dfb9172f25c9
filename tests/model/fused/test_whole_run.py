"""Copies, persistent tensors, instances and ports of fused mappings, by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.fused.check import FusedMappingError, loop_choices
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Leaf, PrivateNest, SharedLoop, Stored
from model.mapping import Loop, Mapping, StorageMapping
from tests.model.fused.agreement import disagreements
from tests.model.fused.random_cascades import SHAPES, cascade_of

MAIN = StorageLevel("Main", energy=AccessEnergy(100, 0, 100), network_fill_latency=3)
BUFFER = StorageLevel("GLB", size_words=64, energy=AccessEnergy(2, 3, 5, 1), shared_bandwidth=Fraction(3))
HARDWARE = Architecture("h", (MAIN, BUFFER), Compute("MAC", energy=1))
COPY = cascade_of(SHAPES["copy"], {"m": 4, "k": 2, "n": 3, "o": 2}, HARDWARE)
PRODUCTS = cascade_of(SHAPES["products"], {"m": 4, "a": 2, "b": 2, "c": 2}, HARDWARE)


def nest(keep: str, **bounds: int) -> PrivateNest:
    loops = tuple(Loop(dim, bound) for dim, bound in bounds.items())
    return PrivateNest(Mapping((StorageMapping(loops, frozenset(keep)), StorageMapping())))


def copied(*stored: Stored) -> FusedMapping:
    """B copies A under a loop over m that C shares; Z is on its own."""
    loop = SharedLoop(2, (("B", "m"), ("C", "m")))
    homes = {tile.tensor for tile in stored}
    first = nest("".join({"B", "W", "C"} - homes), m=2, k=2, n=3)
    last = nest("".join({"C", "V", "Z"} - homes), m=4, n=3, o=2)
    return FusedMapping((Body((loop,), (Leaf("B", ()), Leaf("C", (first,)))), Leaf("Z", (last,))), stored)


def test_a_copy_onto_the_chip_moves_each_word_once():
    mapping = copied(Stored("B", "GLB", 1))
    cost = evaluate_fused(COPY, mapping)
    copy = cost.einsum("B")
    # 8 words: read at 100 outside, filled at 3; the port takes 3 words a cycle, and the buffer leaks.
    assert (copy.visits, copy.cycles, copy.energy) == (2, 3, 8 * 100 + 8 * 3 + 3)
    assert cost.room("C", "GLB").size_words == 4
    assert not disagreements(COPY, mapping, seed=3)


def test_what_a_copy_leaves_beside_its_source_takes_one_room():
    chain = ("A[m,k] = I[m,k]", "B[m,k] <- A[m,k]", "Z[m,n] = B[m,k] W[k,n]")
    cascade = cascade_of(chain, {"m": 4, "k": 2, "n": 2}, HARDWARE)
    loop = SharedLoop(2, (("A", "m"), ("B", "m"), ("Z", "m")))
    leaves = Leaf("A", (nest("I", m=2, k=2),)), Leaf("B", ()), Leaf("Z", (nest("WZ", m=2, k=2, n=2),))
    mapping = FusedMapping((Body((loop,), leaves),), (Stored("A", "GLB", 1), Stored("B", "GLB", 1)))
    cost = evaluate_fused(cascade, mapping)
    assert (cost.einsum("B").energy, cost.einsum("B").cycles) == (0, 0)
    assert [cost.room(name, "GLB").size_words for name in ("A", "B", "Z")] == [4, 4, 4]
    assert not disagreements(cascade, mapping, seed=4)


def test_persistent_tensors_take_room_all_the_time():
    cascade = replace(PRODUCTS, persistent=frozenset("V"), room_scale=(("V", Fraction(3, 2)),))
    leaves = Leaf("T", (nest("AWT", m=4, a=2, b=2),)), Leaf("Z", (nest("TZ", m=4, b=2, c=2),))
    mapping = FusedMapping(leaves, (Stored("V", "GLB", 0),))
    cost = evaluate_fused(cascade, mapping)
    assert [cost.room(name, "GLB").size_words for name in ("T", "Z")] == [6, 6]
    assert [tile.kind for tile in cost.room("T", "GLB").tiles] == ["persistent"]
    assert not disagreements(cascade, mapping, seed=5)
    with pytest.raises(FusedMappingError, match="not passed"):
        evaluate_fused(PRODUCTS, mapping)


def test_instances_multiply_and_latencies_count_per_visit():
    thrice = cascade_of(SHAPES["products"], {"m": 4, "a": 2, "b": 2, "c": 2}, HARDWARE, n_instances=3)
    loop = SharedLoop(2, (("T", "m"), ("Z", "m")))
    leaves = Leaf("T", (nest("AW", m=2, a=2, b=2),)), Leaf("Z", (nest("VZ", m=2, b=2, c=2),))
    mapping = FusedMapping((Body((loop,), leaves),), (Stored("T", "GLB", 1),))
    once, more = evaluate_fused(PRODUCTS, mapping), evaluate_fused(thrice, mapping)
    # T: 16 steps; 16 updates and 8 reads of sums at 3 words a cycle take 8. Two visits fill networks twice.
    assert [einsum.cycles for einsum in once.einsums] == [16 + 2 * 3] * 2
    assert (more.energy, more.cycles) == (3 * once.energy, 3 * once.cycles)


def test_a_port_carries_the_words_of_all_visits_together():
    """24 words of sums in 2 visits at 24 words in 17 cycles."""
    slow = Architecture(
        "s",
        (replace(MAIN, network_fill_latency=0), replace(BUFFER, shared_bandwidth=Fraction(24, 17))),
        Compute("MAC"),
    )
    cascade = cascade_of(SHAPES["products"], {"m": 4, "a": 2, "b": 2, "c": 2}, slow)
    loop = SharedLoop(2, (("T", "m"), ("Z", "m")))
    leaves = Leaf("T", (nest("AW", m=2, a=2, b=2),)), Leaf("Z", (nest("VZ", m=2, b=2, c=2),))
    cost = evaluate_fused(cascade, FusedMapping((Body((loop,), leaves),), (Stored("T", "GLB", 1),)))
    # 12 words of a visit take 8.5 cycles: rounded in each visit, there would be 18.
    assert cost.einsum("T").cycles == 17


@pytest.mark.parametrize("ahead, sizes, room_words", [(0, (2, 1), 3), (2, (3, 1), 6)])
def test_windows_part_a_copy_from_its_source(ahead: int, sizes: tuple[int, ...], room_words: int):
    """T waits for U, B for a window of Z. Where U reads ahead, neither tile is part of the other."""
    shape = ("T[p] = A[p]", "B[p] <- T[p]", "U[q] = T[q]", "Z[q] = U[q] B[q+r] V[r]")
    cascade = cascade_of(shape, {"p": 6, "q": 4, "r": 2}, HARDWARE)
    first, copy, reader, last = cascade.einsums
    accesses = tuple(replace(a, offsets=(ahead,)) if a.tensor == "T" else a for a in reader.accesses)
    cascade = replace(cascade, einsums=(first, copy, replace(reader, accesses=accesses), last))
    loop = SharedLoop(4, tuple(zip("TBUZ", "ppqq", strict=True)))
    leaves = (
        Leaf("T", tuple(nest("A", p=size) for size in sizes)),
        Leaf("B", ()),
        Leaf("U", (nest("", q=1),)),
        Leaf("Z", (nest("VZ", q=1, r=2),)),
    )
    stored = tuple(Stored(tensor, "GLB", 1) for tensor in "TBU")
    mapping = FusedMapping((Body((loop,), leaves),), stored)
    # U takes a word, T in its first visit as many as it computes, B two.
    assert evaluate_fused(cascade, mapping).room("B", "GLB").size_words == room_words
    assert not disagreements(cascade, mapping, seed=6)


def test_a_loop_parts_what_a_copy_reads_and_what_it_writes():
    """Of a scattering copy nothing says which part it reads."""
    shape = ("T[m,g] = A[m,g]", "X[e,g] <- T[m,g]", "Z[e,g] = X[e,g]")
    cascade = cascade_of(shape, {"m": 2, "e": 4, "g": 2}, HARDWARE)
    assert [dims["X"] for dims in loop_choices(cascade, range(3))] == ["g"]
    body = Body(
        (SharedLoop(2, (("T", "m"), ("X", "m"))),), (Leaf("T", (nest("AT", m=1, g=2),)), Leaf("X", ()))
    )
    with pytest.raises(FusedMappingError, match="`m` of the copy `X` does not index a rank of `X`"):
        evaluate_fused(cascade, FusedMapping((body, Leaf("Z", (nest("XZ", e=4, g=2),)))))
