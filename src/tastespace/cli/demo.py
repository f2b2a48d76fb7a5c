"""`tastespace demo`: train, compare and recommend, on a synthetic data set or on a named one."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.markup import escape
from rich.table import Table

from tastespace._util.terminal import Console
from tastespace.cli.output import progress_bar
from tastespace.data import (
    Interactions,
    datasets,
    split,
    synthetic,
)
from tastespace.data.attributes import item_categories
from tastespace.data.ids import parse_ids
from tastespace.evaluation import Report, evaluate
from tastespace.models import Recommender, create
from tastespace.models.linear.ease import MOST_FOR_COMPARISON
from tastespace.recipe import RecipeReport
from tastespace.recipe import fit as default_recipe

_RECIPE = "tastespace"
# Each competitor is fitted with several settings, of which the best on held-out data counts.
_MODELS: tuple[tuple[str, str, tuple[dict[str, Any], ...]], ...] = (
    ("most popular", "popular", ({},)),
    ("EASE (linear)", "ease", tuple({"regularization": value} for value in (50.0, 200.0, 1000.0))),
    ("CML, one vector", "cml", tuple({"n_negatives": n, "patience": 5} for n in (3, 10, 30))),
    ("DPCML, several", "dpcml", tuple({"n_negatives": n, "patience": 5} for n in (3, 10, 30))),
)
_LEGEND = (
    "[dim]All values are fractions from 0 to 1. minority: recall@20 of the held-out items outside a user's main "
    "category; diversity: how different the categories within a list are; coverage: share of the catalog that is "
    "recommended to at least one user. tastespace reads the items' categories, the others do not.[/]"
)
_TRIALS = 40  # on the synthetic data: about half a minute, and the same table every time
_BY_CATEGORY = ("MinorityRecall@20", "CategoryILD@10")


def demo(
    dataset: Annotated[str | None, typer.Option(help="A named data set instead of the synthetic one.")] = None,
    user: Annotated[str | None, typer.Option(help="Id of the user to recommend to.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic data and of the split.")] = 0,
    trials: Annotated[int | None, typer.Option(help="Models that the default recipe tries.")] = None,
) -> None:
    """Train on small data, compare models and show one user's recommendations."""
    console = Console()
    data, truth = _load(dataset, seed)
    user_id = _find(data, user)
    console.print(f"[bold]{dataset or 'synthetic data'}[/]: {data!r}")
    if truth is not None:
        console.print("[dim]Each user has two to four planted interests of unequal weight.[/]")
    test, known = split.per_user(data, (0.2, 0.8), seed=seed)
    models = [
        entry for entry in _MODELS if entry[1] != "ease" or min(data.n_users, data.n_items) <= MOST_FOR_COMPARISON
    ]

    fitted: list[tuple[str, Recommender, Report]] = []
    with progress_bar("training") as bar:
        task = bar.add_task("", total=len(models) + 1)
        for title, name, settings in models:
            bar.update(task, description=title)
            model = _best([create(name, **one) for one in settings], known, seed)
            fitted.append((title, model, _report(model, test, data)))
            bar.advance(task)
        bar.update(task, description=_RECIPE)
        blend = default_recipe(
            known, trials=_TRIALS if trials is None and truth is not None else trials, seed=seed, progress=False
        )
        fitted.append((_RECIPE, blend, _report(blend, test, data)))
    console.print(_comparison(fitted))
    console.print(_LEGEND)
    recipe = RecipeReport(**blend.recipe_ or {})
    console.print(f"\n[bold]{_RECIPE}[/] is what `tastespace fit` chooses by itself. {escape(recipe.reason)}")
    console.print(escape(recipe.tastes), highlight=False)
    _show_user(console, fitted, data, truth, user_id, chosen=user is None)


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


def _report(model: Recommender, test: Interactions, data: Interactions) -> Report:
    return evaluate(model, test, metrics=_metrics(data))


def _load(dataset: str | None, seed: int) -> tuple[Interactions, synthetic.SyntheticData | None]:
    if dataset is not None:
        return datasets.load(dataset), None
    town = synthetic.multi_interest(n_users=1_500, n_items=800, n_interactions=60_000, seed=seed)
    return town.interactions, town


def _has_categories(data: Interactions) -> bool:
    return data.item_attributes is not None and "genres" in data.item_attributes.columns


def _metrics(data: Interactions) -> list[str]:
    return ["NDCG@10", "R@20", "Coverage@10", *(_BY_CATEGORY if _has_categories(data) else ())]


def _comparison(fitted: list[tuple[str, Recommender, Report]]) -> Table:
    columns = {
        "NDCG@10": "NDCG@10",
        "R@20": "R@20",
        "MinorityRecall@20": "minority",
        "CategoryILD@10": "diversity",
        "Coverage@10": "coverage",
    }
    shown = {key: title for key, title in columns.items() if key in fitted[0][2].metrics}
    table = Table(title="\nHow well each model finds the held-out items", title_justify="left")
    table.add_column("model", style="bold")
    for title in shown.values():
        table.add_column(title, justify="right")
    for title, _, report in fitted:
        table.add_row(title, *(f"{report[key]:.3f}" for key in shown))
    return table


def _show_user(
    console: Console,
    fitted: list[tuple[str, Recommender, Report]],
    data: Interactions,
    truth: synthetic.SyntheticData | None,
    user: Any,
    chosen: bool,
) -> None:
    if _has_categories(data):
        console.print(f"\n[bold]Categories of the first 20 recommendations for user {user}[/]")
        if chosen:
            console.print("[dim]Of the users with histories of usual length, the one with the most even mix.[/]")
        console.print(_shares(fitted, data, truth, user))
    title, model, _ = fitted[-1]
    console.print(f"\n[bold]First recommendations[/], by {title}")
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column("item")
    table.add_column("categories")
    if model.has_interests:
        table.add_column("interest", justify="right")
    for row in pl.DataFrame(model.recommend([user], k=10)).iter_rows(named=True):
        about = _about(data, row["item"])
        name = str(about.get("title") or row["item"])
        interest = [str(row["interest"])] if model.has_interests else []
        table.add_row(str(row["rank"]), name, ", ".join(_genres(data, [row["item"]])[0]), *interest)
    console.print(table)


def _shares(
    fitted: list[tuple[str, Recommender, Report]], data: Interactions, truth: synthetic.SyntheticData | None, user: Any
) -> Table:
    """Return the percentage of the history and of each model's list in each of the user's main categories."""
    columns = {"history": _tally(data, data.items_of(user))}
    for title, model, _ in fitted:
        columns[title] = _tally(data, pl.DataFrame(model.recommend([user], k=20))["item"].to_list())
    planted = {} if truth is None else truth.interests_of(user)
    main = list(planted) or sorted(columns["history"], key=lambda c: -columns["history"][c])[:6]
    table = Table()
    table.add_column("category", style="bold")
    if planted:
        table.add_column("planted", justify="right")
    for title in columns:
        table.add_column(title.partition(",")[0].partition(" (")[0], justify="right")
    for category in main:
        cells = [f"{100 * planted[category]:.0f} %"] if planted else []
        table.add_row(category, *cells, *(f"{100 * shares.get(category, 0.0):.0f} %" for shares in columns.values()))
    return table


def _tally(data: Interactions, items: list[Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for genre in (g for several in _genres(data, items) for g in several):
        found[genre] = found.get(genre, 0.0) + 1.0 / len(items)
    return found


def _genres(data: Interactions, items: list[Any]) -> list[list[str]]:
    if data.item_attributes is None or "genres" not in data.item_attributes.columns:
        return [[] for _ in items]
    return item_categories(data.item_attributes["genres"]).of(data.items.index_of(items))


def _find(data: Interactions, user: str | None) -> Any:
    """Id of the given user (ids on the command line are text), or of one with several tastes.

    That is, of the users with a history of median length or up to half as long again, the one whose items are spread
    most evenly over the categories (by entropy); without categories the first of them.
    """
    if user is not None:
        return data.users[int(data.users.index_of(parse_ids(data.users, [user]))[0])]
    median = int(sorted(data.user_counts)[data.n_users // 2])
    usual = np.flatnonzero((data.user_counts >= median) & (data.user_counts <= 1.5 * median))
    if not _has_categories(data):
        return data.users[int(usual[0])]
    assert data.item_attributes is not None
    membership = item_categories(data.item_attributes["genres"]).table()
    counts = np.stack([membership[data.indices[data.offsets[u] : data.offsets[u + 1]]].sum(axis=0) for u in usual])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return data.users[int(usual[entropy.argmax()])]


def _about(data: Interactions, item: Any) -> dict[str, Any]:
    if data.item_attributes is None:
        return {}
    return data.item_attributes.row(int(data.items.index_of([item])[0]), named=True)
