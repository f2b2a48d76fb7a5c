"""Which SQL conditions are allowed as filters."""

import pytest

import tastespace as ts
from tastespace.errors import DataError
from tastespace.recommend.rules.filters import MOST_NESTED, MOST_TERMS, require_plain_condition


@pytest.fixture(scope="module")
def model():
    return ts.EASE().fit(ts.synthetic.multi_interest(n_users=30, n_items=25, n_interactions=200).interactions)


@pytest.mark.parametrize(
    "text",
    [
        "item >= 3",
        "item IN (" + ", ".join(map(str, range(1_000))) + ")",
        "(item > 3 AND NOT (item = 5)) OR item BETWEEN 7 AND 9",
        "abs(item - 3) <= 5",
        "CASE WHEN item > 3 THEN true ELSE false END",
        "CAST(item AS VARCHAR) LIKE '1%'",
        'coalesce("item", 0) > 2',
        " OR ".join(["item = 1"] * (MOST_TERMS // 2)),
        "(" * MOST_NESTED + "item > 1" + ")" * MOST_NESTED,
        "item <> 1 -1",
    ],
)
def test_conditions_that_work(model, text):
    assert len(model.recommend(k=1, filter=text)) > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" OR ".join(["item = 1"] * 10_000), "at most 20,000 are allowed"),
        (" OR ".join(["item=1"] * 500), "more than 200 terms"),
        ("NOT " * 500 + "true", "more than 200 terms"),
        ("(" * 100 + "item = 1" + ")" * 100, "20 parentheses inside each other"),
        ("lpad(title, 2000000000, 'x') = 'x'", "cannot call 'lpad'"),
        ("\"lpad\" (title, 2000000000, 'x') = 'x'", "cannot call 'lpad'"),
        ("`rpad`(title, 2000000000, 'x') = 'x'", "cannot call 'rpad'"),
        ("repeat('x', 2000000000) = 'x'", "cannot call 'repeat'"),
        ("lpad/**/(title, 2000000000, 'x') = 'x'", "comments"),
        ("item = 1 -- x", "comments"),
        ("title = E'\\' OR lpad(title, 9) = '", "a text with a prefix"),
        ("item IN (SELECT item FROM self)", "without SELECT"),
        ("title = $$x$$", "cannot be read at"),
        ("count(*) > 1", "cannot call 'count'"),
        ("\udcff = 1", "cannot be read at"),
    ],
)
def test_conditions_that_are_refused(model, text, message):
    with pytest.raises(DataError, match=message):
        require_plain_condition(text)
    with pytest.raises(DataError, match=message):
        model.recommend(k=1, filter=text)
