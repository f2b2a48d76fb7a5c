"""Errors and notes of the library in the words of the command line."""

import logging

import click
import polars as pl
import pytest

import tastespace as ts
from tastespace.cli.app import NotesInFlags, in_flags, name_flags_in_errors
from tastespace.errors import Argument, Call, DataError, ParameterError, UnknownIdError

FLAGS = {
    "k": "-k",
    "filter": "--filter",
    "items": "--item",
    "include_seen": "--include-seen",
    "mix": "--mix",
    "column": "--column",
    "mute": "--mute",
    "boost": "--boost",
    "no_profile": "--no-profile",
    "titles": "--titles",
    "title_column": "--title-column",
    "on_unknown": "--on-unknown",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Argument("mute", [0, 2]), "--mute 0 --mute 2"),
        (Argument("mute"), "--mute"),
        (Argument("boost", {0: 2.0, 1: 3.0}), "--boost 0=2.0 --boost 1=3.0"),
        (Argument("mix", "scaled"), "--mix scaled"),
        (Argument("column", "x y"), "--column 'x y'"),
        (Argument("filter", "year > 3"), "--filter 'year > 3'"),
        (Argument("filter", ""), "--filter ''"),
        (Argument("k", 0), "-k 0"),
        (Argument("items"), "--item"),
        (Argument("on_unknown", "skip"), "--on-unknown skip"),
        (Argument("profile", False), "--no-profile"),
        (Argument("exclude_seen", False), "--include-seen"),
        (Argument("titles", True), "--titles"),
        (Argument("titles", "name"), "--title-column name"),
        (Argument("max_k", 3), "max_k=3"),
        (Call("model.unmute"), "--unmute"),
        (Call("model.interests(user)"), "tastespace interests MODEL USER"),
        (Call("model.score"), "model.score"),
    ],
)
def test_arguments_become_flags(given, expected):
    assert in_flags(given, FLAGS) == expected


def test_a_long_value_is_shown_in_part():
    assert in_flags(Argument("filter", "x" * 1000), FLAGS).endswith("xxx ...")


@pytest.mark.parametrize("kind", [DataError, UnknownIdError])
def test_the_kind_of_an_error_stays(kind):
    def callback() -> None:
        raise kind(Argument("mute", [1]), " is wrong.")

    command = click.Command("profile", params=[click.Option(["--mute"])], callback=callback)
    name_flags_in_errors(command)
    with pytest.raises(kind, match=r"^--mute 1 is wrong"):
        command.callback()


def test_notes_name_the_flags_of_the_command():
    words = NotesInFlags()
    words.flags = FLAGS
    record = logging.makeLogRecord({"msg": "%d users: %s", "args": (3, Argument("on_unknown", "popular"))})
    assert words.filter(record)
    assert record.getMessage() == "3 users: --on-unknown popular"


@pytest.mark.parametrize(
    ("options", "in_python", "flags", "in_command"),
    [
        (
            {"min_rating": 4.0},
            "min_rating=4.0 needs rating=, the name of the rating column.",
            ["--min-rating", "4"],
            "--min-rating 4.0 needs --rating, the name of the rating column.",
        ),
        (
            {"date_format": "%Y"},
            "date_format='%Y' needs timestamp=, the name",
            ["--date-format", "%Y"],
            "--date-format %Y needs --timestamp, the name",
        ),
        ({"user": "whom"}, "'whom' (given as user=); its", ["--user", "whom"], "'whom' (given as --user); its"),
        ({"min_user": 1000}, "min_user=1000 drops", ["--min-user", "1000"], "--min-user 1000 drops everything: "),
        ({"encoding": "utf-7x"}, "encoding='utf-7x' is", ["--encoding", "utf-7x"], "--encoding utf-7x is unknown"),
        ({"delimiter": "é"}, "delimiter='é': expected", ["--delimiter", "é"], "--delimiter 'é': expected an ASCII"),
    ],
)
def test_errors_of_reading_name_arguments_in_python_and_flags_in_the_command(
    shop, run, options, in_python, flags, in_command
):
    columns = {"user": "who", "item": "what"}
    with pytest.raises((DataError, ParameterError)) as problem:
        ts.Interactions.from_file(shop.clicks_csv, **{**columns, **options})
    assert in_python in str(problem.value)
    words = ["--user", "who", "--item", "what", *flags]
    result = run("fit", shop.clicks_csv, *words, "--out", shop.folder / "no.model", "--model", "ease")
    assert result.code == 2
    assert in_command in result.err


def test_errors_of_several_files_name_the_flags_too(shop, run):
    files = [shop.clicks_csv, shop.clicks_csv]
    result = run("fit", *files, "--user", "whom", "--item", "what", "--out", shop.folder / "no.model")
    assert result.code == 2
    assert result.err.count("(given as --user)") == 2


def test_a_budget_is_a_time_or_a_number_of_trials(shop, run):
    with pytest.raises(ParameterError, match=r"^minutes=1\.0 and trials=2: give only one: "):
        ts.fit(pl.read_parquet(shop.clicks), user="who", item="what", minutes=1.0, trials=2)
    words = ["--user", "who", "--item", "what", "--minutes", "1", "--trials", "2"]
    result = run("fit", shop.clicks, *words, "--out", shop.folder / "no.model")
    assert result.code == 2
    assert (
        "--minutes 1.0 and --trials 2: give only one: the budget is either a time or a number of trials." in result.err
    )


def test_commands_of_a_group_name_their_flags(run):
    result = run("paper", "table", "results1", "--dataset", "steam-200k", "--seeds", "0")
    assert result.code == 2
    assert "--seeds 0: expected the number of seeds per row, 1 or more." in result.err
