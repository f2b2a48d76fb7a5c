"""Why an item has its rank, against the lists themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.recommend.toy_models import Given, blend_of, by_vector, in_order, past_rows, space_of, taken

from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.models import EASE, VectorSpace
from tastespace.models import Blend as RealBlend
from tastespace.recommend.rerank.two_stage import Mixed

pytestmark = pytest.mark.usefixtures("one_core")


def without(model, row, vector):
    """The same model, but that one user lacks one vector."""
    space = model.vectors()
    keep = np.ones(len(space.user_vectors), dtype=bool)
    keep[space.user_offsets[row] + vector] = False
    offsets = space.user_offsets - (np.arange(len(space.user_offsets)) > row)
    return Given(VectorSpace(space.user_vectors[keep], offsets, space.item_vectors)).fit(model.train_)


@pytest.mark.parametrize("user", ["u003", "u040", "u117"])
def test_ranks_are_the_places_in_the_lists(dpcml, user):
    row, data = int(user[1:]), dpcml.train_
    whole = dpcml.recommend([user], k=90)
    thinner = {x: without(dpcml, row, x).recommend([user], k=90)["item"].to_list() for x in set(whole["interest"])}
    moved = 0
    for item, rank, distance, interest in whole.select("item", "rank", "distance", "interest").iter_rows():
        found = dpcml.explain(user, item)
        assert (found.user, found.item, found.seen) == (user, item, False)
        assert (found.rank, found.interest) == (rank, interest)
        assert found.distance == -found.score == pytest.approx(distance, abs=1e-6)
        assert found.rank_without == thinner[interest].index(item) + 1
        moved += found.rank_without != rank
    assert moved > 10
    assert len(whole) == 90 - len(past_rows(data, row))


def test_what_a_user_has_is_ranked_among_what_is_new(dpcml):
    row, data = 3, dpcml.train_
    past = past_rows(data, row)
    best = by_vector(dpcml.vectors(), row).max(axis=0)
    for item in data.items_of("u003"):
        found = dpcml.explain("u003", item)
        place = data.items.index_of([item])[0]
        assert found.seen
        assert found.rank == 1 + sum(best[other] > best[place] for other in range(90) if other not in past)
        assert item not in [one for one, _, _ in found.beside]  # it does not stand beside itself
        assert "The user already has it." in str(found)
    assert "already has it" not in str(dpcml.explain("u003", dpcml.recommend("u003", k=1)["item"][0]))


def test_past_items_beside_it_are_the_nearest_first(dpcml):
    data, vectors = dpcml.train_, dpcml.item_vectors_.astype(np.float64)
    for item in ("i05", "i41", "i77"):
        place = data.items.index_of([item])[0]
        gaps = {other: ((vectors[place] - vectors[other]) ** 2).sum() for other in past_rows(data, 3) if other != place}
        expected = sorted(gaps, key=gaps.get)
        for k in (1, 5, 90):
            beside = dpcml.explain("u003", item, k=k).beside
            assert [one for one, _, _ in beside] == data.items.take(np.array(expected[:k])).to_list()
            assert [gap for _, _, gap in beside] == pytest.approx([gaps[other] for other in expected[:k]], abs=1e-5)
            titles = dict(data.item_attributes.select("item", "title").iter_rows())
            assert [title for _, title, _ in beside] == [titles[one] for one, _, _ in beside]


def test_an_explanation_is_plain_values(dpcml):
    found = dpcml.explain("u003", "i41", k=2)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == found.to_dict()
    assert set(plain) == {
        *("user", "item", "title", "seen", "interest", "name", "score", "distance", "rank", "rank_without", "beside"),
        "because", "tastes",
    }  # fmt: skip
    assert [set(one) for one in plain["beside"]] == [{"item", "title", "distance"}] * 2
    assert plain["beside"][0] == dict(zip(("item", "title", "distance"), found.beside[0], strict=True))


def test_an_explanation_in_words(dpcml, shop):
    found = dpcml.explain("u003", "i41")
    title = dict(shop.item_attributes.select("item", "title").iter_rows())["i41"]
    text = str(found)
    assert text.startswith(f"{title} for u003: rank {found.rank}, matches interest {found.interest}")
    assert f"squared distance {found.distance:.3f}" in text
    assert f"Without that interest it would be rank {found.rank_without}." in text
    assert f"Beside it: {found.beside[0][1]}, " in text
    names = dict(dpcml.interests("u003").select("interest", "name").iter_rows())
    assert found.name == names[found.interest]


def test_the_only_interest_cannot_be_taken_away(cml):
    found = cml.explain("u003", cml.recommend("u003", k=4)["item"][3])
    assert found.rank == 4
    assert found.rank_without is None
    assert "Without" not in str(found)


def test_inner_products_have_no_distance():
    space = space_of([[[1, 0], [0, 1]], [[1, 1]]], [[2, 0], [0, 2], [4, 0], [3, 3]], "dot", [0, 0, 0, 1])
    found = Given(space).fit(taken({"ann": "ab", "bob": "a"}, "abcd")).explain("ann", "d")
    assert (found.score, found.distance, found.interest) == (4, None, 0)
    assert (found.rank, found.rank_without) == (2, 1)  # c has 4 as well and comes first; without interest 0, 4 > 0
    assert [(one, gap) for one, _, gap in found.beside] == [
        ("a", pytest.approx(-(0.5**0.5))),
        ("b", pytest.approx(-(0.5**0.5))),
    ]
    assert "score 4.000" in str(found)


def test_a_user_without_other_items_has_nothing_beside():
    model = Given(space_of([[[0.0]], [[1.0]]], [[0.0], [1.0], [2.0]])).fit(taken({"ann": "a", "bob": "bc"}, "abc"))
    found = model.explain("ann", "a")
    assert found.beside == []
    assert found.rank == 1
    assert "Beside it" not in str(found)


def test_bad_arguments_are_refused(dpcml):
    with pytest.raises(UnknownIdError, match=r"the first is 'I41'.*Did you mean i41"):
        dpcml.explain("u003", "I41")
    with pytest.raises(UnknownIdError, match="the first is 'nobody'"):
        dpcml.explain("nobody", "i41")
    with pytest.raises(ParameterError, match="expected one id, given list of 2"):
        dpcml.explain("u003", ["i41", "i42"])
    with pytest.raises(ParameterError, match="k=0"):
        dpcml.explain("u003", "i41", k=0)
    with pytest.raises(DataError, match=r"no attribute 'genre'.*Did you mean genres"):
        dpcml.explain("u003", "i41", column="genre")


# ---- past items that raise the score -----------------------------------------------------------------------------


def test_without_vectors_the_past_items_explain(ease, shop):
    """Shares are those of x_ui B_ij > 0, computed from the weights themselves."""
    weights, titles = ease.weights_.astype(np.float64), dict(shop.item_attributes.select("item", "title").iter_rows())
    for place, item in enumerate(ease.recommend("u003", k=90)["item"]):
        found = ease.explain("u003", item, k=3)
        assert (found.rank, found.seen, found.beside) == (place + 1, False, [])
        assert (found.interest, found.name, found.distance, found.rank_without) == (None, None, None, None)
        column = weights[:, shop.items.index_of([item])[0]]
        raising = {row: column[row] for row in past_rows(shop, 3) if column[row] > 0}
        expected = sorted(raising, key=raising.get, reverse=True)[:3]
        assert [one for one, _, _ in found.because] == shop.items.take(np.array(expected, dtype=int)).to_list()
        assert [title for _, title, _ in found.because] == [titles[one] for one, _, _ in found.because]
        shares = [raising[row] / sum(raising.values()) for row in expected]
        assert [share for _, _, share in found.because] == pytest.approx(shares, abs=1e-5)
    best = ease.recommend("u003", k=1)["item"][0]
    assert sum(share for _, _, share in ease.explain("u003", best, k=90).because) == pytest.approx(1.0)


def test_past_items_in_words_and_as_plain_values(ease):
    found = ease.explain("u003", ease.recommend("u003", k=1)["item"][0], k=2)
    (_, first, large), (_, second, small) = found.because
    assert str(found) == (
        f"{found.title} for u003: rank 1, score {found.score:.3f}.\n"
        f"Because of {first} ({100 * large:.0f} %), {second} ({100 * small:.0f} %)."
    )
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == found.to_dict()
    assert plain["because"][0] == dict(zip(("item", "title", "share"), found.because[0], strict=True))
    assert plain["interest"] is plain["distance"] is plain["rank_without"] is None


def test_an_item_adds_nothing_to_its_own_score(ease, shop):
    for item in shop.items_of("u003")[:4]:
        found = ease.explain("u003", item, k=90)
        assert found.seen
        assert item not in [one for one, _, _ in found.because]


def test_no_past_item_is_named_where_all_of_them_lower_the_score():
    class Lowering(Given):
        def evidence(self, user, items):
            return np.array([[-1.0], [0.0]], dtype=np.float32)

    model = Lowering(scores=np.zeros((2, 3), dtype=np.float32), several=False).fit(
        taken({"ann": "ab", "bob": "c"}, "abc")
    )
    found = model.explain("ann", "c")
    assert found.because == []
    assert "Because" not in str(found)
    assert found.rank == 1


def test_a_user_without_a_past_has_no_explanations():
    data = taken({"ann": "ab", "bob": "bc", "cid": "a"}, "abc")
    model = EASE(threads=1).fit(data.subset(np.arange(data.n_interactions) < 4))
    with pytest.raises(UnknownIdError, match="'cid': cold-start users"):
        model.explain("cid", "b")


@pytest.fixture(scope="module")
def blend(dpcml, ease):
    return RealBlend.of([dpcml, ease], [0.6, 0.4], threads=1)


@pytest.mark.parametrize("user", ["u003", "u040"])
def test_tastes_and_past_items_of_a_blend_add_up_to_100_percent(blend, ease, shop, user):
    row, names = int(user[1:]), dict(blend.interests(user).select("interest", "name").iter_rows())
    parts, taste_of = blend.taste_parts(np.array([row])), blend.tastes().of_user(row)
    weights, past = ease.weights_.astype(np.float64), past_rows(shop, row)
    listed = blend.recommend(user, k=90)
    for item, rank, interest in listed.select("item", "rank", "interest").iter_rows():
        found, at = blend.explain(user, item, k=90), int(shop.items.index_of([item])[0])
        said = np.maximum(parts.values[:, at].astype(np.float64), 0)
        assert (found.rank, found.interest, found.distance, found.beside) == (rank, interest, None, [])
        assert found.interest == parts.values[:, at].argmax()
        assert found.name == names[found.interest]
        if not said.any():
            assert [one[0] for one in found.tastes] == [found.interest]
            continue
        order = sorted(np.flatnonzero(said), key=lambda x: -said[x])
        assert [(x, name) for x, name, _ in found.tastes] == [(x, names[x]) for x in order]
        assert [share for _, _, share in found.tastes] == pytest.approx(said[order] / said.sum(), abs=1e-6)
        assert sum(share for _, _, share in found.tastes) == pytest.approx(1.0)
        own = {i: weights[i, at] for i, x in zip(past, taste_of, strict=True) if x == interest and weights[i, at] > 0}
        expected = sorted(own, key=own.get, reverse=True)
        assert [one for one, _, _ in found.because] == shop.items.take(np.array(expected, dtype=int)).to_list()
        shares = [found.tastes[0][2] * own[i] / sum(own.values()) for i in expected]
        assert [share for _, _, share in found.because] == pytest.approx(shares, abs=1e-5)


def test_a_blend_in_words_and_as_plain_values(blend):
    found = blend.explain("u003", blend.recommend("u003", k=1)["item"][0], k=2)
    shown = ", ".join(f"{100 * share:.0f} % {name}" for _, name, share in found.tastes if share >= 0.005)
    assert str(found) == (
        f"{found.title} for u003: rank 1, tastes: {shown}, score {found.score:.3f}.\n"
        f"Without the taste {found.name} it would be rank {found.rank_without}.\n"
        f"Because of {', '.join(f'{title} ({100 * share:.0f} %)' for _, title, share in found.because)}."
    )
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == found.to_dict()
    assert plain["tastes"][0] == dict(zip(("interest", "name", "share"), found.tastes[0], strict=True))
    mixed = Mixed(blend).explain("u003", found.item, k=2)
    assert (mixed.because, mixed.tastes, mixed.name) == (found.because, found.tastes, found.name)


def test_new_users_have_past_items_too(ease):
    new = ease.fold_in({"zoe": ["i05", "i41", "i77"]})
    found = new.explain("zoe", new.recommend("zoe", k=1)["item"][0])
    assert {one for one, _, _ in found.because} <= {"i05", "i41", "i77"}
    assert found.because


def test_models_with_neither_say_so(popular):
    with pytest.raises(ParameterError, match=r"MostPopular has no explanations: .*no vectors.*no sums over past items"):
        popular.explain("u003", "i41")


def test_ranks_in_a_blend_come_from_its_own_scores(dpcml):
    blend = blend_of(dpcml, scale=0.3)
    data, row = blend.train_, 3
    by_interest = by_vector(blend.space, row)
    unseen = sorted(set(range(90)) - set(past_rows(data, row)))
    own = by_interest.max(axis=0) + blend.table[row]
    order = in_order(own, unseen, 90)
    for place, item in enumerate(order[:20]):
        found = blend.explain("u003", data.items[item])
        nearest = int(by_interest[:, item].argmax())
        others = np.delete(by_interest, nearest, axis=0).max(axis=0) + blend.table[row]
        assert (found.rank, found.interest) == (place + 1, nearest)
        assert found.rank_without == in_order(others, unseen, 90).index(item) + 1
        assert found.score == pytest.approx(own[item], abs=1e-5)
        assert found.distance == pytest.approx(-by_interest[nearest, item], abs=1e-5)
        assert f"score {found.score:.3f}, squared distance {found.distance:.3f}" in str(found)
