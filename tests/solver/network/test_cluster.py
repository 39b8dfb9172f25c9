"""Searches on a real Dask scheduler with two worker processes."""

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from model.formats.cascade.loader import load_variants
from model.formats.timeloop.overrides import parse_setting
from solver.network import ResultCache, Run, map_network
from solver.network.cache import sources_digest
from solver.network.executors import Cluster, ExecutorError, _cluster_key
from solver.network.run import NetworkProgress
from solver.network.sweep import sweep
from solver.network.tasks import Task
from solver.result import Options, Status, Termination
from tests.conftest import REPOSITORY
from tests.mapspaces import PERFECT_ONLY

ENERGY = Options(objectives=("energy",))
LAYERS = ("01_conv1", "06_conv3_block1_a", "16_conv5_block1_a", "21_fc")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[object]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


class Recording:
    """The cluster, with the keys of the tasks in the order in which they were answered."""

    def __init__(self, address: str) -> None:
        self._cluster = Cluster(address)
        self.answered: list[str] = []

    def run(self, tasks, options, report, should_stop):
        for task, result in self._cluster.run(tasks, options, report, should_stop):
            self.answered.append(task.key)
            yield task, result


def busy_worker(scheduler) -> tuple[int, set[str]] | None:
    """Process of a worker that searches, and the keys of what it is to search."""
    for nanny in scheduler.workers.values():
        state = scheduler.scheduler.workers.get(nanny.worker_address)
        keys = {task.key.split("-")[1] for task in state.processing} if state else set()
        if keys:
            return nanny.pid, keys
    return None


def test_a_lost_worker_loses_nothing_and_nothing_counts_twice(scheduler, tmp_path):
    specs = REPOSITORY / "specs"
    paths = [specs / "layers" / "resnet18" / f"{name}.yaml" for name in LAYERS]
    network = load_network([*paths, specs / "architectures" / "eyeriss_like.yaml"], options=PERFECT_ONLY)
    executor = Recording(scheduler.scheduler_address)
    lost: set[str] = set()

    def kill_once(_: object) -> None:
        found = busy_worker(scheduler)
        if not lost and found is not None:
            lost.update(found[1] - set(executor.answered))
            os.kill(found[0], signal.SIGKILL)

    cache = ResultCache(tmp_path)
    result = map_network(network, ENERGY, Run(cache, on_progress=kill_once, executor=executor))
    alone = map_network(network, ENERGY)
    assert lost
    assert lost <= set(executor.answered)
    assert len(executor.answered) == len(set(executor.answered)) == len(LAYERS)
    assert [own.layer.name for own in result.layers] == list(LAYERS)
    assert result.status is Status.OPTIMAL
    assert [own.result.mapping for own in result.layers] == [own.result.mapping for own in alone.layers]
    assert (result.energy_units, result.cycles) == (alone.energy_units, alone.cycles)
    assert len(list(tmp_path.glob("*.json"))) == len(LAYERS)


def test_sweeps_run_there_too(scheduler, spec):
    own = load_variants(spec, settings=[parse_setting("buffer.depth=6,12")])
    there = sweep(own, ENERGY, Run(executor=Cluster(scheduler.scheduler_address)))
    assert [point.costs for point in there.points] == [point.costs for point in sweep(own, ENERGY).points]


def test_workers_of_another_version_are_refused(scheduler, network: Network, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.network.executors.VERSION", "0.0.0")
    with pytest.raises(ExecutorError, match=r"this program 0\.0\.0"):
        map_network(network, ENERGY, Run(executor=Cluster(scheduler.scheduler_address)))


def test_workers_of_other_sources_are_refused(scheduler, network: Network, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.network.executors.sources_digest", lambda: "0" * 64)
    message = rf"other sources .* sha256 {sources_digest()[:12]}\.\.\. there, 0{{12}}\.\.\. here"
    with pytest.raises(ExecutorError, match=message):
        map_network(network, ENERGY, Run(executor=Cluster(scheduler.scheduler_address)))


def test_runs_of_other_sources_share_no_search(network: Network, monkeypatch: pytest.MonkeyPatch):
    task = Task("key", network.layers[0].mapspace, network.layers[0])
    own = _cluster_key(task, ENERGY)
    assert _cluster_key(task, ENERGY) == own
    monkeypatch.setattr("solver.network.executors.sources_digest", lambda: "0" * 64)
    assert _cluster_key(task, ENERGY) != own


def test_workers_without_this_program_are_named(network: Network, tmp_path: Path):
    """The scheduler needs no part of it; a worker that has none answers, and stays."""
    pytest.importorskip("distributed")
    for package in ("model", "solver"):
        (tmp_path / f"{package}.py").write_text(f"raise ImportError('no {package} here')\n", encoding="utf-8")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    python = [sys.executable, "-m"]
    parts = (
        [
            *python,
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-dashboard",
        ],
        [*python, "distributed.cli.dask_worker", address, "--no-dashboard", "--no-nanny"],
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    running = [
        subprocess.Popen(part, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) for part in parts
    ]
    try:
        for _ in range(2):
            with pytest.raises(
                ExecutorError, match="the workers of the cluster do not have Tilewright installed: no"
            ):
                map_network(network, ENERGY, Run(executor=Cluster(address)))
        assert [process.poll() for process in running] == [None, None]
    finally:
        for process in running:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_lost_scheduler_ends_the_run(network: Network):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as empty:

        def close(progress: NetworkProgress) -> None:
            if progress.search is None:  # the executor's own: all searches are on the cluster
                empty.close()

        with pytest.raises(ExecutorError, match="is gone"):
            map_network(network, ENERGY, Run(on_progress=close, executor=Cluster(empty.scheduler_address)))


def test_a_stopped_run_leaves_the_cluster(scheduler, network: Network):
    result = map_network(
        network, ENERGY, Run(should_stop=lambda: True, executor=Cluster(scheduler.scheduler_address))
    )
    ends = [own.result.termination for own in result.layers if own.result is not None]
    assert ends == [Termination.INTERRUPTED] * (len(result.layers) - 1)


def test_no_scheduler_answers(network: Network, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("solver.network.executors.CONNECT_S", 1)
    with pytest.raises(ExecutorError, match="no Dask scheduler answers at tcp://127"):
        map_network(network, ENERGY, Run(executor=Cluster("tcp://127.0.0.1:1")))
    with pytest.raises(ExecutorError, match="no Dask scheduler answers at nowhere"):
        map_network(network, ENERGY, Run(executor=Cluster("nowhere://")))


@pytest.mark.parametrize("scheme", ["http", "tls", "ucx"])
def test_an_address_that_nothing_can_connect_to_is_refused_at_once(
    scheme: str, network: Network, capfd, monkeypatch: pytest.MonkeyPatch
):
    """No client is made, which would take half a minute to give up."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", None)
    with pytest.raises(ExecutorError, match=f"no Dask scheduler answers at {scheme}"):
        map_network(network, ENERGY, Run(executor=Cluster(f"{scheme}://127.0.0.1:1")))
    gc.collect()
    assert capfd.readouterr().err == ""


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ExecutorError, match=r"tilewright\[cluster\]"):
        Cluster("tcp://127.0.0.1:1")
