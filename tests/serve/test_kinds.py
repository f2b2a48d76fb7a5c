"""Kinds of events over HTTP: dislikes are in no list, from the next one on and after an update."""

import httpx
import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli.app import app
from tastespace.serve.feedback.store import Cursor, FeedbackEvent, open_feedback_store
from tastespace.serve.feedback.training import feedback_for


def listed(client, user, k=150):
    return [one["item"] for one in client.get(f"/v1/users/{user}/recommendations?k={k}").json()["items"]]


def send(client, *events):
    answer = client.post(
        "/v1/feedback", json={"events": [{"user": user, "item": item, "kind": kind} for user, item, kind in events]}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["dpcml", "ease", "popular"])
def test_a_dislike_leaves_the_lists_at_once_and_for_good(name, client_of, model_at, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = client_of(name, store=store)
    first = listed(client, 7)
    send(client, (7, first[0], "dislike"))
    assert first[0] not in listed(client, 7)
    assert first[0] in listed(client, 8) or first[0] in ts.load(model_at(name)).train_.items_of(8)
    shelves = client.get("/v1/users/7/shelves?k=50")
    assert shelves.status_code in (200, 422)
    assert all(first[0] != one["item"] for shelf in shelves.json().get("shelves", ()) for one in shelf["items"])
    client.close()
    out = tmp_path / "new.model"
    command = ["update", str(model_at(name)), "--feedback", store, "--out", str(out)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert first[0] not in ts.load(out).recommend(7, k=150, exclude_seen=False)["item"].to_list()


def test_the_last_of_like_and_dislike_holds(client, saved_models):
    first = listed(client, 7)
    send(client, (7, first[0], "dislike"), (7, first[1], "purchase"))
    send(client, (7, first[0], "purchase"), (7, first[1], "dislike"))
    history = {one["item"] for one in client.get("/v1/users/7/interests").json()["history"]}
    assert first[0] in history
    assert first[1] not in history
    assert not {first[0], first[1]} & set(listed(client, 7))
    assert client.get("/v1/users/somebody-new/recommendations").status_code in (404, 422)


@pytest.mark.parametrize("name", ["dpcml", "ease"])
def test_a_dislike_is_taken_back(name, client_of, model_at, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = client_of(name, store=store)
    first = listed(client, 7)
    send(client, (7, first[0], "undo"))  # of nothing
    send(client, (7, first[1], "view"), (7, first[0], "dislike"), (7, first[2], "dislike"))
    assert not {*first[:3]} & {*listed(client, 7)}
    send(client, (7, first[0], "undo"))
    assert first[0] in listed(client, 7)
    assert not {*first[1:3]} & {*listed(client, 7)}
    client.close()
    opened = open_feedback_store(store)
    found = feedback_for(opened, ts.load(model_at(name)), "")
    opened.close()
    assert found.data.dislikes["item"].to_list() == [first[2]]
    assert (found.data.n_interactions, found.n_events, found.n_other, found.n_unreadable) == (1, 5, 0, 0)


def test_a_new_users_dislikes(client):
    send(client, (9_001, 3, "dislike"))
    assert client.get("/v1/users/9001/recommendations").status_code == 404  # no history
    send(client, (9_001, 4, "view"))
    assert 3 not in listed(client, 9_001)


def test_an_unknown_kind_is_refused_with_the_known_ones(client):
    answer = client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "kind": "steal"}]})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "unknown_kind"
    assert "dislike" in answer.json()["error"]["advice"]


def test_kinds_are_learned_with_the_weights_of_the_model(tmp_path, town_data):
    rows = pl.DataFrame(town_data.to_frame()).with_columns(event=pl.lit("view"))
    model = ts.EASE().fit(rows, kind="event", events={"view": 1, "purchase": 7, "hide": -1, "ping": 0})
    store = open_feedback_store(str(tmp_path / "feedback.sqlite"))
    kinds = ["purchase", "hide", "ping", "", "steal"]
    store.append([FeedbackEvent(7, 100 + at, kind, kind=kind) for at, kind in enumerate(kinds)])
    found = feedback_for(store, model, "")
    assert store.changes(Cursor()).events[0].kind == "purchase"
    store.close()
    assert (found.n_events, found.n_unreadable, found.n_other) == (5, 1, 0)
    assert found.data.weights.tolist() == [7.0, 1.0]
    assert found.data.dislikes.rows() == [(7, 101)]
    assert found.data.events == model.train_.events


def test_a_store_of_an_earlier_version_is_read(tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "old.sqlite") as old:
        old.execute(
            "CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, user_id TEXT NOT NULL,"
            " item_id TEXT NOT NULL, weight REAL NOT NULL, time TEXT NOT NULL, UNIQUE (user_id, event_id)) STRICT"
        )
        old.execute("INSERT INTO events (event_id, user_id, item_id, weight, time) VALUES ('a', '7', '3', 1.0, '')")
    old.close()
    store = open_feedback_store(str(tmp_path / "old.sqlite"))
    store.append([FeedbackEvent(7, 4, "b", kind="dislike")])
    assert [one.kind for one in store.changes(Cursor()).events] == ["", "dislike"]
    store.close()


def test_the_client_sends_kinds(client_of):
    from tastespace.client import Client, Event

    inner = client_of()

    def answer(request: httpx.Request) -> httpx.Response:
        path, headers = request.url.raw_path.decode(), {"content-type": "application/json"}
        found = inner.request(request.method, path, content=request.content, headers=headers)
        return httpx.Response(found.status_code, content=found.content)

    with Client(transport=httpx.MockTransport(answer)) as client:
        worst = client.recommend(7, k=1).items[0].item
        assert client.feedback([Event(7, worst, kind="dislike")]).stored == 1
        assert worst not in [one.item for one in client.recommend(7, k=150).items]
