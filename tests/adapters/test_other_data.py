"""Data of scikit-surprise and implicit as ours, and back; the adapters of peers that are not installed."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
import surprise
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking

import tastespace as ts
from tastespace.adapters.implicit import from_implicit, to_implicit
from tastespace.adapters.surprise import from_surprise, to_surprise
from tastespace.errors import DataError, ParameterError

ROWS = pd.DataFrame(
    {
        "user": ["ann", "ann", "bob", "bob", "eve"],
        "item": ["tea", "jam", "tea", "rye", "jam"],
        "rating": [5, 2, 4, 1, 3.0],
    }
)


def pairs(data):
    return set(data.to_frame().select("user", "item").rows())


def test_surprise_there_and_back():
    dataset = surprise.Dataset.load_from_df(ROWS, surprise.Reader(rating_scale=(1, 5)))
    for source in (dataset, dataset.build_full_trainset()):
        assert pairs(from_surprise(source)) == set(zip(ROWS["user"], ROWS["item"], strict=True))
        assert pairs(from_surprise(source, min_rating=3)) == {("ann", "tea"), ("bob", "tea"), ("eve", "jam")}
        weighted = from_surprise(source, weight=True)
        assert sorted(weighted.weights.tolist()) == [1, 2, 3, 4, 5]
    train = to_surprise(weighted)
    found = {(train.to_raw_uid(u), train.to_raw_iid(i), r) for u, i, r in train.all_ratings()}
    assert found == set(ROWS.itertuples(index=False, name=None))
    # A model of surprise learns from it.
    assert 1 <= surprise.SVD(n_factors=2, n_epochs=2, random_state=1).fit(train).predict("ann", "rye").est <= 5
    assert {one[2] for one in to_surprise(from_surprise(dataset)).all_ratings()} == {1.0}
    with pytest.raises(DataError, match="given DataFrame"):
        from_surprise(ROWS)


def test_times_of_surprise_are_kept(tmp_path):
    lines = [f"{row.user}\t{row.item}\t{row.rating}\t{100 + at}" for at, row in enumerate(ROWS.itertuples())]
    (tmp_path / "u.data").write_text("\n".join(lines))
    reader = surprise.Reader(line_format="user item rating timestamp", sep="\t")
    data = from_surprise(surprise.Dataset.load_from_file(str(tmp_path / "u.data"), reader=reader))
    assert sorted(data.timestamps.tolist()) == [100, 101, 102, 103, 104]


def test_implicit_there_and_back():
    town = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    names = ts.Interactions.from_frame(
        town.to_frame().select(
            user="u" + town.to_frame()["user"].cast(str), item="i" + town.to_frame()["item"].cast(str)
        )
    )
    matrix = to_implicit(names)
    model = AlternatingLeastSquares(factors=4, iterations=2, random_state=1)
    model.fit(matrix.user_items, show_progress=False)
    BayesianPersonalizedRanking(factors=4, iterations=1).fit(matrix.user_items, show_progress=False)  # writes to arrays
    items, _ = model.recommend(3, matrix.user_items[3], N=5)
    assert not set(matrix.item_ids[items]) & set(names.items_of(matrix.user_ids[3]))
    again = from_implicit(matrix.user_items, matrix.user_ids, matrix.item_ids)
    assert pairs(again) == pairs(names)
    assert (again.weights == 1).all()
    assert from_implicit(matrix.user_items, weight=False).weights is None
    weighted = from_implicit(matrix.user_items * 3, matrix.user_ids, matrix.item_ids)
    assert (to_implicit(weighted).user_items.data == 3).all()
    with pytest.raises(DataError, match="2 user ids"):
        from_implicit(matrix.user_items, ["a", "b"])
    assert np.array_equal(to_implicit(weighted).item_ids, matrix.item_ids)
    disliked = matrix.user_items.copy()
    disliked.data[5:7] = -2.0
    for weight in (True, False):
        with pytest.raises(DataError, match=r"2 negative values, the first is -2 in row \d+, column \d+; expected pos"):
            from_implicit(disliked, weight=weight)
        kept = from_implicit(disliked.maximum(0), matrix.user_ids, matrix.item_ids, weight=weight)
        assert kept.n_interactions == names.n_interactions - 2
    with pytest.raises(DataError, match="2 negative values"):
        from_implicit(disliked.tocoo())
    for convert in (to_implicit, to_surprise):
        with pytest.raises(DataError, match="expects Interactions, given DataFrame"):
            convert(ROWS)


@pytest.mark.parametrize(
    ("module", "peer", "extra"),
    [("lenskit", "lenskit.data", "lenskit"), ("rectools", "rectools.dataset", "rectools")],
)
def test_missing_peers_are_named(module, peer, extra, monkeypatch):
    for name in (peer.partition(".")[0], peer):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"tastespace.adapters.{module}", raising=False)
    with pytest.raises(ParameterError, match=rf"which is not installed: pip install .* \(the {extra} extra\)"):
        importlib.import_module(f"tastespace.adapters.{module}")
    monkeypatch.setitem(sys.modules, "surprise", None)
    with pytest.raises(ParameterError, match=r"\(the surprise extra\)"):
        to_surprise(ts.synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
