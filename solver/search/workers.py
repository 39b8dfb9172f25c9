"""Bounds many subproblems at a time, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import suppress
from fractions import Fraction
from types import TracebackType

from model.mapspace import Mapspace
from solver.search.bounds import BoundTables, LatticeBounds, Survivors
from solver.search.loads import LoadSubproblem
from solver.search.space import KeepMask, SearchSpace
from solver.search.stopping import Stopped, never
from solver.search.subproblem import Subproblem

MIN_TASKS = 8
"""Fewer subproblems than this are not worth sending to other processes."""

POLL_S = 0.1
"""How often it is asked whether to stop, while workers are busy."""

Load = tuple[int | None, Fraction]
"""A resource, and the parts of a cycle that its load is counted in."""

Task = tuple[KeepMask, tuple[int, ...], int, Load | None, int, Survivors | None]
"""Keep mask, place of the spatial class of each stage, quantum, what is bounded instead of the energy,
limit, and tiles that are left."""


class Bounder:
    """Runs the lattice bounds of subproblems; the answers do not depend on the number of `jobs`."""

    def __init__(self, space: SearchSpace, jobs: int) -> None:
        self._space = space
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Bounder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def bound(
        self,
        subs: Sequence[Subproblem],
        limits: Sequence[int],
        stop: Callable[[], bool] = never,
        within: Sequence[Survivors | None] | None = None,
    ) -> Iterator[LatticeBounds]:
        """Bound each of `subs` for costs below its limit, in order; end early when `stop` says so."""
        pairs = list(zip(subs, limits, within or [None] * len(subs), strict=True))
        if self._jobs == 1 or len(pairs) < MIN_TASKS:
            with suppress(Stopped):
                for sub, limit, tiles in pairs:
                    yield LatticeBounds(sub, limit, stop=stop, within=tiles)
            return
        if self._pool is None:
            # What is sent is the mapspace: each worker builds its own tables from it, once.
            self._pool = ProcessPoolExecutor(
                self._jobs, initializer=_prepare, initargs=(self._space.mapspace, self._space.coarse)
            )
        tasks = [
            (sub.mask, self._places(sub), sub.quantum, _load(sub), limit, tiles)
            for sub, limit, tiles in pairs
        ]
        futures = [self._pool.submit(_bound, task) for task in tasks]
        for (sub, limit, tiles), future in zip(pairs, futures, strict=True):
            while not wait((future,), POLL_S).done:
                if stop():
                    return
            yield LatticeBounds(sub, limit, future.result(), within=tiles)

    def _places(self, sub: Subproblem) -> tuple[int, ...]:
        stages = zip(self._space.stages, sub.spatial, strict=True)
        return tuple(next(i for i, own in enumerate(stage) if own is chosen) for stage, chosen in stages)


_SPACES: list[SearchSpace] = []
"""The worker's own search space."""


def _prepare(mapspace: Mapspace, coarse: frozenset[str]) -> None:
    # An interrupt reaches all processes of a terminal; whether to stop is for the first one to say.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _SPACES[:] = [SearchSpace(mapspace, coarse)]


def _end_with_parent() -> None:
    """End this worker when the process that it works for is gone, however that ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # only workers get here
    parent.join()
    os._exit(1)


def _load(sub: Subproblem) -> Load | None:
    return (sub.resource, sub.scale) if isinstance(sub, LoadSubproblem) else None


def _bound(task: Task) -> BoundTables:
    mask, places, quantum, load, limit, within = task
    space = _SPACES[0]
    spatial = tuple(stage[place] for stage, place in zip(space.stages, places, strict=True))
    sub = Subproblem(space, mask, spatial, quantum)
    priced = sub if load is None else LoadSubproblem.of(sub, *load)
    return LatticeBounds(priced, limit, within=within).tables
