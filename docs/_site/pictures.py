"""Pictures of the site, each drawn from models that are fitted to synthetic data while the site is built."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tastespace as ts
from tastespace import plots
from tastespace.data.synthetic import SyntheticData
from tastespace.models import Recommender
from tastespace.plots.canvas import (
    FAINT,
    INK,
    QUIET,
    color,
    new_figure,
    save_figure,
)

USER = 5  # somebody with three interests in the synthetic town


def draw_all(folder: Path) -> None:
    """Draw what is not there yet or is older than this file."""
    folder.mkdir(parents=True, exist_ok=True)
    made_from = Path(__file__).stat().st_mtime
    for name, draw in PICTURES.items():
        path = folder / f"{name}.svg"
        if not path.exists() or path.stat().st_mtime < made_from:
            draw(path)


@cache
def _town() -> tuple[SyntheticData, list[ts.Interactions]]:
    data = ts.synthetic.multi_interest(seed=0)
    return data, ts.split.per_user(data.interactions, (0.6, 0.2, 0.2), seed=0)


@cache
def _model(n_interests: int) -> Recommender:
    """The same model but for the number of vectors per user."""
    train = _town()[1][0]
    return ts.DPCML(
        dim=50, n_interests=n_interests, n_negatives=5, min_spread=0.2, max_spread=0.5, epochs=30, seed=0
    ).fit(train, progress=False)


def _planted(user: int) -> dict[str, float]:
    return dict(sorted(_town()[0].interests_of(user).items(), key=lambda pair: -pair[1]))


def one_and_several(path: Path) -> None:
    """Distances of all items from one user's vectors, with one vector and with four, by planted interest."""
    data, (train, *_) = _town()
    planted = list(_planted(USER))
    of_item = [data.categories[c] for c in data.item_category]
    seen = set(train.items_of(USER))
    figure = new_figure(8.4, 3.9)
    groups = [*planted, "other"]
    for place, (n, title) in enumerate(((1, "one vector"), (4, "four vectors"))):
        axes = figure.add_axes((0.13 + 0.45 * place, 0.16, 0.4, 0.68))
        space = _model(n).vectors()
        assert space is not None
        mine = space.user_vectors[space.user_offsets[USER] : space.user_offsets[USER + 1]]
        nearest = ((mine[:, None] - space.item_vectors) ** 2).sum(axis=2).min(axis=0)
        for row, group in enumerate(groups):
            among = [i for i, name in enumerate(of_item) if (name if name in planted else "other") == group]
            jitter = np.random.default_rng(row).uniform(-0.28, 0.28, len(among))
            shade = FAINT if group == "other" else color(row)
            axes.scatter(nearest[among], row + jitter, s=9, color=shade, alpha=0.75, linewidths=0)
            had = [at for at, i in enumerate(among) if i in seen]
            axes.scatter(
                nearest[among][had], row + jitter[had], s=22, facecolors="none", edgecolors=INK, linewidths=0.7
            )
        best = np.sort(np.delete(nearest, sorted(seen)))[9]
        axes.axvline(best, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.text(best, -0.62, " tenth place", fontsize=8, color=QUIET)
        axes.set_yticks(range(len(groups)))
        axes.set_yticklabels(
            [
                f"{name}\n{100 * _planted(USER)[name]:.0f} % planted" if name in planted else "all others"
                for name in groups
            ]
            if place == 0
            else [],
            fontsize=8,
        )
        axes.set_ylim(len(groups) - 0.4, -0.9)
        axes.set_xlabel("squared distance to the nearest vector of the user", fontsize=8)
        axes.tick_params(labelsize=8, length=0)
        axes.set_title(title, fontsize=10, loc="left", color=INK)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    save_figure(figure, path)


def places_by_interest(path: Path) -> None:
    """How the first twenty places are shared out among a user's planted interests, over all users with four of them."""
    data, _ = _town()
    offsets = data.interest_offsets
    users = np.flatnonzero(np.diff(offsets) == 4)
    several = _model(4)
    lists = {
        "one vector": _model(1).recommend(users, k=20),
        "four vectors": several.recommend(users, k=20),
        "four vectors, diversity 0.5": several.recommend(users, k=20, diversity=0.5),
        "four vectors, proportional": several.recommend(users, k=20, mix="proportional"),
    }
    names = ["main interest", "second", "third", "fourth", "none of them"]
    weights = [data.interest_weights[offsets[u] : offsets[u + 1]] for u in users]
    rows = {"planted": [*np.mean(weights, axis=0), 0.0]}
    for label, found in lists.items():
        place = np.full(len(found), 4)
        of_list = data.item_category[found["item"].to_numpy()]
        for number in range(4):
            place[data.interest_categories[offsets[found["user"].to_numpy()] + number] == of_list] = number
        rows[label] = list(np.bincount(place, minlength=5) / len(place))
    figure = new_figure(8.4, 2.9)
    axes = figure.add_axes((0.27, 0.2, 0.71, 0.68))
    shades = [*(color(number) for number in range(4)), FAINT]
    for at, shares in enumerate(rows.values()):
        left = 0.0
        for share, shade in zip(shares, shades, strict=True):
            axes.barh(at, share, left=left, color=shade, height=0.66)
            if share >= 0.03:
                text = INK if shade == FAINT else "white"
                axes.text(
                    left + share / 2, at, f"{100 * share:.0f} %", ha="center", va="center", fontsize=8, color=text
                )
            left += share
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels(list(rows), fontsize=8.5)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for number, (name, shade) in enumerate(zip(names, shades, strict=True)):
        figure.text(0.27 + 0.145 * number, 0.07, "■", fontsize=11, color=shade, va="center")
        figure.text(0.292 + 0.145 * number, 0.07, name, fontsize=8.5, color=INK, va="center")
    save_figure(figure, path)


def tradeoff_curve(path: Path) -> None:
    """Accuracy against recall outside the main category, for degrees of diversity."""
    _, (train, valid, test) = _town()
    model = ts.DPCML(dim=50, n_interests=3, n_negatives=5, anchor=0.5, epochs=30, seed=0).fit(train, progress=False)
    found = ts.tradeoff(model, test, seen=[train, valid])
    plots.draw_tradeoff(found, path)


def shelves_picture(path: Path) -> None:
    """Shelves of one user."""
    plots.draw_shelves(_model(4).shelves(USER, k=5), path)


def taste_map_picture(path: Path) -> None:
    """The taste map of the same user."""
    plots.taste_map(_model(4), USER, path)


def spread_picture(path: Path) -> None:
    """Spread of each user's vectors with spread control and without."""
    train = _town()[1][0]
    free = ts.DPCML(dim=50, n_interests=4, n_negatives=5, dcrs=None, epochs=30, seed=0).fit(train, progress=False)
    figure = new_figure(8.4, 2.7)
    axes = figure.add_axes((0.07, 0.2, 0.9, 0.72))
    edges = np.linspace(0, 1.2, 61)
    for number, (label, model) in enumerate((("without spread control", free), ("bounds 0.2 and 0.5", _model(4)))):
        axes.hist(_spreads(model), edges, color=color(number), alpha=0.75, label=label)
    for bound in (0.2, 0.5):
        axes.axvline(bound, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_xlabel("spread: half the mean squared distance between two vectors of a user", fontsize=8.5)
    axes.set_ylabel("users", fontsize=8.5)
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=8.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    save_figure(figure, path)


def _spreads(model: Recommender) -> list[float]:
    space = model.vectors()
    assert space is not None
    found = []
    for start, end in zip(space.user_offsets[:-1], space.user_offsets[1:], strict=True):
        mine: Any = space.user_vectors[start:end]
        squared = ((mine[:, None] - mine) ** 2).sum(axis=2)
        found.append(float(squared.sum() / (2 * len(mine) * (len(mine) - 1))))
    return found


PICTURES: dict[str, Callable[[Path], None]] = {
    "one-and-several": one_and_several,
    "places-by-interest": places_by_interest,
    "tradeoff": tradeoff_curve,
    "shelves": shelves_picture,
    "taste-map": taste_map_picture,
    "spread": spread_picture,
}
