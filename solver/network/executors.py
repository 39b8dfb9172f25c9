"""Where the searches of a network run: here one after the other, in processes, or on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_bool
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from model.mapspace import Mapspace
from solver import stages
from solver.network.cache import VERSION, sources_digest
from solver.network.tasks import Task
from solver.processes import POLL_S, Workers
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

if TYPE_CHECKING:
    from types import ModuleType


Searcher = Callable[..., Result]

Report = Callable[[Task, Progress | None], None]
Answers = Iterator[tuple[Task, Result]]

MOST_LOSSES = 3
"""Times in a row, without a result in between, that workers may be lost before a run is given up."""


class ExecutorError(Exception):
    """Searches cannot run on an executor; the message says why."""


def search_task(
    mapspace: Mapspace,
    options: Options,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Result:
    """Map the mapspace of a task; one that is too large for a search is UNKNOWN, and does not end the run.

    Reasons are left out: they would use the task's names, which no user has seen.
    """
    try:
        answer = stages.map_einsum(mapspace, options, on_progress, should_stop, reasons=False)
        return replace(answer, dense=None)  # it would not be renamed
    except TooLargeError:
        objectives = options.objectives_for(mapspace)
        units = mapspace.architecture.units_per_pj
        return Result(Status.UNKNOWN, Termination.TOO_LARGE, objectives, units)


class Executor(Protocol):
    """Runs searches; the results do not depend on which executor does."""

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """Yield each task with its result once that is known; `ExecutorError` if searches cannot run.

        `report` is called when a search begins, and while it runs, with its progress or None. Once
        `should_stop` returns True, running searches end with their incumbents, and no other one begins.
        """


class Serial:
    """One search after the other in this process; each may use several workers."""

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
    """Searches in parallel in a number of processes of this machine, the largest first.

    With fewer searches than processes, each uses several. If a process is lost, its pool begins again.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """See `Executor.run`; processes may be lost `MOST_LOSSES` times in a row."""
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
        """Yield the results of one pool, and take their tasks out of `left`."""
        tasks = tuple(left.values())
        count = min(self._processes, len(tasks))
        shared = _Shared(len(tasks))
        with _workers(count, shared) as workers:
            futures = _submitted(workers, tasks, replace(options, jobs=max(1, self._processes // count)))
            report(tasks[0], None)
            for task, result in _finished(futures, shared, report, should_stop):
                del left[task.key]
                yield task, result


class _Shared:
    """What worker processes share with their parent, without locks: a lost process could hold one."""

    def __init__(self, count: int) -> None:
        self.stop = multiprocessing.RawValue(c_bool, False)
        self.begun = multiprocessing.RawArray(c_bool, count)  # per task, whether its search has begun


@contextmanager
def _workers(count: int, shared: _Shared) -> Iterator[Workers]:
    """Yield processes that end with the block, whatever they are at and whichever are lost.

    Without an error or a stop they end by themselves, so that the pools of their searches are given back.
    """
    workers = Workers(count, _prepare, shared)
    try:
        yield workers
        if not shared.stop.value:
            workers.finish()
    finally:
        workers.end(wait=True)


Futures = dict[Future[Result | None], tuple[int, Task]]
"""Tasks and their places by what they are waited for."""


def _submitted(workers: Workers, tasks: Sequence[Task], options: Options) -> Futures:
    calls = [(place, task.mapspace, options) for place, task in enumerate(tasks)]
    try:
        futures = workers.submit(_search, calls)
    except OSError as error:
        raise ExecutorError(f"processes cannot be started: {error.strerror}") from error
    return dict(zip(futures, enumerate(tasks), strict=True))


def largest_first(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in the order in which to begin them: those that take longest come first."""
    return sorted(tasks, key=lambda task: -task.mapspace.problem.computes)


def _finished(futures: Futures, shared: _Shared, report: Report, should_stop: StopCallback) -> Answers:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, POLL_S, FIRST_COMPLETED)
        yield from ((futures[future][1], result) for future, result in _results(done))
        running = [future for future in waiting if future.running()]
        if running:
            report(futures[running[0]][1], None)
        if should_stop() and not shared.stop.value:
            shared.stop.value = True
            # Those that have not begun by now will not, though the pool calls them running.
            waiting = {future for future in waiting if shared.begun[futures[future][0]]}


def _results(done: Iterable[Future[Result | None]]) -> Iterator[tuple[Future[Result | None], Result]]:
    """Yield the results of finished searches first; only then raise the error of one that failed."""
    answered = [future for future in done if not future.cancelled()]
    for future in sorted(answered, key=lambda future: future.exception() is not None):
        result = future.result()
        if result is not None:
            yield future, result


_SHARED: list[_Shared] = []
"""What a worker process shares with its parent."""


def _prepare(shared: _Shared) -> None:
    _SHARED[:] = [shared]


def _search(place: int, mapspace: Mapspace, options: Options) -> Result | None:
    """Search; None if the run is to stop already. Its own processes can end only while this one lives."""
    shared = _SHARED[0]
    shared.begun[place] = True
    if shared.stop.value:
        return None
    result = search_task(mapspace, options, should_stop=lambda: shared.stop.value)
    for child in multiprocessing.active_children():
        child.join()
    return result


Program = tuple[str, str]
"""Version of a program, and digest of its sources."""

EXTRA = "cluster"
CONNECT_S = 10


class Cluster:
    """Searches on the workers of a Dask cluster, each with one core; `address` is that of the scheduler.

    If a worker is lost, others take over its searches. A search that has begun there cannot be stopped: a run
    that is stopped leaves it.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._distributed = _import_distributed()

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """See `Executor.run`; workers need the same program."""
        if not tasks:
            return
        task_options = replace(options, jobs=1)
        with self._connected() as client:
            waiting = {}
            for task in largest_first(tasks):
                call = pickle.dumps(_Call((task.mapspace, task_options, _program())))
                key = _cluster_key(task, task_options)
                waiting[client.submit(pickle.loads, call, key=key, retries=MOST_LOSSES)] = task
            report(next(iter(waiting.values())), None)
            try:
                yield from self._finished(client, waiting, report, should_stop)
            finally:
                client.cancel(list(waiting))

    def _connected(self) -> Any:
        # A client that cannot even try leaves a traceback when it is given up, and takes half a minute.
        try:
            asyncio.run(self._try_connection())
            return self._distributed.Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError, RuntimeError) as error:
            raise ExecutorError(f"no Dask scheduler answers at {self._address}: {error}") from None

    async def _try_connection(self) -> None:
        """Connect to the scheduler as clients do, and leave again."""
        how = self._distributed.Security().get_connection_args("client")
        connection = await self._distributed.comm.connect(self._address, timeout=CONNECT_S, **how)
        await connection.close()

    def _finished(
        self, client: Any, waiting: dict[Any, Task], report: Report, should_stop: StopCallback
    ) -> Answers:
        while waiting and not should_stop():
            done = self._done(client, waiting)
            if not done:
                report(next(iter(waiting.values())), None)
            for future in done:
                yield waiting.pop(future), self._result(future)

    def _done(self, client: Any, futures: Iterable[Any]) -> Collection[Any]:
        """Wait briefly for one of the futures, and return those that are done."""
        try:
            with client.as_current():
                done: Collection[Any] = self._distributed.wait(list(futures), POLL_S, "FIRST_COMPLETED").done
        except TimeoutError:
            return ()
        except (OSError, CancelledError) as error:
            raise self._lost(error) from None
        return done

    def _result(self, future: Any) -> Result:
        try:
            result: Result = pickle.loads(future.result())
        except self._distributed.KilledWorker as error:
            raise ExecutorError(f"the cluster lost the workers of a search: {error}") from None
        except ImportError as error:
            raise ExecutorError(
                f"the workers of the cluster do not have Tilewright installed: {error}"
            ) from None
        except (OSError, CancelledError) as error:
            raise self._lost(error) from None
        return result

    def _lost(self, error: BaseException) -> ExecutorError:
        if isinstance(error, CancelledError):
            return ExecutorError(f"the scheduler at {self._address} is gone, or has dropped the searches")
        return ExecutorError(f"the scheduler at {self._address} is gone: {error}")


def _cluster_key(task: Task, options: Options) -> str:
    """Return a name of a search that all runs of the same sources share: the cluster does it once."""
    return f"tilewright-{task.key}-{sha256(repr((options, _program())).encode()).hexdigest()[:16]}"


def _program() -> Program:
    """Return the version of this program, and the digest of its sources."""
    return VERSION, sources_digest()


def silence_logs() -> None:
    """Keep Dask from logging to stderr; errors that matter are raised."""
    for handler in logging.getLogger(_import_distributed().__name__).handlers:
        handler.setLevel(logging.CRITICAL)


def _import_distributed() -> ModuleType:
    try:
        import distributed  # noqa: PLC0415 (an optional extra)
    except ImportError:
        message = f"--cluster needs the extra `{EXTRA}`: pip install 'tilewright[{EXTRA}]'"
        raise ExecutorError(message) from None
    return distributed  # type: ignore[no-any-return,unused-ignore]


@dataclass(frozen=True)
class _Call:
    """A search that runs when its pickle is read: the scheduler needs no part of this program.

    A worker without the program answers with an error; unknown classes in a message would end it.
    """

    arguments: tuple[Mapspace, Options, Program]

    def __reduce__(self) -> tuple[Callable[..., bytes], tuple[Mapspace, Options, Program]]:
        return _search_on_worker, self.arguments


def _search_on_worker(mapspace: Mapspace, options: Options, asked_by: Program) -> bytes:
    """Search on a worker; `ExecutorError` if that is another program, whose answers may differ."""
    program = _program()
    if asked_by[0] != program[0]:
        raise ExecutorError(f"a worker of the cluster has version {program[0]}, this program {asked_by[0]}")
    if asked_by != program:
        raise ExecutorError(
            f"a worker of the cluster has other sources of version {program[0]} than this program: "
            f"sha256 {program[1][:12]}... there, {asked_by[1][:12]}... here; "
            "install the same and restart the worker"
        )
    return pickle.dumps(search_task(mapspace, options))
