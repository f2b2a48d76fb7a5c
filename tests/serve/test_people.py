"""People with feedback: the next list takes it into account, and mutes and boosts stay with their tastes."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.ids import IdMap
from tastespace.recommend.fold_in import folded
from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.store import Cursor, FeedbackEvent, StoredProfile, open_feedback_store
from tastespace.serve.feedback.training import feedback_for
from tastespace.serve.people import PeopleWithFeedback, current_choice


def items_of(answer):
    return [one["item"] for one in answer.json()["items"]]


def with_longer_history(model, user, new):
    """The model for one of its users who took more items, in this order."""
    row = model.train_.users.find([user])
    past = model.train_.indices[slice(*model.train_.offsets[row[0] : row[0] + 2])]
    rows = np.concatenate([past, model.train_.items.find(new)]).astype(np.int32)
    order = np.argsort(rows)
    histories = replace(
        model.train_, users=IdMap(pl.Series("user", [user]), "user"), offsets=np.array([0, len(rows)]),
        indices=rows[order], timestamps=order, weights=None, user_attributes=None,
    )  # fmt: skip
    return folded(model, histories, row)


def test_the_next_list_knows_what_was_just_taken(client, saved_models):
    model = ts.load(saved_models["dpcml"])
    first = items_of(client.get("/v1/users/7/recommendations"))
    events = [{"user": 7, "item": first[0]}, {"user": 7, "item": first[3]}]
    assert client.post("/v1/feedback", json={"events": events}).json()["stored"] == 2
    history = [*model.train_.items_of(7), first[0], first[3]]
    expected = with_longer_history(model, 7, [first[0], first[3]]).recommend(7)
    answer = client.get("/v1/users/7/recommendations")
    assert items_of(answer) == expected["item"].to_list()
    assert [one["score"] for one in answer.json()["items"]] == expected["score"].to_list()
    assert len(client.get("/v1/users/7/interests").json()["history"]) == len(history)
    explained = client.get(f"/v1/users/7/explanations/{first[1]}").json()
    assert explained["rank"] == with_longer_history(model, 7, [first[0], first[3]]).explain(7, first[1]).rank


@pytest.mark.parametrize("kind", ["dpcml", "anchored"])
@pytest.mark.parametrize("user", [7, 8, 9, 30])
def test_a_muted_taste_stays_muted_whatever_else_is_taken(client_of, kind, user):
    client = client_of(kind)
    people = client.app.state.main.slot.people
    muted = client.get(f"/v1/users/{user}/interests").json()["interests"][-1]["interest"]  # a minor one
    (before,) = people.find([user])
    vector = before.model.user_vectors_[before.model.user_offsets_[before.row] + muted].copy()
    client.put(f"/v1/users/{user}/profile", json={"mute": [muted]})
    for _ in range(8):
        taken = items_of(client.get(f"/v1/users/{user}/recommendations?k=1"))
        client.post("/v1/feedback", json={"events": [{"user": user, "item": one} for one in taken]})
        found = client.get(f"/v1/users/{user}/recommendations?k=15").json()["items"]
        assert muted not in {one["interest"] for one in found}
        profile = client.get(f"/v1/users/{user}/profile").json()
        assert (profile["mute"], profile["dropped"]) == ([muted], [])
        (now,) = people.find([user])
        vectors = now.model.user_vectors_[slice(*now.model.user_offsets_[now.row : now.row + 2])]
        assert (vectors[muted] == vector).all()
        shown = now.model.item_vectors_[now.model.train_.items.find([one["item"] for one in found])]
        assert muted not in ((vectors[:, None] - shown) ** 2).sum(axis=2).argmin(axis=0)
        told = client.get(f"/v1/users/{user}/interests").json()
        assert [one["interest"] for one in told["interests"] if one["muted"]] == [muted]


def test_a_new_users_mute_follows_its_taste_or_is_dropped_and_said_to_be(client, saved_models):
    model = ts.load(saved_models["dpcml"])
    folded_in = model.fold_in([model.train_.items_of(user) for user in range(40)])
    seen_same = seen_dropped = 0
    for user in range(40):
        history = model.train_.items_of(user)
        name = 6000 + user
        client.post("/v1/feedback", json={"events": [{"user": name, "item": one} for one in history]})
        before = client.get(f"/v1/users/{name}/interests").json()
        muted = before["interests"][0]["interest"]
        taste = {one["item"] for one in before["history"] if one["interest"] == muted}
        client.put(f"/v1/users/{name}/profile", json={"mute": [muted]})
        taken = folded_in.recommend(user, k=6)["item"].to_list()
        client.post("/v1/feedback", json={"events": [{"user": name, "item": one} for one in taken]})
        told = client.get(f"/v1/users/{name}/interests").json()
        now = [one["interest"] for one in told["interests"] if one["muted"]]
        profile = client.get(f"/v1/users/{name}/profile").json()
        assert profile["mute"] == now
        assert profile["dropped"] == ([] if now else [muted])
        seen_same, seen_dropped = seen_same + bool(now), seen_dropped + (not now)
        for x in now:
            inside = [one["interest"] == x for one in told["history"] if one["item"] in taste]
            assert sum(inside) * 2 > len(inside)
    assert seen_same > seen_dropped


def test_a_list_begun_before_feedback_does_not_decide_what_is_muted_after_it(client, saved_models):
    model = ts.load(saved_models["dpcml"])
    slot = client.app.state.main.slot
    changed = 0
    for user in range(40):
        history, name = model.train_.items_of(user), 7000 + user
        client.post("/v1/feedback", json={"events": [{"user": name, "item": one} for one in history[:10]]})
        client.put(f"/v1/users/{name}/profile", json={"mute": [0]})
        slot.people.refresh()
        (begun,) = slot.people.find([name])
        client.post("/v1/feedback", json={"events": [{"user": name, "item": one} for one in history[10:]]})
        slot.people.refresh()
        before = slot.people.choice(begun)  # what was begun ends after the feedback is known
        (now,) = slot.people.find([name])
        anew = PeopleWithFeedback(slot.served, client.app.state.store).choice(now)
        after = slot.people.choice(now)
        assert (after.profile.muted, after.dropped) == (anew.profile.muted, anew.dropped)
        assert slot.people.choice(begun).profile.muted == before.profile.muted == {0}
        changed += before.profile.muted != after.profile.muted
    assert changed


def test_a_new_user_becomes_known_and_is_not_lost_with_the_process(client_of, model_at, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = client_of(store=store)
    assert client.get("/v1/users/5000/recommendations").status_code == 404
    assert client.get("/v1/users/5000/recommendations?on_unknown=popular").json()["fallback"] == "popular"
    body = {"events": [{"user": 5000, "item": 3}, {"user": 5000, "item": 77}, {"user": 5000, "item": 10**6}]}
    assert client.post("/v1/feedback", json=body).json() == {"stored": 3, "duplicates": 0, "unknown_items": 1}
    model = ts.load(model_at())
    expected = model.fold_in({5000: [3, 77]}).recommend(5000)["item"].to_list()
    assert items_of(client.get("/v1/users/5000/recommendations")) == expected
    assert items_of(client_of(store=store).get("/v1/users/5000/recommendations")) == expected


def test_two_servers_of_one_store_know_what_the_other_was_told(client_of, postgresql):
    store = postgresql()
    one, other = client_of(store=store), client_of(store=store)
    assert other.get("/v1/users/5000/recommendations").status_code == 404
    one.post("/v1/feedback", json={"events": [{"user": 5000, "item": 3}]})
    assert other.get("/v1/users/5000/recommendations").status_code == 200
    one.put("/v1/users/7/profile", json={"mute": [1]})
    assert other.get("/v1/users/7/profile").json()["mute"] == [1]


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\x00\x1b", "\u2028"])
def test_blank_ids_are_refused(client_of, blank):
    client = client_of("text")
    for event in ({"user": blank, "item": "i 3"}, {"user": "u/7", "item": blank}):
        answer = client.post("/v1/feedback", json={"events": [{"user": "u/7", "item": "i 3"}, event]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "blank_id")
        assert "is blank: expected at least one visible character" in answer.json()["error"]["message"]
    assert client.app.state.store.changes(Cursor()) is None


def test_models_without_fold_in_leave_out_what_was_taken(client_of):
    client = client_of("popular")
    first = items_of(client.get("/v1/users/7/recommendations"))
    client.post("/v1/feedback", json={"events": [{"user": 7, "item": first[0]}]})
    assert items_of(client.get("/v1/users/7/recommendations?k=9")) == first[1:]


def test_muted_and_boosted_interests_are_remembered(client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = client_of(store=store)
    put = client.put("/v1/users/7/profile", json={"mute": [1], "boost": {"0": 3.0}})
    assert put.json() == {"user": 7, "mute": [1], "boost": {"0": 3.0}, "dropped": []}
    asked = items_of(client.get("/v1/users/8/recommendations"))
    model = ts.load(client.app.settings.model)
    expected = model.recommend(7, mute=[1], boost={0: 3.0})["item"].to_list()
    again = client_of(store=store)
    assert items_of(again.get("/v1/users/7/recommendations")) == expected
    assert items_of(again.get("/v1/users/8/recommendations")) == asked
    # What a request says replaces the profile.
    plain = items_of(again.get("/v1/users/7/recommendations?mute=&boost="))
    assert plain == items_of(again.get("/v1/users/7/recommendations?mute=,&boost=,"))
    assert plain == model.recommend(7)["item"].to_list()
    body = {"profile": {"user": 7, "mute": [], "boost": {}}}
    assert again.post("/v1/feedback", json=body).status_code == 200
    assert items_of(again.get("/v1/users/7/recommendations")) == plain


def test_profiles_that_cannot_be(client):
    for body in ({"mute": [0, 1, 2]}, {"mute": [9]}, {"boost": {"x": 2.0}}, {"boost": {"0": 0}}, {"boost": {"0": -1}}):
        assert client.put("/v1/users/7/profile", json=body).status_code == 422, body
    assert client.put("/v1/users/5000/profile", json={"mute": [0]}).status_code == 404
    assert client.get("/v1/users/7/profile").json() == {"user": 7, "mute": [], "boost": {}, "dropped": []}


def test_lists_are_given_while_the_store_cannot_be_read(client, monkeypatch, caplog):
    usual = client.get("/v1/users/7/recommendations")
    assert "x-tastespace-feedback" not in usual.headers

    def lost(*_):
        raise StoreError("the connection is lost", "shop.sqlite", is_reading=True)

    monkeypatch.setattr(client.app.state.store, "changes", lost)
    for path in ("recommendations", "recommendations?k=5", "shelves", "interests"):
        answer = client.get(f"/v1/users/7/{path}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-tastespace-feedback"] == "not-read"
    assert client.get("/v1/users/7/recommendations").json()["items"] == usual.json()["items"]
    unknown = client.get("/v1/users/123456/recommendations")  # the store may know them
    assert (unknown.status_code, unknown.headers["x-tastespace-feedback"]) == (404, "not-read")
    assert "feedback cannot be read" in client.get("/health/ready").json()["problems"][0]
    assert caplog.text.count("feedback cannot be read") == 1
    refused = client.get("/v1/users/7/profile")  # the answer would be what was stored
    assert refused.status_code == 503
    assert refused.json()["error"]["advice"] == "Ask again later."
    monkeypatch.undo()
    client.app.state.main.slot.people._next_try = 0.0
    assert "x-tastespace-feedback" not in client.get("/v1/users/7/recommendations").headers
    assert client.get("/health/ready").json()["problems"] == []


def test_models_without_interests_take_an_empty_profile_and_tell_what_they_drop(client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    with_interests, without = client_of("dpcml", store=store), client_of("ease", store=store)
    assert with_interests.put("/v1/users/7/profile", json={"mute": [1], "boost": {"0": 2.0}}).status_code == 200
    assert without.get("/v1/users/7/profile").json() == {"user": 7, "mute": [], "boost": {}, "dropped": [0, 1]}
    assert without.put("/v1/users/7/profile", json={"mute": [1]}).status_code == 422
    assert without.put("/v1/users/7/profile", json={}).json() == {"user": 7, "mute": [], "boost": {}, "dropped": []}
    assert with_interests.get("/v1/users/7/profile").json()["mute"] == []


@pytest.mark.parametrize("kind", ["dpcml", "blend", "ease"])
def test_an_answer_that_is_kept_is_the_same_and_is_dropped_with_feedback(client_of, kind):
    """Of models whose lists are made on the event loop, and of others."""
    client = client_of(kind)
    state = client.app.state

    def is_made(path):
        made = state.counts.value("tastespace_batched_requests_total")
        answer = client.get(path)
        return answer, state.counts.value("tastespace_batched_requests_total") > made

    first, other = client.get("/v1/users/7/recommendations"), client.get("/v1/users/9/recommendations")
    again, made = is_made("/v1/users/7/recommendations")
    assert again.content == first.content
    assert not made  # it was kept
    assert client.get("/v1/users/7/recommendations?k=5").json()["items"] == first.json()["items"][:5]
    client.post("/v1/feedback", json={"events": [{"user": 7, "item": items_of(first)[0]}]})
    assert items_of(first)[0] not in items_of(client.get("/v1/users/7/recommendations"))
    again, made = is_made("/v1/users/9/recommendations")
    assert again.content == other.content
    assert not made  # feedback of one user drops the answers of that user alone
    if kind != "ease":
        kept = client.get("/v1/users/8/recommendations")
        client.put("/v1/users/8/profile", json={"mute": [kept.json()["items"][0]["interest"]]})
        assert items_of(client.get("/v1/users/8/recommendations")) != items_of(kept)


def test_answers_of_a_blend_are_those_of_python(client_of, saved_models):
    model, client = ts.load(saved_models["blend"]), client_of("blend")
    assert client.app.state.main.slot.served.is_small
    for user in (3, 7, 40):
        expected = model.recommend(user, k=6)
        answer = client.get(f"/v1/users/{user}/recommendations?k=6")
        assert items_of(answer) == expected["item"].to_list()
        assert [one["interest"] for one in answer.json()["items"]] == expected["interest"].to_list()
        row, item = int(model.train_.users.find([user])[0]), model.train_.items.find([expected["item"][0]])
        raising = np.maximum(model.evidence(row, item)[:, 0], 0).astype(np.float64)
        shares = np.where(model.tastes().of_user(row) == expected["interest"][0], raising / raising.sum(), 0.0)
        best = np.argsort(-shares, kind="stable")[:3]
        because = answer.json()["items"][0]["because"]
        assert [one["weight"] for one in because] == pytest.approx(shares[best][shares[best] > 0].tolist(), abs=2e-6)
        past = model.train_.indices[model.train_.offsets[row] :][best]
        assert [one["item"] for one in because] == model.train_.items.take(past).to_list()[: len(because)]


def test_mutes_that_would_leave_nothing_are_dropped_and_said_to_be():
    stored = StoredProfile(7, (0, 2), {1: 2.0}, {0: ("a",), 1: ("b",), 2: ("c",)})
    found = current_choice(stored, {0: [1], 1: [-1], 2: [3]}, {1: 0, 3: 1}, 2)
    assert (found.profile.muted, found.profile.boosts, found.dropped) == (frozenset(), {}, (0, 1, 2))
    kept = current_choice(stored, {0: [1], 1: [-1], 2: [3]}, {1: 0, 3: 1}, 3)
    assert (kept.profile.muted, kept.dropped) == ({0, 1}, (1,))


def test_a_taste_of_items_that_another_catalog_does_not_have_is_dropped(client):
    """Its number is that of another taste there."""
    slot = client.app.state.main.slot
    (person,) = slot.people.find([7])
    strange = StoredProfile(7, (1,), {}, {0: (3,), 1: (99_990, 99_991), 2: (99_992,)}, "another model")
    client.app.state.store.append([], [strange])
    slot.people.refresh()
    found = slot.people.choice(person)
    assert (found.profile.muted, found.dropped) == (frozenset(), (1,))


def test_ids_beyond_the_width_of_the_models_column_are_new_ids(client_of, model_at, tmp_path):
    frame = pl.DataFrame({"user": [n // 6 for n in range(120)], "item": [n * 7 % 31 for n in range(120)]})
    model = ts.DPCML(dim=4, n_interests=2, epochs=1, seed=1).fit(ts.Interactions.from_frame(frame.cast(pl.UInt8)))
    model.save(model_at("dpcml", "narrow"))
    store = str(tmp_path / "feedback.sqlite")
    client = client_of("narrow", store=store)
    newcomers = (300, -1, 2**40)
    for user in newcomers:
        path = f"/v1/users/{user}/recommendations"
        assert client.get(path).status_code == 404
        assert client.get(f"{path}?exclude={2**33}&on_unknown=popular").json()["fallback"] == "popular"
        answer = client.post(
            "/v1/feedback", json={"events": [{"user": user, "item": 3}, {"user": user, "item": 2**33}]}
        )
        assert (answer.status_code, answer.json()["unknown_items"]) == (200, 1), answer.text
        found = client.get(path)
        assert found.status_code == 200, found.text
        assert 3 not in [one["item"] for one in found.json()["items"]]
    together = client.post("/v1/recommendations", json={"users": [*newcomers, 7]})
    assert [one["user"] for one in together.json()["lists"]] == [*newcomers, 7]
    assert client.get("/v1/items/99999/similar").status_code == 404
    for beyond in (2**63, 10**30):
        answer = client.post("/v1/feedback", json={"events": [{"user": beyond, "item": 3}]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "wrong_id_type")
    opened = open_feedback_store(store)
    opened.append([FeedbackEvent(2**70, 3, "a")])
    found = feedback_for(opened, model, "", new_items=True)
    opened.close()
    assert (found.n_events, found.n_other) == (7, 1)
    later = ts.update(model, found.data)
    assert set(newcomers) < set(later.train_.users.series.to_list())
    assert later.train_.items.series.to_list()[-1] == 2**33
    later.save(model_at("dpcml", "narrow"))  # served: the ids are as they were, and more
    client.app.state.look()
    assert client.get(f"/v1/users/{2**40}/recommendations").json()["model"] == 2
