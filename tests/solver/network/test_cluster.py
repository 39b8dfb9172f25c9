"""Searches on a real Dask scheduler with two worker processes."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from model.cascade import Network
from model.spec.cascade import load_network
from solver.network import ResultCache, map_network
from solver.network.cluster import Cluster
from solver.network.executors import ExecutorError
from solver.result import Options, Status
from tests.conftest import REPOSITORY

ENERGY = Options(objectives=("energy",))
LAYERS = ("01_conv1", "06_conv3_block1_a", "16_conv5_block1_a", "21_fc")


@pytest.fixture
def scheduler() -> Iterator[object]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


def worker_processes(cluster) -> list[int]:
    return [worker.pid for worker in cluster.workers.values()]


def test_a_lost_worker_loses_nothing(scheduler, tmp_path):
    specs = REPOSITORY / "specs"
    paths = [specs / "layers" / "resnet18" / f"{name}.yaml" for name in LAYERS]
    network = load_network([*paths, specs / "architectures" / "eyeriss_like.yaml"])
    reports: list[object] = []

    def kill_once(report: object) -> None:
        reports.append(report)
        if len(reports) == 3:  # the first one comes before the searches, the others while they run
            os.kill(worker_processes(scheduler)[0], signal.SIGKILL)

    cache = ResultCache(tmp_path)
    result = map_network(
        network, ENERGY, cache, on_progress=kill_once, executor=Cluster(scheduler.scheduler_address)
    )
    alone = map_network(network, ENERGY)
    assert len(reports) >= 3
    assert [own.layer.name for own in result.layers] == list(LAYERS)
    assert result.status is Status.OPTIMAL
    assert [own.result.mapping for own in result.layers] == [own.result.mapping for own in alone.layers]
    assert (result.energy, result.cycles) == (alone.energy, alone.cycles)
    assert len(list(tmp_path.glob("*.json"))) == len(LAYERS)


def test_a_stopped_run_leaves_the_cluster(scheduler, network: Network):
    result = map_network(
        network, ENERGY, should_stop=lambda: True, executor=Cluster(scheduler.scheduler_address)
    )
    assert [own.origin for own in result.layers] == ["copy"]


def test_no_scheduler_answers(network: Network, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("solver.network.cluster.CONNECT_S", 1)
    with pytest.raises(ExecutorError, match="no Dask scheduler answers at tcp://127"):
        map_network(network, ENERGY, executor=Cluster("tcp://127.0.0.1:1"))
    with pytest.raises(ExecutorError, match="no Dask scheduler answers at nowhere"):
        map_network(network, ENERGY, executor=Cluster("nowhere://"))


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ExecutorError, match=r"tilewright\[cluster\]"):
        Cluster("tcp://127.0.0.1:1")
