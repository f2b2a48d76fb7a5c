"""Dates as text: the order of day and month."""

import datetime as dt
import logging

import polars as pl
import pytest

from tastespace import Interactions
from tastespace.data.reading.dates import parse_times
from tastespace.errors import DataError, ParameterError


def days(texts, date_format=None):
    return [one.date() for one in parse_times(pl.Series(texts), "here", date_format).to_list()]


def test_the_order_that_fits_all_dates_is_taken(caplog):
    assert days(["01/02/2024", "31/12/2024"]) == [dt.date(2024, 2, 1), dt.date(2024, 12, 31)]
    assert days(["01/02/2024", "12/31/2024"]) == [dt.date(2024, 1, 2), dt.date(2024, 12, 31)]
    assert days(["3.3.2024", "4.4.69", "5.5.70"]) == [dt.date(2024, 3, 3), dt.date(2069, 4, 4), dt.date(1970, 5, 5)]
    assert days(["2024-01-02"]) == [dt.date(2024, 1, 2)]
    times = parse_times(pl.Series(["31/12/2024 23:59", "01/01/2025 00:30"]), "here")
    assert times.to_list() == [dt.datetime(2024, 12, 31, 23, 59), dt.datetime(2025, 1, 1, 0, 30)]
    assert not caplog.records


def test_ambiguous_dates_are_said(caplog, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("user,item,when\nann,a,01/02/2024\nbob,b,03/02/2024\n")
    with caplog.at_level(logging.WARNING):
        data = Interactions.from_file(path, timestamp="when")
    [record] = caplog.records
    assert (
        "dates such as 01/02/2024 can be read in two ways. Taken as day/month/year: 1 February" in record.getMessage()
    )
    assert "--date-format %m/%d/%Y" in record.getMessage()
    assert data.timestamps.tolist() == [
        int(dt.datetime(2024, 2, day, tzinfo=dt.timezone.utc).timestamp() * 1e6) for day in (1, 3)
    ]
    caplog.clear()
    other = Interactions.from_file(path, timestamp="when", date_format="%m/%d/%Y")
    assert not caplog.records
    assert other.timestamps[0] == int(dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc).timestamp() * 1e6)


def test_dates_that_fit_no_order():
    with pytest.raises(DataError, match=r"'31/12/2024' is day before month and '12/31/2024' month before day"):
        days(["31/12/2024", "12/31/2024"])
    with pytest.raises(DataError, match=r"'x' does not have the form date_format='%d/%m/%Y' \(1 such rows of 2\)"):
        days(["01/02/2024", "x"], "%d/%m/%Y")
    with pytest.raises(ParameterError, match="expected a format such as"):
        days(["01/02/2024"], "day first")


def test_a_format_needs_a_column_of_times():
    with pytest.raises(ParameterError, match="needs timestamp="):
        Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2]}), date_format="%Y")
