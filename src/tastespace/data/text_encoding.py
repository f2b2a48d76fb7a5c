"""In which encoding a text file is written: recognized by its first bytes, guessed for messages, looked up by name."""

from __future__ import annotations

import codecs
from pathlib import Path

from tastespace.errors import ParameterError

UTF_8 = "utf-8-sig"
"""UTF-8 with or without a byte-order mark."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def find_encoding(name: str) -> str:
    """The encoding of this name as Python spells it; an unknown one is an error.

    >>> find_encoding("Latin-1"), find_encoding("UTF8")
    ('iso8859-1', 'utf-8-sig')
    """
    try:
        found = codecs.lookup(name)
    except (LookupError, TypeError, ValueError) as problem:
        raise ParameterError(
            f"encoding={name!r} is unknown; expected one that Python has, such as utf-8, utf-16, cp1252, iso8859-1, "
            "cp1251, shift_jis or gb18030."
        ) from problem
    if not found._is_text_encoding or found.name in ("idna", "punycode", "undefined"):
        raise ParameterError(f"encoding={name!r} is no encoding of text files; expected one such as utf-8 or cp1252.")
    return UTF_8 if found.name in ("utf-8", UTF_8) else found.name


def recognized_encoding(first: bytes) -> str:
    """The encoding that the first bytes of a file show for certain: UTF-16 or UTF-32; else UTF-8.

    >>> recognized_encoding("user,item".encode("utf-16")), recognized_encoding(b"user,item")
    ('utf-16', 'utf-8-sig')
    """
    for mark, encoding in _MARKS:
        if first.startswith(mark):
            return encoding
    # Without a mark: letters of most scripts' delimiters and digits have a zero byte on one side.
    pairs = len(first) // 2
    even, odd = first[0 : 2 * pairs : 2].count(0), first[1 : 2 * pairs : 2].count(0)
    if pairs >= 2 and odd >= 0.4 * pairs and even == 0 and _is_text(first, "utf-16-le"):
        return "utf-16-le"
    if pairs >= 2 and even >= 0.4 * pairs and odd == 0 and _is_text(first, "utf-16-be"):
        return "utf-16-be"
    return UTF_8


def _is_text(raw: bytes, encoding: str) -> bool:
    decoded = raw.decode(encoding, errors="replace")
    return all(one.isprintable() or one in "\t\r\n" for one in decoded)


def likely_encoding(raw: bytes) -> str:
    """A guess at the encoding of bytes that are not UTF-8.

    >>> likely_encoding("Café;Müller".encode("cp1252")), likely_encoding("Война и мир".encode("cp1251"))
    ('cp1252', 'cp1251')
    """
    sample = raw[:100_000]
    high = [byte for byte in sample if byte >= 0x80]
    letters = sum(byte < 0x80 and chr(byte).isalpha() for byte in sample)
    if len(high) > letters:  # a script without Latin letters
        if sum(byte >= 0xC0 for byte in high) > 0.9 * len(high):
            return "cp1251"
        for encoding in ("shift_jis", "gb18030"):
            try:
                raw.decode(encoding)
            except UnicodeDecodeError:
                continue
            return encoding
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        return "iso8859-1"
    return "cp1252"


def encoding_problem(path: Path, encoding: str, raw: bytes) -> str:
    """Why a file cannot be read in this encoding, and what to do."""
    try:
        raw.decode(encoding)
        where = "it holds characters that UTF-8 does not have"
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        where = f"line {line} holds the byte 0x{raw[problem.start]:02x}"
    except UnicodeError as problem:  # a missing byte-order mark, say
        where = str(problem)
    name = "UTF-8" if encoding == UTF_8 else encoding
    try:
        raw.decode("utf-8")
        likely = "utf-8"
    except UnicodeDecodeError:
        likely = likely_encoding(raw)
    return (
        f"{path}: the text is not {name} ({where}), most likely {likely}. Give its encoding: encoding={likely!r}, on "
        f"the command line --encoding {likely}."
    )
