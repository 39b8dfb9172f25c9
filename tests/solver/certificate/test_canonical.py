"""The hierarchy in the canonical problem."""

import pytest

from model.architecture import Fanout, StorageLevel
from solver.certificate.canonical import canonical
from tests.mapspaces import free_mapspace, matmul


@pytest.mark.parametrize(("cluster", "paying"), [(1, 5), (2, 2), (5, 1), (8, 1)])
def test_only_whole_clusters_pay_and_at_least_one(cluster, paying):
    buffer = StorageLevel("buffer", size_words=16, cluster_size=cluster)
    document = canonical(free_mapspace(matmul(2, 2, 2), StorageLevel("DRAM"), Fanout("PE", 5), buffer))
    storage = [node for node in document["nodes"] if node["kind"] == "storage"]
    assert [node["most_paying"] for node in storage] == [1, paying]
