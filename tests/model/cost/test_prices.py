"""What accesses cost at one level: instances that pay, cycles of exact transfers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from model.architecture import StorageLevel
from model.cost.prices import paying_instances
from model.counting.cycles import transfer_cycles


@pytest.mark.parametrize(
    ("instances", "cluster", "used", "paying"),
    [(6, 2, 6, 3), (6, 2, 2, 2), (5, 2, 5, 2), (5, 3, 5, 1), (3, 4, 3, 1)],
)
def test_only_whole_clusters_pay_and_at_least_one(
    instances: int, cluster: int, used: int, paying: int
) -> None:
    assert paying_instances(StorageLevel("buffer", cluster_size=cluster), instances, used) == paying


def test_transfers_take_whole_cycles_of_the_slowest_bandwidth() -> None:
    level = StorageLevel("buffer", read_bandwidth=Fraction(2), write_bandwidth=Fraction(3, 2))
    assert transfer_cycles(level, 4, 3) == 2
    assert transfer_cycles(level, 5, 3) == 3
    assert transfer_cycles(level, 4, Fraction(10, 3)) == 3
    shared = StorageLevel("buffer", shared_bandwidth=Fraction(4))
    assert (transfer_cycles(shared, 6, 2), transfer_cycles(shared, 6, 3)) == (2, 3)
    assert transfer_cycles(StorageLevel("DRAM"), 6, 3) == 0
