"""The searches of a network on a Dask cluster (the optional extra ``cluster``)."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from model.mapspace import Mapspace
from solver.network.cache import VERSION, sources_digest
from solver.network.executors import (
    MOST_LOSSES,
    POLL_S,
    Answers,
    ExecutorError,
    Report,
    largest_first,
    search_task,
)
from solver.network.tasks import Task
from solver.result import Options, Result, StopCallback

if TYPE_CHECKING:
    from types import ModuleType

Program = tuple[str, str]

EXTRA = "cluster"
CONNECT_S = 10


class Cluster:
    """Searches on the workers of a Dask cluster, each with one core.

    A worker that is lost has its searches done by others; each answer counts once, whoever found
    it. A search that has begun there cannot be stopped: a run that is stopped leaves it.

    Parameters
    ----------
    address
        Of the scheduler, such as ``tcp://host:8786``.

    Raises
    ------
    ExecutorError
        The extra is not installed.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._distributed = _library()

    def run(
        self, tasks: Sequence[Task], options: Options, report: Report, should_stop: StopCallback
    ) -> Answers:
        """See `Executor.run`.

        Raises
        ------
        ExecutorError
            The scheduler does not answer or is gone, a search lost its workers, or they have another program.
        """
        if not tasks:
            return
        task_options = replace(options, jobs=1)
        with self._connected() as client:
            waiting = {}
            for task in largest_first(tasks):
                call = pickle.dumps(_Call((task.mapspace, task_options, _program())))
                key = _key(task, task_options)
                waiting[client.submit(pickle.loads, call, key=key, retries=MOST_LOSSES)] = task
            report(next(iter(waiting.values())), None)
            try:
                yield from self._finished(client, waiting, report, should_stop)
            finally:
                client.cancel(list(waiting))

    def _connected(self) -> Any:
        # A client that cannot even try leaves a traceback when it is given up, and takes half a minute.
        try:
            asyncio.run(self._try())
            return self._distributed.Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError, RuntimeError) as error:
            raise ExecutorError(f"no Dask scheduler answers at {self._address}: {error}") from None

    async def _try(self) -> None:
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
        """Wait a moment for one of the futures, and return those that are done."""
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
            raise ExecutorError(f"the workers of the cluster lack this program: {error}") from None
        except (OSError, CancelledError) as error:
            raise self._lost(error) from None
        return result

    def _lost(self, error: BaseException) -> ExecutorError:
        if isinstance(error, CancelledError):
            return ExecutorError(f"the scheduler at {self._address} is gone, or has dropped the searches")
        return ExecutorError(f"the scheduler at {self._address} is gone: {error}")


def _key(task: Task, options: Options) -> str:
    """Return a name that runs share which ask for the same search, so that the cluster does it once.

    Runs of other sources ask for other answers.
    """
    return f"tilewright-{task.key}-{sha256(repr((options, _program())).encode()).hexdigest()[:16]}"


def _program() -> Program:
    """Return the version of this program, and the digest of its sources."""
    return VERSION, sources_digest()


def silence_logs() -> None:
    """Keep Dask from writing what it logs to stderr; errors that matter are raised.

    Raises
    ------
    ExecutorError
        The extra is not installed.
    """
    for handler in logging.getLogger(_library().__name__).handlers:
        handler.setLevel(logging.CRITICAL)


def _library() -> ModuleType:
    try:
        import distributed  # noqa: PLC0415 (an optional extra)
    except ImportError:
        message = f"--cluster needs the extra `{EXTRA}`: pip install 'tilewright[{EXTRA}]'"
        raise ExecutorError(message) from None
    return distributed  # type: ignore[no-any-return,unused-ignore]


@dataclass(frozen=True)
class _Call:
    """A search that takes place when its pickle is read: to send it, only bytes have to be understood.

    A scheduler thus needs no part of this program, and a worker without it answers with an error,
    where it would end if it met unknown classes in a message.
    """

    arguments: tuple[Mapspace, Options, Program]

    def __reduce__(self) -> tuple[Callable[..., bytes], tuple[Mapspace, Options, Program]]:
        return _search, self.arguments


def _search(mapspace: Mapspace, options: Options, asked_by: Program) -> bytes:
    """Search on a worker; `ExecutorError` if that is another program, whose answers may differ."""
    program = _program()
    if asked_by[0] != program[0]:
        raise ExecutorError(f"a worker of the cluster has version {program[0]}, this program {asked_by[0]}")
    if asked_by != program:
        raise ExecutorError(
            f"a worker of the cluster has other sources of version {program[0]} than this program: "
            f"sha256 {program[1][:12]}... there, {asked_by[1][:12]}... here; install the same, start it anew"
        )
    return pickle.dumps(search_task(mapspace, options))
