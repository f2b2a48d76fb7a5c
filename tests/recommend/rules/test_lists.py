"""Lists under rules: the kernel against slow Python, and every verb that gives lists."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace import Rules, _native
from tastespace.recommend.rules import lists as ruled_lists

EMPTY = {kind: np.empty(0, dtype=kind) for kind in ("int64", "int32", "uint8")}


def run_kernel(pool, length, groups=None, most=(), pins=(), is_new=(), share=0.0):
    """One list: its rows, and whether a longer pool could change it. ``groups`` has those of each item."""
    offsets = EMPTY["int64"] if groups is None else np.cumsum([0, *map(len, groups)]).astype(np.int64)
    starts, rows, entries, incomplete = _native.apply_list_rules(
        _native.ItemLists(np.array([0, len(pool)]), np.array(pool, dtype=np.int32)),
        np.array([length], dtype=np.int32),
        _native.ItemGroups(
            offsets=offsets,
            members=np.array([g for one in groups or [] for g in one], dtype=np.int32),
            most=np.array(most, dtype=np.int32),
            allowed=np.ones(len(is_new) or len(groups or range(12)), dtype=np.uint8),
        ),
        _native.PinnedItems(
            _native.ItemLists(np.array([0, len(pins)]), np.array([row for _, row in pins], dtype=np.int32)),
            np.array([place for place, _ in pins], dtype=np.int32),
        ),
        _native.NewItems(np.array(is_new, dtype=np.uint8), share),
        1,
    )
    assert starts.tolist() == [0, len(rows)]
    for row, entry in zip(rows, entries, strict=True):
        assert (row in [pin for _, pin in pins]) if entry < 0 else pool[entry] == row
    return rows.tolist(), bool(incomplete[0])


def needed(share, n, length):
    return math.ceil(share * n - 1e-9) if n == length else math.floor(share * n + 1e-9)


def test_limits_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n, n_groups = 12, 4
        groups = [rng.choice(n_groups, size=rng.integers(0, 3), replace=False).tolist() for _ in range(n)]
        most = rng.integers(1, 4, size=n_groups)
        pool, length = rng.permutation(n)[:9].tolist(), int(rng.integers(1, 9))
        expected, counts = [], np.zeros(n_groups, dtype=int)
        for row in pool:
            if len(expected) < length and all(counts[g] < most[g] for g in groups[row]):
                expected.append(row)
                counts[groups[row]] += 1
        rows, incomplete = run_kernel(pool, length, groups, most)
        assert rows == expected
        others = [row for row in set(range(n)) - set(pool) if all(counts[g] < most[g] for g in groups[row])]
        assert incomplete == (len(expected) < length and len(others) > 0)  # whether a longer pool could help


def test_new_items_move_up_only_as_far_as_they_must():
    rng = np.random.default_rng(1)
    for _ in range(200):
        is_new = rng.random(12) < 0.4
        pool, length, share = rng.permutation(12).tolist(), int(rng.integers(1, 10)), float(rng.random())
        expected, left = [], list(pool)
        while left and len(expected) < length:
            n = len(expected) + 1
            so_far = sum(is_new[row] for row in expected)
            now = needed(share, n, length)
            early = max(needed(share, m, length) - (m - n) for m in range(n, length + 1))  # the last place may need two
            row = next((row for row in left if is_new[row]), left[0]) if so_far < early else left[0]
            if so_far + is_new[row] < now:
                break
            expected.append(row)
            left.remove(row)
        assert run_kernel(pool, length, is_new=is_new, share=share)[0] == expected


def test_share_and_limits_together_find_the_longest_list():
    """New items keep the room in their group that they need: no list is shorter than the longest possible one."""
    rng = np.random.default_rng(2)
    for _ in range(150):
        n, length, share = 6, int(rng.integers(1, 5)), float(rng.choice([0.25, 0.5, 0.75, 1.0]))
        groups, most = [[int(g)] for g in rng.integers(0, 3, size=n)], rng.integers(1, 3, size=3)
        is_new, pool = rng.random(n) < 0.5, rng.permutation(n).tolist()
        rows, _ = run_kernel(pool, length, groups, most, is_new=is_new, share=share)

        def obeys(chosen, length=length, share=share, groups=groups, most=most, is_new=is_new):
            counts = np.bincount([groups[row][0] for row in chosen], minlength=3)
            prefixes = range(1, len(chosen) + 1)
            return (counts <= most).all() and all(
                is_new[list(chosen[:m])].sum() >= needed(share, m, length) for m in prefixes
            )

        assert obeys(rows)
        longest = max(m for m in range(length + 1) if any(map(obeys, itertools.permutations(range(n), m))))
        if longest == length:
            assert len(rows) == length


def test_pins_are_at_their_places_and_use_up_limits():
    pool = [0, 1, 2, 3, 4, 5]
    assert run_kernel(pool, 4, pins=[(1, 5), (3, 9)])[0] == [5, 0, 9, 1]
    assert run_kernel(pool[:2], 6, pins=[(5, 9)]) == ([0, 1, 9], True)  # at the end of a list that is shorter
    groups = [[0] if row in (0, 1, 9) else [] for row in range(10)]
    assert run_kernel(pool, 4, groups, [1], pins=[(4, 9)])[0] == [2, 3, 4, 9]
    is_new = [row == 4 for row in range(10)]
    assert run_kernel(pool, 4, pins=[(1, 8), (2, 9)], is_new=is_new, share=0.25)[0] == [8, 9, 0, 4]
    assert run_kernel(pool, 4, pins=[(3, 8), (4, 9)], is_new=is_new, share=0.25)[0] == [0, 4, 8, 9]  # before the pins


def test_a_list_without_enough_new_items_ends_before_it_breaks_the_share():
    is_new = [row == 4 for row in range(10)]
    assert run_kernel(list(range(10)), 6, is_new=is_new, share=0.5) == (
        [0, 4, 1],
        False,
    )  # no item outside the pool is new
    assert run_kernel(list(range(10)), 10, is_new=is_new, share=0.1)[0] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


# ---- models ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def about(shop_frames):
    """What is known of the items of the shop, and a brand, stock and a date."""
    items = shop_frames[1]
    n = len(items)
    return items.with_columns(
        brand=pl.Series([f"b{row % 7}" if row % 10 else None for row in range(n)]),
        stock=pl.Series([row % 4 for row in range(n)]),
        added=pl.Series([1_700_000_000 - 86_400 * row for row in range(n)]).cast(pl.Int64) * 1_000_000,
    ).with_columns(pl.col("added").cast(pl.Datetime("us")))


APART = {**ts.DPCML.paper_form(), "learning_rate": 0.1}
"""Parameters with which vectors stand apart after a few epochs: a shelf for each."""


@pytest.fixture(scope="module")
def blend(shop):
    members = [ts.DPCML(**APART, dim=8, n_interests=3, epochs=10, threads=1, seed=1), ts.EASE(regularization=20.0)]
    return ts.Blend(members, weights=[0.5, 0.5], threads=1).fit(shop)


@pytest.fixture(scope="module")
def models(shop, blend, about):
    dpcml = ts.DPCML(**APART, dim=8, log_base=2.0, epochs=30, threads=1, seed=1).fit(shop)
    ease = ts.EASE(regularization=20.0, threads=1).fit(shop)
    return {
        name: model.set_item_attributes(about) for name, model in (("dpcml", dpcml), ("blend", blend), ("ease", ease))
    }


MIXES = {
    "plain": {},
    "scaled": {"mix": "scaled"},
    "proportional": {"diversity": 0.5},
    "calibrated": {"mix": "calibrated"},
    "by interest": {"mix": "calibrated", "column": "interest"},
}
HAVE = {"dpcml": list(MIXES), "blend": [m for m in MIXES if m != "scaled"], "ease": ["plain", "calibrated"]}
CASES = [(name, mix) for name, mixes in HAVE.items() for mix in mixes]
RULES = Rules(
    max_per={"brand": 2, "genres": 3}, exclude=["i05", "i06"], in_stock="stock", pinned={2: "i30", 5: "i33"},
    min_new_share=0.3, new_days=30, time="added",
)  # fmt: skip


def by_hand(full, k, about):
    """The list that `RULES` without pins and new items make of a whole ranking."""
    of = {row["item"]: row for row in about.to_dicts()}
    counts, found = {}, []
    for item in full:
        keys = [("brand", of[item]["brand"])] if of[item]["brand"] else []
        keys += [("genres", genre) for genre in of[item]["genres"]]
        allowed = all(counts.get(key, 0) < (2 if key[0] == "brand" else 3) for key in keys)
        if len(found) < k and allowed and of[item]["stock"] > 0 and item not in ("i05", "i06"):
            found.append(item)
            counts.update({key: counts.get(key, 0) + 1 for key in keys})
    return found


@pytest.mark.parametrize(("name", "mix"), CASES)
def test_limits_keep_the_order_of_every_mix(models, about, name, mix):
    model, k = models[name], 8
    rules = Rules(max_per={"brand": 2, "genres": 3}, exclude=["i05", "i06"], in_stock="stock")
    found = model.recommend(k=k, rules=rules, **MIXES[mix])
    plain = model.recommend(k=k, **MIXES[mix])
    assert model.recommend(k=k, rules=Rules(max_per={"brand": 90}), **MIXES[mix]).equals(plain)
    assert found.columns == plain.columns
    stocked = about.filter((pl.col("stock") > 0) & ~pl.col("item").is_in(["i05", "i06"]))["item"].to_list()
    if mix not in ("calibrated", "by interest"):  # whose pool is as long as k says
        whole = model.recommend(k=90, items=stocked, **MIXES[mix])
        for (user,), mine in whole.group_by("user", maintain_order=True):
            assert found.filter(user=user)["item"].to_list() == by_hand(mine["item"].to_list(), k, about)
    joined = found.join(about, on="item")
    assert joined.filter(pl.col("brand").is_not_null()).group_by("user", "brand").len()["len"].max() <= 2
    assert joined.explode("genres").group_by("user", "genres").len()["len"].max() <= 3
    assert (joined["stock"] > 0).all()
    for _, mine in found.group_by("user"):
        assert mine["rank"].to_list() == list(range(1, len(mine) + 1))
    again = model.recommend(k=90, **MIXES[mix])  # score, distance and interest of an item are those of plain lists
    shared = [c for c in found.columns if c != "rank"]
    assert len(found.select(shared).join(again.select(shared), on=shared)) == len(found)


@pytest.mark.parametrize(("name", "mix"), CASES)
def test_all_rules_together(models, shop, about, name, mix):
    model, k = models[name], 10
    found = model.recommend(k=k, rules=RULES, **MIXES[mix]).join(
        about.select("item", "brand", "stock", "added"), on="item", maintain_order="left"
    )
    newest = about["added"].max()
    new = (newest - found["added"]).dt.total_seconds() <= 30 * 86_400
    found = found.with_columns(new=new)
    for (user,), mine in found.group_by("user", maintain_order=True):
        taken = set(shop.items_of(user))
        places = {place: pin for place, pin in {2: "i30", 5: "i33"}.items() if pin not in taken and pin != "i32"}
        for place, pin in places.items():
            if about.row(int(pin[1:]), named=True)["stock"]:
                assert mine["item"][place - 1] == pin
        assert not taken & set(mine["item"])
        if len(mine) == k:
            assert mine["new"].sum() >= 3
        for n in range(1, len(mine) + 1):
            assert mine["new"][:n].sum() >= min(math.floor(0.3 * n + 1e-9), n - len([p for p in places if p <= n]))
    assert (found["stock"] > 0).all()
    assert not {"i05", "i06"} & set(found["item"])


def test_every_verb_gives_the_same_lists(models, shop, tmp_path):
    model = models["dpcml"]
    frame = model.recommend(k=6, rules=RULES)
    model.recommend_to(tmp_path / "lists.parquet", k=6, rules=RULES)
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(frame)
    top, scores = model.recommend_indices(k=6, rules=RULES)
    assert shop.items.take(top[top >= 0]).to_list() == frame["item"].to_list()
    assert scores[top >= 0].tolist() == frame["score"].to_list()
    assert model.recommend(["u003", "u001"], k=6, rules=RULES)["item"].to_list() == [
        *frame.filter(user="u003")["item"], *frame.filter(user="u001")["item"],
    ]  # fmt: skip
    folded = {"zoe": shop.items_of("u003")[:6]}
    for_zoe = model.recommend_for(folded, k=6, rules=RULES)
    assert for_zoe.equals(model.fold_in(folded).recommend("zoe", k=6, rules=RULES))
    assert not for_zoe.equals(model.recommend_for(folded, k=6))
    unknown = model.recommend(["nobody", "u003"], k=6, rules=RULES, on_unknown="popular")
    assert unknown.filter(user="u003")["item"].to_list() == frame.filter(user="u003")["item"].to_list()
    assert unknown.filter(user="nobody")["item"][4] == "i33"  # i30 is pinned too


def test_rules_work_with_candidates_filters_and_mute(models, caplog):
    model = models["dpcml"]
    items = [f"i{row:02d}" for row in range(40)]
    found = model.recommend("u003", k=8, rules=RULES, items=items, filter="year > 1970", exclude_seen=False)
    assert set(found["item"]) <= set(items)
    muted = model.recommend("u003", k=8, rules=Rules(pinned=["i30", "i31", "i33"]), mute=[0], exclude_seen=False)
    assert 0 not in muted["interest"].to_list()
    caplog.clear()
    model.recommend("u003", k=8, rules=Rules(pinned=["i30", "i50"]), items=items)
    assert "pinned items that other rules or the request leave out are not shown: 'i50'" in caplog.text


def test_pins_on_top_move_up_where_one_is_left_out(models, shop):
    model = models["ease"]
    user = shop.users[3]
    taken = shop.items_of(user)[0]
    others = [item for item in shop.items.series if item not in shop.items_of(user)][:2]
    rules = Rules(pinned=[taken, *others])
    assert model.recommend(user, k=4, rules=rules)["item"].to_list()[:2] == others
    assert model.recommend(user, k=4, rules=rules, exclude_seen=False)["item"].to_list()[:3] == [taken, *others]
    placed = Rules(pinned={1: taken, 3: others[0]})
    best = model.recommend(user, k=4)["item"].to_list()
    assert model.recommend(user, k=4, rules=placed)["item"].to_list() == [
        *[item for item in best if item != others[0]][:2], others[0], [item for item in best if item != others[0]][2],
    ]  # fmt: skip


def test_fewer_items_than_k_give_fewer_rows(models):
    model = models["blend"]
    rules = Rules(include=["i01", "i02", "i03", "i04"])
    found = model.recommend(k=10, rules=rules, exclude_seen=False)
    assert found.group_by("user").len()["len"].unique().to_list() == [4]
    one_each = model.recommend("u003", k=90, rules=Rules(max_per={"genres": 1}), exclude_seen=False)
    assert len(one_each) == 6  # categories of the shop


def test_users_who_need_longer_lists_get_them(models, monkeypatch):
    model, rules = models["dpcml"], Rules(max_per={"genres": 1, "brand": 1})
    expected, all_rules = model.recommend(k=6, rules=rules), model.recommend(k=6, rules=RULES)
    for name, value in (("_LONGER", 2), ("_GROWTH", 2), ("_MORE", 1), ("_ENTRIES_AT_ONCE", 40)):
        monkeypatch.setattr(ruled_lists, name, value)
    assert model.recommend(k=6, rules=rules).equals(expected)
    assert model.recommend(k=6, rules=RULES).equals(all_rules)


def test_rules_hold_on_each_shelf(models, about, shop):
    for name in ("dpcml", "blend"):
        model = models[name]
        for user in ("u003", "u010", "u011"):
            plain = model.shelves(user, 6)
            assert model.shelves(user, 6, rules=Rules(max_per={"brand": 90})).to_frame().equals(plain.to_frame())
            rules = Rules(max_per={"brand": 1}, exclude=[plain[0].items[0]], in_stock="stock")
            found = model.shelves(user, 6, rules=rules)
            brands = found.to_frame().join(about, on="item").filter(pl.col("brand").is_not_null())
            assert brands.group_by("shelf", "brand").len()["len"].max() == 1
            assert plain[0].items[0] not in found.to_frame()["item"].to_list()
            pin = next(item for item in plain[1].items if item in found[1].items)
            pinned = model.shelves(user, 6, rules=Rules(pinned=[pin]))
            assert pinned[1].items[0] == pin
            assert pinned[0].items == plain[0].items
            assert pinned[1].scores[0] == plain[1].scores[plain[1].items.index(pin)]
