"""Flags that several commands share: a parameter whose type is a dataclass stands for one flag per field."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints


@dataclass(frozen=True)
class GroupUse:
    """Use of a group by one command: ``Annotated[TableFlags, GroupUse(help={...}, without=(...))]``."""

    help: dict[str, str] = field(default_factory=dict)
    """Texts of the help for some fields, where the usual ones do not suit the command."""
    without: tuple[str, ...] = ()
    """Fields that are no flags of the command; they keep their defaults."""


def with_flag_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclasses as parameters, as typer and `--config` need them.

    >>> @dataclass
    ... class Size:
    ...     width: int = 1
    ...     height: int = 2
    >>> def draw(title: str, size: Size = Size()) -> None:
    ...     print(title, size)
    >>> list(inspect.signature(with_flag_groups(draw)).parameters)
    ['title', 'width', 'height']
    >>> with_flag_groups(draw)(title="box", width=3)
    box Size(width=3, height=2)
    """
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind, use = _group(hints[name])
        if kind is None:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        own = list(_parameters(kind, use))
        groups[name] = (kind, [one.name for one in own])
        parameters += own
    if not groups:
        return command

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, (kind, members) in groups.items():
            values[name] = kind(**{member: values.pop(member) for member in members if member in values})
        command(**values)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    return run


def _group(hint: Any) -> tuple[type | None, GroupUse]:
    """The dataclass of a parameter, None where it is a plain flag, and how the command uses it."""
    kind, *extras = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return None, GroupUse()
    return kind, next((extra for extra in extras if isinstance(extra, GroupUse)), GroupUse())


def _parameters(group: type, use: GroupUse) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        if one.name in use.without:
            continue
        hint = hints[one.name]
        if one.name in use.help:
            kind, option = get_args(hint)
            option = copy.copy(option)
            option.help = use.help[one.name]
            hint = Annotated[kind, option]
        yield inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hint)
