"""Pages, popular items, taken together and the next item over HTTP."""

import time

import polars as pl
import pytest

import tastespace as ts
from tastespace.client import Client, Event


@pytest.fixture(scope="module")
def timed(town_data, saved_models, tmp_path_factory):
    """A model of interactions with times, the last of them a day ago."""
    frame = pl.DataFrame(town_data.to_frame()).with_columns(
        at=int(time.time()) - 86_400 - 7_919 * pl.int_range(pl.len())
    )
    data = ts.Interactions.from_frame(frame, timestamp="at", item_attributes=town_data.item_attributes)
    path = tmp_path_factory.mktemp("timed") / "timed.model"
    ts.EASE().fit(data).save(path)
    saved_models["timed"] = path
    return path


@pytest.fixture
def shop(client_of, timed):
    return client_of("timed")


def asked(client, path, **query):
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["dpcml", "ease", "text"])
def test_pages_go_on_without_repeats_while_feedback_arrives(client_of, name):
    client = client_of(name)
    user = "u%2F7" if name == "text" else "7"
    path = f"/v1/users/{user}/recommendations"
    whole = [one["item"] for one in asked(client, path, k=15)["items"]]
    first = asked(client, path, k=5, after="")
    second = asked(client, path, k=5, after=first["next"])
    assert [one["item"] for one in first["items"] + second["items"]] == whole[:10]
    assert [one["rank"] for one in second["items"]] == [6, 7, 8, 9, 10]
    events = [{"user": user.replace("%2F", "/"), "item": item} for item in (whole[0], whole[12])]
    if name != "text":
        events = [{**one, "user": 7} for one in events]
    assert client.post("/v1/feedback", json={"events": events}).status_code == 200
    third = asked(client, path, k=5, after=second["next"])
    shown = [one["item"] for page in (first, second, third) for one in page["items"]]
    assert len(set(shown)) == 15
    assert whole[12] not in shown
    assert asked(client, path, k=5)["next"] is None  # a plain list has no pages
    for wrong, message in (("x", "is no token of a page"), (first["next"][:-3], "is no token of a page")):
        answer = client.get(path, params={"after": wrong})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
        assert message in answer.json()["error"]["message"]
    other = client.get(path.replace("7", "8"), params={"after": first["next"]})
    assert "another user" in other.json()["error"]["message"]


def test_pages_of_a_session_end(shared_client):
    body = {"histories": [[1, 2, 3]], "k": 90, "after": ""}
    shown = []
    for _ in range(3):
        (page,) = shared_client.post("/v1/recommendations", json=body).json()["lists"]
        shown += [one["item"] for one in page["items"]]
        body["after"] = page["next"]
    assert body["after"] is None
    assert sorted([*shown, 1, 2, 3]) == list(range(200))
    answer = shared_client.post("/v1/recommendations", json={"users": [7], "after": ""})
    assert answer.status_code == 422
    assert "after is for one history" in answer.text


def test_items_that_a_user_has_may_be_left_in(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"])
    path = "/v1/users/7/recommendations"
    own = set(model.train_.items_of(7))
    found = [one["item"] for one in asked(shared_client, path, k=50, include_seen="true")["items"]]
    assert own & set(found)
    assert found == model.recommend(7, k=50, exclude_seen=False)["item"].to_list()
    assert not own & {one["item"] for one in asked(shared_client, path, k=50)["items"]}


def test_popular_items_know_the_feedback(shop, timed):
    model = ts.load(timed)
    for query in ({}, {"since": "30d"}, {"trending": "true", "since": "9d"}, {"filter": "year > 2000"}):
        options = {**query, "trending": "trending" in query}
        assert [one["item"] for one in asked(shop, "/v1/popular", k=8, **query)["items"]] == (
            model.popular_items(8, **options)["item"].to_list()
        )
    last = asked(shop, "/v1/popular", k=200)["items"][-1]
    now = [
        {"user": user, "item": last["item"]} for user in range(90) if last["item"] not in model.train_.items_of(user)
    ]
    now += [{"user": 200, "item": 3, "event_id": f"again {at}"} for at in range(200)]  # one person counts once
    assert shop.post("/v1/feedback", json={"events": now}).status_code == 200
    now = now[:-200]
    first = asked(shop, "/v1/popular", k=1, since="1d")["items"][0]
    assert (first["item"], first["users"], first["title"]) == (last["item"], len(now), last["title"])
    assert asked(shop, "/v1/popular", k=1, trending="true")["items"][0]["item"] == last["item"]
    excluded = asked(shop, "/v1/popular", k=1, trending="true", exclude=str(last["item"]))
    assert excluded["items"][0]["item"] != last["item"]


def test_clocks_ahead_move_no_window(shop, timed):
    model = ts.load(timed)
    item = int(model.popular_items(200)["item"][-1])
    shop.post("/v1/feedback", json={"events": [{"user": 5, "item": item, "time": "2150-01-01T00:00:00Z"}]})
    found = [one["item"] for one in asked(shop, "/v1/popular", k=200, since="2d")["items"]]
    assert found == model.popular_items(200, since="2d")["item"].to_list()


def test_taken_together_and_the_next_item(shop, timed):
    model = ts.load(timed)
    found = asked(shop, "/v1/items/7/together", k=5)
    assert [one["item"] for one in found["items"]] == model.taken_together(7, 5)["together"].to_list()
    assert [one["users"] for one in found["items"]] == model.taken_together(7, 5)["users"].to_list()
    assert asked(shop, "/v1/items/7/together", within="1d", filter="year > 2000")["items"] is not None
    answer = shop.post("/v1/next", json={"session": [3, 99_999, 9], "k": 5}).json()
    assert [one["item"] for one in answer["items"]] == model.next_items([3, 9], 5)["item"].to_list()
    assert answer["unknown_items"] == [99_999]
    again = shop.post("/v1/next", json={"session": [3], "k": 200, "include_seen": True, "exclude": [4]}).json()
    assert 3 in [one["item"] for one in again["items"]]
    assert 4 not in [one["item"] for one in again["items"]]
    assert shop.get("/v1/items/99999/together").status_code == 404
    for path, query in (("/v1/popular", {"since": "soon"}), ("/v1/items/7/together", {"within": "-1d"})):
        assert shop.get(path, params=query).status_code == 422
    assert shop.post("/v1/next", json={"session": [99_999]}).status_code == 422
    assert shop.post("/v1/next", json={"session": []}).status_code == 422


def test_rules_of_the_server_hold(client_of, timed, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("exclude = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n")
    client = client_of("timed", rules=rules)
    lists = [asked(client, "/v1/popular", k=200), asked(client, "/v1/items/50/together", k=200)]
    lists.append(client.post("/v1/next", json={"session": [50], "k": 200}).json())
    assert all(one["item"] > 9 for found in lists for one in found["items"])


def test_windows_without_times_are_refused(shared_client):
    answer = shared_client.get("/v1/popular", params={"since": "7d"})
    assert answer.status_code == 422
    assert "popular items of a window need times" in answer.text


def test_the_client_has_them(shop):
    client = Client("http://testserver", transport=shop._transport)
    first = client.recommend_page(7, 4)
    second = client.recommend_page(7, 4, after=first.next or "")
    assert len({one.item for one in (*first.items, *second.items)}) == 8
    assert len(client.popular(3, since="30d")) == len(client.popular(3, trending=True)) == 3
    assert client.together(7, 3)[0].users > 0
    assert len(client.next_items([3, 9], 3)) == 3
    client.feedback([Event(7, 3)])
    assert client.recommend(7, 5, include_seen=True).items
