"""A user's interests and the shelves that match them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.recommend.toy_models import Given, blend_of, by_vector, in_order, past_rows, space_of, taken

from tastespace import CML
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.models import VectorSpace
from tastespace.recommend.wording import ENGLISH, Wording

pytestmark = pytest.mark.usefixtures("one_core")

USERS = [f"u{number:03d}" for number in range(0, 120, 8)]


def rows_of(data, items):
    return data.items.index_of(items).tolist()


def titles_of(data, items):
    title = dict(data.item_attributes.select("item", "title").iter_rows())
    return [title[item] for item in items]


def unseen(data, row):
    return sorted(set(range(data.n_items)) - set(past_rows(data, row)))


# ---- a street of three quarters, by hand -------------------------------------------------------------------
# 30 tea shops around x = 0, 30 book shops around x = 100, 30 pubs around x = 200; the k-th of each lies k / 8 from the
# middle. Ann took six teas, three books and one pint.

STREET = [f"{kind}{number:02d}" for kind in ("book", "pub", "tea") for number in range(30)]
PLACES = [[center + number / 8] for center in (100, 200, 0) for number in range(30)]
PAST = ["tea00", "tea01", "tea02", "tea03", "tea04", "tea05", "book00", "book03", "book06", "pub00"]


def street(ann, past=PAST, **rest):
    """A model in which Ann has the given vectors on the line."""
    model = Given(space_of([[[x] for x in ann], [[0]]], PLACES))
    return model.fit(taken({"ann": past, "bob": ["tea00", "tea29"]}, STREET, **rest))


@pytest.fixture
def ann():
    return street([0, 100, 200])


def test_one_shelf_for_each_interest_the_strongest_first(ann):
    shelves = ann.shelves("ann", k=3)
    assert len(shelves) == 3
    assert [shelf.items for shelf in shelves] == [
        ["tea06", "tea07", "tea08"],
        ["book01", "book02", "book04"],
        ["pub01", "pub02", "pub03"],
    ]
    assert [shelf.interest for shelf in shelves] == [0, 1, 2]
    assert [shelf.interests for shelf in shelves] == [(0,), (1,), (2,)]
    assert [shelf.weight for shelf in shelves] == pytest.approx([0.6, 0.3, 0.1])
    assert shelves[0].scores == [-0.5625, -0.765625, -1.0]
    assert [shelf.because for shelf in shelves] == [
        ["tea00", "tea01", "tea02"],
        ["book00", "book03", "book06"],
        ["pub00"],
    ]
    assert shelves.user == "ann"


def test_without_attributes_a_shelf_is_named_after_what_it_grew_from(ann):
    shelves = ann.shelves("ann", k=2)
    assert [shelf.label for shelf in shelves] == [None, None, None]
    assert [shelf.name for shelf in shelves] == [
        "like tea00 and tea01", "like book00 and book03", "like pub00",
    ]  # fmt: skip
    assert str(shelves) == (
        "shelves of ann\n"
        "  like tea00 and tea01 (60 %): tea06, tea07\n"
        "  like book00 and book03 (30 %): book01, book02\n"
        "  like pub00 (10 %): pub01, pub02"
    )


@pytest.mark.parametrize("kinds", ["lists", "text"])
def test_attributes_name_shelves(kinds):
    names = [["books", "shops"], ["pubs"], ["teas", "shops"]]
    column = [name if kinds == "lists" else "|".join(name) for name in names for _ in range(30)]
    attributes = pl.DataFrame({"item": STREET, "title": [f"The {item}" for item in STREET], "what": column})
    model = street([0, 100, 200], item_attributes=attributes)
    shelves = model.shelves("ann", k=2)
    labels = ["teas", "books", "pubs"]
    assert [shelf.label for shelf in shelves] == labels
    assert [shelf.name for shelf in shelves] == labels
    assert shelves[0].titles == ["The tea06", "The tea07"]
    assert shelves[0].because_titles[:2] == ["The tea00", "The tea01"]
    assert str(shelves[0]) == "teas (60 %): The tea06, The tea07"
    assert model.interests("ann")["name"].to_list() == labels
    with pytest.raises(DataError, match=r"no attribute 'whta'.*Did you mean what"):
        model.shelves("ann", column="whta")


def test_a_name_fits_the_best_items_and_names_differ():
    """Teas and pubs are drinks, which names one of them; all books but one are books."""
    words = {"book": ["books"], "pub": ["drinks"], "tea": ["drinks"]}
    column = [words[item[:-2]] if item != "book01" else ["maps"] for item in STREET]
    attributes = pl.DataFrame({"item": STREET, "what": column})
    shelves = street([0, 100, 200], item_attributes=attributes).shelves("ann", k=4)
    assert [shelf.label for shelf in shelves] == ["drinks", "books", None]  # book01, 02, 04, 05
    assert [shelf.name for shelf in shelves] == ["drinks", "books", "like pub00"]


@pytest.mark.parametrize(("maps", "label"), [(2, "books"), (3, None)])
def test_a_name_fits_the_heads_of_shelves_and_is_the_same_for_every_length(maps, label):
    """Of the first five new books, 01, 02, 04, 05 and 07, more than half must be books."""
    others = ["book01", "book02", "book04"][:maps]
    words = {"book": ["books"], "pub": ["pints"], "tea": ["teas"]}
    column = [["maps"] if item in others else words[item[:-2]] for item in STREET]
    model = street([0, 100, 200], item_attributes=pl.DataFrame({"item": STREET, "what": column}))
    name = label or "like book00 and book03"
    for k in (1, 3, 5, 8, 20):
        shelves = model.shelves("ann", k=k)
        assert [shelf.label for shelf in shelves] == ["teas", label, "pints"]
        assert [shelf.name for shelf in shelves] == ["teas", name, "pints"]
    assert model.shelves("ann", filter="item LIKE '%1'")[1].name == name
    assert model.interests("ann")["name"].to_list() == ["teas", name, "pints"]
    assert model.explain("ann", "book05").name == name


def test_shelves_from_past_items_of_the_same_titles_have_different_names():
    attributes = pl.DataFrame({"item": STREET, "title": ["Twin" if item.endswith("00") else item for item in STREET]})
    model = street([0, 100, 200], past=["tea00", "book00", "pub00", "pub01"], item_attributes=attributes)
    names = [shelf.name for shelf in model.shelves("ann", k=3)]
    assert sorted(names) == [
        "like Twin (book00)", "like Twin (tea00)", "like Twin and pub01",
    ]  # fmt: skip


def test_names_from_past_items_in_other_words(ann):
    wording = {**ENGLISH, "name_two": "wegen {first} und {second}", "name_one": "wegen {first}"}
    names = [shelf.name for shelf in ann.shelves("ann", wording=wording)]
    assert names == ["wegen tea00 und tea01", "wegen book00 und book03", "wegen pub00"]
    with pytest.raises(ParameterError, match=r"lacks the placeholder \{first\}"):
        ann.shelves("ann", wording={**ENGLISH, "name_one": "wegen"})


def test_near_duplicates_share_a_shelf_unless_told_not_to():
    past = ["tea00", "tea04", "tea08", "tea12", "tea16", "tea20", "book00", "book01", "book02", "pub00"]
    model = street([0.625, 1.875, 100], past=past)  # three teas are nearer to the first, three to the second
    for merge in (0.8, 0.9, 0.3):
        shelves = model.shelves("ann", k=4, merge=merge)
        assert [shelf.interests for shelf in shelves] == [(0, 1), (2,)]  # together they are the strongest
        assert shelves[0].interest == 0
        assert shelves[0].weight == pytest.approx(0.6)
        assert shelves[0].items == ["tea05", "tea15", "tea06", "tea14"]
    apart = model.shelves("ann", k=4, merge=1.5)
    assert [shelf.interests for shelf in apart] == [(2,), (0,), (1,)]
    assert apart[1].items == ["tea05", "tea06", "tea03", "tea07"]
    assert apart[2].items == ["tea15", "tea14", "tea13", "tea17"]
    assert [shelf.weight for shelf in apart] == pytest.approx([0.4, 0.3, 0.3])


def test_interests_share_a_shelf_from_the_given_overlap_on():
    model = street([0, 101.4, 102.025, 200], past=["tea00", "book11", "book16", "pub00"])
    scores, rows = by_vector(model.space, 0), unseen(model.train_, 0)
    near = [set(in_order(scores[x], rows, 20)) for x in (1, 2)]  # books 1 to 22 but for two, and 6 to 27
    overlap = len(near[0] & near[1]) / 20
    assert overlap == 0.75
    shared = model.shelves("ann", merge=overlap)
    apart = model.shelves("ann", merge=overlap + 0.01)
    assert (1, 2) in [shelf.interests for shelf in shared]
    assert {(1,), (2,)} <= {shelf.interests for shelf in apart}


@pytest.mark.parametrize("merge", [0.8, 1.5])
def test_an_interest_that_no_past_item_belongs_to_joins_another(merge):
    equal = street([0, 100, 100])
    assert [shelf.interests for shelf in equal.shelves("ann", merge=merge)] == [(0,), (1, 2)]
    assert equal.interests("ann")["weight"].to_list() == pytest.approx([0.6, 0.4, 0.0])
    lonely = street([0, 100, 1000], past=PAST[:-1])
    shelves = lonely.shelves("ann", k=60, merge=merge)
    assert sorted(x for shelf in shelves for x in shelf.interests) == [0, 1, 2]
    assert len(shelves) == 2
    assert [shelf.interests for shelf in shelves] == [(0,), (1, 2)]  # books are nearer to it than teas
    assert set(shelves[1].items) >= {f"pub{number:02d}" for number in range(30)}


def test_items_of_a_muted_interest_are_on_no_shelf(ann):
    assert [shelf.interest for shelf in ann.shelves("ann", mute=[0])] == [1, 2]
    for mute in ([1], (1,), {1}, 1, np.int64(1), np.array([1])):
        shelves = ann.shelves("ann", k=90, mute=mute)
        assert [shelf.interests for shelf in shelves] == [(0,), (2,)]
        assert set(shelves[0].items) == {f"tea{n:02d}" for n in range(6, 30)}
        assert set(shelves[1].items) == {f"pub{n:02d}" for n in range(1, 30)}
    (only,) = ann.shelves("ann", k=90, mute=[0, 1])
    assert only.items == [f"pub{n:02d}" for n in range(1, 30)]


def test_boosting_lengthens_a_shelf_and_moves_it_up(ann):
    plain = ann.shelves("ann", k=4)
    assert [(shelf.interest, len(shelf.items)) for shelf in plain] == [(0, 4), (1, 4), (2, 4)]
    boosted = ann.shelves("ann", k=4, boost={1: 2.5})
    assert [(shelf.interest, len(shelf.items)) for shelf in boosted] == [(1, 10), (0, 4), (2, 4)]
    assert boosted[0].weight == pytest.approx(0.3)  # what is past stays as it was
    assert boosted[0].items[:4] == plain[1].items
    little = ann.shelves("ann", k=4, boost={1: 1.5})
    assert [(shelf.interest, len(shelf.items)) for shelf in little] == [(0, 4), (1, 6), (2, 4)]
    less = ann.shelves("ann", k=4, boost={0: 0.1})  # never less than one item
    assert [(shelf.interest, len(shelf.items)) for shelf in less] == [(1, 4), (2, 4), (0, 1)]


def test_every_interest_may_have_its_own_length(ann):
    shelves = ann.shelves("ann", k={0: 12, 2: 4})
    assert [(shelf.interest, len(shelf.items)) for shelf in shelves] == [(0, 12), (1, 10), (2, 4)]


def test_filters_hold_on_shelves(ann):
    shelves = ann.shelves("ann", k=90, filter="item LIKE '%7' OR item = 'tea00'")
    assert [shelf.items for shelf in shelves] == [
        ["tea07", "tea17", "tea27"],
        ["book07", "book17", "book27"],
        ["pub07", "pub17", "pub27"],
    ]
    assert [shelf.items for shelf in ann.shelves("ann", items=["tea00", "pub07"])] == [["pub07"]]
    seen = ann.shelves("ann", items=["tea00", "pub07"], exclude_seen=False)
    assert [shelf.items for shelf in seen] == [["tea00"], ["pub07"]]


def test_who_has_everything_has_no_shelves():
    model = street([0, 100, 200], past=STREET)
    shelves = model.shelves("ann")
    assert len(shelves) == 0
    assert len(shelves.to_frame()) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mute": [3]}, "interest 3 was named, but this user has the interests 0 to 2; model.interests"),
        ({"mute": "0"}, "interest '0' was named"),
        ({"boost": {7: 2}}, "interest 7 was named"),
        ({"boost": {-1: 2}}, "interest -1 was named"),
        ({"k": {5: 2}}, "interest 5 was named"),
        ({"k": {-1: 2}}, "interest -1 was named"),
        ({"k": {0: 0}}, "k=0: expected a number of items"),
        ({"k": 0}, "k=0: expected a number of items"),
        ({"boost": {0: 0}}, r"boost=\{0: 0\}: expected positive factors; mute= leaves an interest out"),
        ({"boost": {0: -1.5}}, "expected positive factors"),
        ({"boost": {0: float("nan")}}, "expected positive factors"),
        ({"boost": {0: "much"}}, "expected positive factors"),
        ({"merge": 0}, "merge=0: expected the overlap"),
        ({"merge": float("nan")}, "merge=nan: expected the overlap"),
    ],
)
def test_bad_arguments_are_refused(ann, arguments, message):
    with pytest.raises(ParameterError, match=message):
        ann.shelves("ann", **arguments)


def test_nothing_is_left_when_all_is_muted(ann):
    with pytest.raises(DataError, match="all 3 interests are muted: nothing is left to recommend"):
        ann.shelves("ann", mute=[0, 1, 2])


def test_shelves_of_an_unknown_user(ann):
    with pytest.raises(UnknownIdError, match=r"the first is 'anna'.*Did you mean ann"):
        ann.shelves("anna")


def test_shelves_as_a_frame(ann):
    frame = ann.shelves("ann", k={0: 2, 1: 1, 2: 1}).to_frame()
    assert frame.select("user", "shelf", "interest", "name", "item", "rank").rows() == [
        ("ann", 1, 0, "like tea00 and tea01", "tea06", 1),
        ("ann", 1, 0, "like tea00 and tea01", "tea07", 2),
        ("ann", 2, 1, "like book00 and book03", "book01", 1),
        ("ann", 3, 2, "like pub00", "pub01", 1),
    ]
    assert frame["weight"].to_list() == pytest.approx([0.6, 0.6, 0.3, 0.1])
    assert frame["score"].to_list() == [-0.5625, -0.765625, -0.015625, -0.015625]
    assert (frame["distance"] == -frame["score"]).all()


def test_shelves_of_inner_products_have_no_distance():
    space = space_of([[[1, 0], [0, 1]], [[1, 1]]], [[1, 0], [0, 1], [3, 1], [1, 2]], "dot", [0, 0, 0, 5])
    model = Given(space).fit(taken({"ann": "ab", "bob": "a"}, "abcd"))
    frame = model.shelves("ann", merge=1.5).to_frame()
    assert frame.columns == ["user", "shelf", "interest", "weight", "name", "item", "rank", "score"]
    assert frame.select("interest", "item", "score").rows() == [(0, "c", 3), (1, "d", 7)]


def test_shelves_in_pandas(pandas_shop):
    model = CML(dim=4, epochs=2, threads=1).fit(pandas_shop)
    frame = model.shelves("u003", k=4).to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["item"].tolist() == model.recommend(["u003"], k=4)["item"].tolist()
    assert isinstance(model.interests("u003"), pd.DataFrame)


# ---- learned vectors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"merge": 1.5}, {"mute": [0]}, {"merge": 0.7, "mute": [1], "boost": {2: 3}}])
def test_every_item_is_on_the_one_shelf_it_is_nearest_to(dpcml, arguments):
    data, n_shelves = dpcml.train_, 0
    for user in USERS:
        row = int(user[1:])
        scores = by_vector(dpcml.vectors(), row)
        shelves = dpcml.shelves(user, k=90, **arguments)
        listed = [item for shelf in shelves for item in rows_of(data, shelf.items)]
        muted = set(arguments.get("mute", ()))
        assert sorted(listed) == [item for item in unseen(data, row) if scores[:, item].argmax() not in muted]
        groups = [list(shelf.interests) for shelf in shelves]
        assert not muted & {x for group in groups for x in group}
        for shelf, group in zip(shelves, groups, strict=True):
            mine = rows_of(data, shelf.items)
            best = scores[group].max(axis=0)[mine]
            for other in groups:
                assert (best >= scores[other].max(axis=0)[mine] - 1e-5).all()
            assert (np.diff(best) <= 1e-5).all()
            np.testing.assert_allclose(shelf.scores, best, atol=1e-5)
        n_shelves += len(shelves)
    assert n_shelves > len(USERS)  # there is more than one shelf to choose from


def test_shelves_are_ordered_by_weight_and_cover_the_past(dpcml):
    for user in USERS:
        shelves = dpcml.shelves(user, merge=1.5)
        weights = [shelf.weight for shelf in shelves]
        assert weights == sorted(weights, reverse=True)
        interests = dpcml.interests(user)
        own = dict(zip(interests["interest"], interests["weight"], strict=True))
        assert sum(own.values()) == pytest.approx(1)
        for shelf in shelves:
            assert shelf.weight == pytest.approx(sum(own[one] for one in shelf.interests))
        # An interest has no shelf where all items are nearer to others.
        without = set(own) - {one for shelf in shelves for one in shelf.interests}
        assert without.isdisjoint(dpcml.recommend([user], k=90)["interest"])


def test_the_heads_of_all_shelves_are_the_head_of_the_list(dpcml):
    """The best item for a user leads the shelf of the interest that it matches."""
    for user in USERS:
        best = dpcml.recommend([user], k=1)
        shelf = next(s for s in dpcml.shelves(user) if best["interest"][0] in s.interests)
        assert shelf.items[0] == best["item"][0]


def test_one_vector_gives_one_shelf(cml):
    (shelf,) = cml.shelves("u003", k=6)
    assert shelf.items == cml.recommend(["u003"], k=6)["item"].to_list()
    assert shelf.weight == 1


# ---- interests ---------------------------------------------------------------------------------------------


def test_interests_tell_what_belongs_to_each_vector(dpcml):
    data = dpcml.train_
    for user in USERS:
        row = int(user[1:])
        scores = by_vector(dpcml.vectors(), row)
        frame = dpcml.interests(user, k=90)
        assert sorted(frame["interest"]) == list(range(len(scores)))
        assert frame["weight"].sum() == pytest.approx(1)
        assert (frame["weight"].diff().drop_nulls() <= 0).all()
        for interest, weight, past, nearest in frame.select("interest", "weight", "past", "nearest").iter_rows():
            mine = [item for item in past_rows(data, row) if scores[:, item].argmax() == interest]
            assert rows_of(data, past) == in_order(scores[interest], mine, 90)
            assert weight == pytest.approx(len(mine) / len(past_rows(data, row)))
            assert rows_of(data, nearest) == in_order(scores[interest], unseen(data, row), 90)
        short = dpcml.interests(user, k=2)
        assert short["past"].to_list() == [past[:2] for past in frame["past"].to_list()]
        assert short["nearest"].to_list() == [nearest[:2] for nearest in frame["nearest"].to_list()]


def test_interests_have_columns_and_labels(dpcml, shop):
    frame = dpcml.interests("u003")
    assert frame.columns == ["interest", "weight", "name", "past", "nearest"]
    genres = set(shop.item_attributes["genres"].explode())
    assert frame["name"].n_unique() == len(frame)
    for name, past in frame.select("name", "past").iter_rows():
        assert set(name.split(", ")) <= genres or name == Wording().interest_name(titles_of(shop, past[:2]))
    with pytest.raises(DataError, match=r"no attribute 'genre'.*Did you mean genres"):
        dpcml.interests("u003", column="genre")
    with pytest.raises(ParameterError, match="k=0"):
        dpcml.interests("u003", k=0)


def test_the_order_of_a_users_vectors_does_not_matter(dpcml):
    space, data = dpcml.vectors(), dpcml.train_
    first, last = space.user_offsets[3:5]
    turned = space.user_vectors.copy()
    turned[first:last] = turned[first:last][::-1]
    model = Given(VectorSpace(turned, space.user_offsets, space.item_vectors)).fit(data)
    for merge in (0.8, 1.5):
        one, other = (m.shelves("u003", merge=merge) for m in (dpcml, model))
        assert sorted(shelf.items for shelf in one) == sorted(shelf.items for shelf in other)


# ---- models that rank by other scores than their vectors ---------------------------------------------------


@pytest.mark.parametrize("mute", [(), [0]])
def test_shelves_of_a_blend_are_its_own_list_split_by_the_nearest_interest(dpcml, mute):
    blend = blend_of(dpcml)
    data, moved = blend.train_, 0
    for user in USERS[:6]:
        row = int(user[1:])
        by_interest = by_vector(blend.space, row)
        scores = (by_interest.max(axis=0) + blend.table[row]).astype(np.float32)
        nearest = by_interest.argmax(axis=0)
        shelves = blend.shelves(user, k=7, mute=mute)
        for shelf in shelves:
            mine = [item for item in unseen(data, row) if nearest[item] in shelf.interests]
            assert rows_of(data, shelf.items) == in_order(scores, mine, 7)
            np.testing.assert_allclose(shelf.scores, scores[rows_of(data, shelf.items)], atol=1e-5)
            np.testing.assert_allclose(shelf.distances, -by_interest.max(axis=0)[rows_of(data, shelf.items)], atol=1e-5)
        assert not set(mute) & {x for shelf in shelves for x in shelf.interests}
        frame = shelves.to_frame()
        assert frame["distance"].to_list() == [one for shelf in shelves for one in shelf.distances]
        moved += [shelf.items for shelf in shelves] != [shelf.items for shelf in dpcml.shelves(user, k=7, mute=mute)]
    assert moved == 6


def test_interests_of_a_blend_are_those_of_its_vectors(dpcml):
    for user in USERS[:4]:
        assert blend_of(dpcml).interests(user).drop("name").equals(dpcml.interests(user).drop("name"))
