"""What operators see: GET /v1/operations, the numbers behind it, and the dashboard for Grafana."""

import json
import re
import sqlite3
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tastespace as ts
from tastespace.online.experiments import Arm
from tastespace.serve import metrics, shown_items
from tastespace.serve.feedback.store import open_feedback_store
from tastespace.serve.metrics import RequestCounts
from tastespace.serve.operations import _reports
from tastespace.serve.served_model import ServedModel
from tastespace.serve.shown_items import ShownItems, gini

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json"


def operations(client):
    answer = client.get("/v1/operations")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("name", ["dpcml", "ease"])
def test_before_the_first_request_there_is_nothing(client_of, name):
    found = operations(client_of(name))
    assert (found["problems"], found["minutes"], found["routes"], found["experiment"]) == (
        [], [], [], {"arms": [], "comparisons": []},
    )  # fmt: skip
    assert found["cache"] == {"lists": 0, "kept": 0}
    assert found["recommended"] == {
        "places": 0, "items": 200, "coverage": 0.0, "top_share": 0.0, "gini": 0.0, "most": [],
    }  # fmt: skip
    assert [(one["generation"], one["metrics"]) for one in found["generations"]] == [(1, {"NDCG@10": 0.5})]
    people = found["population"]
    assert (people["people"] > 0) == (name == "dpcml")
    if name == "dpcml":
        assert sum(one["share"] for one in people["tastes"]) == pytest.approx(1.0)
        assert sum(one["share"] for one in people["names"]) <= 1.0 + 1e-9


def test_what_is_recommended_is_counted_exactly(client):
    listed = Counter()
    for user in (7, 8, 9, 7):
        answer = client.get(f"/v1/users/{user}/recommendations?k=10").json()
        listed.update(one["item"] for one in answer["items"])
    batch = client.post("/v1/recommendations", json={"users": [7, 11], "k": 5}).json()
    listed.update(one["item"] for own in batch["lists"] for one in own["items"])
    shelves = client.get("/v1/users/7/shelves?k=4").json()
    listed.update(one["item"] for own in shelves["shelves"] for one in own["items"])
    found = operations(client)["recommended"]
    assert found["places"] == listed.total()
    assert found["coverage"] == pytest.approx(len(listed) / 200)
    most = [count for _, count in listed.most_common(2)]  # 1 % of 200 items
    assert found["top_share"] == pytest.approx(sum(most) / listed.total())
    counts = np.sort([listed[item] for item in range(200)])
    pairs = np.abs(counts[:, None] - counts[None]).sum() / (2 * 200 * 200 * counts.mean())  # its definition
    assert found["gini"] == pytest.approx(pairs)
    assert [round(one["share"] * listed.total()) for one in found["most"]] == [n for _, n in listed.most_common(8)]
    operations_now = operations(client)
    assert operations_now["cache"] == {"lists": 4, "kept": 1}
    requests = {one["route"]: one["requests"] for one in operations_now["routes"]}
    assert requests["/v1/users/{user}/recommendations"] == 4
    assert sum(one["requests"] for one in operations_now["minutes"]) == sum(requests.values())


def test_feedback_refusals_and_problems_are_told(client_of, model_at):
    client = client_of()
    client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "event_id": "a"}]})
    client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "event_id": "a"}]})
    assert client.get("/v1/users/7/recommendations?k=0").status_code == 422
    (model_at() / "model.json").write_text("{}")
    client.app.state.look()
    found = operations(client)
    assert [found["feedback"][one] for one in ("stored", "duplicates")] == [1, 1]
    assert sum(one["feedback"] for one in found["minutes"]) == 1
    assert sum(one["refused"] for one in found["minutes"]) == 1
    assert any("refused" in one for one in found["problems"])
    client.app.state.count_problems()
    assert re.search(r"^tastespace_problems\{.*\} 1$", client.get("/metrics").text, re.MULTILINE)


def test_a_new_generation_begins_its_own_counts(client_of, model_at):
    client = client_of()
    client.get("/v1/users/7/recommendations")
    ts.load(model_at()).save(model_at(), {"NDCG@10": 0.625})
    client.post("/v1/model/reload")
    found = operations(client)
    assert [(one["generation"], one["metrics"]["NDCG@10"]) for one in found["generations"]] == [(2, 0.625), (1, 0.5)]
    assert found["recommended"]["places"] == 0
    assert all(abs(time.time() - time.mktime(time.strptime(one["time"][:19], "%Y-%m-%dT%H:%M:%S"))) < 2 * 86_400
               for one in found["generations"])  # fmt: skip


def test_counts_of_workers_are_added_and_large_catalogs_are_sampled(saved_models, tmp_path, monkeypatch):
    served = ServedModel.open(saved_models["dpcml"])
    one, other = ShownItems(served, tmp_path), ShownItems(served, tmp_path)
    (tmp_path / "shown-0-1-broken").write_bytes(b"")
    one.add_items([1, 2, 3, "nothing"])
    other.add_items([3])
    assert one.totals().tolist() == other.totals().tolist() == [0, 1, 1, 2, *[0] * 196]
    one.close()
    assert other.summary().places == 1
    monkeypatch.setattr(shown_items, "_MOST", 60)
    sampled = ShownItems(served)
    for item in range(100):
        sampled.add_items([item])
    found = sampled.summary()
    assert len(sampled.totals()) == 50  # every fourth of 200 items
    assert found.coverage == pytest.approx(0.5)
    assert found.gini == pytest.approx(gini(np.repeat([0, 1], 100)))
    assert {named.item % 4 for named in found.most} == {0}


def test_the_arms_of_an_experiment_are_shown_with_intervals(client_of, model_at):
    arms = tuple(Arm(name, model_at(name), share) for name, share in (("dpcml", 0.75), ("ease", 0.25)))
    client = client_of("dpcml", arms=arms, impressions=True)
    found = operations(client)["experiment"]  # before the first list
    assert [(one["arm"], one["share"], one["lists"], one["click_rate"]) for one in found["arms"]] == [
        ("dpcml", 0.75, 0, None),
        ("ease", 0.25, 0, None),
    ]
    _reports.clear()
    users = range(60)
    for user in users:
        answer = client.get(f"/v1/users/{user}/recommendations?k=5").json()
        if user % 2:
            event = {"user": user, "item": answer["items"][0]["item"], "recommendation": answer["recommendation"]}
            client.post("/v1/feedback", json={"events": [{**event, "kind": "click"}]})
    client.app.state.impressions.write()
    found = operations(client)["experiment"]
    assert sum(one["lists"] for one in found["arms"]) == len(users)
    for one in found["arms"]:
        assert 0 <= one["click_low"] < one["click_rate"] < one["click_high"] <= 1
        assert one["conversion_rate"] == 0
    clicks = sum(round(one["click_rate"] * one["lists"]) for one in found["arms"])
    assert clicks == len(users) // 2
    assert {(one["first"], one["second"]) for one in found["comparisons"]} == {("dpcml", "ease")}


def test_minutes_are_of_the_last_hour_and_of_all_workers(tmp_path, monkeypatch):
    now = 60.0 * 29_000_000
    monkeypatch.setattr(metrics.time, "time", lambda: now)
    one, other = RequestCounts(tmp_path), RequestCounts(tmp_path)
    for counts in (one, other):
        counts.add("GET", "/a", 200, 0.5)
        counts.add("GET", "/a", 503, 0.25)
        counts.count_feedback(3)
    (found,) = one.minutes()
    assert (found.time, found.requests, found.refused, found.failed, found.seconds, found.feedback) == (
        now, 4, 0, 2, 1.5, 6,
    )  # fmt: skip
    now += 60 * 59
    one.add("GET", "/a", 404, 0.1)
    assert [(row.requests, row.refused) for row in other.minutes()] == [(4, 0), (1, 1)]
    now += 60  # the first minute has left the hour, and its place is taken
    assert [row.requests for row in one.minutes()] == [1]
    one.add("GET", "/a", 200, 0.1)
    assert [row.requests for row in other.minutes()] == [1, 1]
    (route,) = other.routes()
    assert (route.requests, route.refused, route.failed) == (6, 1, 2)
    assert 0.1 < route.median <= 0.5


def test_stores_of_earlier_versions_get_the_new_columns(tmp_path):
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as old:
        old.execute(
            "CREATE TABLE models (generation INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, "
            "path TEXT NOT NULL, checksum TEXT NOT NULL)"
        )
        old.execute("INSERT INTO models (server, path, checksum) VALUES ('s', 'a.model', 'x')")
    old.close()
    store = open_feedback_store(str(path))
    assert store.announce_model("s", "a.model", "x") == 1
    assert store.announce_model("s", "b.model", "y", {"NDCG@10": 0.25}) == 2
    (second, first) = store.served_models("s", 10)
    store.close()
    assert first == (1, "a.model", "", {})
    assert (second[0], second[3]) == (2, {"NDCG@10": 0.25})
    assert second[2] > "2020"


def test_the_dashboard_names_only_metrics_that_are_exported(client):
    client.get("/v1/users/7/recommendations")
    text = client.get("/metrics").text
    exported = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    exported |= {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for expr in asked for name in re.findall(r"(?:tastespace|process)_[a-z_]+", expr)}
    assert len(named) > 12
    assert named - exported == {"tastespace_compare_generation"}  # only where there is a second model
    assert "tastespace_compare_generation" in metrics._GAUGES
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
