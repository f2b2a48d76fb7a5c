"""Answers for the page are those of the model, in plain JSON."""

import json

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.answers._page import PageAnswers
from tastespace.answers.catalog import Catalog, one_category
from tastespace.errors import ParameterError, UnknownIdError

from .conftest import EVIL


@pytest.fixture
def answers(requests):
    return requests.main


def test_lists_are_those_of_the_model(answers, page_model):
    frame = page_model.recommend(7, 12, diversity=0.4, mute=[1], titles=True)
    items = answers.recommendations(7, k=12, diversity=0.4, mute=[1])["items"]
    for name in ("item", "rank", "score", "interest", "title"):
        assert [one[name] for one in items] == frame[name].to_list()
    few = frame["item"].to_list()[2:6]
    assert {one["item"] for one in answers.recommendations(7, items=few)["items"]} == set(few)
    assert few[0] not in [one["item"] for one in answers.recommendations(7, k=50, exclude=few)["items"]]
    new = page_model.recommend_for([[3, 17]], 5)
    assert [one["item"] for one in answers.recommendations(history=[3, 17], k=5)["items"]] == new["item"].to_list()


def test_shelves_interests_and_explanations_are_those_of_the_model(answers, page_model):
    shelves = page_model.shelves(7, 6, boost={0: 2.0})
    found = answers.shelves(7, k=6, boost={0: 2.0})["shelves"]
    assert [[item["item"] for item in one["items"]] for one in found] == [one.items for one in shelves]
    assert [[item["item"] for item in one["reasons"]] for one in found] == [one.because for one in shelves]
    interests = answers.interests(7)
    names = {one["interest"]: one["name"] for one in interests["interests"]}
    assert [one["name"] for one in found] == [names[one.interest] for one in shelves]  # one name in all answers
    frame = page_model.interests(7, 5)
    assert [one["interest"] for one in interests["interests"]] == frame["interest"].to_list()
    assert [one["share"] for one in interests["interests"]] == frame["weight"].to_list()
    assert sorted(one["item"] for one in interests["history"]) == sorted(page_model.train_.items_of(7))
    assert all(-1 <= one["x"] <= 1 and -1 <= one["y"] <= 1 for one in interests["interests"])
    item = found[0]["items"][0]["item"]
    why = answers.explanation(7, item)
    assert why["text"] == page_model.explain(7, item, words=True)
    assert [one["item"] for one in why["because"]] == [one for one, _, _ in page_model.explain(7, item, 3).beside]
    assert [one["item"] for one in why["because"]] == [one["item"] for one in found[0]["items"][0]["because"]]


def test_profiles_are_told(town):
    model = ts.DPCML(dim=8, n_interests=3, epochs=2, threads=1).fit(town.interactions, progress=False)
    told = PageAnswers(model.mute(7, [2]).boost(7, {0: 2.0})).interests(7)["interests"]
    assert {one["interest"]: (one["muted"], one["boost"]) for one in told} == {
        0: (False, 2.0), 1: (False, 1.0), 2: (True, 1.0),
    }  # fmt: skip
    assert {one["interest"] for one in PageAnswers(model).recommendations(7, k=40)["items"]} <= {0, 1}
    assert 2 in {one["interest"] for one in PageAnswers(model).recommendations(7, k=40, mute=[], boost={})["items"]}


def test_everything_is_json_and_about_says_what_the_model_can(requests, ease):
    about = requests.about()
    assert about["can"]["shelves"]
    assert about["can"]["fold_in"]
    assert about["compare"]["class"] == "EASE"
    assert not about["compare"]["can"]["shelves"]
    assert about["compare"]["can"]["explain"]
    for found in (about, requests.main.map(), requests.main.shelves(7), requests.main.explanation(7, 3)):
        assert json.loads(json.dumps(found, allow_nan=False)) == found
    places = requests.main.map()
    assert {len(places[name]) for name in ("items", "titles", "x", "y", "category", "popularity")} == {200}
    assert EVIL in places["titles"]


def test_people_and_items_are_found(answers, page_model):
    examples = answers.users(limit=5)["users"]
    shares = page_model.interests(examples[0]["user"])["weight"].to_list()
    assert max(shares) < 0.6  # someone with several interests
    assert next(one["user"] for one in answers.users("12")["users"]) == 12
    assert all("12" in str(one["user"]) for one in answers.users("12")["users"])
    counts = page_model.train_.item_counts
    popular = [one["popularity"] for one in answers.search("")["items"]]
    assert popular[0] == counts.max()
    assert popular == sorted(popular, reverse=True)
    assert all("jazz" in one["title"].lower() for one in answers.search("JAZZ no")["items"])
    assert answers.search("nothing has this")["items"] == []
    named = ts.Interactions.from_frame(
        pl.DataFrame({"user": ["u1", "u1", "u2"], "item": ["a", "b", "a"]}),
        user_attributes=pl.DataFrame({"user": ["u1", "u2"], "name": ["Ann", "Bob"]}),
    )
    by_name = PageAnswers(ts.models.create("popular").fit(named)).users("bo")["users"]
    assert by_name == [{"user": "u2", "name": "Bob", "n_items": 1}]


def test_bad_requests_say_what_is_wrong(requests, page_model, monkeypatch):
    for path in ("/v1/users/9999/recommendations", "/v1/users/7/explanations/999", "/v1/no"):
        status, found = requests.answer("GET", path)
        assert status == 404
        assert found["error"]["message"]
    for path in ("/v1/users/nobody/shelves", "/v1/users/7/explanations/x"):
        status, found = requests.answer("GET", path)
        assert (status, found["error"]["code"]) == (422, "wrong_id_type")  # as from the server
    for method, path, query, body in [
        ("GET", "/v1/users/7/recommendations", {"k": "0"}, None),
        ("GET", "/v1/users/7/recommendations", {"k": "many"}, None),
        ("GET", "/v1/users/7/shelves", {"mute": "0,1,2"}, None),
        ("POST", "/v1/shelves", {}, {"history": []}),
    ]:
        assert requests.answer(method, path, query, body)[0] == 422
    assert requests.answer("POST", "/v1/recommendations", {}, {"histories": [["3"]]})[0] == 422
    with pytest.raises(UnknownIdError, match="no user true"):
        requests.main.recommendations(True)
    monkeypatch.setattr(type(page_model), "_fold_in", lambda *_: None)
    with pytest.raises(ParameterError, match="fold-in"):
        requests.main.recommendations(history=[3, 4, 5])
    monkeypatch.undo()
    assert requests.answer("GET", "/v1/users/7/recommendations", {"model": "compare", "k": "3"})[1]["items"]


def test_one_category_for_each_item(town):
    names, codes = one_category(pl.Series([["Drama"], ["Drama", "War"], [], None, ["Drama"], ["Drama", "Drama"]]))
    assert [names[code] if code >= 0 else None for code in codes] == ["Drama", "War", None, None, "Drama", "Drama"]
    catalog = Catalog(ts.MostPopular().fit(town.interactions))
    genres = town.interactions.item_attributes["genres"].to_list()
    assert catalog.categories_at(np.arange(200)) == [one[0] for one in genres]
