"""The page of some users as one file that works without a server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.atomic import atomic_write
from tastespace._util.checks import is_whole
from tastespace.answers._page import Json, PageAnswers, as_json
from tastespace.answers.catalog import example_users
from tastespace.answers.display import Display
from tastespace.answers.ids import id_in_type
from tastespace.errors import ParameterError, UnknownIdError, require_path
from tastespace.models.base import Recommender

# ---------------------------------------------------------------------------------------------------------------------
# The built page (`make page`), as files for a server and as one text for a file that holds everything.

PAGE = Path(__file__).parent / "page"
"""Folder with index.html, static files, and the script and style of the widget."""

_LINK = re.compile(r'<link rel="(?P<rel>\w+)" href="(?P<file>[^"]+)">')
_SCRIPT = re.compile(r'<script src="(?P<file>[^"]+)" defer></script>')


def whole_page(data: dict[str, Any], title: str, images: Sequence[str] = ()) -> str:
    """The page with its script, style and data inside; it may load pictures from ``images`` alone.

    >>> page = whole_page({"title": "</script><b>"}, "A & B")
    >>> "<title>A &amp; B</title>" in page, "</script><b>" in page
    (True, False)
    """
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    script_found = _SCRIPT.search(index)
    assert script_found is not None  # written by page/build.mjs
    script = (PAGE / script_found["file"]).read_text(encoding="utf-8").replace("</script", "<\\/script")
    style = icon = ""
    for found in _LINK.finditer(index):
        content = (PAGE / found["file"]).read_text(encoding="utf-8")
        if found["rel"] == "stylesheet":
            style = content
        else:
            icon = "data:image/svg+xml;base64," + base64.b64encode(content.encode()).decode()
    pictures = " ".join(("data:", *images))
    policy = f"default-src 'none'; img-src {pictures}; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    # In a script element only "<" can end it, or begin a comment.
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str).replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="{icon}">\n<style>{style}</style>'
    )
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    lines = [line for line in index.splitlines() if not _LINK.search(line) and not _SCRIPT.search(line)]
    page = "\n".join(lines).replace("<title>tastespace</title>", f"<title>{escaped}</title>\n{head}")
    tail = (
        f'<script type="application/json" id="tastespace-data">{embedded}</script>\n<script>{script}</script>\n</body>'
    )
    return page.replace("</body>", tail) + "\n"


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


_POOL = 100  # best items of each interest, from which the page makes its lists: exact for lists up to this length
_EXPLAINED = 12  # of these, items of each interest with a whole explanation; the others name past items
_LARGEST_RATIO = 8  # of the factors of two tastes, as the sliders of the page have them
_LIST = 20  # items of the list that the page shows


def save_page(
    model: Recommender,
    path: str | Path,
    users: Iterable[Any] | None = None,
    *,
    n_users: int = 5,
    compare: Recommender | None = None,
    name: str | None = None,
    compare_name: str | None = None,
    display: Display | None = None,
) -> Path:
    """`Recommender.save_page`; ``name`` is shown as the model's name, ``compare_name`` as that of the second."""
    target = require_path(path)
    if target.suffix not in (".html", ".htm"):
        raise ParameterError(f"{path}: expected the name of an .html file.")
    if not is_whole(n_users, 1):
        raise ParameterError(f"n_users={n_users!r}: expected a whole number of 1 or more.")
    answers = PageAnswers(model, name, display)
    other = None if compare is None else PageAnswers(compare, compare_name, display)
    ids = model.train_.users
    wanted = [ids[row] for row in example_users(model)[:n_users].tolist()] if users is None else list(users)
    if not wanted:
        raise ParameterError("the list of users is empty: name some, or none for a sample.")
    for user in wanted:
        if user not in ids:
            raise UnknownIdError(
                f"user {user!r} is not in the model: expected the id of one of its {len(ids):,} users."
            )
    data = snapshot(answers, wanted, other)
    shown = answers.catalog.pictures
    sources = () if shown is None else shown.sources
    with atomic_write(target) as temporary:
        temporary.write_text(whole_page(data, f"{answers.name} - tastespace", sources), encoding="utf-8")
    return target


def snapshot(answers: PageAnswers, users: Iterable[Any], other: PageAnswers | None = None) -> Json:
    """Data from which the page answers for these users by itself: the model, the map, and each user's best items."""
    about = answers.about()
    has_interests = about["can"]["shelves"]
    about["can"] = {**about["can"], "fold_in": False, "mix": ["nearest", *(["proportional"] if has_interests else [])]}
    about["compare"] = None if other is None else other.about()
    people = [_person(answers, user, has_interests, about["can"]["explain"], other) for user in users]
    return {"model": about, "map": answers.map(), "people": people}


def _person(answers: PageAnswers, user: Any, has_interests: bool, explains: bool, other: PageAnswers | None) -> Json:
    found = answers.person(user)
    pool = _pool(answers, user) if has_interests else _listed(answers, user)
    explained = [_explanation(answers, user, one["item"]) for one in (_first_of_each(pool) if explains else ())]
    listed = None if other is None else other.recommendations(user, k=_LIST)["items"]
    return {
        **found,
        "interests": _interests(answers, user, has_interests),
        "shelves": _names_of_shelves(answers, user, has_interests),
        "pool": pool,
        "focus": _focus(answers.model),
        "explanations": explained,
        "other": listed,
        "second": None if other is None or listed is None else _second(other, user, listed),
    }


def _first_of_each(pool: list[Json]) -> list[Json]:
    """The items of a pool that have a whole explanation: the first of each interest, in lists and on shelves."""
    on_shelves = [one for one in pool if one.get("shelf")]
    on_shelves.sort(key=lambda one: -one["parts"][one["interest"]])
    found: dict[int, Json] = {}
    for listed in (pool, on_shelves):
        counts: dict[Any, int] = {}
        for one in listed:
            rank = counts[one["interest"]] = counts.get(one["interest"], 0) + 1
            if rank <= _EXPLAINED:
                found[id(one)] = one
    return list(found.values())


def _listed(answers: PageAnswers, user: Any) -> list[Json]:
    """The list of a model without interests, and after it what a longer list has: a diverse one may begin otherwise."""
    shown, longer = (answers.recommendations(user, k=k)["items"] for k in (_LIST, _POOL))
    known = {one["item"] for one in shown}
    return shown + [one for one in longer if one["item"] not in known]


def _focus(model: Recommender) -> float | None:
    """Weight of the strongest taste alone; None for models without tastes."""
    return None if model.tastes() is None else model.taste_parts(np.empty(0, dtype=np.int32)).focus


def _explanation(answers: PageAnswers, user: Any, item: Any) -> Json:
    return answers.explanation(user, id_in_type(answers.catalog.train.items, item, "item"))


def _interests(answers: PageAnswers, user: Any, has_interests: bool) -> Json:
    """The interests, none for models without any."""
    return answers.interests(user) if has_interests else {"interests": [], "history": []}


def _names_of_shelves(answers: PageAnswers, user: Any, has_interests: bool) -> list[Json]:
    """Shelves of all interests, whatever the profile mutes, without their items."""
    found = answers.shelves(user, k=1, because=False, mute=(), boost={})["shelves"] if has_interests else []
    return [{**shelf, "items": []} for shelf in found]


def _second(other: PageAnswers, user: Any, listed: list[Json]) -> Json:
    """Answers about the list of the second model: its interests, and an explanation of each item."""
    can = other.about()["can"]
    explained = [_explanation(other, user, one["item"]) for one in listed if can["explain"]]
    return {
        "interests": _interests(other, user, can["shelves"]),
        "shelves": _names_of_shelves(other, user, can["shelves"]),
        "explanations": explained,
    }


def _pool(answers: PageAnswers, user: Any) -> list[Json]:
    """The best items of each interest, the best score first; of tastes also those of the shelves, with all parts."""
    index, row = answers.catalog.index, answers.people.require(user).row
    each = [[x] for x in range(len(index.vectors_of(row)))]
    lists = index.split_top_k(row, each, [_POOL] * len(each))
    if index.tastes is not None:
        return _pool_of_tastes(answers, row, np.concatenate([rows for rows, _ in lists]))
    found = []
    for x, (rows, scores) in enumerate(lists):
        closeness, _ = index.pair_interests(np.full(len(rows), row, dtype=np.int32), rows)
        distances = (-closeness).tolist() if index.has_distances else None
        behind = answers.lists.past_behind(index, row, rows)
        found += as_json(answers.catalog.listed(rows, scores.tolist(), [x] * len(rows), distances, behind))
    order = np.argsort([-one["score"] for one in found], kind="stable")
    return [{**found[at], "rank": rank} for rank, at in enumerate(order, 1)]


def _pool_of_tastes(answers: PageAnswers, row: int, on_shelves: NDArray[np.int32]) -> list[Json]:
    """`_pool` of a model with tastes: items of shelves and the best of the whole list that match each taste."""
    index = answers.catalog.index
    parts = index.model.taste_parts(np.array([row], dtype=np.int32))
    (scores,), (strongest,) = parts.scored()
    unseen = np.setdiff1d(np.arange(len(scores)), index.seen(row))
    order = unseen[np.lexsort((unseen, -scores[unseen]))]
    best = [order[strongest[order] == x][:_POOL] for x in range(len(parts.values))]
    rows = order[np.isin(order, np.concatenate([on_shelves, *best]))]
    behind = [
        [as_json(one) for one in answers.lists.past_behind(index, row, rows, np.full(len(rows), x))]
        for x in range(len(parts.values))
    ]
    listed = as_json(answers.catalog.listed(rows, scores[rows].tolist(), strongest[rows].tolist()))
    added = np.broadcast_to(parts.added, scores[None].shape)[0]
    found = []
    for place, (one, at) in enumerate(zip(listed, rows, strict=True)):
        said = parts.values[:, at]
        # A taste of which the page may be asked for more can become the strongest.
        may_lead = [x for x in range(len(said)) if x == strongest[at] or _LARGEST_RATIO * said[x] >= said.max() > 0]
        found.append(
            {
                **one,
                "because": behind[strongest[at]][place],
                "parts": said.tolist(),
                "added": float(added[at]),
                "shelf": bool(np.isin(at, on_shelves)),
                "reasons": {str(x): behind[x][place] for x in may_lead if x != strongest[at]},
            }
        )
    return found
