"""Parts of a cascade that differ in names alone are searched once, and nothing is lost by that."""

import pytest

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.fused.cascade import Cascade
from solver.fusion import FusionLimits, fuse_cascade
from solver.fusion.alike import Likeness
from solver.result import Status
from tests.model.fused.random_cascades import cascade_of
from tests.slow import slow

ONCE = FusionLimits(max_loops_per_rank=1)

BLOCK = ("T{0}[m,b] = {1}[m,a] W{0}[a,b]", "Z{0}[m,a] = T{0}[m,b] V{0}[b,a]")


def chain(blocks: int, is_joined: bool) -> Cascade:
    """Blocks of two products, each fed by the one before or from outside."""
    outside, buffer = (
        StorageLevel("Main", energy=AccessEnergy(90, 0, 80)),
        StorageLevel("GLB", size_words=14, energy=AccessEnergy(2, 2, 2)),
    )
    architecture = Architecture("small", (outside, buffer), Compute("MAC", energy=1))
    fed = ["A0", *(f"Z{n}" if is_joined else f"A{n + 1}" for n in range(blocks))]
    shape = tuple(text.format(n, fed[n]) for n in range(blocks) for text in BLOCK)
    return cascade_of(shape, {"m": 4, "a": 4, "b": 2}, architecture)


@pytest.mark.parametrize(
    ("is_joined", "objective"),
    [(False, "energy"), (True, "latency"), slow(False, "latency"), slow(True, "energy")],
)
def test_a_chain_costs_the_same_where_each_block_is_searched(
    is_joined: bool, objective: str, monkeypatch: pytest.MonkeyPatch
):
    cascade = chain(2, is_joined)
    once = fuse_cascade(cascade, objective, limits=ONCE)
    monkeypatch.setattr(Likeness, "_structure", lambda _, at, end, tensors: [at])
    apart = fuse_cascade(cascade, objective, limits=ONCE)
    assert once.status is apart.status is Status.OPTIMAL
    assert once.value == apart.value == once.bound


def test_further_blocks_take_few_states():
    one, many = (fuse_cascade(chain(blocks, is_joined=False), "energy", limits=ONCE) for blocks in (1, 12))
    assert one.value is not None
    assert many.value == many.bound == 12 * one.value
    assert many.statistics.states < 3 * one.statistics.states
