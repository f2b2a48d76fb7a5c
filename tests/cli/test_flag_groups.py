"""Dataclasses as groups of flags."""

import inspect
from dataclasses import dataclass
from typing import Annotated, get_args

import pytest
import typer

from tastespace.cli.flag_groups import GroupUse, with_flag_groups


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="how wide")] = 1
    height: Annotated[int, typer.Option(help="how high")] = 2


SIZE = Size()


def test_fields_become_parameters_with_the_help_of_the_command() -> None:
    seen = []

    def draw(
        title: str,
        size: Annotated[Size, GroupUse(help={"width": "of the drawing"})] = SIZE,
        bold: bool = False,
    ) -> None:
        seen.append((title, size, bold))

    made = with_flag_groups(draw)
    parameters = inspect.signature(made).parameters
    assert list(parameters) == ["title", "width", "height", "bold"]
    assert get_args(parameters["width"].annotation)[1].help == "of the drawing"
    assert get_args(Size.__annotations__["width"])[1].help == "how wide"
    made(title="a", width=7, height=8, bold=True)
    made(title="b", width=7, bold=False)
    assert seen == [("a", Size(7, 8), True), ("b", Size(7, 2), False)]


def test_fields_that_are_left_out_keep_their_defaults() -> None:
    def draw(size: Annotated[Size, GroupUse(without=("height",))] = SIZE) -> None:
        assert size == Size(5, 2)

    made = with_flag_groups(draw)
    assert list(inspect.signature(made).parameters) == ["width"]
    made(width=5)
    with pytest.raises(TypeError, match="height"):
        made(width=5, height=1)


def test_a_command_without_groups_is_returned_as_it_is() -> None:
    def plain(title: str) -> None: ...

    assert with_flag_groups(plain) is plain
