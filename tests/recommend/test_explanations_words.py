"""Explanations as sentences: which past items they name, and whether their numbers are true."""

from __future__ import annotations

import re

import polars as pl
import pytest
from tests.recommend.toy_models import Given, space_of, taken

from tastespace import EASE, Blend
from tastespace.errors import ParameterError
from tastespace.recommend.wording import ENGLISH

pytestmark = pytest.mark.usefixtures("one_core")

EXACT = {
    **ENGLISH,
    "two": dict.fromkeys(("zero", "one", "other"), "2|{first}|{second}|{others}|{others_any}"),
    "one": dict.fromkeys(("zero", "one", "other"), "1|{first}|{others}|{others_any}"),
    "none": dict.fromkeys(("zero", "one", "other"), "0|{others}|{others_any}"),
}


def histories(data):
    """Sets of items by user, from the frame."""
    return dict(data.to_frame().group_by("user").agg("item").iter_rows())


def others(data, user, item, named):
    """Users other than ``user`` who took the item and all that is named, and at least one of it: counted plainly."""
    mine = [set(taken) for one, taken in histories(data).items() if one != user and item in taken]
    return sum(set(named) <= one for one in mine), sum(bool(set(named) & one) for one in mine)


@pytest.mark.parametrize("kind", ["vectors", "evidence", "blend"])
def test_numbers_are_true(dpcml, ease, shop, kind):
    model = {"vectors": dpcml, "evidence": ease, "blend": Blend.of([dpcml, ease], [0.6, 0.4], threads=1)}[kind]
    id_of = {title: item for item, title in shop.item_attributes.select("item", "title").iter_rows()}
    for user in ("u003", "u040"):
        for item in [*model.recommend(user, k=8)["item"], shop.items[7], shop.items_of(user)[0]]:
            found = model.explain(user, item)
            sentence = model.explain(user, item, words=True, wording=EXACT)
            assert sentence.endswith(" You have this already.") == found.seen
            number, *titles, n_all, n_any = sentence.removesuffix(" You have this already.").split("|")
            named = [id_of[title] for title in titles]
            assert len(named) == int(number)
            first_two = [one for one, _, _ in found.because or found.beside][:2]
            assert set(named) <= set(first_two)
            assert named
            assert (int(n_all), int(n_any)) == others(shop, user, item, named)
            assert bool(found.because) == (kind != "vectors")


def test_a_sentence_for_customers(ease, shop):
    best = ease.recommend("u003", k=1)["item"][0]
    found = ease.explain("u003", best)
    (first, a, _), (second, b, _) = found.because[:2]
    n = others(shop, "u003", best, [first, second])[0]
    assert n > 1
    assert ease.explain("u003", best, words=True) == f"Because you took {a} and {b}, like {n} others who took this."
    assert ease.explain("u003", best, 1, words=True).startswith(f"Because you took {a}, like ")
    mine = shop.items_of("u003")[0]
    assert ease.explain("u003", mine, words=True).endswith(". You have this already.")


# Ann took a and b. a with x: bob, cem; b with x: bob; y: only dan, who has neither; z: nobody.
TOWN = {"ann": "ab", "bob": "abx", "cem": "ax", "dan": "y", "eve": "by"}


def placed(histories=TOWN, items="abxyz", positions=None, **rest):
    positions = positions or {"a": 0, "b": 1, "x": 0.4, "y": 2, "z": 3}
    users = [[[0.0]] for _ in histories]
    return Given(space_of(users, [[positions[item]] for item in items])).fit(taken(histories, list(items), **rest))


def test_one_past_item_is_named_where_nobody_took_both():
    assert placed().explain("ann", "x", words=True) == "Because you took a and b, like one other who took this."
    without_bob = {**TOWN, "bob": "ab"}
    assert placed(without_bob).explain("ann", "x", words=True) == "Because you took a, like one other who took this."
    # b is nearer to y, and eve took b and y; nobody took a and y.
    assert placed().explain("ann", "y", words=True) == "Because you took b, like one other who took this."
    assert placed().explain("ann", "z", words=True) == "Because you took b and a."


def test_users_of_one_item():
    one = placed({**TOWN, "ann": "a"})
    assert one.explain("ann", "x", words=True) == "Because you took a, like 2 others who took this."
    assert one.explain("ann", "a", words=True) == "2 others took this. You have this already."  # bob and cem
    model = EASE(threads=1).fit(taken({**TOWN, "zoe": "a"}, "abxyz"))
    assert model.explain("zoe", "z", words=True) == "Nobody else has taken this yet."


def test_new_users_are_compared_with_those_of_training(ease, shop):
    """Their ids are their own: a new user 'u003' is not the one in the training data."""
    for user in ("zoe", "u003"):
        new = ease.fold_in({user: ["i05", "i41", "i77"]})
        best = new.recommend(user, k=1)["item"][0]
        sentence = new.explain(user, best, words=True, wording=EXACT)
        number, *titles, n_all, n_any = sentence.split("|")
        id_of = {title: item for item, title in shop.item_attributes.select("item", "title").iter_rows()}
        assert int(number) >= 1
        assert (int(n_all), int(n_any)) == others(shop, None, best, [id_of[title] for title in titles])


def test_titles_where_there_are_some():
    attributes = pl.DataFrame({"item": ["a", "b", "x"], "title": ["Alien {1}", None, "X"]})
    sentence = placed(item_attributes=attributes).explain("ann", "x", words=True)
    assert sentence == "Because you took Alien {1} and b, like one other who took this."
    twins = pl.DataFrame({"item": ["a", "b"], "title": ["Twin", "Twin"]})
    sentence = placed(item_attributes=twins).explain("ann", "x", words=True)
    assert sentence == "Because you took Twin, like 2 others who took this."
    numbers = {user: [ord(item) for item in items] for user, items in TOWN.items()}
    model = Given(space_of([[[0.0]]] * 5, [[0], [1], [0.4], [2], [3]])).fit(taken(numbers, [97, 98, 120, 121, 122]))
    assert model.explain("ann", 120, words=True) == "Because you took 97 and 98, like one other who took this."


def test_mistakes_are_refused(ease, popular):
    with pytest.raises(ParameterError, match="wording= chooses the sentences of words=True: give both"):
        ease.explain("u003", "i41", wording=ENGLISH)
    with pytest.raises(ParameterError, match="MostPopular has no explanations"):
        popular.explain("u003", "i41", words=True)
    with pytest.raises(ParameterError, match=re.escape("lacks the placeholder {first}")):
        ease.explain("u003", "i41", words=True, wording={**ENGLISH, "name_one": "x"})
