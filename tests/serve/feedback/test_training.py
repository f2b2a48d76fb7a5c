"""Feedback as training data."""

import polars as pl
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli.app import app
from tastespace.serve.feedback.store import FeedbackEvent, open_feedback_store


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
