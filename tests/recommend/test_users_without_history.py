"""Users without a training history are cold-start users: nothing is invented for them."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from tastespace import (
    CML,
    DPCML,
    EASE,
    evaluate,
    split,
    synthetic,
)
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, UnknownIdError
from tastespace.models import Recommender, create

COLD = 7


@pytest.fixture(scope="module")
def town() -> Interactions:
    return synthetic.multi_interest(n_users=40, n_items=30, n_interactions=500, seed=1).interactions


@pytest.fixture(scope="module")
def train(town: Interactions) -> Interactions:
    return town.subset(town.row_of_each() != COLD)


@pytest.fixture(scope="module", params=["dpcml", "cml", "ease", "als", "bpr", "blend"])
def model(request: pytest.FixtureRequest, train: Interactions) -> Recommender:
    if request.param == "blend":
        return create("blend:cml+ease").fit(train, progress=False)
    settings = {"ease": {}, "als": {"dim": 8}}.get(request.param, {"dim": 8, "epochs": 2})
    return create(request.param, **settings).fit(train)


def test_on_unknown_applies_to_them_as_to_unknown_ids(model: Recommender) -> None:
    with pytest.raises(UnknownIdError, match=r"1 of 2 users have no interactions in the training data.*7.*popular"):
        model.recommend([COLD, 8], k=3)
    assert set(model.recommend([COLD, 8, "nobody"], k=3, on_unknown="skip")["user"]) == {8}
    lists = model.recommend([COLD, 8], k=3, on_unknown="popular")
    assert lists["user"].to_list() == [COLD] * 3 + [8] * 3
    assert lists["score"].is_null().to_list() == [True] * 3 + [False] * 3
    counts = model.popularity_source.item_counts
    popular = np.argsort(-counts, kind="stable")[:3].tolist()
    assert lists.filter(pl.col("user") == COLD)["item"].to_list() == popular


def test_lists_of_all_users_leave_them_out_with_a_note(
    model: Recommender, tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    n_users = model.train_.n_users
    lists = model.recommend(k=3)
    assert lists["user"].n_unique() == n_users - 1
    assert "1 of 40 users have no training history" in caplog.text
    assert COLD in model.recommend(k=3, on_unknown="popular")["user"]
    assert model.recommend_to(tmp_path / "all.csv", k=3) == len(lists)
    top, scores = model.recommend_indices([8, COLD, 9], k=3)
    assert (top[1] == -1).all()
    assert np.isnan(scores[1]).all()
    assert (top[[0, 2]] >= 0).all()


def test_interests_explanations_and_maps_are_an_error_that_says_so(train: Interactions) -> None:
    model = DPCML(dim=8, epochs=2).fit(train)
    calls = {
        "shelves": lambda: model.shelves(COLD),
        "interests": lambda: model.interests(COLD),
        "explanations": lambda: model.explain(COLD, 3),
        "interests to mute": lambda: model.mute(COLD, [0]),
        "similar users": lambda: model.similar_users([8, COLD]),
    }
    for what, call in calls.items():
        with pytest.raises(UnknownIdError, match=f"the first is 7: cold-start users.*no .*{what}"):
            call()
    with pytest.raises(UnknownIdError, match="no explanations"):
        EASE().fit(train).explain(COLD, 3)
    plots = pytest.importorskip("tastespace.plots")
    with pytest.raises(UnknownIdError, match="no taste map"):
        plots.taste_map(model, COLD)


def test_models_whose_lists_need_no_history_serve_them(train: Interactions) -> None:
    for name in ("popular", "category-popular"):
        assert len(create(name).fit(train).recommend(COLD, k=3)) == 3


def test_dropoutnet_gives_them_vectors_from_their_features(town: Interactions, train: Interactions) -> None:
    pytest.importorskip("torch")
    kinds = pl.DataFrame({"user": range(40), "kind": ["ab"[i % 2] for i in range(40)]})
    for warm in ("fused", "preference"):
        model = create("dpcml+dn", dim=4, n_interests=2, layers=(8,), epochs=2, warm_vectors=warm)
        model.fit(train, user_features=kinds)
        assert len(model.recommend(COLD, k=3)) == 3
        alone = model.fold_in(features=pl.DataFrame({"user": [99], "kind": ["b"]}))  # COLD has kind b, too
        np.testing.assert_allclose(model.user_vectors_[2 * COLD : 2 * COLD + 2], alone.user_vectors_, atol=1e-6)
    without = create("dpcml+dn", dim=4, n_interests=2, layers=(8,), epochs=2).fit(
        train, item_features=pl.DataFrame({"item": range(30), "kind": ["ab"[i % 2] for i in range(30)]})
    )
    with pytest.raises(UnknownIdError, match="cold-start"):
        without.recommend(COLD)


def test_evaluation_reports_them_apart(town: Interactions) -> None:
    moments = np.arange(town.n_interactions) % 100
    times = np.where(town.row_of_each() < 28, moments, 95)  # the last users come late
    frame = town.to_frame().with_columns(pl.Series("timestamp", times))
    train, _, test = split.by_time(Interactions.from_frame(frame, timestamp="timestamp"), (0.6, 0.1, 0.3))
    n_cold = int(((train.user_counts == 0) & (test.user_counts > 0)).sum())
    assert n_cold >= 12
    model = CML(dim=8, epochs=2).fit(train)
    report = evaluate(model, test, metrics=["P@3"])
    assert (report.n_cold, report.n_unserved) == (n_cold, n_cold)
    assert len(report.users) == report.n_warm
    assert f"{n_cold} of the latter get no list" in str(report)
    with pytest.raises(DataError, match="on_unknown='zero'"):
        evaluate(model, test, metrics=["P@3"], only="cold")
    zero = evaluate(model, test, metrics=["P@3", "HitRate@3"], on_unknown="zero")
    apart = zero.by_history()
    assert len(zero.users) == report.n_warm + n_cold
    assert apart["cold"]["HitRate@3"] == 0
    assert apart["warm"]["P@3"] == report["P@3"]
    popular = evaluate(create("popular").fit(train), test, metrics=["HitRate@3"])  # serves everybody
    apart = popular.by_history()
    assert (len(apart["warm"].users), len(apart["cold"].users)) == (popular.n_warm, n_cold)
    total = apart["warm"]["HitRate@3"] * popular.n_warm + apart["cold"]["HitRate@3"] * n_cold
    assert popular["HitRate@3"] == pytest.approx(total / len(popular.users))
    assert popular.to_dict()["by_history"]["cold"]["HitRate@3"] == apart["cold"]["HitRate@3"]
    assert f"without: HitRate@3 {apart['cold']['HitRate@3']:.4f}" in str(popular)


def test_command_line(train: Interactions, tmp_path) -> None:
    DPCML(dim=8, epochs=2).fit(train).save(tmp_path / "m")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from tastespace.cli.app import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    answer = run("recommend", str(tmp_path / "m"), str(COLD), "--on-unknown", "popular", "-k", "2")
    assert answer.stdout.count("\n7,") == 2
    everybody = run("recommend", str(tmp_path / "m"), "-k", "2")
    assert everybody.returncode == 0
    assert "\n7," not in everybody.stdout
    assert "1 of 40 users have no training history" in " ".join(everybody.stderr.split())
    assert "--on-unknown popular gives them the most" in " ".join(everybody.stderr.split())
    assert "nothing is left" not in everybody.stderr
    written = run(
        "recommend", str(tmp_path / "m"), "-k", "2", "--on-unknown", "popular", "--out", str(tmp_path / "m.csv")
    )
    assert (written.returncode, written.stderr) == (0, "")
    assert (tmp_path / "m.csv").read_text().count("\n7,") == 2
    refused = run("shelves", str(tmp_path / "m"), str(COLD))
    assert refused.returncode == 2
    assert "cold-start" in refused.stderr
    assert "tastespace recommend --on-unknown popular gives them" in " ".join(refused.stderr.split())
