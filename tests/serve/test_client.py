"""The typed client: every call gives what the library gives, or an error with its code."""

import sys

import httpx
import pytest

import tastespace as ts
from tastespace.client import Client, Event, ServerError
from tastespace.errors import ParameterError


@pytest.fixture
def client(client_of):
    return over(client_of())


def over(test_client):
    """A client whose requests go to an application in this process."""

    def handle(request: httpx.Request) -> httpx.Response:
        answer = test_client.request(
            request.method, str(request.url.raw_path, "ascii"), content=request.content, headers=dict(request.headers)
        )
        kept = {name: value for name, value in answer.headers.items() if name != "content-encoding"}
        return httpx.Response(answer.status_code, content=answer.content, headers=kept)

    return Client("http://testserver", transport=httpx.MockTransport(handle), retries=1)


def test_lists(client, saved_models):
    model = ts.load(saved_models["dpcml"])
    found = client.recommend(7, 5, diversity=0.5, filter="year >= 1980", exclude=[3], boost={0: 2.0})
    mask = (model.train_.item_attributes["year"] >= 1980) & (model.train_.items.series != 3)
    expected = model.recommend(7, k=5, diversity=0.5, filter=mask, boost={0: 2.0})
    assert [one.item for one in found.items] == expected["item"].to_list()
    assert [one.score for one in found.items] == expected["score"].to_list()
    assert found.items[0].because[0].item in model.train_.items_of(7)
    assert [one.user for one in client.recommend_all([7, 9], because=False)] == [7, 9]
    (new,) = client.recommend_for([[3, 7]], k=4)
    assert [one.item for one in new.items] == model.recommend_for([[3, 7]], k=4)["item"].to_list()
    assert client.recommend(9999, on_unknown="popular").fallback == "popular"


def test_tastes(client, saved_models):
    model = ts.load(saved_models["dpcml"])
    assert [one.name for one in client.shelves(7, 4)] == [one.name for one in model.shelves(7, k=4)]
    assert [one.muted for one in client.shelves(7, mute=[1])].count(True) == 1
    assert client.shelves_for([3, 7, 9])[0].items[0].rank == 1
    assert client.explain(7, 20).rank == model.explain(7, 20).rank
    assert [one.item for one in client.similar(5, 3)] == model.similar_items(5, k=3)["similar"].to_list()
    assert client.search("film 17")[0].title.startswith("Film no. 17")


def test_interests_audience_users_and_map(client, saved_models):
    model = ts.load(saved_models["dpcml"])
    found = client.interests(7)
    assert sorted(one.interest for one in found) == [0, 1, 2]
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert {past.item for one in found for past in one.items} <= set(model.train_.items_of(7))
    assert [one.muted for one in client.interests(7, mute=[1])].count(True) == 1
    assert {past.item for one in client.interests_for([3, 7]) for past in one.items} <= {3, 7}
    near, space = client.audience(5, 4), model.vectors()
    gaps = ((space.user_vectors - space.item_vectors[5]) ** 2).sum(axis=1)
    assert [one.distance for one in near] == pytest.approx(
        [gaps[space.user_offsets[one.user] : space.user_offsets[one.user + 1]].min() for one in near], rel=1e-5
    )
    assert len(near) == 4
    assert client.users("Person 17")[0].user == model.train_.users[17]
    assert len(client.users(limit=3)) == 3
    plane = client.map()
    assert plane.items == model.train_.items.series.to_list()
    assert len(plane.x) == len(plane.y) == len(plane.category) == len(plane.titles) == model.train_.n_items


def test_feedback_and_profiles(client):
    event = Event(7, 3, time="2024-05-01T12:00:00Z")
    assert client.feedback([event, (8, 3)]).stored == 2
    assert client.feedback([event]).duplicates == 1
    assert client.set_profile(7, mute=[1], boost={0: 2.0}) == client.profile(7)
    assert client.profile(7).boost == {0: 2.0}
    assert client.profile(7).dropped == []
    assert client.model()["class"] == "DPCML"
    assert client.reload()["generation"] == 1
    assert client.is_ready()


def test_ids_with_slashes(client_of, saved_models):
    client, model = over(client_of("text")), ts.load(saved_models["text"])
    assert [one.items for one in client.shelves("u/7")] != []
    assert client.explain("u/7", "i 20").rank == model.explain("u/7", "i 20").rank


def test_errors(client, monkeypatch):
    with pytest.raises(ServerError, match="there is no user") as refused:
        client.recommend(9999)
    assert (refused.value.status, refused.value.code) == (404, "unknown_user")
    assert "on_unknown=popular" in refused.value.advice
    with pytest.raises(ServerError, match="does not answer") as silent:
        Client("http://127.0.0.1:1", retries=0).model()
    assert silent.value.status == 0
    assert not Client("http://127.0.0.1:1").is_ready()
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ParameterError, match="the serve extra"):
        Client()


def test_requests_are_sent_again():
    answers = iter([httpx.Response(503, headers={"retry-after": "0"}), httpx.Response(200, json={"class": "EASE"})])

    def handle(request: httpx.Request) -> httpx.Response:
        return next(answers)

    assert Client("http://x", transport=httpx.MockTransport(handle)).model() == {"class": "EASE"}
