"""Errors of the library in the words of the command line: flags instead of arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec

from tastespace.errors import TastespaceError

P = ParamSpec("P")

_FLAGS = {
    "boost": "--boost",
    "column": "--column",
    "diversity": "--diversity",
    "filter": "--filter",
    "id": "--id",
    "items": "--item",
    "k": "-k",
    "mix": "--mix",
    "mute": "--mute",
    "on_unknown": "--on-unknown",
    "titles": "--title-column",
}
_PHRASES = {
    "profile=False": "--no-profile",
    "titles=True": "--titles",
    "model.interests(user)": "tastespace interests MODEL USER",
    "model.unmute": "--unmute",
    "model.set_item_attributes": "tastespace attributes",
    "Build the Interactions with item_attributes=.": "Give item attributes: tastespace attributes MODEL FILE.",
    "build the Interactions with item_attributes=.": "give item attributes: tastespace attributes MODEL FILE.",
}
_ARGUMENT = re.compile(rf"(?<![\w.-])({'|'.join(_FLAGS)})=('[^']*'|\"[^\"]*\"|\{{[^}}]*\}}|\[[^\]]*\]|[\w.+-]*\w)?")


def in_flags(message: str) -> str:
    """A message about arguments as one about flags.

    >>> in_flags("boost={0: -1.0}: expected positive factors; mute= leaves an interest out.")
    '--boost 0=-1.0: expected positive factors; --mute leaves an interest out.'
    >>> in_flags("Use mix='proportional', or mix='calibrated' with column='interest'.")
    'Use --mix proportional, or --mix calibrated with --column interest.'
    """
    for phrase, flags in _PHRASES.items():
        message = message.replace(phrase, flags)
    return _ARGUMENT.sub(_flag, message)


def _flag(found: re.Match[str]) -> str:
    flag, value = _FLAGS[found[1]], found[2]
    if not value:
        return flag
    if found[1] in ("boost", "mute") and value[0] in "{[":
        parts = [part.strip().replace(": ", "=") for part in value[1:-1].split(",")]
        return " ".join(f"{flag} {part}" for part in parts)
    bare = value[1:-1] if value[0] in "'\"" and " " not in value else value
    return f"{flag} {bare}"


def errors_in_flags(command: Callable[P, None]) -> Callable[P, None]:
    """Decorator of a command whose errors name flags."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except TastespaceError as problem:
            raise type(problem)(in_flags(str(problem))) from problem

    return run
