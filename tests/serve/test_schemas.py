"""Options of lists over HTTP: those of Python, in queries, bodies, the answers behind them and the client."""

from dataclasses import fields
from inspect import signature

import pytest

from tastespace.answers.lists import AnswerOptions
from tastespace.answers.requests import FIELD_NAMES, ListQuery, as_field
from tastespace.client import Client, RequestKeywords
from tastespace.errors import Argument, Call
from tastespace.models.list_options import ListOptions
from tastespace.serve.schemas import ListBody

OF_THE_SERVER = {
    "profile": "mute and boost of a request replace the profile",
    "titles": "items always have their titles",
    "threads": "the server divides the cores between requests",
    "index": "the server chooses the index",
}
"""Options that requests do not have, and why."""
OF_REQUESTS = {"exclude", "because"}
"""Fields that Python has elsewhere: rules, and explanations."""


@pytest.mark.parametrize("schema", [ListQuery, ListBody])
def test_requests_have_each_option(schema):
    other_names = {**FIELD_NAMES, "exclude_seen": "include_seen"}
    expected = {other_names.get(one.name, one.name) for one in fields(ListOptions) if one.name not in OF_THE_SERVER}
    own = {"model", "session"} if schema is ListQuery else set()
    missing = {"rules"} if schema is ListQuery else set()  # too long for a query
    names = {one.name for one in fields(schema)} if schema is ListQuery else set(schema.__struct_fields__)
    assert names == (expected - missing) | OF_REQUESTS | own


def test_answers_have_each_option():
    added = {one.name for one in fields(AnswerOptions)} - {one.name for one in fields(ListOptions)}
    assert added == OF_REQUESTS | {"rules_key"}
    plain = AnswerOptions(k=3, mix="scaled", column="genres").for_ranking(None)
    assert plain == ListOptions(k=3, mix="scaled", column="genres", profile=False, threads=1)


def test_options_with_equal_factors_are_equal():
    one, other = AnswerOptions(boost={0: 2.0, 1: 3.0}), AnswerOptions(boost={1: 3.0, 0: 2.0})
    assert (one, hash(one)) == (other, hash(other))
    assert one != AnswerOptions(boost={0: 2.0})
    assert AnswerOptions(rules=None, rules_key=1) != AnswerOptions(rules=None, rules_key=2)


def test_the_client_has_each_field():
    assert set(RequestKeywords.__annotations__) == {*ListBody.__struct_fields__, "model", "session"} - {"k"}
    for method in (Client.recommend, Client.recommend_all, Client.recommend_for, Client.recommend_with):
        assert signature(method).parameters["options"].annotation == "Unpack[RequestKeywords]"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Argument("on_unknown", "popular"), "on_unknown=popular"),
        (Argument("items"), "include"),
        (Argument("mute", [1]), "mute=[1]"),
        (Argument("boost", {2: 1.5}), 'boost={"2": 1.5}'),
        (Argument("filter", "x" * 200), "filter=" + "x" * 76 + " ..."),
        (Call("model.interests(user)"), "GET /v1/users/{user}/interests"),
        (Call("model.save"), "model.save"),
    ],
)
def test_errors_name_fields(part, expected):
    assert as_field(part) == expected


def test_a_refused_mix_is_worded_for_http(shared_client):
    refused = shared_client.get("/v1/users/7/recommendations?mix=nearest&diversity=0.5")
    assert refused.status_code == 422
    assert refused.json()["error"]["message"].startswith("mix=nearest is the plain list, which has no diversity=0.5.")


def test_a_column_calibrates(shared_client):
    def items(query):
        found = shared_client.get(f"/v1/users/7/recommendations?k=10{query}").json()
        return [one["item"] for one in found["items"]]

    assert items("&column=interest") == items("&mix=calibrated&column=interest") != items("")
    refused = shared_client.get("/v1/users/7/recommendations?column=nothing").json()["error"]
    assert refused["message"].startswith("column=nothing: expected an item attribute")
