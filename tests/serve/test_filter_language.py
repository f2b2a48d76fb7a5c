"""The filter language: equal to polars on what it allows, an error on all else."""

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace.errors import DataError
from tastespace.serve.filter_language import MOST_TERMS, item_mask

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
    ],
)
def test_conditions(text, expected):
    assert item_mask(text, ITEMS).tolist() == [bool(one) for one in expected]


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "year", "year =", "= 3", "year = 'x'", "title = 3", "year contains 3", "genres < 'a'", "nothing = 1",
        "year = 1 year = 2", "(year = 1", "year = 1)", "year in 3", "year in ()", "and", "year = 1 and", "year ! 3",
        "year = 1; drop", "lower(title) = 'x'", "title LIKE '%'", "year = 99999999999999999999e999", "`year = 3",
        "day = 3", "day = 'soon'", "`sold out` = 1", "genres contains 3", 'title contains "', "year = (1)",
        " or ".join(["year = 1"] * (MOST_TERMS + 1)), "not " * 30 + "year = 1", "(" * 5000,
        "read_csv('/etc/passwd') = 1",
    ],
)  # fmt: skip
def test_what_cannot_be_read(text):
    with pytest.raises(DataError, match="filter"):
        item_mask(text, ITEMS)


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
