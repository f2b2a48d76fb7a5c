"""Vectors for other tools: a plain search over them must find what `recommend` gives."""

from __future__ import annotations

import datetime
import json
import sys

import faiss
import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import Given, by_vector, in_order, lists_of, past_rows, space_of, taken

from tastespace import Interactions
from tastespace.errors import DataError, ParameterError

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def dots():
    """A model of inner products with a bias, in whole numbers: sums are exact."""
    rng = np.random.default_rng(8)
    users = [rng.integers(-9, 10, size=(1 + number % 3, 5)) for number in range(15)]
    space = space_of(users, rng.integers(-9, 10, size=(40, 5)), "dot", rng.integers(-20, 21, 40))
    histories = {number: rng.choice(40, 6, replace=False).tolist() for number in range(15)}
    return Given(space).fit(taken(histories, range(40)))


def merged(found, seen, k):
    """Several lists of (value, item) as one: the best value of each item, nothing seen, best first."""
    best = {}
    for value, item in found:
        if item not in seen:
            best[item] = max(value, best.get(item, -np.inf))
    return sorted(best.items(), key=lambda one: (-one[1], one[0]))[:k]


# ---- npz ---------------------------------------------------------------------------------------------------


def test_an_npz_opens_without_pickle_and_holds_everything(dpcml, tmp_path):
    (path,) = dpcml.export(tmp_path / "new" / "vectors.npz")
    assert path == tmp_path / "new" / "vectors.npz"
    with np.load(path, allow_pickle=False) as file:
        found = dict(file)
    assert str(found["metric"]) == "l2"
    assert found["item_ids"].tolist() == dpcml.train_.items.series.to_list()
    assert np.array_equal(found["item_vectors"], dpcml.item_vectors_)
    assert np.array_equal(found["user_vectors"], dpcml.user_vectors_)
    counts = np.diff(dpcml.user_offsets_)
    assert found["user_ids"].tolist() == [
        user for user, count in zip(dpcml.train_.users.series, counts, strict=True) for _ in range(count)
    ]
    assert found["user_interests"].tolist() == [number for count in counts for number in range(count)]


def test_a_search_in_an_npz_gives_what_recommend_gives(dpcml, tmp_path):
    (path,) = dpcml.export(str(tmp_path / "vectors"))
    assert path.name == "vectors.npz"
    file = np.load(path, allow_pickle=False)
    for user in ("u003", "u040"):
        mine = file["user_vectors"][file["user_ids"] == user].astype(np.float64)
        gaps = ((mine[:, None] - file["item_vectors"][None]) ** 2).sum(axis=2)
        rows = in_order(
            -gaps.min(axis=0), [i for i in range(90) if i not in past_rows(dpcml.train_, int(user[1:]))], 10
        )
        found = dpcml.recommend([user])
        assert file["item_ids"][rows].tolist() == found["item"].to_list()
        assert gaps.argmin(axis=0)[rows].tolist() == found["interest"].to_list()


@pytest.mark.parametrize(
    "ids",
    [[1, 2, 3], ["one", "a much longer id", "ü"], [datetime.date(2024, 1, day) for day in (1, 2, 3)]],
    ids=["numbers", "text", "dates"],
)
def test_ids_of_every_kind_come_back_from_an_npz(ids, tmp_path):
    model = Given(space_of([[[0]], [[1]], [[2]]], [[0], [1], [2]]))
    frame = pl.DataFrame({"user": ids, "item": ids})
    model.fit(Interactions.from_frame(frame))
    (path,) = model.export(tmp_path / "v.npz")
    with np.load(path, allow_pickle=False) as file:
        assert file["item_ids"].tolist() == model.train_.items.series.to_list() == sorted(ids)
        assert file["user_ids"].tolist() == sorted(ids)


# ---- parquet -----------------------------------------------------------------------------------------------


def test_parquet_has_a_row_for_each_vector(dpcml, tmp_path):
    folder = tmp_path / "new" / "vectors"
    written = dpcml.export(folder, "parquet")
    assert sorted(path.name for path in written) == ["about.json", "items.parquet", "users.parquet"]
    assert sorted(written) == sorted(folder.iterdir())
    items, users = pl.read_parquet(folder / "items.parquet"), pl.read_parquet(folder / "users.parquet")
    assert items.columns == ["item", "vector"]
    assert users.columns == ["user", "interest", "vector"]
    assert items["item"].equals(dpcml.train_.items.series)
    assert np.array_equal(items["vector"].to_numpy(), dpcml.item_vectors_)
    assert np.array_equal(users["vector"].to_numpy(), dpcml.user_vectors_)
    for row, (_, interests) in enumerate(users.group_by("user", maintain_order=True).agg("interest").iter_rows()):
        assert interests == list(range(np.diff(dpcml.user_offsets_)[row]))
    assert users["user"].unique(maintain_order=True).equals(dpcml.train_.users.series)
    about = json.loads((folder / "about.json").read_text())
    assert about == {"metric": "l2", "dim": 8, "items": 90, "user_vectors": len(dpcml.user_vectors_)}


def test_a_bias_is_a_last_coordinate(dots, tmp_path):
    dots.export(tmp_path, "parquet")
    items, users = pl.read_parquet(tmp_path / "items.parquet"), pl.read_parquet(tmp_path / "users.parquet")
    assert json.loads((tmp_path / "about.json").read_text())["metric"] == "dot"
    products = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    for user in range(15):
        mine = products[(users["user"] == user).to_numpy()]
        assert np.array_equal(mine, by_vector(dots.space, user))


def test_inner_products_without_a_bias_leave_as_they_are(tmp_path):
    model = Given(space_of([[[1, 2]], [[3, 4]]], [[5, 6], [7, 8]], "dot")).fit(taken({"a": "x", "b": "y"}, "xy"))
    (path,) = model.export(tmp_path / "v.npz")
    with np.load(path, allow_pickle=False) as file:
        assert file["item_vectors"].tolist() == [[5, 6], [7, 8]]
        assert file["user_vectors"].tolist() == [[1, 2], [3, 4]]
        assert str(file["metric"]) == "dot"


# ---- faiss -------------------------------------------------------------------------------------------------


def test_faiss_searches_of_all_vectors_merged_are_the_recommendations(dpcml, tmp_path):
    written = dpcml.export(tmp_path, "faiss")
    assert sorted(path.name for path in written) == ["about.json", "items.faiss", "items.parquet", "users.parquet"]
    index = faiss.read_index(str(tmp_path / "items.faiss"))
    assert isinstance(index, faiss.IndexFlatL2)
    names = pl.read_parquet(tmp_path / "items.parquet")["item"].to_list()
    users = pl.read_parquet(tmp_path / "users.parquet")
    lists, distances = (lists_of(dpcml.recommend(k=10), column) for column in ("item", "distance"))
    clear = 0
    for (user,), mine in users.group_by("user", maintain_order=True):
        seen = set(dpcml.train_.items_of(user))
        gaps, rows = index.search(mine["vector"].to_numpy(), 11 + len(seen))
        found = merged([(-gap, names[row]) for gap, row in zip(gaps.ravel(), rows.ravel(), strict=True)], seen, 11)
        near = -np.array([value for _, value in found])
        np.testing.assert_allclose(near[:10], distances[user], atol=1e-5)
        # Items that differ by rounding only may change places.
        apart = (np.diff(near) > 1e-5) & (np.diff(near, prepend=-1)[:-1] > 1e-5)
        assert [item for (item, _), sure in zip(found, apart, strict=False) if sure] == [
            item for item, sure in zip(lists[user], apart, strict=True) if sure
        ]
        clear += apart.sum()
    assert clear > 0.95 * 10 * 120


def test_faiss_finds_the_best_inner_products_with_their_bias(dots, tmp_path):
    dots.export(tmp_path, "faiss")
    index = faiss.read_index(str(tmp_path / "items.faiss"))
    assert isinstance(index, faiss.IndexFlatIP)
    users = pl.read_parquet(tmp_path / "users.parquet")
    recommended = dots.recommend(k=40)
    for (user,), mine in users.group_by("user", maintain_order=True):
        scores, rows = index.search(mine["vector"].to_numpy(), 40)
        found = merged(list(zip(scores.ravel(), rows.ravel(), strict=True)), set(past_rows(dots.train_, user)), 40)
        expected = recommended.filter(pl.col("user") == user).select("item", "score").rows()
        assert [(int(item), float(score)) for item, score in found] == expected


def test_without_faiss_nothing_is_written(dpcml, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(
        ParameterError, match=r"needs faiss, which is not installed: pip install \"faiss-cpu>=1.8\" \(the ann extra\)"
    ):
        dpcml.export(tmp_path / "vectors", "faiss")
    assert not list(tmp_path.iterdir())


# ---- what cannot be ----------------------------------------------------------------------------------------


def test_kinds_that_are_none_are_refused(dpcml, tmp_path):
    with pytest.raises(
        ParameterError, match=r"kind='fais': expected one of npz, parquet, faiss, usearch. Did you mean faiss\?"
    ):
        dpcml.export(tmp_path / "v", "fais")
    with pytest.raises(ParameterError, match="kind=None: expected one of"):
        dpcml.export(tmp_path / "v", None)
    assert not list(tmp_path.iterdir())


def test_models_without_vectors_have_nothing_to_export(ease, popular, tmp_path):
    for model in (ease, popular):
        with pytest.raises(ParameterError, match="has no vectors, so it has no vectors to export"):
            model.export(tmp_path / "v")
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_to_are_an_error(dpcml, tmp_path):
    (tmp_path / "file").write_text("I am a file.")
    for kind in ("npz", "parquet", "faiss"):
        with pytest.raises(DataError, match="could not be written: "):
            dpcml.export(tmp_path / "file" / "v", kind)
    with pytest.raises(DataError, match="could not be written: "):
        dpcml.export(tmp_path / "file", "parquet")
    assert (tmp_path / "file").read_text() == "I am a file."
    with pytest.raises(ParameterError, match=r"is a folder; kind='npz' writes one file, such as .*vectors\.npz"):
        dpcml.export(tmp_path, "npz")
    for kind, name in (("parquet", "users.parquet"), ("parquet", "about.json"), ("npz", "v.npz")):
        (tmp_path / kind / name).mkdir(parents=True)
        with pytest.raises(DataError, match="could not be written: "):
            dpcml.export(tmp_path / kind / ("v" if kind == "npz" else ""), kind)
        (tmp_path / kind / name).rmdir()


def test_an_index_that_cannot_be_written_is_an_error(dpcml, tmp_path):
    (tmp_path / "items.faiss").mkdir()
    with pytest.raises(DataError, match=r"could not be written: .*items\.faiss"):
        dpcml.export(tmp_path, "faiss")
