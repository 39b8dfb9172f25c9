"""Worker processes: same bounds as in one process, deaf to interrupts, gone with their parent."""

import os
import subprocess
import sys
import time
from pathlib import Path

SPEC = Path(__file__).parents[1] / "cli" / "data" / "row.yaml"
PROGRAM = f"""
import multiprocessing, os, signal, sys, time
from model.spec.timeloop import load_timeloop
from solver.cli.interrupt import interruptible
from solver.search.goal import UNLIMITED
from solver.search.space import SearchSpace
from solver.search.subproblem import Subproblem
from solver.search.survey import Survey
from solver.search.workers import Bounder

space = SearchSpace(load_timeloop([{str(SPEC)!r}]).mapspace)
grid = Survey(space).grid
pairs = [(mask, number) for mask in space.keep_masks for number in range(len(grid))][:40]
subs = [Subproblem(space, mask, grid.spatial(number)) for mask, number in pairs]
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
