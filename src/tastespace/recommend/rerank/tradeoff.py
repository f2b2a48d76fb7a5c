"""Accuracy against diversity: the metrics of a model's lists for several degrees of diversity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import polars as pl

from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import from_polars
from tastespace.errors import Argument, ParameterError
from tastespace.evaluation import Protocol, evaluate
from tastespace.models.base import Recommender
from tastespace.recommend.rerank.two_stage import Mixed

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

METRICS = ("NDCG@10", "R@20", "MinorityRecall@20")


def tradeoff(
    model: Recommender,
    test: Interactions,
    *,
    seen: Interactions | Sequence[Interactions] | None = None,
    diversities: Iterable[float] = (0, 0.25, 0.5, 0.75, 1),
    mix: str = "proportional",
    metrics: str | Sequence[str] = METRICS,
    protocol: str | Protocol = "full",
    categories: str | None = None,
    item_attributes: IntoFrame | None = None,
    threads: int = 0,
) -> Any:
    """Accuracy against minority recall: the metrics of a model's lists for each degree of diversity.

    The model is fitted once; its interests are mixed and the lists evaluated for each degree.
    `tastespace.plots.draw_tradeoff` draws the frame.

    Args:
        model: A fitted model whose users have interests, such as DPCML.
        test: The interactions that a good model ranks high.
        diversities: Degrees of diversity, from 0 (the model's own lists) to 1.
        mix: How the interests are mixed, see `Recommender.recommend`.
        metrics: Names of metrics, see `tastespace.evaluate`; MinorityRecall needs item categories.
        seen, protocol, categories, item_attributes, threads: As in `tastespace.evaluate`.

    Returns:
        A frame with the column ``diversity`` and a column for each metric, a row per degree of diversity, in the
        library that the training data came from.

    >>> from tastespace import DPCML, split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = DPCML(dim=8, epochs=5).fit(train)
    >>> tradeoff(model, test, seen=[train, valid], diversities=(0, 1))["diversity"].to_list()
    [0.0, 1.0]
    """
    if not isinstance(model, Recommender):
        raise ParameterError(Argument("model", model), ": expected a fitted model.")
    model.require_fitted()
    degrees: list[Any] = [diversities] if isinstance(diversities, Real) else list(diversities)
    for degree in degrees:
        if not isinstance(degree, Real) or isinstance(degree, bool) or not 0 <= float(degree) <= 1:
            raise ParameterError(f"diversities: {degree!r} was given, expected numbers from 0 to 1.")
    if not degrees:
        raise ParameterError("diversities is empty: expected numbers from 0 to 1, such as (0, 0.5, 1).")
    return metrics_of_each(
        ((float(degree), Mixed(model, mix=mix, diversity=float(degree))) for degree in degrees),
        test,
        label="diversity",
        seen=seen,
        metrics=metrics,
        protocol=protocol,
        categories=categories,
        item_attributes=item_attributes,
        threads=threads,
    )


def metrics_of_each(
    models: Iterable[tuple[Any, Recommender]],
    test: Interactions,
    *,
    label: str = "model",
    metrics: str | Sequence[str] = METRICS,
    **options: Any,
) -> Any:
    """The metrics of several fitted models as one frame.

    Args:
        models: Pairs of a label and a fitted model; models are taken one at a time.
        test: The interactions that a good model ranks high.
        label: Name of the column of labels.
        metrics: As in `tastespace.evaluate`.
        **options: Other arguments of `tastespace.evaluate`.

    Returns:
        A frame with a column of labels and a column for each metric, a row per model.

    >>> from tastespace import EASE, Reranked, split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> first = EASE().fit(train)
    >>> weights = ((w, Reranked.around(first, how="calibrated", weight=w, pool=20)) for w in (0.0, 0.9))
    >>> metrics_of_each(weights, test, label="weight", metrics=["NDCG@5", "CalibrationKL@5"], seen=train).columns
    ['weight', 'NDCG@5', 'CalibrationKL@5']
    """
    rows = []
    backend = "polars"
    for name, model in models:
        report = evaluate(model, test, metrics=metrics, **options)
        rows.append({label: name, **report.metrics})
        backend = report.backend
    if not rows:
        raise ParameterError("no model was given: expected pairs of a label and a fitted model.")
    return from_polars(pl.DataFrame(rows), backend)
