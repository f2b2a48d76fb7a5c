"""DPCML and CML with `anchor`: what the vectors are, the same bits, partial_fit, files, fold-in, minority interests."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import tastespace as ts
from tastespace import (
    CML,
    DPCML,
    Interactions,
    evaluate,
    split,
    synthetic,
)
from tastespace.errors import ParameterError

pytestmark = pytest.mark.usefixtures("one_core")

ANCHORS = [0.4, 1.0]


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=150, n_items=100, n_interactions=4000, seed=2).interactions
    return split.per_user(town, seed=0)


def from_rows(rows, n_items):
    table = np.zeros((len(rows), n_items))
    for user, row in enumerate(rows):
        table[user, list(row)] = 1
    return Interactions.from_scipy(sp.csr_array(table))


def same_model(one, other):
    """Everything that is learned has the same bits."""
    names = {name for model in (one, other) for name in vars(model) if name.endswith("_")}
    arrays = [name for name in names if isinstance(getattr(one, name), np.ndarray)]
    assert {"user_vectors_", "item_vectors_"} <= set(arrays)
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


def in_region(rows, geometry, radius=1.0):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where((geometry != "ball") | (norms > radius), rows * radius / norms, rows)


def clusters(model, user):
    """The user's own item vectors, their interests, and the rows of the user's vectors."""
    train = model.train_
    mine = slice(train.offsets[user], train.offsets[user + 1])
    rows = slice(model.user_offsets_[user], model.user_offsets_[user + 1])
    return model.item_vectors_[train.indices[mine]].astype(np.float64), model.assignments_[mine], rows


# ---- what the vectors are ----------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [1, 5])
@pytest.mark.parametrize("geometry", ["sphere-ball", "ball", "sphere"])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_vectors_are_a_mix_of_what_is_learned_and_the_mean_of_the_own_items(parts, anchor, geometry, average):
    model = DPCML(dim=6, n_interests=3, anchor=anchor, geometry=geometry, epochs=4, average=average).fit(parts[0])
    assert hasattr(model, "free_vectors_") == (anchor < 1)
    free = model.free_vectors_ if anchor < 1 else np.zeros_like(model.user_vectors_)
    for user in range(model.train_.n_users):
        own, assigned, rows = clusters(model, user)
        assert set(assigned) == {0, 1, 2}
        means = np.stack([own[assigned == c].mean(axis=0) for c in range(3)])
        wanted = in_region((1 - anchor) * free[rows] + anchor * means, geometry)
        np.testing.assert_allclose(model.user_vectors_[rows], wanted, atol=2e-6)


def test_one_vector_is_the_mean_of_the_history(parts):
    model = CML(dim=6, anchor=1, epochs=3, geometry="sphere-ball").fit(parts[0])
    means = parts[0].matrix @ model.item_vectors_ / parts[0].user_counts[:, None]
    np.testing.assert_allclose(model.user_vectors_, in_region(means, "sphere-ball"), atol=2e-6)
    same = DPCML(dim=6, anchor=1, epochs=3, n_interests=1, geometry="sphere-ball").fit(parts[0])
    assert same_model(model, same)


def test_validation_measures_the_vectors_of_the_model(parts):
    train, valid, _ = parts
    model = DPCML(dim=8, n_interests=3, anchor=0.5, epochs=6, monitor="R@5", patience=0).fit(train, valid)
    figures = [row["R@5"] for row in model.history_]
    assert model.best_epoch_ == 1 + int(np.argmax(figures))
    assert evaluate(model, valid, seen=[train], metrics=["R@5"])["R@5"] == pytest.approx(max(figures))


def test_without_anchor_nothing_of_it_is_kept(parts):
    model = DPCML(dim=4, n_interests=2, epochs=1, anchor=0.5).fit(parts[0])
    assert model.free_vectors_.shape == model.user_vectors_.shape
    assert model.assignments_.shape == (parts[0].n_interactions,)
    model.set_params(anchor=1.0).fit(parts[0])
    assert not hasattr(model, "free_vectors_")
    model.set_params(anchor=0.0).fit(parts[0])
    assert not hasattr(model, "assignments_")
    assert same_model(model, DPCML(dim=4, n_interests=2, epochs=1).fit(parts[0]))


@pytest.mark.parametrize("anchor", [0.5, 1.0])
def test_interests_are_the_kinds_of_a_users_items(anchor):
    """Most users take one of two kinds; those who take both have an interest for each. At random it would be 0.64."""
    rng = np.random.default_rng(0)
    kinds = [np.arange(30), np.arange(30, 60)]
    rows = [rng.choice(kinds[user % 2], 8, replace=False) for user in range(200)]
    rows += [np.concatenate([rng.choice(kind, 5, replace=False) for kind in kinds]) for _ in range(20)]
    model = DPCML(dim=12, n_interests=2, anchor=anchor, sampler="unis", epochs=20).fit(from_rows(rows, 60))
    right = []
    for user in range(200, 220):
        _, assigned, _ = clusters(model, user)
        kind = model.train_.indices[model.train_.offsets[user] : model.train_.offsets[user + 1]] >= 30
        share = (assigned == kind).mean()
        right.append(max(share, 1 - share))
    assert np.mean(right) > 0.85


# ---- the same bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"sampler": "dihars", "optimizer": "adam", "geometry": "sphere"}])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_the_same_bits_for_every_number_of_threads(parts, anchor, settings):
    train, valid, _ = parts
    common = {"dim": 19, "anchor": anchor, "epochs": 4, "block_size": 128, "seed": 5, "learning_rate": 0.02, **settings}
    one, *others = (DPCML(threads=n, **common).fit(train, valid) for n in (1, 2, 3, 8))
    assert all(same_model(one, model) for model in others)
    assert not same_model(one, DPCML(threads=1, **{**common, "seed": 6}).fit(train, valid))


@pytest.mark.parametrize("average", [1, 3])
@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_resumed_run_ends_in_the_same_bits(parts, tmp_path, anchor, average):
    train, valid, _ = parts
    common = {"dim": 8, "n_interests": 3, "anchor": anchor, "epochs": 6, "average": average, "patience": 0}
    whole = DPCML(**common).fit(train, valid)
    stored = {"checkpoint": str(tmp_path / "run"), "checkpoint_epochs": 1}
    DPCML(**common, **stored).fit(train, valid, callbacks=[lambda row: row["epoch"] < 3])
    seen = []
    again = DPCML(**common, **stored).fit(train, valid, callbacks=[lambda row: seen.append(row["epoch"])])
    assert seen == [4, 5, 6]
    assert same_model(again, whole)
    assert same_model(DPCML(**common, **stored).fit(train, valid), whole)  # resumed at the end


@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_saved_model_answers_and_continues_in_the_same_bits(parts, tmp_path, anchor):
    train, valid, _ = parts
    model = DPCML(dim=8, n_interests=3, anchor=anchor, epochs=3).fit(train)
    model.save(tmp_path / "model")
    again = ts.load(tmp_path / "model")
    assert again.anchor == anchor
    assert same_model(again, model)
    assert same_model(again.fold_in([train.items_of(3)]), model.fold_in([train.items_of(3)]))
    assert same_model(again.partial_fit(valid), model.partial_fit(valid))


# ---- more interactions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", ANCHORS)
def test_partial_fit_continues_from_the_free_vectors(parts, anchor):
    """With hardly any step, the vector of a user without new items stays; that of the others follows their items."""
    train, valid, _ = parts
    old = train.subset(train.row_of_each() < 100)
    new = valid.subset(valid.row_of_each() >= 60)
    model = CML(dim=8, anchor=anchor, epochs=10, average=1).fit(old)
    before = copy.copy(model)
    model.set_params(epochs=1, learning_rate=1e-7).partial_fit(new)
    np.testing.assert_allclose(model.item_vectors_, before.item_vectors_, atol=1e-5)
    np.testing.assert_allclose(model.user_vectors_[:60], before.user_vectors_[:60], atol=1e-5)
    if anchor < 1:
        np.testing.assert_allclose(model.free_vectors_[:100], before.free_vectors_[:100], atol=1e-5)
    moved = np.abs(model.user_vectors_[60:100] - before.user_vectors_[60:100]).max(axis=1) > 1e-3
    assert moved.mean() > 0.9


@pytest.mark.parametrize("anchor", ANCHORS)
def test_partial_fit_takes_new_users_and_more_interests(anchor):
    rng = np.random.default_rng(3)
    old = from_rows([rng.choice(40, 6, replace=False) for _ in range(30)], 40)
    rows = [[0, 1]] * 30 + [rng.choice(40, 9, replace=False)]
    rows[5] = range(36)
    settings = {"dim": 8, "min_interests": 1, "log_base": 2.0, "anchor": anchor, "epochs": 3}
    models = [DPCML(threads=n, **settings).fit(old).partial_fit(from_rows(rows, 40)) for n in (1, 3)]
    assert same_model(*models)
    model = models[0]
    assert np.diff(model.user_offsets_)[[0, 5, 30]].tolist() == [2 + (model.train_.user_counts[0] >= 8), 5, 3]
    for user in (0, 5, 30):
        _, assigned, rows = clusters(model, user)
        assert set(assigned) == set(range(rows.stop - rows.start))
    assert np.isfinite(model.user_vectors_).all()


def test_partial_fit_after_a_change_of_anchor(parts):
    train, valid, _ = parts
    for first, then in ((0.0, 0.5), (0.5, 0.0), (1.0, 0.5), (0.5, 1.0)):
        model = DPCML(dim=6, n_interests=2, epochs=2, anchor=first).fit(train)
        model.set_params(anchor=then).partial_fit(valid)
        assert np.isfinite(model.user_vectors_).all()
        assert hasattr(model, "free_vectors_") == (0 < then < 1)


# ---- fold-in -----------------------------------------------------------------------------------------------


def k_means(own, count, geometry, iterations=10):
    """Farthest-first start and Lloyd's algorithm in plain NumPy; centers in the users' region."""
    chosen = [int(np.square(own - own.mean(axis=0)).sum(axis=1).argmin())]
    while len(chosen) < count:
        chosen.append(int(np.square(own[:, None] - own[None, chosen]).sum(axis=2).min(axis=1).argmax()))
    assigned = np.square(own[:, None] - own[None, chosen]).sum(axis=2).argmin(axis=1)
    for _ in range(iterations + 1):
        assert len(set(assigned)) == count  # no cluster lost its items
        centers = in_region(np.stack([own[assigned == c].mean(axis=0) for c in range(count)]), geometry)
        before, assigned = assigned, np.square(own[:, None] - centers[None]).sum(axis=2).argmin(axis=1)
    return centers, before


@pytest.mark.parametrize("geometry", ["sphere-ball", "ball", "sphere"])
def test_fold_in_with_anchor_1_is_k_means(parts, geometry):
    train, _, _ = parts
    model = DPCML(dim=8, n_interests=3, anchor=1.0, epochs=8, geometry=geometry).fit(train)
    new = model.fold_in([train.items_of(user) for user in range(40)])
    for user in range(40):
        own, assigned, rows = clusters(new, user)
        centers, wanted = k_means(own, 3, geometry)
        np.testing.assert_array_equal(assigned, wanted)
        np.testing.assert_allclose(new.user_vectors_[rows], centers, atol=2e-6)


@pytest.mark.parametrize("anchor", ANCHORS)
def test_fold_in_does_not_depend_on_the_other_users_or_threads(parts, anchor, monkeypatch):
    monkeypatch.setattr("tastespace.models.dpcml._fold_in._PARALLEL", 0)
    train, _, _ = parts
    model = DPCML(dim=8, n_interests=3, anchor=anchor, epochs=3, threads=1).fit(train)
    histories = [train.items_of(user) for user in range(12)]
    together = model.fold_in(histories)
    assert same_model(model.set_params(threads=3).fold_in(histories), together)
    alone = model.fold_in([histories[7]])
    np.testing.assert_array_equal(alone.user_vectors_, together.user_vectors_[21:24])


@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_new_user_has_as_many_different_vectors_as_items(parts, anchor):
    train, _, _ = parts
    model = DPCML(dim=8, n_interests=4, anchor=anchor, epochs=3, geometry="sphere-ball").fit(train)
    for count in (1, 2, 3, 4):
        new = model.fold_in([train.items_of(0)[:count]])
        assert len(np.unique(new.user_vectors_, axis=0)) == count
        assert sorted(new.assignments_) == list(range(count))
        if anchor == 1:
            own = in_region(new.item_vectors_[new.train_.indices], "sphere-ball")
            gaps = np.square(own[:, None] - new.user_vectors_[None]).sum(axis=2)
            np.testing.assert_allclose(gaps.min(axis=1), 0, atol=1e-10)


@pytest.mark.parametrize("anchor", [0.3, 0.7])
def test_fold_in_learns_the_free_part(parts, anchor):
    """It lies where the loss of the history is lower than at the means alone."""
    train, valid, _ = parts
    model = DPCML(dim=16, n_interests=2, anchor=anchor, sampler="unis", epochs=20, geometry="sphere-ball").fit(train)
    new = model.fold_in([train.items_of(user) for user in range(150)])
    for user in range(150):
        own, assigned, rows = clusters(new, user)
        means = np.stack([own[assigned == c].mean(axis=0) for c in range(2)])
        wanted = in_region((1 - anchor) * new.free_vectors_[rows] + anchor * means, "sphere-ball")
        np.testing.assert_allclose(new.user_vectors_[rows], wanted, atol=2e-6)
    found = evaluate(new, valid, seen=[train], metrics=["NDCG@10"])["NDCG@10"]
    assert found > 0.85 * evaluate(model, valid, seen=[train], metrics=["NDCG@10"])["NDCG@10"]


# ---- minority interests ------------------------------------------------------------------------------------


def test_anchored_interests_serve_minority_interests_better_than_a_random_start():
    names, settings = ["NDCG@10", "MinorityRecall@20"], {**DPCML.paper_form(), "learning_rate": 0.1}
    for seed in range(2):
        town = synthetic.multi_interest(n_users=500, n_items=300, n_interactions=20_000, seed=seed).interactions
        train, valid, test = split.per_user(town, seed=seed)
        free, fixed = (
            evaluate(
                DPCML(dim=32, n_interests=3, anchor=anchor, epochs=25, seed=seed, **settings).fit(train, valid),
                test,
                seen=[train, valid],
                metrics=names,
            )
            for anchor in (0.0, 1.0)
        )
        assert fixed["MinorityRecall@20"] > free["MinorityRecall@20"] + 0.04
        assert fixed["NDCG@10"] > free["NDCG@10"] - 0.01


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchor", "words"),
    [
        (-0.1, "anchor=-0.1: expected a number from 0 to 1"),
        (1.5, "anchor=1.5: expected a number from 0 to 1"),
        (float("nan"), "anchor=nan: expected a number from 0 to 1"),
        ("much", "anchor='much': expected a number from 0 to 1"),
        (None, "anchor=None: expected a number from 0 to 1"),
        (True, "anchor=True: expected a number from 0 to 1"),
    ],
)
@pytest.mark.parametrize("kind", [DPCML, CML])
def test_an_anchor_that_makes_no_sense(parts, kind, anchor, words):
    with pytest.raises(ParameterError) as caught:
        kind(dim=4, epochs=1, anchor=anchor).fit(parts[0])
    assert words in str(caught.value)


@pytest.mark.parametrize("anchor", ANCHORS)
def test_users_with_one_item_with_none_and_with_all(anchor, caplog):
    train = from_rows([[0], [1], [], [0, 2, 3], list(range(6))], 6)
    model = DPCML(dim=4, n_interests=2, epochs=3, anchor=anchor, geometry="sphere-ball").fit(train)
    assert model.skipped_positives_ == (2 + 6 if anchor == 1 else 6)
    assert ("2 positives of users who have one item were skipped" in caplog.text) == (anchor == 1)
    assert np.isfinite(model.user_vectors_).all()
    assert len(model.recommend([0, 2], k=10, on_unknown="popular")) == 5 + 6
    np.testing.assert_allclose(np.linalg.norm(model.user_vectors_, axis=1), 1, rtol=1e-5)


def test_anchor_as_a_numpy_number(parts):
    models = [DPCML(dim=4, n_interests=2, epochs=2, anchor=a).fit(parts[0]) for a in (1, np.float32(1), np.int64(1))]
    assert same_model(models[0], models[1])
    assert same_model(models[0], models[2])
