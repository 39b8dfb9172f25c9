"""Worker processes: same bounds as in one process, deaf to interrupts, gone with their parent, or lost."""

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from model.mapspace import Mapspace
from solver.result import Options, Result
from solver.search import workers
from solver.search.goal import UNLIMITED
from solver.search.mapper import map_einsum
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.survey.survey import Survey
from solver.search.workers import Bounder
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.slow import few

SPEC = Path(__file__).parents[1] / "cli" / "data" / "row.yaml"
PROGRAM = f"""
import multiprocessing, os, signal, sys, time
from tests.mapspaces import perfect_mapspace
from solver.cli.progress import interruptible
from solver.search.goal import UNLIMITED
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.survey.survey import Survey
from solver.search import workers
from solver.search.workers import Bounder

workers.START_AFTER_S = 0
space = SearchSpace(perfect_mapspace({str(SPEC)!r}))
grid = Survey(space).grid
pairs = [(mask, number) for mask in space.keep_masks for number in range(len(grid))][:40]
subs = [EnergySubproblem(space, mask, grid.spatial(number)) for mask, number in pairs]
limits = [UNLIMITED] * len(subs)
with Bounder(space, 1) as alone, Bounder(space, 2) as several, interruptible() as stop:
    found = [[bounds.least for bounds in bounder.bound(subs, limits)] for bounder in (alone, several)]
    workers = multiprocessing.active_children()
    os.killpg(0, signal.SIGINT)
    stop.wait(10)
    time.sleep(0.3)
    assert all(worker.is_alive() for worker in workers)
    print(found[0] == found[1], len(found[0]), *(worker.pid for worker in workers), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_answer_alike_ignore_interrupts_and_end_with_their_parent():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, start_new_session=True
    )
    assert run.returncode < 0, run.stderr
    same, count, *workers = run.stdout.split()
    assert (same, int(count) > 8, len(workers)) == ("True", True, 2)
    for worker in workers:
        assert _gone(int(worker), 10)


def lose(_task: object) -> None:
    os._exit(9)


def lose_every_third(task: workers.Task) -> object:
    return lose(task) if time.monotonic_ns() % 3 == 0 else BOUND(task)


BOUND = workers._bound


@cache
def shipped() -> Mapspace:
    specs = ("architectures/eyeriss_like.yaml", "layers/mobilenet_v2/42_block14_project.yaml")
    return perfect_mapspace(*(REPOSITORY / "specs" / spec for spec in specs))


@cache
def found_alone() -> Result:
    return map_einsum(shipped(), Options(objectives=("energy",)))


@pytest.fixture
def mapspace() -> Mapspace:
    return shipped()


@pytest.mark.parametrize("work", few([lose_every_third, lose]))
def test_what_lost_workers_were_at_is_bounded_without_them(mapspace, monkeypatch, work):
    begun = []
    begin = workers.Workers
    monkeypatch.setattr(workers, "START_AFTER_S", 0)
    monkeypatch.setattr(workers, "MOST_LOSSES", 2)  # each start takes seconds
    monkeypatch.setattr(workers, "Workers", lambda *given: begun.append(given) or begin(*given))
    monkeypatch.setattr(workers, "_bound", work)
    several = map_einsum(mapspace, Options(objectives=("energy",), jobs=2))
    assert 0 < len(begun) <= workers.MOST_LOSSES
    alone = found_alone()
    assert (several.status, several.mapping) == (alone.status, alone.mapping)
    assert several.evidence == alone.evidence


def test_what_is_bounded_instead_of_lost_workers_stops_when_asked(monkeypatch):
    monkeypatch.setattr(workers, "START_AFTER_S", 0)
    monkeypatch.setattr(workers, "_bound", lose)
    space = SearchSpace(perfect_mapspace(SPEC))
    mask, grid = space.keep_masks[0], Survey(space).grid
    subs = [EnergySubproblem(space, mask, grid.spatial(0))] * workers.MIN_TASKS
    left = []
    with Bounder(space, 2) as bounder:
        for bounds in bounder.bound(subs, [UNLIMITED] * len(subs), stop=lambda: len(left) == 2):
            left.append(bounds)
    assert len(left) == 2


def test_short_searches_start_no_workers(mapspace, monkeypatch):
    monkeypatch.setattr(workers, "START_AFTER_S", 3600)
    monkeypatch.setattr(workers, "Workers", None)
    assert map_einsum(mapspace, Options(objectives=("energy",), jobs=2)).mapping is not None


def _gone(process, limit_s):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        if "Z" in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]:
            return True
        time.sleep(0.05)
    return False
