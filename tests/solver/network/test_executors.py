"""Searches in processes: the same results as in one process, even if workers are lost."""

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.util import Finalize
from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from solver.network import Processes, ResultCache, Run, executors, map_network
from solver.network.executors import MOST_LOSSES, Answers, ExecutorError
from solver.network.run import NetworkProgress
from solver.network.tasks import Task
from solver.processes import Workers
from solver.result import Options, Result, Status, Termination
from tests.conftest import REPOSITORY
from tests.mapspaces import PERFECT_ONLY

ENERGY = Options(objectives=("energy",))


def test_processes_give_the_same_answers(network: Network, tmp_path: Path):
    alone = map_network(network, ENERGY)
    cache = ResultCache(tmp_path / "cache")
    together = map_network(network, ENERGY, Run(cache, executor=Processes(2)))
    pairs = zip(alone.layers, together.layers, strict=True)
    for own, other in pairs:
        assert own.origin == other.origin
        assert (own.result and own.result.mapping) == (other.result and other.result.mapping)
    assert (alone.energy_units, alone.cycles) == (together.energy_units, together.cycles)
    assert len(list((tmp_path / "cache").glob("*.json"))) == 2


def test_processes_stop_when_asked(network: Network):
    result = map_network(network, ENERGY, Run(executor=Processes(2), should_stop=lambda: True))
    assert {own.layer.name for own in result.layers} >= {"A"}
    nothing = map_network(replace(network, layers=network.layers[:1]), ENERGY, Run(executor=Processes(2)))
    assert nothing.status is Status.OPTIMAL
    assert nothing.energy_units == 0


def test_a_lost_process_loses_nothing(network: Network):
    killed: list[int] = []

    def kill_once(_: NetworkProgress) -> None:
        children = [child for child in multiprocessing.active_children() if child.pid is not None]
        if children and not killed:
            killed.append(children[0].pid)
            os.kill(children[0].pid, signal.SIGKILL)

    together = map_network(network, ENERGY, Run(on_progress=kill_once, executor=Processes(2)))
    assert killed
    assert together.energy_units == map_network(network, ENERGY).energy_units


def leave_late(path: Path) -> None:
    def leave() -> None:
        time.sleep(0.3)
        path.touch()

    Finalize(None, leave, exitpriority=0)  # as semaphores are given back


def test_processes_without_work_give_back_what_they_hold(tmp_path: Path):
    with executors._workers(1, executors._Shared(1)) as workers:
        workers.submit(leave_late, [(tmp_path / "left",)])[0].result()
    assert (tmp_path / "left").exists()


def test_processes_run_where_signals_cannot_be_blocked(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    with executors._workers(1, executors._Shared(1)) as workers:
        assert workers.submit(len, [("word",)])[0].result() == 4


def test_processes_that_are_lost_again_and_again_are_given_up(network: Network):
    def kill_all(_: NetworkProgress) -> None:
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(ExecutorError, match="lost 3 times"):
        map_network(network, ENERGY, Run(on_progress=kill_all, executor=Processes(2)))


def test_processes_that_answer_in_between_may_be_lost_more_often(network: Network, monkeypatch):
    answer = Result(Status.INFEASIBLE, Termination.PROVEN, ("energy",), 1)

    def lost_after_one(tasks: Sequence[Task], *rest: object) -> Answers:
        yield tasks[0], answer
        raise BrokenProcessPool

    monkeypatch.setattr(executors, "_submitted", lambda _, tasks, options: tasks)
    monkeypatch.setattr(executors, "_finished", lost_after_one)
    tasks = [Task(str(key), network.layers[1].mapspace, network.layers[1]) for key in range(MOST_LOSSES + 1)]
    answers = Processes(2).run(tasks, ENERGY, lambda *_: None, lambda: False)
    assert list(answers) == [(task, answer) for task in tasks]


def test_a_process_that_is_lost_while_it_waits_holds_nobody_up():
    """Whoever waits for work holds the lock of the queue; the others must end without it."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("processor times of other processes are not to be had")
    layers = [
        REPOSITORY / "specs" / "layers" / name for name in ("resnet18/21_fc.yaml", "vgg16/08_conv4_1.yaml")
    ]
    network = load_network(
        [*layers, REPOSITORY / "specs/architectures/free_three_level.yaml"], options=PERFECT_ONLY
    )
    killed: list[int] = []
    begun: set[int | None] = set()
    again: set[int | None] = set()

    def processes() -> set[int | None]:
        return {child.pid for child in multiprocessing.active_children()}

    def kill_the_idle_one(progress: NetworkProgress) -> None:
        if progress.done == 1 and not killed:
            begun.update(processes())
            before = {pid: cpu_ticks(pid) for pid in begun}
            while all(cpu_ticks(pid) < before[pid] + 10 for pid in begun):
                time.sleep(0.01)
            killed.append(min(begun, key=lambda pid: cpu_ticks(pid) - before[pid]))
            os.kill(killed[0], signal.SIGKILL)

    def has_begun_again() -> bool:
        again.update(processes() - begun if killed else ())
        return bool(again)

    run = Run(on_progress=kill_the_idle_one, should_stop=has_begun_again, executor=Processes(2))
    result = map_network(network, ENERGY, run)
    assert again
    assert result.layers[0].status is Status.OPTIMAL


def cpu_ticks(pid: int) -> int:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_an_interrupt_leaves_processes_alone_that_still_begin(
    network: Network, capfd: pytest.CaptureFixture[str]
):
    """A terminal's Ctrl-C reaches processes that import and have said nothing of signals so far."""

    def interrupt(_: NetworkProgress) -> None:
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGINT)
            os.kill(child.pid, signal.SIGTERM)

    result = map_network(network, ENERGY, Run(on_progress=interrupt, executor=Processes(2)))
    assert result.status is Status.OPTIMAL
    assert capfd.readouterr().err == ""


LONG_S = 600.0
"""Much longer than a test takes, under any load."""


def import_slowly(_: object) -> None:
    time.sleep(LONG_S)


class Slow:
    """Takes minutes to unpickle, as what has to be imported may under load."""

    def __reduce__(self) -> tuple[object, tuple[float]]:
        return time.sleep, (LONG_S,)


def test_a_stop_does_not_wait_for_processes_that_still_begin(network: Network, monkeypatch):
    monkeypatch.setattr(executors, "_prepare", import_slowly)
    start, asked = time.monotonic(), iter([False])
    run = Run(executor=Processes(2), should_stop=lambda: next(asked, True))
    result = map_network(network, ENERGY, run)
    assert all(own.result.statistics.seconds == 0 for own in result.layers if own.result is not None)
    assert time.monotonic() - start < LONG_S / 2


def test_processes_end_while_they_still_import():
    workers = Workers(1, len, Slow())
    workers.submit(len, [("word",)])
    start = time.monotonic()
    workers.end(wait=True)
    assert time.monotonic() - start < LONG_S / 2


def test_a_search_leaves_no_processes_of_its_own(network: Network, monkeypatch: pytest.MonkeyPatch):
    """A worker that ends too soon takes away what its own processes need to end."""
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0.2,))

    def search(*_: object, **__: object) -> Result:
        child.start()
        return Result(Status.INFEASIBLE, Termination.PROVEN, ("energy",), 1)

    shared = executors._Shared(2)
    monkeypatch.setattr(executors, "search_task", search)
    monkeypatch.setattr(executors, "_SHARED", [shared])
    assert executors._search(0, network.layers[1].mapspace, ENERGY).status is Status.INFEASIBLE
    assert child.exitcode == 0
    shared.stop.value = True
    assert (
        executors._search(0, network.layers[1].mapspace, ENERGY) is None
    )  # what waits in a queue ends there
