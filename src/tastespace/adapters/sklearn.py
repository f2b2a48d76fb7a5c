"""Search with scikit-learn: `GridSearchCV`, `RandomizedSearchCV` and others over the splits of this library.

Models have the parameters of a scikit-learn estimator already. What a search needs besides is data that it can take
rows of (`search_data`), splits as row numbers (`cv_splits`) and a metric (`metric_scorer`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError, nearest
from tastespace.evaluation import evaluate
from tastespace.evaluation.metrics import columns_for
from tastespace.models.base import Recommender


class SearchData(Interactions):
    """Interactions that scikit-learn can take rows of: row i is the i-th interaction."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of interactions, and two columns: user and item."""
        return self.n_interactions, 2

    def __len__(self) -> int:
        return self.n_interactions

    def __getitem__(self, rows: Any) -> SearchData:
        at = rows[0] if isinstance(rows, tuple) else rows  # scikit-learn asks for data[rows, ...]
        kept = np.zeros(self.n_interactions, dtype=bool)
        kept[at] = True
        found = self.subset(kept)
        shares = found.user_counts[self.user_counts > 0] / self.user_counts[self.user_counts > 0]
        inside, outside = int((shares == 1).sum()), int((shares == 0).sum())
        if min(inside, outside) > 1 and len(shares) - inside - outside <= 2:  # a block of rows cuts two histories
            raise ParameterError(
                f"the rows are the whole histories of {inside:,} people and nothing of {outside:,} others, so there "
                "is nobody to learn from and to measure on. Give the search cv=cv_splits(data, split.folds(data, 3)): "
                "a number, such as cv=3, cuts the table into blocks of people."
            )
        return search_data(found)


def search_data(data: Interactions) -> SearchData:
    """The interactions as ``X`` of a search.

    >>> from sklearn.model_selection import GridSearchCV
    >>> from tastespace import EASE, split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> search = GridSearchCV(
    ...     EASE(),
    ...     {"regularization": [1.0, 100.0]},
    ...     cv=cv_splits(town, split.folds(town, 3)),
    ...     scoring=metric_scorer("NDCG@10"),
    ... )
    >>> search.fit(search_data(town)).best_params_
    {'regularization': 100.0}
    >>> search.best_estimator_.recommend(7, k=2)["rank"].to_list()
    [1, 2]
    """
    if not isinstance(data, Interactions):
        raise DataError(f"search_data expects Interactions, given {type(data).__name__}.")
    return SearchData(**{one.name: getattr(data, one.name) for one in fields(data)})


def cv_splits(
    data: Interactions, pairs: Iterable[tuple[Interactions, Interactions]]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of (train, test) as row numbers in ``data``, for ``cv`` of a search.

    The pairs come from `tastespace.split`, such as ``split.folds(data, 3)`` or ``[(train, valid)]``.
    """
    if not isinstance(data, Interactions):
        raise DataError(f"cv_splits expects Interactions, given {type(data).__name__}.")
    given = list(pairs) if isinstance(pairs, Iterable) else [pairs]
    for pair in given:
        if not isinstance(pair, (tuple, list)) or [isinstance(part, Interactions) for part in pair] != [True, True]:
            raise ParameterError(
                f"cv_splits expects pairs of Interactions, such as [(train, test)] or split.folds(data, 3); "
                f"one of the pairs is {type(pair).__name__}."
            )
    found = [(_places(data, train, "train"), _places(data, test, "test")) for train, test in given]
    if not found:
        raise ParameterError("cv_splits was given no pair of (train, test): nothing to measure on.")
    return found


def _places(data: Interactions, part: Interactions, name: str) -> NDArray[np.int64]:
    if part.users != data.users or part.items != data.items:
        raise DataError(f"the {name} part ({part!r}) has other users or items than the data ({data!r}): split that.")
    own = data.row_of_each().astype(np.int64) * data.n_items + data.indices
    wanted = part.row_of_each().astype(np.int64) * part.n_items + part.indices
    at = np.searchsorted(own, wanted)
    if len(wanted) and (at.max() >= len(own) or not np.array_equal(own[at], wanted)):
        raise DataError(f"the {name} part ({part!r}) has interactions that the data ({data!r}) does not have.")
    return at


def metric_scorer(metric: str = "NDCG@10", **options: Any) -> Callable[..., float]:
    """A metric of `tastespace.evaluate` for ``scoring`` of a search.

    The value is that of ``evaluate(model, test, metrics=[metric], **options)``, with the sign changed for metrics of
    which smaller values are better, because a search looks for the largest.

    >>> metric_scorer("NDCG@10", protocol="full", threads=1)
    metric_scorer('NDCG@10', protocol='full', threads=1)
    """
    return _MetricScorer(metric, options)


class _MetricScorer:
    """A class rather than a function, so that processes of a search can have copies."""

    def __init__(self, metric: str, options: dict[str, Any]) -> None:
        columns = columns_for([metric], (3, 10))
        if [column.label for column in columns] != [metric]:
            raise ParameterError(f"metric={metric!r}: expected the name of one metric, such as 'NDCG@10' or 'MAP'.")
        known = [name for name in inspect.signature(evaluate).parameters if name not in ("model", "test", "metrics")]
        for name in options:
            if name not in known:
                raise ParameterError(
                    f"metric_scorer has no option {name!r}; expected some of {', '.join(known)}, as evaluate has them."
                    f"{nearest(name, known)}"
                )
        self._metric, self._options = metric, options
        self._sign = -1.0 if columns[0].metric.lower_is_better else 1.0

    def __call__(self, model: Recommender, test: Interactions, y: object = None) -> float:
        if y is not None:
            raise ParameterError("interactions have no targets: call fit(search_data(data)) without y.")
        return self._sign * evaluate(model, test, metrics=[self._metric], **self._options)[self._metric]

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"metric_scorer({self._metric!r}{options})"
