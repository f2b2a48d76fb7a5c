"""Executors, which compute the tasks of a run: a Dask cluster, processes of this machine, or this process.

An executor calls a plain function with each of several tasks and returns the results in the order of the tasks. A task
whose worker dies is computed again: it writes the same files and returns the same result.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tastespace._util.extras import missing
from tastespace._util.threads import available
from tastespace.errors import Argument, ClusterError, InterruptedRunError, ParameterError

log = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")
_ATTEMPTS = 4  # of a task whose worker dies
_CONNECT_SECONDS = 15
_LOOK_SECONDS = 20  # between looks at whether a cluster has workers, while a task is awaited
_NO_WORKER_SECONDS = 600  # after which a cluster without workers is given up
_START = (
    "Start one with `dask scheduler` and, on each machine, `dask worker tcp://HOST:8786`, HOST being that of the "
    "scheduler; or use local:4, four processes of this machine."
)


class Executor(Protocol):
    """Calls a function with each task."""

    n_workers: int
    threads: int
    """Threads of the kernels in each task if the model says 0 (all cores)."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results, in the order of the tasks."""

    def close(self) -> None:
        """Stop the processes that were started."""


class InlineExecutor:
    """One task after the other in this process."""

    n_workers, threads = 1, 0

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results, in the order of the tasks."""
        return map(function, tasks)

    def close(self) -> None:
        """Do nothing: nothing was started."""


class ProcessExecutor:
    """Processes of this machine, without Dask: they are spawned, because threads do not survive a fork."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.threads = max(1, available() // n_workers)
        self._pool: ProcessPoolExecutor | None = None

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results, in the order of the tasks; after the death of a process the unfinished ones run again."""
        results: dict[int, Result] = {}
        given = 0
        for attempt in range(_ATTEMPTS):
            futures: dict[int, Future[Result]] = {}
            try:  # a process that died between two calls is noticed when tasks are handed out
                futures = self._submitted(function, tasks, results)
                for number in range(given, len(tasks)):
                    if number not in results:
                        results[number] = futures[number].result()
                    yield results[number]
                    given = number + 1
                return
            except BrokenProcessPool:
                self._keep_finished(futures, results)
                self._drop_pool()
                log.warning("a process was killed; its tasks run again (attempt %d of %d)", attempt + 2, _ATTEMPTS)
        raise InterruptedRunError(
            f"processes were killed {_ATTEMPTS} times in a row, as happens where memory is short. Take fewer processes "
            "or more partitions."
        )

    def _submitted(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], results: dict[int, Result]
    ) -> dict[int, Future[Result]]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.n_workers, mp_context=multiprocessing.get_context("spawn"))
        with _main_module_stays_out():
            return {n: self._pool.submit(function, task) for n, task in enumerate(tasks) if n not in results}

    @staticmethod
    def _keep_finished(futures: dict[int, Future[Result]], results: dict[int, Result]) -> None:
        for number, future in futures.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                results[number] = future.result()

    def _drop_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def processes(self) -> list[int]:
        """The ids of the processes, for tests that end one."""
        return [] if self._pool is None else list(self._pool._processes)

    def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class DaskExecutor:
    """The workers of a Dask cluster. Dask gives a dead worker's tasks to others."""

    def __init__(self, client: Any, owned: Sequence[Any] = (), threads: int = 0) -> None:
        self.client = client
        self.threads = threads
        self._owned = owned
        self._address = client.scheduler.address
        self.n_workers = self._count()
        if not self.n_workers:
            self._wait_for_a_worker()
        if not threads and self.is_on_this_machine():  # workers that share the cores; elsewhere each has a machine
            self.threads = max(1, available() // self.n_workers)

    def is_on_this_machine(self) -> bool:
        """Return True if all workers are on the machine of the driver, so that they share its files."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return all(address.startswith(("tcp://127.0.0.1", "inproc://")) for address in workers)

    def _wait_for_a_worker(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except _distributed("a cluster").TimeoutError as problem:
            raise ClusterError(
                f"the cluster at {self._address} has no worker. Start some: `dask worker {self._address}`."
            ) from problem
        self.n_workers = self._count()

    def _count(self) -> int:
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results, in the order of the tasks."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        futures = [self.client.submit(function, task, pure=False, retries=0) for task in tasks]
        try:
            for number, future in enumerate(futures):
                try:
                    result = self._awaited(future)
                except KilledWorker as problem:
                    raise InterruptedRunError(
                        f"task {number + 1} of {len(tasks)} ended {problem.allowed_failures + 1} workers, as happens "
                        "where it needs more memory than a worker may take. Divide the data into more partitions, or "
                        "give workers more (`dask worker --memory-limit`)."
                    ) from problem
                except (CancelledError, CommClosedError) as problem:  # the scheduler is gone, before or in an answer
                    raise InterruptedRunError(
                        f"the connection to the scheduler at {self._address} was lost. See its log; start it and its "
                        "workers again."
                    ) from problem
                yield result
                future.release()
        finally:
            if self.client.status == "running":
                self.client.cancel(futures)

    def _awaited(self, future: Any) -> Any:
        """Return the result of a task; wait some time for a cluster that has lost all its workers."""
        too_late = _distributed("a cluster").TimeoutError
        waited = 0.0
        while True:
            try:
                return future.result(timeout=_LOOK_SECONDS)
            except too_late:
                if future.status == "error":  # it is that of the task
                    raise
            waited = 0.0 if self._count() else waited + _LOOK_SECONDS
            if waited >= _NO_WORKER_SECONDS:
                raise InterruptedRunError(
                    f"the cluster at {self._address} has had no worker for {waited:.0f} s. Start some: `dask worker "
                    f"{self._address}`."
                )
            if waited:
                log.warning(
                    "the cluster at %s has no worker; training continues when one connects: `dask worker %s`",
                    self._address,
                    self._address,
                )

    def close(self) -> None:
        """Stop what this library started, not a client that was given."""
        for one in self._owned:
            with contextlib.suppress(TimeoutError, OSError):
                one.close(timeout=10)


def open_executor(cluster: Any) -> Executor:
    """An executor for a Dask client, an address, ``"local:4"``, ``"processes:4"``, ``"inline"`` or a scheduler file."""
    if isinstance(cluster, (InlineExecutor, ProcessExecutor, DaskExecutor)):
        return cluster
    if not isinstance(cluster, (str, Path)):
        if not hasattr(cluster, "submit") or not hasattr(cluster, "scheduler_info"):
            raise ParameterError(
                Argument("cluster", cluster),
                ": expected a Dask client, an address such as tcp://host:8786, a scheduler file, "
                "local:4 or processes:4.",
            )
        return DaskExecutor(cluster)
    kind, _, number = str(cluster).partition(":")
    if kind == "inline":
        return InlineExecutor()
    if kind in ("local", "processes"):
        if not number.isdecimal() or not 1 <= int(number) <= 1024:
            raise ParameterError(
                Argument("cluster", str(cluster)), f": expected a number of processes, such as {kind}:4."
            )
        return ProcessExecutor(int(number)) if kind == "processes" else _local_executor(int(number))
    return _connected(str(cluster))


@contextlib.contextmanager
def _main_module_stays_out() -> Iterator[None]:
    """Processes that are spawned in this block do not import the program that started them.

    They need only this library, and a program without ``if __name__ == "__main__"`` would start itself again.
    """
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    vars(main).pop("__file__", None)
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


def local_cluster(n_workers: int, **more: Any) -> Any:
    """A Dask cluster of processes of this machine: on 127.0.0.1 only, without a dashboard. ``more`` is for Dask."""
    return _distributed("local:N").LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=logging.ERROR,
        **more,
    )


def _local_executor(n_workers: int) -> DaskExecutor:
    with _main_module_stays_out():
        cluster = local_cluster(n_workers)
    client = _distributed("local:N").Client(cluster, timeout=_CONNECT_SECONDS)
    return DaskExecutor(client, [client, cluster], max(1, available() // n_workers))


def _connected(address: str) -> DaskExecutor:
    distributed = _distributed("a cluster")
    named = address
    if address.endswith(".json"):
        address = _address_in(Path(address))
        named = f"{address}, which {named} names"
    elif "://" not in address:
        raise ParameterError(
            Argument("cluster", address),
            ": expected an address such as tcp://host:8786, a scheduler file (.json), local:4 or processes:4.",
        )
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as problem:
        raise ClusterError(f"no cluster answers at {named} ({type(problem).__name__}). {_START}") from problem
    return DaskExecutor(client, [client])


def _address_in(file: Path) -> str:
    """The address of the scheduler that wrote a file."""
    try:
        return str(json.loads(file.read_text())["address"])
    except FileNotFoundError as problem:
        raise ClusterError(f"{file}: no such scheduler file. {_START}") from problem
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ClusterError(
            f"{file} is no scheduler file ({type(problem).__name__}). `dask scheduler --scheduler-file {file}` writes "
            "one."
        ) from problem


def _distributed(what: str) -> Any:
    try:
        import distributed
    except ImportError as problem:
        raise missing("cluster", f"{what} needs Dask", "processes:4 needs no other package.") from problem
    return distributed
