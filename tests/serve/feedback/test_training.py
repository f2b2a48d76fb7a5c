"""Feedback as training data."""

import sqlite3
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli.app import app
from tastespace.serve.feedback.store import FeedbackEvent, open_feedback_store
from tastespace.serve.feedback.training import feedback_for


def test_update_learns_the_feedback(model_at, tmp_path):
    path, store = model_at("dpcml"), str(tmp_path / "feedback.sqlite")
    old = ts.load(path)
    new_item = old.train_.n_items + 5
    opened = open_feedback_store(store)
    taken = [item for item in range(200) if item not in old.train_.items_of(7)][:3]
    opened.append([FeedbackEvent(7, item, f"e{item}") for item in taken])
    opened.append(
        [
            FeedbackEvent(7, taken[0], "again"),
            FeedbackEvent(9_000, taken[1], "new"),
            FeedbackEvent(9_000, new_item, "item"),
        ]
    )
    opened.append([FeedbackEvent("wrong", taken[0], "text")])
    opened.close()
    out = tmp_path / "models" / "new.model"

    def cli(*arguments):
        return CliRunner().invoke(app, [str(one) for one in arguments])

    known = cli("update", path, "--feedback", store, "--out", tmp_path / "known.model")
    assert "1 of them have items that are not in the catalog and are left out; --new-items" in known.output
    assert ts.load(tmp_path / "known.model").train_.n_items == old.train_.n_items
    assert set(ts.load(tmp_path / "known.model").train_.items_of(9_000)) == {taken[1]}
    result = cli("update", path, "--feedback", store, "--new-items", "--out", out)
    assert result.exit_code == 0, result.output
    new = ts.load(out)
    assert set(new.train_.items_of(7)) == {*old.train_.items_of(7), *taken}
    assert set(new.train_.items_of(9_000)) == {taken[1], new_item}
    assert new.train_.n_interactions == old.train_.n_interactions + 5
    assert "1 of them have blank ids, or ids of other types" in result.output
    # A second time there is nothing new.
    result = cli("update", out, "--feedback", store, "--out", tmp_path / "third.model")
    assert result.exit_code == 0
    assert ts.load(tmp_path / "third.model").train_.n_interactions == new.train_.n_interactions
    assert pl.DataFrame(new.recommend(9_000, k=3)).height == 3


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_events_that_cannot_be_learned_are_left_out_and_counted(town_data, tmp_path, unit):
    times = 1_700_000_000 + np.arange(town_data.n_interactions, dtype=np.int64)
    model = ts.EASE().fit(replace(town_data, timestamps=times * (10**9 if unit == "ns" else 1)))
    location = str(tmp_path / "feedback.sqlite")
    store = open_feedback_store(location)
    taken = [item for item in range(200) if item not in model.train_.items_of(7)][:2]
    times = ["9999-12-31T23:59:59+00:00", "2300-01-01T00:00:00+00:00", "0001-01-01T00:00:00+14:00", "soon"]
    store.append([FeedbackEvent(7, taken[0], f"e{n}", time=time) for n, time in enumerate(times)])
    store.append([FeedbackEvent(7, taken[0], "heavy", 1e300), FeedbackEvent(7, taken[1], "good")])
    with sqlite3.connect(location) as connection:
        connection.executemany(
            "INSERT INTO events (event_id, user_id, item_id, weight, time) VALUES (?, ?, ?, 1.0, '2024-01-01')",
            [("a", "ann", "3"), ("b", "[" * 90_000, "3"), ("c", '{"a": 1}', "3"), ("d", "7", "null")],
        )
        connection.execute("INSERT INTO profiles (user_id, mute, boost, version) VALUES ('7', 'x', '{}', 1)")
    found = feedback_for(store, model, "")
    store.close()
    assert (found.n_events, found.n_unreadable, found.n_other, found.n_new_items) == (11, 10, 0, 0)
    assert found.data.n_interactions == 1
    assert found.data.items.series.to_list() == [taken[1]]


def test_rows_of_others_in_the_store_are_no_reason_to_give_no_lists(client_of, tmp_path):
    store = str(tmp_path / "feedback.sqlite")
    assert client_of(store=store).get("/v1/users/7/recommendations").status_code == 200
    with sqlite3.connect(store) as connection:
        connection.execute(
            "INSERT INTO events (event_id, user_id, item_id, weight, time) VALUES ('a', 'x', 'y', 1, '')"
        )
    for name in ("dpcml", "ease"):  # one that has read it as the first thing
        client = client_of(name, store=store)
        assert client.get("/v1/users/7/recommendations?k=3").status_code == 200
        assert (
            client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "event_id": name}]}).status_code == 200
        )


@pytest.mark.parametrize(
    "time", ["9999-12-31T00:00:00Z", "0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "2200-01-01"]
)
def test_times_have_bounds_at_the_door(client, time):
    answer = client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "time": time}]})
    assert answer.status_code == 422
    assert "from 1970 to 2199" in answer.json()["error"]["message"]
