"""`evaluate`: any model by any protocol, over the full ranking, one block of users at a time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.csr import merge_lists
from tastespace._util.threads import resolve_threads
from tastespace.data.attributes import aligned_attributes
from tastespace.data.interactions import Interactions
from tastespace.data.reading.options import ColumnArguments
from tastespace.errors import Argument, DataError, ParameterError
from tastespace.evaluation._inputs import (
    Aligned,
    MetricInputs,
    align,
    subtract_lists,
)
from tastespace.evaluation.metrics import (
    DEFAULT,
    MetricColumn,
    check_cutoff,
    columns_for,
)
from tastespace.evaluation.protocols import Protocol, find_protocol
from tastespace.evaluation.report import Report
from tastespace.models.base import Recommender, TrainingData, interactions_from
from tastespace.ranking.blocks import Block, BlockRanker
from tastespace.ranking.source import ScoreSource

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame
    from typing_extensions import Unpack


def evaluate(
    model: Recommender,
    test: TrainingData,
    *,
    seen: TrainingData | Sequence[TrainingData] | None = None,
    protocol: str | Protocol = "full",
    k: int | Sequence[int] | None = None,
    metrics: str | Sequence[str] = DEFAULT,
    categories: str | None = None,
    item_attributes: IntoFrame | None = None,
    on_unknown: str = "error",
    only: str | None = None,
    threads: int = 0,
    **columns: Unpack[ColumnArguments],
) -> Report:
    """Rank the whole catalog for every user with a test item and measure the ranks of the test items.

    Args:
        model: A fitted recommender.
        test: The interactions that a good model ranks high: `Interactions`, a frame of any library, or a SciPy matrix.
        seen: Items that users have already and that must not be recommended: training, then validation data. By
            default what the model was fitted with. The protocol decides how much of it leaves the ranking:
            ``"paper"`` only the first, ``"full"`` all. Data of any kind that ``test`` may be, or a list of such.
        protocol: ``"full"`` (the default) or ``"paper"``; see `tastespace.evaluation.protocols`.
        k: Lengths of list for the metrics at k; the protocol's own by default.
        metrics: Names such as ``"P"`` (at every k), ``"NDCG@20"``, ``"OPAUC(0.01)"``, ``"CategoryMAP"``; see
            `tastespace.evaluation.metrics.METRICS`.
        categories: Item attribute that holds the categories, for the metrics that need them; by default the one that
            looks like categories, see `tastespace.data.attributes`.
        item_attributes: Frame with the item ids in column ``item`` and their attributes, for those metrics; by default
            the attributes that the model was fitted with.
        on_unknown: Test users and items that the model has never seen: ``"error"`` (default), ``"skip"`` them,
            or count them as ``"zero"``: never found, and an unknown user with enough test items for the protocol
            scores 0. Metrics by category and of diversity leave unknown users out. Users of the model without a
            training history whom it cannot serve (`Recommender.can_serve`) get no list either: they score 0 with
            ``"zero"``, else they are left out, and the report says how many they are.
        only: ``"warm"`` measures users with interactions in the model's training data only, ``"cold"`` those without,
            whose lists do not come from a history; by default both. The report has the numbers of both either way, and
            `Report.by_history` the metrics of both apart.
        threads: 0 means all cores; the metrics do not depend on it.
        **columns: Columns and ratings of frames, as in `tastespace.fit`: ``user="customer"``, ``item="sku"``,
            ``rating="stars"``, ``min_rating=4``, ... They are those of ``test`` and of ``seen``.

    Returns:
        A `Report`. Accuracy is a fraction between 0 and 1; `Report.units` has the unit of every metric.

    >>> from tastespace import split, synthetic
    >>> from tastespace.models import create
    >>> town = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> report = evaluate(create("popular").fit(train), test, seen=[train, valid], k=10, metrics=["P", "MAP"])
    >>> list(report.metrics)
    ['P@10', 'MAP']
    >>> 0 < report["P@10"] < 1
    True
    """
    start = time.perf_counter()
    model.require_fitted()
    test = _read("test", test, columns)
    rules = find_protocol(protocol)
    n_threads = resolve_threads(threads)
    cutoffs = _cutoffs(k, rules, model.train_.n_items)
    if test.n_interactions == 0:
        raise DataError(f"the test set {test!r} is empty: nothing to measure.")

    known = align(test, model.train_, "test", on_unknown)
    excluded = excluded_lists(model, seen_parts(seen, columns), rules)
    test_lists, n_overlap = subtract_lists((known.offsets, known.items), excluded)
    if n_overlap:
        warnings.warn(
            f"{n_overlap:,} of {test.n_interactions:,} test interactions are among the seen ones; they cannot be "
            "recommended again and are left out of the test.",
            stacklevel=2,
        )
    evaluated = np.flatnonzero((np.diff(test_lists[0]) > 0) | (known.n_unknown > 0)).astype(np.int32)
    attributes = aligned_attributes(item_attributes, model.train_.items, "item", str(columns.get("item", "item")))
    inputs = _metric_inputs(model, rules, known, excluded, categories, attributes, n_threads, evaluated)
    measured = columns_for([metrics] if isinstance(metrics, str) else list(metrics), cutoffs, lambda: inputs.categories)
    if not measured:
        raise ParameterError(
            Argument("metrics", metrics), " with ", Argument("k", list(cutoffs)), " selects no metric."
        )
    for column in measured:  # before the work begins
        inputs.require(column.metric.needs, column.label)
    longest = max([int(c.parameter or 0) for c in measured if c.metric.at_k], default=0)
    check_longest(longest, model.train_.n_items)

    if not len(evaluated) and not known.n_unknown_users:
        raise DataError("no user has a test item that could be recommended: nothing to measure.")
    is_warm = model.train_.user_counts[evaluated] > 0
    n_warm, n_cold = int(is_warm.sum()), int((~is_warm).sum()) + known.n_unknown_users
    if only is not None:
        evaluated, known = _only(only, evaluated, is_warm, known)
    evaluated, known, n_unserved = _served(model, evaluated, known, test_lists[0], on_unknown)
    ranker = BlockRanker(ScoreSource.of(model), longest, excluded, test_lists, threads=n_threads)
    results = _Accumulator(measured, inputs)
    for block in ranker.blocks(evaluated):
        results.add(block)
        del block  # frees its scores before the next block allocates its own
    report = results.report(evaluated, known, time.perf_counter() - start)
    is_cold = np.concatenate([model.train_.user_counts[evaluated] == 0, np.ones(known.n_unknown_users, dtype=bool)])
    return replace(report, n_warm=n_warm, n_cold=n_cold, is_cold=is_cold, n_unserved=n_unserved)


def _served(
    model: Recommender, evaluated: NDArray[np.int32], known: Aligned, offsets: NDArray[np.int64], on_unknown: str
) -> tuple[NDArray[np.int32], Aligned, int]:
    """The users whom the model can serve; the others are treated as unknown ones. Also how many are left out."""
    can_serve = model.can_serve(evaluated)
    if can_serve.all():
        return evaluated, known, 0
    others = evaluated[~can_serve]
    if on_unknown == "zero":
        # The test set may hold ids of a wider type, such as 64 bits against 32.
        parts = [one.alias("user").to_frame() for one in (model.train_.users.take(others), known.unknown_users)]
        counts = (offsets[others + 1] - offsets[others] + known.n_unknown[others], known.unknown_user_counts)
        known = replace(
            known,
            unknown_users=pl.concat(parts, how="vertical_relaxed")["user"],
            unknown_user_counts=np.concatenate(counts),
        )
        return evaluated[can_serve], known, 0
    if not can_serve.any() and not known.n_unknown_users:
        raise DataError(
            f"none of the {len(others):,} users to measure has interactions in the training data: cold-start users, "
            "for whom the model has no lists. ",
            Argument("on_unknown", "zero"),
            " counts them as 0.",
        )
    return evaluated[can_serve], known, len(others)


def _only(
    only: str, evaluated: NDArray[np.int32], is_warm: NDArray[np.bool_], known: Aligned
) -> tuple[NDArray[np.int32], Aligned]:
    """The warm or the cold-start users among those evaluated; users that the model does not have are cold."""
    if only not in ("warm", "cold"):
        raise ParameterError(
            Argument("only", only), ": expected 'warm' (users with a training history), 'cold', or None for all."
        )
    chosen = evaluated[is_warm if only == "warm" else ~is_warm]
    if only == "warm":
        known = replace(
            known, unknown_users=known.unknown_users.clear(), unknown_user_counts=known.unknown_user_counts[:0]
        )
    if not len(chosen) and not known.n_unknown_users:
        raise DataError(
            Argument("only", only),
            f": none of the {len(evaluated):,} users with test items is "
            f"{'in the training data' if only == 'warm' else 'without training data'}: nothing to measure.",
        )
    return chosen, known


class _Accumulator:
    """Per-user values and exposure of items, collected over the blocks of users."""

    def __init__(self, columns: list[MetricColumn], inputs: MetricInputs) -> None:
        self._columns = columns
        self._inputs = inputs
        self._values: dict[str, list[NDArray[np.float64]]] = {c.label: [] for c in columns if c.metric.compute}
        self._exposure = {
            int(c.parameter or 0): np.zeros(inputs.train.n_items, dtype=np.int64)
            for c in columns
            if c.metric.from_exposure
        }

    def add(self, block: Block) -> None:
        for column in self._columns:
            if column.metric.compute:
                values = column.metric.compute(block, self._inputs, column.parameter)
                self._values[column.label].append(values)
        for cut, exposure in self._exposure.items():
            top = block.top[:, :cut]
            exposure += np.bincount(top[top >= 0], minlength=len(exposure))

    def report(self, evaluated: NDArray[np.int32], known: Aligned, seconds: float) -> Report:
        per_user: dict[str, NDArray[np.float64]] = {}
        means: dict[str, float] = {}
        n_users: dict[str, int] = {}
        for column in self._columns:
            label = column.label
            if column.metric.from_exposure:
                means[label] = column.metric.from_exposure(self._exposure[int(column.parameter or 0)])
                n_users[label] = len(evaluated)
                continue
            values = np.concatenate([*self._values[label], self._of_unknown_users(column, known)])
            per_user[label] = values
            n_users[label] = int((~np.isnan(values)).sum())
            means[label] = float(np.nanmean(values)) if n_users[label] else float("nan")
        return Report(
            model=self._inputs.model_name,
            protocol=self._inputs.protocol.name,
            metrics=means,
            n_users=n_users,
            users=self._user_ids(evaluated, known),
            per_user=per_user,
            seconds=seconds,
            backend=self._inputs.train.backend,
            units={column.label: column.metric.unit for column in self._columns},
        )

    def _of_unknown_users(self, column: MetricColumn, known: Aligned) -> NDArray[np.float64]:
        """Users that are not in the model get no list: 0 for accuracy, NaN for metrics that describe a list."""
        metric = column.metric
        if not metric.is_accuracy or metric.needs == "categories":
            return np.full(known.n_unknown_users, np.nan)
        required = self._inputs.protocol.required_test_items(int(column.parameter or 0) if metric.at_k else None)
        return np.where(known.unknown_user_counts >= required, 0.0, np.nan)

    def _user_ids(self, evaluated: NDArray[np.int32], known: Aligned) -> pl.Series:
        users = self._inputs.train.users.take(evaluated).alias("user")
        if not known.n_unknown_users:
            return users
        # The test set may hold ids of a wider type, such as 64 bits against 32.
        parts = [users.to_frame(), known.unknown_users.alias("user").to_frame()]
        return pl.concat(parts, how="vertical_relaxed")["user"]


def _metric_inputs(
    model: Recommender,
    rules: Protocol,
    known: Aligned,
    excluded: tuple[NDArray[np.int64], NDArray[np.int32]],
    categories: str | None,
    item_attributes: pl.DataFrame | None,
    threads: int,
    evaluated: NDArray[np.int32],
) -> MetricInputs:
    space = model.item_space()
    return MetricInputs(
        model_name=repr(model),
        train=model.train_,
        protocol=rules,
        item_vectors=None if space is None else np.ascontiguousarray(space.item_vectors, dtype=np.float32),
        category_column=categories,
        n_unknown=known.n_unknown,
        n_excluded=np.diff(excluded[0]),
        threads=threads,
        item_attributes=item_attributes,
        model=model,
        evaluated=evaluated,
    )


def _read(name: str, data: Any, columns: ColumnArguments) -> Interactions:
    return interactions_from("evaluate", data, columns, name, part=True, accepted=ColumnArguments)


def seen_parts(seen: Any, columns: ColumnArguments) -> list[Interactions] | None:
    """Seen data of any kind, one or a list of such, as `Interactions`; options are those of frames among them."""
    if seen is None:
        return None
    parts = list(seen) if isinstance(seen, (list, tuple)) else [seen]
    return [one if isinstance(one, Interactions) else _read("seen", one, columns) for one in parts]


def excluded_lists(
    model: Recommender, seen: Interactions | Sequence[Interactions] | None, rules: Protocol
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Per user of the model, the items that leave the ranking."""
    if seen is None:
        parts = [model.train_] + ([model.valid_] if model.valid_ is not None else [])
    else:
        parts = [seen] if isinstance(seen, Interactions) else list(seen)
    for part in parts:
        if not isinstance(part, Interactions):
            raise ParameterError(f"seen holds {type(part).__name__}, expected Interactions or a list of them.")
    if not rules.exclude_validation:
        parts = parts[:1]
    # Seen items that are not in the model cannot be recommended anyway.
    aligned = [align(part, model.train_, "seen", "skip") for part in parts]
    lists = [(a.offsets, a.items) for a in aligned]
    disliked = model.train_.disliked
    return merge_lists([*lists, disliked] if len(disliked[1]) else lists, model.train_.n_users)


def _cutoffs(k: int | Sequence[int] | None, rules: Protocol, n_items: int) -> tuple[int, ...]:
    given: Sequence[Any]
    if k is None:
        given = [cut for cut in rules.cutoffs if cut <= n_items]
    else:
        given = list(k) if isinstance(k, (Sequence, np.ndarray)) else [k]
    return tuple(sorted({check_cutoff(cut) for cut in given}))


def check_longest(longest: int, n_items: int) -> None:
    """Raise if a list would be longer than the catalog."""
    if longest > n_items:
        raise ParameterError(
            Argument("k", longest), f" is larger than the catalog of {n_items:,} items. Ask for a shorter list."
        )
