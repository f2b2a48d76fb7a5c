"""`model.json`: what a model directory holds, and the only file that says which of the others belong to the model.

It carries a checksum of its own text, always checked: one changed digit of a parameter would be another model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from tastespace._util.model_files import checksum, read_regular
from tastespace.errors import ModelFileError, nearest
from tastespace.ranking.ann import StoredIndex

NAME = "model.json"
FORMAT = "tastespace-model"
FORMAT_VERSION = 1
PARTS = {"learned": "safetensors", "seen": "safetensors", "users": "parquet", "items": "parquet"}
"""The parts of a model and the kinds of their files."""

INDEXES = {"ann": "faiss"}
"""The index that a model may have besides, and the kind of its file."""


def _names(parts: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(rf'{part}-[0-9a-f]{{16}}[.]{kind}' for part, kind in parts.items())})")


_INDEX_FILE = _names(INDEXES)
DATA_FILE = _names({**PARTS, **INDEXES})
"""Names of data files; nothing that is called otherwise is ours."""

_CHECKSUM = '"crc32": "{}"'
_OPTIONAL = type(None)
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "": {
        "tastespace": (str,),
        "created": (str,),
        "class": (str,),
        "parameters": (dict,),
        "metrics": (dict, _OPTIONAL),
        "data": (dict,),
        "vectors": (dict, _OPTIONAL),
        "learned": (dict,),
        "files": (dict,),
    },
    "data": {
        "users": (int,),
        "items": (int,),
        "interactions": (int,),
        "fingerprint": (str,),
        "backend": (str,),
        "user_attributes": (list, _OPTIONAL),
        "item_attributes": (list, _OPTIONAL),
        "cleaning": (dict,),
    },
    "vectors": {"count": (int,), "dimension": (int,)},
    "files": dict.fromkeys(PARTS, (dict,)),
}


def manifest_text(content: Mapping[str, Any]) -> bytes:
    """The text of model.json: the content, preceded by format, version, time and checksum."""
    whole = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "crc32": "0" * 8,
        "tastespace": version("tastespace"),
        "created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **content,
    }
    text = json.dumps(whole, indent=1, allow_nan=False).encode("ascii") + b"\n"
    return _with_checksum(text, "0" * 8, checksum(text))


def _with_checksum(text: bytes, old: str, new: str) -> bytes:
    """The text with another checksum of its own: that is the first in it."""
    return text.replace(_CHECKSUM.format(old).encode(), _CHECKSUM.format(new).encode(), 1)


def read_text(folder: Path) -> bytes:
    """The bytes of a directory's model.json, or an error that says what is there instead."""
    try:
        return read_regular(folder / NAME)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        hint = f" Give its directory, {folder.parent}." if folder.name == NAME else ""
        raise ModelFileError(f"{folder} is a file; a saved model is a directory with a {NAME} in it.{hint}") from None
    except OSError as problem:
        raise ModelFileError(f"{folder / NAME} cannot be read ({problem.strerror or problem}).") from problem
    if not folder.exists():
        try:
            siblings = [p.name for p in folder.absolute().parent.iterdir()]
        except OSError:
            siblings = []
        raise ModelFileError(f"{folder}: there is no such directory.{nearest(folder.name, siblings)}")
    raise ModelFileError(
        f"{folder} is no saved model: there is no {NAME} in it. Give the directory that a model was saved to; a save "
        "that was killed on its way does not count."
    )


def parse(text: bytes, folder: Path) -> dict[str, Any]:
    """The content of model.json, every field checked except the values of parameters, metrics and what is learned."""
    where = folder / NAME
    try:
        content = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        _damaged(where, f"it is not JSON ({problem})", problem)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(f"{where} does not belong to a tastespace model: it has no format {FORMAT!r}.")
    number = content.get("format_version")
    if type(number) is not int or number < 1:
        _damaged(where, f"format_version is {number!r}")
    if number > FORMAT_VERSION:
        raise ModelFileError(
            f"{folder} has format {number}, written by tastespace {content.get('tastespace')}; this is tastespace "
            f"{version('tastespace')}, which reads formats up to {FORMAT_VERSION}. Upgrade tastespace to open it."
        )
    stored = content.get("crc32")
    if not isinstance(stored, str) or checksum(_with_checksum(text, stored, "0" * 8)) != stored:
        _damaged(where, "it was changed after it was written, its checksum differs")
    _check_fields(content, where)
    return content


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def _check_fields(content: Mapping[str, Any], where: Path) -> None:
    """The types of all fields: a text with a right checksum may still come from another program."""
    for section, fields in _FIELDS.items():
        inside = content[section] if section else content
        for name, kinds in fields.items() if inside is not None else ():
            value = inside.get(name)
            if not isinstance(value, kinds) or isinstance(value, bool) or (name not in inside):
                _damaged(where, f"{section}{'.' if section else ''}{name} is {str(value)[:40]!r}")
            if isinstance(value, int) and value < 0:
                _damaged(where, f"{section}.{name} is negative")
    for part, kind in PARTS.items():
        entry = content["files"][part]
        name, size, stored = (entry.get(key) for key in ("name", "bytes", "crc32"))
        if not (isinstance(name, str) and DATA_FILE.fullmatch(name) and name.startswith(part) and name.endswith(kind)):
            _damaged(where, f"the file of {part} is called {name!r}")
        if type(size) is not int or not isinstance(stored, str):
            _damaged(where, f"the file of {part} has the size {size!r} and the checksum {stored!r}")


def _damaged(where: Path, what: str, problem: Exception | None = None) -> NoReturn:
    raise ModelFileError(f"{where} is damaged: {what}. Save the model again, or restore a copy.") from problem


def stored_index(entry: Any, folder: Path) -> StoredIndex | None:
    """The index file that an entry of model.json describes; None for an invalid entry."""
    if not isinstance(entry, dict):
        return None
    name, size, crc32, about = (entry.get(key) for key in ("name", "bytes", "crc32", "about"))
    if not (isinstance(name, str) and _INDEX_FILE.fullmatch(name) and type(size) is int and size > 0):
        return None
    return (
        StoredIndex(folder / name, size, crc32, about) if isinstance(crc32, str) and isinstance(about, dict) else None
    )
