"""Model cards: what they say is in the model file, or was stated."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

import tastespace as ts
from tastespace.errors import ModelFileError, ParameterError


@pytest.fixture(scope="module")
def parts(town):
    return ts.split.per_user(town.interactions, seed=0)


@pytest.fixture(scope="module")
def model(parts):
    return ts.DPCML(dim=4, n_interests=2, epochs=1, threads=1).fit(parts[0])


def read(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    return yaml.safe_load(front), body


def test_a_card_has_front_matter_and_what_was_stored(model, parts, tmp_path):
    report = ts.evaluate(model, parts[2], seen=parts[:2], metrics=["NDCG@10", "MAP"])
    model.save(tmp_path / "m", metrics=report, card={"data": "ml-1m", "license": "mit", "intended_use": "Film nights."})
    front, body = read(tmp_path / "m")
    assert (front["library_name"], front["license"]) == ("tastespace", "mit")
    assert "recommender-system" in front["tags"]
    (result,) = front["model-index"][0]["results"]
    assert result["dataset"]["name"] == "ml-1m"
    assert {one["type"]: one["value"] for one in result["metrics"]} == report.metrics
    assert f"| NDCG@10 | {report['NDCG@10']:.4f} | fraction | {report.n_users['NDCG@10']} |" in body
    assert "Protocol: `full` of tastespace.evaluate" in body
    assert "License of the data: research only." in body  # of the named data set
    assert "Film nights." in body
    assert f"{parts[0].n_users:,} users, {parts[0].n_items:,} items, {parts[0].n_interactions:,} interactions" in body
    assert ts.load(tmp_path / "m").recommend(7).equals(model.recommend(7))
    assert ts.store.inspect(tmp_path / "m")["evaluation"]["protocol"] == "full"


def test_nothing_is_made_up(model, tmp_path):
    model.save(tmp_path / "m", card=True)
    front, body = read(tmp_path / "m")
    assert front.keys() == {"library_name", "tags"}
    assert "No metrics are stored with this model." in body
    assert body.count("Not stated.") == 3  # source, license of the data, intended use
    model.save(tmp_path / "figures", metrics={"NDCG@10": np.float32(0.25), "note": "text", "bad": np.nan}, card=True)
    front, body = read(tmp_path / "figures")
    assert front["model-index"][0]["results"][0]["metrics"] == [{"type": "NDCG@10", "value": 0.25}]
    assert "Protocol: not stated." in body


def test_a_card_follows_the_model_and_foreign_text_stays(model, tmp_path):
    model.save(tmp_path / "m", metrics={"MAP": 0.5}, card={"data": "Our shop's clicks"})
    model.save(tmp_path / "m", metrics={"MAP": 0.75})
    front, body = read(tmp_path / "m")
    assert front["model-index"][0]["results"][0]["metrics"] == [{"type": "MAP", "value": 0.75}]
    assert "Our shop's clicks" in body
    (tmp_path / "m" / "README.md").write_text("My own words.")
    model.save(tmp_path / "m")
    assert (tmp_path / "m" / "README.md").read_text() == "My own words."
    with pytest.raises(ModelFileError, match="was not generated, so no card is written over it"):
        model.save(tmp_path / "m", card=True)
    model.save(tmp_path / "plain", card=False)
    assert not (tmp_path / "plain" / "README.md").exists()


def test_text_cannot_leave_its_place(model, tmp_path):
    name = 'Line\n---\nlicense: "none" # | x'
    model.save(tmp_path / "m", metrics={"MAP": 0.5}, card={"name": name, "data": "a: b\n## Evaluation"})
    front, body = read(tmp_path / "m")
    assert front["model-index"][0]["name"] == name
    assert "license" not in front
    assert body.count("\n## Evaluation\n") == 1


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ({"licence": "mit"}, r"card has no 'licence'.* Did you mean license"),
        ({"data": ""}, "data is '', expected text"),
        ("yes", "card='yes': expected True, or a dict"),
    ],
)
def test_bad_cards_are_refused_before_anything_is_written(model, tmp_path, card, message):
    with pytest.raises(ParameterError, match=message):
        model.save(tmp_path / "m", card=card)
    assert not (tmp_path / "m").exists()
