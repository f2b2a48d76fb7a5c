"""Figures of trained models: one person with two interests in a toy world, and the taste map of a real one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.data import Interactions, synthetic
from tastespace.evaluation.user_diversity import preference_diversity
from tastespace.models.dpcml import CML, DPCML
from tastespace.paper.figures.declaration import Material, NothingToDrawError
from tastespace.paper.figures.style import LIGHT, legend_above, panels
from tastespace.paper.runs import load_parts
from tastespace.plots import taste_map
from tastespace.plots.canvas import FAINT, INK, PAPER, QUIET, color, deeper, write

_SHOWN = 5  # recommendations lit
_LOOKED_AT = 100
_MOST_SHELVES = 4
_EPOCHS = 20  # a picture, not a figure: what comes later moves little
_HISTORY = (25, 80)  # of the person on the taste map: long enough to have interests, short enough to see


@dataclass(frozen=True)
class _Toy:
    """A small town, and two models of it in the plane."""

    world: synthetic.World
    models: dict[str, DPCML]
    lists: dict[str, NDArray[np.int32]]
    """Rows of the items that each model recommends, shape ``(n_users, 5)``."""
    fitting: dict[str, NDArray[np.bool_]]
    """Whether they are of a kind that the person likes."""

    @property
    def right(self) -> dict[str, float]:
        """Share of recommendations to people's taste."""
        return {name: float(found.mean()) for name, found in self.fitting.items()}


def draw_motivation(material: Material) -> Any:
    """One vector must stand between two interests, several need not: both models are trained, nothing is placed."""
    toy = _train(20 if material.quick else 120)
    person = _torn(toy)
    words = " and ".join(f"{name} ({100 * share:.0f} %)" for name, share in toy.world.interests_of(person).items())
    subtitle = f"a town learned in two dimensions; this person likes {words}"
    figure, axes = panels(
        "One person, two interests", subtitle, 2, size=(5.0, 4.2), columns=2, legend=True, left=0.3, across=0.3
    )
    for panel, name in zip(axes, toy.models, strict=True):
        _scene(panel, toy, name, person)
        words = f"{name}: {100 * toy.right[name]:.0f} % of all recommendations are to people's taste"
        write(panel, 0.5, -0.03, words, 10, transform=panel.transAxes, ha="center")
    legend_above(figure, axes[0])
    return figure


def _train(epochs: int) -> _Toy:
    world = synthetic.multi_interest(
        n_users=600, n_items=120, n_interactions=12_000, n_categories=5, n_interests=(2, 2), dominance=0.5,
        noise=0.0, category_skew=0.2, popularity_skew=0.3, seed=4,
    )  # fmt: skip
    common: dict[str, Any] = {
        "dim": 2,
        "epochs": epochs,
        "sampler": "unis",
        "geometry": "ball",
        "seed": 0,
        "threads": 1,
    }
    models = {"one vector": CML(**common), "two vectors": DPCML(**common, n_interests=2, dcrs=None)}
    lists = {
        name: model.fit(world.interactions, progress=False).recommend_indices(k=_SHOWN, threads=1)[0]
        for name, model in models.items()
    }
    liked = world.interest_categories.reshape(-1, 1, 2)
    fitting = {name: (world.item_category[found][:, :, None] == liked).any(axis=2) for name, found in lists.items()}
    return _Toy(world, models, lists, fitting)


def _torn(toy: _Toy) -> int:
    """The person for whom one vector offers the most of what nobody asked for, and two offer the least."""
    one, two = (toy.fitting[name].sum(axis=1).astype(float) for name in toy.models)
    kinds = np.sort(toy.world.item_category[toy.lists["two vectors"]], axis=1)
    both = kinds[:, 0] != kinds[:, -1]  # both interests in one list are worth one more item
    return int((two - one + both).argmax())


def _scene(axes: Any, toy: _Toy, model: str, person: int) -> None:
    """Items by category, the person's vectors, and what the model offers first."""
    from matplotlib.patches import Circle

    world, space = toy.world, toy.models[model].vectors()
    mine = space.user_vectors[space.user_offsets[person] : space.user_offsets[person + 1]]
    planted = slice(world.interest_offsets[person], world.interest_offsets[person + 1])
    liked = world.interest_categories[planted].tolist()
    axes.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=LIGHT, linewidth=1))
    for category, name in enumerate(world.categories):
        points = space.item_vectors[world.item_category == category]
        shade = color(liked.index(category)) if category in liked else FAINT
        label = name if category in liked else "something else"
        axes.scatter(*points.T, s=20, color=shade, alpha=0.75, linewidths=0, label=label)
        _name(axes, name, points, deeper(shade) if category in liked else QUIET)
    offered = space.item_vectors[toy.lists[model][person]]
    axes.scatter(*offered.T, s=130, facecolors="none", edgecolors=INK, linewidths=1.3, zorder=6, label="recommended")
    axes.scatter(*mine.T, s=190, marker="X", color=INK, edgecolors=PAPER, linewidths=1.5, zorder=5, label="the person")
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.2, 1.2), aspect="equal")
    axes.axis("off")


def _name(axes: Any, name: str, points: NDArray[np.float32], shade: str) -> None:
    """The category's name outside the circle, beside the middle of its items; one in the center has it above."""
    middle = np.median(points, axis=0).astype(float)
    length = float(np.linalg.norm(middle))
    x, y = middle / length * 1.1 if length > 0.4 else middle + (0.0, 0.12)
    side = "center" if abs(x) < 0.35 else "left" if x > 0 else "right"
    write(axes, x, y, name, 9.5, shade, ha=side, va="center", fontweight="bold")


def draw_taste_map(material: Material) -> Any:
    """A person with several interests on the map of a model with the library's defaults."""
    parts = load_parts(material.dataset)
    model = DPCML(epochs=3 if material.quick else _EPOCHS, seed=0, threads=1)
    model.fit(parts.train, parts.valid, progress=False)
    return taste_map(model, _many_sided(model, parts.train))


def _many_sided(model: DPCML, train: Interactions) -> Any:
    """Of the people with the most diverse history the one whose shelves weigh most alike; four can still be seen."""
    diversity = np.nan_to_num(preference_diversity(train, "genres", missing="ignore"))
    fitting = np.flatnonzero((train.user_counts >= _HISTORY[0]) & (train.user_counts <= _HISTORY[1]))
    if not len(fitting):
        raise NothingToDrawError("nobody has a history of {} to {} items, which a map needs.".format(*_HISTORY))
    first = fitting[np.argsort(-diversity[fitting], kind="stable")][:_LOOKED_AT]
    return max((train.users[int(row)] for row in first), key=lambda user: _evenness(model, user))


def _evenness(model: DPCML, user: Any) -> float:
    shelves = list(model.shelves(user, k=1))
    names = {shelf.label for shelf in shelves if shelf.label}
    if not 2 <= len(shelves) <= _MOST_SHELVES or len(names) < len(shelves):
        return 0.0
    weights = np.array([shelf.weight for shelf in shelves])
    return float(-(weights * np.log(np.maximum(weights, 1e-12))).sum() / np.log(len(weights)))
