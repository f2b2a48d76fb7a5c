"""People who were not in training, from a list of what they took, or from their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from tastespace import _native
from tastespace.data.features import content_frame, content_ids, is_matrix, rows_for
from tastespace.data.ids import IdMap, id_series, plain_series
from tastespace.data.interactions import Interactions
from tastespace.data.tables import from_polars, to_polars
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.recommend.request import Asked, Request, as_list, check_unknown
from tastespace.recommend.topk import Lister

Model = TypeVar("Model", bound=Recommender)
_EXAMPLES = 3


def fold_in(model: Model, histories: Any, on_unknown: str = "error", features: Any = None) -> Model:
    """`Recommender.fold_in`."""
    model.require_fitted()
    if on_unknown not in ("error", "skip"):
        raise ParameterError(f"on_unknown={on_unknown!r}: expected 'error' or 'skip'.")
    if features is not None:
        return _introduced(model, histories, features, on_unknown)[0]
    _require_something(histories)
    known, empty, _ = _read(model.train_, histories, on_unknown)
    if len(empty):
        raise DataError(
            f"{len(empty):,} histories hold no item that the model knows, the first is that of {empty[0]!r}. Leave "
            "them out, or ask recommend_for with on_unknown='popular'."
        )
    return folded(model, known)


def recommend_for(
    model: Recommender,
    histories: Any,
    request: Request,
    on_unknown: str = "error",
    features: Any = None,
) -> Any:
    """`Recommender.recommend_for`."""
    model.require_fitted()
    check_unknown(on_unknown)
    if features is not None:
        new, given = _introduced(model, histories, features, on_unknown)
        asked = Asked(given, new.train_.users.index_of(given).astype(np.int32))
        return from_polars(pl.concat(Lister(new, request).frames(asked)), new.train_.backend)
    _require_something(histories)
    known, empty, people = _read(model.train_, histories, on_unknown)
    if len(empty) and on_unknown == "error":
        raise DataError(
            f"{len(empty):,} histories are empty, the first is that of {empty[0]!r}. Leave them out, or give "
            "on_unknown='popular' for what most people take."
        )
    parts = []
    if known.n_users:
        lister = Lister(folded(model, known), request)
        parts = list(lister.frames(Asked(known.users.series, np.arange(known.n_users, dtype=np.int32))))
    if len(empty) and on_unknown == "popular":
        parts.append(Lister(model, request).popular(empty))
    if not parts:
        parts = [pl.DataFrame(schema=Lister(model, request).schema(known.users.series))]
    frame = pl.concat(parts)
    order = people.to_frame("user").with_row_index("__at")
    frame = frame.join(order, on="user", how="left").sort("__at", "rank").drop("__at")
    return from_polars(frame, known.backend)


def folded(model: Model, histories: Interactions) -> Model:
    """The model for the users of ``histories``, whose items are the model's."""
    new = model._fold_in(histories)
    if new is None:
        raise ParameterError(
            f"{type(model).__name__} has no way to take in people who were not in training; fit it with them."
        )
    return _for_newcomers(new, histories, model)


def _introduced(model: Model, histories: Any, features: Any, on_unknown: str) -> tuple[Model, pl.Series]:
    """The model for people of whom content is known, and these people in the order in which they were given."""
    known = people = None
    if histories is not None:
        known, _, people = _read(model.train_, histories, "skip" if on_unknown == "popular" else on_unknown)
    if is_matrix(features):
        given = pl.Series(np.arange(features.shape[0])) if people is None else people
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
        raise DataError("features is empty: expected at least one person.")
    users = IdMap(given.sort(), "user")
    offsets, indices = np.zeros(len(users) + 1, dtype=np.int64), model.train_.indices[:0]
    if known is not None and known.n_users:
        at = users.find(known.users.series)
        if (at < 0).any():
            first = known.users[int(np.flatnonzero(at < 0)[0])]
            raise DataError(
                f"{int((at < 0).sum()):,} of {len(at):,} histories are of people without a row of features, the first "
                f"is {first!r}. Give them a row, with nulls where nothing is known."
            )
        counts = np.zeros(len(users), dtype=np.int64)
        counts[at] = known.user_counts  # both ascending: the lists keep their order
        offsets, indices = np.concatenate([[0], np.cumsum(counts)]), known.indices
    people_data = replace(
        model.train_, users=users, offsets=offsets, indices=indices, weights=None, timestamps=None,
        user_attributes=None, backend=backend,
    )  # fmt: skip
    new = model._fold_in_with(people_data, rows_for(content, users, "user"))
    if new is None:
        raise ParameterError(
            f"{type(model).__name__} knows nothing of features. Models that do are dpcml+dn, cml+dn and mgmf+dn."
        )
    return _for_newcomers(new, people_data, model), given


def _require_something(histories: Any) -> None:
    if histories is None:
        raise DataError(
            "nothing is given of the newcomers: expected histories (such as [[item, item], ...]), or features= of "
            "people whom a model that learns from content shall place."
        )


def _require_new(train: Interactions, given: pl.Series) -> None:
    known = given.filter(pl.Series(train.users.find(given) >= 0))
    if len(known):
        raise DataError(
            f"{len(known):,} of {len(given):,} people with features are known to the model already, such as "
            f"{', '.join(map(repr, known.head(_EXAMPLES).to_list()))}. Ask recommend for them, or give newcomers ids "
            "of their own."
        )


def _for_newcomers(new: Model, people: Interactions, model: Model) -> Model:
    new.train_, new.valid_, new._popularity_source = people, None, model.popularity_source
    return new


def _read(train: Interactions, histories: Any, on_unknown: str) -> tuple[Interactions, pl.Series, pl.Series]:
    """The histories over the model's items, the people of whom nothing is known, and all people as they were given."""
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
    if not len(frame):
        raise DataError("histories is empty: expected at least one person.")
    named = id_series(frame["user"], "user")
    people = named.unique().sort()
    wanted = frame["item"].drop_nulls()
    rows = (train.items.index_of if on_unknown == "error" else train.items.find)(wanted)
    owners = people.search_sorted(named.filter(frame["item"].is_not_null())).to_numpy()
    met = np.zeros(len(people), dtype=bool)
    met[owners[rows >= 0]] = True
    number = (np.cumsum(met) - 1)[owners[rows >= 0]].astype(np.int32)
    offsets, indices = _native.build_csr(
        np.ascontiguousarray(number), rows[rows >= 0].astype(np.int32), int(met.sum()), 1
    )
    known = replace(
        train,
        users=IdMap(people.filter(pl.Series(met)), "user"),
        offsets=offsets,
        indices=indices,
        weights=None,
        timestamps=None,
        user_attributes=None,
        backend=backend,
    )
    return known, people.filter(pl.Series(~met)), named.unique(maintain_order=True)


def _from_lists(histories: Any) -> pl.DataFrame:
    named = histories if isinstance(histories, Mapping) else dict(enumerate(histories))
    if named and not isinstance(histories, Mapping) and not any(_is_list(items) for items in named.values()):
        raise DataError(
            f"histories is a list of {type(histories[0]).__name__}, expected a list of lists of item ids: [[...]] for "
            "one person."
        )
    people: list[Any] = []
    taken: list[Any] = []
    for person, items in named.items():
        mine = items.tolist() if isinstance(items, np.ndarray) else list(as_list(items))
        people += [person] * max(1, len(mine))
        taken += mine or [None]
    return pl.DataFrame([plain_series("user", people), plain_series("item", taken)])


def _is_list(items: Any) -> bool:
    return hasattr(items, "__iter__") and not isinstance(items, (str, bytes))
