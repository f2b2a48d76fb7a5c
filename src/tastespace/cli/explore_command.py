"""`tastespace explore`: the page of some users as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tastespace.cli.arguments import ModelArgument, open_model
from tastespace.data.ids import parse_ids
from tastespace.errors import ParameterError, UnknownIdError


def explore(
    model: ModelArgument,
    users: Annotated[list[str] | None, typer.Argument(help="User ids; none: a sample with several interests.")] = None,
    out: Annotated[Path, typer.Option(help="The page: an .html file.")] = Path("page.html"),
    sample: Annotated[
        int | None, typer.Option(help="Number of users of the sample, where no ids are given: 5.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Directory of another model of the same users, to show beside.")
    ] = None,
) -> None:
    """Write a page of some users that needs no server: shelves, map, sliders and explanations in one file."""
    from tastespace.explore.saved_page import save_page

    if users and sample is not None:
        raise ParameterError(f"--sample {sample} beside user ids: expected one of them. Leave one out.")
    opened = open_model(model)
    try:
        save_page(
            opened,
            out,
            parse_ids(opened.train_.users, users) if users else None,
            n_users=5 if sample is None else sample,
            compare=None if compare is None else open_model(compare),
            name=model.name.removesuffix(".model"),
            compare_name=None if compare is None else compare.name.removesuffix(".model"),
        )
    except UnknownIdError as problem:
        raise UnknownIdError(f"{problem} Without ids the page shows a sample of users.") from problem
    typer.echo(out)
