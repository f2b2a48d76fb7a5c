"""`tastespace demo`: the table, one user, and what the models are told."""

from __future__ import annotations

import re

import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli import app
from tastespace.cli.demo import _MODELS, _TRIALS, _best, _find, _World


def text_of(*arguments):
    done = CliRunner().invoke(app, ["demo", *arguments], env={"COLUMNS": "80", "TERM": "dumb"})
    assert done.exit_code == 0, done.output
    return done.stdout


def figures_of(line):
    return [float(value) for value in re.findall(r"\d\.\d{3}", line)]


def test_it_compares_models_and_shows_the_tastes_of_a_user(one_core, monkeypatch):
    made = ts.synthetic.shop
    monkeypatch.setattr("tastespace.cli.demo.synthetic.shop", lambda seed: made(300, 300, 6_000, seed=seed))
    output = text_of("--user", "12", "--trials", "4")
    lines = output.splitlines()
    rows = {title: line for title, _, _ in _MODELS for line in lines if line.strip().startswith(title)}
    assert list(rows) == ["most popular", "EASE (linear)", "CML, one vector", "DPCML, several"]
    ours = next(line for line in lines if line.strip().startswith("tastespace ") and figures_of(line))
    assert {title: len(figures_of(line)) for title, line in rows.items()} == {
        "most popular": 4, "EASE (linear)": 4, "CML, one vector": 4, "DPCML, several": 5,
    }  # fmt: skip
    assert figures_of(ours)[0] > figures_of(rows["most popular"])[0]
    # What is shown of the user is what was planted, and what the user took.
    shop = made(300, 300, 6_000, seed=0)
    planted = shop.interests_of(12)
    for name, share in planted.items():
        assert re.search(rf"{name} +{100 * share:.0f} %", output)
    why = r'Why .+? Rank \d+; without the taste "like .+" it would be rank \d+\.'
    assert re.search(why, " ".join(output.split()))
    assert len(lines) <= 65
    assert text_of("--user", "12", "--trials", "4") == output


def test_the_models_see_clicks_and_titles_alone():
    shop = ts.synthetic.shop(n_users=100, n_items=100, n_interactions=1_500)
    world = _World("a shop", shop.interactions, shop)
    assert world.clicks.item_attributes.columns == ["item", "title"]
    # The metrics by category are told the planted taste of each item.
    assert world.groups["taste"].to_list() == [shop.categories[taste] for taste in shop.item_category]
    assert world.categories.of([5]) == [[shop.categories[shop.item_category[5]]]]


def test_the_user_of_the_shop_has_the_planted_tastes():
    shop = ts.synthetic.shop(n_users=300, n_items=300, n_interactions=6_000, seed=1)
    user = _find(_World("a shop", shop.interactions, shop), None)
    planted, items = shop.interests_of(user), shop.interactions.items_of(user)
    tastes = [shop.categories[shop.item_category[item]] for item in items]
    assert len(planted) >= 3
    assert sum(abs(tastes.count(name) / len(tastes) - share) for name, share in planted.items()) < 0.2


@pytest.mark.slow
def test_a_named_data_set(dataset_dir):
    dataset_dir("ml-100k")
    output = text_of("--dataset", "ml-100k", "--trials", "3")
    assert "938 users" in output
    assert "Drama" in output


def test_the_user_of_a_data_set_has_several_categories():
    """Of three users with histories of the same length the one whose items are spread over the categories."""
    rows = [(user, item) for user, items in {"a": "pqrs", "b": "ptuv", "c": "qrst"}.items() for item in items]
    genres = dict(zip("pqrstuv", ("Drama", "Drama", "Drama", "Drama", "Comedy", "War", "Horror"), strict=True))
    data = ts.Interactions.from_frame(
        pl.DataFrame(rows, schema=["user", "item"], orient="row"),
        item_attributes=pl.DataFrame({"item": list(genres), "genres": list(genres.values())}),
    )
    world = _World("by hand", data)
    assert _find(world, None) == "b"
    assert _find(world, "c") == "c"


@pytest.mark.slow
def test_the_recipe_is_first_and_finds_the_planted_tastes_on_another_seed():
    shop = ts.synthetic.shop(seed=11)
    world = _World("a shop", shop.interactions, shop)
    test, known = ts.split.per_user(world.clicks, (0.2, 0.8), seed=11)
    found = world.measured(ts.fit(known, trials=_TRIALS, seed=11), test)
    assert found["TasteRecovery"] >= 0.6
    for title, name, settings in _MODELS:
        other = world.measured(_best([ts.models.create(name, **one) for one in settings], known, 11), test)
        for metric in other.keys() - {"Coverage@10"}:
            assert found[metric] > other[metric], (title, metric)
