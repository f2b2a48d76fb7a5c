"""Metrics and lists of the users of a partition, and lists for batches of users in any engine."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.cluster.model_parts import (
    fitted,
    rows_only,
    shared_result,
    users_result,
)
from tastespace.cluster.partitions import ITEMS, read_ids, user_ids
from tastespace.cluster.rounds import (
    PartTask,
    best_name,
    data_name,
    part_state,
    run_facts,
    shared_state,
)
from tastespace.cluster.storage import Storage, require_version
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, DataError, ParameterError
from tastespace.evaluation import evaluate
from tastespace.models.base import Recommender
from tastespace.models.bpr import BPR
from tastespace.models.dpcml.model import DPCML
from tastespace.store import load
from tastespace.training.loop import Arrays

# ---------------------------------------------------------------------------------------------------------------------
# Metrics and lists, computed by the workers for the users of a partition, with the vectors of the run.


@dataclass(frozen=True)
class PartEvaluation:
    """Sum of a metric over the users of a partition for whom it counts, and their number."""

    total: float
    n_users: int


def evaluate_part(task: PartTask) -> PartEvaluation:
    """The monitored metric on the validation data of one partition, with the vectors before a round."""
    require_version(task.version)
    storage = Storage(task.root)
    model, _ = run_facts(task)
    arrays, facts = storage.read_arrays(data_name(task.partition))
    if not len(arrays["valid_indices"]):
        return PartEvaluation(0.0, 0)
    train = rows_only(arrays["offsets"], arrays["indices"], facts["n_items"])
    held_out = Interactions(train.users, train.items, arrays["valid_offsets"], arrays["valid_indices"])
    found = _fitted_part(storage, task, model, train, users_result(model, part_state(storage, task)))
    metric = model._monitored_metric(train)
    report = evaluate(
        found, held_out, seen=[train], metrics=[metric], protocol=model.monitor_protocol, threads=task.threads
    )
    n = report.n_users[metric]
    return PartEvaluation(float(report[metric]) * n if n else 0.0, n)


def keep_best(what: tuple[PartTask, int]) -> None:
    """Keep the user vectors of an epoch as those of the best one."""
    task, epoch = what
    require_version(task.version)
    storage = Storage(task.root)
    model, _ = run_facts(task)
    state = part_state(storage, task)
    storage.write_arrays(best_name(task.partition, epoch), {"users": users_result(model, state), **_means(state)})


def kept_users(storage: Storage, task: PartTask, model: DPCML | BPR, best_epoch: int) -> Arrays:
    """The user vectors of a partition that the model keeps (``users``), and the optimizer's means of each row."""
    if best_epoch:
        return storage.read_arrays(best_name(task.partition, best_epoch))[0]
    state = part_state(storage, task)
    return {"users": users_result(model, state), **_means(state)}


def _means(state: Arrays) -> Arrays:
    """Mean of the optimizer's state of each row, from which updates of the model start."""
    return {
        name: array.mean(axis=1) if array.ndim == 2 else array
        for name, array in state.items()
        if name.startswith("user_") and array.size
    }


@dataclass(frozen=True)
class ListTask:
    """Lists of all users of one partition."""

    task: PartTask
    best_epoch: int
    k: int
    out: str
    """Folder or address of the Parquet files."""
    options: dict[str, Any]


def write_lists(lists: ListTask) -> int:
    """Write the lists of one partition as ``part-00000.parquet``; returns the number of rows."""
    task = lists.task
    require_version(task.version)
    storage = Storage(task.root)
    model, _ = run_facts(task)
    arrays, _ = storage.read_arrays(data_name(task.partition))
    users = IdMap(user_ids(storage, task.partition), "user")
    items = IdMap(read_ids(storage, ITEMS), "item")
    train = Interactions(users, items, arrays["offsets"], arrays["indices"])
    if not train.n_users:
        return 0
    vectors = kept_users(storage, task, model, lists.best_epoch)["users"]
    found = _fitted_part(storage, task, model, train, vectors, lists.best_epoch)
    frame = pl.DataFrame(found.recommend(None, lists.k, threads=task.threads, **lists.options))
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    Storage(lists.out).write(f"part-{task.partition:05}.parquet", buffer.getvalue())
    return len(frame)


def _fitted_part(
    storage: Storage,
    task: PartTask,
    model: DPCML | BPR,
    train: Interactions,
    users: NDArray[np.float32],
    best_epoch: int = 0,
) -> DPCML | BPR:
    if best_epoch:
        shared = storage.read_arrays(f"best/shared-{best_epoch:05}")[0]
    else:
        shared = shared_result(model, shared_state(task))
    return fitted(model, train, users, shared)


# ---------------------------------------------------------------------------------------------------------------------
# Lists for batches of users in any engine: a function from a frame of user ids to a frame of lists.
#
# The same object goes to Dask (``map_partitions``), Spark (``mapInPandas``, ``mapInArrow``) and Ray (``map_batches``).
# It holds the name of a saved model; each process maps the model's files when it sees its first batch, and keeps them.

_NUMBERS = {"rank": "int64", "score": "float64"}


@dataclass(frozen=True)
class BatchAnswers:
    """The best k items for each user of a batch.

    Users whom the model does not know are answered from the items they have taken, where the batch has a column of
    these lists (`items`); else by ``on_unknown``: ``"skip"`` or ``"popular"``.

    >>> import tempfile
    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> place = tempfile.mkdtemp() + "/town.model"
    >>> _ = DPCML(dim=8, epochs=2).fit(town).save(place)
    >>> answers = BatchAnswers(place, k=3)
    >>> answers(pl.DataFrame({"user": [0, 1]}))["user"].to_list()
    [0, 0, 0, 1, 1, 1]
    """

    model: str
    """Directory of a saved model, which all processes reach."""
    k: int = 10
    user: str = "user"
    """Column of user ids in a batch."""
    items: str | None = None
    """Column of lists of items that a new user has taken; None: there is none."""
    on_unknown: str = "skip"
    threads: int = 1
    """Threads of each process: the engine starts several."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `recommend`, such as ``{"diversity": 0.3}``."""

    def __post_init__(self) -> None:
        require_whole("k", self.k)
        if self.on_unknown not in ("skip", "popular", "error"):
            raise ParameterError(Argument("on_unknown", self.on_unknown), ": expected skip, popular or error.")

    def __call__(self, batch: Any) -> Any:
        """The lists for one batch, in the library of the batch: pandas (Dask, Spark, Ray), pyarrow or polars."""
        from tastespace.data.reading.tables import FrameTable, from_polars

        table = FrameTable(batch)
        if self.user not in table.columns or (self.items is not None and self.items not in table.columns):
            wanted = self.user if self.user not in table.columns else self.items
            raise DataError(f"a batch has no column {wanted!r}; its columns are {', '.join(table.columns)}.")
        taken = None if self.items is None else table.values(self.items)
        return from_polars(self._answers(table.read(self.user), taken), table.backend)

    def over(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The lists for batch after batch: what ``mapInPandas`` and ``mapInArrow`` of Spark call."""
        for batch in batches:
            yield _record_batch(self(_as_table(batch))) if _is_record_batch(batch) else self(batch)

    def schema(self) -> dict[str, str]:
        """Names and types of the columns of the lists, as pandas names them; for ``meta`` of Dask."""
        model = _model(self.model)
        ids = {"user": model.train_.users.series.dtype, "item": model.train_.items.series.dtype}
        found = {name: "int64" if kind.is_integer() else "string" for name, kind in ids.items()} | _NUMBERS
        if any(kind.is_float() for kind in ids.values()) or any(kind.is_temporal() for kind in ids.values()):
            raise ParameterError("ids must be whole numbers or text for a batch engine. Turn them into text.")
        return found

    def spark_schema(self) -> str:
        """Names and types of the columns of the lists, for Spark.

        ``frame.mapInPandas(answers.over, answers.spark_schema())``
        """
        names = {"int64": "long", "string": "string", "float64": "double"}
        return ", ".join(f"{name} {names[kind]}" for name, kind in self.schema().items())

    def _answers(self, ids: pl.Series, taken: list[Any] | None) -> pl.DataFrame:
        model = _model(self.model)
        known = model.train_.users.find(ids) >= 0
        skips = self.on_unknown == "skip" or taken is not None
        asked = ids.filter(pl.Series(known)) if skips else ids
        parts = [self._plain(model.recommend(asked, **self._arguments()), model)] if len(asked) else []
        if taken is not None:
            parts += self._new_users(model, {ids[int(at)]: taken[int(at)] for at in np.flatnonzero(~known)})
        if not parts:
            return self._empty(model)
        order = pl.DataFrame({"user": ids.unique(maintain_order=True).cast(parts[0]["user"].dtype)})
        return order.join(pl.concat(parts), on="user", how="inner", maintain_order="left_right")

    def _new_users(self, model: Recommender, taken: dict[Any, Any]) -> list[pl.DataFrame]:
        """Lists of users who were not in training, from the items that they have taken and the model knows."""
        histories = {}
        for user, items in taken.items():
            there = [] if items is None or isinstance(items, float) else list(items)  # pandas has NaN for none
            kept = [item for item, at in zip(there, model.train_.items.find(there), strict=True) if at >= 0]
            if kept:
                histories[user] = kept
        if not histories:
            return []
        lists = model.recommend_for(histories, self.k, threads=self.threads, **self.options)
        return [self._plain(lists, model)]

    def _arguments(self) -> dict[str, Any]:
        return {"k": self.k, "on_unknown": self.on_unknown, "threads": self.threads, **self.options}

    def _plain(self, lists: Any, model: Recommender) -> pl.DataFrame:
        from tastespace.data.reading.tables import to_polars

        kinds = self._empty(model).schema
        frame, _ = to_polars(lists)
        return frame.select([pl.col(name).cast(kind) for name, kind in kinds.items()])

    def _empty(self, model: Recommender) -> pl.DataFrame:
        users, items = model.train_.users.series, model.train_.items.series
        kinds = {"user": _wide(users.dtype), "item": _wide(items.dtype), "rank": pl.Int64, "score": pl.Float64}
        return pl.DataFrame(schema=kinds)


def _wide(kind: pl.DataType) -> Any:
    return pl.Int64 if kind.is_integer() else pl.String if kind in (pl.Categorical, pl.Enum) else kind


@lru_cache(maxsize=4)
def _model(path: str) -> Recommender:
    """The model, mapped once in each process."""
    return load(path)


def _is_record_batch(batch: Any) -> bool:
    return type(batch).__module__.startswith("pyarrow") and type(batch).__name__ == "RecordBatch"


def _as_table(batch: Any) -> Any:
    if not _is_record_batch(batch):
        return batch
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _record_batch(table: Any) -> Any:
    import pyarrow as pa

    plain = {
        name: pa.string() if pa.types.is_large_string(kind) or str(kind) == "string_view" else kind
        for name, kind in zip(table.schema.names, table.schema.types, strict=True)
    }
    cast = table.cast(pa.schema(list(plain.items()))).combine_chunks()
    return cast.to_batches()[0] if len(cast) else pa.RecordBatch.from_pylist([], schema=cast.schema)
