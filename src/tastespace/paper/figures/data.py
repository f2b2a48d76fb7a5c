"""Figures of the data (preference diversity, categories, history) and of single users of a trained model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data import Interactions, synthetic
from tastespace.data.merge import concat
from tastespace.evaluation.user_diversity import preference_diversity
from tastespace.models.dpcml.model import CML, DPCML
from tastespace.paper.data import TOWN, load_parts
from tastespace.paper.figures.base import (
    BLUE,
    LIGHT,
    VERMILION,
    FigureData,
    FigureSpec,
    NothingToDrawError,
    legend_above,
    name_axes,
    panels,
    quiet,
)
from tastespace.paper.statistics import minority_categories
from tastespace.plots import taste_map
from tastespace.plots.canvas import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    color,
    deeper,
    write,
)

_WITH_GENRES = ("ml-1m", "ml-10m")
_BINS = 10  # of history length, with the same number of users in each
_MAX_CATEGORIES = 20  # shown
_K = 5  # recommendations shown
_EXAMINED_USERS = 100
_MAX_SHELVES = 4
_EPOCHS = 20  # enough for a picture: later epochs move little
_HISTORY = (25, 80)  # of the user on the taste map: long enough to have interests, short enough to see


def draw_diversity(data: FigureData) -> Any:
    """Draw the distribution of preference diversity (Definition 1), and the interactions of each category."""
    interactions = _all_interactions(data.dataset)
    diversity = _diversity(interactions)
    names, shares, few = minority_categories(interactions)
    title = f"Users have several interests, and some categories are small: {data.dataset}"
    figure, (left, right) = panels(
        title, "genres of the items that users chose", 2, size=(4.3, 3.9), columns=2, across=1.2
    )
    left.hist(diversity, bins=np.linspace(0, 1, 26), color=BLUE, edgecolor="white", linewidth=0.6)
    middle = float(np.median(diversity))
    left.axvline(middle, color=INK, linewidth=1.2, linestyle="--")
    left.set_ylim(top=1.12 * left.get_ylim()[1])
    write(left, middle + 0.015, left.get_ylim()[1] * 0.985, f"median {middle:.2f}", 9, va="top")
    name_axes(left, "Preference diversity", "share of a user's pairs of items without a common genre", "users")
    last = slice(_MAX_CATEGORIES - 1, None, -1)  # the largest at the top
    names, shares, small = names[last], shares[last], few[last]
    quiet(right, "x")
    right.grid(axis="y", visible=False)
    right.barh(names, 100 * shares, color=np.where(small, VERMILION, BLUE).tolist(), height=0.72)
    right.tick_params(axis="y", labelsize=8, length=0)
    name_axes(right, "Categories", "share of all interactions, %")
    if small.any():
        text = "minority: below half\nof an even share"
        write(right, 0.97, 0.06, text, 9, VERMILION, transform=right.transAxes, ha="right")
    return figure


def draw_history(data: FigureData) -> Any:
    """The longer a user's history, the more diverse: why APA gives more vectors to users with a long history."""
    interactions = _all_interactions(data.dataset)
    diversity, counts = _diversity(interactions, keep_all=True), interactions.user_counts
    known = ~np.isnan(diversity)
    diversity, counts = diversity[known], counts[known]
    title = f"Diversity against length of history: {data.dataset}"
    rank = _spearman(counts, diversity)
    figure, (axes,) = panels(title, f"one dot per user; rank correlation {rank:+.2f}", 1, size=(6.4, 3.9))
    axes.scatter(counts, diversity, s=5, color=BLUE, alpha=0.18, linewidths=0, rasterized=True)
    groups = [group for group in np.array_split(np.argsort(counts, kind="stable"), _BINS) if len(group)]
    x = np.array([np.median(counts[group]) for group in groups])
    low, middle, high = (
        np.array([np.quantile(diversity[group], share) for group in groups]) for share in (0.25, 0.5, 0.75)
    )
    axes.fill_between(x, low, high, color=VERMILION, alpha=0.18, linewidth=0, label="middle half")
    axes.plot(x, middle, color=VERMILION, marker="o", markersize=5, linewidth=2, label="median of a tenth of users")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9, labelcolor=QUIET, loc="lower right")
    name_axes(axes, "", "interactions", "preference diversity")
    return figure


def _all_interactions(dataset: str) -> Interactions:
    parts = load_parts(dataset)
    return concat(concat(parts.train, parts.valid), parts.test)


def _diversity(interactions: Interactions, keep_all: bool = False) -> NDArray[np.float64]:
    found = preference_diversity(interactions, "genres", missing="ignore")
    return found if keep_all else found[~np.isnan(found)]


def _spearman(a: NDArray[Any], b: NDArray[Any]) -> float:
    from scipy import stats

    return float(stats.spearmanr(a, b).statistic)


@dataclass(frozen=True)
class _TwoModels:
    """A small synthetic data set, and two models of it in the plane."""

    town: Any
    """As `synthetic.multi_interest` gives it: interactions, and the interests that each user was given."""
    models: dict[str, DPCML]
    lists: dict[str, NDArray[np.int32]]
    """Rows of the items that each model recommends, shape ``(n_users, 5)``."""
    relevant: dict[str, NDArray[np.bool_]]
    """True for items of a category that the user likes, same shape."""

    @property
    def share_relevant(self) -> dict[str, float]:
        """Share of recommendations of a category that the user likes."""
        return {name: float(found.mean()) for name, found in self.relevant.items()}


def draw_motivation(data: FigureData) -> Any:
    """One vector lies between two interests, several need not: both models are trained, nothing is placed."""
    trained = _train(20 if data.quick else 120)
    user = _example_user(trained)
    liked = trained.town.interests_of(user).items()
    words = " and ".join(f"{name} ({100 * share:.0f} %)" for name, share in liked)
    subtitle = f"synthetic data learned in two dimensions; this user likes {words}"
    figure, axes = panels(
        "One user, two interests", subtitle, 2, size=(5.0, 4.2), columns=2, legend=True, left=0.3, across=0.3
    )
    for panel, name in zip(axes, trained.models, strict=True):
        _draw_user(panel, trained, name, user)
        words = f"{name}: {100 * trained.share_relevant[name]:.0f} % of all recommendations are of a liked category"
        write(panel, 0.5, -0.03, words, 10, transform=panel.transAxes, ha="center")
    legend_above(figure, axes[0])
    return figure


def _train(epochs: int) -> _TwoModels:
    town = synthetic.multi_interest(
        n_users=600, n_items=120, n_interactions=12_000, n_categories=5, n_interests=(2, 2), dominance=0.5,
        noise=0.0, category_skew=0.2, popularity_skew=0.3, seed=4,
    )  # fmt: skip
    common: dict[str, Any] = {
        "dim": 2,
        "epochs": epochs,
        "sampler": "uniform",
        "geometry": "ball",
        "learning_rate": 0.1,
        "seed": 0,
        "threads": 1,
    }
    models = {
        "one vector": CML(**common),
        "two vectors": DPCML(**common, n_interests=2, dcrs=None, start="random", temperature=0.0),
    }
    lists = {
        name: model.fit(town.interactions, progress=False).recommend_indices(k=_K, threads=1)[0]
        for name, model in models.items()
    }
    liked = town.interest_categories.reshape(-1, 1, 2)
    relevant = {name: (town.item_category[found][:, :, None] == liked).any(axis=2) for name, found in lists.items()}
    return _TwoModels(town, models, lists, relevant)


def _example_user(trained: _TwoModels) -> int:
    """The user for whom two vectors recommend most more of the liked categories than one."""
    one, two = (trained.relevant[name].sum(axis=1).astype(float) for name in trained.models)
    categories = np.sort(trained.town.item_category[trained.lists["two vectors"]], axis=1)
    both = categories[:, 0] != categories[:, -1]  # both interests in one list are worth one more item
    return int((two - one + both).argmax())


def _draw_user(axes: Any, trained: _TwoModels, model: str, user: int) -> None:
    """Items by category, the user's vectors, and what the model recommends first."""
    from matplotlib.patches import Circle

    town, space = trained.town, trained.models[model].vectors()
    own = space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]]
    interests = slice(town.interest_offsets[user], town.interest_offsets[user + 1])
    liked = town.interest_categories[interests].tolist()
    axes.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=LIGHT, linewidth=1))
    for category, name in enumerate(town.categories):
        points = space.item_vectors[town.item_category == category]
        shade = color(liked.index(category)) if category in liked else FAINT
        label = name if category in liked else "other categories"
        axes.scatter(*points.T, s=20, color=shade, alpha=0.75, linewidths=0, label=label)
        _write_category(axes, name, points, deeper(shade) if category in liked else QUIET)
    shown = space.item_vectors[trained.lists[model][user]]
    axes.scatter(*shown.T, s=130, facecolors="none", edgecolors=INK, linewidths=1.3, zorder=6, label="recommended")
    axes.scatter(*own.T, s=190, marker="X", color=INK, edgecolors=PAPER, linewidths=1.5, zorder=5, label="the user")
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.2, 1.2), aspect="equal")
    axes.axis("off")


def _write_category(axes: Any, name: str, points: NDArray[np.float32], shade: str) -> None:
    """The category's name outside the circle, next to the middle of its items; above it where that is the center."""
    middle = np.median(points, axis=0).astype(float)
    length = float(np.linalg.norm(middle))
    x, y = middle / length * 1.1 if length > 0.4 else middle + (0.0, 0.12)
    side = "center" if abs(x) < 0.35 else "left" if x > 0 else "right"
    write(axes, x, y, name, 9.5, shade, ha=side, va="center", fontweight="bold")


def draw_taste_map(data: FigureData) -> Any:
    """A user with several interests on the map of a model with the library's defaults."""
    parts = load_parts(data.dataset)
    model = DPCML(epochs=3 if data.quick else _EPOCHS, seed=0, threads=1)
    model.fit(parts.train, parts.valid, progress=False)
    return taste_map(model, _user_with_even_interests(model, parts.train))


def _user_with_even_interests(model: DPCML, train: Interactions) -> Any:
    """Return the user with the most even shelves among those with the most diverse history; at most four shelves."""
    diversity = np.nan_to_num(preference_diversity(train, "genres", missing="ignore"))
    eligible = np.flatnonzero((train.user_counts >= _HISTORY[0]) & (train.user_counts <= _HISTORY[1]))
    if not len(eligible):
        raise NothingToDrawError("no user has a history of {} to {} items, which a map needs.".format(*_HISTORY))
    first = eligible[np.argsort(-diversity[eligible], kind="stable")][:_EXAMINED_USERS]
    return max((train.users[int(row)] for row in first), key=lambda user: _evenness(model, user))


def _evenness(model: DPCML, user: Any) -> float:
    shelves = list(model.shelves(user, k=1))
    if not 2 <= len(shelves) <= _MAX_SHELVES:
        return 0.0
    weights = np.array([shelf.weight for shelf in shelves])
    return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum() / np.log(len(weights)))


DATA_FIGURES = (
    FigureSpec(
        "motivation",
        "One user, two interests, one vector against several",
        (TOWN,),
        draw_motivation,
        caption="One vector lies between two interests, so the recommended items lie between them; two vectors "
        "need not. The user shown is the one with the largest difference; the shares below are of all users.",
    ),
    FigureSpec(
        "preferences",
        "Preference diversity of users, and imbalance of categories",
        _WITH_GENRES,
        draw_diversity,
        caption="Most users choose items of several categories; some categories have few interactions.",
    ),
    FigureSpec(
        "history",
        "Diversity against length of history",
        _WITH_GENRES,
        draw_history,
        caption="APA's premise: users with a longer history have more interests.",
    ),
    FigureSpec(
        "taste-map",
        "The taste map of one user",
        ("ml-1m", "steam-200k"),
        draw_taste_map,
        caption="Items in the plane, a user's interests drawn in, recommendations highlighted. The model has the "
        "library's defaults; of the hundred users with the most diverse history it is the one whose interests "
        "weigh most alike.",
    ),
)
