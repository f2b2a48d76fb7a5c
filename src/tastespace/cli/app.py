"""The `tastespace` command: puts the sub-commands together and turns our own errors into one clear line."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.logging import RichHandler

import tastespace
from tastespace.cli import datasets, demo, doctor
from tastespace.cli import run as experiments
from tastespace.errors import TastespaceError

app = typer.Typer(
    name="tastespace",
    help="Recommendations for people with more than one taste.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
app.command(epilog="Example: tastespace demo --dataset ml-100k")(demo.demo)
app.command(epilog="Example: tastespace datasets --format json")(datasets.datasets)
app.command(epilog="Example: tastespace doctor")(doctor.doctor)
app.command(epilog="Example: tastespace run --dataset steam-200k --method apa+dihars --json result.json")(
    experiments.run
)
app.command(epilog="Example: tastespace tune --dataset ml-100k --method cml+hars --trials 5 --record trials.jsonl")(
    experiments.tune
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(tastespace.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the library does to stderr.")] = False,
) -> None:
    """Recommendations for people with more than one taste."""
    handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
    logger = logging.getLogger("tastespace")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)


def main() -> None:
    """Run the command line; errors on purpose end in one message on stderr and exit code 2."""
    try:
        app()
    except TastespaceError as problem:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {_plain(problem)}", highlight=False)
        sys.exit(2)
    except SystemExit as leaving:
        # Click turns a closed pipe into exit code 1; that the reader of our output has left (| head) is no error.
        if isinstance(leaving.__context__, BrokenPipeError) or not _flushed():
            _leave_quietly()
        raise
    except BrokenPipeError:
        _leave_quietly()


def _flushed() -> bool:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return False
    return True


def _leave_quietly() -> None:
    """End without the complaint that Python makes when it cannot flush standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _plain(problem: TastespaceError) -> str:
    return str(problem).replace("[", r"\[")
