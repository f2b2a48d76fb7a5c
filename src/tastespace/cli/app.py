"""The `tastespace` command: puts the sub-commands together and turns our own errors into one clear line."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

import tastespace
from tastespace.cli import answers, datasets, demo, doctor, files
from tastespace.cli import fit as fitting
from tastespace.cli import run as experiments
from tastespace.cli.config import configured
from tastespace.cli.paper import paper
from tastespace.errors import TastespaceError

app = typer.Typer(
    name="tastespace",
    help="Recommendations for people with more than one taste.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
# Each command with its example, in the order in which people meet them.
_COMMANDS = (
    (demo.demo, "demo --dataset ml-100k"),
    (fitting.fit, "fit clicks.parquet --user who --item what --out shop.model"),
    (answers.recommend, "recommend shop.model ann bob -k 5 --format json"),
    (answers.shelves, "shelves shop.model ann"),
    (answers.interests, "interests shop.model ann"),
    (answers.taste_map, "map shop.model ann --out map.svg"),
    (answers.explain, "explain shop.model ann jam"),
    (answers.similar, "similar shop.model jam"),
    (files.evaluate, "evaluate shop.model later.parquet --user who --item what"),
    (files.export, "export shop.model vectors --kind parquet"),
    (files.inspect, "inspect shop.model --verify"),
    (experiments.run, "run --dataset steam-200k --method apa+dihars --json result.json"),
    (experiments.tune, "tune --dataset ml-100k --method cml+hars --trials 5 --journal trials.journal"),
    (datasets.datasets, "datasets --format json"),
    (doctor.doctor, "doctor"),
)
for _command, _example in _COMMANDS:
    _name = _example.split()[0]
    app.command(_name, epilog=f"Example: tastespace {_example}")(configured(_command, _name))
app.add_typer(paper)


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
    warnings.showwarning = _warn  # type: ignore[assignment]
    try:
        app(prog_name="tastespace")  # so that completion works however the program was started
    except TastespaceError as problem:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(problem))}", highlight=False)
        sys.exit(2)
    except SystemExit as leaving:
        # Click turns a closed pipe into exit code 1; that the reader of our output has left (| head) is no error.
        if isinstance(leaving.__context__, BrokenPipeError) or not _flushed():
            _leave_quietly()
        raise
    except BrokenPipeError:
        _leave_quietly()


def _warn(message: Warning | str, *_: object) -> None:
    Console(stderr=True, soft_wrap=True).print(f"[yellow]warning:[/] {escape(str(message))}", highlight=False)


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
