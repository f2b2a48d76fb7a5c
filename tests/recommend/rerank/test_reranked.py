import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tastespace as ts
from tastespace.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    UnknownIdError,
)
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.recommend.rerank import pools as pool_reranker
from tastespace.recommend.rerank.reranked import Reranked, rerank

HOWS = ("dd", "pd", "mmr", "dpp", "calibrated")
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)

pytestmark = pytest.mark.usefixtures("one_core")


class Given(Recommender):
    """A model whose vectors, or scores, are handed to it."""

    def __init__(self, metric="l2", scores=None):
        self.metric = metric
        self.scores = scores

    def _fit(self, train, valid, progress):
        rng = np.random.default_rng(7)
        self.users_ = rng.normal(size=(2 * train.n_users, 5)).astype(np.float32)
        self.items_ = rng.normal(size=(train.n_items, 5)).astype(np.float32) * rng.random((train.n_items, 1))

    def vectors(self):
        if self.scores is not None:
            return None
        offsets = np.arange(0, len(self.users_) + 1, 2)
        return VectorSpace(self.users_, offsets, self.items_.astype(np.float32), self.metric)

    def score_block(self, users):
        return super().score_block(users) if self.scores is None else self.scores[users].copy()

    def _fold_in(self, histories):
        return Given(self.metric, self.scores).fit(histories)


@pytest.fixture(scope="module")
def split(town):
    return ts.split.per_user(town.interactions, (0.7, 0.1, 0.2), seed=0)


@pytest.fixture(scope="module")
def ease(split):
    return ts.EASE(regularization=50.0).fit(split[0])


@pytest.fixture(scope="module")
def cml(split):
    return ts.CML(dim=12, epochs=12, n_negatives=5, seed=0, threads=1).fit(split[0])


@pytest.fixture(scope="module")
def dot(split):
    return Given("dot").fit(split[0])


# ---- what it computes, against plain loops from the frame on ------------------------------------------------


def greedy(pool, k, value):
    """Items of the pool, picked one by one; of equal values the first."""
    chosen = []
    for _ in range(min(k, len(pool))):
        rest = [i for i in pool if i not in chosen]
        values = [value(i, chosen) for i in rest]
        chosen.append(rest[next(n for n, v in enumerate(values) if v >= max(values) - 1e-11)])
    return chosen


def unit(values):
    low, top = min(values), max(values)
    return [(v - low) / (top - low) for v in values]


def distances(model, pool):
    """Between items of a pool: vectors as they are, unit vectors, or columns of the table."""
    space = model.vectors()
    if space is None:
        rows = (model.train_.matrix.toarray() > 0).T[pool].astype(float)
    else:
        rows = space.item_vectors[pool].astype(float)
    if space is None or space.metric == "dot":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return {(i, j): float(np.linalg.norm(rows[a] - rows[b])) for a, i in enumerate(pool) for b, j in enumerate(pool)}


def reference(model, how, pool, scores, user, weight, k):
    away = distances(model, pool)
    relevance = dict(zip(pool, unit(scores), strict=True))
    largest = max(away.values())
    by_distance = model.vectors() is not None and model.vectors().metric == "l2"
    if how in ("dd", "pd"):
        if by_distance:
            relevance = {i: 1 / np.sqrt(-float(s)) for i, s in zip(pool, scores, strict=True)}
        counts = model.train_.item_counts

        def gap(i, j):
            if how == "pd":
                return abs(int(counts[i]) - int(counts[j])) / counts.max()
            return away[i, j] if by_distance else away[i, j] / largest

        def value(i, chosen):
            mean = sum(gap(i, j) for j in chosen) / len(chosen) if chosen else 1.0
            return (1 - weight) * relevance[i] + weight * mean

    elif how == "mmr":

        def value(i, chosen):
            alike = max((1 - away[i, j] / largest for j in chosen), default=0.0)
            return (1 - weight) * relevance[i] - weight * alike

    elif how == "dpp":
        mean = sum(d**2 for d in away.values()) / (len(pool) * (len(pool) - 1))

        def value(i, chosen):
            rows = [*chosen, i]
            kernel = np.array([[np.exp(-(away[a, b] ** 2) / mean) for a in rows] for b in rows])
            return (1 - weight) * sum(relevance[a] for a in rows) + weight * np.linalg.slogdet(kernel)[1]

    else:
        genres = model.train_.item_attributes["genres"].to_list()
        history = [genres[i][0] for i in model.train_.items_of(user)]
        target = {g: history.count(g) / len(history) for g in set(history)}

        def value(i, chosen):
            shown = [genres[a][0] for a in (*chosen, i)]
            mix = {g: 0.99 * shown.count(g) / len(shown) + 0.01 * p for g, p in target.items()}
            divergence = sum(p * np.log(p / mix[g]) for g, p in target.items())
            return (1 - weight) * sum(relevance[a] for a in (*chosen, i)) - weight * divergence

    return greedy(pool, k, value)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["ease", "cml", "dot"])
def test_lists_are_those_of_the_plain_loops(how, kind, request):
    model = request.getfixturevalue(kind)
    users = [0, 5, 17, 120]
    frame = model.recommend(users, k=25)
    for weight in (0.2, 0.6):
        found = rerank(frame, model, how, k=8, weight=weight)
        for user in users:
            pool = frame.filter(pl.col("user") == user)
            expected = reference(model, how, pool["item"].to_list(), pool["score"].to_list(), user, weight, 8)
            assert found.filter(pl.col("user") == user)["item"].to_list() == expected, (weight, user)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["ease", "cml", "dot"])
def test_no_weight_gives_back_the_order_that_came(how, kind, request):
    model = request.getfixturevalue(kind)
    assert rerank(model.recommend(k=30), model, how, k=10, weight=0).equals(model.recommend(k=10))
    shuffled = model.recommend([3], k=12).with_columns(score=pl.lit(1.5))  # no information in the scores
    assert rerank(shuffled, model, how, k=12, weight=0)["item"].to_list() == shuffled["item"].to_list()


def mean_spread(frame, model):
    """Mean distance between two items of a list, over all lists."""
    lists = np.array(frame.sort("user", "rank").group_by("user", maintain_order=True).agg("item")["item"].to_list())
    every = distances(model, list(range(model.train_.n_items)))
    table = np.array([[every[i, j] for j in range(model.train_.n_items)] for i in range(model.train_.n_items)])
    return float(np.mean([table[np.ix_(row, row)].sum() / (len(row) * (len(row) - 1)) for row in lists]))


@pytest.mark.parametrize("how", ["dd", "mmr", "dpp"])
@pytest.mark.parametrize("kind", ["ease", "cml"])
def test_more_weight_gives_no_less_distance_within_lists(how, kind, request):
    model = request.getfixturevalue(kind)
    frame = model.recommend(k=50)
    spread = [mean_spread(rerank(frame, model, how, k=8, weight=weight), model) for weight in WEIGHTS]
    assert spread[-1] > 1.02 * spread[0]
    assert spread == sorted(spread)


def test_more_weight_widens_the_gaps_of_popularity(ease):
    frame, counts = ease.recommend(k=50), ease.train_.item_counts

    def gaps(weight):
        lists = rerank(frame, ease, "pd", k=8, weight=weight).group_by("user").agg("item")["item"].to_list()
        seen = counts[np.array(lists)]
        return float(np.abs(seen[:, :, None] - seen[:, None]).mean())

    found = [gaps(weight) for weight in WEIGHTS]
    assert found == sorted(found)
    assert found[-1] > found[0]


def test_calibration_brings_categories_nearer_to_the_history(ease, town):
    train, frame = ease.train_, ease.recommend(k=60)
    share = np.eye(len(town.categories))[town.item_category]
    wanted = np.array([share[train.items_of(user)].mean(axis=0) for user in range(train.n_users)])

    def distance(weight):
        lists = rerank(frame, ease, "calibrated", k=10, weight=weight).sort("user", "rank")
        shown = share[lists["item"].to_numpy()].reshape(train.n_users, 10, -1).mean(axis=1)
        return float(np.abs(shown - wanted).sum(axis=1).mean())

    found = [distance(weight) for weight in (0.0, 0.5, 0.9, 1.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.5 * found[0]


# ---- frames --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_every_library_gets_its_own_frame_back_with_all_columns(how, cml):
    frame = cml.recommend([4, 9, 2], k=20).with_columns(
        interest=pl.lit(3, dtype=pl.Int8), note=pl.concat_str(pl.lit("n"), pl.col("item")), parts=pl.concat_list("item")
    )
    expected = rerank(frame, cml, how, k=6, weight=0.4)
    assert expected.schema == frame.schema
    assert expected["user"].to_list() == [4] * 6 + [9] * 6 + [2] * 6
    assert expected["rank"].to_list() == [1, 2, 3, 4, 5, 6] * 3
    both = expected.join(frame, on=["user", "item"], how="left", maintain_order="left")
    for name in ("score", "distance", "interest", "note", "parts"):
        assert both[name].to_list() == both[f"{name}_right"].to_list()

    lazy = rerank(frame.lazy(), cml, how, k=6, weight=0.4)
    assert expected.equals(lazy)
    rows = frame.to_dict(as_series=False)
    panda = pd.DataFrame(rows, index=np.arange(60) + 100)
    panda["kind"] = pd.Categorical(["a", "b"] * 30)
    found = rerank(panda, cml, how, k=6, weight=0.4)
    assert isinstance(found, pd.DataFrame)
    assert found.index.tolist() == list(range(18))
    assert (found.dtypes == panda.dtypes).all()
    arrow = rerank(pa.table(rows), cml, how, k=6, weight=0.4)
    assert isinstance(arrow, pa.Table)
    for name in expected.columns:
        assert found[name].tolist() == arrow[name].to_pylist() == expected[name].to_list()


def test_rows_in_any_order_and_pools_of_any_length(cml):
    frame = cml.recommend([8, 1, 5], k=15)
    ragged = frame.filter((pl.col("user") != 1) | (pl.col("rank") <= 4))
    ragged = ragged.filter((pl.col("user") != 5) | (pl.col("rank") <= 1))
    mixed = ragged.sample(fraction=1.0, shuffle=True, seed=2)
    for how in HOWS:
        found = rerank(mixed, cml, how, k=10, weight=0.5)
        assert dict(found.group_by("user").len().iter_rows()) == {8: 10, 1: 4, 5: 1}
        assert (
            found["user"].unique(maintain_order=True).to_list() == mixed["user"].unique(maintain_order=True).to_list()
        )
        for user in (8, 1, 5):
            alone = rerank(ragged.filter(pl.col("user") == user), cml, how, k=10, weight=0.5)
            assert found.filter(pl.col("user") == user).equals(alone)
        assert rerank(mixed.head(0), cml, how).equals(mixed.head(0))


def test_ids_of_text_and_the_data_s_own_categories():
    rng = np.random.default_rng(0)
    events = pd.DataFrame({"user": [f"u{u}" for u in rng.integers(0, 20, 200)], "item": rng.integers(0, 30, 200)})
    events["item"] = "i" + events["item"].astype(str)
    names = sorted(events["item"].unique())
    kinds = pd.DataFrame({"item": names, "title": [f"t {n}" for n in names], "kind": ["a", "b", "c"] * 9 + ["a"] * 3})
    data = ts.Interactions.from_frame(events, item_attributes=kinds[: len(names)])
    model = ts.EASE().fit(data)
    frame = model.recommend(k=12)
    assert isinstance(frame, pd.DataFrame)
    by_default = rerank(frame, model, "calibrated", k=5, weight=0.9)
    pd.testing.assert_frame_equal(by_default, rerank(frame, model, "calibrated", k=5, weight=0.9, column="kind"))
    assert not by_default["item"].equals(rerank(frame, model, "calibrated", k=5, weight=0.9, column="title")["item"])
    assert not by_default["item"].equals(rerank(frame, model, k=5, weight=0.9)["item"])


@settings(max_examples=40)
@given(st.data(), st.sampled_from(HOWS), st.floats(0, 1), st.integers(1, 12))
def test_lists_are_made_of_the_pool_without_repeats(town, ease, cml, data, how, weight, k):
    rows = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), unique=True, min_size=1, max_size=40))
    scores = data.draw(st.lists(st.floats(-5, 5, width=32), min_size=len(rows), max_size=len(rows)))
    ranks = data.draw(st.permutations(range(len(rows))))
    frame = pl.DataFrame({"user": [u for u, _ in rows], "item": [i for _, i in rows], "rank": ranks, "score": scores})
    for model in (ease, cml):
        found = rerank(frame, model, how, k=k, weight=weight)
        assert found.select("user", "item").is_unique().all()
        assert set(found.select("user", "item").iter_rows()) <= set(rows)
        for user, pool in frame.group_by("user"):
            mine = found.filter(pl.col("user") == user[0])
            assert mine["rank"].to_list() == list(range(1, min(k, len(pool)) + 1))
        longer = rerank(frame, model, how, k=k + 3, weight=weight)  # greedy: a longer list begins with the shorter
        assert longer.filter(pl.col("rank") <= k).equals(found)


@pytest.mark.parametrize("kind", ["ease", "cml"])
def test_blocks_and_a_small_table_of_cosines_change_nothing(kind, request, monkeypatch):
    model = request.getfixturevalue(kind)
    frame = model.recommend(k=20)
    whole = [rerank(frame, model, how, k=9, weight=0.5) for how in HOWS]
    monkeypatch.setattr(pool_reranker, "_ENTRIES_AT_ONCE", 3000)
    monkeypatch.setattr(pool_reranker, "_MOST_ITEMS", 70)
    monkeypatch.setattr(pool_reranker, "_ROWS_AT_ONCE", 16)
    for how, expected in zip(HOWS, whole, strict=True):
        assert rerank(frame, model, how, k=9, weight=0.5).equals(expected)
    with pytest.raises(ParameterError, match=r"a user has 80 recommendations; mmr compares.*up to 70"):
        rerank(model.recommend([1], k=80), model)


def test_scores_that_are_no_distances_are_taken_by_range(cml):
    frame = cml.recommend([3], k=20)
    shifted = frame.with_columns(pl.col("score") + 100)
    for scale in (1.0, 7.0):
        found = rerank(shifted.with_columns(pl.col("score") * scale), cml, "dd", k=8, weight=0.3)
        assert found["item"].to_list() == rerank(shifted, cml, "dd", k=8, weight=0.3)["item"].to_list()


# ---- two stages as one model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["ease", "cml", "dot"])
def test_the_model_recommends_what_reranking_its_pool_gives(how, kind, request, split):
    first = request.getfixturevalue(kind)
    model = Reranked.around(first, how=how, weight=0.4, pool=25)
    found = model.recommend(k=10)
    expected = rerank(first.recommend(k=25), first, how, k=10, weight=0.4)
    assert found.select("user", "item", "rank").equals(expected.select("user", "item", "rank"))
    # Beyond the pool the first model's order goes on.
    assert model.recommend([6], k=60)["item"].to_list()[25:] == first.recommend([6], k=60)["item"].to_list()[25:]


@pytest.mark.parametrize("kind", ["ease", "cml"])
def test_everything_outside_the_pool_keeps_scores_and_order(kind, request):
    first = request.getfixturevalue(kind)
    scores = Reranked.around(first, how="dd", weight=0.5, pool=15).score_block(np.array([2, 0]))
    plain = first.score_block(np.array([2, 0]))
    assert scores.dtype == np.float32
    for row, user in enumerate((2, 0)):
        pool = set(first.recommend([user], k=15)["item"])
        rest = [i for i in range(first.train_.n_items) if i not in pool]
        assert (scores[row, rest] == plain[row, rest]).all()
        assert scores[row, sorted(pool)].min() > scores[row, rest].max()


def test_fit_evaluate_and_no_weight(split, ease):
    train, valid, test = split
    inner = ts.EASE(regularization=50.0)
    model = Reranked(model=inner, how="calibrated", weight=0.0, pool=30).fit(train, valid)
    assert not inner.is_fitted
    assert model.model_.is_fitted
    metrics = ["P", "NDCG", "MAP", "MRR", "AUC", "CategoryILD", "Coverage"]
    plain = ts.evaluate(ease, test, seen=[train, valid], k=[5, 10], metrics=metrics).metrics
    assert ts.evaluate(model, test, seen=[train, valid], k=[5, 10], metrics=metrics).metrics == pytest.approx(plain)
    wide = Reranked(model=inner, how="mmr", weight=0.6, pool=30).fit(train, valid)
    assert ts.evaluate(wide, test, k=10, metrics=["CategoryILD"])["CategoryILD@10"] > plain["CategoryILD@10"]


@pytest.mark.parametrize("large", [3e38, np.inf, 2.0**24])
def test_huge_scores_keep_their_order(split, large):
    train = split[0]
    scores = np.random.default_rng(1).normal(size=(train.n_users, train.n_items)).astype(np.float32)
    scores[:, ::7] = large
    scores[:, 3] = -np.inf
    first = Given(scores=scores).fit(train)
    model = Reranked.around(first, how="pd", weight=0.3, pool=40)
    expected = rerank(first.recommend(k=40), first, "pd", k=40, weight=0.3)
    assert model.recommend(k=40)["item"].to_list() == expected["item"].to_list()
    rest = first.recommend([9], k=train.n_items)["item"].to_list()[40:]
    assert model.recommend([9], k=train.n_items)["item"].to_list()[40:] == rest


def test_parameters_and_clones_reach_the_first_stage(split):
    model = Reranked(model=ts.EASE(), how="dd", weight=0.3, pool=50)
    assert repr(model) == "Reranked(model=EASE(), how='dd', weight=0.3, pool=50)"
    model.set_params(model__regularization=7.0, weight=0.4)
    clone = model.clone()
    assert clone.model is not model.model
    assert (clone.model.regularization, clone.weight, clone.how) == (7.0, 0.4, "dd")
    with pytest.raises(ParameterError, match=r"has no parameter 'wait'.*Did you mean weight"):
        model.set_params(wait=1)
    with pytest.raises(ParameterError, match="EASE has no parameter 'regularizatio'"):
        model.set_params(model__regularizatio=1)
    with pytest.raises(NotFittedError, match="this Reranked is not fitted yet"):
        model.recommend([1])
    with pytest.raises(NotFittedError, match="this EASE is not fitted yet"):
        Reranked.around(ts.EASE())
    with pytest.raises(ParameterError, match=r"expected a recommender, such as EASE\(\)"):
        Reranked.around(split[0])


def test_stages_can_be_stacked(cml):
    inner = Reranked.around(cml, how="pd", weight=0.2, pool=40)
    outer = Reranked.around(inner, how="dd", weight=0.2, pool=20)
    frame = inner.recommend([5, 6], k=20)
    assert outer.recommend([5, 6], k=10)["item"].to_list() == rerank(frame, inner, "dd", 10, 0.2)["item"].to_list()
    assert mean_spread(outer.recommend(k=8), cml) > mean_spread(inner.recommend(k=8), cml)


def test_new_users_see_items_as_they_were(split):
    train = split[0]
    first = Given(scores=np.random.default_rng(3).normal(size=(train.n_users, train.n_items)).astype(np.float32))
    few = train.subset(train.row_of_each() < 5)
    for how in ("pd", "dd", "calibrated"):
        model = Reranked(model=first, how=how, weight=0.5, pool=30).fit(train)
        folded = model._fold_in(few)
        assert folded.train_ is few
        assert folded.recommend([0, 1, 4], k=8).equals(model.recommend([0, 1, 4], k=8))


# ---- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "mrr"}, r"how='mrr': expected one of dd, pd, mmr, dpp, calibrated\. Did you mean mmr"),
        ({"how": None}, "how=None: expected one of"),
        ({"weight": 1.2}, r"weight=1\.2: expected the share of diversity from 0"),
        ({"weight": -0.1}, "weight=-0.1"),
        ({"weight": float("nan")}, "weight=nan"),
        ({"weight": "much"}, "weight='much'"),
        ({"weight": True}, "weight=True"),
        ({"k": 0}, "k=0: expected a number of items from 1 to 2,147,483,647"),
        ({"k": 2.5}, "k=2.5"),
        ({"column": "genres"}, "mmr has no option 'column'; it has none"),
        ({"how": "calibrated", "colum": "x"}, r"calibrated has no option 'colum'; .* Did you mean column"),
        (
            {"how": "calibrated", "column": "genre"},
            r"expected an item attribute.*'genres'\. Did you mean genres",
        ),
        ({"how": "calibrated", "smoothing": 0}, "smoothing=0: expected a number between 0 and 1"),
    ],
)
def test_bad_parameters_are_named(ease, options, message):
    with pytest.raises(ParameterError, match=message):
        rerank(ease.recommend([1], k=9), ease, **options)


def test_bad_frames_are_explained(ease, split):
    frame = ease.recommend([1, 2], k=5)
    with pytest.raises(DataError, match=r"no column 'score'; its columns are 'user', .*'Score', expected"):
        rerank(frame.rename({"score": "Score"}), ease)
    with pytest.raises(DataError, match=r"expected a frame such as model\.recommend returns, given list"):
        rerank([1, 2], ease)
    with pytest.raises(UnknownIdError, match=r"users that are not in the model: 5 of 10.*99999.*leave these"):
        rerank(frame.with_columns(pl.col("user").replace(2, 99999)), ease)
    with pytest.raises(UnknownIdError, match="items that are not in the model"):
        rerank(frame.with_columns(pl.col("item") + 10_000), ease)
    with pytest.raises(DataError, match=r"has item \d+ for user 1 more than once. Ask for each user once"):
        rerank(pl.concat([frame, frame.head(1)]), ease)
    for name in ("score", "rank"):
        gap = frame.with_columns(pl.when(pl.col("user") == 1).then(pl.col(name)))
        with pytest.raises(DataError, match=f"'{name}' of the recommendations: 5 of 10 values are missing.*row 5"):
            rerank(gap, ease)
        with pytest.raises(DataError, match=f"'{name}' of the recommendations has type String, expected numbers"):
            rerank(frame.with_columns(pl.col(name).cast(pl.String)), ease)
    with pytest.raises(ParameterError, match="expected the fitted model"):
        rerank(frame, split[0])
    with pytest.raises(NotFittedError):
        rerank(frame, ts.EASE())


def test_calibration_without_categories_says_what_is_missing(split):
    bare = ts.Interactions.from_scipy(split[0].matrix)
    model = ts.MostPopular().fit(bare)
    with pytest.raises(ParameterError, match=r"needs item categories, and the data has no item attributes\. Build"):
        rerank(model.recommend([1]), model, "calibrated")
    frame = bare.to_frame()
    titles = pl.DataFrame({"item": range(bare.n_items), "title": [f"t{i}" for i in range(bare.n_items)]})
    named = ts.Interactions.from_frame(frame, item_attributes=titles, catalog=range(bare.n_items))
    model = ts.MostPopular().fit(named)
    with pytest.raises(ParameterError, match=r"looks like categories\. Name one with column=; .* are 'title'"):
        rerank(model.recommend([1]), model, "calibrated")
    empty = titles.with_columns(kind=pl.lit(None, dtype=pl.String))
    model = ts.MostPopular().fit(ts.Interactions.from_frame(frame, item_attributes=empty))
    with pytest.raises(ParameterError, match="column='kind': no item has a value in it"):
        rerank(model.recommend([1]), model, "calibrated", column="kind")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pool": 0}, "pool=0: expected a number of items to re-order"),
        ({"how": "ddd"}, "Did you mean dd"),
        ({"weight": 7}, "weight=7"),
        ({"column": "genres"}, "mmr has no option 'column'"),
        ({"how": "calibrated", "column": "x"}, "column='x'"),
        ({"model": "ease"}, r"model='ease': expected a recommender, such as EASE\(\)"),
    ],
)
def test_a_bad_second_stage_fails_before_the_first_learns(split, parameters, message):
    class Slow(ts.MostPopular):
        def _fit(self, train, valid, progress):
            raise AssertionError("learned for hours")

    with pytest.raises(ParameterError, match=message):
        Reranked(**{"model": Slow(), **parameters}).fit(split[0])
