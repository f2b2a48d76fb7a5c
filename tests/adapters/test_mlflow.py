"""Models as MLflow models, in a local file store."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

import tastespace as ts
from tastespace.errors import DataError, NotFittedError, ParameterError


@pytest.fixture
def mlflow(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def model():
    town = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    return ts.DPCML(dim=8, n_interests=3, epochs=3, seed=1, threads=1).fit(town)


def test_a_logged_model_gives_the_same_lists(mlflow, model):
    from tastespace.adapters import mlflow as mlflow_flavor

    train, test = ts.split.leave_k_out(model.train_, 1)
    report = ts.evaluate(model.clone().fit(train), test, metrics=["NDCG@10"])
    with mlflow.start_run() as run:
        info = mlflow_flavor.log_model(model, "shop", report)
    logged = mlflow.get_run(run.info.run_id).data
    assert logged.metrics["NDCG_at_10"] == report["NDCG@10"]
    assert logged.params["n_interests"] == "3"

    people = pd.DataFrame({"user": [7, 3]})
    served = mlflow.pyfunc.load_model(info.model_uri)
    plain = served.predict(people)
    assert plain["item"].tolist() == model.recommend([7, 3])["item"].to_list()
    mixed = served.predict(people, params={"k": 4, "mix": "proportional", "diversity": 0.7})
    expected = model.recommend([7, 3], k=4, mix="proportional", diversity=0.7)
    assert mixed[["user", "item", "rank", "interest"]].to_numpy().tolist() == [
        list(row) for row in expected.select("user", "item", "rank", "interest").rows()
    ]
    again = mlflow_flavor.load_model(info.model_uri)
    assert again.recommend(7, k=5).equals(model.recommend(7, k=5))


def test_a_folder_needs_no_tracking(mlflow, model, tmp_path):
    from tastespace.adapters import mlflow as mlflow_flavor

    mlflow_flavor.save_model(model, tmp_path / "shop")
    assert {path.name for path in (tmp_path / "shop").iterdir()} >= {"MLmodel", "requirements.txt", "model.tastespace"}
    signature = mlflow.models.get_model_info(str(tmp_path / "shop")).signature
    assert [one.name for one in signature.params] == ["k", "mix", "diversity", "exclude_seen", "on_unknown"]
    assert mlflow_flavor.load_model(str(tmp_path / "shop")).recommend(7).equals(model.recommend(7))
    with pytest.raises(DataError, match="is not empty"):
        mlflow_flavor.save_model(model, tmp_path / "shop")


def test_what_cannot_be_is_an_error(mlflow, model, tmp_path, monkeypatch):
    from tastespace.adapters import mlflow as mlflow_flavor

    with pytest.raises(DataError, match="expects a model of tastespace, given dict"):
        mlflow_flavor.save_model({}, tmp_path / "x")
    with pytest.raises(NotFittedError):
        mlflow_flavor.save_model(ts.EASE(), tmp_path / "x")
    assert not (tmp_path / "x").exists()
    mlflow_flavor.save_model(model, tmp_path / "shop")
    inner = mlflow_flavor._load_pyfunc(str(tmp_path / "shop" / "model.tastespace"))
    with pytest.raises(ParameterError, match=r"expected a frame with a column 'user', given \['who'\]"):
        inner.predict(pd.DataFrame({"who": [1]}))
    with pytest.raises(ParameterError, match="params length: expected some of k, mix"):
        inner.predict(pd.DataFrame({"user": [7]}), {"length": 3})
    mlflow_flavor.save_model(ts.MostPopular().fit(model.train_), tmp_path / "popular")
    popular = mlflow.pyfunc.load_model(str(tmp_path / "popular"))
    with pytest.raises(ParameterError, match="proportional"):
        popular.predict(pd.DataFrame({"user": [7]}), params={"mix": "proportional"})
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file, expected a new folder"):
        mlflow_flavor.save_model(model, tmp_path / "file")
    for path in ("nowhere", "shop/model.tastespace"):
        with pytest.raises(DataError, match="cannot be opened as a model of MLflow"):
            mlflow_flavor.load_model(str(tmp_path / path))
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ParameterError, match=r"needs MLflow, which is not installed: .* \(the mlflow extra\)"):
        mlflow_flavor.load_model("x")
