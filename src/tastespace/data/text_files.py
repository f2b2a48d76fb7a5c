"""The content of a text file: unpacked where it is a gzip file, decoded, with errors that say what to do."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tastespace.data.text_encoding import UTF_8, encoding_problem, find_encoding, recognized_encoding
from tastespace.errors import DataError
from tastespace.memory import available_gb


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
        """Whether the text is, or is taken for, UTF-8."""
        return self.encoding == UTF_8

    @property
    def is_plain_utf_8(self) -> bool:
        """Whether the bytes of the file are its text in UTF-8."""
        return self.is_utf_8 and not self._is_gzip

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What unpacking, decoding and the file system raise, as a `DataError` that says what to do."""
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
