"""Deleted users and changed items: over HTTP, on the command line, at once, after a restart, and in the next model."""

import json

import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli.app import app
from tastespace.serve.feedback.store import Cursor, FeedbackEvent, open_feedback_store
from tastespace.serve.served_model import model_checksum
from tastespace.serve.settings import ServerSettings
from tastespace.serve.state import ServerState
from tastespace.serve.tokens import add_token


def items_of(client, user, k=10, query=""):
    answer = client.get(f"/v1/users/{user}/recommendations?k={k}{query}")
    assert answer.status_code == 200, answer.text
    return [one["item"] for one in answer.json()["items"]]


def send(client, *pairs):
    answer = client.post("/v1/feedback", json={"events": [{"user": user, "item": item} for user, item in pairs]})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", ["dpcml", "ease", "popular"])
def test_a_deleted_user_is_gone_at_once_and_begins_anew(name, client_of, model_at, tmp_path, saved_models):
    store = str(tmp_path / "feedback.sqlite")
    client, other = client_of(name, store=store), client_of(name, store=store)
    model = ts.load(saved_models[name])
    history = model.train_.items_of(7)
    new = [one for one in model.train_.items.series.to_list() if one not in history][:2]
    if name == "dpcml":
        assert client.put("/v1/users/7/profile", json={"mute": [1]}).status_code == 200
    items_of(client, 7)
    items_of(other, 7)  # in its cache
    send(client, (7, new[0]), (5_000, new[0]))
    items_of(client, 5_000, query="&on_unknown=popular")
    answer = client.delete("/v1/users/7").json()
    assert (answer["user"], answer["events"], answer["profile"]) == (7, 1, name == "dpcml")
    assert answer["remains"]["interactions"] == len(history)
    assert "update" in answer["advice"]
    for one in (client, other, client_of(name, store=store)):  # at once, on other workers, after a restart
        assert one.get("/v1/users/7/recommendations").status_code == 404
        assert one.get("/v1/users/7/interests").status_code in (404, 422)
        assert one.get("/v1/users/7/profile").json()["mute"] == []
        assert 7 not in [found["user"] for found in one.get("/v1/users?q=7&limit=200").json()["users"]]
        data = one.get("/v1/users/7/data").json()
        assert data == {"user": 7, "model": None, "events": [], "profile": None, "shown": []}
    assert client.delete("/v1/users/5000").json()["remains"] is None
    assert client.get("/v1/users/5000/recommendations").status_code == 404
    send(client, (7, new[1]))
    if name == "popular":
        return
    for one in (client, other, client_of(name, store=store)):
        assert items_of(one, 7) == model.fold_in({7: [new[1]]}).recommend(7)["item"].to_list()
    assert [event["item"] for event in client.get("/v1/users/7/data").json()["events"]] == [new[1]]


def test_the_next_update_unlearns_a_deleted_user(client_of, model_at, tmp_path):
    store, out = str(tmp_path / "feedback.sqlite"), tmp_path / "new.model"
    client = client_of("ease", store=store)
    old = ts.load(model_at("ease"))
    send(client, (7, 3), (9_000, 4))
    client.delete("/v1/users/7")
    client.delete("/v1/users/8")
    assert client.delete("/v1/items/12").json()["deleted"]
    send(client, (8, 5), (9_000, 12))
    ran = CliRunner().invoke(app, ["update", str(model_at("ease")), "--feedback", store, "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    new = ts.load(out)
    assert new.train_.users.find([7]).tolist() == [-1]
    assert 7 not in new.train_.user_attributes["user"].to_list()
    assert new.train_.items.find([12]).tolist() == [-1]
    assert new.train_.items_of(8) == [5]
    assert new.train_.items_of(9_000) == [4]
    kept = [user for user in old.train_.users.series.to_list() if user not in (7, 8)]
    assert new.train_.items_of(kept[0]) == [one for one in old.train_.items_of(kept[0]) if one != 12]
    rows = pl.DataFrame(old.train_.to_frame()).filter(~pl.col("user").is_in([7, 8]), pl.col("item") != 12)
    more = pl.DataFrame({"user": [8, 9_000], "item": [5, 4]}, schema=rows.select("user", "item").schema)
    fresh = ts.EASE().fit(pl.concat([rows.select("user", "item"), more]))
    assert new.recommend(kept[3])["item"].to_list() == fresh.recommend(kept[3])["item"].to_list()
    # The new model has obeyed: who came back is one of its users, with what it has learned since.
    again = ServerState(ServerSettings(out, store=store, watch_seconds=0))
    assert again.main.slot.people.hidden == set()
    again.close()


def test_events_read_before_a_removal_do_not_outlive_it(postgresql, tmp_path):
    for location in (str(tmp_path / "feedback.sqlite"), postgresql()):
        store, reader = open_feedback_store(location), open_feedback_store(location)
        store.append([FeedbackEvent("ann", "tea", "a"), FeedbackEvent("bob", "tea", "a")])
        first = reader.changes(Cursor())
        assert store.delete_user("ann").events == 1
        store.append([FeedbackEvent("ann", "jam", "a")])
        found = reader.changes(first.cursor)
        assert ([one.user for one in found.removals], [one.item for one in found.events]) == (["ann"], ["jam"])
        assert reader.changes(found.cursor) is None
        assert [one.item for one in reader.changes(Cursor()).events] == ["tea", "jam"]
        assert [one.user for one in store.removed_users()] == ["ann"]
        assert [one["item"] for one in store.user_data("ann").events] == ["jam"]
        store.delete_user("ann")
        assert len(store.removed_users()) == 1  # the last one counts
        store.close()
        reader.close()


@pytest.mark.parametrize("name", ["dpcml", "ease"])
def test_an_item_that_is_not_available_is_in_no_list(name, client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client, other = client_of(name, store=store), client_of(name, store=store)
    first = items_of(client, 7)
    near = [one["item"] for one in client.get(f"/v1/items/{first[1]}/similar").json()["items"]]
    items_of(other, 7)
    assert client.put(f"/v1/items/{first[0]}", json={"available": False}).json()["recommendable"] is False
    assert client.delete(f"/v1/items/{near[0]}").json() == {
        "item": near[0], "available": False, "deleted": True, "is_new": False, "recommendable": False,
    }  # fmt: skip
    gone = {first[0], near[0]}
    for one in (client, other, client_of(name, store=store)):
        assert items_of(one, 7, 9) == [item for item in first if item not in gone][:9] or near[0] not in first
        assert not gone & set(items_of(one, 7, 150, "&because=false"))
        assert not gone & set(items_of(one, 7, 20, "&filter=year>1"))
        assert not gone & set(items_of(one, 70_000, 150, "&on_unknown=popular"))
        assert not gone & {found["item"] for found in one.get(f"/v1/items/{first[1]}/similar").json()["items"]}
        shelves = one.get("/v1/users/7/shelves?k=50").json().get("shelves", [])
        assert not gone & {item["item"] for shelf in shelves for item in shelf["items"]}
    client.put(f"/v1/items/{first[0]}", json={})
    assert items_of(other, 7)[0] == first[0]


@pytest.mark.parametrize("name", ["dpcml", "ease"])
def test_a_new_item_is_recommended_like_those_it_resembles(name, client_of, saved_models):
    client = client_of(name)
    first = items_of(client, 7, 3)
    about = ts.load(saved_models[name]).train_.item_attributes.filter(pl.col("item") == first[0]).to_dicts()[0]
    about = {key: value for key, value in about.items() if key != "item"} | {"year": 2001}
    answer = client.put("/v1/items/99001", json={"attributes": {**about, "title": "Brand new"}}).json()
    assert (answer["is_new"], answer["recommendable"]) == (True, True)
    found = client.get("/v1/users/7/recommendations?k=150").json()["items"]
    (mine,) = [one for one in found if one["item"] == 99001]
    assert (mine["title"], mine["rank"]) == ("Brand new", found.index(mine) + 1)
    assert [one["rank"] for one in found] == list(range(1, 151))
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert 99001 not in items_of(client, 7, 150, "&filter=year<1960")
    assert 99001 not in items_of(client, 7, 150, "&exclude=99001")
    send(client, (7, 99001))
    assert 99001 not in items_of(client, 7, 150)
    assert client.delete("/v1/items/99001").json()["deleted"]
    assert all(99001 not in items_of(client, user, 150) for user in range(5, 12))


def test_a_new_item_without_attributes_is_placed_by_its_first_takers(client_of, saved_models):
    client, model = client_of("ease"), ts.load(saved_models["ease"])
    assert client.put("/v1/items/99002", json={}).json()["recommendable"] is False
    assert 99002 not in items_of(client, 7, 150)
    friends = [user for user in model.train_.users.series.to_list() if user != 7][:60]
    shared = {user: len(set(model.train_.items_of(user)) & set(model.train_.items_of(7))) for user in friends}
    taker = max(shared, key=shared.get)
    send(client, (taker, 99002))
    assert 99002 in items_of(client, 7, 100)
    assert 99002 not in items_of(client, taker, 100)


def test_attributes_of_an_item_follow(client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = client_of(store=store)
    first = items_of(client, 7)
    assert (
        client.put(f"/v1/items/{first[2]}", json={"attributes": {"title": "Renamed", "year": 2199}}).status_code == 200
    )
    client.app.state.look()
    for one in (client, client_of(store=store)):
        assert items_of(one, 7, 5, "&filter=year=2199") == [first[2]]
        assert {"Renamed"} == {
            item["title"] for item in one.get("/v1/users/7/recommendations?filter=year=2199").json()["items"]
        }
        assert items_of(one, 7) == first
    slot = client.app.state.main.slot
    client.app.state.look()
    assert client.app.state.main.slot is slot  # nothing is new


def test_bad_items_and_who_may_change_them(client_of, tmp_path):
    client = client_of()
    for body, code in (
        ({"attributes": {"colour": "red"}}, "unknown_attribute"),
        ({"attributes": {"year": "soon"}}, "wrong_attribute"),
        ({"available": "no"}, "invalid_request"),
        ({"stock": 3}, "invalid_request"),
        ({"attributes": {"title": "x" * 30_000}}, "item_too_large"),
    ):
        answer = client.put("/v1/items/5", json=body)
        assert answer.json()["error"]["code"] == code, answer.text
    assert client.put("/v1/items/five", json={}).json()["error"]["code"] == "wrong_id_type"
    assert client.delete("/v1/items/77777").status_code == 404
    tokens = tmp_path / "tokens.json"
    shop = add_token(tokens, "shop", ["read", "feedback"])
    guarded = client_of("ease", tokens=tokens)
    for method, path in (("DELETE", "/v1/users/7"), ("GET", "/v1/users/7/data"), ("DELETE", "/v1/items/3")):
        assert guarded.request(method, path, headers={"Authorization": f"Bearer {shop}"}).status_code == 403


def test_the_command_line_does_the_same(model_at, tmp_path, client_of):
    store, path = str(tmp_path / "feedback.sqlite"), model_at("ease")
    client = client_of("ease", store=store)
    send(client, (7, 3))

    def run(*words):
        ran = CliRunner().invoke(app, [words[0], str(path), *words[1:], "--store", store])
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    data = json.loads(run("user-data", "7"))
    assert ([one["item"] for one in data["events"]], data["model"]["items"]) == (
        [3], ts.load(path).train_.items_of(7),
    )  # fmt: skip
    assert "1 event" in run("delete-user", "7")
    assert client.get("/v1/users/7/recommendations").status_code == 404
    first = items_of(client, 9)
    run("put-item", str(first[0]), "--unavailable")
    run("delete-item", str(first[1]))
    run("put-item", "99003", "--set", "title=Fresh", "--set", "year=1999")
    assert not set(first[:2]) & set(items_of(client, 9))
    assert client.app.state.store.item(99003).attributes == {"title": "Fresh", "year": 1999}
    ran = CliRunner().invoke(app, ["put-item", str(path), "5", "--set", "colour=red", "--store", store])
    assert ran.exit_code == 2 or "no attribute" in str(ran.exception)


@pytest.mark.parametrize("has_times", [True, False])
def test_fit_leaves_out_who_was_deleted(has_times, tmp_path):
    rows = pl.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": [7, 8, 7, 9, 8, 9], "t": [10, 5_000_000_000] * 3})
    rows.write_parquet(tmp_path / "clicks.parquet")
    location = str(tmp_path / "feedback.sqlite")
    store = open_feedback_store(location)
    store.delete_user(1)
    command = ["fit", str(tmp_path / "clicks.parquet"), "--model", "popular", "--feedback", location, "--valid", "0"]
    times = ["--timestamp", "t"] if has_times else []
    ran = CliRunner().invoke(app, [*command, *times, "--out", str(tmp_path / "new.model")])
    assert ran.exit_code == 0, ran.output
    model = ts.load(tmp_path / "new.model")
    assert model.train_.users.series.to_list() == ([1, 2, 3] if has_times else [2, 3])
    assert model.train_.n_interactions == (5 if has_times else 4)
    assert "1 interaction" in ran.output or "1 user" in ran.output
    assert store.learned(model_checksum(tmp_path / "new.model")).removal == store.removed_users()[-1].number
    store.close()
