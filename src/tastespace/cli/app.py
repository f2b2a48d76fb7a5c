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
from tastespace.cli import datasets, demo, doctor, inference_commands, model_commands
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
# Each command with its example, in the order of the help.
_COMMANDS = (
    (demo.demo, "demo --dataset ml-100k"),
    (fitting.fit, "fit clicks.parquet --user who --item what --out shop.model"),
    (inference_commands.recommend, "recommend shop.model ann bob -k 5 --format json"),
    (inference_commands.shelves, "shelves shop.model ann"),
    (inference_commands.interests, "interests shop.model ann"),
    (inference_commands.taste_map, "map shop.model ann --out map.svg"),
    (inference_commands.explain, "explain shop.model ann jam"),
    (inference_commands.similar, "similar shop.model jam"),
    (model_commands.evaluate, "evaluate shop.model later.parquet --user who --item what"),
    (model_commands.export, "export shop.model vectors --kind parquet"),
    (model_commands.inspect, "inspect shop.model --verify"),
    (experiments.run, "run --dataset steam-200k --method apa+dihars --json result.json"),
    (experiments.tune, "tune --dataset ml-100k --method cml+hars --trials 5 --record trials.jsonl"),
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
    """Run the command line; our own errors end in one message on stderr and exit code 2."""
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
