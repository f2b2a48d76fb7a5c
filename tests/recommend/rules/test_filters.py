"""The filter language: a mask for what it allows, an error that names the position for all else."""

import datetime
import re
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tastespace as ts
from tastespace._util.limits import FILTER_CHARACTERS, FILTER_NESTED, FILTER_TERMS
from tastespace.errors import DataError
from tastespace.recommend.rules.filters import allowed_items, item_mask

ITEMS = pl.DataFrame(
    {
        "item": [1, 2, 3, 4],
        "year": [1980, 1999, None, 2004],
        "price": [1.5, 2.0, 3.0, None],
        "title": ["Alien", "Heat II", 'The "Q"', None],
        "genres": [["Drama", "Crime"], ["Drama"], [], None],
        "sold out": [True, False, None, False],
        "day": [datetime.date(2020, 1, n) for n in range(1, 5)],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year >= 1990", [0, 1, 0, 1]),
        ("year != 1980", [0, 1, 0, 1]),
        ("not year = 1980", [0, 1, 1, 1]),
        ("year in (1980, 2004)", [1, 0, 0, 1]),
        ("year not in (1980, 2004)", [0, 1, 1, 0]),
        ("price < 2.5 and year > 1985 or item == 4", [0, 1, 0, 1]),
        ("price < 2.5 and (year > 1985 or item == 1)", [1, 1, 0, 0]),
        ('genres contains "Drama"', [1, 1, 0, 0]),
        ("genres = 'Crime'", [1, 0, 0, 0]),
        ('genres in ("Crime", "Jazz")', [1, 0, 0, 0]),
        ('title contains "II" OR title = "The \\"Q\\""', [0, 1, 1, 0]),
        ("`sold out` = true", [1, 0, 0, 0]),
        ('day <= "2020-01-02"', [1, 1, 0, 0]),
        ("price > -1e3", [1, 1, 1, 0]),
        ("NOT (NOT year<1990)", [1, 0, 0, 0]),
        ("year between 1980 and 1999", [1, 1, 0, 0]),
        ("year NOT BETWEEN 1980 AND 1999 and item between 1 and 3", [0, 0, 1, 0]),
        ("title LIKE '%e%'", [1, 1, 1, 0]),
        ("title like 'Heat _I'", [0, 1, 0, 0]),
        ("title like 'heat%'", [0, 0, 0, 0]),
        ("title ilike 'heat%' or title not like '%e%'", [0, 1, 0, 1]),
        ("title like 'The \"Q\"' or title like '.*'", [0, 0, 1, 0]),
        ('title not contains "II"', [1, 0, 1, 1]),
        ("genres not in ('Crime')", [0, 1, 1, 1]),
        ("genres != 'Crime'", [0, 1, 1, 0]),
        ("year is null", [0, 0, 1, 0]),
        ("year IS NOT NULL AND NOT title IS NULL", [1, 1, 0, 0]),
        ("genres is null", [0, 0, 0, 1]),
        ("`sold out`", [1, 0, 0, 0]),
        ("not `sold out` and item > 1", [0, 1, 1, 1]),
        ('"sold out" = true or ("item" = 3)', [1, 0, 1, 0]),
        ("day > DATE '2020-01-02' and day < timestamp '2020-01-04'", [0, 0, 1, 0]),
        ("day between '2020-01-02' and '2020-01-03'", [0, 1, 1, 0]),
        ('title = \'The "Q"\' or title = \'it\'\'s\' or title = "The ""Q"""', [0, 0, 1, 0]),
        ("item > price", [0, 0, 0, 0]),
        ("price >= item", [1, 1, 1, 0]),
        ("item = item and year != price", [1, 1, 0, 0]),
        ("year > 1980.5", [0, 1, 0, 1]),
        ("year in (1980.0, 1999.5)", [1, 0, 0, 0]),
        ("year < 1e300 and year > -99999999999999999999999", [1, 1, 0, 1]),
        ("year not in (" + ", ".join(map(str, range(1_990, 3_000))) + ")", [1, 0, 1, 0]),
        (" OR ".join(["item = 1"] * FILTER_TERMS), [1, 0, 0, 0]),
        ("(" * FILTER_NESTED + "item > 1" + ")" * FILTER_NESTED, [0, 1, 1, 1]),
    ],
)
def test_conditions(text, expected):
    assert item_mask(text, ITEMS).tolist() == [bool(one) for one in expected]


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "year", "year =", "= 3", "year = 'x'", "title = 3", "year contains 3", "genres < 'a'", "nothing = 1",
        "year = 1 year = 2", "(year = 1", "year = 1)", "year in 3", "year in ()", "and", "year = 1 and", "year ! 3",
        "year = 1; drop", "lower(title) = 'x'", "title LIKE 3", "year like '1%'", "genres like 'D%'",
        "year = 99999999999999999999e999", "`year = 3",
        "day = 3", "day = 'soon'", "`sold out` = 1", "genres contains 3", 'title contains "', "year = (1)",
        " or ".join(["year = 1"] * (FILTER_TERMS + 1)), "not " * 30 + "year = 1", "(" * 5000,
        "read_csv('/etc/passwd') = 1", "year between 1", "year between 1, 2", "year is 3", "year = null",
        "year not = 1",
        "title = year", "day > year", "year = `nothing`", "year = 1x", "year = 1_000", "year = \u0663", "1990 < year",
        "abs(item - 3) <= 5", "item <> 1 -1", "CASE WHEN item > 3 THEN true ELSE false END", "x.y = 1", "true",
        "CAST(item AS VARCHAR) LIKE '1%'", "day > '0001-01-01T00:00:00+14:00x'", "title in (title)", "title = \udcff",
    ],
)  # fmt: skip
def test_what_cannot_be_read(text):
    with pytest.raises(DataError, match="filter"):
        item_mask(text, ITEMS)
    with pytest.raises(DataError, match="filter"):
        allowed_items(text, ITEMS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yaer >= 1990", "at character 1: no column 'yaer'; the columns of the items are 'item', .*Did you mean year?"),
        ("year > 1 and `tilte` = 'x'", "at character 14: no column 'tilte'; .*Did you mean title"),
        ("year > 1 and \"tilte\" = 'x'", "at character 14: no column 'tilte'; .*Did you mean title"),
        ("title = Alien", "at character 9: no column 'Alien'; .*Put a text in quotes"),
        ("year 3", "at character 6: expected one of = != < <= > >= in between like .* after 'year', given '3'"),
        ("year >= 1 year", "at character 11: expected and, or, or the end, given 'year'"),
        ("(year = 1", "at character 10: expected ), given the end"),
        ("year between 1 or 3", "at character 16: expected and, given 'or'"),
        ("title = 'x", "at character 9: the quote ' is never closed"),
        ("year / 2 = 3", "at character 6: '/': a filter compares and does not calculate"),
        ("year = null", "at character 8: nothing equals null: use is null"),
        ("year = 'x'", "at character 8: .*'year', which holds whole numbers, with \"x\": expected .* such as 1990"),
        ("day = 'soon'", '\'day\', which holds dates, with "soon": expected a value such as "1990-01-31"'),
        ("title in ('a', 3)", "at character 16: .*'title', which holds text, with 3: expected .* such as \"Drama\""),
        ("title = year", "at character 9: .*'title', which holds text, with 'year', which holds whole numbers"),
        ("genres like 'D%'", "at character 13: .*'genres', which holds lists: use contains"),
        ("lower(title) = 'x'", "at character 1: a filter cannot call 'lower'"),
        ("item = lower(title)", "at character 8: a filter cannot call 'lower'"),
        ("\"lpad\" (title, 2000000000, 'x') = 'x'", "cannot call 'lpad'"),
        ("`rpad`(title, 2000000000, 'x') = 'x'", "cannot call 'rpad'"),
        ("repeat('x', 2000000000) = 'x'", "cannot call 'repeat'"),
        ("count(*) > 1", "'\\*': a filter compares"),
        ("lpad/**/(title, 2000000000, 'x') = 'x'", "at character 5: '/': a filter compares"),
        ("item = 1 -- x", "at character 10: '-': a filter compares"),
        ("title = E'\\' OR lpad(title, 9) = '", "at character 9: no column 'E'"),
        ("item IN (SELECT item FROM self)", "at character 10: expected a number, a text .*given 'SELECT'"),
        ("title = $$x$$", "at character 9: '\\$' has no meaning here"),
        ("\udcff = 1", "at character 1: this character is no text"),
        ("title = '" + "_" * 19_000 + "'", None),
        ("title like '" + "_" * 19_000 + "'", "at character 12: the pattern is too long"),
        ("year = " + "9" * 400, "at character 8: the number '999.* is too large"),
        (" OR ".join(["item = 1"] * 10_000), "at most 20,000 are allowed"),
        (" OR ".join(["item=1"] * 500), f"more than {FILTER_TERMS} terms"),
        ("NOT " * 500 + "item = 1", f"more than {FILTER_TERMS} terms"),
        ("(" * 100 + "item = 1" + ")" * 100, "20 parentheses inside each other"),
    ],
)
def test_errors_name_the_position_and_what_was_expected(text, message):
    if message is None:
        assert not item_mask(text, ITEMS).any()
        return
    with pytest.raises(DataError, match=message.replace("?", r"\?").replace("(", r"\(").replace(")", r"\)")) as caught:
        item_mask(text, ITEMS)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "year = " + "1" * 19_000,
        "1" * 3_900,
        "year = 1" + ".1" * 9_000,
        "year = 1" + "e+" * 9_000,
        "'" * 19_999,
        "'" + "\\" * 19_999,
        "'" + "''" * 9_000 + "\\",
        " " * 19_999 + "$",
        "x" * 20_000,
        "`" * 19_999,
        "-" * 19_999,
        "(" * 19_999,
    ],
)
def test_reading_takes_linear_time(text):
    assert len(text) <= FILTER_CHARACTERS
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        with pytest.raises(DataError):
            item_mask(text, ITEMS)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.1  # quadratic: seconds


@given(
    st.lists(
        st.sampled_from(
            re.findall(
                r"\S+",
                "year item price title genres day `sold_out` nothing = != < >= in not between and and or like ilike "
                "contains is null true DATE ( ) , 1 -2.5 1e30 99999999999999999999 'a' \"Drama\" '%a_' '2020-01-02'",
            )
        ),
        max_size=12,
    )
)
def test_any_words_are_a_mask_or_an_error_of_ours(words):
    try:
        mask = item_mask(" ".join(words), ITEMS)
    except DataError:
        return
    assert mask.dtype == np.bool_
    assert mask.shape == (4,)


CONDITIONS = {
    "year >= 1990": pl.col("year") >= 1990,
    "year != 1980": pl.col("year") != 1980,
    "year between 1980 and 1999": pl.col("year").is_between(1980, 1999),
    "title like '%II'": pl.col("title").str.ends_with("II"),
    "genres contains 'Drama'": pl.col("genres").list.contains("Drama"),
    "`sold out`": pl.col("sold out"),
    "year is null": pl.col("year").is_null(),
    "day < '2020-01-03'": pl.col("day") < datetime.date(2020, 1, 3),
    "price < item": pl.col("price") < pl.col("item"),
}


@given(
    st.recursive(
        st.sampled_from(sorted(CONDITIONS)).map(lambda text: (text, CONDITIONS[text].fill_null(False))),
        lambda inner: st.one_of(
            inner.map(lambda one: (f"not ({one[0]})", ~one[1])),
            st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}) and ({two[1][0]})", two[0][1] & two[1][1])),
            st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}) or ({two[1][0]})", two[0][1] | two[1][1])),
        ),
        max_leaves=8,
    )
)
def test_conditions_are_equal_to_expressions_of_polars(condition):
    text, expression = condition
    assert item_mask(text, ITEMS).tolist() == allowed_items(expression, ITEMS).tolist()


@given(st.text(st.sampled_from("year item price<>=!()\"'andornotin 0123456789.,`-e"), max_size=60))
def test_any_text_is_a_mask_or_an_error_of_ours(text):
    try:
        mask = item_mask(text, ITEMS)
    except DataError:
        return
    assert mask.dtype == np.bool_
    assert mask.shape == (4,)


def test_narrow_numbers_nan_and_time_zones():
    noon = datetime.datetime(2020, 1, 1, 12)
    items = pl.DataFrame(
        {
            "u8": pl.Series([1, 200, None], dtype=pl.UInt8),
            "u64": pl.Series([1, 2**63, None], dtype=pl.UInt64),
            "tags": pl.Series([[1], [200], None], dtype=pl.List(pl.UInt8)),
            "price": [float("nan"), 3.0, None],
            "at": pl.Series([noon, noon.replace(hour=14), None]),
            "zoned": pl.Series([noon, noon.replace(hour=14), None]).dt.replace_time_zone("Europe/Berlin"),
            "length": pl.Series([datetime.timedelta(1), None, None]),
        }
    )
    for text, expected in {
        "u8 > 300": [0, 0, 0],
        "u8 > -1": [1, 1, 0],
        "u8 in (1, 300)": [1, 0, 0],
        "u64 > -1": [1, 1, 0],
        "u64 > 5": [0, 1, 0],
        "tags contains 300": [0, 0, 0],
        "tags contains 200": [0, 1, 0],
        "price > 2": [0, 1, 0],
        "price != 3": [0, 0, 0],
        'at < "2020-01-01T14:00:00+01:00"': [1, 0, 0],
        'at = "2020-01-01T14:00:00+02:00"': [1, 0, 0],
        'zoned = "2020-01-01T11:00:00"': [1, 0, 0],
        'zoned = "2020-01-01T12:00:00+01:00"': [1, 0, 0],
    }.items():
        assert item_mask(text, items).tolist() == [bool(one) for one in expected], text
    with pytest.raises(DataError, match=r"'length', which holds durations: expected numbers, texts or dates"):
        item_mask('length > "1990-01-31"', items)


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt16, pl.Int64, pl.UInt64, pl.Float32, pl.Float64, pl.Decimal(10, 2)])
def test_numbers_of_every_type(kind):
    items = pl.DataFrame({"n": pl.Series([1, 2, 100, None]).cast(kind), "lists": pl.Series([[1], [2, 3], [], None])})
    for text, expected in {
        "n = 2": [0, 1, 0, 0],
        "n >= 1.5": [0, 1, 1, 0],
        "n < 2.5 and n != 1.5": [1, 1, 0, 0],
        "n < 1e30 and n > -1e30": [1, 1, 1, 0],
        "n in (2, 1e30, -1e30, 0.5)": [0, 1, 0, 0],
        "n is null": [0, 0, 0, 1],
        "lists in (3, 1e30)": [0, 1, 0, 0],
    }.items():
        assert item_mask(text, items).tolist() == [bool(one) for one in expected], text


def test_whole_numbers_are_compared_exactly():
    items = pl.DataFrame({"item": pl.Series([2**53, 2**53 + 1, 2**64 - 1], dtype=pl.UInt64)})
    assert item_mask(f"item = {2**53 + 1}", items).tolist() == [False, True, False]
    assert item_mask(f"item in ({2**64 - 1}, {2**64})", items).tolist() == [False, False, True]
    assert item_mask(f"item > {2**53}", items).tolist() == [False, True, True]


def test_categories_enums_arrays_and_times_of_nanoseconds():
    noon = datetime.datetime(2020, 1, 1, 12)
    items = pl.DataFrame(
        {
            "cat": pl.Series(["b", "a", None], dtype=pl.Categorical),
            "enum": pl.Series(["b", "a", None], dtype=pl.Enum(["b", "a"])),
            "pair": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int16, 2)),
            "at": pl.Series([noon, noon.replace(hour=14), None], dtype=pl.Datetime("ns")),
            "day": [noon.date(), noon.date(), None],
            "nested": [[[1]], [], None],
        }
    )
    for text, expected in {
        "cat < 'b'": [0, 1, 0],
        "enum < 'b'": [0, 1, 0],
        "enum = 'no such'": [0, 0, 0],
        "cat = enum": [1, 1, 0],
        "cat ilike 'A'": [0, 1, 0],
        "pair contains 3": [0, 1, 0],
        "pair in (1, 99999)": [1, 0, 0],
        "at < '9999-12-31' and at > '0001-01-01'": [1, 1, 0],
        "at > day": [1, 1, 0],
        "nested is not null": [1, 1, 0],
    }.items():
        assert item_mask(text, items).tolist() == [bool(one) for one in expected], text
    with pytest.raises(DataError, match="'nested', which holds lists: expected numbers, texts or dates"):
        item_mask("nested contains 1", items)


def test_no_items_and_one_item():
    for text in (
        "year > 1",
        "genres contains 'Drama'",
        "title like 'A%'",
        "item = price",
        "year in (1980, 3)",
        "day > '1990-01-01'",
    ):
        assert item_mask(text, ITEMS.clear()).shape == (0,)
        assert item_mask(text, ITEMS[:1]).tolist() == item_mask(text, ITEMS)[:1].tolist()


@pytest.mark.parametrize("text", ["item >= 3", "item IN (" + ", ".join(map(str, range(1_000))) + ")", "item <> 1"])
def test_lists_take_the_same_conditions(text):
    data = ts.synthetic.multi_interest(n_users=30, n_items=25, n_interactions=200).interactions
    model = ts.EASE().fit(data)
    allowed = item_mask(text, pl.DataFrame({"item": data.items.series}))
    assert model.recommend(k=3, filter=text).equals(model.recommend(k=3, filter=allowed))
