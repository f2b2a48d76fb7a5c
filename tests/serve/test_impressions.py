"""Ids of answers, the log of lists, events that name them, experiments and exploration, over HTTP."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.types import Recommendations
from tastespace.cli.app import app
from tastespace.errors import ParameterError, TastespaceError
from tastespace.online.attribution import attribute
from tastespace.online.experiments import Arm
from tastespace.online.report import report
from tastespace.serve.exploration import explored_list
from tastespace.serve.feedback.impressions import read_recommendation_id
from tastespace.serve.impressions import ImpressionLog, Shown
from tastespace.serve.metrics import RequestCounts
from tastespace.serve.settings import ServerSettings
from tastespace.serve.state import ServerState


@pytest.fixture
def client_of(client_of):
    """Clients of servers with ids, as `tastespace serve` is; other tests compare whole answers."""

    def make(*names, **settings):
        return client_of(*names, **{"impressions": True, **settings})

    return make


def listed(client, user, query=""):
    answer = client.get(f"/v1/users/{user}/recommendations?k=5{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def send(client, *events):
    names = ("user", "item", "recommendation", "kind")
    body = {"events": [dict(zip(names, one, strict=False)) for one in events]}
    answer = client.post("/v1/feedback", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def logged(client):
    client.app.state.impressions.write()
    return attribute(client.app.state.store)


@pytest.mark.parametrize("name", ["dpcml", "ease"])
def test_every_list_has_an_id_of_its_own_and_what_was_shown_is_logged(name, client_of):
    client = client_of(name)
    first, again = listed(client, 7), listed(client, 7)  # the second one from the cache
    others = client.post("/v1/recommendations", json={"users": [7, 8], "k": 3}).json()["lists"]
    strangers = client.post("/v1/recommendations", json={"histories": [[3, 5]], "k": 3}).json()["lists"]
    filtered = listed(client, 9, "&filter=year>1960")
    answers = [first, again, *others, *strangers, filtered]
    if name == "dpcml":
        answers.append(client.get("/v1/users/7/shelves?k=2").json())
    assert {**first, "recommendation": 0} == {**again, "recommendation": 0}
    ids = [read_recommendation_id(one["recommendation"]) for one in answers]
    assert len(set(ids)) == len({number for number, _ in ids}) == len(answers)
    found = logged(client)
    shown = found.shown.sort("number")
    assert shown["number"].to_list() == [number for number, _ in ids]  # in their order
    assert shown["list"].n_unique() == len(answers) - 1  # a cached list is stored once
    store = client.app.state.store
    by_number = {one.number: one for one in store.shown_lists()}
    for row, answer in zip(shown.iter_rows(named=True), answers, strict=True):
        one = by_number[row["list"]]
        items = answer["items"] if "items" in answer else [i for s in answer["shelves"] for i in s["items"]]
        assert list(one.items) == [item["item"] for item in items]
        assert list(one.tastes) == [item["interest"] for item in items]
        assert (one.user, one.model, one.arm, set(one.propensities)) == (answer["user"], answer["model"], "", {1.0})
    assert by_number[shown["list"][-1]].kind == ("shelves" if name == "dpcml" else "recommendations")
    assert "tastespace_impressions_total" in client.get("/metrics").text


def test_events_are_attributed_by_id_user_and_item(client):
    mine, other = listed(client, 7), listed(client, 8)
    items, name = [one["item"] for one in mine["items"]], mine["recommendation"]
    stranger = next(one for one in range(150) if one not in items)
    counts = send(
        client,
        (7, items[1], name), (7, items[1], name), (7, items[1], name, "purchase"), (7, items[4], name, "dislike"),
        (7, stranger, name), (8, items[0], name), (7, items[0], other["recommendation"]), (7, items[2], "f" * 31),
        (7, items[2], "mine"), (7, items[3]),
    )  # fmt: skip
    assert counts["stored"] == 10
    found = logged(client)
    assert found.counts == {"attributed": 3, "unknown": 2, "other_user": 2, "not_in_list": 1, "repeated": 1}
    assert sorted(found.events["rank"].to_list()) == [2, 2, 5]
    rates = report(client.app.state.store).rates
    ranks = rates.filter(pl.col("by") == "rank")
    assert ranks["clicks"].to_list() == [0, 1, 0, 0, 0]
    assert ranks["conversions"].to_list() == [0, 1, 0, 0, 0]
    assert rates.filter(pl.col("by") == "all").select("lists", "clicks", "conversions").row(0) == (2, 1, 1)
    assert rates.filter(pl.col("by") == "taste")["clicks"].sum() == 1
    once = {"user": 7, "item": 3, "event_id": "same", "recommendation": name}
    assert client.post("/v1/feedback", json={"events": [once, once]}).json() == {
        "stored": 1, "duplicates": 1, "unknown_items": 0,
    }  # fmt: skip
    for bad in ("x" * 65, "\n"):
        answer = client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "recommendation": bad}]})
        assert answer.status_code == 422


def test_a_deleted_user_leaves_no_list_behind(client_of, postgresql):
    for location in (None, postgresql()):
        client = client_of(store=location)
        mine = listed(client, 7)
        client.app.state.impressions.write()
        listed(client, 7)
        listed(client, 8)
        assert len(client.get("/v1/users/7/data").json()["shown"]) == 1
        assert client.delete("/v1/users/7").json()["lists"] == 1
        found = logged(client)  # one list of user 7 was still waiting
        assert client.get("/v1/users/7/data").json()["shown"] == []
        assert len(found.shown) == 1
        send(client, (7, mine["items"][0]["item"], mine["recommendation"]))
        assert logged(client).counts["unknown"] == 1


def test_the_log_is_bounded_and_lists_go_on_without_it(client_of, tmp_path, monkeypatch):
    assert listed(client_of("popular", impressions=False), 7)["recommendation"] is None
    client = client_of()
    state = client.app.state
    for user in range(30):
        listed(client, user)
    state.impressions.write()
    state.store.purge_impressions(0, 10)
    assert [one.number & 0xFFFF for one in state.store.shown_lists()] == list(range(20, 30))
    state.store.purge_impressions(2**60, 10)
    assert (list(state.store.impressions()), list(state.store.shown_lists())) == ([], [])

    def lost(*_):
        raise TastespaceError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(state.store, "add_impressions", lost)
        assert listed(client, 7)["recommendation"]
        state.impressions.write()
        assert state.counts.value("tastespace_impressions_dropped_total") == 1
        assert any("not logged" in one for one in client.get("/health/ready").json()["problems"])
    listed(client, 7)
    assert len(logged(client).shown) == 1
    monkeypatch.setattr("tastespace.serve.impressions.IMPRESSIONS_WAITING", 2)
    counts = RequestCounts()
    log = ImpressionLog(state.store, counts, 1.0, 10, seconds=60)
    for _ in range(5):
        log.new_id(Shown(state.main.slot.lists.source, 7, [3]))
    assert counts.value("tastespace_impressions_dropped_total") == 3
    log.close()
    assert counts.value("tastespace_impressions_total") == 2


@pytest.fixture
def two_arms(model_at, client_of):
    def make(*shares, **settings):
        arms = tuple(Arm(name, model_at(name), share) for name, share in zip(("dpcml", "ease"), shares, strict=True))
        return client_of("dpcml", arms=arms, **settings)

    return make


def test_people_stay_in_their_arm(two_arms, saved_models, client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = two_arms(0.7, 0.3, store=store)
    lists = {user: [one["item"] for one in listed(client, user)["items"]] for user in range(120)}
    models = [ts.load(saved_models[name]) for name in ("dpcml", "ease")]
    expected = {user: [m.recommend(user, k=5)["item"].to_list() for m in models] for user in lists}
    arms = {user: expected[user].index(found) for user, found in lists.items()}
    assert 20 <= sum(arms.values()) <= 52
    again = two_arms(0.7, 0.3, store=store)  # another worker, or a restart
    batch = again.post("/v1/recommendations", json={"users": list(lists), "k": 5}).json()["lists"]
    assert [[one["item"] for one in found["items"]] for found in batch] == list(lists.values())
    salted = two_arms(0.7, 0.3, salt="autumn")
    other = {user: [one["item"] for one in listed(salted, user)["items"]] == expected[user][1] for user in lists}
    assert sum(other[user] != bool(arms[user]) for user in lists) > 15
    client.app.state.impressions.write()
    names = {one.user: one.arm for one in client.app.state.store.shown_lists()}
    assert names == {user: ("dpcml", "ease")[arm] for user, arm in arms.items()}
    body = {"histories": [[3, 5, 8]], "k": 5}

    def of_history(query):
        (found,) = again.post(f"/v1/recommendations{query}", json=body).json()["lists"]
        return tuple(one["item"] for one in found["items"])

    of_session = {of_history("?session=s1") for _ in range(6)}
    of_nobody = {of_history("") for _ in range(40)}
    assert (len(of_session), len(of_nobody)) == (1, 2)
    # One arm is swapped while the other goes on.
    slots = [holder.slot for holder in client.app.state._arms]
    models[1].save(client.app.state.settings.arms[1].path, metrics={"NDCG@10": 0.6})
    client.app.state.look()
    assert [holder.slot is slot for holder, slot in zip(client.app.state._arms, slots, strict=True)] == [True, False]
    assert {user: [one["item"] for one in listed(client, user)["items"]] for user in range(9)} == {
        user: lists[user] for user in range(9)
    }


def test_models_of_an_experiment_have_the_same_catalog(model_at, tmp_path):
    other = ts.synthetic.multi_interest(n_users=80, n_items=33, n_interactions=900, seed=5).interactions
    rows = pl.DataFrame(other.to_frame()).with_columns(pl.col("item") + 5_000, pl.col("user") + 9_000)
    ts.EASE().fit(rows).save(tmp_path / "other.model")
    arms = Arm("dpcml", model_at("dpcml"), 0.5), Arm("other", tmp_path / "other.model", 0.5)
    with pytest.raises(ParameterError, match=r"same catalog: fit them to the same data"):
        ServerState(ServerSettings(arms[0].path, arms=arms))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--experiment", "A=50", "--experiment", "B=40"], "add up to 90"),
        (["--experiment", "A=100"], "given once"),
        (["--experiment", "A=0", "--experiment", "B=100"], "share above 0"),
        (["--experiment", "A", "--experiment", "B=100"], "share above 0"),
        (["--experiment", "A=50", "--experiment", "A=50"], "same model twice"),
        (["x.model", "--experiment", "A=50", "--experiment", "B=50"], "leave out MODEL"),
        (["x.model", "--explore", "0.1", "--no-impressions"], "is of no use"),
    ],
)
def test_bad_experiments_are_refused(words, message):
    with pytest.raises(ParameterError, match=message):
        CliRunner().invoke(app, ["serve", *words], catch_exceptions=False)


def test_drawn_places_have_exactly_the_logged_probabilities(client_of, monkeypatch):
    client = client_of(explore=0.3)
    lists = client.app.state.main.slot.lists
    rng, n, k, share = np.random.default_rng(0), 4_000, 6, 0.3
    plain = [one.item for one in lists.for_users([7], AnswerOptions(k=k + 10))[0].items]
    seen: Counter[tuple[int, int]] = Counter()
    (made,) = lists.for_users([7], AnswerOptions(k=k + 10))
    monkeypatch.setattr(lists, "for_users", lambda *_: [Recommendations(7, 1, list(made.items))])
    for _ in range(n):
        found, shown = explored_list(lists, 7, AnswerOptions(k=k), share, rng)
        items = [one.item for one in found.items]
        assert len(set(items)) == k
        assert [one.rank for one in found.items] == list(range(1, k + 1))
        for place, item in enumerate(items):
            seen[place, item] += 1
            expected = 1.0 if place == 0 else 1 - share if item == plain[place] else share / 10
            assert shown.source.propensities[place] == pytest.approx(expected)
            assert (place + 1 in shown.source.explored) == (item != plain[place])
    assert seen[0, plain[0]] == n
    for place in range(1, k):
        for item in plain[k:]:
            p = share / 10
            assert abs(seen[place, item] / n - p) < 5 * np.sqrt(p * (1 - p) / n)
    monkeypatch.undo()
    answer = listed(client, 8)
    send(client, (8, answer["items"][3]["item"], answer["recommendation"]))
    client.app.state.impressions.write()
    policies = report(client.app.state.store).policies
    assert policies["policy"].to_list() == ["as shown", *["as ranked"] * 2, *["candidates"] * 2]
    assert policies["clicks_per_place"][0] == pytest.approx(0.25)


def test_the_report_on_the_command_line(client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    client = client_of(store=store)
    for user in range(20):
        answer = listed(client, user)
        send(client, (user, answer["items"][user % 3]["item"], answer["recommendation"], "purchase"))
    client.app.state.impressions.write()
    ran = CliRunner().invoke(app, ["report", store, "--format", "json"])
    found = json.loads(ran.stdout)
    assert found["events"]["attributed"] == 20
    assert [row["conversions"] for row in found["rates"] if row["by"] == "rank"] == [7, 7, 6, 0, 0]
    ran = CliRunner().invoke(app, ["report", store, "--format", "table", "--since", "2020-01-01"])
    assert "clicked %" in ran.stdout
    assert "20 attributed" in ran.stdout
    ran = CliRunner().invoke(app, ["report", store, "--format", "csv", "--since", "2190-01-01"])
    assert ran.exit_code == 0, ran.output
    assert pl.read_csv(ran.stdout.encode())["lists"].to_list() == [0]
    for words in ([str(tmp_path / "none.sqlite")], [store, "--since", "yesterday"], [store, "--alpha", "2"]):
        with pytest.raises(ParameterError):
            CliRunner().invoke(app, ["report", *words], catch_exceptions=False)
