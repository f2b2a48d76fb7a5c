"""Updates: the same bits, known pairs, bad input, cost, forgetting, models without partial_fit."""

import copy
import logging

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.merge import added
from tastespace.errors import DataError, ParameterError, TrainingError
from tastespace.models import (
    ALS,
    BPR,
    CML,
    DPCML,
    EASE,
    Blend,
)
from tastespace.training.native_trainer import NativeTrainer

MODELS = {
    "dpcml": lambda **more: DPCML(**{"dim": 16, "n_interests": 2, "epochs": 40, "n_negatives": 5, **more}),
    "anchored": lambda **more: DPCML(**{"dim": 16, "n_interests": 2, "epochs": 40, "anchor": 0.5, **more}),
    "cml": lambda **more: CML(**{"dim": 16, "epochs": 40, **more}),
    "bpr": lambda **more: BPR(**{"dim": 16, "epochs": 40, **more}),
    "als": lambda **more: ALS(**{"dim": 8, **more}),
}


def named(data, keep):
    return ts.Interactions.from_frame(data.subset(keep).to_frame(), part=True)


@pytest.fixture(scope="module")
def town():
    return ts.synthetic.multi_interest(n_users=150, n_items=80, n_interactions=3_000, seed=4).interactions


@pytest.fixture(scope="module")
def old_and_new(town):
    """A twentieth of the interactions is new, and two users and two items."""
    is_new = np.random.default_rng(0).random(town.n_interactions) < 0.05
    is_new |= np.isin(town.row_of_each(), (3, 149)) | np.isin(town.indices, (0, 41))
    return named(town, ~is_new), named(town, is_new)


@pytest.fixture(scope="module")
def fitted(old_and_new):
    return {name: make().fit(old_and_new[0]) for name, make in MODELS.items()}


def vectors_of(model):
    space = model.vectors()
    return [space.user_vectors, space.item_vectors]


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_for_every_number_of_threads_and_from_a_file(fitted, old_and_new, name, tmp_path):
    _, new = old_and_new
    fitted[name].save(tmp_path / "model")
    models = [copy.copy(fitted[name]).set_params(threads=threads) for threads in (1, 3)] + [ts.load(tmp_path / "model")]
    results = [vectors_of(model.partial_fit(new)) for model in models]
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_new_is_learned_and_what_is_old_is_kept(fitted, old_and_new, town, name):
    old, new = old_and_new
    before = fitted[name]
    known = [array.copy() for array in vectors_of(before)]
    model = ts.update(before, new)
    for array, kept in zip(vectors_of(before), known, strict=True):
        np.testing.assert_array_equal(array, kept)  # the given model stays as it is
    assert before.train_.n_interactions == old.n_interactions
    assert model.train_.fingerprint() == added(old, new).data.fingerprint()
    again = MODELS[name]().fit(model.train_)
    start = MODELS[name]().fit(model.train_.subset(~added(old, new).is_new))  # with the new ids, not what they took
    seen = model.train_.row_of_each(), model.train_.indices

    def auc(one, of):
        """How often an interaction scores higher than a random item of the same user."""
        scores = one.score_block(np.arange(one.train_.n_users))
        random = np.random.default_rng(1).integers(0, one.train_.n_items, (20, len(seen[0])))
        return np.mean([(scores[seen] > scores[seen[0], row])[of].mean() for row in random])

    is_new = added(old, new).is_new
    assert auc(model, is_new) > auc(start, is_new) + 0.05
    assert auc(model, ~is_new) > auc(again, ~is_new) - 0.06
    rows = model.train_.users.index_of([3, 149])
    assert np.isfinite(model.score_block(rows)).all()


@pytest.mark.parametrize("name", MODELS)
def test_an_update_with_known_pairs_only_changes_nothing(fitted, old_and_new, name, caplog):
    old, _ = old_and_new
    model = copy.copy(fitted[name])
    with caplog.at_level(logging.WARNING):
        assert model.partial_fit(named(old, np.arange(old.n_interactions) < 90)) is model
    assert "all 90 interactions of the update are in the model's training data already" in caplog.text
    assert model.train_ is fitted[name].train_
    for one, two in zip(vectors_of(model), vectors_of(fitted[name]), strict=True):
        assert one is two or np.shares_memory(one, two)


@pytest.mark.parametrize("name", [*MODELS, "blend", "ease"])
def test_bad_updates_are_refused_and_change_nothing(fitted, old_and_new, name):
    old, new = old_and_new
    model = {
        "blend": lambda: Blend.of([fitted["cml"], fitted["als"]], [0.5, 0.5]),
        "ease": lambda: EASE().fit(old),
    }.get(name, lambda: copy.copy(fitted[name]))()
    before = dict(vars(model))
    text = ts.Interactions.from_frame(pl.DataFrame({"user": ["a", "b"], "item": [1, 2]}))
    for bad, message in (
        (text, "user ids have type Int64 in one table and String"),
        (new.subset(np.zeros(new.n_interactions, dtype=bool)), "nothing to learn from"),
        ([[1]], "expects new to be Interactions, .* given list"),
    ):
        with pytest.raises(DataError, match=message):
            ts.update(model, bad)
        if model.supports_partial_fit:
            with pytest.raises(DataError, match=message):
                model.partial_fit(bad)
    assert vars(model) == before
    with pytest.raises(DataError, match="update expects a fitted model, given str"):
        ts.update("model", new)


@pytest.mark.parametrize("name", ["dpcml", "bpr", "als", "ease", "blend"])
def test_frames_with_named_columns_are_learned_like_interactions(old_and_new, name):
    old, new = old_and_new
    models = {
        "dpcml": DPCML(dim=8, epochs=2, seed=1),
        "bpr": BPR(dim=8, epochs=2, seed=1),
        "als": ALS(dim=8),
        "ease": EASE(),
        "blend": Blend([EASE(), ALS(dim=8)], [0.5, 0.5]),
    }
    model, users = models[name].fit(old), np.arange(30)
    expected = ts.update(model, new).score_block(users)
    frame = pl.DataFrame(new.to_frame()).select(who="user", sku="item", stars=pl.lit(5))
    bad = frame.head(3).with_columns(stars=pl.lit(1), sku=pl.lit(99_999, dtype=frame["sku"].dtype))
    names = {"user": "who", "item": "sku", "rating": "stars", "min_rating": 4}
    found = ts.update(model, pl.concat([frame, bad]).to_pandas(), **names)
    np.testing.assert_array_equal(found.score_block(users), expected)
    if model.supports_partial_fit:
        again = copy.deepcopy(model).partial_fit(pl.concat([frame, bad]), **names)
        np.testing.assert_array_equal(again.score_block(users), expected)
    with pytest.raises(DataError, match=r"update was given new as a frame without the column 'user'"):
        ts.update(model, frame)
    one = ts.update(model, frame.head(1), user="who", item="sku")  # a single new interaction will do
    assert one.train_.n_interactions == old.n_interactions + 1


def test_weights_and_times_of_a_frame_are_read_where_the_model_has_them():
    frame = pl.DataFrame({"user": [1, 1, 2, 2, 3], "item": [1, 2, 1, 3, 2], "weight": [1.0, 2, 3, 1, 1]})
    more = pl.DataFrame({"user": [3], "item": [1], "weight": [4.0], "timestamp": [7]})
    with_weights = ALS(dim=2).fit(frame)
    assert ts.update(with_weights, more).train_.weights.max() == 4
    plain = ALS(dim=2).fit(frame, weight=None)
    assert ts.update(plain, more).train_.weights is None


def test_a_failure_in_the_middle_changes_nothing(fitted, old_and_new, monkeypatch):
    _, new = old_and_new
    blend = Blend.of([fitted["als"], fitted["cml"]], [0.5, 0.5])
    monkeypatch.setattr(NativeTrainer, "train_epoch", lambda *_: {"loss": float("nan")})
    for model in (copy.copy(fitted["cml"]), blend):
        before = {name: value for name, value in vars(model).items() if name.endswith("_")}
        with pytest.raises(TrainingError, match="diverged"):
            model.partial_fit(new)
        assert {name: value for name, value in vars(model).items() if name.endswith("_")} == before


def test_users_and_items_that_nothing_connects_start_at_random_with_a_warning(fitted, caplog):
    strangers = ts.Interactions.from_frame(pl.DataFrame({"user": [900, 900, 901], "item": [700, 701, 700]}))
    for name in MODELS:
        model = ts.update(fitted[name], strangers)
        assert len(model.recommend(900, k=5)) == 5
    assert "2 new users and 2 new items start at random" in caplog.text


def test_an_update_takes_a_fifth_of_the_epochs_and_visits_few(fitted, old_and_new, monkeypatch):
    _, new = old_and_new
    visited = []
    learn = NativeTrainer.train_epoch

    def count(self, epoch, tick):
        return learn(self, epoch, lambda done, loss: (visited.append(done), tick(done, loss)))

    monkeypatch.setattr(NativeTrainer, "train_epoch", count)
    for name in ("dpcml", "bpr"):
        visited.clear()
        model = ts.update(fitted[name], new)
        n_new = added(fitted[name].train_, new).n_interactions
        assert visited == [5 * n_new] * 8
        assert len(model.history_) == 8
        visited.clear()
        copy.copy(fitted[name]).partial_fit(new, epochs=2, n_old=1)
        assert visited == [2 * n_new] * 2
    for bad in ({"epochs": 0}, {"n_old": -1}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            copy.copy(fitted["dpcml"]).partial_fit(new, **bad)


def test_random_numbers_go_on_and_the_chosen_epochs_stay(fitted, old_and_new, monkeypatch):
    _, new = old_and_new
    epochs = []
    for name in ("dpcml", "bpr"):
        model = copy.copy(fitted[name])
        trainer = type(model)._train.__globals__["GrowingTrainer" if name == "dpcml" else "BprTrainer"]
        learn = trainer._train_range
        monkeypatch.setattr(
            trainer,
            "_train_range",
            lambda self, epoch, *rest, learn=learn: (epochs.append(epoch), learn(self, epoch, *rest))[1],
        )
        assert (model.n_epochs_, model.fit_epochs_) == (40, 40)
        model.partial_fit(new)
        assert epochs == list(range(40, 48))
        assert (model.n_epochs_, model.fit_epochs_, model.as_chosen().epochs) == (48, 40, 40)
        epochs.clear()


def test_a_model_without_partial_fit_is_fitted_again(old_and_new, caplog):
    old, new = old_and_new
    with caplog.at_level(logging.INFO):
        model = ts.update(EASE(regularization=7.0).fit(old), new)
    assert "EASE has no partial_fit and is fitted again" in caplog.text
    expected = EASE(regularization=7.0).fit(added(old, new).data)
    np.testing.assert_array_equal(model.score_block(np.arange(9)), expected.score_block(np.arange(9)))


def test_als_solves_only_what_is_touched(fitted, old_and_new):
    old, _ = old_and_new
    user, item = old.users[5], next(i for i in old.items.series if i not in old.items_of(old.users[5]))
    one = ts.Interactions.from_frame(pl.DataFrame({"user": [user], "item": [item]}), part=True)
    before, after = fitted["als"], ts.update(fitted["als"], one)
    moved = [
        np.flatnonzero((a != b).any(axis=1)).tolist()
        for a, b in zip(vectors_of(before), vectors_of(after), strict=True)
    ]
    assert moved == [[5], [int(old.items.index_of([item])[0])]]


def test_als_takes_the_new_weight_of_a_known_pair(old_and_new):
    old, _ = old_and_new
    frame = old.to_frame().with_columns(weight=pl.lit(1.0))
    model = ALS(dim=8).fit(ts.Interactions.from_frame(frame, weight="weight"))
    heavier = frame[:2].with_columns(weight=pl.lit(50.0))
    rows = np.array(
        [
            [int(model.train_.users.index_of([u])[0]), int(model.train_.items.index_of([i])[0])]
            for u, i, _ in heavier.rows()
        ]
    )
    later = ts.update(model, ts.Interactions.from_frame(heavier, weight="weight", part=True))
    for user, item in rows:
        assert later.score_block(np.array([user]))[0, item] > model.score_block(np.array([user]))[0, item]
    assert later.train_.weights.max() == 50


def test_times_of_another_unit_are_refused():
    rows = pl.DataFrame({"user": [1, 1, 2, 3], "item": [1, 2, 2, 1], "t": [1_700_000_000 + n for n in range(4)]})
    model = EASE().fit(ts.Interactions.from_frame(rows, timestamp="t"))
    later = pl.DataFrame({"user": [3], "item": [2], "t": [1_700_000_009]})
    dated = later.with_columns(pl.from_epoch("t"))
    with pytest.raises(DataError, match=r"update are in us since 1970 .* interactions in s"):
        ts.update(model, ts.Interactions.from_frame(dated, timestamp="t", part=True))
    updated = ts.update(model, ts.Interactions.from_frame(later, timestamp="t", part=True))
    assert updated.train_.timestamps.max() == 1_700_000_009
