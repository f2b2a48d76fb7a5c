"""The page of some users as one file that works without a server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tastespace.atomic import atomic_write
from tastespace.checks import is_whole
from tastespace.errors import ParameterError, require_path
from tastespace.explore.page_answers import Json, PageAnswers
from tastespace.explore.whole_page import whole_page
from tastespace.models.base import Recommender
from tastespace.recommend.scoring import ScoringIndex

_POOL = 100  # best items of each interest, from which the page makes its lists: exact for lists up to this length
_EXPLAINED = 12  # of these, items of each interest with a whole explanation; the others name past items
_LIST = 20  # items of the list of a second model


def save_page(
    model: Recommender,
    path: str | Path,
    users: Iterable[Any] | None = None,
    *,
    n_users: int = 5,
    compare: Recommender | None = None,
    name: str | None = None,
    compare_name: str | None = None,
) -> Path:
    """`Recommender.save_page`; ``name`` is shown as the model's name, ``compare_name`` as that of the second."""
    target = require_path(path)
    if target.suffix not in (".html", ".htm"):
        raise ParameterError(f"{path}: expected the name of an .html file.")
    if not is_whole(n_users, 1):
        raise ParameterError(f"n_users={n_users!r}: expected a whole number of 1 or more.")
    answers = PageAnswers(model, name)
    other = None if compare is None else PageAnswers(compare, compare_name)
    if users is None:
        wanted = [one["user"] for one in answers.users(limit=n_users)["users"]]
    else:
        wanted = list(users)
        if not wanted:
            raise ParameterError("the list of users is empty: name some, or none for a sample.")
    data = snapshot(answers, wanted, other)
    with atomic_write(target) as temporary:
        temporary.write_text(whole_page(data, f"{answers.name} - tastespace"), encoding="utf-8")
    return target


def snapshot(answers: PageAnswers, users: Iterable[Any], other: PageAnswers | None = None) -> Json:
    """What the page needs to answer for these users by itself: the model, the map, and each user's best items."""
    about = answers.about()
    has_interests = about["can"]["shelves"]
    about["can"] = {**about["can"], "fold_in": False, "mix": ["nearest", *(["proportional"] if has_interests else [])]}
    about["compare"] = None if other is None else other.about()
    people = [_person(answers, user, has_interests, about["can"]["explain"], other) for user in users]
    return {"model": about, "map": answers.map(), "people": people}


def _person(answers: PageAnswers, user: Any, has_interests: bool, explains: bool, other: PageAnswers | None) -> Json:
    found = answers.person(user)
    pool = _pool(answers, user) if has_interests else answers.recommendations(user, k=_POOL)["items"]
    explained: Json = {}
    by_interest: dict[Any, int] = {}
    for one in pool if explains else ():
        rank = by_interest[one["interest"]] = by_interest.get(one["interest"], 0) + 1
        if rank <= _EXPLAINED:
            explained[str(one["item"])] = answers.explanation(user, one["item"])
    listed = None if other is None else other.recommendations(user, k=_LIST)["items"]
    return {
        **found,
        "interests": answers.interests(user),
        "shelves": _names_of_shelves(answers, user, has_interests),
        "pool": pool,
        "explanations": explained,
        "other": listed,
        "second": None if other is None or listed is None else _second(other, user, listed),
    }


def _names_of_shelves(answers: PageAnswers, user: Any, has_interests: bool) -> list[Json]:
    """Shelves without their items."""
    found = answers.shelves(user, k=1, because=False)["shelves"] if has_interests else []
    return [{**shelf, "items": []} for shelf in found]


def _second(other: PageAnswers, user: Any, listed: list[Json]) -> Json:
    """What the page says about the list of the second model: its interests, and why each item."""
    can = other.about()["can"]
    explained = {str(one["item"]): other.explanation(user, one["item"]) for one in listed if can["explain"]}
    return {
        "interests": other.interests(user),
        "shelves": _names_of_shelves(other, user, can["shelves"]),
        "explanations": explained,
    }


def _pool(answers: PageAnswers, user: Any) -> list[Json]:
    """The best items of each interest, the best score first."""
    model, row = answers.row_of(user)
    index = ScoringIndex(model, threads=1)
    each = [[x] for x in range(len(index.vectors_of(row)))]
    lists = index.split_top_k(row, each, [_POOL] * len(each))
    found = []
    for x, (rows, scores) in enumerate(lists):
        found += answers.items(model, row, rows, scores.tolist(), [x] * len(rows))
    order = np.argsort([-one["score"] for one in found], kind="stable")
    return [{**found[at], "rank": rank} for rank, at in enumerate(order, 1)]
