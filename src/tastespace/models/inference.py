"""What every fitted model can be asked: the methods that users call after `fit`.

The answers themselves are made in `tastespace.recommend` and `tastespace.store`, rooms above this one; each method
reaches up when it is called, so that a model has the methods people look for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.errors import ParameterError

if TYPE_CHECKING:
    from tastespace.data.interactions import Interactions
    from tastespace.recommend.explanations import Explanation
    from tastespace.recommend.shelves import Shelves

Filter = str | pl.Expr | Callable[[Any], Any]
Self = TypeVar("Self", bound="InferenceMixin")


class InferenceMixin:
    """Recommendations, shelves, explanations, neighbors, newcomers, files."""

    has_interests: bool = False
    """Whether users have several vectors, so that a recommendation serves one of several interests."""

    # ---- lists ---------------------------------------------------------------------------------------------

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Any = None,
        filter: Filter | None = None,
        on_unknown: str = "error",
        threads: int = 0,
    ) -> Any:
        """The best k items for each user, as a frame in the library that the data came from.

        Columns: ``user``, ``item``, ``rank`` (from 1), ``score`` (larger is better); for metric models ``distance``,
        squared, which is minus the score; for models with several vectors per user ``interest``, the number of the
        vector that the item is nearest to. Fewer candidates than k give fewer rows.

        Args:
            users: User ids, one id, or None for everybody.
            k: Items per user.
            exclude_seen: Leave out what the user had in training.
            items: Recommend only among these item ids.
            filter: Recommend only items whose attributes satisfy this: a condition such as ``"year >= 1990"`` (SQL),
                a polars expression, or a function from the frame of attributes to one true or false per item.
            on_unknown: What to do with unknown users: ``"error"``, ``"skip"``, or ``"popular"``: what most people
                take, with null scores.
            threads: 0 means all cores.

        >>> from tastespace import CML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> CML(dim=8, epochs=2).fit(town).recommend(k=3).columns
        ['user', 'item', 'rank', 'score', 'distance']
        """
        from tastespace.recommend.request import Request
        from tastespace.recommend.topk import recommend

        return recommend(_whole(self), users, Request(k, exclude_seen, items, filter, threads), on_unknown)

    def recommend_indices(
        self, rows: Any = None, k: int = 10, *, exclude_seen: bool = True, threads: int = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """As `recommend`, in indices and arrays for those who want raw speed.

        Gives item indices and scores, both of shape ``(n, k)``; -1 and NaN where there are fewer candidates. An index
        is the place of an id in ``train_.users`` or ``train_.items``.
        """
        from tastespace.recommend.request import Request
        from tastespace.recommend.topk import recommend_indices

        return recommend_indices(_whole(self), rows, Request(k, exclude_seen, threads=threads))

    def recommend_to(
        self,
        path: str | Path,
        users: Any = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Any = None,
        filter: Filter | None = None,
        threads: int = 0,
    ) -> int:
        """Write the lists of many users to a .parquet, .csv or .jsonl file, block by block; gives the number of rows.

        Memory does not grow with the number of users. Arguments as in `recommend`. The file appears when it is whole.
        """
        from tastespace.recommend.request import Request
        from tastespace.recommend.topk import recommend_to

        return recommend_to(_whole(self), path, users, Request(k, exclude_seen, items, filter, threads))

    # ---- interests -----------------------------------------------------------------------------------------

    def shelves(
        self,
        user: Any,
        k: int | Mapping[int, int] = 10,
        *,
        mute: Iterable[int] = (),
        boost: Mapping[int, float] | None = None,
        merge: float = 0.8,
        exclude_seen: bool = True,
        items: Any = None,
        filter: Filter | None = None,
        column: str | None = None,
    ) -> Shelves:
        """One list of recommendations for each of a person's interests, the strongest first, like a shop window.

        An item stands on the shelf of the interest that it is nearest to. Interests whose best items are mostly the
        same share a shelf, and one that no past item belongs to joins the nearest.

        Args:
            user: Id of one user.
            k: Items on each shelf, or a number for each interest: ``{0: 12, 2: 4}`` (10 where none is given).
            mute: Interests to leave out, as if the person did not have them.
            boost: Interests to show more of: ``{2: 1.5}`` makes a shelf half as long again and moves it up as if half
                as many past items again belonged to it.
            merge: Interests share a shelf from this overlap of their best items on, in (0, 1]; above 1 never.
            exclude_seen, items, filter: As in `recommend`.
            column: Attribute of the items from which shelves are named; by default one that holds categories.
        """
        from tastespace.recommend.shelves import shelves

        return shelves(
            _whole(self), user, k, mute=mute, boost=boost, merge=merge, exclude_seen=exclude_seen, items=items,
            filter=filter, column=column,
        )  # fmt: skip

    def interests(self, user: Any, k: int = 5, *, column: str | None = None) -> Any:
        """A frame with a row for each vector of a user, the strongest first.

        Columns: ``interest`` (its number), ``weight`` (share of the past items that are nearest to it), ``label``
        (from item attributes, where there are any), ``past`` (up to k past items, nearest first) and ``nearest`` (the k
        items nearest to it that the user does not have).
        """
        from tastespace.recommend.shelves import interests

        return interests(_whole(self), user, k, column=column)

    def explain(self, user: Any, item: Any, k: int = 5, *, column: str | None = None) -> Explanation:
        """Why an item stands where it stands: the interest it serves, how near, the past items beside it.

        Also its rank among what the user does not have, and its rank if the user did not have that interest.
        """
        from tastespace.recommend.explanations import explain

        return explain(_whole(self), user, item, k, column=column)

    # ---- neighbors ----------------------------------------------------------------------------------------

    def similar_items(self, items: Any, k: int = 10) -> Any:
        """The k items nearest to each given item: a frame of item, similar, rank, score (and distance)."""
        from tastespace.recommend.similar import similar_items

        return similar_items(_whole(self), items, k)

    def similar_users(self, users: Any, k: int = 10) -> Any:
        """The k users most like each given user: a frame of user, similar, rank, score (and distance).

        With several vectors each, the distance between two users is the squared distance from a vector to the other's
        nearest one: its mean over the vectors of either user, and the mean of the two.
        """
        from tastespace.recommend.similar import similar_users

        return similar_users(_whole(self), users, k)

    # ---- newcomers -----------------------------------------------------------------------------------------

    def fold_in(self: Self, histories: Any = None, on_unknown: str = "error", *, features: Any = None) -> Self:
        """A model like this one for people who were not in training: the items stay as they are, the people are new.

        ``histories`` is a list of lists of item ids (the people are then 0, 1, ...), a mapping from a name to such a
        list, or a frame with the columns user and item. The answer is a fitted model, so `recommend`, `shelves`,
        `explain` and the rest work for the newcomers. Items that the model does not know are an error, or left out with
        ``on_unknown="skip"``.

        Models that learn from content take ``features`` of the people: a frame with a column ``user`` and the columns
        of training, or a matrix with a row for each person (0, 1, ..., or in the order of ``histories``). Histories may
        then be short, of some only, or left out.
        """
        from tastespace.recommend.fold_in import fold_in

        return fold_in(_whole(self), histories, on_unknown, features)

    def recommend_for(
        self,
        histories: Any = None,
        k: int = 10,
        *,
        features: Any = None,
        exclude_seen: bool = True,
        items: Any = None,
        filter: Filter | None = None,
        on_unknown: str = "error",
        threads: int = 0,
    ) -> Any:
        """Recommendations for people who were not in training, from what they took or from their content.

        See `fold_in` for ``histories`` and ``features``.
        With ``on_unknown="popular"`` unknown items are left out and a person of whom nothing remains gets what most
        people take; with ``"skip"`` such a person gets no rows.
        """
        from tastespace.recommend.fold_in import recommend_for
        from tastespace.recommend.request import Request

        request = Request(k, exclude_seen, items, filter, threads)
        return recommend_for(_whole(self), histories, request, on_unknown, features)

    def _fold_in(self: Self, histories: Interactions) -> Self | None:
        """A fitted model of the same items for the users of ``histories``; None for models that cannot be asked so."""
        return None

    def _fold_in_with(self: Self, histories: Interactions, features: Any) -> Self | None:
        """The same from content, a row for each user of ``histories``; None for models that know no content."""
        return None

    # ---- validation during training ------------------------------------------------------------------------

    @staticmethod
    def _check_metric(metric: str, protocol: str) -> None:
        """Raise `ParameterError` unless the metric is the name of one figure and the protocol is known."""
        from tastespace.evaluation.metrics import columns_for
        from tastespace.evaluation.protocols import find_protocol

        find_protocol(protocol)
        if [column.label for column in columns_for([metric], (3, 10))] != [metric]:
            raise ParameterError(f"monitor={metric!r}: expected the name of one figure, such as 'NDCG@10' or 'MAP'.")

    def _measure(self, test: Interactions, seen: Interactions, metric: str, protocol: str, threads: int) -> float:
        """One figure of `tastespace.evaluate`."""
        from tastespace.evaluation import evaluate

        return evaluate(_whole(self), test, seen=seen, protocol=protocol, metrics=[metric], threads=threads)[metric]

    # ---- ways out ------------------------------------------------------------------------------------------

    def save(self, path: str | Path, metrics: Mapping[str, float] | None = None) -> None:
        """Write the model as a directory that `tastespace.load` opens; ``metrics`` are kept with it.

        A crash leaves the old model or the new one. The format is documented in docs/model-format.md.
        """
        from tastespace.store import save

        save(_whole(self), path, metrics)

    def export(self, path: str | Path, kind: str = "npz") -> list[Path]:
        """Write item and user vectors for a vector index: ``"npz"``, ``"parquet"`` or ``"faiss"``; gives the files.

        A search for each vector of a user, merged by distance, gives exactly what `recommend` gives.
        """
        from tastespace.recommend.export import export

        return export(_whole(self), path, kind)


def opened(model: Any) -> Any:
    """A model, or the one that is saved at a path."""
    from tastespace.store import load

    return load(model) if isinstance(model, (str, Path)) else model


def _whole(model: InferenceMixin) -> Any:
    """The recommender that these methods belong to; its type stands in a room that imports this one."""
    return model
