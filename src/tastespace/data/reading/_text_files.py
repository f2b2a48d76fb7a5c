"""Content of a text file: unpacked where it is a gzip file, decoded, with errors that say what to do."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tastespace._util.memory import available_gb
from tastespace.errors import Argument, DataError, ParameterError

# ---------------------------------------------------------------------------------------------------------------------
# In which encoding a text file is written: recognized by its first bytes, guessed for messages, looked up by name.

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
            Argument("encoding", name),
            " is unknown; expected one that Python has, such as utf-8, utf-16, cp1252, iso8859-1, cp1251, shift_jis or "
            "gb18030.",
        ) from problem
    if not found._is_text_encoding or found.name in ("idna", "punycode", "undefined"):
        raise ParameterError(
            Argument("encoding", name), " is not an encoding of text files; expected one such as utf-8 or cp1252."
        )
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
    """Describe why a file cannot be read in this encoding, and what to do."""
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


# ---------------------------------------------------------------------------------------------------------------------
# The content of a text file: unpacked where it is a gzip file, decoded, with errors that say what to do.


class TextFile:
    """A text file, plain or packed with gzip, which its first bytes show.

    Args:
        path: The file.
        encoding: Name of the encoding, such as ``"cp1252"``. None: UTF-8, or UTF-16 and UTF-32, which are recognized.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self._path = path
        self.given_encoding = encoding is not None
        self.encoding = UTF_8
        with self.errors():
            self._is_gzip = _is_gzip(path)
            self.encoding = recognized_encoding(self._first_bytes()) if encoding is None else find_encoding(encoding)

    @property
    def is_utf_8(self) -> bool:
        """True if the text is, or is taken for, UTF-8."""
        return self.encoding == UTF_8

    @property
    def is_plain_utf_8(self) -> bool:
        """True if the bytes of the file are its text in UTF-8."""
        return self.is_utf_8 and not self._is_gzip

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of unpacking, decoding and the file system into a `DataError` that says what to do."""
        try:
            try:
                yield
            except UnicodeError as problem:
                raise DataError(encoding_problem(self._path, self.encoding, self.content())) from problem
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise DataError(
                f"{self._path}: the gzip file is cut off or damaged ({problem}). Fetch or write it again."
            ) from problem
        except OSError as problem:
            raise DataError(f"{self._path}: cannot be read ({problem.strerror or problem}).") from problem

    def open(self) -> IO[str]:
        """The text, to be read line by line; bytes that are not UTF-8 are replaced unless an encoding was given."""
        errors = "strict" if self.given_encoding or not self.is_utf_8 else "replace"
        if self._is_gzip:
            return gzip.open(self._path, "rt", newline="", encoding=self.encoding, errors=errors)
        return self._path.open(newline="", encoding=self.encoding, errors=errors)

    def content(self) -> bytes:
        """All bytes, unpacked."""
        return _unpacked(self._path) if self._is_gzip else self._path.read_bytes()

    def text(self) -> str:
        """All of it, decoded."""
        return self.content().decode(self.encoding)

    def utf_8(self) -> bytes:
        """All bytes of the text in UTF-8, as they are where that is its encoding."""
        return self.content() if self.is_utf_8 else self.text().encode()

    def _first_bytes(self, n: int = 4096) -> bytes:
        with gzip.open(self._path) if self._is_gzip else self._path.open("rb") as file:
            return bytes(file.read(n))


def _unpacked(path: Path) -> bytes:
    """A gzip file's content where it fits into half of the memory that is free: a few kilobytes can be terabytes."""
    most = int(available_gb() * 5e8)
    with gzip.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DataError(
            f"{path}: unpacks to more than {most / 1e9:.3g} GB, half of the memory that is free. Unpack it and split "
            "it, or give it as Parquet."
        )
    return content


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"
