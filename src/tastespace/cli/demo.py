"""`tastespace demo`: train, compare and recommend, on a synthetic shop or on a named data set."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tastespace._util.terminal import Console
from tastespace.cli.output import progress_bar
from tastespace.data import Interactions, datasets, split, synthetic
from tastespace.data.attributes import Categories, category_column, item_categories, title_column
from tastespace.data.ids import parse_ids
from tastespace.evaluation import evaluate, taste_recovery
from tastespace.models import Blend, Recommender, create
from tastespace.models.linear.ease import MOST_FOR_COMPARISON
from tastespace.recipe import RecipeReport
from tastespace.recipe import fit as default_recipe
from tastespace.recommend.explanations import explanation_words

_RECIPE = "tastespace"
# Each competitor is fitted with several settings, of which the best on held-out data counts.
_MODELS: tuple[tuple[str, str, tuple[dict[str, Any], ...]], ...] = (
    ("most popular", "popular", ({},)),
    ("EASE (linear)", "ease", tuple({"regularization": value} for value in (30.0, 100.0, 300.0, 1000.0))),
    ("CML, one vector", "cml", tuple({"n_negatives": n, "patience": 5} for n in (3, 10, 30))),
    ("DPCML, several", "dpcml", tuple({"n_negatives": n, "patience": 5} for n in (3, 10, 30))),
)
_TRIALS = 10  # on the synthetic data: about ten seconds, and the same table every time
_COLUMNS = {
    "NDCG@10": "NDCG@10",
    "R@20": "R@20",
    "MinorityRecall@20": "minority",
    "TasteRecovery": "recovery",
    "Coverage@10": "coverage",
}
_MEANINGS = {
    "MinorityRecall@20": "minority: R@20 of the held-out items outside a user's main {group}",
    "TasteRecovery": "recovery: agreement of the tastes found in the clicks with the planted ones (adjusted Rand "
    "index, 0 is chance, 1 the same)",
    "Coverage@10": "coverage: share of the catalog that is among anybody's first ten",
}
_SHELF = 3  # items shown of each taste
_SEVERAL = 3  # tastes of the user that is shown, at least


@dataclass(frozen=True, eq=False)
class _World:
    """The data of a demo, and what the models are not told of it."""

    name: str
    data: Interactions
    shop: synthetic.ShopData | None = None

    @property
    def group(self) -> str:
        """Name of what the metrics by category count: planted tastes of items, or their categories."""
        return "category" if self.shop is None else "taste"

    @property
    def column(self) -> str | None:
        """Column of `groups` that holds them; None without categories."""
        return category_column(self.data.item_attributes) if self.shop is None else self.group

    @property
    def groups(self) -> pl.DataFrame | None:
        """Table of the items with `column`."""
        if self.shop is None:
            return self.data.item_attributes
        tastes = pl.Series(self.column, [self.shop.categories[taste] for taste in self.shop.item_category])
        return pl.DataFrame([self.data.items.series.alias("item"), tastes])

    @cached_property
    def categories(self) -> Categories | None:
        """The same as a table of items and categories."""
        return None if self.groups is None or self.column is None else item_categories(self.groups[self.column])

    @property
    def clicks(self) -> Interactions:
        """The data that all models get: who took what, and titles for display."""
        attributes, title = self.data.item_attributes, title_column(self.data.item_attributes)
        titles = None if attributes is None or title is None else attributes.select(attributes.columns[0], title)
        return replace(self.data, item_attributes=titles)

    def measured(self, model: Recommender, test: Interactions) -> dict[str, float]:
        """The figures of a model on held-out items."""
        metrics = ["NDCG@10", "R@20", "Coverage@10"] + ["MinorityRecall@20"] * (self.column is not None)
        found = evaluate(model, test, metrics=metrics, item_attributes=self.groups, categories=self.column).metrics
        if self.shop is not None and model.has_interests:
            found = {**found, **taste_recovery(model, self.shop).metrics}
        return found


_Fitted = list[tuple[str, Recommender, dict[str, float]]]


def demo(
    dataset: Annotated[str | None, typer.Option(help="A named data set instead of the synthetic one.")] = None,
    user: Annotated[str | None, typer.Option(help="Id of the user to recommend to.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic data and of the split.")] = 0,
    trials: Annotated[int | None, typer.Option(help="Models that the default recipe tries.")] = None,
) -> None:
    """Train on small data, compare models and show one user's recommendations."""
    console = Console(highlight=False)
    world = _load(dataset, seed)
    user_id = _find(world, user)
    data = world.data
    console.print(
        f"[bold]{world.name}[/]: {data.n_users:,} users, {data.n_items:,} items, {data.n_interactions:,} clicks."
        + (f" Each user has two to four of {len(world.shop.categories)} planted tastes." if world.shop else "")
    )
    test, known = split.per_user(world.clicks, (0.2, 0.8), seed=seed)
    models = [
        entry for entry in _MODELS if entry[1] != "ease" or min(data.n_users, data.n_items) <= MOST_FOR_COMPARISON
    ]

    fitted: _Fitted = []
    with progress_bar("training") as bar:
        task = bar.add_task("", total=len(models) + 1)
        for title, name, settings in models:
            bar.update(task, description=title)
            model = _best([create(name, **one) for one in settings], known, seed)
            fitted.append((title, model, world.measured(model, test)))
            bar.advance(task)
        bar.update(task, description=_RECIPE)
        few = _TRIALS if trials is None and world.shop is not None else trials
        blend = default_recipe(known, trials=few, seed=seed, progress=False)
        fitted.append((_RECIPE, blend, world.measured(blend, test)))
    console.print(_comparison(fitted))
    console.print(_legend(world, fitted))
    recipe = RecipeReport(**blend.recipe_ or {})
    console.print(f"\n[bold]{_RECIPE}[/] is what `tastespace fit` chooses by itself. {escape(recipe.reason)}")
    console.print(escape(recipe.tastes))
    _show_user(console, world, fitted, known, user_id)
    _show_tastes(console, world, blend, known, user_id)


def _best(models: list[Recommender], known: Interactions, seed: int) -> Recommender:
    """The model that does best on a fifth of the known interactions, fitted to all of them."""
    held_out, rest = split.per_user(known, (0.2, 0.8), seed=seed)
    if len(models) > 1:
        figures = [
            evaluate(model.fit(rest, held_out, progress=False), held_out, seen=rest, metrics=["NDCG@10"])["NDCG@10"]
            for model in models
        ]
        models = [models[figures.index(max(figures))].as_chosen()]
    return models[0].fit(known, progress=False)


def _load(dataset: str | None, seed: int) -> _World:
    if dataset is not None:
        return _World(dataset, datasets.load(dataset))
    shop = synthetic.shop(seed=seed)
    return _World(f"A synthetic shop (seed {seed})", shop.interactions, shop)


def _comparison(fitted: _Fitted) -> Table:
    shown = [key for key in _COLUMNS if any(key in figures for _, _, figures in fitted)]
    table = Table("model", box=box.SIMPLE, pad_edge=False)
    for key in shown:
        table.add_column(_COLUMNS[key], justify="right")
    for title, _, figures in fitted:
        cells = (f"{figures[key]:.3f}" if key in figures else "-" for key in shown)
        table.add_row(title, *cells, style="bold" if title == _RECIPE else None)
    return table


def _legend(world: _World, fitted: _Fitted) -> str:
    meanings = ". ".join(text for key, text in _MEANINGS.items() if any(key in figures for _, _, figures in fitted))
    real = " Tastes are known because the data is synthetic; real people are less regular." if world.shop else ""
    return (
        "[dim]All models get the same, four fifths of each user's clicks without any categories, and the settings of "
        "each were chosen on a part of these. Figures are of the last fifth, from 0 to 1, larger is better. "
        f"{meanings.format(group=world.group)}.{real}[/]"
    )


# ---------------------------------------------------------------------------------------------------------------------
# One user.


def _show_user(console: Console, world: _World, fitted: _Fitted, known: Interactions, user: Any) -> None:
    """Shares of tastes, or of categories, in the history of a user and in the first 20 items of each model's list."""
    if world.categories is None:
        return
    columns = {"history": _tally(world, known.items_of(user))}
    for title, model, _ in fitted:
        columns[title] = _tally(world, pl.DataFrame(model.recommend([user], k=20))["item"].to_list())
    planted = {} if world.shop is None else world.shop.interests_of(user)
    main = list(planted) or sorted(columns["history"], key=lambda c: -columns["history"][c])[:6]
    console.print(f"\n[bold]User {escape(str(user))}[/]: share of each {world.group} in the first 20 recommendations")
    table = Table(world.group, box=box.SIMPLE, pad_edge=False)
    for title in ["planted"] * bool(planted) + list(columns):
        table.add_column(title.partition(",")[0].partition(" (")[0].removeprefix("most "), justify="right")
    for name in main:
        cells = [f"{100 * planted[name]:.0f} %"] if planted else []
        table.add_row(escape(name), *cells, *(f"{100 * shares.get(name, 0.0):.0f} %" for shares in columns.values()))
    if planted:
        others = (1 - sum(shares.get(name, 0.0) for name in main) for shares in columns.values())
        table.add_row("others", "", *(f"{100 * abs(share):.0f} %" for share in others))
    console.print(table)


def _show_tastes(console: Console, world: _World, blend: Blend, known: Interactions, user: Any) -> None:
    """The tastes of a user as shelves, each with the planted one, and why the best item of the last one is there."""
    console.print(f"[bold]The tastes of user {escape(str(user))}[/], as {_RECIPE} finds and names them by clicks alone")
    row = int(known.users.index_of([user])[0])
    number, items = blend.tastes().of_user(row), known.indices[known.offsets[row] : known.offsets[row + 1]]
    shelves = blend.shelves(user, k=_SHELF)
    table = Table("share", "taste, and the first recommendations for it", box=box.SIMPLE, pad_edge=False)
    if world.categories is not None:
        table.add_column("planted as" if world.shop else "category", no_wrap=True)
    for shelf in shelves:
        shares = _tally(world, known.items.take(items[number == shelf.interest]).to_list())
        main = max(shares, key=lambda name: shares[name], default=None)
        about = f"[bold]{escape(shelf.name)}[/]\n{escape(', '.join(shelf.titles))}"
        true = "" if main is None else f"{escape(main)} {100 * shares[main]:.0f} %"
        table.add_row(f"{100 * shelf.weight:.0f} %", about, *[true] * (world.categories is not None))
    console.print(table)
    last = shelves[len(shelves) - 1]
    found = blend.explain(user, last.items[0])
    ranks = f"Rank {found.rank}"
    if found.rank_without is not None:
        ranks += f'; without the taste "{found.name}" it would be rank {found.rank_without}'
    console.print(f"Why {escape(found.title)}? {escape(explanation_words(blend, found))} {escape(ranks)}.")


def _tally(world: _World, items: list[Any]) -> dict[str, float]:
    """Share of these items in each taste or category."""
    found: dict[str, float] = {}
    if world.categories is not None:
        for name in (g for several in world.categories.of(world.data.items.index_of(items)) for g in several):
            found[name] = found.get(name, 0.0) + 1.0 / len(items)
    return found


def _find(world: _World, user: str | None) -> Any:
    """Id of the given user (ids on the command line are text), or of one whose tastes are easy to see.

    That is, of the users with a history of median length or up to half as long again, the one with three or more
    planted tastes whose history has them in the planted shares most nearly; of a named data set, the one whose items
    are spread most evenly over the categories (by entropy), without categories the first.
    """
    data = world.data
    if user is not None:
        return data.users[int(data.users.index_of(parse_ids(data.users, [user]))[0])]
    median = int(sorted(data.user_counts)[data.n_users // 2])
    usual = np.flatnonzero((data.user_counts >= median) & (data.user_counts <= 1.5 * median)).tolist()
    if world.categories is None:
        return data.users[usual[0]]
    mixes = [_tally(world, data.items_of(data.users[row])) for row in usual]
    if world.shop is None:
        fit = [-sum(share * math.log(share) for share in mix.values()) for mix in mixes]
    else:
        planted = [world.shop.interests_of(data.users[row]) for row in usual]
        fit = [
            sum(min(mix.get(name, 0.0), share) for name, share in own.items()) if len(own) >= _SEVERAL else 0.0
            for mix, own in zip(mixes, planted, strict=True)
        ]
    return data.users[usual[fit.index(max(fit))]]
