"""Training on a Dask cluster of this machine: the same bits for every number of workers, and after every fault.

Scheduler and workers listen on 127.0.0.1, without a dashboard, and are stopped at the end.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager

import dask
import pytest
from distributed import Client
from tests.cluster.same_models import same

import tastespace as ts
from tastespace.cluster import ClusterOptions
from tastespace.cluster.executors import DaskExecutor, ProcessExecutor, local_cluster
from tastespace.errors import ClusterError, InterruptedRunError
from tastespace.models.bpr import BPR

pytestmark = pytest.mark.slow

MODEL = ts.DPCML(dim=6, epochs=3, average=2, seed=4)
HOW = {"partitions": 4, "rounds_per_epoch": 2}


@pytest.fixture(scope="module")
def client():
    quiet = {"distributed.scheduler.allowed-failures": 20, "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(quiet),
        local_cluster(2) as cluster,
        Client(cluster, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def undisturbed(parts):
    train, valid, _ = parts
    return MODEL.clone().fit(train, valid=valid, cluster=ClusterOptions("inline", **HOW))


class Disturbed:
    """An executor that does something in the middle of a round: it calls ``disturb`` after tasks were handed out."""

    def __init__(self, inner, disturb, at_round):
        self._inner, self._disturb, self._at_round = inner, disturb, at_round
        self.n_workers, self.threads = inner.n_workers, inner.threads
        self.done = []

    def submit(self):
        """Looks like a client to `open_executor`."""

    scheduler_info = submit

    def run(self, function, tasks):
        if getattr(tasks[0], "round", None) == self._at_round and not self.done:
            timer = threading.Timer(0.02, lambda: self.done.append(self._disturb()))
            timer.start()
            yield from self._inner.run(function, tasks)
            timer.join()
        else:
            yield from self._inner.run(function, tasks)

    def close(self):
        self._inner.close()


@pytest.fixture(autouse=True)
def _takes_disturbed_executors(monkeypatch):
    import tastespace.cluster.fit as place

    plain = place.open_executor
    monkeypatch.setattr(place, "open_executor", lambda one: one if isinstance(one, Disturbed) else plain(one))


def fit(parts, cluster, **more):
    train, valid, _ = parts
    return MODEL.clone().fit(train, valid=valid, cluster=ClusterOptions(cluster, item_shards=2, **{**HOW, **more}))


def pids(client):
    return list(client.run(os.getpid).values())


def test_the_number_of_workers_does_not_matter(parts, client, undisturbed):
    same(fit(parts, client), undisturbed)
    same(fit(parts, "local:1"), undisturbed)
    same(fit(parts, "processes:3"), undisturbed)
    train, _, _ = parts
    options = [ClusterOptions(one, **HOW) for one in ("inline", client)]
    same(*(BPR(dim=4, epochs=2).fit(train, cluster=one) for one in options))


@pytest.mark.parametrize("n_killed", [1, 2])
def test_killed_workers_cost_a_round_of_their_partitions(parts, client, undisturbed, n_killed):
    client.wait_for_workers(2, timeout=300)

    def kill():
        for pid in pids(client)[:n_killed]:
            os.kill(pid, signal.SIGKILL)

    cluster = Disturbed(DaskExecutor(client), kill, at_round=3)
    same(fit(parts, cluster), undisturbed)
    assert cluster.done


def test_a_killed_process_of_the_pool(parts, undisturbed):
    pool = ProcessExecutor(2)

    def kill():
        os.kill(pool.processes()[0], signal.SIGKILL)

    cluster = Disturbed(pool, kill, at_round=2)
    try:
        same(fit(parts, cluster), undisturbed)
        assert cluster.done
        assert list(pool.run(os.getpgid, [0, 0])) == [os.getpgrp()] * 2
        kill()  # between two rounds
        assert list(pool.run(os.getpgid, [0, 0])) == [os.getpgrp()] * 2
    finally:
        pool.close()


def test_a_worker_that_is_slow(parts, client, undisturbed):
    client.wait_for_workers(2, timeout=300)  # killed ones may still be on their way back
    with ten_times_slower(pids(client)[0]) as stops:
        same(fit(parts, client), undisturbed)
    assert len(stops) > 10


@contextmanager
def ten_times_slower(pid):
    """A process that may run for a hundredth of a second, then is stopped for nine."""
    stops, done = [], threading.Event()

    def hold():
        while not done.is_set():
            os.kill(pid, signal.SIGSTOP)
            done.wait(0.09)
            os.kill(pid, signal.SIGCONT)
            stops.append(pid)
            done.wait(0.01)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield stops
    finally:
        done.set()
        thread.join()


def test_a_worker_over_its_memory_limit_is_a_clear_error(parts, tmp_path):
    train, _, _ = parts
    limits = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.target": False,
    }
    with (
        dask.config.set(limits),
        local_cluster(1, memory_limit="450MB") as cluster,
        Client(cluster, timeout=60) as client,
    ):
        large = ts.CML(dim=400_000, epochs=1, average=1, block_size=16, n_negatives=1)
        options = ClusterOptions(client, partitions=2, rounds_per_epoch=1, storage=str(tmp_path))
        with pytest.raises(ClusterError, match=r"more memory than a worker may take.*more partitions.*--memory-limit"):
            large.fit(train, cluster=options)
        assert (tmp_path / "run.json").exists()


def test_another_version_on_a_worker_is_refused(parts, client, monkeypatch):
    monkeypatch.setattr("tastespace.cluster.run.library_version", lambda: "0.0.1/1")
    with pytest.raises(
        ClusterError, match=r"the worker on .* has tastespace .*, the driver 0\.0\.1/1.*the same.*temporary"
    ):
        fit(parts, client)


def test_no_cluster_at_an_address(parts, monkeypatch):
    monkeypatch.setattr("tastespace.cluster.executors._CONNECT_SECONDS", 1)
    with pytest.raises(
        ClusterError, match=r"no cluster answers at tcp://127\.0\.0\.1:9.*Start one with `dask scheduler"
    ):
        fit(parts, "tcp://127.0.0.1:9")


def test_a_scheduler_file(parts, client, undisturbed, tmp_path):
    # `client.write_scheduler_file` fails now and then: it cannot write the metrics of a worker that has just worked
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": client.scheduler.address}))
    same(fit(parts, str(tmp_path / "scheduler.json")), undisturbed)
    (tmp_path / "other.json").write_text("{")
    with pytest.raises(ClusterError, match=r"other\.json is no scheduler file"):
        fit(parts, str(tmp_path / "other.json"))


def test_all_workers_and_then_the_scheduler_are_lost(parts, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.cluster.executors._LOOK_SECONDS", 0.5)
    monkeypatch.setattr("tastespace.cluster.executors._NO_WORKER_SECONDS", 1)
    file, storage = tmp_path / "scheduler.json", str(tmp_path / "run")
    with ExitStack() as started:
        scheduler = started.enter_context(dask_command("scheduler", "--port", "0", "--scheduler-file", str(file)))
        worker = started.enter_context(dask_command("worker", "--scheduler-file", str(file), "--no-nanny"))
        with Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(1, timeout=300)
            with pytest.raises(InterruptedRunError, match=r"had no worker for .*is kept in .*the same call resumes"):
                fit(parts, Disturbed(DaskExecutor(client), worker.kill, at_round=1), storage=storage)
            started.enter_context(dask_command("worker", "--scheduler-file", str(file), "--no-nanny"))
            client.wait_for_workers(1, timeout=300)
            with pytest.raises(InterruptedRunError, match=r"connection to the scheduler at tcp://127.* was lost"):
                fit(parts, Disturbed(DaskExecutor(client), scheduler.kill, at_round=3), storage=storage)
    same(fit(parts, "inline", storage=storage), undisturbed)


@contextmanager
def dask_command(*arguments):
    """A process of the Dask command line on 127.0.0.1, without a dashboard; it is ended at the end."""
    command = [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1", "--no-dashboard"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
