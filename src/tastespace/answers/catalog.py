"""Items and users of a model as answers name them, and the answers that concern no single person."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.computed_once import computed_once
from tastespace._util.lru import LruCache
from tastespace.answers.display import Display, Pictures, pictures
from tastespace.answers.ids import ids_in_type, json_ids, shown_id, type_name
from tastespace.answers.map import catalog_map
from tastespace.answers.types import (
    AudienceUser,
    FoundItem,
    FoundUser,
    Item,
    Map,
    NamedItem,
    PastItem,
    UnknownAnswerError,
)
from tastespace.data.attributes import category_column, item_categories, item_titles, title_column
from tastespace.data.ids import rows_at
from tastespace.data.reading.options import DISLIKE, EVENTS
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.mix import mixes_of, past_matches

Rows = NDArray[np.integer[Any]]

_FREQUENT = 0.03  # share of the items from which on a category stands for an item before larger ones do
_NAMES = ("name", "title", "full_name", "username")  # user attributes that hold a name
_MOST_WORDS = 10  # of a search
_MOST_LISTED = 300_000  # items whose ids and titles are kept as Python lists
_MOST_KEPT = 256
_DECIMALS = 5  # of places on the map
_SAMPLED = 20_000  # interactions that say how near past items usually are
_EXAMPLES = 400  # users among whom examples with several interests are found
_FEWEST, _MOST = 8, 400  # past items of such a user


class Catalog:
    """The items and users of one fitted model.

    >>> from tastespace import EASE, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> catalog = Catalog(EASE().fit(town))
    >>> catalog.search_items("", limit=1)[0].popularity == int(town.item_counts.max())
    True
    """

    def __init__(self, model: Recommender, display: Display | None = None) -> None:
        model.require_fitted()
        self.model, self.train = model, model.train_
        self.display = Display() if display is None else display
        self.index = ScoringIndex(model, threads=1)
        self.generation = 1
        """Number of the model among those that a server has served; lists say which one made them."""
        self.kept: LruCache[Hashable, Any] = LruCache(_MOST_KEPT)
        """Values that answers need again: lists of the same options, masks of filters, and others."""

    @cached_property
    def pictures(self) -> Pictures | None:
        """Pictures of the items, where they are shown."""
        return pictures(self.train.item_attributes, self.display.images)

    # ---- items ---------------------------------------------------------------------------------------------

    def item_row(self, item: Any) -> int:
        """Return the row of an item; an error where the model does not have it."""
        row = int(self.train.items.find([item])[0])
        if row < 0:
            raise UnknownAnswerError("unknown_item", f"there is no item {shown_id(item)}.")
        return row

    def history_rows(self, items: Sequence[Any], skip_unknown: bool = False) -> NDArray[np.int32]:
        """Return past items, given as JSON has their ids, as ascending rows without repeats.

        Unknown items are left out; with none but unknown items that is an error, unless ``skip_unknown``.
        """
        typed = ids_in_type(self.train.items, items, "item")
        rows = self.train.items.find(typed) if typed else np.empty(0, dtype=np.int64)
        if len(rows) and (rows < 0).all() and not skip_unknown:
            several = f" and none of the {len(rows) - 1:,} others is known" if len(rows) > 1 else ""
            raise UnknownAnswerError(
                "unknown_item", f"there is no item {shown_id(typed[0])}{several}.",
                "on_unknown=popular returns popular items.",
            )  # fmt: skip
        return np.unique(rows[rows >= 0]).astype(np.int32)

    def unknown_items(self, items: Sequence[Any]) -> list[Any]:
        """Return those of past items, given as JSON has their ids, that the catalog does not have."""
        typed = ids_in_type(self.train.items, items, "item")
        rows = self.train.items.find(typed) if typed else np.empty(0, dtype=np.int64)
        return [items[at] for at in np.flatnonzero(rows < 0).tolist()]

    @cached_property
    def titles(self) -> pl.Series | None:
        """Title of each item as text, where items have titles."""
        attributes = self.train.item_attributes
        return None if title_column(attributes) is None else item_titles(attributes, True)

    def ids_at(self, rows: Rows) -> list[Any]:
        """Ids of the items at these rows, as JSON has them."""
        if self._listed is not None:
            ids = self._listed[0]
            return [ids[row] for row in rows.tolist()]
        return json_ids(self.train.items, rows)

    def titles_at(self, rows: Rows) -> list[str | None]:
        """Titles of the items at these rows, None where there are none."""
        if self._listed is not None:
            titles = self._listed[1]
            return [titles[row] for row in rows.tolist()]
        return [None] * len(rows) if self.titles is None else rows_at(self.titles, rows).to_list()

    @cached_property
    def _listed(self) -> tuple[list[Any], list[str | None]] | None:
        """Ids and titles of all items as lists, where there are not too many: the fastest to look one up."""
        n = self.train.n_items
        if n > _MOST_LISTED:
            return None
        titles = [None] * n if self.titles is None else self.titles.to_list()
        return json_ids(self.train.items, np.arange(n)), titles

    @cached_property
    def _categories(self) -> tuple[list[str], NDArray[np.int64]]:
        frame, column = self.train.item_attributes, category_column(self.train.item_attributes)
        if frame is None or column is None:
            return [], np.full(self.train.n_items, -1)
        hidden = self.display.hide_categories
        return computed_once(frame, ("one category", column, hidden), lambda: one_category(frame[column], hidden))

    @property
    def category_names(self) -> list[str]:
        """Categories that stand for at least one item, the most frequent first."""
        return self._categories[0]

    @property
    def category_codes(self) -> NDArray[np.int64]:
        """Place of each item's category in `category_names`, -1 without one, see `one_category`."""
        return self._categories[1]

    @property
    def unknown_categories(self) -> list[str]:
        """Categories to hide that no item has, such as misspelled ones."""
        frame, column = self.train.item_attributes, category_column(self.train.item_attributes)
        names = [] if frame is None or column is None else item_categories(frame[column]).names
        return [one for one in self.display.hide_categories if one not in names]

    def categories_at(self, rows: Rows) -> list[str | None]:
        """One category for each of the items at these rows, see `one_category`."""
        names = self.category_names
        return [None if code < 0 else names[code] for code in self.category_codes[rows].tolist()]

    def named(self, rows: Rows) -> list[NamedItem]:
        """Ids and titles of the items at these rows."""
        return [NamedItem(item, title) for item, title in zip(self.ids_at(rows), self.titles_at(rows), strict=True)]

    def listed(
        self,
        rows: Rows,
        scores: Sequence[float | None],
        interests: Sequence[int | None] | None = None,
        distances: Sequence[float] | None = None,
        because: Sequence[list[PastItem]] | None = None,
        ranks: Sequence[int] | None = None,
    ) -> list[Item]:
        """Return the items at these rows, in this order, as a list has them; without ranks they are numbered."""
        described = zip(self.ids_at(rows), self.titles_at(rows), self.categories_at(rows), strict=True)
        return [
            Item(
                item,
                title,
                category,
                at + 1 if ranks is None else ranks[at],
                scores[at],
                None if interests is None else interests[at],
                None if distances is None else distances[at],
                None if because is None else because[at],
            )
            for at, (item, title, category) in enumerate(described)
        ]

    def search_items(self, text: str, limit: int = 20) -> list[FoundItem]:
        """Items whose title or id holds all words of a text, the most popular first; all items without words.

        The item whose id is the text itself comes before all others.
        """
        counts = self.model.popularity_source.item_counts
        rows = _with_words(text, self._item_texts)
        rows = _exact_first(text, rows[np.argsort(-counts[rows], kind="stable")], self.train.items.series)[:limit]
        described = zip(self.ids_at(rows), self.titles_at(rows), self.categories_at(rows), rows.tolist(), strict=True)
        return [FoundItem(item, title, category, int(counts[row])) for item, title, category, row in described]

    @cached_property
    def _item_texts(self) -> pl.Series:
        return _searched(self.train.items.series, self.titles)

    def similar(self, item: int, k: int) -> list[Item]:
        """Items like the item at this row."""
        found = self.index.similar_items(np.array([item]), k)
        space = self.model.item_space()
        distances = (-found.scores).tolist() if space is not None and space.metric == "l2" else None
        return self.listed(found.rows, found.scores.tolist(), None, distances)

    def audience(self, item: int, k: int) -> tuple[int, list[AudienceUser]]:
        """Users without the item at this row whose nearest interest is closest to it, and the size of the audience.

        The size counts users to whom it is as close as half of all past items are to those who took them.
        """
        _ = self.index.interest_vectors  # an error for models without vectors
        train, n = self.train, self.train.n_users
        users = np.arange(n, dtype=np.int32)
        scores, interests = self.index.interest_vectors.pair_scores(users, np.full(n, item, dtype=np.int32))
        able = self.model.can_serve(users)
        took = np.flatnonzero(train.indices == item)
        able[np.searchsorted(train.offsets, took, side="right") - 1] = False
        candidates = np.flatnonzero(able)
        usual = self.kept.get_or_make("usual score", self._usual_score)
        best = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
        return int((scores[candidates] >= usual).sum()), [
            AudienceUser(user, int(interests[at]), -float(scores[at]))
            for user, at in zip(json_ids(train.users, best), best, strict=True)
        ]

    def _usual_score(self) -> float:
        """Median score of past items by the nearest interest of those who took them."""
        train = self.train
        at = np.linspace(0, train.n_interactions - 1, min(_SAMPLED, train.n_interactions)).astype(np.int64)
        users = (np.searchsorted(train.offsets, at, side="right") - 1).astype(np.int32)
        scores, _ = self.index.interest_vectors.pair_scores(users, train.indices[at])
        return float(np.median(scores))

    def map(self) -> Map:
        """All items in the plane."""
        rows = np.arange(self.train.n_items)
        places = np.round(catalog_map(self.model).places.astype(np.float64), _DECIMALS)
        return Map(
            self.ids_at(rows),
            self.titles_at(rows),
            places[:, 0].tolist(),
            places[:, 1].tolist(),
            self.category_codes.tolist(),
            self.category_names,
            self.model.popularity_source.item_counts.tolist(),
            [] if self.pictures is None else self.pictures.addresses.to_list(),
        )

    # ---- users ---------------------------------------------------------------------------------------------

    @cached_property
    def user_names(self) -> pl.Series | None:
        """Name of each user, where user attributes have one."""
        attributes = self.train.user_attributes
        column = None if attributes is None else next((one for one in _NAMES if one in attributes.columns), None)
        return None if attributes is None or column is None else attributes[column].cast(pl.String)

    def search_users(self, text: str, limit: int = 20) -> list[FoundUser]:
        """Users whose id or name holds all words of a text; without words some who have several interests.

        The user whose id is the text itself comes first, the others in the order of the model.
        """
        if text.strip():
            rows = _with_words(text, self._user_texts)
            rows = rows[self.model.can_serve(rows)] if len(rows) else rows
            rows = _exact_first(text, rows, self.train.users.series)[:limit]
        else:
            rows = self.kept.get_or_make("examples", lambda: example_users(self.model))[:limit]
        return self.found_users(rows)

    @cached_property
    def _user_texts(self) -> pl.Series:
        return _searched(self.train.users.series, self.user_names)

    def found_users(self, rows: Rows) -> list[FoundUser]:
        """Id, name and number of past items of the users at these rows."""
        names = [None] * len(rows) if self.user_names is None else rows_at(self.user_names, rows).to_list()
        counts = self.train.user_counts[rows].tolist()
        return [FoundUser(*one) for one in zip(json_ids(self.train.users, rows), names, counts, strict=True)]


def _searched(ids: pl.Series, titles: pl.Series | None) -> pl.Series:
    """Text in which words are searched for: title, where there is one, and id in small letters."""
    texts = ids.cast(pl.String)
    return (texts if titles is None else titles.fill_null("") + " " + texts).str.to_lowercase()


def _with_words(text: str, searched: pl.Series) -> NDArray[np.int64]:
    """Rows whose searched text holds all words of a text."""
    mask = np.ones(len(searched), dtype=bool)
    for word in text.lower().split()[:_MOST_WORDS]:
        mask &= searched.str.contains(word, literal=True).to_numpy()
    return np.flatnonzero(mask)


def _exact_first(text: str, rows: NDArray[np.int64], ids: pl.Series) -> NDArray[np.int64]:
    """The same rows, the one first whose id is the text itself."""
    if not text.strip():
        return rows
    exact = (rows_at(ids, rows).cast(pl.String) == text.strip()).to_numpy()
    return np.concatenate([rows[exact], rows[~exact]])


def one_category(column: pl.Series, hidden: Collection[str] = ()) -> tuple[list[str], NDArray[np.int64]]:
    """One category for each item that has some: the rarest of its frequent ones, which says most; and their names.

    Frequent are categories of at least 3 % of the items; an item without such has the most frequent it has. Hidden ones
    are as if no item had them.

    >>> one_category(pl.Series([["a", "b"], ["a"], ["a"], None]))
    (['a', 'b'], array([ 1,  0,  0, -1]))
    """
    found = item_categories(column)
    membership = found.membership
    sizes = np.asarray(membership.sum(axis=0)).ravel()
    frequent = sizes >= _FREQUENT * len(column)
    # Smallest key first: frequent ones by size, then the others by falling size.
    key = np.where(frequent, sizes, 4.0 * len(column) - sizes)
    chosen = np.full(len(column), -1, dtype=np.int64)
    owner, codes = np.repeat(np.arange(len(column)), np.diff(membership.indptr)), membership.indices
    shown = ~np.isin(codes, [code for code, name in enumerate(found.names) if name in hidden])
    owner, codes = owner[shown], codes[shown]
    order = np.lexsort((key[codes], owner))
    first = order[np.unique(owner[order], return_index=True)[1]]
    chosen[owner[first]] = codes[first]
    counts = np.bincount(chosen[chosen >= 0], minlength=len(found.names))
    by_size = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    place = np.full(len(found.names) + 1, -1, dtype=np.int64)
    place[by_size] = np.arange(len(by_size))
    return [found.names[code] for code in by_size], place[chosen]


# ---------------------------------------------------------------------------------------------------------------------
# The model itself: facts about it, and users to begin with.


def model_facts(catalog: Catalog) -> dict[str, Any]:
    """Class, parameters, sizes, types of ids, columns, and abilities of a model, as JSON has them."""
    model, train, index = catalog.model, catalog.train, catalog.index
    space = index.interest_space
    return {
        "class": type(model).__name__,
        "parameters": {name: plain_value(value) for name, value in model.get_params(deep=False).items()},
        "diversity": model.served_diversity,
        "n_users": train.n_users,
        "n_items": train.n_items,
        "n_interactions": train.n_interactions,
        "has_interests": model.has_interests,
        "n_interests": None if space is None else int(np.diff(space.user_offsets).max(initial=0)),
        "id_types": {"user": type_name(train.users), "item": type_name(train.items)},
        "item_columns": [] if train.item_attributes is None else train.item_attributes.columns[1:],
        "category_column": category_column(train.item_attributes),
        "image_column": None if catalog.pictures is None else catalog.pictures.column,
        "dislike": next((kind for kind, weight in (train.events or EVENTS).items() if weight == DISLIKE), None),
        "can": {
            "fold_in": model.supports_fold_in,
            "features": model.supports_cold_start,
            "explain": space is not None or _has_evidence(model),
            "shelves": space is not None,
            "mix": list(mixes_of(index)),
        },
    }


def example_users(model: Recommender) -> NDArray[np.int64]:
    """Rows of users to begin with: those whose past is spread most evenly over several interests come first."""
    counts = model.train_.user_counts
    rows = np.flatnonzero((counts >= _FEWEST) & (counts <= _MOST))[:_EXAMPLES]
    if not len(rows):
        rows = np.flatnonzero(counts > 0)[:_EXAMPLES]
    index = ScoringIndex(model, threads=1)
    if index.interest_space is None or not len(rows):
        return rows
    past = past_matches(index, rows.astype(np.int32))
    shares = past.counts / np.maximum(1, np.add.reduceat(past.counts, past.first[:-1]))[past.owner]
    entropy = np.add.reduceat(-shares * np.log(np.maximum(shares, 1e-12)), past.first[:-1])
    return rows[np.argsort(-entropy, kind="stable")]


def plain_value(value: Any) -> Any:
    """A parameter as JSON has it; others as their text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating, np.integer)):
        number = value.item() if isinstance(value, np.generic) else value
        return number if np.isfinite(number) else str(number)
    if isinstance(value, (list, tuple)):
        return [plain_value(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain_value(one) for name, one in value.items()}
    return str(value)


def _has_evidence(model: Recommender) -> bool:
    rows = np.flatnonzero(model.can_serve(np.arange(model.train_.n_users)))[:1]
    return len(rows) > 0 and model.evidence(int(rows[0]), np.array([0])) is not None
