"""`--config` reads the flags of a command from a TOML file, and `--print-config` writes such a file.

The file has a table for each command, with the flags as keys::

    [recommend]
    k = 20
    filter = "year >= 1990"

A flag on the command line overrides the file. The table ``[events]`` has the weights of kinds of events for all
commands that read kinds::

    [events]
    view = 1
    purchase = 5
    dislike = -1
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from tastespace._util.addresses import masked_address
from tastespace.errors import ParameterError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same library, before it became part of Python
    import tomli as tomllib

_CONFIG = "config"
_PRINT = "print_config"


def configured(command: Callable[..., None], title: str) -> Callable[..., None]:
    """A command, called ``title``, with `--config FILE` and `--print-config`."""
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command)
    flags = {_flag(name, hints[name]): name for name in own.parameters if name != _CONFIG}

    def read(context: typer.Context, path: Path | None) -> Path | None:
        if path is not None:
            values = {
                name: value if isinstance(value, list) or not _takes_several(hints[name]) else [value]
                for name, value in _section(path, title, flags, is_optional=_CONFIG in own.parameters).items()
            }
            context.default_map = {**(context.default_map or {}), **values}
        return path

    def run(**values: Any) -> None:
        path = values.pop(_CONFIG)
        if values.pop(_PRINT):
            by_flag = {flag: values[name] for flag, name in flags.items()}
            given = {flag: value for flag, value in by_flag.items() if value not in (None, [], ())}
            import tomli_w

            sys.stdout.write(tomli_w.dumps({title: {flag: _plain(value) for flag, value in given.items()}}))
            raise typer.Exit
        command(**values, **({_CONFIG: path} if takes_file else {}))

    config = typer.Option("--config", help="TOML file with the flags of this command.", is_eager=True, callback=read)
    shown = typer.Option("--print-config", help="Print the flags as TOML instead of running.")
    added: dict[str, tuple[Any, Any]] = {
        _CONFIG: (Annotated[Path | None, config], None),
        _PRINT: (Annotated[bool, shown], False),
    }
    takes_file = _CONFIG in own.parameters  # the command reads other tables of the file, too
    if takes_file:
        text = "TOML file with the tables of the commands: [fit], [update], [recommend], ..."
        argument = typer.Argument(help=text, is_eager=True, callback=read)
        added[_CONFIG] = Annotated[Path, argument], inspect.Parameter.empty
    run.__doc__, run.__name__ = command.__doc__, title
    run.__annotations__ = {**hints, **{name: kind for name, (kind, _) in added.items()}}
    parameters = [p.replace(annotation=hints[name]) for name, p in own.parameters.items() if name != _CONFIG]
    for name, (kind, default) in added.items():
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _flag(name: str, hint: Any) -> str:
    """A parameter as it is written on the command line, without dashes in front."""
    for extra in getattr(hint, "__metadata__", ()):
        # typer keeps the first way to write an option where the default would stand.
        for text in (getattr(extra, "default", None), *(getattr(extra, "param_decls", None) or ())):
            if isinstance(text, str) and text.startswith("--"):
                return text.removeprefix("--").partition("/")[0]
    return name.replace("_", "-")


def _takes_several(hint: Any) -> bool:
    kind = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    return any(get_origin(one) is list for one in (kind, *get_args(kind)))


def read_config(path: Path) -> dict[str, Any]:
    """The tables of a config file."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as problem:
        raise ParameterError(f"--config {path}: cannot be read ({problem.strerror}).") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ParameterError(f"--config {path} is not TOML: {problem}.") from problem


def _section(path: Path, command: str, flags: dict[str, str], is_optional: bool = False) -> dict[str, Any]:
    found = read_config(path)
    section = found.get(command, {} if is_optional else None)
    events = found.get("events")
    if isinstance(events, dict) and "event" in flags and isinstance(section, dict) and "event" not in section:
        section = {**section, "event": [f"{kind}={weight}" for kind, weight in events.items()]}
    if not isinstance(section, dict):
        names = ", ".join(f"[{name}]" for name, table in found.items() if isinstance(table, dict))
        raise ParameterError(f"--config {path} has no table [{command}]; it has {names or 'none'}.")
    values = {}
    for key, value in section.items():
        flag = key.replace("_", "-")
        if flag not in flags:
            raise ParameterError(
                f"--config {path}: [{command}] has no flag {key!r}; there are {', '.join(flags)}."
                + nearest(flag, flags)
            )
        values[flags[flag]] = value
    return values


def _plain(value: Any) -> Any:
    """A value as one of TOML's types."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Path):
        return str(value)
    return masked_address(value) if isinstance(value, str) else value
