"""Conformance tests for authors of recommenders, which every model of this library passes.

Subclass `RecommenderConformance` in a file of your test suite and define `make`; pytest does the rest::


    class TestMine(RecommenderConformance):
        def make(self):
            return Mine(epochs=3)
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import tastespace
from tastespace.data import Interactions, synthetic
from tastespace.data.reading.tables import to_polars
from tastespace.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    UnknownIdError,
)
from tastespace.models import Recommender


def _town(seed: int = 0) -> Interactions:
    """60 users and 40 items with text ids, so that an id can never be mistaken for an index."""
    plain = synthetic.multi_interest(n_users=60, n_items=40, n_interactions=700, seed=seed).interactions
    frame = pl.DataFrame(plain.to_frame()).select(
        pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item")
    )
    genres = pl.DataFrame({"item": frame["item"].unique(maintain_order=True)}).with_columns(
        genre=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("even")).otherwise(pl.lit("odd"))
    )
    return Interactions.from_frame(frame, item_attributes=genres)


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return to_polars(frame)[0].rows()


class RecommenderConformance:
    """Tests of one recommender; `make` of a subclass returns an unfitted one, small and quick."""

    def make(self) -> Recommender:
        """A new, unfitted model with a fixed seed."""
        raise TypeError(f"{type(self).__name__} does not say how a model is made: write its method make().")

    @pytest.fixture
    def data(self) -> Interactions:
        """Training data of the models."""
        return _town()

    @pytest.fixture
    def fitted(self, data: Interactions) -> Recommender:
        """A fitted model, shared by the tests of the class, which do not change it."""
        own = type(self).__dict__
        if "_fitted" not in own:
            type(self)._fitted = self.make().fit(data)  # type: ignore[attr-defined]
        return own["_fitted"]

    # ---- parameters ----------------------------------------------------------------------------------------

    def test_parameters_can_be_read_set_and_cloned(self) -> None:
        """As in scikit-learn."""
        model = self.make()
        parameters = model.get_params(deep=False)
        assert list(parameters) == list(inspect.signature(type(model)).parameters)
        assert parameters.items() <= model.get_params().items()
        assert model.get_params() == model.get_params(deep=True)
        assert all(name in parameters or "__" in name for name in model.get_params())
        clone = model.clone()
        assert type(clone) is type(model)
        assert clone is not model
        assert repr(clone.get_params()) == repr(model.get_params())
        assert model.set_params(**model.get_params()) is model
        assert model.get_params(deep=False) == parameters
        calls: tuple[Callable[..., Any], ...] = (model.set_params, type(model))
        for call in calls:
            with pytest.raises(ParameterError, match="no parameter 'no_such_parameter'"):
                call(no_such_parameter=1)

    def test_scikit_learn_clones_the_model(self, fitted: Recommender) -> None:
        """`sklearn.base.clone` returns an unfitted model with equal parameters."""
        sklearn = pytest.importorskip("sklearn.base")
        clone = sklearn.clone(fitted)
        assert type(clone) is type(fitted)
        assert not clone.is_fitted
        assert not [name for name in vars(clone) if name.endswith("_") and not name.startswith("_")]
        assert repr(clone.get_params()) == repr(fitted.get_params())
        assert list(clone.get_params(deep=False)) == list(fitted.get_params(deep=False))

    def test_only_changed_parameters_are_shown(self) -> None:
        """As in scikit-learn, which decides in the same way what has changed."""
        pprint = pytest.importorskip("sklearn.utils._pprint")
        model = self.make()
        shown = ", ".join(f"{name}={value!r}" for name, value in pprint._changed_params(model).items())
        assert repr(model) == f"{type(model).__name__}({shown})"

    def test_the_constructor_learns_nothing_and_fit_changes_no_parameter(self, data: Interactions) -> None:
        """Learned attributes end in an underscore, and only `fit` learns."""
        model = self.make()
        assert not model.is_fitted
        assert not [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
        before = repr(model.get_params())
        assert model.fit(data) is model
        assert model.is_fitted
        assert repr(model.get_params()) == before

    def test_a_clone_of_a_fitted_model_is_not_fitted(self, fitted: Recommender) -> None:
        """Parameters are copied, not what was learned."""
        assert not fitted.clone().is_fitted

    # ---- before fit, and with bad data ---------------------------------------------------------------------

    def test_an_unfitted_model_says_so(self, tmp_path: Path) -> None:
        """The error says so instead of failing somewhere inside."""
        model = self.make()
        for call in (lambda: model.recommend(k=2), lambda: model.save(tmp_path / "model"), model.recommend_indices):
            with pytest.raises(NotFittedError, match="fit"):
                call()

    def test_data_of_another_kind_and_empty_data_are_refused(self) -> None:
        """Errors say what was expected."""
        with pytest.raises(DataError, match="Interactions"):
            self.make().fit([[0, 1]])  # type: ignore[arg-type]
        nothing = _town()
        nothing = nothing.subset(np.zeros(nothing.n_interactions, dtype=bool))
        with pytest.raises(DataError, match="nothing to learn"):
            self.make().fit(nothing)

    # ---- lists ---------------------------------------------------------------------------------------------

    def test_lists_are_in_order_without_what_was_seen(self, fitted: Recommender, data: Interactions) -> None:
        """Every user gets k items, ranked from 1 by falling score."""
        frame = to_polars(fitted.recommend(k=5))[0]
        assert frame.columns[:4] == ["user", "item", "rank", "score"]
        seen = set(_rows(data.to_frame()))
        for (user,), mine in frame.group_by("user"):
            assert mine["rank"].to_list() == list(range(1, len(mine) + 1))
            assert len(mine) == min(5, data.n_items - len(data.items_of(user)))
            assert mine["score"].is_sorted(descending=True)
            assert mine["item"].is_unique().all()
            assert not seen & {(user, item) for item in mine["item"]}
        assert set(frame["user"]) == set(data.users.series)
        assert set(frame["item"]) <= set(data.items.series)

    def test_fewer_candidates_than_k_give_fewer_rows(self, fitted: Recommender, data: Interactions) -> None:
        """Never a seen item, never a row of padding."""
        user = data.users[0]
        frame = to_polars(fitted.recommend(user, k=10 * data.n_items))[0]
        assert set(frame["item"]) == set(data.items.series) - set(data.items_of(user))
        frame = to_polars(fitted.recommend(user, k=10 * data.n_items, exclude_seen=False))[0]
        assert set(frame["item"]) == set(data.items.series)

    def test_one_user_several_users_and_their_order(self, fitted: Recommender, data: Interactions) -> None:
        """Rows come in the order of the users given."""
        ids = [data.users[7], data.users[3]]
        both = to_polars(fitted.recommend(ids, k=3))[0]
        assert both["user"].unique(maintain_order=True).to_list() == ids
        assert _rows(fitted.recommend(ids[1], k=3)) == both.filter(pl.col("user") == ids[1]).rows()

    def test_items_and_filter_restrict_the_lists(self, fitted: Recommender, data: Interactions) -> None:
        """The best of what is allowed, in the same order as in the whole list."""
        user = data.users[5]
        whole = to_polars(fitted.recommend(user, k=data.n_items))[0]["item"].to_list()
        allowed = data.items.series[::3].to_list()
        some = to_polars(fitted.recommend(user, k=4, items=allowed))[0]["item"].to_list()
        assert some == [item for item in whole if item in allowed][:4]
        assert data.item_attributes is not None
        odd = set(data.item_attributes.filter(pl.col("genre") == "odd")["item"])
        some = to_polars(fitted.recommend(user, k=4, filter="genre = 'odd'"))[0]["item"].to_list()
        assert some == [item for item in whole if item in odd][:4]
        with pytest.raises(DataError, match="leaves none"):
            fitted.recommend(user, filter="genre = 'neither'")

    def test_unknown_users(self, fitted: Recommender, data: Interactions) -> None:
        """An error that offers the nearest ids, or left out, or the most popular items."""
        user = data.users[1]
        with pytest.raises(UnknownIdError, match="nobody"):
            fitted.recommend(["nobody", user])
        assert _rows(fitted.recommend(["nobody", user], k=2, on_unknown="skip")) == _rows(fitted.recommend(user, k=2))
        both = to_polars(fitted.recommend(["nobody", user], k=2, on_unknown="popular"))[0]
        assert both["user"].to_list() == ["nobody", "nobody", user, user]
        popular = data.items.take(np.argsort(-data.item_counts, kind="stable")[:2]).to_list()
        assert both["item"].to_list()[:2] == popular

    def test_bad_numbers_of_items_are_refused(self, fitted: Recommender) -> None:
        """K is 1 or more."""
        for k in (0, -1, 2.5, True):
            with pytest.raises(ParameterError, match="k="):
                fitted.recommend(k=k)  # type: ignore[arg-type]

    def test_indices_and_ids_give_the_same_lists(self, fitted: Recommender, data: Interactions) -> None:
        """`recommend_indices` is `recommend` without ids."""
        top, scores = fitted.recommend_indices(k=3)
        assert top.shape == scores.shape == (data.n_users, 3)
        by_id = to_polars(fitted.recommend(k=3))[0]
        assert data.items.take(top[top >= 0]).to_list() == by_id["item"].to_list()
        np.testing.assert_array_equal(scores[top >= 0], by_id["score"].to_numpy())

    def test_scores_of_blocks(self, fitted: Recommender, data: Interactions) -> None:
        """A row per user and a column per item, the same however users are grouped, in the order of the lists."""
        users = np.array([4, 0, 9])
        scores = fitted.score_block(users)
        assert scores.shape == (3, data.n_items)
        assert not np.isnan(scores).any()
        np.testing.assert_allclose(fitted.score_block(users[1:2])[0], scores[1], rtol=1e-4, atol=1e-5)
        best = to_polars(fitted.recommend(data.users[0], k=1, exclude_seen=False))[0]["item"][0]
        assert scores[1].max() - scores[1, data.items.index_of([best])[0]] <= 1e-4 * max(1.0, abs(scores[1].max()))

    def test_frames_come_back_in_the_library_they_came_from(self, data: Interactions) -> None:
        """Pandas in, pandas out."""
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(pl.DataFrame(data.to_frame()).to_dict(as_series=False))
        model = self.make().fit(Interactions.from_frame(frame))
        assert isinstance(model.recommend(k=2), pd.DataFrame)

    def test_frames_and_matrices_give_the_same_model_as_interactions(self, data: Interactions) -> None:
        """`fit` takes a frame whose columns are named, or a CSR matrix."""
        frame = pl.DataFrame(data.to_frame())
        expected = self.make().fit(Interactions.from_frame(frame)).recommend_indices(k=5)
        named = frame.rename({"user": "who", "item": "sku"})
        for model in (self.make().fit(named, user="who", item="sku"), self.make().fit(data.matrix)):
            for found, wanted in zip(model.recommend_indices(k=5), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)

    # ---- determinism ---------------------------------------------------------------------------------------

    def test_the_same_seed_gives_the_same_model(self, fitted: Recommender, data: Interactions) -> None:
        """To the last bit."""
        users = np.arange(data.n_users)
        again = self.make().fit(data)
        np.testing.assert_array_equal(again.score_block(users), fitted.score_block(users))

    @pytest.mark.parametrize("threads", [1, 2, 3, 8])
    def test_the_number_of_threads_does_not_matter(self, fitted: Recommender, data: Interactions, threads: int) -> None:
        """The same bits for every number of threads, of training where the model has ``threads`` and of inference.

        Every model of the library promises it; one of your own with ``deterministic_threads = False`` may round
        differently, but no more than that.
        """
        assert _rows(fitted.recommend(k=5, threads=threads)) == _rows(fitted.recommend(k=5))
        if "threads" not in fitted.get_params():
            return
        users = np.arange(data.n_users)
        model = self.make().set_params(threads=threads).fit(data)
        found, expected = model.score_block(users), fitted.score_block(users)
        if fitted.deterministic_threads:
            np.testing.assert_array_equal(found, expected)
            assert _rows(model.recommend(k=5, threads=threads)) == _rows(fitted.recommend(k=5))
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())

    def test_a_second_fit_replaces_the_first(self, fitted: Recommender, data: Interactions) -> None:
        """Nothing of the first fit has an influence."""
        model = self.make().fit(_town(seed=5)).fit(data)
        assert _rows(model.recommend(k=5)) == _rows(fitted.recommend(k=5))

    def test_a_saved_model_gives_the_same_lists(self, fitted: Recommender, tmp_path: Path) -> None:
        """To the last bit; and the directory holds no pickle."""
        fitted.save(tmp_path / "model", metrics={"NDCG@10": 0.15})
        loaded = tastespace.load(tmp_path / "model", verify=True)
        assert type(loaded) is type(fitted)
        assert repr(loaded.get_params()) == repr(fitted.get_params())
        users = np.arange(10)
        np.testing.assert_array_equal(loaded.score_block(users), fitted.score_block(users))
        assert _rows(loaded.recommend(k=5)) == _rows(fitted.recommend(k=5))
        assert json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))["format_version"] == 1
        for path in (tmp_path / "model").iterdir():
            assert path.suffix in (".json", ".safetensors", ".parquet")

    # ---- extreme data --------------------------------------------------------------------------------------

    def test_a_single_user_with_a_history(self) -> None:
        """Users without one get what everybody takes, unless the model can serve them."""
        both = Interactions.from_scipy(sp.csr_array(np.array([[1, 1, 0], [0, 0, 1]])), items=["x", "y", "z"])
        model = self.make().fit(both.subset([True, True, False]))
        found = to_polars(model.recommend(k=5))[0]
        assert found.filter(pl.col("user") == 0)["item"].to_list() == ["z"]
        without = found.filter(pl.col("user") == 1)["item"]
        assert set(without) == ({"x", "y", "z"} if model.can_serve(np.array([1]))[0] else set())
        popular = to_polars(model.recommend([1], k=5, on_unknown="popular"))[0]
        assert set(popular["item"]) == {"x", "y", "z"}

    def test_a_user_with_all_items_and_items_without_users(self) -> None:
        """Nothing is left to recommend to the user; items without users are recommended where nothing else is left."""
        frame = pl.DataFrame({"user": [*"aaaa", *"bbcd"], "item": [0, 1, 2, 3, 0, 1, 1, 2]})
        model = self.make().fit(Interactions.from_frame(frame, catalog=[0, 1, 2, 3]))
        found = to_polars(model.recommend(k=9))[0]
        assert dict(found.group_by("user").len().rows()) == {"b": 2, "c": 3, "d": 3}
        assert to_polars(model.recommend("a"))[0].is_empty()
        model = self.make().fit(Interactions.from_frame(frame, catalog=[0, 1, 2, 3, 4, 5]))
        assert set(to_polars(model.recommend("a"))[0]["item"]) == {4, 5}

    # ---- supported by some models only -------------------------------------------------------------------

    def test_fold_in(self, fitted: Recommender, data: Interactions) -> None:
        """Lists for users who were not in training where `supports_fold_in`, else an error."""
        histories = {"new": data.items_of(data.users[0]), "newer": data.items_of(data.users[1])[:1]}
        if not fitted.supports_fold_in:
            with pytest.raises(ParameterError, match=_name_of(fitted)):
                fitted.recommend_for(histories, k=4)
            return
        before = _rows(fitted.recommend(k=2))
        frame = to_polars(fitted.recommend_for(histories, k=4))[0]
        assert frame["user"].unique(maintain_order=True).to_list() == ["new", "newer"]
        for name, history in histories.items():
            mine = frame.filter(pl.col("user") == name)
            assert len(mine) == min(4, data.n_items - len(history))
            assert not set(history) & set(mine["item"])
        assert _rows(fitted.fold_in(histories).recommend(k=4)) == frame.rows()
        assert _rows(fitted.recommend(k=2)) == before

    def test_features_of_new_users_and_items(self, fitted: Recommender, data: Interactions) -> None:
        """Models that learn from features add items by them, the others refuse features of users."""
        if not fitted.supports_cold_start:
            with pytest.raises(ParameterError, match="features"):
                fitted.recommend_for(k=2, features=np.ones((1, 3)))
            return
        model: Any = self.make().fit(data)
        model.add_items(pl.DataFrame({"item": ["new"], "genre": ["even"]}))
        assert sorted([*data.items.series, "new"]) == model.train_.items.series.to_list()
        assert to_polars(model.similar_items("new", k=3))[0].height == 3
        assert to_polars(model.recommend("u0", k=41, exclude_seen=False))[0]["item"].n_unique() == 41

    def test_partial_fit(self, data: Interactions) -> None:
        """Goes on from a fitted model, and learns new users and items."""
        model = self.make()
        assert model.supports_partial_fit == hasattr(model, "partial_fit")
        if model.supports_partial_fit:
            model.fit(data)
            new = Interactions.from_frame(pl.DataFrame({"user": ["u0", "ann"], "item": ["jam", "i0"]}))
            model.partial_fit(new)  # type: ignore[attr-defined]
            assert {"ann", *data.users.series} == set(model.train_.users.series)
            assert to_polars(model.recommend("ann", k=3))[0].height == 3

    def test_similar_items(self, fitted: Recommender, data: Interactions) -> None:
        """Never the item itself; an error from models that have neither item vectors nor `item_scores`."""
        item = data.items[3]
        if fitted.item_space() is None and fitted.item_scores(np.array([3])) is None:
            with pytest.raises(ParameterError, match=_name_of(fitted)):
                fitted.similar_items(item, k=5)
            return
        frame = to_polars(fitted.similar_items(item, k=5))[0]
        assert frame["item"].to_list() == [item] * 5
        assert item not in frame["similar"].to_list()
        assert frame["rank"].to_list() == [1, 2, 3, 4, 5]
        assert frame["score"].is_sorted(descending=True)

    def test_histories(self, fitted: Recommender, data: Interactions) -> None:
        """Scores that are sums over past items are those of the parts of a history together, and of its evidence."""
        users, rows = np.arange(5), data.matrix[np.arange(5)]
        whole = fitted.history_scores(rows)
        if whole is None:
            return
        scores = fitted.score_block(users)
        tolerance = 1e-5 * max(1.0, float(np.abs(scores).max()))
        assert np.allclose(whole, scores, atol=tolerance)
        first = rows.copy()
        first.data[::2] = 0
        second = rows - first
        parts = [fitted.history_scores(one) for one in (first, sp.csr_array(second))]
        assert np.allclose(parts[0] + parts[1], scores, atol=tolerance)  # type: ignore[operator]
        items = np.arange(data.n_items)
        for user in users:
            evidence = fitted.evidence(int(user), items)
            assert evidence is not None
            assert np.allclose(evidence.sum(axis=0), scores[user], atol=tolerance)

    def test_tastes(self, fitted: Recommender, data: Interactions) -> None:
        """Everybody has a taste or more; parts make the scores, and lists name the taste that says most."""
        tastes = fitted.tastes()
        if tastes is None:
            with pytest.raises(TypeError, match="has no tastes"):
                fitted.taste_parts(np.array([0]))
            return
        assert fitted.has_interests
        assert tastes.counts.min() >= 1
        assert len(tastes.of_past) == data.n_interactions
        for user in range(data.n_users):
            assert set(tastes.of_user(user)) <= set(range(tastes.counts[user]))
        users = np.arange(data.n_users)
        parts = fitted.taste_parts(users)
        assert np.array_equal(np.diff(parts.first), tastes.counts)
        if fitted.splits_scores:
            assert np.allclose(parts.totals(), fitted.score_block(users), atol=1e-5)
        frame = to_polars(fitted.recommend(k=4))[0]
        rows, items = data.users.index_of(frame["user"]), data.items.index_of(frame["item"])
        assert frame["interest"].to_list() == parts.strongest()[rows, items].tolist()
        for shelf in fitted.shelves(data.users[0], k=4):
            at = data.items.index_of(shelf.items)
            assert set(parts.strongest()[0, at]) == {shelf.interest}

    def test_vectors(self, fitted: Recommender, data: Interactions, tmp_path: Path) -> None:
        """Shelves, interests, similar users and export need vectors; without, each is an error.

        Export needs vectors that the model ranks by, the others those that tell which interest an item matches.
        Explanations need those, or contributions of past items.
        """
        user, path = data.users[0], tmp_path / "vectors.npz"
        best = to_polars(fitted.recommend(user, k=1))[0]["item"][0]
        if fitted.vectors() is None:
            if not fitted.splits_scores:  # a blend exports a member with vectors, where there is one
                with pytest.raises(ParameterError, match=_name_of(fitted)):
                    fitted.export(path)
        else:
            assert fitted.export(path) == [path]
        contributions = fitted.evidence(0, data.items.index_of([best]))
        if contributions is None and fitted.interest_space() is None:
            with pytest.raises(ParameterError, match=_name_of(fitted)):
                fitted.explain(user, best)
        else:
            found = fitted.explain(user, best, k=3)
            assert found.rank == 1
            assert (found.interest is None) == (fitted.interest_space() is None)
            past = data.items_of(user)
            assert {item for item, _, _ in found.because} <= set(past)
            if contributions is not None:
                assert contributions.shape == (len(past), 1)
                named, tastes = contributions[:, 0] > 0, fitted.tastes()
                if tastes is not None:
                    named &= tastes.of_user(0) == found.interest
                assert len(found.because) == min(3, int(named.sum()))
                shares = [share for _, _, share in found.because]
                assert shares == sorted(shares, reverse=True)
                assert sum(shares) <= 1 + 1e-6
        if fitted.interest_space() is None:
            calls = (lambda: fitted.shelves(user), lambda: fitted.interests(user), lambda: fitted.similar_users(user))
            for call in calls:
                with pytest.raises(ParameterError, match=_name_of(fitted)):
                    call()
            return
        assert len(fitted.shelves(user, k=3)) >= 1
        interests = to_polars(fitted.interests(user, k=2))[0]
        assert fitted.has_interests or len(interests) == 1
        assert interests["weight"].sum() == pytest.approx(1.0)
        similar = to_polars(fitted.similar_users(user, k=3))[0]
        assert len(similar) == 3
        assert user not in similar["similar"].to_list()

    def test_interests(self, fitted: Recommender) -> None:
        """A model with several vectors per user says to which one an item belongs."""
        frame = to_polars(fitted.recommend(k=3))[0]
        assert ("interest" in frame.columns) == fitted.has_interests
        if fitted.has_interests:
            explained = fitted.explain(frame["user"][0], frame["item"][0])
            assert (explained.rank, explained.interest) == (1, frame["interest"][0])

    def test_evaluation(self, data: Interactions) -> None:
        """The figures are those of the lists that the model recommends."""
        train, valid, test = tastespace.split.per_user(data, (0.6, 0.2, 0.2), seed=0)
        model = self.make().fit(train, valid=valid)
        report = tastespace.evaluate(model, test, seen=train, k=5, metrics=["P", "HitRate"])
        held_out = set(_rows(test.to_frame()))
        lists = to_polars(model.recommend(k=5))[0]
        hits = lists.filter(pl.Series([row in held_out for row in lists.select("user", "item").rows()]))
        counted = int((test.user_counts > 0).sum())
        assert report["P@5"] == pytest.approx(len(hits) / 5 / counted, abs=1e-6)
        assert report["HitRate@5"] == pytest.approx(hits["user"].n_unique() / counted, abs=1e-6)


def _name_of(model: Recommender) -> str:
    """An error names the model that does not support something, or the first stage of two."""
    return "|".join(type(one).__name__ for one in (model, getattr(model, "model", model)))


__all__ = ["RecommenderConformance"]
