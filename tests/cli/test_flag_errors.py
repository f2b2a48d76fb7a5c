"""Errors of the library in the words of the command line."""

import pytest

from tastespace.cli.flag_errors import errors_in_flags, in_flags
from tastespace.errors import DataError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mute=[0, 2] concerns one user", "--mute 0 --mute 2 concerns one user"),
        ("boost={0: 2.0, 1: 3.0}: no", "--boost 0=2.0 --boost 1=3.0: no"),
        ("mix='scaled' with column='x y'", "--mix scaled with --column 'x y'"),
        ("filter='year > 3' leaves none", "--filter 'year > 3' leaves none"),
        ("k=0: expected", "-k 0: expected"),
        ("weight=2.0 of task=3 and max_k=3", "weight=2.0 of task=3 and max_k=3"),
        ("profile=False leaves the profile out.", "--no-profile leaves the profile out."),
    ],
)
def test_arguments_become_flags(given, expected):
    assert in_flags(given) == expected


def test_the_kind_of_an_error_stays():
    @errors_in_flags
    def command() -> None:
        raise DataError("mute=[1] is wrong.")

    with pytest.raises(DataError, match=r"^--mute 1 is wrong"):
        command()
