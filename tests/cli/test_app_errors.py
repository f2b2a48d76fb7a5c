"""Errors and notes of the library in the words of the command line."""

import logging

import pytest

from tastespace.cli.app import NotesInFlags, errors_in_flags, in_flags
from tastespace.errors import Argument, Call, DataError, UnknownIdError

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
    def command() -> None:
        raise kind(Argument("mute", [1]), " is wrong.")

    with pytest.raises(kind, match=r"^--mute 1 is wrong"):
        errors_in_flags(command, FLAGS)()


def test_notes_name_the_flags_of_the_command():
    words = NotesInFlags()
    words.flags = FLAGS
    record = logging.makeLogRecord({"msg": "%d users: %s", "args": (3, Argument("on_unknown", "popular"))})
    assert words.filter(record)
    assert record.getMessage() == "3 users: --on-unknown popular"
