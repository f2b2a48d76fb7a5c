"""DPCML and CML as users see them: initial vectors, shapes, determinism, DCRS, validation, partial_fit, bad input."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import tastespace
from tastespace import (
    CML,
    DPCML,
    Interactions,
    evaluate,
    split,
    synthetic,
)
from tastespace.data.merge import concat
from tastespace.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    TrainingError,
)
from tastespace.models import create, registry
from tastespace.models.dpcml.kernel import random_vectors
from tastespace.training.native_trainer import DpcmlTrainer

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=150, n_items=100, n_interactions=4000, seed=2).interactions
    return split.per_user(town, seed=0)


def same_vectors(one, other):
    return (
        np.array_equal(one.user_vectors_, other.user_vectors_)
        and np.array_equal(one.item_vectors_, other.item_vectors_)
        and np.array_equal(one.user_offsets_, other.user_offsets_)
    )


def from_rows(rows, n_items):
    table = np.zeros((len(rows), n_items))
    for user, row in enumerate(rows):
        table[user, list(row)] = 1
    return Interactions.from_scipy(sp.csr_array(table))


def spreads(model):
    """The text's delta of every user with at least two vectors, with its factor 1/2."""
    out = []
    for first, last in zip(model.user_offsets_, model.user_offsets_[1:], strict=False):
        mine, count = model.user_vectors_[first:last].astype(np.float64), int(last - first)
        if count > 1:
            gaps = np.square(mine[:, None] - mine[None]).sum(axis=2)
            out.append(gaps.sum() / (2 * count * (count - 1)))
    return np.array(out)


# ---- initial vectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [1.0, 2.5])
def test_initial_vectors_lie_in_their_regions(radius):
    on_sphere = random_vectors(DPCML(dim=8, geometry="sphere", radius=radius), 50, 40)
    inside = random_vectors(DPCML(dim=8, geometry="ball", radius=radius), 50, 40)
    for vectors in (*on_sphere, *inside):
        assert vectors.dtype == np.float32
    for vectors in on_sphere:
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), radius, rtol=1e-6)
    for vectors in inside:
        assert (np.linalg.norm(vectors, axis=1) <= radius * (1 + 1e-6)).all()


def test_initial_vectors_are_the_papers():
    """Users N(0, 0.01^2), items N(0, 1/d); on the sphere every direction is as likely as the next."""
    users, items = random_vectors(DPCML(dim=100, geometry="ball", seed=1), 4000, 4000)
    assert users.std() == pytest.approx(0.01, rel=0.01)
    assert abs(users.mean()) < 1e-4
    norms = np.linalg.norm(items, axis=1)
    assert 0.3 < (norms < 0.999).mean() < 0.7  # a norm of about 1, cut at 1
    assert (items * np.sqrt(100))[norms < 0.999].std() == pytest.approx(1, rel=0.08)
    directions, _ = random_vectors(DPCML(dim=3, geometry="sphere", seed=2), 4000, 1)
    np.testing.assert_allclose(directions.T @ directions / 4000, np.eye(3) / 3, atol=0.03)


def test_both_are_in_the_registry():
    assert registry()["dpcml"] is DPCML
    assert registry()["cml"] is CML
    assert create("dpcml", n_interests=3).n_interests == 3


# ---- storage and score -------------------------------------------------------------------------------------


def test_adaptive_vectors_are_stored_ragged(parts):
    train, _, _ = parts
    model = DPCML(dim=6, n_interests="adaptive", min_interests=1, log_base=2.0, epochs=1).fit(train)
    counts = np.diff(model.user_offsets_)
    assert counts.tolist() == [max(1, int(n).bit_length() - 1) for n in train.user_counts]
    assert len(set(counts)) > 2
    assert model.user_vectors_.shape == (counts.sum(), 6)  # no padding to the largest user
    assert model.item_vectors_.shape == (train.n_items, 6)
    assert model.user_vectors_.dtype == model.item_vectors_.dtype == np.float32
    assert model.user_offsets_[0] == 0


def test_a_number_of_interests_holds_for_every_user(parts):
    model = DPCML(dim=6, n_interests=4, epochs=1).fit(parts[0])
    assert (np.diff(model.user_offsets_) == 4).all()


def test_the_score_is_minus_the_smallest_squared_distance(parts):
    train, _, _ = parts
    model = DPCML(dim=6, n_interests="adaptive", epochs=2).fit(train)
    scores = model.score_block(np.arange(5))
    for user in range(5):
        mine = model.user_vectors_[model.user_offsets_[user] : model.user_offsets_[user + 1]].astype(np.float64)
        gaps = np.square(mine[:, None] - model.item_vectors_[None]).sum(axis=2).min(axis=0)
        np.testing.assert_allclose(scores[user], -gaps, atol=1e-5)


@pytest.mark.parametrize("average", [1, 5])
@pytest.mark.parametrize(
    ("geometry", "users_on_sphere", "items_on_sphere"),
    [("sphere-ball", True, False), ("ball", False, False), ("sphere", True, True)],
)
@pytest.mark.parametrize("radius", [1.0, 1.5])
def test_vectors_lie_where_the_geometry_says(parts, geometry, users_on_sphere, items_on_sphere, radius, average):
    model = DPCML(dim=6, geometry=geometry, radius=radius, epochs=4, average=average, n_interests=2).fit(parts[0])
    for vectors, on_sphere in ((model.user_vectors_, users_on_sphere), (model.item_vectors_, items_on_sphere)):
        norms = np.linalg.norm(vectors, axis=1)
        assert (norms <= radius * (1 + 1e-5)).all()
        assert ((norms > radius * (1 - 1e-5)).all()) == on_sphere


def test_training_lowers_the_loss_and_beats_chance(parts):
    train, valid, test = parts
    model = DPCML(dim=16, n_interests=3, sampler="unis", epochs=25, patience=0).fit(train)
    assert model.history_[-1]["loss"] < 0.7 * model.history_[0]["loss"]
    seen = [train, valid]
    untrained = DPCML(dim=16, n_interests=3, sampler="unis", epochs=1, learning_rate=1e-9).fit(train)
    before, after = (evaluate(m, test, seen=seen, metrics=["NDCG@10"])["NDCG@10"] for m in (untrained, model))
    assert after > before + 0.1


# ---- the same bits -----------------------------------------------------------------------------------------

SETTINGS = {
    "dihars": {"sampler": "dihars", "n_negatives": 30},
    "dihars, average, adam": {"sampler": "dihars", "gamma": "average", "optimizer": "adam", "learning_rate": 0.01},
    "dihars, random, sgd": {"sampler": "dihars", "gamma": "random", "optimizer": "sgd"},
    "hars, pairs": {"sampler": "hars", "dcrs": "pairs", "n_hardest": 3},
    "unis, adam": {"sampler": "unis", "optimizer": "adam", "learning_rate": 0.01, "schedule": "cosine"},
    "pops, by user": {"sampler": "pops", "weighting": "user"},
    "2sts, sphere": {"sampler": "2sts", "geometry": "sphere", "margin": 0.5},
    "ndihars, one block": {"sampler": "ndihars", "n_negatives": 40, "beta": 0.05, "block_size": 100_000},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_seed_gives_the_same_bits_for_every_number_of_threads(parts, name):
    train, valid, _ = parts
    settings = {"dim": 19, "n_interests": "adaptive", "epochs": 4, "block_size": 128, "seed": 5, **SETTINGS[name]}
    one, again, *others = (DPCML(threads=n, **settings).fit(train, valid) for n in (1, 1, 2, 3, 8))
    for model in (again, *others):
        assert same_vectors(one, model)
        assert figures(one) == figures(model)
    assert not same_vectors(one, DPCML(threads=1, **{**settings, "seed": 6}).fit(train, valid))


def figures(model):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in model.history_]


def test_fitting_again_forgets_the_first_time(parts):
    train, _, test = parts
    model = DPCML(dim=8, n_interests=2, epochs=3)
    first = model.fit(train).item_vectors_.copy()
    model.fit(test)
    np.testing.assert_array_equal(model.fit(train).item_vectors_, first)


def test_a_model_changes_neither_its_data_nor_its_parameters(parts):
    train, valid, _ = parts
    before = train.fingerprint(), train.offsets.copy(), DPCML(dim=8, epochs=2).get_params()
    model = DPCML(dim=8, epochs=2).fit(train, valid)
    assert train.fingerprint() == before[0]
    np.testing.assert_array_equal(train.offsets, before[1])
    assert model.get_params() == before[2]
    assert same_vectors(model.clone().fit(train, valid), model)


@pytest.mark.parametrize("sampler", ["unis", "pops", "2sts", "hars", "ndihars", "dihars"])
@pytest.mark.parametrize("dcrs", [None, "mean", "pairs"])
def test_one_vector_is_cml_bit_for_bit(parts, sampler, dcrs):
    """DCRS, too, is nothing where a user has one vector."""
    train, valid, _ = parts
    settings = {"dim": 11, "sampler": sampler, "epochs": 3, "n_negatives": 12, "beta": 0.05, "seed": 4}
    model = DPCML(n_interests=1, dcrs=dcrs, spread_weight=50.0, min_spread=0.5, max_spread=0.6, **settings)
    plain = CML(**settings).fit(train, valid)
    assert same_vectors(model.fit(train, valid), plain)
    assert all(row["dcrs"] == 0 for row in model.history_)


def test_weighting_by_user_is_weighting_by_positive_where_histories_are_equal():
    rng = np.random.default_rng(0)
    equal = from_rows([rng.choice(40, 8, replace=False) for _ in range(60)], 40)
    uneven = from_rows([rng.choice(40, n, replace=False) for n in rng.integers(2, 20, 60)], 40)
    for train, same in ((equal, True), (uneven, False)):
        models = [DPCML(dim=8, n_interests=2, epochs=3, weighting=w).fit(train) for w in ("positive", "user")]
        assert same_vectors(*models) == same


# ---- samplers and their numbers ----------------------------------------------------------------------------


def test_ndihars_of_one_is_hars_and_of_all_is_unis(parts):
    train, _, _ = parts
    common = {"dim": 8, "n_interests": 2, "epochs": 3, "n_negatives": 20}
    one = DPCML(sampler="ndihars", beta=1e-4, **common).fit(train)
    assert same_vectors(one, DPCML(sampler="hars", **common).fit(train))
    everything = DPCML(sampler="ndihars", beta=1.0, **common).fit(train)
    assert same_vectors(everything, DPCML(sampler="unis", **common).fit(train))


def test_n_beta_comes_from_all_negatives_and_is_applied_unscaled_to_the_negatives_drawn(parts):
    """With beta n- = 4, the four hardest count, whether 10 or 40 negatives are drawn."""
    train, _, _ = parts
    uniform = from_rows([train.indices[a : a + 4] for a in train.offsets[:-1]], train.n_items)
    assert (uniform.user_counts == 4).all()
    for n_negatives in (10, 40):
        common = {"dim": 8, "n_interests": 2, "epochs": 2, "n_negatives": n_negatives}
        hard = DPCML(sampler="hars", n_hardest=4, **common).fit(uniform)
        assert same_vectors(DPCML(sampler="ndihars", beta=4 / 96, **common).fit(uniform), hard)


@pytest.mark.parametrize(
    ("sampler", "n_negatives"),
    [("unis", 10), ("pops", 10), ("hars", 10), ("2sts", 50), ("ndihars", 100), ("dihars", 100)],
)
def test_negatives_by_default(parts, sampler, n_negatives):
    common = {"dim": 4, "n_interests": 1, "epochs": 1, "sampler": sampler}
    assert same_vectors(DPCML(**common).fit(parts[0]), DPCML(n_negatives=n_negatives, **common).fit(parts[0]))


@pytest.mark.parametrize(("n_items", "expected"), [(2_000, 5), (2_001, 10), (5_000, 10), (5_001, 20)])
def test_negatives_follow_the_number_of_items_where_nothing_is_said(n_items, expected, tmp_path):
    rows = [[0, 1, 2], [1, 2, 3], [0, 4, n_items - 1], [5, 6]]
    data = from_rows(rows, n_items)
    common = {"dim": 4, "epochs": 2}
    for make in (DPCML, CML):
        model = make(**common).fit(data)
        assert (model.n_negatives, model.n_negatives_) == (None, expected)
        assert same_vectors(model, make(n_negatives=expected, **common).fit(data))
    assert DPCML(n_negatives=7, **common).fit(data).n_negatives_ == 7
    assert DPCML(sampler="hard", **common).fit(data).n_negatives_ == 10  # what is said of the sampler keeps its bits
    assert DPCML(geometry="sphere", **common).fit(data).n_negatives_ == 10
    assert DPCML(n_hardest=30, **common).fit(data).n_negatives_ == 30
    again = model.clone()
    assert again.n_negatives is None
    assert "n_negatives" not in repr(again)
    assert DPCML.paper().n_negatives == 10
    assert DPCML.paper(sampler="dihars").n_negatives is None
    model.save(tmp_path / "model")
    loaded = tastespace.load(tmp_path / "model")
    assert (loaded.n_negatives, loaded.n_negatives_) == (None, expected)


def test_an_update_goes_on_with_the_number_of_negatives_of_the_fit(parts):
    train, valid, _ = parts
    model = CML(dim=4, epochs=5, n_negatives=10).fit(train).set_params(n_negatives=None)
    assert model.n_negatives_ == 10
    explicit = copy.copy(model).set_params(n_negatives=10)
    assert same_vectors(model.partial_fit(valid), explicit.partial_fit(valid))


@pytest.mark.parametrize("gamma", ["statistic", "random", "average"])
def test_every_rule_of_gamma_learns(parts, gamma):
    train, valid, test = parts
    model = DPCML(dim=16, n_interests=2, sampler="dihars", n_negatives=40, beta=0.05, gamma=gamma, epochs=25)
    model.set_params(gamma_rate=0.5, patience=0)
    report = evaluate(model.fit(train), test, seen=[train, valid], metrics=["NDCG@10"])
    assert report["NDCG@10"] > 0.15


# ---- the spread of a user's vectors (DCRS) ------------------------------------------------------------------


@pytest.mark.parametrize("low_high", [(0.2, 0.3), (0.6, 0.7)])
def test_dcrs_with_a_large_weight_keeps_the_spread_inside(parts, low_high):
    low, high = low_high
    settings = {"dim": 16, "n_interests": "adaptive", "sampler": "unis", "epochs": 40, "learning_rate": 0.05}
    model = DPCML(min_spread=low, max_spread=high, spread_weight=100.0, average=1, dcrs="mean", **settings).fit(
        parts[0]
    )
    found = spreads(model)
    assert found.min() > low - 0.03
    assert found.max() < high + 0.03
    free = spreads(DPCML(dcrs=None, average=1, **settings).fit(parts[0]))
    assert ((free < low - 0.03) | (free > high + 0.03)).mean() > 0.4


def test_one_sided_dcrs_controls_its_side(parts):
    settings = {"dim": 16, "n_interests": 3, "sampler": "unis", "epochs": 30, "spread_weight": 100.0, "average": 1}
    settings["learning_rate"] = 0.05
    free = spreads(DPCML(dcrs=None, **settings).fit(parts[0]))
    middle = float(np.median(free))
    at_least = spreads(DPCML(min_spread=middle, max_spread=None, dcrs="mean", **settings).fit(parts[0]))
    at_most = spreads(DPCML(min_spread=None, max_spread=middle, dcrs="mean", **settings).fit(parts[0]))
    assert at_least.min() > middle - 0.03
    assert at_least.max() > middle + 0.05
    assert at_most.max() < middle + 0.03
    assert at_most.min() < middle - 0.05


def test_dcrs_off_is_off_however_it_is_said(parts):
    settings = {"dim": 8, "n_interests": 3, "epochs": 2}
    plain = DPCML(dcrs=None, **settings).fit(parts[0])
    for off in ({"spread_weight": 0.0}, {"min_spread": None, "max_spread": None}):
        model = DPCML(**off, **settings, dcrs="mean").fit(parts[0])
        assert same_vectors(model, plain)
        assert all(row["dcrs"] == 0 for row in model.history_)
    assert not same_vectors(DPCML(**settings, spread_weight=10.0, dcrs="mean").fit(parts[0]), plain)
    assert same_vectors(DPCML(**settings, spread_weight=10.0).fit(parts[0]), plain)  # few dimensions


# ---- planted interests -------------------------------------------------------------------------------------


def test_minority_interests_are_served_better_by_several_vectors():
    gains = []
    for seed in range(3):
        town = synthetic.multi_interest(
            n_users=500,
            n_items=300,
            n_interactions=25_000,
            n_categories=10,
            n_interests=(3, 4),
            dominance=0.6,
            activity_spread=0.3,
            seed=seed,
        ).interactions
        train, valid, test = split.per_user(town, seed=seed)
        common = {"dim": 16, "sampler": "unis", "n_negatives": 10, "epochs": 50, "seed": seed}
        several = DPCML(n_interests=3, min_spread=0.1, max_spread=0.5, spread_weight=10.0, **common)
        found = [
            evaluate(model.fit(train), test, seen=[train, valid], metrics=["MinorityRecall@10"])["MinorityRecall@10"]
            for model in (CML(**common), several)
        ]
        gains.append(found[1] - found[0])
    assert min(gains) > 0.01, gains
    assert np.mean(gains) > 0.02, gains


# ---- validation --------------------------------------------------------------------------------------------


def test_the_best_epoch_on_validation_is_kept(parts):
    train, valid, _ = parts
    model = DPCML(dim=8, n_interests=2, epochs=12, patience=0, monitor="R@5", average=1).fit(train, valid)
    figures = [row["R@5"] for row in model.history_]
    assert model.best_epoch_ == int(np.argmax(figures)) + 1
    assert evaluate(model, valid, seen=train, metrics=["R@5"])["R@5"] == pytest.approx(max(figures))
    # It is the result of a run of this many epochs.
    shorter = model.as_chosen().fit(train)
    assert shorter.epochs == model.best_epoch_
    np.testing.assert_allclose(shorter.user_vectors_, model.user_vectors_, atol=1e-4)


def test_patience_ends_training_early(parts):
    train, valid, _ = parts
    model = DPCML(dim=8, n_interests=2, epochs=300, patience=2, learning_rate=0.5).fit(train, valid)
    assert model.stopped_ == "early"
    # Before the middle of the epochs with several vectors, a lack of improvement does not count.
    assert len(model.history_) == max(model.best_epoch_, 225) + 2


@pytest.mark.parametrize("monitor", ["P@3", "MAP", "AUC", "OPAUC(0.1)", "MinorityRecall@10", "Coverage@5"])
def test_any_metric_can_be_monitored(parts, monitor):
    train, valid, _ = parts
    model = DPCML(dim=4, n_interests=2, epochs=2, monitor=monitor, monitor_protocol="paper").fit(train, valid)
    assert all(0 <= row[monitor] <= 1 for row in model.history_)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"monitor": "NDGC@10"}, "no metric 'NDGC@10'"),
        ({"monitor": "NDCG"}, "monitor='NDCG': expected the name of one metric, such as 'NDCG@10'"),
        ({"monitor": "CalibrationKL@10"}, "monitor='CalibrationKL@10': the epoch with the largest value is kept"),
        ({"monitor": "NDCG@0"}, "k=0"),
        ({"monitor_protocol": "papers"}, "protocol='papers': expected 'paper' or 'full'"),
    ],
)
def test_a_wrong_monitor_is_refused_at_once(parts, changes, words):
    train, valid, _ = parts
    epochs = []
    with pytest.raises(ParameterError) as caught:
        DPCML(dim=4, epochs=2, **changes).fit(train, valid, callbacks=[epochs.append])
    assert words in str(caught.value)
    assert epochs == []


def test_a_monitor_without_users_is_an_error(parts):
    train, valid, _ = parts
    with pytest.raises(ParameterError, match=r"monitor='P@90': no user of .* counts for it under the 'paper' protocol"):
        DPCML(dim=4, epochs=2, monitor="P@90", monitor_protocol="paper").fit(train, valid)


def test_callbacks_history_and_log(parts, tmp_path):
    train, valid, _ = parts
    seen = []
    path = tmp_path / "log.jsonl"
    model = DPCML(dim=4, epochs=5, log_file=str(path))
    model.fit(train, valid, callbacks=[seen.append, lambda row: row["epoch"] < 3])
    assert model.stopped_ == "callback"
    assert seen == model.history_ == [json.loads(line) for line in path.read_text().splitlines()]
    assert set(seen[0]) >= {"epoch", "loss", "hinge", "dcrs", "pair_gradients", "seconds", "NDCG@10"}
    model.fit(train)
    assert model.stopped_ == "finished"


def test_training_is_silent(parts, capfd):
    DPCML(dim=4, epochs=2).fit(parts[0], parts[1])
    assert capfd.readouterr() == ("", "")


# ---- Ctrl-C and divergence ---------------------------------------------------------------------------------


def test_ctrl_c_in_a_callback_leaves_a_usable_model(parts):
    train, valid, test = parts

    def interrupt(row):
        if row["epoch"] == 3:
            raise KeyboardInterrupt

    model = DPCML(dim=8, n_interests=2, epochs=500).fit(train, callbacks=[interrupt])
    assert model.stopped_ == "interrupted"
    assert len(model.history_) == 3
    assert model.is_fitted
    assert len(model.recommend([3], k=5)) == 5
    assert evaluate(model, test, seen=[train, valid], metrics=["MAP"])["MAP"] > 0


SIGINT_CHILD = """
import sys
from tastespace import DPCML, synthetic

town = synthetic.multi_interest(n_users=2000, n_items=800, n_interactions=150_000, seed=2).interactions
model = DPCML(dim=32, n_interests=4, sampler="unis", n_negatives=20, epochs=100_000, threads=1)
model.fit(town, callbacks=[lambda row: print("epoch", flush=True)])
print(model.stopped_, len(model.recommend([3], k=5)), flush=True)
"""


def test_a_real_sigint_leaves_a_usable_model():
    child = subprocess.Popen([sys.executable, "-c", SIGINT_CHILD], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "epoch\n"
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert out.splitlines()[-1] == "interrupted 5"


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("geometry", ["sphere-ball", "ball", "sphere"])
@pytest.mark.parametrize("rate", [1e25, 1e30])
def test_a_huge_learning_rate_stops_with_epoch_quantity_and_hint(parts, optimizer, geometry, rate):
    model = DPCML(dim=8, n_interests=2, epochs=5, learning_rate=rate, optimizer=optimizer, geometry=geometry)
    with pytest.raises(TrainingError, match=r"diverged in epoch 1: .+ became NaN or infinite\. Lower learning_rate"):
        model.fit(parts[0])
    assert not model.is_fitted


def test_divergence_keeps_what_was_learned_and_the_last_good_checkpoint(parts, tmp_path, monkeypatch, caplog):
    train, _, _ = parts
    settings = {"dim": 8, "n_interests": 2, "epochs": 4, "one_vector_epochs": 2}
    whole = DPCML(**settings).fit(train)
    learn = DpcmlTrainer.train_epoch

    def spoil(self, epoch, tick):
        row = learn(self, epoch, tick)
        if epoch == 2:
            self.state()["items"][0, 0] = np.nan
        return row

    settings |= {"checkpoint": str(tmp_path / "c"), "checkpoint_epochs": 1}
    monkeypatch.setattr(DpcmlTrainer, "train_epoch", spoil)
    model = DPCML(**settings).fit(train)
    assert (model.stopped_, len(model.history_)) == ("diverged", 2)
    assert model.diagnostics_[0]["kind"] == "diverged"
    assert "diverged in epoch 3: 'items' became NaN" in caplog.text
    assert same_vectors(model, DPCML(**settings | {"checkpoint": None, "epochs": 2}).fit(train))
    monkeypatch.undo()
    assert same_vectors(DPCML(**settings).fit(train), whole)


# ---- more interactions -------------------------------------------------------------------------------------


def interactions_from(rows):
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"))


@pytest.fixture(scope="module")
def old_and_new():
    """Old: users u00 ... u39, items i000 ... i049. New: more of theirs, and two more users and two more items."""
    rng = np.random.default_rng(5)
    old = [(f"u{u:02}", f"i{i:03}") for u in range(40) for i in rng.choice(50, 8, replace=False)]
    old += [("u00", f"i{i:03}") for i in range(50) if i % 7 == 0]
    new = [("u05", f"i{i:03}") for i in range(40)]  # 8 -> about 40: more interests
    new += [("a-first", f"i{i:03}") for i in range(0, 12, 2)] + [("z-last", "a-item"), ("z-last", "i001")]
    new += [("u07", "a-item"), ("u07", "z-item")]
    return interactions_from(sorted(set(old))), interactions_from(new)


def test_partial_fit_carries_over_and_takes_new_users_and_items(old_and_new):
    old, new = old_and_new
    settings = {"dim": 8, "n_interests": "adaptive", "min_interests": 1, "log_base": 2.0, "average": 1}
    model = DPCML(epochs=10, seed=1, **settings).fit(old)
    users, offsets, items = model.user_vectors_.copy(), model.user_offsets_.copy(), model.item_vectors_.copy()
    model.set_params(epochs=1, learning_rate=1e-7)
    assert model.partial_fit(new) is model

    assert model.train_.n_users == 42
    assert model.train_.n_items == 52
    assert model.train_.n_interactions == len(set(old.to_frame().rows()) | set(new.to_frame().rows()))
    assert set(model.train_.items_of("u05")) == set(old.items_of("u05")) | {f"i{i:03}" for i in range(40)}
    assert model.user_offsets_[-1] == len(model.user_vectors_)
    for name in old.users.series:
        was, now = (int(d.users.index_of([name])[0]) for d in (old, model.train_))
        before = users[offsets[was] : offsets[was + 1]]
        after = model.user_vectors_[model.user_offsets_[now] : model.user_offsets_[now + 1]]
        np.testing.assert_allclose(after[: len(before)], before, atol=1e-5)
        assert len(after) == max(1, int(model.train_.user_counts[now]).bit_length() - 1)
        assert (len(after) > len(before)) == (name == "u05")
    known = model.train_.items.index_of(old.items.series)
    np.testing.assert_allclose(model.item_vectors_[known], items, atol=1e-5)

    # The additional vector of u05 starts on the sphere at an own item.
    row = int(model.train_.users.index_of(["u05"])[0])
    added = model.user_vectors_[model.user_offsets_[row + 1] - 1]
    own = model.item_vectors_[model.train_.items.index_of(model.train_.items_of("u05"))]
    cosines = own @ added / np.linalg.norm(own, axis=1)
    assert cosines.max() == pytest.approx(1, abs=1e-4)

    frame = model.recommend(["z-last", "u07"], k=60)
    for name in ("z-last", "u07"):
        answer = frame.filter(frame["user"] == name)["item"].to_list()
        assert set(answer) == set(model.train_.items.series) - set(model.train_.items_of(name))


def test_partial_fit_learns_what_is_new(old_and_new):
    old, new = old_and_new
    model = DPCML(dim=8, n_interests=2, epochs=30, sampler="unis").fit(old)
    liked = set(new.items_of("a-first"))
    model.partial_fit(new)
    scores = model.score_block(model.train_.users.index_of(["a-first"]))[0]
    columns = model.train_.items.index_of(sorted(liked))
    assert scores[columns].mean() > np.delete(scores, columns).mean() + 0.2
    assert len(model.history_) == 6  # a fifth of the epochs


def test_partial_fit_is_deterministic_and_may_go_on(old_and_new):
    old, new = old_and_new
    for optimizer in ("adagrad", "adam", "sgd"):
        settings = {"dim": 8, "n_interests": "adaptive", "epochs": 2, "optimizer": optimizer, "learning_rate": 0.01}
        models = [DPCML(threads=t, **settings).fit(old).partial_fit(new).partial_fit(old) for t in (1, 2, 3, 8)]
        for model in models[1:]:
            assert same_vectors(models[0], model)
            assert models[0].train_.fingerprint() == model.train_.fingerprint()


def test_known_vectors_do_not_jump(old_and_new):
    """Adagrad starts with its longest steps; vectors that are learned already continue with the state that they had."""
    old, _ = old_and_new
    model = DPCML(dim=8, n_interests=2, epochs=40, average=1, sampler="unis").fit(old)
    settled = model.item_vectors_.copy()
    fresh = DPCML(dim=8, n_interests=2, epochs=1, average=1, sampler="unis").fit(old)
    first_epoch = np.abs(fresh.item_vectors_ - start_of(fresh, old)).mean()
    other = next(item for item in old.items.series if item not in old.items_of("u00"))
    one = Interactions.from_frame(pl.DataFrame({"user": ["u00"], "item": [other]}), part=True)
    model.partial_fit(one, epochs=1, n_old=1e6)
    assert np.abs(model.item_vectors_ - settled).mean() < 0.3 * first_epoch


def start_of(model, data):
    return model.clone().set_params(learning_rate=1e-12).fit(data).item_vectors_


def test_partial_fit_with_validation_callbacks_and_one_vector(old_and_new):
    old, new = old_and_new
    model = CML(dim=8, epochs=3).fit(old)
    whole = concat(old, new)
    valid = whole.subset(np.arange(whole.n_interactions) % 5 == 0)
    seen = []
    with pytest.warns(UserWarning, match="among the seen ones"), pytest.raises(DataError, match="nothing to measure"):
        model.partial_fit(new, valid=valid, callbacks=[seen.append])  # what it was trained on cannot be recommended
    with pytest.raises(DataError, match="does not share users and items"):
        model.partial_fit(new, valid=old)
    model.partial_fit(new, callbacks=[lambda row: False])
    assert model.stopped_ == "callback"


def test_partial_fit_before_fit_and_with_what_is_no_data(old_and_new):
    old, new = old_and_new
    with pytest.raises(NotFittedError, match=r"call fit\(train\) first"):
        DPCML().partial_fit(old)
    model = DPCML(dim=4, epochs=1).fit(old)
    with pytest.raises(DataError, match="type String in one table and Int64"):
        model.partial_fit(new.matrix)  # whose ids are row and column numbers
    with pytest.raises(DataError, match="type String in one table and Int64"):
        model.partial_fit(Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": ["a", "b"]})))


def test_partial_fit_after_a_change_of_dimension_says_so(old_and_new):
    old, new = old_and_new
    model = DPCML(dim=4, epochs=1).fit(old).set_params(dim=5)
    with pytest.raises(ParameterError, match="dim"):
        model.partial_fit(new)


def test_partial_fit_with_the_checkpoint_of_the_first_fit(old_and_new, tmp_path):
    """Going on, even with the same data, is another run: it must not resume the end of the first and learn nothing."""
    old, new = old_and_new
    model = DPCML(dim=4, epochs=2, checkpoint=str(tmp_path / "c")).fit(old)
    with pytest.raises(TrainingError, match="belongs to another run"):
        model.partial_fit(new)
    # It resumes from its own checkpoint: stopped and called again, it ends in the same bits.
    model.set_params(checkpoint=str(tmp_path / "d"), checkpoint_epochs=1)
    first, again, whole = (copy.deepcopy(model) for _ in range(3))
    first.partial_fit(new, epochs=4, callbacks=[lambda row: row["epoch"] < 2])
    seen = []
    again.partial_fit(new, epochs=4, callbacks=[lambda row: seen.append(row["epoch"])])
    assert seen == [3, 4]
    assert same_vectors(again, whole.set_params(checkpoint=None).partial_fit(new, epochs=4))


# ---- bad input ---------------------------------------------------------------------------------------------


def test_users_with_a_single_item_and_with_none():
    model = DPCML(dim=4, n_interests="adaptive", epochs=3).fit(from_rows([[0], [1], [], [0, 2, 3]], 6))
    assert np.diff(model.user_offsets_).tolist() == [3, 3, 3, 3]
    assert len(model.recommend([0, 2], k=10, on_unknown="popular")) == 5 + 6
    assert len(model.recommend([0, 2], k=10, on_unknown="skip")) == 5


@pytest.mark.parametrize("sampler", ["unis", "pops", "2sts", "hars", "ndihars", "dihars"])
def test_a_user_who_has_everything_is_skipped_and_counted(sampler, caplog):
    train = from_rows([list(range(9)), [0, 1], list(range(8))], 9)
    model = DPCML(dim=4, n_interests=2, epochs=3, sampler=sampler, n_negatives=50).fit(train)
    assert model.skipped_positives_ == 9
    assert "9 positives of users who have every item were skipped" in caplog.text
    assert np.isfinite(model.user_vectors_).all()
    assert len(model.recommend([0], k=5)) == 0


def test_all_users_have_every_item():
    model = DPCML(dim=4, n_interests=2, epochs=2).fit(from_rows([[0, 1, 2]] * 3, 3))
    assert model.skipped_positives_ == 9
    assert [row["loss"] for row in model.history_] == [0, 0]


@pytest.mark.parametrize("sampler", ["unis", "pops", "2sts", "hars", "ndihars", "dihars"])
def test_more_negatives_wanted_than_exist(parts, sampler):
    common = {"dim": 4, "n_interests": 2, "epochs": 2, "sampler": sampler}
    model = DPCML(n_negatives=10**6, n_hardest=10**5, **common).fit(parts[0])
    assert np.isfinite(model.item_vectors_).all()
    assert model.skipped_positives_ == 0


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"min_spread": 0.5, "max_spread": 0.2}, "min_spread=0.5 is larger than max_spread=0.2"),
        ({"min_spread": float("nan")}, "min_spread=nan"),
        ({"max_spread": "wide"}, "max_spread='wide'"),
        ({"max_spread": -0.1, "min_spread": None}, "max_spread=-0.1"),
        ({"beta": 0}, "beta=0: expected the share of negatives that counts, in (0, 1]"),
        ({"beta": 1.5}, "beta=1.5: expected"),
        ({"beta": float("nan")}, "beta=nan: expected"),
        ({"beta": "small"}, "beta='small': expected"),
        ({"n_interests": 0}, "n_interests=0: expected a whole number of vectors per user, 1 or more"),
        (
            {"n_interests": "many"},
            "n_interests='many': expected a whole number of vectors per user, 1 or more, 'adaptive', 'auto' or 'cross",
        ),
        ({"n_interests": "adaptive", "log_base": 1.0}, "log_base=1.0: expected a number larger than 1"),
        ({"n_negatives": 5, "n_hardest": 6}, "n_hardest=6 is more than n_negatives=5"),
        ({"n_interests": "adaptive", "log_base": 0.3}, "log_base=0.3: expected a number larger than 1"),
        ({"n_interests": "adaptive", "min_interests": 0}, "min_interests=0: expected a whole number, 1 or more"),
        ({"learning_rate": float("nan")}, "learning_rate=nan: expected a positive, finite number"),
        ({"learning_rate": float("inf")}, "learning_rate=inf: expected a positive, finite number"),
        ({"learning_rate": 0}, "learning_rate=0: expected a positive, finite number"),
        ({"learning_rate": "fast"}, "learning_rate='fast': expected a positive, finite number"),
        ({"margin": -1}, "margin=-1: expected a positive, finite number"),
        ({"radius": 0.0}, "radius=0.0: expected a positive, finite number"),
        ({"gamma_rate": 0}, "gamma_rate=0: expected a positive, finite number"),
        ({"spread_weight": -1}, "spread_weight=-1: expected a number, 0 or more"),
        ({"spread_weight": "much"}, "spread_weight='much': expected a number, 0 or more"),
        ({"dim": 0}, "dim=0: expected a whole number, 1 or more"),
        ({"dim": 8.0}, "dim=8.0: expected a whole number"),
        ({"n_hardest": 0}, "n_hardest=0: expected a whole number"),
        ({"n_negatives": 0}, "n_negatives=0: expected a whole number"),
        ({"block_size": 0}, "block_size=0: expected a whole number"),
        ({"average": 0}, "average=0: expected a whole number"),
        ({"epochs": 0}, "epochs=0: expected a whole number"),
        ({"patience": -1}, "patience=-1: expected a whole number"),
        ({"validate_every": 0}, "validate_every=0: expected a whole number"),
        ({"checkpoint_epochs": 0}, "checkpoint_epochs=0: expected a whole number"),
        ({"checkpoint_minutes": -1.0}, "checkpoint_minutes=-1.0: expected a positive number"),
        ({"log_file": "log.dat"}, "log_file='log.dat': expected a name that ends in .csv or .jsonl"),
        ({"threads": -1}, "threads=-1: expected 0 (all cores)"),
        ({"seed": -1}, "seed=-1: expected"),
        ({"seed": None}, "seed=None: expected"),
        ({"seed": 2**64}, f"seed={2**64}: expected"),
        ({"sampler": "diharz"}, "sampler='diharz': expected one of"),
        ({"geometry": "cube"}, "geometry='cube': expected one of 'sphere-ball', 'ball', 'sphere'"),
        ({"optimizer": "adamw"}, "optimizer='adamw': expected one of 'sgd', 'adagrad', 'adam'"),
        ({"dcrs": "max"}, "dcrs='max': expected one of None, 'mean', 'pairs', 'auto'"),
        ({"gamma": "zero"}, "gamma='zero': expected one of 'statistic', 'random', 'average'"),
        ({"weighting": "item"}, "weighting='item': expected one of 'positive', 'user'"),
        ({"schedule": "step"}, "schedule='step': expected one of 'constant', 'linear', 'cosine'"),
        ({"sampler": "pops", "popularity_power": -1.0}, "popularity_power=-1.0: expected a number, 0 or more"),
    ],
)
def test_parameters_that_make_no_sense(parts, parameters, words):
    with pytest.raises(ParameterError) as made:
        DPCML(**{"dim": 4, "epochs": 1, **parameters})
    model = DPCML(dim=4, epochs=1)
    vars(model).update(parameters)  # attributes that are set afterwards are checked by `fit`
    with pytest.raises(ParameterError) as fitted:
        model.fit(parts[0])
    assert words in str(made.value)
    assert words in str(fitted.value)
    assert not model.is_fitted


def test_numpy_numbers_are_numbers(parts):
    plain = DPCML(dim=4, epochs=2, learning_rate=0.125, margin=1.0, n_interests=2, patience=3).fit(parts[0])
    model = DPCML(
        dim=np.int32(4),
        epochs=np.int64(2),
        learning_rate=np.float32(0.125),
        margin=np.int64(1),
        n_interests=np.int64(2),
        patience=np.int64(3),
    )
    assert same_vectors(model.fit(parts[0]), plain)


def test_cml_has_no_parameters_of_several_vectors():
    for name in ("n_interests", "min_interests", "log_base", "dcrs", "spread_weight", "min_spread"):
        assert name not in CML().get_params()
        with pytest.raises(
            ParameterError, match=f"CML has no parameter '{name}': it has one vector per user. Take DPCML"
        ):
            CML(**{name: 1})


def test_the_plain_published_setting():
    model = DPCML.paper(n_interests=5)
    wanted = {"optimizer": "dense-adam", "block_size": 256, "epochs": 100, "dim": 100, "average": 1, "n_interests": 5}
    assert {name: model.get_params()[name] for name in wanted} == wanted
    assert CML.paper(sampler="unis").optimizer == "dense-adam"
