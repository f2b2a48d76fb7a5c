"""The `tastespace` command: registers the sub-commands and prints errors of the library as one line."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import shlex
import sys
import threading
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import tastespace
from tastespace._util.interrupts import interrupts_end_task
from tastespace.cli.config import configured
from tastespace.cli.flag_groups import with_flag_groups
from tastespace.errors import Argument, Call, ParameterError, TastespaceError, require_path, shortened

if TYPE_CHECKING:
    from tastespace._util.terminal import Console

# ---------------------------------------------------------------------------------------------------------------------
# Commands whose modules are imported when they run, so that `tastespace --help` starts quickly.


class LazyCommand(TyperCommand):
    """Placeholder of a command in the help; the command itself is imported when its arguments are read."""

    def __init__(self, target: str, example: str, summary: str) -> None:
        """``target`` is ``module:name`` in `tastespace.cli`: a function, or a Typer app with commands of its own."""
        self.target, self.example = target, example
        super().__init__(name=example.split()[0], help=summary, callback=None)

    def load(self) -> Any:
        """Import the command itself."""
        module, _, name = self.target.partition(":")
        found = getattr(import_module(f"tastespace.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            for command in group.commands.values():
                name_flags_in_errors(command)
            return group
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        title = str(self.name)
        app.command(title, epilog=f"Example: tastespace {self.example}")(configured(with_flag_groups(found), title))
        made = typer.main.get_command(app)
        name_flags_in_errors(made)
        return made

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the command itself, which then runs."""
        return self.load().make_context(info_name, args, parent, **extra)


def lazy_group(commands: list[LazyCommand]) -> type[TyperGroup]:
    """Return a group of these commands in this order, for ``typer.Typer(cls=...)``."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands.update({str(one.name): one for one in commands})

    return LazyGroup


# ---------------------------------------------------------------------------------------------------------------------
# Errors of the library in the words of the command line: flags of the command that runs instead of arguments.

_CALLS = {
    "model.interests(user)": "tastespace interests MODEL USER",
    "model.unmute": "--unmute",
    "recommend(on_unknown='popular')": "tastespace recommend --on-unknown popular",
    "recommend_for": "tastespace recommend --history",
    "model.set_item_attributes": "tastespace attributes",
    "Build the Interactions with item_attributes=": "Give item attributes: tastespace attributes MODEL FILE",
    "build the Interactions with item_attributes=": "give item attributes: tastespace attributes MODEL FILE",
}
_OPPOSITES = {"exclude_seen": "include_seen", "profile": "no_profile", "header": "no_header"}
_MOST_SHOWN = 76


def in_flags(part: Argument | Call, flags: Mapping[str, str]) -> str:
    """Return an argument or a call of a message as a user of the command line knows it.

    ``flags`` are those of the command by the names of its parameters; other arguments stay as they are.

    >>> flags = {"column": "--column", "mute": "--mute", "boost": "--boost", "no_profile": "--no-profile"}
    >>> in_flags(Argument("column", "interest"), flags), in_flags(Argument("mute", [0, 2]), flags)
    ('--column interest', '--mute 0 --mute 2')
    >>> in_flags(Argument("boost", {0: 2.0}), flags), in_flags(Argument("profile", False), flags)
    ('--boost 0=2.0', '--no-profile')
    >>> in_flags(Argument("dim", 0), flags)
    'dim=0'
    """
    if isinstance(part, Call):
        return _CALLS.get(part, part)
    name, value = part.name, part.value
    if value is False:
        name = _OPPOSITES.get(name, name)
    if name == "events":
        name = "event"
    if name == "titles" and isinstance(value, str):
        name = "title_column"
    if name not in flags:
        return str(part)
    flag = flags[name]
    if not part.is_given or isinstance(value, bool):
        return flag
    if isinstance(value, Mapping):
        value = [f"{key}={one}" for key, one in value.items()]
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join(f"{flag} {_word(one)}" for one in values) or flag


def _word(value: object) -> str:
    """Return a value as a word of a command line."""
    return shlex.quote(value) if isinstance(value, str) and len(value) <= _MOST_SHOWN else shortened(value)


class NotesInFlags(logging.Filter):
    """Words the notes that the library logs like its errors."""

    flags: Mapping[str, str] = {}
    """Those of the command that runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the arguments and calls in a note."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                in_flags(one, self.flags) if isinstance(one, (Argument, Call)) else one for one in record.args
            )
        return True


_notes_in_flags = NotesInFlags()


def name_flags_in_errors(command: Any) -> None:
    """Make a command name its flags in the errors and notes of the library."""
    flags = {str(one.name): one.opts[0] for one in command.params if one.opts[0].startswith("-")}
    callback = command.callback

    @functools.wraps(callback)
    def run(*args: Any, **kwargs: Any) -> None:
        _notes_in_flags.flags = flags
        try:
            for name, value in kwargs.items():
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, Path):  # an address would become a folder called s3:
                        require_path(one, flags.get(name))
            callback(*args, **kwargs)
        except TastespaceError as problem:
            if all(type(part) is str for part in problem.args):
                raise
            raise type(problem)(problem.worded(lambda part: in_flags(part, flags))) from problem

    command.callback = run


# Each command: its function, an example, and the first line of its docstring. In the order of the help.
COMMANDS = [
    LazyCommand(
        "demo:demo", "demo --dataset ml-100k",
        "Train on small data, compare models and show one user's recommendations.",
    ),
    LazyCommand(
        "fit:fit", "fit clicks.parquet --user who --item what --out shop.model",
        "Fit a model to a table of interactions and save it.",
    ),
    LazyCommand(
        "update:update", "update shop.model today.csv --user who --item what --out shop.model",
        "Learn from more interactions, at the cost of these, and save the updated model.",
    ),
    LazyCommand(
        "run_daily:run_daily", "run-daily shop.toml --dry-run",
        "Do the work of a night: read, learn, compare with the served model, save, switch the server, write lists.",
    ),
    LazyCommand(
        "recommend:recommend", "recommend shop.model ann bob -k 5 --format json",
        "Recommend items to some users, to all, or to users who are not in the model.",
    ),
    LazyCommand(
        "recommend:shelves", "shelves shop.model ann", "Show a row of items for each of a user's interests."
    ),
    LazyCommand(
        "recommend:interests", "interests shop.model ann",
        "Show a user's interests: weight, name, past items and nearest items of each.",
    ),
    LazyCommand(
        "recommend:taste_map", "map shop.model ann --out map.svg",
        "Draw a user's taste map: all items in the plane, the interests, the history, the recommendations.",
    ),
    LazyCommand(
        "saved_model:explore", "explore shop.model ann bob --out page.html",
        "Write a page of some users that needs no server: shelves, map, sliders and explanations in one file.",
    ),
    LazyCommand(
        "recommend:explain", "explain shop.model ann jam", "Explain the rank of an item for a user.",
    ),
    LazyCommand("recommend:similar", "similar shop.model jam", "List items like an item, or users like a user."),
    LazyCommand(
        "shop_lists:popular", "popular shop.model --since 7d --trending",
        "List the most popular items, of all time or of a window of time, or those whose popularity rises.",
    ),
    LazyCommand(
        "shop_lists:together", "together shop.model jam", "List the items that the same people take as an item."
    ),
    LazyCommand("shop_lists:next_items", "next shop.model tea jam", "List the items that come next in a session."),
    LazyCommand(
        "serve:serve", "serve shop.model --port 8000",
        "Serve a saved model over HTTP: lists, shelves, explanations, feedback, and a page at /.",
    ),
    LazyCommand(
        "serve:serve_token", "serve-token shop --scope read --scope feedback --tokens tokens.json",
        "Create a token for the server and print it; the file stores only its hash.",
    ),
    LazyCommand(
        "report:report", "report shop.feedback.sqlite",
        "Report click-through and conversion of the lists of a server: by arm, model, rank and taste, with intervals.",
    ),
    LazyCommand(
        "deletion:delete_user", "delete-user shop.model ann",
        "Delete all that is kept of a user: feedback, profile, lists that were shown.",
    ),
    LazyCommand(
        "deletion:user_data", "user-data shop.model ann",
        "Print all that is kept of a user as JSON: history in the model, events, profile, lists that were shown.",
    ),
    LazyCommand(
        "deletion:put_item", "put-item shop.model tea-9 --set genres=tea --set price=4",
        "Change attributes and availability of an item, or add a new one, in place of what was said of it before.",
    ),
    LazyCommand(
        "deletion:delete_item", "delete-item shop.model tea-9",
        "Leave an item out of all lists at once, and out of the next model that is fitted again.",
    ),
    LazyCommand(
        "saved_model:profile", "profile shop.model ann --mute 2 --boost 1=2",
        "Show the interests that a user has muted and boosted in the saved model, or change them.",
    ),
    LazyCommand(
        "saved_model:diversity", "diversity shop.model 0.3",
        "Show or change the diversity of the lists that a server and its page show by default.",
    ),
    LazyCommand(
        "saved_model:attributes", "attributes shop.model items.parquet --id sku",
        "Replace the item attributes of a saved model (titles, categories, stock, ...) without a new fit.",
    ),
    LazyCommand(
        "saved_model:index", "index shop.model --kind ann",
        "Build an index of the items and store it with the model, for recommend --index.",
    ),
    LazyCommand(
        "saved_model:evaluate", "evaluate shop.model later.parquet --user who --item what",
        "Evaluate a saved model on held-out interactions; accuracy is given as fractions from 0 to 1.",
    ),
    LazyCommand(
        "saved_model:export", "export shop.model vectors --kind parquet",
        "Write item and user vectors for a vector index or database.",
    ),
    LazyCommand("saved_model:inspect", "inspect shop.model --verify", "Describe a model file."),
    LazyCommand(
        "tune:run", "run --dataset steam-200k --method apa+dihars --json result.json",
        "Train a method of the paper and evaluate it on the test part. Accuracy is in percent, as in the paper.",
    ),
    LazyCommand(
        "tune:tune", "tune clicks.parquet --user who --item what --model ease --minutes 5 --out params.toml",
        "Search the parameters of a model on held-out data.",
    ),
    LazyCommand(
        "tune:compare", "compare clicks.parquet --user who --item what --models ease,als,dpcml --timestamp t",
        "Compare models on the same held-out data: mean, spread over windows, and whether differences are significant.",
    ),
    LazyCommand(
        "info:models", "models --format json",
        "List the models: name, class, family, the extra they need, and what they support.",
    ),
    LazyCommand(
        "info:datasets", "datasets --format json",
        "List the named data sets: size, license, and whether they are on this machine.",
    ),
    LazyCommand(
        "info:doctor", "doctor",
        "Print versions, the SIMD variant chosen, threads, data directories and which optional packages are there.",
    ),
    LazyCommand(
        "paper:paper", "paper list",
        "The paper's tables, figures and claims: list them, run them, see ours next to the published ones."
    ),
]  # fmt: skip
app = typer.Typer(
    name="tastespace",
    cls=lazy_group(COMMANDS),
    help="Recommendations for people with more than one taste.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(tastespace.__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the library does to stderr.")] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Import this module first: models of its classes may then be opened.", metavar="MODULE"),
    ] = None,
) -> None:
    """Recommendations for people with more than one taste."""
    from rich.logging import RichHandler

    handler = RichHandler(console=_stderr(), show_path=False, show_time=False)
    handler.addFilter(_notes_in_flags)
    logger = logging.getLogger("tastespace")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO if verbose else logging.WARNING)
    for module in trust or ():
        try:
            import_module(module)
        except Exception as problem:  # it may fail in any way
            raise ParameterError(
                f"--trust {module}: it cannot be imported ({problem}). Is it on PYTHONPATH?"
            ) from problem


def main() -> None:
    """Run the command line; our own errors end in one message on stderr and exit code 2."""
    warnings.showwarning = _warn  # type: ignore[assignment]
    _use_whole_writes()
    try:
        _run()
    except OSError as problem:
        if isinstance(problem, BrokenPipeError):
            _leave_quietly()
        named = f"{problem.filename}: " if problem.filename else ""
        _print("[bold red]error:[/]", f"{named}{problem.strerror or problem}.")
        _drop_output()
        sys.exit(2)


def _run() -> None:
    try:
        with interrupts_end_task():
            app(prog_name="tastespace")  # so that completion works however the program was started
    except TastespaceError as problem:
        _print("[bold red]error:[/]", problem)
        sys.exit(2)
    except MemoryError:
        from tastespace._util.memory import available_gb

        _print("[bold red]error:[/]", f"out of memory: {available_gb():.3g} GB are free.")
        sys.exit(2)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, KeyboardInterrupt) or leaving.code == _INTERRUPTED:
            _print("[bold red]interrupted:[/]", _interrupted_message(leaving))
            _end(_INTERRUPTED)
        # Click turns a closed pipe into exit code 1; that the reader of our output has left (| head) is no error.
        if isinstance(leaving.__context__, BrokenPipeError) or not _flushed():
            _leave_quietly()
        raise


_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def _interrupted_message(leaving: BaseException) -> str:
    """Return the note of the command on its files (the text of its KeyboardInterrupt), or that none is half written."""
    cause: BaseException | None = leaving
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return str(cause or "") or "stopped; no file is half-written."


def _end(code: int) -> NoReturn:
    """Exit, without cleaning up under a thread that Ctrl-C has left alone (`tastespace._util.interrupts`)."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if any(thread.name.startswith("tastespace") for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)


def _warn(message: Warning | str, *_: object) -> None:
    _print("[yellow]warning:[/]", message)


def _print(label: str, message: object) -> None:
    """One line on standard error."""
    from rich.markup import escape

    _stderr(soft_wrap=True).print(f"{label} {escape(str(message))}", highlight=False)


def _stderr(soft_wrap: bool = False) -> Console:
    from tastespace._util.terminal import Console

    return Console(stderr=True, soft_wrap=soft_wrap)


def _flushed() -> bool:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return False
    return True


def _leave_quietly() -> None:
    """End without the complaint that Python makes when it cannot flush standard output."""
    _drop_output()
    sys.exit(0)


def _drop_output() -> None:
    """Discard the output that standard output could not take, so that it is not tried again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _use_whole_writes() -> None:
    """Make standard output write all it is given, or raise.

    Without a buffer (PYTHONUNBUFFERED, python -u) a file of a full disk takes the first bytes of a text, and Python
    drops the rest without a word.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        whole = io.BufferedWriter(sys.stdout.buffer)
        sys.stdout = io.TextIOWrapper(whole, encoding=sys.stdout.encoding, line_buffering=True, newline="")
    sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be valid text
