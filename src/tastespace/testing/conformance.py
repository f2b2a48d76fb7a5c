"""What is true of every recommender, as tests."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import tastespace
from tastespace.data import Interactions, synthetic
from tastespace.data.tables import to_polars
from tastespace.errors import DataError, NotFittedError, ParameterError, UnknownIdError
from tastespace.models import Recommender


def _town(seed: int = 0) -> Interactions:
    """Sixty people and forty items with ids of text, so that an id can never be mistaken for an index."""
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
    """Tests of one recommender; a subclass says with `make` how an unfitted one is made, small and quick."""

    def make(self) -> Recommender:
        """A new, unfitted model with a fixed seed."""
        raise TypeError(f"{type(self).__name__} does not say how a model is made: write its method make().")

    @pytest.fixture
    def data(self) -> Interactions:
        """What the models are fitted to."""
        return _town()

    @pytest.fixture
    def fitted(self, data: Interactions) -> Recommender:
        """A fitted model, shared by the tests of the class, which only ask it."""
        own = type(self).__dict__
        if "_fitted" not in own:
            type(self)._fitted = self.make().fit(data)  # type: ignore[attr-defined]
        return own["_fitted"]

    # ---- parameters ----------------------------------------------------------------------------------------

    def test_parameters_can_be_read_set_and_cloned(self) -> None:
        """As in scikit-learn."""
        model = self.make()
        parameters = model.get_params()
        assert list(parameters) == list(inspect.signature(type(model)).parameters)
        clone = model.clone()
        assert type(clone) is type(model)
        assert clone is not model
        assert repr(clone.get_params()) == repr(parameters)
        assert model.set_params(**parameters) is model
        assert repr(model.get_params()) == repr(parameters)
        with pytest.raises(ParameterError, match="no_such_parameter"):
            model.set_params(no_such_parameter=1)
        assert type(model).__name__ in repr(model)

    def test_the_constructor_learns_nothing_and_fit_changes_no_parameter(self, data: Interactions) -> None:
        """What is learned ends in an underscore, and only `fit` learns."""
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
        """Instead of failing somewhere inside."""
        model = self.make()
        for ask in (lambda: model.recommend(k=2), lambda: model.save(tmp_path / "model"), model.recommend_indices):
            with pytest.raises(NotFittedError, match="fit"):
                ask()

    def test_data_of_another_kind_and_empty_data_are_refused(self) -> None:
        """With errors that say what was expected."""
        with pytest.raises(DataError, match="Interactions"):
            self.make().fit([[0, 1]])  # type: ignore[arg-type]
        nothing = _town()
        nothing = nothing.subset(np.zeros(nothing.n_interactions, dtype=bool))
        with pytest.raises(DataError, match="nothing to learn"):
            self.make().fit(nothing)

    # ---- lists ---------------------------------------------------------------------------------------------

    def test_lists_are_in_order_without_what_was_seen(self, fitted: Recommender, data: Interactions) -> None:
        """Everybody gets k items, ranked from 1 by falling score."""
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
        """Never a seen item with a silly score, never a row of padding."""
        user = data.users[0]
        frame = to_polars(fitted.recommend(user, k=10 * data.n_items))[0]
        assert set(frame["item"]) == set(data.items.series) - set(data.items_of(user))
        frame = to_polars(fitted.recommend(user, k=10 * data.n_items, exclude_seen=False))[0]
        assert set(frame["item"]) == set(data.items.series)

    def test_one_user_several_users_and_their_order(self, fitted: Recommender, data: Interactions) -> None:
        """The answer follows the question."""
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
        """An error that offers the nearest ids, or left out, or what most people take."""
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

    def test_indices_say_the_same_as_ids(self, fitted: Recommender, data: Interactions) -> None:
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

    # ---- the same again ------------------------------------------------------------------------------------

    def test_the_same_seed_gives_the_same_model(self, fitted: Recommender, data: Interactions) -> None:
        """To the last bit, and with one thread as with two."""
        again = self.make().fit(data)
        np.testing.assert_array_equal(again.score_block(np.arange(10)), fitted.score_block(np.arange(10)))
        if "threads" in again.get_params():
            for threads in (1, 2):
                other = self.make().set_params(threads=threads).fit(data)
                assert _rows(other.recommend(k=5, threads=threads)) == _rows(fitted.recommend(k=5))

    def test_fitting_again_forgets(self, fitted: Recommender, data: Interactions) -> None:
        """A model knows what it was fitted to last, and nothing else."""
        model = self.make().fit(_town(seed=5)).fit(data)
        assert _rows(model.recommend(k=5)) == _rows(fitted.recommend(k=5))

    def test_a_saved_model_gives_the_same_answers(self, fitted: Recommender, tmp_path: Path) -> None:
        """To the last bit; and the directory holds no pickle."""
        fitted.save(tmp_path / "model", metrics={"NDCG@10": 1.5})
        opened = tastespace.load(tmp_path / "model", verify=True)
        assert type(opened) is type(fitted)
        assert repr(opened.get_params()) == repr(fitted.get_params())
        users = np.arange(10)
        np.testing.assert_array_equal(opened.score_block(users), fitted.score_block(users))
        assert _rows(opened.recommend(k=5)) == _rows(fitted.recommend(k=5))
        assert json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))["format_version"] == 1
        for path in (tmp_path / "model").iterdir():
            assert path.suffix in (".json", ".safetensors", ".parquet")

    # ---- odd worlds ----------------------------------------------------------------------------------------

    def test_one_user_among_people_without_a_history(self) -> None:
        """The one is served, and the others get a list as well."""
        lonely = Interactions.from_scipy(sp.csr_array(np.array([[1, 1, 0], [0, 0, 1]])), items=["x", "y", "z"])
        model = self.make().fit(lonely.subset([True, True, False]))
        found = to_polars(model.recommend(k=5))[0]
        assert found.filter(pl.col("user") == 0)["item"].to_list() == ["z"]
        assert set(found.filter(pl.col("user") == 1)["item"]) == {"x", "y", "z"}

    def test_somebody_has_everything_and_some_things_nobody_has(self) -> None:
        """Nothing is left to recommend to the one; the others are still scored."""
        frame = pl.DataFrame({"user": [*"aaaa", *"bbcd"], "item": [0, 1, 2, 3, 0, 1, 1, 2]})
        model = self.make().fit(Interactions.from_frame(frame, catalog=[0, 1, 2, 3]))
        found = to_polars(model.recommend(k=9))[0]
        assert dict(found.group_by("user").len().rows()) == {"b": 2, "c": 3, "d": 3}
        assert to_polars(model.recommend("a"))[0].is_empty()
        model = self.make().fit(Interactions.from_frame(frame, catalog=[0, 1, 2, 3, 4, 5]))
        assert set(to_polars(model.recommend("a"))[0]["item"]) == {4, 5}

    # ---- questions that only some models answer ------------------------------------------------------------

    def test_people_who_were_not_there(self, fitted: Recommender, data: Interactions) -> None:
        """Their lists, without what they have; or a clear refusal."""
        histories = {"new": data.items_of(data.users[0]), "newer": data.items_of(data.users[1])[:1]}
        try:
            frame = to_polars(fitted.recommend_for(histories, k=4))[0]
        except ParameterError as problem:
            assert type(fitted).__name__ in str(problem)  # noqa: PT017
            return
        assert frame["user"].unique(maintain_order=True).to_list() == ["new", "newer"]
        for name, history in histories.items():
            mine = frame.filter(pl.col("user") == name)
            assert len(mine) == min(4, data.n_items - len(history))
            assert not set(history) & set(mine["item"])
        assert _rows(fitted.recommend(k=2)) == _rows(self.make().fit(data).recommend(k=2))

    def test_similar_items(self, fitted: Recommender, data: Interactions) -> None:
        """Never the item itself; or a clear refusal."""
        item = data.items[3]
        try:
            frame = to_polars(fitted.similar_items(item, k=5))[0]
        except ParameterError as problem:
            assert type(fitted).__name__ in str(problem)  # noqa: PT017
            return
        assert len(frame) == 5
        assert frame["item"].unique().to_list() == [item]
        assert item not in frame["similar"].to_list()
        assert frame["score"].is_sorted(descending=True)

    def test_interests(self, fitted: Recommender, data: Interactions) -> None:
        """A model with several vectors per user says which one an item serves."""
        frame = to_polars(fitted.recommend(k=3))[0]
        assert ("interest" in frame.columns) == fitted.has_interests
        if fitted.has_interests:
            shelves = fitted.shelves(data.users[0], k=3)
            assert len(shelves) >= 1
            explained = fitted.explain(frame["user"][0], frame["item"][0])
            assert (explained.rank, explained.interest) == (1, frame["interest"][0])

    def test_evaluation(self, data: Interactions) -> None:
        """The whole way from a split to a figure."""
        train, valid, test = tastespace.split.per_user(data, (0.6, 0.2, 0.2), seed=0)
        model = self.make().fit(train, valid=valid)
        report = tastespace.evaluate(model, test, seen=[train, valid], k=5, metrics=["P", "NDCG"])
        assert 0.0 <= report["NDCG@5"] <= 1.0
