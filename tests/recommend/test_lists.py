"""Recommended lists against brute force, and the ways in which they leave: frames, arrays, files."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from polars.testing import assert_frame_equal
from tests.recommend.toy_models import (
    Given,
    assert_best,
    blend_of,
    by_vector,
    in_order,
    lists_of,
    past_rows,
    space_of,
    taken,
)

from tastespace import (
    CML,
    DPCML,
    EASE,
    Interactions,
    MostPopular,
    synthetic,
)
from tastespace.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    UnknownIdError,
)
from tastespace.models import BPR

pytestmark = pytest.mark.usefixtures("one_core")

MODELS = ["dpcml", "cml", "ease", "popular"]


@pytest.fixture(params=MODELS)
def model(request):
    return request.getfixturevalue(request.param)


def all_scores(model):
    """Scores of all users and items in double precision, by other means than the model's own."""
    data = model.train_
    if model.vectors() is not None:
        return np.stack([by_vector(model.vectors(), row).max(axis=0) for row in range(data.n_users)])
    took = data.matrix.toarray().astype(np.float64)
    if isinstance(model, EASE):
        return took @ model.weights_.astype(np.float64)
    return np.tile(took.sum(axis=0), (data.n_users, 1))


def rows_by_user(frame, data):
    """Rows of the recommended items, one list per row of a user."""
    found = lists_of(frame)
    return [data.items.index_of(found.get(user, [])).tolist() for user in data.users.series]


# ---- what a list holds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "more"),
    [("dpcml", ["distance", "interest"]), ("cml", ["distance"]), ("ease", []), ("popular", [])],
)
def test_columns_depend_on_the_kind_of_model(name, more, request):
    found = request.getfixturevalue(name).recommend(["u003"], k=2)
    assert found.columns == ["user", "item", "rank", "score", *more]


@pytest.mark.parametrize("k", [1, 10, 90, 1000])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_are_the_best_by_brute_force(model, k, exclude_seen):
    data, scores = model.train_, all_scores(model)
    frame = model.recommend(k=k, exclude_seen=exclude_seen)
    for row, found in enumerate(rows_by_user(frame, data)):
        seen = set(past_rows(data, row)) if exclude_seen else set()
        assert_best(found, scores[row], [item for item in range(data.n_items) if item not in seen], k)
        assert not seen & set(found)
    assert frame["user"].unique(maintain_order=True).equals(data.users.series)  # everybody, in the order of the ids


def test_scores_fall_and_ranks_count_from_one(model):
    frame = model.recommend(k=12)
    for _, mine in frame.group_by("user", maintain_order=True):
        assert mine["rank"].to_list() == list(range(1, 13))
        assert (mine["score"].diff().drop_nulls() <= 0).all()
    at = (model.train_.users.index_of(frame["user"]), model.train_.items.index_of(frame["item"]))
    np.testing.assert_allclose(frame["score"], all_scores(model)[at], rtol=1e-5, atol=1e-6)


def test_distance_is_the_smallest_and_interest_the_vector_it_belongs_to(dpcml):
    space, data = dpcml.vectors(), dpcml.train_
    frame = dpcml.recommend(k=20)
    assert (frame["distance"] == -frame["score"]).all()
    for (user,), mine in frame.group_by("user"):
        gaps = -by_vector(space, data.users.index_of([user])[0])[:, data.items.index_of(mine["item"])]
        np.testing.assert_allclose(mine["distance"], gaps.min(axis=0), atol=1e-6)
        np.testing.assert_allclose(gaps[mine["interest"], np.arange(20)], gaps.min(axis=0), atol=1e-6)
    assert len(set(frame["interest"])) > 1


def test_a_blend_has_its_own_scores_and_the_distance_to_the_nearest_interest(dpcml):
    blend = blend_of(dpcml)
    data, frame = blend.train_, blend.recommend(k=15)
    assert frame.columns == ["user", "item", "rank", "score", "distance", "interest"]
    for (user,), mine in frame.group_by("user", maintain_order=True):
        row, items = int(data.users.index_of([user])[0]), data.items.index_of(mine["item"])
        by_interest = by_vector(blend.space, row)
        scores = by_interest.max(axis=0) + blend.table[row]
        assert_best(items.tolist(), scores, sorted(set(range(90)) - set(past_rows(data, row))), 15)
        np.testing.assert_allclose(mine["score"], scores[items], atol=1e-5)
        np.testing.assert_allclose(mine["distance"], -by_interest.max(axis=0)[items], atol=1e-5)
        assert mine["interest"].to_list() == by_interest[:, items].argmax(axis=0).tolist()
    dots = Given(space_of([[[1, 0], [0, 1]], [[1, 1]]], [[1, 0], [0, 1], [3, 1]], "dot")).fit(
        taken({"ann": "a", "bob": "a"}, "abc")
    )
    assert blend_of(dots).recommend(k=1).columns == ["user", "item", "rank", "score", "interest"]


def test_seen_items_come_back_only_where_they_may(dpcml):
    data = dpcml.train_
    had = {(user, item) for user in data.users.series for item in data.items_of(user)}
    assert not had & set(dpcml.recommend(k=90).select("user", "item").iter_rows())
    assert had & set(dpcml.recommend(k=5, exclude_seen=False).select("user", "item").iter_rows())


def test_fewer_candidates_give_fewer_rows():
    data = taken({"all": "abcd", "most": "abc", "few": "a"}, "abcd")
    for model in (EASE(threads=1).fit(data), Given(space_of([[[0]], [[1]], [[3]]], [[0], [1], [2], [5]])).fit(data)):
        assert {user: sorted(items) for user, items in lists_of(model.recommend(k=10)).items()} == {
            "few": ["b", "c", "d"],
            "most": ["d"],
        }
        assert model.recommend(["all"]).columns == model.recommend(["few"]).columns
        assert len(model.recommend(["all"])) == 0
        assert model.recommend(["few"], items=["a", "d"])["item"].to_list() == ["d"]


def test_ties_are_in_the_order_of_the_items():
    grid = [[float(x), float(y)] for x in range(-3, 4) for y in range(-3, 4)]
    model = Given(space_of([[[0, 0]], [[1, 0], [-1, 0]]], grid))
    model.fit(Interactions.from_scipy(sp.csr_array(([1, 1], ([0, 1], [48, 48])), shape=(2, 49))))
    for row, found in enumerate(rows_by_user(model.recommend(k=48), model.train_)):
        assert found == in_order(by_vector(model.space, row).max(axis=0), range(48), 48)


def test_a_list_does_not_depend_on_other_users_of_the_request():
    """Distances far from the origin lose digits in the expanded square; what is shown is in order all the same."""
    here = np.array([47.390625, 57.734375])
    steps = [[-7, -6], [-2, 2], [3, 3], [7, -6], [-6, -3], [-6, 4]]
    items = [here + np.array(step) / 64 for step in steps]  # the first and the fourth are equally far
    rng = np.random.default_rng(0)
    others = [[rng.integers(-8, 9, 2) / 64 + here] for _ in range(40)]
    model = Given(space_of([[here], *others], items), several=False)
    model.fit(Interactions.from_scipy(sp.csr_array((41, 6)) + sp.csr_array(([1], ([1], [0])), shape=(41, 6))))
    alone = model.recommend([0], k=6)
    assert alone["item"].to_list() == [1, 2, 4, 5, 0, 3]
    together = model.recommend(k=6, exclude_seen=False)
    assert together.filter(pl.col("user") == 0).equals(alone)
    for user, found in lists_of(together).items():
        assert found == in_order(by_vector(model.space, user).max(axis=0), range(6), 6)


def test_interests_stay_with_their_items_where_distances_lose_digits():
    rng = np.random.default_rng(2)
    far = np.array([5000.0, -7000.0])
    users = far + rng.integers(-200, 200, (6, 3, 2)) / 8
    space = space_of(users, far + rng.integers(-200, 200, (40, 2)) / 8)
    model = Given(space).fit(Interactions.from_scipy(sp.csr_array(np.eye(6, 40, dtype=int))))
    for (user,), mine in model.recommend(k=40, exclude_seen=False).group_by("user"):
        gaps = -by_vector(space, user)[:, mine["item"]]
        assert mine["distance"].to_list() == gaps.min(axis=0).tolist()
        assert mine["interest"].to_list() == gaps.argmin(axis=0).tolist()


def test_the_worst_of_all_scores_is_a_score():
    scores = np.array([[-np.inf, 2.0, -np.inf, 1.0]] * 2, dtype=np.float32)
    model = Given(scores=scores, several=False).fit(Interactions.from_scipy(sp.csr_array([[0, 1, 0, 0], [1, 0, 0, 0]])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.recommend([0], k=4)["item"].to_list() == [3, 0, 2]


def test_lists_of_more_users_than_a_block_holds():
    rng = np.random.default_rng(4)
    model = Given(space_of(rng.integers(-9, 9, (5_000, 2, 3)), rng.integers(-9, 9, (30, 3))))
    model.fit(Interactions.from_scipy(sp.random_array((5_000, 30), density=0.1, rng=rng)))
    found = model.recommend(k=5)
    for row in (0, 4_095, 4_096, 4_999):
        allowed = sorted(set(range(30)) - set(past_rows(model.train_, row)))
        expected = in_order(by_vector(model.space, row).max(axis=0), allowed, 5)
        assert found.filter(pl.col("user") == row)["item"].to_list() == expected
        assert model.recommend_indices(k=5)[0][row].tolist() == expected
    assert model.recommend([4_999, 17], k=5).equals(
        pl.concat([found.filter(pl.col("user") == user) for user in (4_999, 17)])
    )


def test_one_thread_and_two_give_the_same(model):
    assert model.recommend(threads=1).equals(model.recommend(threads=2))
    assert model.recommend(threads=1, filter="year > 1990").equals(model.recommend(threads=2, filter="year > 1990"))
    with pytest.raises(ParameterError, match="threads=-1"):
        model.recommend(threads=-1)


@pytest.mark.parametrize("model", [DPCML(), CML(), EASE(), MostPopular()], ids=lambda model: type(model).__name__)
def test_unfitted_models_say_so(model, tmp_path):
    for ask in (
        lambda: model.recommend(),
        lambda: model.recommend_indices(),
        lambda: model.recommend_to(tmp_path / "lists.csv"),
        lambda: model.recommend_for([["a"]]),
        lambda: model.fold_in([["a"]]),
        lambda: model.shelves("a"),
        lambda: model.interests("a"),
        lambda: model.explain("a", "b"),
        lambda: model.similar_items("a"),
        lambda: model.similar_users("a"),
        lambda: model.export(tmp_path / "vectors"),
    ):
        with pytest.raises(NotFittedError, match=r"call fit\(train\) first"):
            ask()
    assert not list(tmp_path.iterdir())


# ---- frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [EASE, lambda threads: DPCML(dim=4, epochs=2, threads=threads)])
def test_answers_come_in_the_library_of_the_data(make, shop, pandas_shop, shop_frames):
    expected = make(threads=1).fit(shop).recommend(["u003", "u009"], k=4)
    found = make(threads=1).fit(pandas_shop).recommend(["u003", "u009"], k=4)
    assert isinstance(found, pd.DataFrame)
    assert_frame_equal(pl.DataFrame(found.to_dict("list")), expected, check_dtypes=False)
    arrow = Interactions.from_frame(shop_frames[0].to_arrow(), catalog=shop.items.series.to_list())
    found = make(threads=1).fit(arrow).recommend(["u003", "u009"], k=4)
    assert isinstance(found, pa.Table)
    assert_frame_equal(pl.from_arrow(found), expected)


def test_ids_come_back_in_the_type_in_which_they_went_in():
    kinds = ((pl.Int32, pl.UInt8), (pl.Int64, pl.String), (pl.String, pl.Int64), (pl.Date, pl.Date))
    for user, item in (*kinds, *([(pl.Float16, pl.Float16)] if hasattr(pl, "Float16") else [])):
        frame = pl.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 2, 3]})
        frame = frame.select(
            *(pl.col(name).cast(pl.Int32).cast(kind) for name, kind in (("user", user), ("item", item)))
        )
        model = EASE(threads=1).fit(Interactions.from_frame(frame))
        found = model.recommend(k=2)
        assert found.schema["user"] == user
        assert found.schema["item"] == item
        assert found.filter(pl.col("user") == frame["user"][0])["item"].to_list() == [frame["item"][3]]
        assert model.recommend(frame["user"].to_list()[:1], k=2).schema == found.schema


# ---- users who are not in the model ----------------------------------------------------------------------


def most_taken(data, allowed, k):
    """What most users take: more users first, then by id."""
    count = dict.fromkeys(data.items.series, 0)
    for item in data.to_frame()["item"]:
        count[item] += 1
    return sorted(allowed, key=lambda item: (-count[item], item))[:k]


def test_unknown_users_are_an_error_that_offers_the_nearest(model):
    with pytest.raises(UnknownIdError, match=r"1 of 2 user ids are unknown, the first is 'U003'.*Did you mean u003"):
        model.recommend(["u003", "U003"])
    with pytest.raises(UnknownIdError, match=r"the first is 3 \(int\); known are 120 ids such as 'u000'"):
        model.recommend([3])


def test_unknown_users_may_be_skipped(model):
    known = model.recommend(["u009", "u003"], k=3)
    assert model.recommend(["u009", "nobody", "u003", "none"], k=3, on_unknown="skip").equals(known)
    assert model.recommend(["u009", "u003"], k=3, on_unknown="skip").equals(known)
    nobody = model.recommend(["nobody"], k=3, on_unknown="skip")
    assert len(nobody) == 0
    assert nobody.schema == known.schema


def test_unknown_users_may_get_what_most_take(model, shop):
    asked = ["u009", "nobody", "u003", "u009", "nobody"]
    found = model.recommend(asked, k=3, on_unknown="popular")
    assert found["user"].to_list() == [user for user in asked for _ in range(3)]  # the order of the question
    assert found["rank"].to_list() == [1, 2, 3] * 5
    for at, user in enumerate(asked):
        mine = found[3 * at : 3 * at + 3]
        if user == "nobody":
            assert mine["item"].to_list() == most_taken(shop, shop.items.series, 3)
            assert all(mine[name].null_count() == 3 for name in found.columns[3:])
        else:
            assert mine.equals(model.recommend([user], k=3))
    assert found.schema == model.recommend(["u009"]).schema
    assert model.recommend(["u009"], on_unknown="popular").equals(model.recommend(["u009"]))


def test_what_most_take_keeps_to_filter_and_k(model, shop):
    dated = set(shop.item_attributes.filter(pl.col("year") >= 2000)["item"])
    found = model.recommend(["nobody"], k=5, filter="year >= 2000", on_unknown="popular")
    assert found["item"].to_list() == most_taken(shop, dated, 5)
    found = model.recommend(["nobody"], k=5, items=["i08", "i07"], on_unknown="popular")
    assert found["item"].to_list() == most_taken(shop, ["i07", "i08"], 5)


def test_what_most_take_in_pandas(pandas_shop):
    found = EASE(threads=1).fit(pandas_shop).recommend(["nobody", "u003"], k=2, on_unknown="popular")
    assert isinstance(found, pd.DataFrame)
    assert found["user"].tolist() == ["nobody", "nobody", "u003", "u003"]
    assert found["score"].isna().tolist() == [True, True, False, False]


@pytest.mark.parametrize("kind", [pl.Int32, pl.UInt16, pl.Int64])
def test_unknown_users_do_not_change_the_type_of_the_answer(kind):
    frame = pl.DataFrame({"user": [1, 1, 2, 3], "item": ["a", "b", "b", "c"]}, schema_overrides={"user": kind})
    model = EASE(threads=1).fit(Interactions.from_frame(frame))
    for on_unknown in ("skip", "popular"):
        found = model.recommend([3, 4, 1], k=1, on_unknown=on_unknown)
        assert found.schema["user"] == kind
        assert found["user"].to_list() == [3, 4, 1] if on_unknown == "popular" else [3, 1]
    beyond = model.recommend([3, -4], k=1, on_unknown="popular")
    assert beyond["user"].to_list() == [3, -4]


# ---- arrays ------------------------------------------------------------------------------------------------


def test_indices_tell_the_same_as_ids(model):
    data = model.train_
    top, scores = model.recommend_indices(k=7)
    assert top.shape == scores.shape == (120, 7)
    frame = model.recommend(k=7)
    assert data.items.take(top.ravel()).to_list() == frame["item"].to_list()
    assert np.array_equal(scores.ravel(), frame["score"].to_numpy())
    some, some_scores = model.recommend_indices(np.array([9, 3, 9]), k=7, exclude_seen=False, threads=2)
    frame = model.recommend(data.users.take(np.array([9, 3, 9])), k=7, exclude_seen=False)
    assert data.items.take(some.ravel()).to_list() == frame["item"].to_list()
    assert np.array_equal(some_scores.ravel(), frame["score"].to_numpy())


def test_indices_of_short_lists_are_filled_up():
    data = Interactions.from_scipy(sp.csr_array([[1, 1, 0], [1, 0, 0], [1, 1, 1]]))
    top, scores = MostPopular().fit(data).recommend_indices(k=4)
    assert top.tolist() == [[2, -1, -1, -1], [1, 2, -1, -1], [-1, -1, -1, -1]]
    np.testing.assert_array_equal(scores[:2], [[1, np.nan, np.nan, np.nan], [2, 1, np.nan, np.nan]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 120], "user indices from 0 to 120 were given, expected 0 to 119. For ids use recommend"),
        ([-1], "user indices from -1 to -1"),
        ([0.5], "expects whole numbers"),
        ([[1, 2]], "expects whole numbers"),
        (["u003"], "expects whole numbers"),
        (3, "expects whole numbers"),
    ],
)
def test_indices_that_are_none_are_refused(model, rows, message):
    with pytest.raises(ParameterError, match=message):
        model.recommend_indices(rows)


# ---- files -------------------------------------------------------------------------------------------------


def read(path):
    reader = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}[path.suffix]
    return reader(path)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_file_holds_what_recommend_gives(model, ending, tmp_path):
    path = tmp_path / "new" / f"lists.{ending}"
    expected = model.recommend(k=4)
    assert model.recommend_to(str(path), k=4) == len(expected) == 480
    assert_frame_equal(read(path), expected, check_dtypes=ending == "parquet")
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing else is left behind
    arguments = {"k": 90, "exclude_seen": False, "filter": "year > 1990"}
    expected = model.recommend(["u009", "u003"], **arguments)
    assert model.recommend_to(path, ["u009", "u003"], **arguments) == len(expected)  # over the old one
    assert_frame_equal(read(path), expected, check_dtypes=ending == "parquet")


def test_a_file_of_no_users_has_its_columns(tmp_path):
    model = MostPopular().fit(Interactions.from_scipy(sp.csr_array([[1, 1], [1, 0]])))
    assert model.recommend_to(tmp_path / "lists.parquet", [0]) == 0
    assert pl.read_parquet(tmp_path / "lists.parquet").schema == model.recommend([1]).schema


@pytest.mark.parametrize("name", ["lists.xlsx", "lists", "lists.parquet.gz"])
def test_other_endings_are_refused(model, name, tmp_path):
    with pytest.raises(ParameterError, match=r"expected a name that ends in \.parquet, \.csv, \.jsonl"):
        model.recommend_to(tmp_path / name)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_place_that_cannot_be_written_to_is_an_error(model, ending, tmp_path):
    (tmp_path / "file").write_text("I am a file.")
    with pytest.raises(DataError, match=rf"lists\.{ending} could not be written: "):
        model.recommend_to(tmp_path / "file" / f"lists.{ending}")
    folder = tmp_path / f"folder.{ending}"
    folder.mkdir()
    with pytest.raises(DataError, match=rf"folder\.{ending} could not be written: "):
        model.recommend_to(folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", f"folder.{ending}"]
    assert (tmp_path / "file").read_text() == "I am a file."


class _Breaks(Given):
    """Runs out of luck in the second block."""

    def score_block(self, users):
        if users[-1] == self.train_.n_users - 1:
            raise self.scores
        return np.zeros((len(users), self.train_.n_items), np.float32)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("problem", [DataError("no luck"), OSError("no luck"), ValueError("no luck")])
def test_an_old_file_survives_when_a_new_one_fails(ending, problem, tmp_path):
    path = tmp_path / f"lists.{ending}"
    path.write_text("the old lists")
    data = Interactions.from_scipy(sp.csr_array(([1], ([0], [0])), shape=(8_000, 20)))
    with pytest.raises((DataError, ValueError), match="no luck"):
        _Breaks(scores=problem, several=False).fit(data).recommend_to(path)
    assert path.read_text() == "the old lists"
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_for_known_users_only(model, tmp_path):
    with pytest.raises(UnknownIdError, match="the first is 'nobody'"):
        model.recommend_to(tmp_path / "lists.csv", ["nobody"])
    assert not list(tmp_path.iterdir())


MEASURED = """
import resource, sys
import numpy as np, scipy.sparse as sp
sys.path.insert(0, sys.argv[1])
from tests.recommend.toy_models import Given
from tastespace import Interactions
from tastespace.models import VectorSpace

rng, n = np.random.default_rng(0), 60_000
users, items = rng.normal(size=(n, 2)).astype(np.float32), rng.normal(size=(100, 2)).astype(np.float32)
model = Given(VectorSpace(users, np.arange(n + 1), items))
model.fit(Interactions.from_scipy(sp.csr_array(([1], ([0], [0])), shape=(n, 100))))
for asked in (np.arange(10_000), None):
    rows = model.recommend_to(sys.argv[2], asked, k=50, threads=1)
    print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.parametrize("ending", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_number_of_users(ending, tmp_path):
    command = [sys.executable, "-c", MEASURED, str(Path(__file__).parent), str(tmp_path / f"lists.{ending}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (few_rows, few), (many_rows, many) = (map(int, line.split()) for line in done.stdout.splitlines())
    whole = (many_rows - few_rows) * (8 + 8 + 4 + 4 + 4 + 4)  # what the additional lists take as one table
    assert whole == 80e6
    assert many - few < whole / 2


@pytest.mark.parametrize("ask", ["save", "export", "recommend_to"])
@pytest.mark.parametrize("place", [None, 3])
def test_a_place_is_the_name_of_a_file(cml, ask, place):
    with pytest.raises(ParameterError, match=f"name of a file or folder, given {place}"):
        getattr(cml, ask)(place)


@pytest.mark.parametrize(
    ("user", "item"),
    [(str, str), (int, str), (str, int), (int, int), (lambda u: f"über {u} 🍵", lambda i: "é" * (i % 3) + str(i))],
    ids=["text", "numbers and text", "text and numbers", "numbers", "more than ASCII"],
)
def test_the_list_of_one_user_is_that_of_a_list_with_one_user(user, item):
    town = synthetic.multi_interest(n_users=40, n_items=30, n_interactions=300).interactions.to_frame()
    frame = pl.DataFrame({
        "user": [user(one) for one in town["user"].to_list()],
        "item": [item(one) for one in town["item"].to_list()],
    })  # fmt: skip
    models = [DPCML(dim=8, n_interests=2, epochs=2), CML(dim=8, epochs=2), BPR(dim=8, epochs=2)]
    for model in models:
        model.fit(frame)
        for options in ({"k": 5}, {"k": 29}, {"k": 5, "filter": np.arange(model.train_.n_items) % 2 == 0}):
            for one in model.train_.users.series.to_list()[:5]:
                found, expected = model.recommend(one, **options), model.recommend([one], **options)
                assert found.equals(expected)
                assert found.schema == expected.schema
