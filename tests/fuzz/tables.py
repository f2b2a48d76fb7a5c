"""Tables made by changing valid ones: bytes, quotes, encodings, numbers, gzip, JSON lines, Parquet, zip archives."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace import EASE, Interactions, load
from tastespace.cli.arguments import TextFlags, read_attributes
from tastespace.data.datasets.files import Archive
from tastespace.errors import ModelFileError, TastespaceError

_VALUES = [
    "",
    " ",
    "0",
    "-1",
    "007",
    "1e5",
    "1e999",
    "-0",
    "nan",
    "inf",
    "NULL",
    "None",
    "é",
    "日本",
    "a,b",
    '"',
    '""',
    "'",
    "\\",
    "9" * 19,
    "9" * 25,
    "9" * 400,
    "1.5",
    "0.1e-400",
    "2024-01-02",
    "01/02/2024",
    "31/12/2024",
    "12/31/2024",
    "99/99/9999",
    "2024-13-45",
    "24:00",
    "true",
    "\t",
    "\x00",
    "\x1f",
    "﻿",
    "x" * 300,
    "[1]",
    "{}",
    "%20",
    "=1+1",
    "-",
    "1_000",
    "٣",
    "0001-01-01",
    "9999-12-31 23:59:59",
    "2024-01-02T03:04:05+25:00",
    "00/00/0000",
    "1/2/3",
]
_JSON_VALUES: list[Any] = [
    *(None, True, 0, -1, 2**63, 2**64, 10**30, 10**60, 1.5, 1e300, float("nan"), float("inf")),
    *("", "7", "\ud83d", "\x00", "é", "x" * 300, "2024-13-45", [], [1], ["x", 2], {}, {"a": 1}, {"a": {"b": []}}),
]
_ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "shift_jis"]
_GIVEN_ENCODINGS = [
    None,
    None,
    None,
    "utf-8",
    "cp1252",
    "utf-16",
    "utf-32",
    "ascii",
    "shift_jis",
    "hex",
    "nonsense",
    "",
]
_DELIMITERS = [",", ";", "\t", "|", " ", "::", "~", "§"]


@dataclass(frozen=True)
class Outcome:
    """How a case ended: a kind to count, what it was, and the exception where that was no error of ours."""

    kind: str
    what: str
    raw: str | None = None


def outcome_of(what: str, action: Callable[[], Any]) -> Outcome:
    """Run an action; anything but its end and our own errors is a raw exception."""
    try:
        action()
    except TastespaceError as problem:
        text = str(problem)
        if not text.strip() or len(text) > 20_000:
            return Outcome("raw", what, f"a message of {len(text)} characters")
        return Outcome(type(problem).__name__, what)
    except BaseException as problem:
        if isinstance(problem, KeyboardInterrupt):
            raise
        return Outcome("raw", what, f"{type(problem).__module__}.{type(problem).__name__}: {str(problem)[:300]}")
    return Outcome("read", what)


class Tables:
    """Case ``number`` of a seed is always the same."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._folder, self._seed = folder, seed
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, number: int) -> Outcome:
        """Write the case's file, read it, and where that works save and open a model of it."""
        rng = np.random.default_rng([self._seed, 1, number])
        kind = str(rng.choice(["text", "text", "text", "json", "parquet", "frame", "attributes", "zip"]))
        return getattr(self, f"_{kind}")(rng, number)

    # ---- kinds -------------------------------------------------------------------------------------------

    def _text(self, rng: np.random.Generator, number: int) -> Outcome:
        raw = self._text_bytes(rng)
        ending = str(
            rng.choice([".csv", ".tsv", ".txt", ".gz", ".parquet", "[1].csv", "%20 ?.csv"], p=[0.6] + [0.4 / 6] * 6)
        )
        path = self._written(number, ending, raw)
        arguments = self._arguments(rng)
        what = f"from_file({path.name}, {arguments}) of {raw[:120]!r}"
        return outcome_of(what, lambda: self._read(path, arguments, rng.random() < 0.05))

    def _json(self, rng: np.random.Generator, number: int) -> Outcome:
        raw = self._json_bytes(rng)
        path = self._written(number, str(rng.choice([".jsonl", ".ndjson", ".json", ".jsonl.gz", "[1].jsonl"])), raw)
        arguments = self._arguments(rng)
        save, spill = rng.random() < 0.05, rng.random() < 0.1
        if spill:
            arguments["spill"] = self._folder / "spilled"
        what = f"from_file({path.name}, {arguments}) of {raw[:120]!r}"
        return outcome_of(what, lambda: self._read(path, arguments, save))

    def _parquet(self, rng: np.random.Generator, number: int) -> Outcome:
        buffer = io.BytesIO()
        self._frame_of(rng).write_parquet(buffer, compression=str(rng.choice(["zstd", "uncompressed", "snappy"])))
        raw = _changed_bytes(rng, buffer.getvalue())
        path = self._written(number, ".parquet", raw)
        arguments = self._arguments(rng, text=False)
        return outcome_of(f"from_file(parquet, {arguments})", lambda: self._read(path, arguments, False))

    def _frame(self, rng: np.random.Generator, number: int) -> Outcome:
        frame = self._frame_of(rng)
        arguments = self._arguments(rng, text=False)

        def build() -> None:
            data = Interactions.from_frame(frame, **arguments)
            self._round_trip(data, number)

        return outcome_of(f"from_frame({frame.schema}, {arguments})", build)

    def _attributes(self, rng: np.random.Generator, number: int) -> Outcome:
        if rng.random() < 0.3:
            raw = _changed_bytes(rng, b'{"item": 1, "title": "a"}\n{"item": 2, "title": null, "tags": ["x"]}\n')
            path = self._written(number, ".jsonl", raw)
        elif rng.random() < 0.3:
            raw = self._json_bytes(rng)
            path = self._written(number, ".jsonl", raw)
        else:
            raw = self._text_bytes(rng)
            path = self._written(number, ".csv", raw)
        flags = TextFlags(
            delimiter=str(rng.choice(_DELIMITERS)) if rng.random() < 0.3 else None,
            encoding=_GIVEN_ENCODINGS[rng.integers(len(_GIVEN_ENCODINGS))],
        )
        return outcome_of(
            f"read_attributes({path.name}, {flags}) of {raw[:120]!r}",
            lambda: read_attributes(path, "user", "item", flags),
        )

    def _zip(self, rng: np.random.Generator, number: int) -> Outcome:
        buffer = io.BytesIO()
        with zipfile.ZipFile(
            buffer, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
        ) as archive:
            archive.writestr("ml/ratings.csv", self._text_bytes(rng))
            archive.writestr("ml/items.csv", b"item,title\n1,a\n")
        raw = bytearray(buffer.getvalue())
        if rng.random() < 0.3:  # the flag that says a member is encrypted, in both headers
            raw[6] |= 1
            at = raw.find(b"PK\x01\x02")
            raw[at + 8] |= 1
        if rng.random() < 0.3:  # a method of compression that does not exist
            at = raw.find(b"PK\x01\x02")
            raw[at + 10] = raw[8] = 77
        path = self._written(number, ".zip", _changed_bytes(rng, bytes(raw)))

        def read() -> None:
            archive = Archive(path)
            for name in ("ratings.csv", "items.csv"):
                archive.read(name)

        return outcome_of("Archive", read)

    # ---- parts -------------------------------------------------------------------------------------------

    def _text_bytes(self, rng: np.random.Generator) -> bytes:
        delimiter = str(rng.choice(_DELIMITERS, p=[0.4] + [0.6 / 7] * 7))
        n_rows, names = int(rng.integers(0, 30)), ["user", "item", "rating", "time"]
        rows = [names] if rng.random() < 0.8 else []
        for _ in range(n_rows):
            row = [
                f"u{rng.integers(5)}",
                str(rng.integers(6)),
                str(rng.integers(1, 6)),
                f"2024-01-{rng.integers(1, 29):02d}",
            ]
            if rng.random() < 0.15:
                row[rng.integers(4)] = str(rng.choice(_VALUES))
            if rng.random() < 0.02:
                row = row[: rng.integers(0, 4)] if rng.random() < 0.5 else [*row, "more"]
            rows.append(row)
        column = rng.random()
        if column < 0.1 and rows:  # one kind of odd value in a whole column
            at, value = int(rng.integers(4)), str(rng.choice(_VALUES))
            for row in rows[1:]:
                if at < len(row):
                    row[at] = value
        quote = rng.random() < 0.2
        ends = str(rng.choice(["\n", "\r\n", "\r", "\n\n"], p=[0.8, 0.1, 0.05, 0.05]))
        text = ends.join(delimiter.join(f'"{one}"' if quote else one for one in row) for row in rows)
        text += ends if rng.random() < 0.8 else ""
        if rng.random() < 0.01:
            text += '"' + "x" * 140_000
        raw = text.encode(str(rng.choice(_ENCODINGS, p=[0.6] + [0.05] * 8)), errors="replace")
        if rng.random() < 0.5:
            raw = _changed_bytes(rng, raw)
        if rng.random() < 0.1:
            raw = (
                _changed_bytes(rng, gzip.compress(raw, mtime=0)) if rng.random() < 0.6 else gzip.compress(raw, mtime=0)
            )
        return raw

    def _json_bytes(self, rng: np.random.Generator) -> bytes:
        rows: list[Any] = []
        for _ in range(int(rng.integers(0, 30))):
            row = {"user": f"u{rng.integers(5)}", "item": int(rng.integers(6)), "rating": int(rng.integers(1, 6))}
            row["time"] = f"2024-01-{rng.integers(1, 29):02d}"
            if rng.random() < 0.1:
                row[str(rng.choice(list(row)))] = _JSON_VALUES[rng.integers(len(_JSON_VALUES))]
            if rng.random() < 0.05:
                del row[str(rng.choice(list(row)))]
            rows.append(row if rng.random() < 0.99 else _JSON_VALUES[rng.integers(len(_JSON_VALUES))])
        if rng.random() < 0.1:  # one kind of odd value in a whole column
            name, value = str(rng.choice(["user", "item", "time"])), _JSON_VALUES[rng.integers(len(_JSON_VALUES))]
            rows = [{**row, name: value} if isinstance(row, dict) else row for row in rows]
        ascii_only = bool(rng.random() < 0.5)
        text = str(rng.choice(["\n", "\r\n", "\n\n"])).join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
        raw = text.encode(str(rng.choice(_ENCODINGS, p=[0.6] + [0.05] * 8)), errors="replace")
        raw = _changed_bytes(rng, raw) if rng.random() < 0.4 else raw
        return gzip.compress(raw, mtime=0) if rng.random() < 0.1 else raw

    def _frame_of(self, rng: np.random.Generator) -> pl.DataFrame:
        n = int(rng.integers(0, 30))
        types = [
            pl.Int64,
            pl.String,
            pl.Int128,
            pl.Decimal(30, 4),
            pl.UInt64,
            pl.Float64,
            pl.Boolean,
            pl.Date,
            pl.Binary,
            pl.Categorical,
            pl.List(pl.Int64),
            pl.Datetime("ns"),
            pl.Time,
            pl.Duration,
            pl.Null,
            pl.Int8,
        ]
        columns = {}
        for name in ("user", "item", "rating", "time"):
            series = pl.Series(name, rng.integers(0, 6, n), dtype=pl.Int64)
            if rng.random() < 0.5:
                wanted = types[rng.integers(len(types))]
                with contextlib.suppress(pl.exceptions.PolarsError):
                    series = (
                        series.cast(pl.String).cast(wanted)
                        if wanted in (pl.Binary, pl.Categorical)
                        else series.cast(wanted)
                    )
            if rng.random() < 0.1 and n:
                series = pl.select(pl.when(pl.Series(rng.random(n) < 0.8)).then(series)).to_series()
            columns[name] = series.alias(name)
        return pl.DataFrame(list(columns.values()))

    def _arguments(self, rng: np.random.Generator, text: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = {"threads": 1}
        if rng.random() < 0.3:
            found |= {"rating": "rating", "min_rating": float(rng.choice([0.0, 4.0, 1e308]))}
        if rng.random() < 0.3:
            found["weight"] = "rating"
        if rng.random() < 0.4:
            found["timestamp"] = "time"
            if rng.random() < 0.2:
                found["date_format"] = str(rng.choice(["%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d", "%Q", "%", "x", "%Y"]))
        if rng.random() < 0.1:
            found["duplicates"] = str(rng.choice(["last", "max", "error"]))
        if text:
            if rng.random() < 0.2:
                found["delimiter"] = str(rng.choice([*_DELIMITERS, '"', "", "\n", "é"]))
            if rng.random() < 0.2:
                found["header"] = bool(rng.random() < 0.5)
                if not found["header"] and rng.random() < 0.7:
                    found |= {"user": int(rng.integers(0, 4)), "item": int(rng.integers(0, 6))}
            if rng.random() < 0.3:
                found["encoding"] = _GIVEN_ENCODINGS[rng.integers(len(_GIVEN_ENCODINGS))]
        return found

    def _read(self, path: Path, arguments: dict[str, Any], save: bool) -> None:
        data = Interactions.from_file(path, **arguments)
        if save:
            self._round_trip(data, 0)

    def _round_trip(self, data: Interactions, number: int) -> None:
        if number % 4:
            data.fingerprint()
            return
        path = self._folder / "round.model"
        EASE(threads=1).fit(data).save(path)
        try:
            assert load(path).train_.users == data.users
        except ModelFileError as problem:
            raise AssertionError("a model that was just saved cannot be opened") from problem

    def _written(self, number: int, ending: str, raw: bytes) -> Path:
        path = self._folder / f"t{number % 50}{ending}"
        path.write_bytes(raw)
        return path


def _changed_bytes(rng: np.random.Generator, raw: bytes) -> bytes:
    """Some bytes replaced, removed, repeated, or the end cut off."""
    changed = bytearray(raw)
    for _ in range(int(rng.integers(0, 4))):
        if not changed:
            break
        at, kind = int(rng.integers(len(changed))), rng.random()
        if kind < 0.4:
            changed[at] = int(rng.integers(256))
        elif kind < 0.6:
            del changed[at : at + int(rng.integers(1, 20))]
        elif kind < 0.8:
            changed[at:at] = bytes(rng.choice(list(b'",;\t\n\r\x00\xff\xe9:|'), int(rng.integers(1, 5))).tolist())
        else:
            del changed[at:]
    return bytes(changed)
