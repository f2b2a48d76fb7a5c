"""Users who were not in training (fold-in): from their histories, or from their features."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_on_unknown
from tastespace._util.threads import require_polars
from tastespace.data.features import (
    content_frame,
    content_ids,
    is_matrix,
    rows_for,
)
from tastespace.data.ids import (
    IdMap,
    encode,
    id_series,
    plain_series,
)
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import (
    from_polars,
    reordered,
    stacked,
    to_polars,
)
from tastespace.errors import Argument, Call, DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.list_options import ListOptions
from tastespace.recommend.lists import TopKLists
from tastespace.recommend.request import RequestedUsers, as_list

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=Recommender)
_EXAMPLES = 3


def fold_in(model: Model, histories: Any, on_unknown: str = "error", features: Any = None) -> Model:
    """Implement `Recommender.fold_in`."""
    model.require_fitted()
    require_on_unknown(on_unknown, popular=False)
    if features is not None:
        return _from_features(model, histories, features, on_unknown)[0]
    _require_histories(histories)
    known, empty, _ = _read(model.train_, histories, on_unknown)
    if len(empty):
        raise DataError(
            f"{len(empty):,} histories hold no item of the model, the first is that of {empty[0]!r}. Leave "
            "them out, or call ",
            Call("recommend_for"),
            " with ",
            Argument("on_unknown", "popular"),
            ".",
        )
    return folded(model, known)


def recommend_for(model: Recommender, histories: Any, request: ListOptions, features: Any = None) -> Any:
    """Implement `Recommender.recommend_for`."""
    model.require_fitted()
    on_unknown = request.on_unknown
    require_on_unknown(on_unknown)
    if features is not None:
        new, given = _from_features(model, histories, features, on_unknown)
        requested = RequestedUsers(given, new.train_.users.index_of(given).astype(np.int32))
        return from_polars(stacked(list(TopKLists(new, request).frames(requested))), new.train_.backend)
    _require_histories(histories)
    known, empty, given = _read(model.train_, histories, on_unknown, in_session=True)
    if len(empty) and on_unknown == "error":
        raise DataError(
            f"{len(empty):,} histories hold no item of the model, the first is that of {empty[0]!r}. Leave them out, "
            "or give ",
            Argument("on_unknown", "popular"),
            " for the most popular items.",
        )
    parts = []
    if known.n_users:
        lists = TopKLists(folded(model, known), request)
        parts = list(lists.frames(RequestedUsers(known.users, np.arange(known.n_users, dtype=np.int32))))
    if len(empty) and on_unknown == "popular":
        parts.append(TopKLists(model, request).popular(empty))
    if not parts:
        parts = [pl.DataFrame(schema=TopKLists(model, request).schema(known.users.series.dtype))]
    frame = stacked(parts)
    if given.equals(known.users.series):  # in this order already
        return from_polars(frame, known.backend)
    everybody, place = encode(given, "user")
    order = np.argsort(place)[everybody.find(frame["user"])]  # place in the request of the user of each row
    return from_polars(reordered(frame, np.lexsort((frame["rank"].to_numpy(), order))), known.backend)


def folded(model: Model, histories: Interactions, rows: NDArray[np.int64] | None = None) -> Model:
    """The model for the users of ``histories``, whose items are the model's.

    ``rows``: they are users of the model, at these rows, whose histories have become longer.
    """
    new = model._fold_in(histories) if rows is None else model._fold_in_longer(histories, rows)
    if new is None:
        raise ParameterError(
            f"{type(model).__name__} has no fold-in for users who were not in training; fit it with them."
        )
    return _as_fitted(new, histories, model)


def _from_features(model: Model, histories: Any, features: Any, on_unknown: str) -> tuple[Model, pl.Series]:
    """The model for new users with features, and their ids in the order in which they were given."""
    require_polars("features=")
    known = with_history = None
    if histories is not None:
        known, _, with_history = _read(model.train_, histories, "skip" if on_unknown == "popular" else on_unknown)
    if is_matrix(features):
        given = pl.Series(np.arange(features.shape[0])) if with_history is None else with_history
        if len(given) != features.shape[0]:
            raise DataError(f"{features.shape[0]:,} rows of features for {len(given):,} histories: expected one each.")
        content: Any = features[given.arg_sort().to_numpy()]
        backend = model.train_.backend
    else:
        content, backend = content_frame(features)
        if isinstance(features, Mapping):
            backend = model.train_.backend
        named = "user" in content.columns
        if not named:
            content = content.with_columns(pl.Series("user", np.arange(len(content))))
        given = content_ids(content, "user")
        if named:
            _require_new(model.train_, given)
    if not len(given):
        raise DataError("features is empty: expected at least one user.")
    users = IdMap(given.sort(), "user")
    offsets, indices = np.zeros(len(users) + 1, dtype=np.int64), model.train_.indices[:0]
    if known is not None and known.n_users:
        at = users.find(known.users.series)
        if (at < 0).any():
            first = known.users[int(np.flatnonzero(at < 0)[0])]
            raise DataError(
                f"{int((at < 0).sum()):,} of {len(at):,} histories are of users without a row of features, the first "
                f"is {first!r}. Give them a row, with nulls where nothing is known."
            )
        counts = np.zeros(len(users), dtype=np.int64)
        counts[at] = known.user_counts  # both ascending: the lists keep their order
        offsets, indices = np.concatenate([[0], np.cumsum(counts)]), known.indices
    histories_data = replace(
        model.train_, users=users, offsets=offsets, indices=indices, weights=None, timestamps=None,
        user_attributes=None, dislikes=None, backend=backend,
    )  # fmt: skip
    new = model._fold_in_with(histories_data, rows_for(content, users, "user"))
    if new is None:
        raise ParameterError(
            f"{type(model).__name__} does not learn from features. Models that do are dpcml+dn, cml+dn and mgmf+dn."
        )
    return _as_fitted(new, histories_data, model), given


def _require_histories(histories: Any) -> None:
    if histories is None:
        raise DataError(
            "nothing is given of the new users: expected histories (such as [[item, item], ...]), or ",
            Argument("features"),
            " for a model that learns from features.",
        )


def _require_new(train: Interactions, given: pl.Series) -> None:
    known = given.filter(pl.Series(train.users.find(given) >= 0))
    if len(known):
        raise DataError(
            f"{len(known):,} of {len(given):,} users with features are known to the model already, such as "
            f"{', '.join(map(repr, known.head(_EXAMPLES).to_list()))}. Call recommend for them, or give new "
            "users ids of their own."
        )


def _as_fitted(new: Model, histories: Interactions, model: Model) -> Model:
    """The folded-in model as a fitted one of the users of ``histories``; popularity stays that of training."""
    new.train_, new.valid_, new._popularity_source = histories, None, model.popularity_source
    new._mapped_files = model._mapped_files  # of the items
    new._profiles = None  # of other users, who may have the same ids
    return new


def _read(
    train: Interactions, histories: Any, on_unknown: str, in_session: bool = False
) -> tuple[Interactions, pl.Series, pl.Series]:
    """The histories over the model's items, the users without a known item, and all users as they were given.

    ``in_session``: unknown items are left out beside known ones, and logged; items that came after the fit are usual.
    """
    backend = train.backend
    if isinstance(histories, Interactions):
        if histories.weights is not None:
            raise DataError("histories have weights, which fold-in does not use. Drop them with .without_weights().")
        frame, backend = to_polars(histories.to_frame())
    elif isinstance(histories, (Mapping, list, tuple, np.ndarray)):
        frame = _from_lists(histories)
    else:
        frame, backend = to_polars(histories)
    if not {"user", "item"} <= set(frame.columns):
        raise DataError(
            f"histories have the columns {', '.join(map(repr, frame.columns))}, expected user and item; or give a "
            "list of lists of item ids."
        )
    if "weight" in frame.columns:
        raise DataError("histories have a column weight, which fold-in does not use. Leave it out.")
    if not len(frame):
        raise DataError("histories is empty: expected at least one user.")
    named = id_series(frame["user"], "user")
    everybody, codes = encode(named, "user")
    users, taken = everybody.series, frame["item"]
    given = ~taken.is_null().to_numpy() if taken.null_count() else np.ones(len(taken), dtype=bool)
    items = taken.filter(pl.Series(given))
    rows = train.items.find(items)
    if on_unknown == "error" and (rows < 0).any():
        if not (in_session and (rows >= 0).any()):
            train.items.index_of(items)  # an error that names the nearest ids
        unknown = items.filter(pl.Series(rows < 0))
        log.warning(
            "%s of %s items of the histories are not in the model and are left out, the first is %r",
            f"{len(unknown):,}", f"{len(items):,}", unknown[0],
        )  # fmt: skip
    owners = codes[given]
    has_items = np.zeros(len(users), dtype=bool)
    has_items[owners[rows >= 0]] = True
    number = (np.cumsum(has_items) - 1)[owners[rows >= 0]].astype(np.int32)
    offsets, indices = _native.build_csr(
        np.ascontiguousarray(number), rows[rows >= 0].astype(np.int32), int(has_items.sum()), 1
    )
    known = replace(
        train,
        users=IdMap(users.filter(pl.Series(has_items)), "user"),
        offsets=offsets,
        indices=indices,
        weights=None,
        timestamps=None,
        user_attributes=None,
        dislikes=None,
        backend=backend,
    )
    first = np.sort(np.unique(codes, return_index=True)[1])
    return known, users.filter(pl.Series(~has_items)), named.gather(pl.Series(first, dtype=pl.UInt32))


def _from_lists(histories: Any) -> pl.DataFrame:
    named = histories if isinstance(histories, Mapping) else dict(enumerate(histories))
    if named and not isinstance(histories, Mapping) and not any(_is_list(items) for items in named.values()):
        raise DataError(
            f"histories is a list of {type(histories[0]).__name__}, expected a list of lists of item ids: [[...]] for "
            "one user."
        )
    users: list[Any] = []
    taken: list[Any] = []
    for user, items in named.items():
        listed = items.tolist() if isinstance(items, np.ndarray) else list(as_list(items))
        users += [user] * max(1, len(listed))
        taken += listed or [None]
    return pl.DataFrame([plain_series("user", users), plain_series("item", taken)])


def _is_list(items: Any) -> bool:
    return hasattr(items, "__iter__") and not isinstance(items, (str, bytes))
