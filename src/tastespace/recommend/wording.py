"""Sentences for customers, in any language: templates, their placeholders, and plural forms."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tastespace.errors import Argument, ParameterError, nearest, require_path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Templates: TypeAlias = Mapping[str, str | Mapping[str, str]]
WordingLike: TypeAlias = "Wording | Templates | str | Path | None"
"""Values of ``wording=``: a `Wording`, templates, the name of a TOML file; None is English."""

ENGLISH: dict[str, str | dict[str, str]] = {
    "plural": "english",
    "two": {
        "zero": "Because you took {first} and {second}.",
        "one": "Because you took {first} and {second}, like one other who took this.",
        "other": "Because you took {first} and {second}, like {others} others who took this.",
    },
    "one": {
        "zero": "Because you took {first}.",
        "one": "Because you took {first}, like one other who took this.",
        "other": "Because you took {first}, like {others} others who took this.",
    },
    "none": {
        "zero": "Nobody else has taken this yet.",
        "one": "One other took this.",
        "other": "{others} others took this.",
    },
    "seen": "You have this already.",
    "name_two": "like {first} and {second}",
    "name_one": "like {first}",
    "untitled": "item {id}",
}
"""Default templates; a `Wording` of another language has the same keys."""

_COUNTED = ("two", "one", "none")  # sentences that say how many others; the rest are single templates
_OPTIONAL = ("plural", "untitled")
_PAST: dict[str, tuple[str, ...]] = {"two": ("first", "second"), "one": ("first",), "none": (), "seen": ()}
_COUNTS = ("others", "others_any")
_AROUND = ("item", "user")


def _east_slavic(n: int) -> str:
    if n % 10 == 1 and n % 100 != 11:
        return "one"
    return "few" if 2 <= n % 10 <= 4 and not 12 <= n % 100 <= 14 else "many"


def _polish(n: int) -> str:
    if n == 1:
        return "one"
    return "few" if 2 <= n % 10 <= 4 and not 12 <= n % 100 <= 14 else "many"


# The forms of whole numbers above 0, by the rules of Unicode's CLDR; 0 has a template of its own in every language.
_PLURALS: dict[str, tuple[tuple[str, ...], Callable[[int], str]]] = {
    "english": (("one", "other"), lambda n: "one" if n == 1 else "other"),
    "japanese": (("other",), lambda n: "other"),
    "czech": (("one", "few", "other"), lambda n: "one" if n == 1 else "few" if n <= 4 else "other"),
    "polish": (("one", "few", "many"), _polish),
    "russian": (("one", "few", "many"), _east_slavic),
}


class Wording:
    """Templates of the sentences that customers read; by default in English.

    ``templates`` has the keys of `ENGLISH`, so that no sentence remains in another language (``plural`` and
    ``untitled`` may be left out):

    ======================== =================================================== =================================
    key                      said where                                          placeholders
    ======================== =================================================== =================================
    two, one, none           two, one or none of the user's past items is named  first, second, others, others_any
    seen                     added where the user has the item already
    name_two, name_one       name of an interest that no category fits           first, second
    untitled                 an item without a title on pages and in answers of    id
                             a server; without this template its id
    plural                   rule of the plural forms, see below
    ======================== =================================================== =================================

    ``{first}`` and ``{second}`` are titles of past items; every template must hold those of its key. ``{others}`` is
    the number of other users who took the item and *all* past items that are named, ``{others_any}`` of those who took
    the item and *at least one* of them. ``{item}`` and ``{user}`` may stand in all sentences.

    ``two``, ``one`` and ``none`` are dicts with a template for each plural form of ``{others}``: ``zero``, and what the
    rule ``plural`` asks for. "english" (also German, Spanish, Dutch, ...) has one and other, "japanese" (also Chinese,
    Korean, ...) has other, "czech" (also Slovak) one, few and other, "polish" and "russian" (also Ukrainian, Serbian,
    ...) one, few and many.

    >>> from tastespace.recommend.wording import ENGLISH
    >>> Wording().sentence(["Alien", "Brazil"], others=140, others_any=300, item="Dune", user="ann")
    'Because you took Alien and Brazil, like 140 others who took this.'
    >>> Wording({**ENGLISH, "seen": "{item} is yours."}).already_has("Dune", "ann")
    'Dune is yours.'
    """

    def __init__(self, templates: Templates | None = None) -> None:
        given = ENGLISH if templates is None else templates
        if not isinstance(given, Mapping):
            raise ParameterError(
                Argument("wording", given), ": expected a Wording, a dict of templates or the name of a file."
            )
        self._plural = _checked_plural(given.get("plural", "english"))
        needed = [key for key in ENGLISH if key not in _OPTIONAL]
        _require_keys("the wording", given, needed, optional=_OPTIONAL)
        self.untitled = _checked("untitled", given.get("untitled", "{id}"), ("id",), ())
        self.templates: dict[str, str | dict[str, str]] = {"plural": self._plural}
        forms = ["zero", *_PLURALS[self._plural][0]]
        for key in ENGLISH:
            if key in _COUNTED:
                self.templates[key] = self._checked_forms(key, given[key], forms)
            elif key == "untitled":
                self.templates[key] = self.untitled
            elif key != "plural":
                past = _PAST[key.removeprefix("name_")]
                self.templates[key] = _checked(key, given[key], past, _AROUND if key == "seen" else ())

    @classmethod
    def read(cls, path: str | Path) -> Wording:
        """Return the wording in a TOML file, whose tables and keys are those of `templates`."""
        try:
            text = require_path(path).read_text(encoding="utf-8")
            templates = tomllib.loads(text)
        except OSError as problem:
            raise ParameterError(f"{path}: cannot be read ({problem.strerror}).") from problem
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise ParameterError(f"{path}: expected a TOML file in UTF-8 with templates ({problem}).") from problem
        try:
            return cls(templates)
        except ParameterError as problem:
            raise ParameterError(f"{path}: {problem}") from problem

    @classmethod
    def of(cls, given: WordingLike) -> Wording:
        """Return the wording that was given in any of these ways."""
        if isinstance(given, Wording):
            return given
        return cls.read(given) if isinstance(given, (str, Path)) else cls(given)

    def sentence(self, past: Sequence[str], *, others: int, others_any: int, item: str, user: Any) -> str:
        """Return the reason for an item: titles of at most two past items, and how many others took them and it."""
        templates = self.templates[_COUNTED[2 - min(2, len(past))]]
        assert isinstance(templates, dict)
        form = "zero" if others == 0 else _PLURALS[self._plural][1](others)
        titles = dict(zip(("first", "second"), past, strict=False))
        return templates[form].format(**titles, others=others, others_any=others_any, item=item, user=user)

    def already_has(self, item: str, user: Any) -> str:
        """Return the sentence for an item that the user has."""
        return str(self.templates["seen"]).format(item=item, user=user)

    def interest_name(self, past: Sequence[str]) -> str:
        """Name of an interest from titles of one or two past items."""
        titles = dict(zip(("first", "second"), past, strict=False))
        return str(self.templates["name_two" if len(titles) == 2 else "name_one"]).format(**titles)

    def _checked_forms(self, key: str, given: Any, forms: list[str]) -> dict[str, str]:
        if not isinstance(given, Mapping):
            raise ParameterError(f"{key}={given!r}: expected a template for each of {', '.join(forms)}.")
        _require_keys(f"{key}, with the plural rule {self._plural!r},", given, forms)
        rest = (*_COUNTS, *_AROUND)
        found = {form: _checked(f"{key}.{form}", given[form], _PAST[key], rest) for form in forms}
        for form in forms:
            # Forms that stand for several numbers must say which; "zero", and "one" where it means 1 alone, need not.
            several = form not in ("zero", "one") or (form == "one" and self._plural == "russian")
            if several and not {*_COUNTS} & _placeholders(f"{key}.{form}", found[form]):
                raise ParameterError(
                    f"{key}.{form} = {found[form]!r} stands for several numbers and says none of them: expected "
                    "{others} or {others_any} in it."
                )
        return found


def _checked_plural(name: Any) -> str:
    if not isinstance(name, str) or name not in _PLURALS:
        raise ParameterError(f"plural={name!r}: expected one of {', '.join(_PLURALS)}.{nearest(name, _PLURALS)}")
    return name


def _require_keys(what: str, given: Mapping[str, Any], needed: Iterable[str], optional: Iterable[str] = ()) -> None:
    known = [*needed, *optional]
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ParameterError(
            f"{what} has {unknown[0]!r}; expected only {', '.join(known)}.{nearest(unknown[0], known)}"
        )
    missing = [key for key in needed if key not in given]
    if missing:
        raise ParameterError(f"{what} has no {', '.join(missing)}: expected a template for each. See wording.ENGLISH.")


def _checked(key: str, template: Any, needed: Sequence[str], optional: Sequence[str]) -> str:
    """Return the template if it holds all placeholders that it needs and no unknown ones."""
    if not isinstance(template, str) or not template.strip():
        raise ParameterError(f"{key} = {template!r}: expected a text.")
    found, known = _placeholders(key, template), [*needed, *optional]
    for name in sorted(found - {*known}):
        raise ParameterError(
            f"{key} = {template!r} has the unknown placeholder {{{name}}}; known there are "
            f"{', '.join(f'{{{one}}}' for one in known) or 'none'}.{nearest(name, known)}"
        )
    missing = [name for name in needed if name not in found]
    if missing:
        raise ParameterError(f"{key} = {template!r} lacks the placeholder {{{missing[0]}}}.")
    return template


def _placeholders(key: str, template: str) -> set[str]:
    try:
        parts = [part for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as problem:
        raise ParameterError(
            f"{key} = {template!r} cannot be read ({problem}). Write other braces twice: {{{{ or }}}}."
        ) from problem
    for _, name, layout, conversion in parts:
        if layout or conversion:
            raise ParameterError(f"{key} = {template!r}: expected a plain placeholder such as {{{name}}}.")
    return {str(name) for _, name, _, _ in parts}
