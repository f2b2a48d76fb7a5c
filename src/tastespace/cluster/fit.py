"""`fit(data, cluster=...)`: divides the data, runs the rounds, and puts the model together."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tastespace._util.checks import require_whole
from tastespace.cluster.answers import ListTask, kept_users, write_lists
from tastespace.cluster.executors import DaskExecutor, Executor, open_executor
from tastespace.cluster.model_parts import fitted, supported, vector_offsets
from tastespace.cluster.partitions import fingerprint_of, gathered_rows, ingest, user_ids, write_partitions
from tastespace.cluster.run import ClusterRun, RoundCosts, new_run
from tastespace.cluster.storage import Storage
from tastespace.data.interactions import Interactions
from tastespace.data.reading.options import IdArguments, ReadOptions
from tastespace.data.reading.tables import named_files
from tastespace.errors import InterruptedRunError, ParameterError, require_path
from tastespace.models.bpr import BPR
from tastespace.models.dpcml.model import DPCML
from tastespace.models.dpcml.start import rows_of_users
from tastespace.training.loop import Arrays, Callback

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class ClusterOptions:
    """Options of training on a cluster, for `fit(..., cluster=...)`.

    The result depends on the data, the model's parameters, `partitions`, `rounds_per_epoch` and `compress`; never on
    the number of workers, their speed or their order.
    """

    cluster: Any = "local:2"
    """A Dask client, an address such as ``"tcp://host:8786"``, a scheduler file, ``"local:4"`` (a Dask cluster of this
    machine), ``"processes:4"`` (processes without Dask) or ``"inline"`` (this process)."""
    partitions: int = 8
    """Parts of the users. More of them need less memory each; the items are learned a little less exactly."""
    rounds_per_epoch: int | None = None
    """Times in an epoch that the partitions' changes of the items are combined. None: see `default_rounds`."""
    storage: str | None = None
    """Folder or address (s3://, ...) that driver and workers reach. A run that was stopped resumes from there. None: a
    temporary folder, for workers on this machine."""
    compress: bool = False
    """Send changes in half precision; what that loses is added to the next change (error feedback)."""
    item_shards: int | None = None
    """Ranges of items that are stored and combined apart; with more than one the workers combine, and partitions read
    only the items that they need. None: one for each 250,000 items. It changes the cost, not the result."""

    def __post_init__(self) -> None:
        require_whole("partitions", self.partitions)
        if self.rounds_per_epoch is not None:
            require_whole("rounds_per_epoch", self.rounds_per_epoch)
        if self.item_shards is not None:
            require_whole("item_shards", self.item_shards)


def default_rounds(partitions: int, epochs: int) -> int:
    """Return the rounds of an epoch: 8, or enough for a short training to have 400 rounds in all.

    Partitions fall behind one process in the first epochs, the less the more rounds there are, and catch up later:
    docs/scaling.md has the figures. More than 32 are never chosen, because each costs reading and writing. One
    partition has nothing to combine with.

    >>> default_rounds(8, 50), default_rounds(8, 20), default_rounds(8, 2), default_rounds(1, 50)
    (8, 20, 32, 1)
    """
    return 1 if partitions == 1 else min(32, max(8, math.ceil(400 / epochs)))


def as_options(cluster: Any) -> ClusterOptions:
    """Return the argument of `fit(..., cluster=...)` as options."""
    return cluster if isinstance(cluster, ClusterOptions) else ClusterOptions(cluster)


def fit_on_cluster(
    model: Any,
    train: Interactions,
    valid: Interactions | None,
    cluster: Any,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> list[RoundCosts]:
    """Train ``model`` on partitions of ``train``; it is fitted afterwards. Returns the costs of the rounds."""
    options = as_options(cluster)
    chosen = supported(model)
    executor = open_executor(options.cluster)
    try:
        with _storage_of(options, executor) as storage:
            begin(storage, chosen, train, valid, options)
            run = ClusterRun(storage, executor, model.threads)
            run.train(callbacks, progress)
            take_result(chosen, run, train)
            return run.costs
    finally:
        if executor is not options.cluster:
            executor.close()


def fit_files(
    model: Any,
    files: str | Path | Sequence[str | Path],
    cluster: Any,
    *,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **columns: Unpack[IdArguments],
) -> list[RoundCosts]:
    """Train ``model`` on the interactions of Parquet files, which workers read: a task for each file.

    The model is the same as with ``model.fit(Interactions.from_files(...), cluster=...)``. Its vectors and rows are put
    together here at the end; lists of all users can be written without that (`lists_on_cluster`).

    Args:
        model: DPCML, CML or BPR; it is fitted afterwards.
        files: A pattern, a folder or a list of Parquet files, which the workers reach.
        cluster: As in `fit`.
        progress: Show a progress bar: by default only where standard error is a terminal.
        callbacks: Called after every epoch.
        **columns: ``user``, ``item``, ``min_user`` and ``min_item``, as in `Interactions.from_frame`; ids are whole
            numbers or text.

    Returns:
        Costs of the rounds.
    """
    options = as_options(cluster)
    chosen = supported(model)
    given = [files] if isinstance(files, (str, Path)) else files
    paths = [require_path(path) for one in given for path in named_files(one)]
    wanted = ReadOptions.of("fit_files", IdArguments, columns)
    named = {name: getattr(wanted, name) for name in IdArguments.__annotations__}
    executor = open_executor(options.cluster)
    try:
        with _storage_of(options, executor) as storage:
            new_run(
                storage,
                chosen,
                partitions=options.partitions,
                rounds_per_epoch=_rounds(options, chosen),
                compress=options.compress,
                item_shards=options.item_shards,
                data={"files": fingerprint_of(paths, named)},
                write=lambda: ingest(
                    executor,
                    storage,
                    paths,
                    options.partitions,
                    **named,
                ),
            )
            run = ClusterRun(storage, executor, model.threads)
            run.train(callbacks, progress)
            train = gathered_rows(storage, options.partitions)
            take_result(chosen, run, train)
            model.train_, model.valid_ = train, None
            return run.costs
    finally:
        if executor is not options.cluster:
            executor.close()


def begin(
    storage: Storage, model: DPCML | BPR, train: Interactions, valid: Interactions | None, options: ClusterOptions
) -> None:
    """Write the partitions of a new run, unless the same run is there already."""
    usable = None if valid is None or not valid.n_interactions else valid

    def write() -> dict[str, Any]:
        write_partitions(storage, train, usable, options.partitions)
        return {"n_items": train.n_items, "n_interactions": train.n_interactions, "has_valid": usable is not None}

    new_run(
        storage,
        model,
        partitions=options.partitions,
        rounds_per_epoch=_rounds(options, model),
        compress=options.compress,
        item_shards=options.item_shards,
        data={"train": train.fingerprint(), "valid": None if usable is None else usable.fingerprint()},
        write=write,
    )


def take_result(model: DPCML | BPR, run: ClusterRun, train: Interactions) -> None:
    """Set the learned attributes of a model from a finished run; partitions are read one at a time."""
    shared, epoch = run.result()
    now = run.progress
    offsets = vector_offsets(model, train)
    n_vectors = train.n_users if offsets is None else int(offsets[-1])
    users = np.zeros((n_vectors, model.dim), dtype=np.float32)
    means: Arrays = {}
    for task in run.tasks(now.round):
        kept = kept_users(run.storage, task, model, now.best_epoch)
        rows = train.users.find(user_ids(run.storage, task.partition))
        at = rows if offsets is None else rows_of_users(offsets, rows)
        users[at] = kept["users"]
        for name, values in kept.items():
            if name != "users":
                means.setdefault(name, np.zeros(n_vectors, dtype=values.dtype))[at] = values
    for name, array in run.shared().items():
        if name.startswith(("item_", "bias_")) and array.size:
            means[name] = array.mean(axis=1) if array.ndim == 2 else array
    learned = {name: value for name, value in vars(fitted(model, train, users, shared)).items() if name.endswith("_")}
    del learned["train_"], learned["valid_"]
    vars(model).update(learned)
    model.optimizer_means_ = means
    if isinstance(model, DPCML):
        model.temperature_ = model._temperature_of(epoch)
        model.skipped_positives_ = int(train.user_counts[train.user_counts == train.n_items].sum())
        model._keep_anchors(None, None)
    model.history_, model.best_epoch_, model.stopped_, model.diagnostics_ = now.history, epoch, now.stopped, []
    model.fit_epochs_, model.n_epochs_ = epoch, len(now.history)


def lists_on_cluster(storage: str, out: str, cluster: Any, k: int = 10, threads: int = 0, **options: Any) -> int:
    """Lists of all users of a finished run, computed where the users are: a Parquet file for each partition.

    Args:
        storage: The ``storage`` of the `ClusterOptions` of the run.
        out: Folder or address of the files.
        cluster: As in `ClusterOptions`.
        k: Items per user.
        threads: Of each worker; 0: as the cluster allows.
        options: Further arguments of `recommend`.

    Returns:
        The number of rows.
    """
    executor = open_executor(cluster)
    try:
        run = ClusterRun(Storage(storage), executor, threads)
        run._resume()
        best = run.progress.best_epoch
        tasks = [ListTask(task, best, k, out, options) for task in run.tasks(run.progress.round)]
        return sum(executor.run(write_lists, tasks))
    finally:
        if executor is not cluster:
            executor.close()


def within(options: ClusterOptions, name: str) -> ClusterOptions:
    """Return the options with a folder of its own in the storage, for one of several runs."""
    return options if options.storage is None else replace(options, storage=f"{options.storage}/{name}")


def _rounds(options: ClusterOptions, model: DPCML | BPR) -> int:
    return options.rounds_per_epoch or default_rounds(options.partitions, model.epochs)


@contextmanager
def _storage_of(options: ClusterOptions, executor: Executor) -> Iterator[Storage]:
    if options.storage is not None:
        try:
            yield Storage(options.storage)
        except InterruptedRunError as problem:
            raise InterruptedRunError(
                f"{problem} What is finished is kept in {options.storage}: the same call resumes after it."
            ) from problem
        return
    if isinstance(executor, DaskExecutor) and not executor.is_on_this_machine():
        raise ParameterError(
            "storage: workers on other machines need a place that they and the driver reach. Give a shared folder or "
            'an address: ClusterOptions(client, storage="s3://bucket/run"), or --cluster-storage.'
        )
    folder = tempfile.mkdtemp(prefix="tastespace-cluster-")
    try:
        yield Storage(folder)
    except InterruptedRunError as problem:
        raise InterruptedRunError(
            f"{problem} The files of this run were temporary; with a storage (storage=, --cluster-storage) the same "
            "call resumes after what is finished."
        ) from problem
    finally:
        shutil.rmtree(Path(folder), ignore_errors=True)
