"""Rules as data: what is accepted, files, and rules that contradict each other."""

from __future__ import annotations

import copy
import pickle
from datetime import date, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest

from tastespace import Rules
from tastespace.errors import ParameterError
from tastespace.recommend.rules.rules import seconds


def test_what_is_given_becomes_plain_data():
    rules = Rules(
        max_per={"brand": np.int64(2)}, exclude={"a"}, include=pl.Series(["b", "c"]), in_stock=np.array([1, 2]),
        pinned={3: "c", 1: "b"},
    )  # fmt: skip
    assert (rules.exclude, rules.include, rules.in_stock) == (("a",), ("b", "c"), (1, 2))
    assert list(rules.places.items()) == [(1, "b"), (3, "c")]
    assert not rules.pins_are_on_top
    assert Rules(pinned=["b", "c"]).places == {1: "b", 2: "c"}
    assert pickle.loads(pickle.dumps(rules)) == copy.deepcopy(rules) == rules
    with pytest.raises(AttributeError):
        rules.exclude = ()
    assert Rules(exclude=["1"], pinned={2: "7"}, in_stock="stock").with_ids(lambda ids: list(map(int, ids))) == Rules(
        exclude=[1], pinned={2: 7}, in_stock="stock"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_per": ["brand"]}, r"max_per=\['brand'\]: expected limits by attribute"),
        ({"max_per": {"brand": 0}}, "1 or more, such as.*exclude leaves items out"),
        ({"max_per": {"brand": True}}, "whole number"),
        ({"exclude": "i1"}, r"exclude='i1': expected a list of item ids, such as"),
        ({"include": 3}, "include=3: expected a list of item ids"),
        ({"in_stock": 3}, "expected a list of item ids or an item attribute"),
        ({"exclude": [["a"]]}, r"exclude has \['a'\] among its item ids"),
        ({"exclude": [None]}, "exclude has None among"),
        ({"include": []}, "include is empty: nothing may be recommended"),
        ({"pinned": {0: "a"}}, "pinned names the place 0: expected whole numbers from 1"),
        ({"pinned": {"x": "a"}}, "pinned names the place 'x'"),
        ({"pinned": ["a", "b", "a"]}, "pinned names 'a' more than once"),
        ({"pinned": {1: "a", 2: "a"}}, "pinned names 'a' more than once"),
        ({"min_new_share": 1.5, "new": ["a"]}, "min_new_share=1.5: expected a number from 0 to 1"),
        ({"min_new_share": 0.3}, "needs to know which items are new"),
        ({"new": ["a"]}, "min_new_share is 0"),
        ({"min_new_share": 0.3, "new": ["a"], "new_days": 3, "time": "t"}, "new and new_days both say"),
        ({"max_age_days": 3}, "max_age_days=3 needs time"),
        ({"max_age_days": -3, "time": "t"}, "max_age_days=-3: expected a positive"),
        ({"time": "t"}, "time='t' is used by max_age_days and new_days"),
        ({"time": 3, "max_age_days": 3}, "time=3: expected the name"),
        ({"now": 3}, "now=3 is used by"),
        ({"now": "soon", "time": "t", "max_age_days": 3}, "now='soon': expected a date or time"),
        ({"now": [1], "time": "t", "max_age_days": 3}, r"now=\[1\]: expected a date"),
        ({"pinned": ["a"], "exclude": ["b", "a"]}, "contradict each other: pinned and exclude both name 'a'"),
        ({"include": "abcde", "exclude": []}, "include='abcde'"),
        (
            {"include": list("abcde"), "exclude": list("edcba")},
            "include and exclude both name 'a', 'b', 'c' and 2 more",
        ),
        ({"include": ["b"], "pinned": {1: "a"}}, "pinned names 'a'; include, the only items allowed, does not have"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Rules(**arguments)


def test_moments_in_every_form():
    day = 86_400.0
    assert (
        seconds(datetime(1970, 1, 2)) == seconds("1970-01-02T00:00:00Z") == seconds(np.datetime64("1970-01-02")) == day
    )
    assert seconds(datetime(1970, 1, 2, tzinfo=timezone(timedelta(hours=1)))) == day - 3600
    assert seconds(date(1970, 1, 3)) == 2 * day
    assert seconds(1.5) == 1.5


def test_rules_from_a_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(
        'exclude = ["a"]\nin_stock = "stock"\nmin_new_share = 0.2\nnew_days = 14\ntime = "added"\n'
        "now = 2024-05-01T12:00:00Z\n[max_per]\nbrand = 2\n[pinned]\n1 = 'b'\n4 = 'c'\n"
    )
    now = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    assert Rules.from_file(path) == Rules(
        exclude=["a"], in_stock="stock", min_new_share=0.2, new_days=14, time="added", now=now, max_per={"brand": 2},
        pinned={1: "b", 4: "c"},
    )  # fmt: skip
    path.write_text('pinned = ["b", "c"]\n')
    assert Rules.from_file(str(path)) == Rules(pinned=["b", "c"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exclud = []", "there is no rule 'exclud'; expected max_per, exclude.*Did you mean exclude"),
        ("exclude = [", "is not TOML"),
        ("[pinned]\nfirst = 'a'", "rules.toml: pinned names the place 'first'"),
        ("exclude = ['a']\npinned = ['a']", "rules.toml: the rules contradict each other"),
    ],
)
def test_errors_of_files_name_the_file(tmp_path, text, message):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=message):
        Rules.from_file(path)
    with pytest.raises(ParameterError, match=r"none.toml: cannot be read \(No such file"):
        Rules.from_file(tmp_path / "none.toml")
