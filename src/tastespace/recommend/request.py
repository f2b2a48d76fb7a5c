"""The users and the candidate items of a request for lists, checked."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_on_unknown
from tastespace.data.ids import IdMap, plain_series, rows_at
from tastespace.data.interactions import Interactions
from tastespace.errors import (
    Argument,
    Call,
    DataError,
    ParameterError,
    UnknownIdError,
    Verbatim,
)
from tastespace.models.base import Recommender
from tastespace.models.list_options import Filter
from tastespace.recommend.rules.filters import allowed_items
from tastespace.recommend.rules.tables import RuleTables

log = logging.getLogger(__name__)


def as_list(ids: Any) -> Any:
    """Return one id or several as something with a length."""
    if isinstance(ids, np.ndarray) and ids.ndim == 0:
        return [ids.item()]
    if hasattr(ids, "columns"):
        raise ParameterError(f"expected ids, given a {type(ids).__name__}. Give one of its columns.")
    if isinstance(ids, (str, bytes, int, np.integer)) or not hasattr(ids, "__iter__"):
        return [ids]
    if isinstance(ids, (list, tuple, np.ndarray, pl.Series)):
        return ids
    return list(ids)


@dataclass(frozen=True)
class RequestedUsers:
    """The users of a request in its order: their ids, and their rows, -1 for those whom the model cannot serve."""

    users: IdMap | pl.Series
    """The ids of all users of the model where all that are requested are known; else those of the request."""
    rows: NDArray[np.int32]

    @property
    def ids(self) -> pl.Series:
        """Return the id of each."""
        return self.users if isinstance(self.users, pl.Series) else self.users.take(self.rows)

    @property
    def id_type(self) -> pl.DataType:
        """Type of the ids."""
        return self.users.dtype if isinstance(self.users, pl.Series) else self.users.series.dtype

    def column(self, at: NDArray[np.integer[Any]]) -> NDArray[Any] | pl.Series:
        """Return the ids at these positions of the request, for `frame_of`."""
        return rows_at(self.users, at) if isinstance(self.users, pl.Series) else self.users.column(self.rows[at])


def requested_users(model: Recommender, users: Any, on_unknown: str) -> RequestedUsers:
    """Return the users requested; None means all.

    Users without a training history are treated as unknown ones, unless the model can serve them. Where all users are
    requested they are left out, with a note.
    """
    train = model.train_
    require_on_unknown(on_unknown)
    if users is None:
        rows = np.arange(train.n_users, dtype=np.int32)
        without = np.flatnonzero(~model.can_serve(rows))
        rows[without] = -1
        if len(without) and on_unknown == "error":
            log.warning(
                "%s of %s users have no training history and get no list, the first is %r. %s gives them the most "
                "popular items.",
                f"{len(without):,}",
                f"{train.n_users:,}",
                train.users[int(without[0])],
                Argument("on_unknown", "popular"),
            )
        return RequestedUsers(train.users.series if len(without) else train.users, rows)
    if train.users.is_plain(users):  # one user, as in most requests
        rows = np.array([train.users.find_one(users)], dtype=np.int32)
        if rows[0] >= 0 and model.can_serve(rows)[0]:
            return RequestedUsers(train.users, rows)
    wanted = as_list(users)
    if not len(wanted):
        raise DataError("the list of users is empty; leave users out for all users.")
    if on_unknown == "skip" and not isinstance(wanted, (pl.Series, np.ndarray)):
        wanted = [user for user in wanted if user in train.users]  # ids of other types are unknown ids
        if not wanted:
            return RequestedUsers(train.users.series[:0], np.empty(0, dtype=np.int32))
    find = train.users.index_of if on_unknown == "error" else train.users.find
    rows = find(wanted).astype(np.int32)
    known = np.flatnonzero(rows >= 0)
    without = known[~model.can_serve(rows[known])]
    if len(without) and on_unknown == "error":
        raise _without_history(train, rows[without], len(rows), Argument("on_unknown", "skip"), " leaves them out.")
    if len(known) == len(rows):
        if not len(without):
            return RequestedUsers(train.users, rows)
        ids = train.users.take(rows)
    else:
        ids = wanted if isinstance(wanted, pl.Series) else plain_series("user", list(wanted))
        if ids.dtype.is_integer() and train.users.series.dtype.is_integer():
            own = ids.cast(train.users.series.dtype, strict=False)  # as in lists without unknown users
            ids = own if own.null_count() == ids.null_count() else ids
    rows[without] = -1
    return RequestedUsers(ids, rows)


def require_history(model: Recommender, row: int, what: str) -> None:
    """Raise unless the model can serve the user at this row; ``what`` needs that, such as shelves."""
    if not model.can_serve(np.array([row]))[0]:
        raise _without_history(model.train_, np.array([row]), 1, f"They have no {what}.")


def _without_history(
    train: Interactions, rows: NDArray[Any], n_requested: int, *advice: str | Argument
) -> UnknownIdError:
    """Return the error of requests for cold-start users."""
    return UnknownIdError(
        f"{len(rows)} of {n_requested} users have no interactions in the training data, the first is "
        f"{train.users[int(rows[0])]!r}: cold-start users, about whom the model knows nothing. ",
        *advice,
        " ",
        Call("recommend(on_unknown='popular')"),
        " gives them the most popular items, ",
        Call("recommend_for"),
        " lists from a history.",
    )


def row_of(ids: Any, wanted: Any) -> int:
    """Return the row of one id; several at once or an unknown one are errors."""
    if isinstance(wanted, (list, tuple, np.ndarray, pl.Series)):
        raise ParameterError(f"expected one id, given {type(wanted).__name__} of {len(wanted)}.")
    return int(ids.index_of([wanted])[0])


def attribute_frame(train: Interactions) -> pl.DataFrame:
    """Return the attributes of the items in their order; the ids alone where there are none."""
    if train.item_attributes is not None:
        return train.item_attributes
    return pl.DataFrame([train.items.series.alias("item")])


def candidate_rows(
    train: Interactions, items: Any, filter: Filter | None, tables: RuleTables | None = None
) -> NDArray[np.int32] | None:
    """Return the ascending rows of the items allowed in the lists, by the request and by rules; None: all of them."""
    rows = _requested_rows(train, items, filter)
    if tables is None or tables.allowed is None:
        return rows
    allowed = np.flatnonzero(tables.allowed).astype(np.int32) if rows is None else rows[tables.allowed[rows]]
    if not len(allowed) and rows is not None:
        raise DataError(
            Argument("items"),
            " and ",
            Argument("filter"),
            f" leave {len(rows):,} of the {train.n_items:,} items, and the rules none of these. Widen them.",
        )
    return allowed


def _requested_rows(train: Interactions, items: Any, filter: Filter | None) -> NDArray[np.int32] | None:
    if items is None and filter is None:
        return None
    allowed = np.ones(train.n_items, dtype=bool)
    if items is not None:
        wanted = as_list(items)
        if not len(wanted):
            raise DataError(Argument("items"), " is an empty list; leave it out to recommend from the whole catalog.")
        allowed[:] = False
        allowed[train.items.index_of(wanted)] = True
    if filter is not None:
        allowed &= allowed_items(filter, attribute_frame(train), train.backend)
    rows = np.flatnonzero(allowed).astype(np.int32)
    if not len(rows):
        also: list[str | Argument] = [] if items is None else [" and ", Argument("items")]
        raise DataError(_shown(filter), *also, f" leaves none of the {train.n_items:,} items. Widen it.")
    return rows


def _shown(filter: Any) -> Argument:
    is_code = not isinstance(filter, (str, int, float, dict, list, type(None)))
    name = getattr(filter, "__name__", type(filter).__name__)
    return Argument("filter", Verbatim(f"<{name}>") if is_code else filter)
