"""Where the searches of a network run: one after the other here, or side by side in processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_bool
from dataclasses import replace
from typing import Protocol

from model.mapspace import Mapspace
from solver.guided import map_or_explain
from solver.network.tasks import Task
from solver.processes import Workers
from solver.result import (
    Options,
    Progress,
    ProgressCallback,
    Result,
    Status,
    StopCallback,
    Termination,
    TooLargeError,
)

Searcher = Callable[..., Result]

Report = Callable[[Task, Progress | None], None]
Answers = Iterator[tuple[Task, Result]]

POLL_S = 0.2
MOST_LOSSES = 3
"""Times in a row, without an answer in between, that workers may be lost before a run is given up."""


class ExecutorError(Exception):
    """Searches cannot run where they were meant to."""


def search_task(
    mapspace: Mapspace,
    options: Options,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Result:
    """Map the mapspace of a task; one that is too large for a search is UNKNOWN, and ends no run.

    Reasons why nothing fits would speak of the task's names, which no user has seen.
    """
    try:
        return map_or_explain(mapspace, options, on_progress, should_stop, reasons=False)
    except TooLargeError:
        objectives = options.objectives or mapspace.objectives
        units = mapspace.architecture.units_per_pj
        return Result(Status.UNKNOWN, Termination.TOO_LARGE, objectives, units)


class Executor(Protocol):
    """Runs searches; the answers do not depend on which one does."""

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """Yield each task with its answer as soon as that is there.

        Once `should_stop` answers True, running searches end with what they have, and no other
        begins.

        Parameters
        ----------
        tasks
            Of different keys.
        options
            Of each search; its time limit holds for each of them.
        report
            Called with a task when its search begins, and perhaps while it runs: with the search's own
            report, or None where there is none.
        should_stop
            Asked between searches, and while they run.

        Yields
        ------
        tuple[Task, Result]
            In any order; fewer than the tasks if it was stopped.

        Raises
        ------
        ExecutorError
            What runs them is gone.
        """


class Serial:
    """One search after the other in this process; each may use several workers itself.

    Parameters
    ----------
    search
        What maps one Einsum.
    """

    def __init__(self, search: Searcher = search_task) -> None:
        self._search = search

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """See `Executor.run`."""
        for task in tasks:
            if should_stop():
                return
            report(task, None)
            yield (
                task,
                self._search(
                    task.mapspace,
                    options,
                    on_progress=lambda progress, task=task: report(task, progress),
                    should_stop=should_stop,
                ),
            )


class Processes:
    """Searches side by side in processes of this machine, the largest first.

    A process that is lost takes the others of its pool with it; what they were at begins again.

    Parameters
    ----------
    processes
        How many; with fewer searches than that, each uses several workers.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """See `Executor.run`.

        Raises
        ------
        ExecutorError
            Processes cannot be started, or were lost `MOST_LOSSES` times in a row.
        """
        left = {task.key: task for task in largest_first(tasks)}
        losses = 0
        while left and not should_stop():
            before = len(left)
            try:
                yield from self._answers(left, options, report, should_stop)
                return
            except BrokenProcessPool:
                losses = 1 if len(left) < before else losses + 1
            if losses == MOST_LOSSES:
                message = f"worker processes were lost {losses} times in a row; is there enough memory?"
                raise ExecutorError(message)

    def _answers(
        self, left: dict[str, Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """Yield the answers of one pool, and take their tasks out of `left`."""
        for task, result in self._pool(tuple(left.values()), options, report, should_stop):
            del left[task.key]
            yield task, result

    def _pool(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        count = min(self._processes, len(tasks))
        worker_options = replace(options, jobs=max(1, self._processes // count))
        stop = multiprocessing.RawValue(c_bool, False)  # A lock could be held by a process that is killed.
        with _workers(count, stop) as workers:
            futures = _submitted(workers, tasks, worker_options)
            report(tasks[0], None)
            yield from _finished(futures, stop, report, should_stop)


@contextmanager
def _workers(count: int, stop: c_bool) -> Iterator[Workers]:
    """Yield processes that end with the block, whatever they are at and whichever are lost.

    If the block ends without an error, they end on their own: what the pools of their searches hold is given
    back by then, of which the interpreter would warn otherwise.
    """
    workers = Workers(count, _prepare, stop)
    try:
        yield workers
        workers.finish()
    finally:
        workers.end(wait=True)


def _submitted(
    workers: Workers, tasks: Sequence[Task], options: Options
) -> dict[Future[Result | None], Task]:
    try:
        futures = workers.submit(_search, [(task.mapspace, options) for task in tasks])
    except OSError as error:
        raise ExecutorError(f"processes cannot be started: {error.strerror}") from error
    return dict(zip(futures, tasks, strict=True))


def largest_first(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in the order in which to begin them: those that take long come first."""
    return sorted(tasks, key=lambda task: -task.mapspace.problem.computes)


def _finished(
    futures: dict[Future[Result | None], Task], stop: c_bool, report: Report, should_stop: StopCallback
) -> Answers:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, POLL_S, FIRST_COMPLETED)
        yield from ((futures[future], result) for future, result in _results(done))
        running = [future for future in waiting if future.running()]
        if running:
            report(futures[running[0]], None)
        if should_stop() and not stop.value:
            stop.value = True
            _cancel(waiting)


def _results(done: Iterable[Future[Result | None]]) -> Iterator[tuple[Future[Result | None], Result]]:
    """Yield the results of finished searches first; only then raise the error of one that failed."""
    answered = [future for future in done if not future.cancelled()]
    for future in sorted(answered, key=lambda own: own.exception() is not None):
        result = future.result()
        if result is not None:
            yield future, result


def _cancel(futures: Iterable[Future[Result | None]]) -> None:
    for future in futures:
        future.cancel()


_STOP: list[c_bool] = []
"""What tells a worker process to stop."""


def _prepare(stop: c_bool) -> None:
    _STOP[:] = [stop]


def _search(mapspace: Mapspace, options: Options) -> Result | None:
    """Search; None if the run is to stop already.

    Processes of the search are waited for: they end on their own only while this one lives.
    """
    if _STOP[0].value:
        return None
    result = search_task(mapspace, options, should_stop=lambda: _STOP[0].value)
    for child in multiprocessing.active_children():
        child.join()
    return result
