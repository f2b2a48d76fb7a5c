"""A blend's scores split by taste: exact parts, muted and boosted tastes, and numbers that stay."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.models.given_scores import Given

import tastespace
from tastespace import CML, DPCML, EASE, Blend, Interactions, MostPopular, synthetic
from tastespace.errors import DataError, ParameterError
from tastespace.models import ALS, ItemKNN, Recommender, RP3beta, SoftmaxMF, SparseEASE, Spectral
from tastespace.models.updating import histories_of
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.fold_in import folded

ADDITIVE = {
    "ease": lambda: EASE(side="items"),
    "ease from the users": lambda: EASE(side="users"),
    "ease in the paper's form": lambda: EASE(**EASE.paper_form()),
    "sparse ease": SparseEASE,
    "item knn": ItemKNN,
    "normalized item knn": lambda: ItemKNN(normalize=True),
    "rp3beta": RP3beta,
    "spectral": lambda: Spectral(dim=8),
    "spectral, low pass": lambda: Spectral(dim=8, linear=False),
}
OTHERS = {
    "als": lambda: ALS(dim=8),
    "dpcml": lambda: DPCML(dim=8, n_interests=3, epochs=3),
    "cml": lambda: CML(dim=8, epochs=3),
    "popular": MostPopular,
}


class Slow(Recommender):
    """A model that the kernel of blends does not know, with the scores of another."""

    @classmethod
    def of(cls, model):
        slow = cls()
        slow.own, slow.train_, slow.valid_ = model, model.train_, None
        return slow

    def _fit(self, train, valid, progress):
        """Nothing to learn."""

    @property
    def weighted_train(self):
        return self.own.weighted_train

    def score_block(self, users):
        return self.own.score_block(users)

    def history_scores(self, histories):
        return self.own.history_scores(histories)

    def evidence(self, user, items):
        return self.own.evidence(user, items)


def ids(data):
    return data.to_frame().select(pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item"))


@pytest.fixture(scope="module")
def data():
    made = synthetic.multi_interest(n_users=70, n_items=60, n_interactions=1600, seed=3).interactions
    return Interactions.from_frame(ids(made))


@pytest.fixture(scope="module")
def weighted(data):
    numbers = np.random.default_rng(0).uniform(0.2, 5.0, data.n_interactions)
    return Interactions.from_frame(data.to_frame().with_columns(w=pl.Series(numbers)), weight="w")


@pytest.fixture(scope="module")
def fitted(data):
    """All kinds of members, fitted; those that a test needs."""
    made = {}

    def of(name, on=data):
        if (name, id(on)) not in made:
            model = {**ADDITIVE, **OTHERS}[name]()
            given = on if on.weights is None or model.uses_weights else on.without_weights()
            made[name, id(on)] = model.fit(given)
        return made[name, id(on)]

    return of


@pytest.fixture(scope="module")
def blend(fitted):
    return Blend.of([fitted("ease"), fitted("cml"), fitted("als")], [0.5, 0.2, 0.3])


@pytest.fixture(scope="module")
def linear(fitted):
    """A blend of nothing but sums over past items."""
    return Blend.of([fitted("ease")], [1.0])


def standardized(member, users):
    scores = member.score_block(users).astype(np.float64)
    return scores, scores.mean(axis=1), scores.std(axis=1)


def parts_by_loops(model, user):
    """Parts and what is added for one user, from the members' scores and evidence, in double precision."""
    data, row, n_items = model.train_, np.array([user]), model.train_.n_items
    taste_of = model.tastes().of_user(user)
    shares = np.bincount(taste_of) / len(taste_of)
    values, rest, added = np.zeros((len(shares), n_items)), np.zeros(n_items), 0.0
    for member, weight in zip(model.members_, model.weights_, strict=True):
        (scores,), (mean,), (deviation,) = standardized(member, row)
        evidence = member.evidence(user, np.arange(n_items))
        if member.history_scores(data.matrix[[user]]) is None:
            rest += weight * (scores - mean) / deviation
            continue
        assert evidence.shape == (data.user_counts[user], n_items)
        for x in range(len(shares)):
            values[x] += weight / deviation * evidence[taste_of == x].astype(np.float64).sum(axis=0)
        added -= weight * mean / deviation
    raising = np.maximum(values, 0)
    for item in range(n_items):
        total = raising[:, item].sum()
        values[:, item] += rest[item] * (raising[:, item] / total if total > 0 else shares)
    lifts = shares**-model.lift
    return values * (lifts / (shares * lifts).sum())[:, None], added


# ---- parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("other", [None, "als", "dpcml", "popular"])
@pytest.mark.parametrize("name", ADDITIVE)
def test_parts_add_up_to_the_score(fitted, data, weighted, name, other, with_weights):
    on = weighted if with_weights else data
    members = [fitted(one, on) for one in (name, other) if one is not None]
    weights = [1.0] if other is None else [0.7, 0.3]
    model, users = Blend.of(members, weights), np.arange(data.n_users)
    plain = np.zeros((data.n_users, data.n_items))
    for member, weight in zip(members, weights, strict=True):
        scores, mean, deviation = standardized(member, users)
        plain += weight * (scores - mean[:, None]) / np.where(deviation > 0, deviation, 1.0)[:, None]
    parts = model.taste_parts(users)
    assert (np.diff(parts.first) == model.tastes().counts).all()
    assert np.diff(parts.first).max() > 1
    summed = np.add.reduceat(parts.values.astype(np.float64), parts.first[:-1], axis=0) + parts.added
    largest = np.abs(plain).max()
    np.testing.assert_allclose(summed, plain, atol=2e-6 * largest, rtol=1e-5)
    np.testing.assert_allclose(model.score_block(users), plain, atol=2e-6 * largest, rtol=1e-5)


@pytest.mark.parametrize(
    ("names", "weights"),
    [
        (["ease"], [1.0]),
        (["ease", "als"], [0.6, 0.4]),
        (["spectral", "rp3beta", "popular", "dpcml"], [0.4, 0.3, 0.1, 0.2]),
    ],
)
@pytest.mark.parametrize(("focus", "lift"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.3), (1.0, 0.5)])
def test_parts_and_scores_are_those_of_loops(fitted, names, weights, focus, lift):
    model = Blend.of([fitted(name) for name in names], weights, focus=focus, lift=lift)
    for user in (0, 11, 42):
        values, added = parts_by_loops(model, user)
        parts = model.taste_parts(np.array([user]))
        np.testing.assert_allclose(parts.values, values, atol=1e-4)
        np.testing.assert_allclose(parts.added, added, atol=1e-4)
        expected = (1 - focus) * values.sum(axis=0) + focus * values.max(axis=0) + added
        np.testing.assert_allclose(model.score_block(np.array([user]))[0], expected, atol=1e-4)
        assert parts.strongest()[0].tolist() == parts.values.argmax(axis=0).tolist()


@pytest.mark.parametrize("names", [["cml"], ["dpcml", "popular"], ["als", "popular"]])
def test_what_cannot_be_split_belongs_to_the_nearest_taste(fitted, data, names):
    """Ranked by its total; each item belongs to the taste whose past items are nearest."""
    model = Blend.of([fitted(name) for name in names], [1 / len(names)] * len(names))
    users = np.arange(data.n_users)
    parts, scores = model.taste_parts(users), model.score_block(users)
    assert (parts.added == 0).all()
    assert ((np.abs(parts.values) > 0).astype(int)[: parts.first[1]].sum(axis=0) <= 1).all()
    np.testing.assert_allclose(np.add.reduceat(parts.values, parts.first[:-1], axis=0), scores, atol=1e-5)
    vectors, tastes = model.interest_space(), model.tastes()
    for user in (3, 20):
        own = vectors.user_vectors[tastes.offsets[user] : tastes.offsets[user + 1]].astype(np.float64)
        nearest = np.square(own[:, None] - vectors.item_vectors).sum(axis=2).argmin(axis=0)
        values = parts.values[parts.first[user] : parts.first[user + 1]]
        for item in np.flatnonzero(scores[user]):
            assert np.flatnonzero(values[:, item]).tolist() == [nearest[item]]
    user = data.users[3]
    item = model.recommend(user, k=1)["item"][0]
    assert bool(model.explain(user, item).because) == ("als" in names)  # which has contributions of its own
    assert sum(share for _, _, share in model.explain(user, item).tastes) == pytest.approx(1.0)
    assert len(model.shelves(user, k=5)) >= 1


def test_blends_without_vectors_group_by_the_interactions(fitted, data, tmp_path):
    """Directions from EASE and most popular do not exist; those of the interactions separate two groups of users."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(80):
        halves = [user % 2] if user < 60 else [0, 1]
        for half in halves:
            rows += [(user, int(item) + 20 * half) for item in rng.choice(20, 8, replace=False)]
    two = Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"))
    model = Blend([EASE(), MostPopular()], [0.8, 0.2], n_tastes=2).fit(two)
    for user in range(60, 80):
        own = two.indices[two.offsets[user] : two.offsets[user + 1]]
        assert len(set(zip((own >= 20).tolist(), model.tastes().of_user(user).tolist(), strict=True))) == 2
    assert model.taste_vectors_.shape == (40, 32)
    model.save(tmp_path / "model")
    loaded = tastespace.load(tmp_path / "model", verify=True)
    np.testing.assert_array_equal(loaded.taste_vectors_, model.taste_vectors_)
    assert loaded.recommend(k=3).equals(model.recommend(k=3))
    assert loaded.fold_in([[1, 2, 3, 22, 25, 29, 30, 5]]).tastes().counts.tolist() == [2]
    assert not hasattr(Blend.of([fitted("ease"), fitted("cml")], [0.5, 0.5]), "taste_vectors_")


def test_evidence_of_several_items_and_of_tastes(blend, data):
    """Of all past items of a taste it adds up to what the members that are sums say; columns are single items."""
    user, items = 5, np.array([3, 17, 17, 59])
    evidence = blend.evidence(user, items)
    assert evidence.shape == (data.user_counts[user], 4)
    for at, item in enumerate(items):
        np.testing.assert_allclose(evidence[:, at], blend.evidence(user, np.array([item]))[:, 0], atol=1e-6)
    expected = np.zeros((data.user_counts[user], 4))
    for at, weight in ((0, 0.5), (2, 0.3)):  # EASE and ALS; CML has no contributions
        member = blend.members_[at]
        scale = weight / member.score_block(np.array([user]))[0].std(dtype=np.float64)
        expected += scale * member.evidence(user, items)
    np.testing.assert_allclose(evidence, expected, atol=1e-5)
    assert Blend.of(blend.members_[1:2], [1.0]).evidence(user, items) is None


def test_more_lift_gives_more_places_to_smaller_tastes(fitted, data):
    users, shares = np.arange(data.n_users), []
    for lift in (0.0, 0.5, 2.0):
        model = Blend.of([fitted("ease"), fitted("als")], [0.5, 0.5], lift=lift)
        frame = model.recommend(k=6)
        rows = model.tastes().offsets[data.users.index_of(frame["user"])] + frame["interest"].to_numpy()
        shares.append(model.tastes().shares[rows].mean())
        assert model.score_block(users).shape == (data.n_users, data.n_items)
    assert shares[0] > shares[1] > shares[2]


# ---- muted and boosted tastes ------------------------------------------------------------------------------------


def users_with_several(model, n=12):
    return np.flatnonzero(model.tastes().counts > 1)[:n].tolist()


def test_scores_by_some_tastes(blend):
    for user in users_with_several(blend):
        parts = blend.taste_parts(np.array([user]))
        everything = range(len(parts.values))
        whole = blend.score_block(np.array([user]))[0]
        np.testing.assert_allclose(blend.scores_by(user, everything), whole, atol=1e-5)
        for x in everything:
            np.testing.assert_allclose(blend.scores_by(user, [x]), parts.values[x] + parts.added[0], atol=1e-6)


def test_muting_all_but_one_ranks_by_it_alone(blend, data):
    for user in users_with_several(blend):
        parts, n = blend.taste_parts(np.array([user])), int(blend.tastes().counts[user])
        strongest = parts.strongest()[0]
        unseen = np.setdiff1d(np.arange(data.n_items), data.indices[data.offsets[user] : data.offsets[user + 1]])
        for x in range(n):
            found = blend.recommend(data.users[user], k=90, mute=[y for y in range(n) if y != x])
            own = unseen[strongest[unseen] == x]
            scores = blend.scores_by(user, [x])
            order = sorted(own, key=lambda item: (-scores[item], item))
            assert data.items.index_of(found["item"]).tolist() == order
            np.testing.assert_array_equal(found["score"], scores[order])
            assert (found["interest"] == x).all()


def test_a_muted_taste_is_as_if_its_past_items_were_not_there(linear, data):
    """The order is that of the model itself for the rest of the history; what the taste said most for is gone."""
    ease = linear.members_[0]
    for user in users_with_several(linear):
        own, taste_of = data.indices[data.offsets[user] : data.offsets[user + 1]], linear.tastes().of_user(user)
        strongest = linear.taste_parts(np.array([user])).strongest()[0]
        rest = ease.fold_in({"rest": data.items.take(own[taste_of != 0]).to_list()})
        scores = rest.score_block(np.array([0]))[0]
        left = [item for item in range(data.n_items) if item not in own and strongest[item] != 0]
        expected = sorted(left, key=lambda item: (-scores[item], item))
        found = data.items.index_of(linear.recommend(data.users[user], k=90, mute=[0])["item"])
        assert set(found) == set(expected)
        np.testing.assert_allclose(scores[found], scores[expected], atol=1e-5)


@pytest.mark.parametrize(
    "mix", [{}, {"diversity": 0.5}, {"diversity": 1.0}, {"mix": "calibrated", "column": "interest"}]
)
def test_nothing_whose_strongest_taste_is_muted_comes_back(blend, data, mix):
    for user in users_with_several(blend, 6):
        strongest = blend.taste_parts(np.array([user])).strongest()[0]
        for x in range(int(blend.tastes().counts[user])):
            found = blend.recommend(data.users[user], k=20, mute=[x], **mix)
            assert len(found)
            assert x not in strongest[data.items.index_of(found["item"])]
            assert x not in found["interest"]
            shelves = blend.shelves(data.users[user], k=20, mute=[x]).to_frame()
            assert x not in strongest[data.items.index_of(shelves["item"])]


def test_boosting_multiplies_the_part_of_a_taste(blend, data):
    for user in users_with_several(blend, 6):
        parts = blend.taste_parts(np.array([user]))
        for factor in (0.25, 3.0):
            found = blend.recommend(data.users[user], k=90, boost={1: factor})
            items = data.items.index_of(found["item"])
            expected = parts.totals()[0] + (factor - 1) * parts.values[1]
            np.testing.assert_allclose(found["score"], expected[items], atol=1e-5)
            assert (np.diff(found["score"].to_numpy()) <= 1e-6).all()
            scaled = parts.values * np.where(np.arange(len(parts.values)) == 1, factor, 1.0)[:, None]
            assert found["interest"].to_list() == scaled.argmax(axis=0)[items].tolist()
        shared = blend.recommend(data.users[user], k=12, boost={1: 3.0}, diversity=1.0)
        assert shared.equals(blend.recommend(data.users[user], k=12, boost={1: 3.0}, mix="proportional"))
        assert (shared["interest"] == 1).sum() >= 12 * 0.2
    more, less = (
        [(blend.recommend(data.users[u], k=10, boost={1: f})["interest"] == 1).sum() for u in users_with_several(blend)]
        for f in (4.0, 0.25)
    )
    assert sum(more) > sum(less)


def test_profiles_mute_and_boost_tastes(fitted, data):
    model = Blend.of([fitted("ease"), fitted("als")], [0.5, 0.5])
    user = data.users[users_with_several(model)[0]]
    asked = model.recommend(user, k=9, mute=[1], boost={0: 2.0})
    model.mute(user, [1]).boost(user, {0: 2.0})
    assert model.recommend(user, k=9).equals(asked)
    both = model.recommend(k=9)
    assert both.filter(user=user).equals(asked)
    assert both.filter(pl.col("user") != user).equals(
        model.recommend(k=9, profile=False).filter(pl.col("user") != user)
    )


def test_tastes_that_do_not_exist_and_all_of_them_muted(blend, data):
    row = users_with_several(blend)[0]
    user, n = data.users[row], int(blend.tastes().counts[row])
    for arguments in ({"mute": [n]}, {"boost": {n: 2.0}}, {"mute": [-1]}):
        for call in (blend.recommend, blend.shelves):
            with pytest.raises(
                ParameterError, match=rf"interest -?\d was named, but .* has the interests 0 to {n - 1}"
            ):
                call(user, **arguments)
    for call in (blend.recommend, blend.shelves):
        with pytest.raises(DataError, match=f"all {n} interests are muted: nothing is left to recommend"):
            call(user, mute=list(range(n)))
    with pytest.raises(DataError, match=f"has {n} interests and would have muted all of them"):
        blend.mute(user, list(range(1, n))).mute(user, [0])
    blend.clear_profile(user)


def test_a_user_with_one_item(data):
    frame = pl.concat(
        [data.to_frame().select("user", "item"), pl.DataFrame({"user": ["zoe"], "item": [data.items[4]]})]
    )
    whole = Interactions.from_frame(frame)
    model = Blend([EASE(), CML(dim=4, epochs=2)], [0.6, 0.4]).fit(whole)
    assert model.tastes().counts[-1] == 1
    found = model.recommend("zoe", k=5)
    assert found["interest"].to_list() == [0] * 5
    (shelf,) = model.shelves("zoe", k=5)
    assert shelf.items == found["item"].to_list()
    assert (shelf.name, shelf.weight) == (f"like {data.items[4]}", 1.0)
    explained = model.explain("zoe", found["item"][0])
    assert (explained.rank, explained.rank_without) == (1, None)
    assert [(x, share) for x, _, share in explained.tastes] == [(0, 1.0)]
    assert [(one, share) for one, _, share in explained.because] in ([], [(data.items[4], pytest.approx(1.0))])
    with pytest.raises(ParameterError, match="'zoe' has only interest 0"):
        model.recommend("zoe", mute=[1])


# ---- numbers that stay -------------------------------------------------------------------------------------------


def taste_by_item(model, user):
    train, row = model.train_, int(model.train_.users.index_of([user])[0])
    return dict(zip(train.items_of(user), model.tastes().of_user(row).tolist(), strict=True))


def test_longer_histories_keep_the_numbers(fitted, data):
    """Of a new user, and of users of the model who came back."""
    model = Blend.of([fitted("ease"), fitted("cml")], [0.6, 0.4])
    for user in [data.users[row] for row in users_with_several(model, 6)]:
        before, history = taste_by_item(model, user), data.items_of(user)
        more = [item for item in data.items.series if item not in history][:5]
        row = data.users.index_of([user])
        added = pl.DataFrame({"user": [user] * 5, "item": more})
        whole = Interactions.from_frame(pl.concat([data.to_frame().select("user", "item"), added]))
        longer = folded(model, histories_of(whole, row), row)
        after = taste_by_item(longer, user)
        assert {item: after[item] for item in history} == before
        assert set(after) == {*history, *more}
        assert set(after.values()) == set(before.values())
        new = model.fold_in({"zoe": history})
        if set(before.values()) != set(taste_by_item(new, "zoe").values()):
            continue
        # As a new user the person is grouped by the same rule: the same partition.
        assert len({(before[item], x) for item, x in taste_by_item(new, "zoe").items()}) == len(set(before.values()))


def test_a_saved_blend_keeps_its_tastes(blend, tmp_path, data):
    blend.save(tmp_path / "model")
    loaded = tastespace.load(tmp_path / "model", verify=True)
    np.testing.assert_array_equal(loaded.tastes().of_past, blend.tastes().of_past)
    np.testing.assert_array_equal(loaded.tastes().offsets, blend.tastes().offsets)
    assert loaded.recommend(k=5).equals(blend.recommend(k=5))
    user = data.users[users_with_several(blend)[0]]
    assert loaded.interests(user).equals(blend.interests(user))
    assert str(loaded.shelves(user)) == str(blend.shelves(user))
    assert loaded.recommend(user, k=9, mute=[0]).equals(blend.recommend(user, k=9, mute=[0]))


def test_partial_fit_keeps_the_numbers_of_old_items(data):
    is_new = (np.arange(data.n_interactions) % 9 == 0) | (data.row_of_each() >= 60)
    old = Interactions.from_frame(data.subset(~is_new).to_frame())
    rest = Interactions.from_frame(data.subset(is_new).to_frame())
    for members in ([EASE(), CML(dim=4, epochs=2)], [EASE(), MostPopular()]):
        model = Blend(members, [0.6, 0.4]).fit(old)
        before = {user: taste_by_item(model, user) for user in old.users.series}
        several = [user for user, one in before.items() if len(set(one.values())) > 1]
        model.mute(several[0], [1])
        model.partial_fit(rest)
        assert model.train_.n_interactions == data.n_interactions
        for user in several:
            after = taste_by_item(model, user)
            assert {item: after[item] for item in before[user]} == before[user]
            assert set(after.values()) == set(before[user].values())
        assert model.tastes().counts[60:].max() > 1
        assert 1 not in model.recommend(several[0], k=20)["interest"]
        assert model.recommend(k=3)["interest"].is_not_null().all()


def test_another_number_of_tastes(fitted, data):
    counts = {
        n: Blend.of([fitted("ease"), fitted("cml")], [0.5, 0.5], n_tastes=n).tastes().counts for n in (1, 2, 3, 8)
    }
    assert set(counts[1]) == {1}
    assert [counts[n].max() <= n for n in (2, 3, 8)] == [True] * 3
    assert counts[2].mean() < counts[3].mean() <= counts[8].mean()
    one = Blend.of([fitted("ease"), fitted("cml")], [0.5, 0.5], n_tastes=1, focus=0.7, lift=0.4)
    plain = Blend.of([fitted("ease"), fitted("cml")], [0.5, 0.5])
    users = np.arange(data.n_users)
    np.testing.assert_allclose(one.score_block(users), plain.score_block(users), atol=1e-5)


def test_scores_and_tastes_of_lists_do_not_depend_on_blocks(blend, data, monkeypatch):
    blend = Blend.of([*blend.members_[:2], Slow.of(blend.members_[2])], [0.5, 0.2, 0.3])
    whole, scores = blend.recommend(k=5), blend.score_block(np.arange(data.n_users))
    monkeypatch.setattr("tastespace.models.blend.program._VALUES_AT_ONCE", 1)
    monkeypatch.setattr("tastespace.ranking.scoring._PARTS_AT_ONCE", 1)
    np.testing.assert_array_equal(blend.score_block(np.arange(data.n_users)), scores)
    assert blend.recommend(k=5).equals(whole)
    rows = np.arange(data.n_users, dtype=np.int32)
    _, numbers = ScoringIndex(blend).pair_interests(rows, np.full(len(rows), 7))
    assert numbers.tolist() == blend.taste_parts(rows).strongest()[:, 7].tolist()


def test_members_that_give_numbers_beyond_measure_are_named(data, fitted):
    class Infinite(Given):
        def history_scores(self, histories):
            found = np.zeros((histories.shape[0], data.n_items), np.float32)
            found[:1, 3] = np.inf
            return found

    broken = Infinite(np.zeros(data.matrix.shape)).fit(data)
    with pytest.raises(DataError, match="Infinite, a member of the blend, gave a NaN or infinite score for user"):
        Blend.of([fitted("ease"), broken], [0.5, 0.5]).score_block(np.arange(3))


# ---- the kernel of all members ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shelf(data):
    """The data with categories, and some dislikes."""
    frame = data.to_frame().with_columns(event=pl.lit("view"))
    users, items = data.users.series.to_list(), data.items.series.to_list()
    seen = set(zip(frame["user"], frame["item"], strict=True))
    pairs = [(user, item) for user, item in zip(users[::7], items, strict=False) if (user, item) not in seen]
    dislikes = pl.DataFrame(pairs, schema=["user", "item"], orient="row").with_columns(event=pl.lit("dislike"))
    kinds = pl.DataFrame({"item": items, "genre": [["a", "b|c", "c", "", "a|c"][at % 5] for at in range(len(items))]})
    return Interactions.from_frame(pl.concat([frame, dislikes]), kind="event", item_attributes=kinds)


@pytest.mark.parametrize("weighting", ["ones", "weights", "dislikes and categories"])
def test_members_in_the_kernel_and_beside_it_give_the_same(data, weighted, shelf, weighting):
    """All members known to the kernel, and the same ones asked for their scores, which the kernel only mixes."""
    on = {"ones": data, "weights": weighted}.get(weighting, shelf)
    kinds = [EASE(side="items"), SparseEASE(), RP3beta(), Spectral(dim=8, linear=False), ALS(dim=8)]
    kinds += [DPCML(dim=8, n_interests=3, epochs=3), SoftmaxMF(dim=8, epochs=4)]
    members = [one.fit(on if one.uses_weights else on.without_weights()) for one in kinds]
    weights = (np.arange(1, 8) / 28).tolist()
    options = {"focus": 0.3, "lift": 0.2, "category_balance": 0.3 if on is shelf else 0.0}
    known = Blend.of(members, weights, **options)
    apart = Blend.of(members, weights, **options)
    apart.members_ = [Slow.of(one) for one in members]
    apart._directions = known._directions
    assert known.program().is_whole
    assert len(apart.program().given_members) == 7
    users = np.arange(on.n_users)
    for ours, theirs in zip(
        (known.taste_parts(users).values, known.taste_parts(users).added, known.score_block(users)),
        (apart.taste_parts(users).values, apart.taste_parts(users).added, apart.score_block(users)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    lists, others = known.recommend(k=8), apart.recommend(k=8)
    one_by_one = pl.concat([known.recommend(user, k=8) for user in on.users.series])
    assert one_by_one.equals(lists)
    np.testing.assert_allclose(lists["score"], others["score"], atol=2e-5)
    assert (lists["item"] == others["item"]).mean() > 0.99  # scores that rounding swaps
    assert (lists["interest"] == others["interest"]).mean() > 0.99
    items = np.array([5, 0, 7])
    np.testing.assert_allclose(known.evidence(3, items), apart.evidence(3, items), atol=1e-5)


def test_a_blend_that_has_changed_is_computed_anew(fitted, data):
    blend = Blend.of([fitted("ease"), SoftmaxMF(dim=8, epochs=4).fit(data)], [0.5, 0.5])
    before, program = blend.recommend("u7", k=5), blend.program()
    assert blend.program() is program
    blend.members_[1].temperature = 0.02
    assert blend.program() is not program
    after = blend.recommend("u7", k=5)
    assert not after["score"].equals(before["score"])
    fresh = Blend.of(blend.members_, [0.5, 0.5]).recommend("u7", k=5)
    assert after.equals(fresh)


def test_scores_of_own_models_and_changed_ones_are_asked_for(fitted, data, caplog):
    class Doubled(SparseEASE):
        """Scores are other ones than the coefficients give."""

        def history_scores(self, histories):
            return 2 * super().history_scores(histories) ** 3

        def score_block(self, users):
            return self.history_scores(self.weighted_train.matrix[users])

    doubled = Doubled().fit(data)
    blend = Blend.of([fitted("cml"), doubled], [0.5, 0.5])
    with caplog.at_level("INFO"):
        blend.recommend("u7", k=5)
        blend.recommend(k=5)
    assert [one.message for one in caplog.records if "Doubled" in one.message] == [
        "scores of Doubled are computed apart from the blend's kernel, which takes longer"
    ]
    users = np.arange(5)
    parts = blend.taste_parts(users)
    np.testing.assert_allclose(parts.totals(), blend.score_block(users), atol=1e-5)
