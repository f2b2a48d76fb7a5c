"""Answers of the API: they equal what the library gives, for every kind of model and request."""

import json
from dataclasses import replace
from urllib.parse import quote

import httpx
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import tastespace as ts
from tastespace.answers.lists import AnswerOptions
from tastespace.errors import ParameterError
from tastespace.ranking.scoring import ScoringIndex
from tastespace.serve.app import create_app
from tastespace.serve.process import checked
from tastespace.serve.settings import ServerSettings


def rows_of(answer):
    return [(one["item"], one["rank"], one["score"]) for one in answer["items"]]


def frame_rows(frame):
    return [(one["item"], one["rank"], one["score"]) for one in pl.DataFrame(frame).iter_rows(named=True)]


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "k": st.integers(1, 60),
        "diversity": st.sampled_from([0.0, 0.3, 1.0]),
        "filter": st.sampled_from(["year >= 1980", "year < 1960 or year > 2010", 'not title contains "1"']),
        "mute": st.sampled_from(["0", "1,2"]),
        "boost": st.sampled_from(["0:2.5", "1:0.5,2:3"]),
        "because": st.booleans(),
    },
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=st.integers(0, 299), options=OPTIONS)
def test_lists_over_http_are_those_of_the_library(shared_client, saved_models, user, options):
    model = ts.load(saved_models["dpcml"])
    answer = shared_client.get(f"/v1/users/{user}/recommendations", params=options)
    assert answer.status_code == 200, answer.text
    arguments = {"k": options.get("k", 10), "diversity": options.get("diversity")}
    if "filter" in options:
        arguments["filter"] = options["filter"]
    if "mute" in options:
        arguments["mute"] = [int(one) for one in options["mute"].split(",")]
    if "boost" in options:
        arguments["boost"] = {int(x): float(f) for x, f in (one.split(":") for one in options["boost"].split(","))}
    expected = model.recommend(user, **arguments)
    found = answer.json()
    assert rows_of(found) == frame_rows(expected)
    assert [one["interest"] for one in found["items"]] == expected["interest"].to_list()
    assert [one["distance"] for one in found["items"]] == expected["distance"].to_list()
    past = set(model.train_.items_of(user))
    for one in found["items"]:
        assert (one["because"] is not None) == options.get("because", True)
        assert {other["item"] for other in (one["because"] or [])} <= past


@pytest.mark.parametrize("name", ["ease", "popular", "text"])
def test_other_models_answer_as_the_library(client_of, saved_models, name):
    client, model = client_of(name), ts.load(saved_models[name])
    for user in model.train_.users.series.to_list()[:5]:
        found = client.get(f"/v1/users/{str(user).replace('/', '%2F')}/recommendations", params={"k": 7}).json()
        assert found["user"] == user
        assert rows_of(found) == frame_rows(model.recommend(user, k=7))
    assert all(one["because"] for one in found["items"]) == (name != "popular")


def test_a_batch_is_the_lists_of_its_users(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"])
    body = {"users": [5, 9, 5, 250], "k": 4, "mix": "proportional", "diversity": 0.5, "exclude": [1, 2, 10**6]}
    found = shared_client.post("/v1/recommendations", json=body).json()["lists"]
    assert [one["user"] for one in found] == body["users"]
    allowed = ~model.train_.items.series.is_in([1, 2]).to_numpy()
    for one in found:
        expected = model.recommend(one["user"], k=4, mix="proportional", diversity=0.5, filter=allowed)
        assert rows_of(one) == frame_rows(expected)


@pytest.mark.parametrize("options", [{}, {"because": False}, {"k": 3}])
def test_the_text_of_a_single_list_says_what_that_of_a_batch_says(client_of, options):
    for kind in ("dpcml", "text", "ease"):
        client = client_of(kind)
        users = client.app.state.main.slot.served.train.users.series.to_list()[:12]
        lists = client.post("/v1/recommendations", json={"users": users, **options}).json()["lists"]
        query = {name: str(value).lower() for name, value in options.items()}
        for user, expected in zip(users, lists, strict=True):
            answer = client.get(f"/v1/users/{quote(str(user), safe='')}/recommendations", params=query)
            assert answer.json() == expected


def test_an_interest_has_one_name_in_all_answers(shared_client):
    for user in range(12):
        told = shared_client.get(f"/v1/users/{user}/interests").json()["interests"]
        names = {one["interest"]: one["name"] for one in told}
        assert len(set(names.values())) == len(names)
        for options in ("", "?k=3", "?filter=year%20>=%201990", f"?mute={told[-1]['interest']}"):
            for shelf in shared_client.get(f"/v1/users/{user}/shelves{options}").json()["shelves"]:
                assert shelf["name"] == names[shelf["interest"]]
        first = shared_client.get(f"/v1/users/{user}/recommendations?k=1").json()["items"][0]
        why = shared_client.get(f"/v1/users/{user}/explanations/{first['item']}").json()
        assert why["interest_name"] == names[why["interest"]]


def test_histories_of_people_nobody_knows(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"])
    histories = [[3, 7, 9], [100], [3, 7, 9]]
    found = shared_client.post("/v1/recommendations", json={"histories": histories, "k": 5}).json()["lists"]
    expected = model.recommend_for(histories, k=5)
    for at, one in enumerate(found):
        assert one["user"] is None
        assert rows_of(one) == frame_rows(expected.filter(pl.col("user") == at))
    popular = shared_client.post(
        "/v1/recommendations", json={"histories": [[], [10**6]], "k": 5, "on_unknown": "popular"}
    )
    assert [one["fallback"] for one in popular.json()["lists"]] == ["popular", "popular"]


def test_include_is_the_only_items(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"])
    wanted = [item for item in (10, 20, 30, 40) if item not in model.train_.items_of(7)]
    answer = shared_client.get("/v1/users/7/recommendations?include=10,20&include=30&include=40")
    assert rows_of(answer.json()) == frame_rows(model.recommend(7, items=wanted))


def test_shelves_and_interests_are_those_of_the_library(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"])
    found = shared_client.get("/v1/users/7/shelves", params={"k": 4, "boost": "1:2"}).json()["shelves"]
    expected = model.shelves(7, k=4, boost={1: 2.0})
    assert [[item["item"] for item in one["items"]] for one in found] == [shelf.items for shelf in expected]
    assert [one["share"] for one in found] == [shelf.weight for shelf in expected]
    muted = shared_client.get("/v1/users/7/shelves", params={"mute": "1,1"}).json()["shelves"]
    assert [(one["interest"], one["items"]) for one in muted if one["muted"]] == [(1, [])]
    assert all(item["interest"] != 1 for one in muted for item in one["items"])

    interests = shared_client.get("/v1/users/7/interests", params={"mute": "1"}).json()
    frame = model.interests(7)
    assert [one["interest"] for one in interests["interests"]] == frame["interest"].to_list()
    assert [one["share"] for one in interests["interests"]] == frame["weight"].to_list()
    assert [one["muted"] for one in interests["interests"]] == [one == 1 for one in frame["interest"].to_list()]
    assert sorted(one["item"] for one in interests["history"]) == sorted(model.train_.items_of(7))
    assert all(-1 <= one["x"] <= 1 and -1 <= one["y"] <= 1 for one in interests["interests"])


def test_a_newcomer_has_shelves_interests_and_explanations(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"]).fold_in([[3, 7, 9, 50]])
    body = {"history": [3, 7, 9, 50]}
    found = shared_client.post("/v1/shelves", json={**body, "k": 3}).json()
    assert found["user"] is None
    assert [[item["item"] for item in one["items"]] for one in found["shelves"]] == [
        shelf.items for shelf in model.shelves(0, k=3)
    ]
    interests = shared_client.post("/v1/interests", json=body).json()
    assert len(interests["history"]) == 4
    explained = shared_client.post("/v1/explanations", json={**body, "item": 20}).json()
    assert explained["rank"] == model.explain(0, 20).rank
    assert explained["text"] == model.explain(0, 20, words=True)


@pytest.mark.parametrize("name", ["dpcml", "ease"])
def test_explanations_are_those_of_the_library(client_of, saved_models, name):
    client, model = client_of(name), ts.load(saved_models[name])
    found = client.get("/v1/users/7/explanations/20").json()
    expected = model.explain(7, 20, 3)
    past = [one for one, _, _ in expected.because or expected.beside]
    assert [one["item"] for one in found["because"]] == past
    assert (found["interest"], found["rank"], found["score"]) == (expected.interest, expected.rank, expected.score)


def test_the_rank_of_an_explanation_is_that_of_the_list(client_of):
    client = client_of()
    assert client.put("/v1/users/7/profile", json={"mute": [0]}).status_code == 200
    for choice in ("", "&mute=1", "&mute=&boost=1:3", "&mute=2&boost=0:2"):
        listed = client.get(f"/v1/users/7/recommendations?k=12{choice}").json()["items"]
        for one in (listed[0], listed[11]):
            why = client.get(f"/v1/users/7/explanations/{one['item']}?k=12{choice}").json()
            assert (why["rank"], why["interest"]) == (one["rank"], one["interest"])
    plain = client.get("/v1/users/7/recommendations?k=40&mute=").json()["items"]
    muted = next(one["item"] for one in plain if one["interest"] == 0)
    assert client.get(f"/v1/users/7/explanations/{muted}").json()["rank"] is None
    assert client.get(f"/v1/users/7/explanations/{muted}?mute=99").status_code == 422


def test_similar_items_and_the_audience(shared_client, saved_models):
    model = ts.load(saved_models["dpcml"])
    found = shared_client.get("/v1/items/5/similar", params={"k": 3}).json()
    assert [one["item"] for one in found["items"]] == model.similar_items(5, k=3)["similar"].to_list()
    audience = shared_client.get("/v1/items/5/audience", params={"k": 4}).json()
    # An independent way: distances of all vectors of all users.
    space, took = model.vectors(), {u for u in range(300) if 5 in model.train_.items_of(u)}
    gaps = ((space.user_vectors - space.item_vectors[5]) ** 2).sum(axis=1)
    nearest = [gaps[space.user_offsets[u] : space.user_offsets[u + 1]].min() for u in range(300)]
    best = sorted((u for u in range(300) if u not in took), key=lambda u: nearest[u])[:4]
    assert [one["user"] for one in audience["users"]] == best
    np.testing.assert_allclose([one["distance"] for one in audience["users"]], [nearest[u] for u in best], rtol=1e-5)


def test_search_finds_titles_and_ids(shared_client):
    found = shared_client.get("/v1/items/search", params={"q": "FILM 17", "limit": 50}).json()["items"]
    assert {one["item"] for one in found} == {17, 117, *range(170, 180)}
    assert found[0]["item"] == 17 or found[0]["popularity"] == max(one["popularity"] for one in found)
    popular = shared_client.get("/v1/items/search").json()["items"]
    assert [one["popularity"] for one in popular] == sorted((one["popularity"] for one in popular), reverse=True)
    assert [one["user"] for one in shared_client.get("/v1/users", params={"q": "Person 29"}).json()["users"]][:2] == [
        29,
        129,
    ]
    assert len(shared_client.get("/v1/users", params={"limit": 3}).json()["users"]) == 3


def test_the_map_has_every_item_once_and_is_kept_by_the_browser(shared_client, saved_models):
    first = shared_client.get("/v1/map")
    found = first.json()
    assert first.headers["content-encoding"] == "gzip"
    assert len(found["items"]) == len(found["titles"]) == len(found["x"]) == len(found["category"]) == 200
    assert max(map(abs, found["x"] + found["y"])) <= 1
    assert set(found["category"]) <= {-1, *range(len(found["categories"]))}
    assert shared_client.get("/v1/map", headers={"if-none-match": first.headers["etag"]}).status_code == 304
    # Neighbors in the space are nearer on the map than others.
    model = ts.load(saved_models["dpcml"])
    places = np.stack([found["x"], found["y"]], axis=1)
    similar = model.similar_items(model.train_.items.series, k=3)
    near = np.linalg.norm(places[similar["item"].to_numpy()] - places[similar["similar"].to_numpy()], axis=1).mean()
    assert near < 0.5 * np.linalg.norm(places[:, None] - places[None], axis=2).mean()


def test_titles_with_html_and_control_characters_stay_text(shared_client, town_data):
    raw = shared_client.get("/v1/items/3/similar")
    assert raw.headers["content-type"] == "application/json"
    assert raw.headers["x-content-type-options"] == "nosniff"
    assert json.loads(raw.content)["title"] == town_data.item_attributes["title"][3]
    assert b"\x00" not in raw.content


def test_the_model_says_what_it_is(client_of):
    found = client_of("dpcml").get("/v1/model").json()
    assert (found["class"], found["n_users"], found["n_items"], found["n_interests"]) == ("DPCML", 300, 200, 3)
    assert found["id_types"] == {"user": "integer", "item": "integer"}
    assert found["metrics"] == {"NDCG@10": 0.5}
    assert found["diversity"] == 0
    assert found["can"]["shelves"]
    assert found["compare"] is None
    linear = client_of("ease").get("/v1/model").json()
    assert (linear["can"]["shelves"], linear["can"]["explain"], linear["has_interests"]) == (False, True, False)


def test_two_models_side_by_side(client_of, model_at, saved_models):
    client = client_of("dpcml", compare=model_at("ease"))
    assert client.get("/v1/model").json()["compare"]["class"] == "EASE"
    found = client.get("/v1/users/7/recommendations", params={"model": "compare"}).json()
    assert rows_of(found) == frame_rows(ts.load(saved_models["ease"]).recommend(7))
    assert client_of("ease").get("/v1/model?model=compare").json()["error"]["code"] == "no_second_model"


def test_requests_at_the_same_time_are_computed_together_and_right(shared_client, saved_models):
    maker = shared_client.app.state.main.slot.lists
    options = AnswerOptions(k=5)
    users = [*range(50), 7, 7]
    together = maker.for_users(users, options)
    for user, one in zip(users, together, strict=True):
        assert one == maker.for_users([user], options)[0]
    assert ScoringIndex(maker.served.model).model is maker.served.model


@pytest.mark.slow
def test_people_with_features(tmp_path, town_data):
    ages = pl.DataFrame({"user": town_data.users.series, "age": [20 + n % 50 for n in range(town_data.n_users)]})
    data = replace(town_data, user_attributes=ages)
    ts.models.create("cml+dn", dim=8, epochs=1, seed=0).fit(data).save(tmp_path / "features.model")
    model = ts.load(tmp_path / "features.model")
    with TestClient(create_app(ServerSettings(tmp_path / "features.model", watch_seconds=0.0))) as client:
        assert client.get("/v1/model").json()["can"]["features"]
        found = client.post("/v1/recommendations", json={"features": [{"age": 31}, {"age": 60}], "k": 4}).json()
        refused = client.post("/v1/recommendations", json={"features": [{"age": [[1]]}]})
    expected = model.recommend_for(features={"age": [31, 60]}, k=4)
    for at, one in enumerate(found["lists"]):
        assert rows_of(one) == frame_rows(expected.filter(pl.col("user") == at))
    assert refused.status_code == 422


def test_lists_have_the_diversity_that_is_stored_with_the_model(client_of, model_at, saved_models):
    model = ts.load(saved_models["dpcml"])
    model.set_served_diversity(0.7).save(model_at("dpcml", "diverse"))
    client = client_of("diverse")

    def items(query, **body):
        if body:
            return [one["item"] for one in client.post("/v1/recommendations", json=body).json()["lists"][0]["items"]]
        return [one["item"] for one in client.get(f"/v1/users/7/recommendations?{query}").json()["items"]]

    diverse, plain = (model.recommend(7, 20, diversity=strength)["item"].to_list() for strength in (0.7, 0.0))
    assert items("k=20") == items("", users=[7], k=20) == diverse != plain
    assert items("k=20&diversity=0") == items("k=20&mix=nearest") == plain
    assert client.get("/v1/model").json()["diversity"] == 0.7


def test_unknown_items_of_a_session_are_left_out_and_reported(shared_client):
    def asked(path, **body):
        answer = shared_client.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    expected, found, plain = asked("recommendations", histories=[[3, 17], [10**6, 3, 17, 10**7], [5]])["lists"]
    assert (expected["unknown_items"], found["unknown_items"], plain["unknown_items"]) == ([], [10**6, 10**7], [])
    assert found["items"] == expected["items"]
    for path in ("shelves", "interests"):
        one, other = asked(path, history=[3, 17]), asked(path, history=[3, 10**6, 17])
        assert (one.pop("unknown_items"), other.pop("unknown_items")) == ([], [10**6])
        assert one == other
    assert asked("explanations", history=[3, 10**6], item=20) == asked("explanations", history=[3], item=20)
    (popular,) = asked("recommendations", histories=[[10**6]], on_unknown="popular")["lists"]
    assert (popular["fallback"], popular["unknown_items"]) == ("popular", [10**6])
    for path, body in (("recommendations", {"histories": [[10**6, 10**7]]}), ("shelves", {"history": [10**6]})):
        answer = shared_client.post(f"/v1/{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_item")


def test_reasons_and_names_come_in_the_words_of_the_server(client_of, running, model_at, saved_models, tmp_path):
    forms = '{ zero = "{first}{second} genommen.", one = "{first}{second}, wie {others}.", other = '
    text = f"""two = {forms}"{{first}} und {{second}}, wie {{others}}." }}
one = {{ zero = "{{first}} genommen.", one = "{{first}}, wie {{others}}.", other = "{{first}}, wie {{others}}." }}
none = {{ zero = "Neu.", one = "Einmal genommen.", other = "{{others}} haben es." }}
seen = "{{item}} ist schon da."
name_two = "wegen {{first}} und {{second}}"
name_one = "wegen {{first}}"
"""
    words = tmp_path / "german.toml"
    words.write_text(text)
    model = ts.load(saved_models["dpcml"])
    bare = tmp_path / "models" / "bare.model"
    model.set_item_attributes(model.train_.item_attributes.drop("genres")).save(bare)
    client = client_of("bare", wording=words)
    item = model.recommend(7, 1)["item"][0]
    expected = model.explain(7, item, words=True, wording=words)
    assert "wie" in expected
    assert client.get(f"/v1/users/7/explanations/{item}").json()["text"] == expected
    names = [one["name"] for one in client.get("/v1/users/7/shelves").json()["shelves"]]
    assert names
    assert all(one.startswith("wegen ") for one in names)
    server = running(bare, "--wording", words, "--store", tmp_path / "own.sqlite")
    assert httpx.get(f"{server.address}/v1/users/7/explanations/{item}").json()["text"] == expected
    words.write_text("two = 1")
    with pytest.raises(ParameterError, match=r"the wording has no|expected a template"):
        checked(ServerSettings(bare, wording=words, store=str(tmp_path / "other.sqlite")))
