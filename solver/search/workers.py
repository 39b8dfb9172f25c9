"""Bounds many subproblems at a time, in this process or in several."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from fractions import Fraction
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np

from model.mapspace import Mapspace
from solver.processes import Workers
from solver.search.arrays import IntArray
from solver.search.bounds.lattice_bounds import LatticeBounds, Survivors
from solver.search.bounds.tables import BoundTables
from solver.search.space.counts import CountLattice
from solver.search.space.grid import SpatialGrid
from solver.search.space.keep_masks import KeepMask
from solver.search.space.lattice import Steps
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, Stopped, never
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.subproblems.groups import SubproblemGroup, together
from solver.search.subproblems.loads import LoadSubproblem

MIN_TASKS = 8
"""Fewer subproblems than this are not worth sending to other processes."""

START_AFTER_S = 0.5
"""Workers are not worth their start, which takes about as long, before that much was bounded without them."""

MOST_LOSSES = 3
"""Times that workers may be lost before all is bounded here."""

POLL_S = 0.1
"""How often it is asked whether to stop, while workers are busy."""


MANY_TILES = 1 << 12
"""Numbers of tiles from which on cells of them are bounded first."""

MOST_CLOSELY = 1 << 23
"""Vectors, times innermost loops and spatial choices, up to which groups are bounded closely."""

MOST_WINDOWS = 1 << 19
"""The same where windows slide."""

FEWER = 2
"""By what factor cells have to be fewer."""


class Load(NamedTuple):
    """What is bounded instead of the energy: a resource, its load counted in parts of a cycle."""

    resource: int | None
    scale: Fraction


Surveyed = EnergySubproblem | SubproblemGroup | LoadSubproblem
"""What lattices are bounded of, many at a time."""

Sub = TypeVar("Sub", bound=Surveyed)


class Work(NamedTuple, Generic[Sub]):
    """What to bound, for costs below a limit, and the tiles that are left.

    Parameters
    ----------
    limit
        In units of the subproblem's cost, exclusive.
    within
        As of `LatticeBounds`.
    """

    sub: Sub
    limit: int
    within: Survivors | None


class Task(NamedTuple):
    """The same for another process, which has its own search space.

    ``choices`` has, per stage, the places of the spatial classes of each subproblem.

    Parameters
    ----------
    mask
        Of all of them.
    choices
        One array per stage, outermost first; shape (subproblems,).
    quantum
        Units of the cost per unit of the tables.
    load
        None for the energy.
    """

    mask: KeepMask
    choices: tuple[IntArray, ...]
    quantum: int
    load: Load | None
    limit: int
    within: Survivors | None


class Bounder:
    """Runs the lattice bounds of subproblems; the answers do not depend on the number of `jobs`.

    A process that is lost takes the others of its pool with it; what they were at is bounded here.

    Parameters
    ----------
    space
        That of all subproblems.
    jobs
        Processes; 1 is this one alone. They start once that is worth it, and end with the context.
    """

    def __init__(self, space: SearchSpace, jobs: int) -> None:
        self._space = space
        self._jobs = jobs
        self._workers: Workers | None = None
        self._losses = 0
        self._seconds = 0.0

    def __enter__(self) -> Bounder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def bound(
        self,
        subs: Sequence[Sub],
        limits: Sequence[int],
        stop: Stop = never,
        within: Sequence[Survivors | None] | None = None,
    ) -> Iterator[LatticeBounds[Sub]]:
        """Bound each of `subs` for costs below its limit, in order; end early when `stop` says so."""
        works = [Work(*work) for work in zip(subs, limits, within or [None] * len(subs), strict=True)]
        done = 0
        try:
            for bounds in self._elsewhere(works, stop) if self._worth_workers(works) else ():
                yield bounds
                done += 1
        except (BrokenProcessPool, MemoryError, OSError):
            self._losses += 1
            self._let_go()
        with suppress(Stopped):
            yield from self._here(works[done:], stop)

    def _worth_workers(self, works: Sequence[Work[Sub]]) -> bool:
        many = self._jobs > 1 and len(works) >= MIN_TASKS
        return many and self._seconds >= START_AFTER_S and self._losses < MOST_LOSSES

    def _here(self, works: Sequence[Work[Sub]], stop: Stop) -> Iterator[LatticeBounds[Sub]]:
        for work in works:
            begin = time.monotonic()
            bounds = _bounded(work, stop).of(work)
            self._seconds += time.monotonic() - begin
            yield bounds

    def _elsewhere(self, works: Sequence[Work[Sub]], stop: Stop) -> Iterator[LatticeBounds[Sub]]:
        if self._workers is None:
            # What is sent is the mapspace: each worker builds its own tables from it, once.
            self._workers = Workers(self._jobs, _prepare, self._space.mapspace, self._space.coarse)
        futures = self._workers.submit(_bound, [(self._task(work),) for work in works])
        for work, future in zip(works, futures, strict=True):
            if not _is_answered(future, stop):
                return
            yield future.result().of(work)

    def _let_go(self) -> None:
        if self._workers is not None:
            self._workers.end(wait=False)
        self._workers = None

    def _task(self, work: Work[Sub]) -> Task:
        sub = work.sub
        return Task(sub.mask, self._choices(sub), sub.quantum, _load(sub), work.limit, work.within)

    def _choices(self, sub: Surveyed) -> tuple[IntArray, ...]:
        if isinstance(sub, SubproblemGroup):
            return sub.grid.choices
        stages = zip(self._space.stages, sub.spatial, strict=True)
        return tuple(np.array([stage.place_of(chosen)]) for stage, chosen in stages)


class Found(NamedTuple):
    """What bounding a subproblem found.

    Parameters
    ----------
    coarse
        Place among the coarser search spaces of that whose tables these are; None for the space itself.
    survivors
        Then the tiles of the space itself that are left; None otherwise.
    """

    tables: BoundTables
    coarse: int | None = None
    survivors: Survivors | None = None

    def of(self, work: Work[Sub]) -> LatticeBounds[Sub]:
        """The bounds."""
        sub = work.sub
        if self.coarse is not None:
            sub = cast(Sub, sub.on(sub.space.coarser[self.coarse]))
        return LatticeBounds(sub, work.limit, self.tables, within=work.within, survivors=self.survivors)


def _bounded(work: Work[Sub], stop: Stop) -> Found:
    """Bound a subproblem: where there are many numbers of tiles, first for cells of similar ones.

    Groups are not bounded any closer.
    """
    sub, space = work.sub, work.sub.space
    if not space.uneven or space.lattice.size < MANY_TILES:
        return Found(LatticeBounds(sub, work.limit, stop=stop, within=work.within).tables)
    cells: Survivors | None = None
    coarse: SearchSpace | None = None
    found: Found | None = None
    for number, finer in enumerate(space.coarser):
        if FEWER * finer.lattice.size > space.lattice.size:
            break
        cells = _opened(coarse, cells, finer)
        bounds = _closely(sub.on(finer), work.limit, stop, cells, number > 0)
        if bounds.empty:
            return Found(bounds.tables)
        cells, coarse = bounds.connected(work.limit), finer
        found = Found(bounds.tables, number)
    within = _opened(coarse, cells, space)
    if within is not None and work.within is not None:
        within = tuple(np.intersect1d(*pair) for pair in zip(within, work.within, strict=True))
    within = work.within if within is None else within
    if found is not None and isinstance(sub, SubproblemGroup):
        return found._replace(survivors=within)
    return Found(_closely(sub, work.limit, stop, within, True).tables)


def _closely(sub: Sub, limit: int, stop: Stop, within: Survivors | None, closely: bool) -> LatticeBounds[Sub]:
    """Bound a subproblem, and once more if that does not settle it and it pays to look `closely`."""
    bounds = LatticeBounds(sub, limit, stop=stop, within=within)
    space = sub.space
    choices = max(len(sub.unrollings(level)) for level in range(len(space.levels)))
    entries = choices * len(space.led_classes) * space.lattice.size
    # With windows that takes long for all numbers of tiles, and is done where branching does not help.
    slow = entries > (MOST_WINDOWS if space.window_dims else MOST_CLOSELY)
    if bounds.empty or not closely or (slow and (choices > 1 or space.window_dims)):
        return bounds
    return LatticeBounds(sub, limit, pairwise=True, stop=stop, within=bounds.connected(limit))


def _opened(coarse: SearchSpace | None, cells: Survivors | None, space: SearchSpace) -> Survivors | None:
    """The tiles that lie in some cells, level by level."""
    if coarse is None or cells is None:
        return None
    assert isinstance(coarse.lattice, CountLattice) and isinstance(space.lattice, CountLattice)
    cell_of = coarse.lattice.cells_of(space.lattice)
    return tuple(np.flatnonzero(np.isin(cell_of, own)) for own in cells)


def _is_answered(future: Future[Found], stop: Stop) -> bool:
    """Wait for an answer; False if `stop` says so before it is there."""
    while not wait((future,), POLL_S).done:
        if stop():
            return False
    return True


_SPACES: list[SearchSpace] = []
"""The worker's own search space."""


def _prepare(mapspace: Mapspace, coarse: tuple[tuple[str, Steps], ...]) -> None:
    _SPACES[:] = [SearchSpace(mapspace, coarse)]


def _load(sub: Surveyed) -> Load | None:
    return Load(sub.resource, sub.scale) if isinstance(sub, LoadSubproblem) else None


def _bound(task: Task) -> Found:
    sub = together(SpatialGrid(_SPACES[0], task.choices), task.mask, task.quantum)
    if task.load is None:
        return _bounded(Work(sub, task.limit, task.within), never)
    assert isinstance(sub, EnergySubproblem)  # loads are bounded one by one
    priced = LoadSubproblem.of(sub, *task.load)
    return _bounded(Work(priced, task.limit, task.within), never)
