"""DPCML that grows: one vector per user, the split, several vectors with a temperature that falls."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import CML, DPCML, Interactions, evaluate, load, split, synthetic
from tastespace.errors import ParameterError
from tastespace.models.dpcml import growing
from tastespace.models.dpcml.growing import GrowingTrainer
from tastespace.models.dpcml.kernel import initial_vectors, kernel_data, kernel_settings, kernel_state, vector_offsets
from tastespace.training.native_trainer import LearningRateSchedule, TrainingSettings
from tastespace.training.phases import Phases

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=120, n_items=80, n_interactions=2500, seed=2).interactions
    return split.per_user(town, seed=0)


def bits(model):
    return model.user_vectors_.tobytes(), model.user_offsets_.tobytes(), model.item_vectors_.tobytes()


def vectors_of(model, user):
    return model.user_vectors_[model.user_offsets_[user] : model.user_offsets_[user + 1]]


# ---- the first phase ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "sgd"])
@pytest.mark.parametrize("n_interests", [3, "adaptive"])
def test_the_first_phase_is_cml_bit_for_bit(parts, n_interests, optimizer):
    common = {"dim": 8, "epochs": 3, "optimizer": optimizer, "learning_rate": 0.05, "seed": 1}
    one = CML(**common).fit(parts[0])
    several = DPCML(n_interests=n_interests, one_vector_epochs=3, **common).fit(parts[0])
    np.testing.assert_array_equal(several.item_vectors_, one.item_vectors_)
    counts = np.diff(several.user_offsets_)
    assert counts.min() >= 3
    np.testing.assert_array_equal(several.user_vectors_, np.repeat(one.user_vectors_, counts, axis=0))


def test_an_epoch_of_the_first_phase_may_be_kept(parts):
    """Then the vectors of each user are equal, and several are as good as one on the validation data."""
    train, valid, _ = parts
    seen = iter([0.1, 0.9, *[0.2] * 6])

    class Told(DPCML):
        def _validator(self, *args):
            return lambda now: next(seen)

    told = Told(dim=8, n_interests=3, epochs=8, seed=1).fit(train, valid)
    assert (told.best_epoch_, len(told.history_)) == (2, 8)
    for user in range(train.n_users):
        own = vectors_of(told, user)
        np.testing.assert_array_equal(own, np.repeat(own[:1], 3, axis=0))
    one = CML(dim=8, epochs=2, seed=1).fit(train)
    np.testing.assert_array_equal(told.item_vectors_, one.item_vectors_)


def test_patience_does_not_end_a_run_before_its_vectors_have_parted(parts):
    class Falling(DPCML):
        def _validator(self, *args):
            scores = iter(np.linspace(1, 0, 100))
            return lambda now: next(scores)

    run = Falling(dim=8, n_interests=2, epochs=20, one_vector_epochs=8, patience=2).fit(*parts[:2])
    assert (run.stopped_, run.best_epoch_, len(run.history_)) == ("early", 1, 16)  # 8 + 12 / 2 + 2
    paper = Falling(dim=8, n_interests=2, epochs=20, start="random", temperature=0.0, patience=2).fit(*parts[:2])
    assert len(paper.history_) == 3


# ---- the split ---------------------------------------------------------------------------------------------


def a_trainer(train, n_vectors, phases, **changes):
    model = DPCML(dim=4, seed=3, **changes)
    model.n_negatives_ = 5
    offsets = vector_offsets(np.asarray(n_vectors))
    users, items = initial_vectors(model, offsets, train.n_items)
    state = kernel_state(model, train, users, items)
    run = TrainingSettings(LearningRateSchedule(0.2, "constant", phases.epochs), model.average, model.seed, 1)
    trainer = GrowingTrainer(
        train, kernel_data(model, train, offsets), state, kernel_settings(model), run, phases, offsets
    )
    return trainer, state, offsets


def nothing(*_):
    """No progress bar."""


def from_rows(rows, n_items):
    table = np.zeros((len(rows), n_items))
    for user, row in enumerate(rows):
        table[user, list(row)] = 1
    return Interactions.from_scipy(sp.csr_array(table), users=[f"u{n}" for n in range(len(rows))])


@pytest.mark.parametrize(("temperature", "share"), [(0.5, 0.1), (0.0, 0.3)])
def test_vectors_start_between_the_one_vector_and_the_centres_of_clusters(temperature, share):
    train = from_rows([[0, 1, 2, 3, 4, 5], [6, 7], [8]], 20)
    trainer, state, offsets = a_trainer(train, [2, 3, 2], Phases(4, 2, temperature, 0.1))
    state.item_vectors[:6] = np.repeat([[0.9, 0, 0, 0], [0, 0.9, 0, 0]], 3, axis=0)  # two clusters of three
    one = np.repeat(state.user_vectors[offsets[:-1]], np.diff(offsets), axis=0)
    state.user_vectors[:] = one
    state.user_optimizer.first[:] = 1.0
    trainer._begin_phase(2)
    trainer._split()
    found = state.user_vectors[:2]
    wanted = (1 - share) * one[:2] + share * np.array([[0.9, 0, 0, 0], [0, 0.9, 0, 0]])
    np.testing.assert_allclose(found[np.argsort(-found[:, 0])], wanted, atol=1e-6)
    # Three vectors for two items: two at them, and one of these again. Two for a single item: equal.
    own = state.user_vectors[2:5]
    assert len(np.unique(own, axis=0)) == 2
    np.testing.assert_array_equal(state.user_vectors[5], state.user_vectors[6])
    assert np.isfinite(state.user_vectors).all()
    # Each of C vectors gets a C-th of the gradient at first.
    np.testing.assert_allclose(state.user_optimizer.first[[0, 2, 5], 0], [1 / 4, 1 / 9, 1 / 4])


def test_users_without_a_history_keep_equal_vectors():
    train = from_rows([[0, 1, 2], [3, 4], []], 12)
    trainer, state, _ = a_trainer(train, [2, 2, 2], Phases(4, 2, 0.5, 0.1))
    start = state.user_vectors[4].copy()
    for epoch in range(4):
        trainer.train_epoch(epoch, nothing)
    np.testing.assert_array_equal(state.user_vectors[4:], [start, start])
    assert np.isfinite(state.user_vectors).all()


def test_the_split_does_not_depend_on_blocks_of_users(parts, monkeypatch):
    whole = DPCML(dim=8, epochs=4, seed=1).fit(parts[0])
    monkeypatch.setattr(growing, "_VECTORS_AT_ONCE", 7)
    assert bits(DPCML(dim=8, epochs=4, seed=1).fit(parts[0])) == bits(whole)


def test_vectors_part_after_the_split(parts):
    model = DPCML(dim=8, n_interests=3, epochs=10, seed=1).fit(parts[0])
    apart = [np.ptp(vectors_of(model, user), axis=0).max() for user in range(parts[0].n_users)]
    assert min(apart) > 1e-3


# ---- the same bits, however a run is cut -------------------------------------------------------------------

RUNS = {
    "smooth": {"n_interests": 3},
    "hard, with DCRS": {"n_interests": 3, "temperature": 0.0, "dcrs": "mean"},
    "adaptive, Adam": {"optimizer": "adam", "learning_rate": 0.01, "min_interests": 1},
    "anchored": {"n_interests": 3, "anchor": 0.5},
    "anchored wholly": {"n_interests": 3, "anchor": 1.0},
    "learned thresholds": {"n_interests": 2, "sampler": "dihars", "n_negatives": 10},
    "no averaging": {"n_interests": 2, "average": 1},
    "random start, smooth": {"n_interests": 3, "start": "random", "temperature": 4.0},
}


@pytest.mark.parametrize("name", RUNS)
def test_the_same_bits_for_every_number_of_threads(parts, name):
    found = {bits(DPCML(dim=8, epochs=6, seed=1, threads=n, **RUNS[name]).fit(*parts[:2])) for n in (1, 2, 3)}
    assert len(found) == 1


@pytest.mark.parametrize("stop", [2, 4, 5, 6])  # within the first phase, before the split, within the second
@pytest.mark.parametrize("name", RUNS)
def test_a_stopped_run_resumes_to_the_same_bits(parts, tmp_path, name, stop):
    common = {"dim": 8, "epochs": 8, "seed": 1, "checkpoint_epochs": 1, **RUNS[name]}
    whole = DPCML(**common).fit(*parts[:2])
    path = str(tmp_path / "run.ckpt")
    DPCML(checkpoint=path, **common).fit(*parts[:2], callbacks=[lambda row: row["epoch"] < stop])
    resumed = DPCML(checkpoint=path, **common).fit(*parts[:2])
    assert len(resumed.history_) == 8
    assert bits(resumed) == bits(whole)
    again = DPCML(checkpoint=path, **common).fit(*parts[:2])  # at its end
    assert bits(again) == bits(whole)


def test_blocks_of_users_in_files_give_the_bits_of_memory(parts, tmp_path):
    common = {"dim": 8, "epochs": 6, "seed": 1, "users_at_once": 17}
    kept = DPCML(**common).fit(*parts[:2])
    assert bits(DPCML(spill=str(tmp_path), **common).fit(*parts[:2])) == bits(kept)


@pytest.mark.parametrize("name", ["smooth", "hard, with DCRS", "random start, smooth"])
@pytest.mark.parametrize("best", [3, 4, 5, 7])
def test_the_chosen_epochs_are_trained_again_as_before(parts, name, best):
    """`as_chosen` keeps the epoch of the split and the temperatures, not their shares of the epochs."""
    common = {"dim": 8, "epochs": 8, "seed": 1, **RUNS[name]}
    model = DPCML(**common).fit(parts[0])
    stopped = DPCML(**common).fit(parts[0], callbacks=[lambda row: row["epoch"] < best])
    model.fit_epochs_ = best
    again = model.as_chosen()
    assert again.epochs == best
    again.fit(parts[0])
    np.testing.assert_allclose(again.item_vectors_, stopped.item_vectors_, atol=1e-4)
    np.testing.assert_allclose(again.user_vectors_, stopped.user_vectors_, atol=1e-4)
    assert again.temperature_ == pytest.approx(model._temperature_of(best))


# ---- what comes after a fit --------------------------------------------------------------------------------


def test_updates_go_on_with_the_last_temperature(parts, tmp_path, monkeypatch):
    town = parts[0]
    is_old = town.row_of_each() < 100
    model = DPCML(dim=8, n_interests=3, epochs=8, seed=1).fit(town.subset(is_old))
    assert model.temperature_ == pytest.approx(0.1)
    model.save(tmp_path / "model")
    stored = load(tmp_path / "model")
    assert stored.temperature_ == model.temperature_
    used = []
    begin = GrowingTrainer._begin_phase
    monkeypatch.setattr(
        GrowingTrainer,
        "_begin_phase",
        lambda self, epoch: (begin(self, epoch), used.append(self._arguments[2].temperature)),
    )
    stored.partial_fit(town.subset(~is_old))
    assert used
    np.testing.assert_allclose(used, 0.1, rtol=1e-6)
    assert stored.temperature_ == model.temperature_
    assert np.isfinite(stored.user_vectors_).all()
    assert stored.recommend(k=5).height == 5 * town.n_users


def test_fold_in_of_a_grown_model_learns(parts):
    """The users of training, folded in with the same histories, get lists that are about as good."""
    train, valid, _ = parts
    model = DPCML(dim=16, n_interests=3, epochs=30, seed=1).fit(train)
    folded = model.fold_in(train)
    own, again = (evaluate(one, valid, seen=train, metrics=["NDCG@10"])["NDCG@10"] for one in (model, folded))
    assert again > 0.85 * own


def test_more_vectors_than_items_of_a_history():
    train = from_rows([[0], [1, 2], [0, 3, 5, 7]], 12)
    model = DPCML(dim=4, n_interests=6, epochs=6, seed=0).fit(train)
    assert model.user_vectors_.shape == (18, 4)
    assert np.isfinite(model.user_vectors_).all()
    assert len(np.unique(vectors_of(model, 0), axis=0)) == 1


# ---- parameters --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start": "zero"}, "start='zero'"),
        ({"temperature": -0.1}, "temperature=-0.1: expected a number, 0 or more"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"temperature": "warm"}, "temperature='warm'"),
        ({"temperature": True}, "temperature=True"),
        ({"temperature_end": -1.0}, "temperature_end=-1"),
        ({"temperature_end": float("nan")}, "temperature_end=nan"),
        ({"temperature": 0.5, "temperature_end": 0.0}, "temperature_end=0: expected a number above 0"),
        ({"temperature": 0.5, "temperature_end": 0.7}, "at most temperature=0.5"),
        ({"one_vector_epochs": 0}, "one_vector_epochs=0"),
        ({"one_vector_epochs": 1.5}, "one_vector_epochs=1.5"),
        ({"one_vector_epochs": 9}, "one_vector_epochs=9 is more than epochs=8"),
        ({"one_vector_epochs": 2, "start": "random"}, "is for start='one-vector'"),
    ],
)
def test_parameters_that_make_no_sense(parts, changes, words):
    with pytest.raises(ParameterError, match=words.replace("(", r"\(")):
        DPCML(dim=8, epochs=8, **changes).fit(parts[0])


def test_cml_has_no_phases(parts):
    with pytest.raises(ParameterError, match="CML has no parameter 'temperature'"):
        CML(temperature=1.0)
    assert CML(dim=8, epochs=5)._phases() == Phases(5)
    assert DPCML(n_interests=1, epochs=5)._phases() == Phases(5)


def test_defaults_by_dimension():
    small, large = DPCML(dim=16), DPCML()
    assert (small._phases().temperature, large._phases().temperature) == (0.6, 0.0)
    assert str(kernel_settings(small).dcrs) != str(kernel_settings(large).dcrs)
    assert small._phases().one_vector_epochs == 50 == CML().epochs
    assert DPCML.paper()._phases() == Phases(100, 0, 0.0, 0.1)


def test_the_temperature_is_a_share_of_the_margin(parts):
    assert DPCML(dim=16, margin=2.0)._phases().temperature == 1.2
    model = DPCML(dim=8, margin=2.0, epochs=4).fit(parts[0])
    assert model.temperature_ == pytest.approx(0.2)
    assert model.as_chosen().temperature_end == pytest.approx(0.1)


def test_an_epoch_or_two(parts):
    for epochs in (1, 2, 3):
        model = DPCML(dim=8, n_interests=2, epochs=epochs, seed=1).fit(parts[0])
        assert np.isfinite(model.user_vectors_).all()
        assert len(model.history_) == epochs
