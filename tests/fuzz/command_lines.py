"""Command lines made of known commands and flags with odd values, run in this process."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
from tests.fuzz.tables import Outcome

from tastespace import DPCML, EASE, Interactions
from tastespace.cli import main

_NUMBERS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1.5",
    "1e308",
    "-1e308",
    "nan",
    "inf",
    "1000000000",
    str(2**31),
    str(2**63),
    "9" * 40,
    "50000",
    "none",
    "",
    "x",
    "0.5",
    "1e-320",
    "9" * 5000,
]
_WORDS = [
    "",
    "x",
    "item",
    "user",
    "title",
    "genres",
    "year",
    "1",
    "2",
    "99",
    "é",
    "\udcff",
    "-",
    "a b",
    "a,b",
    '"',
    "[1]",
    "../..",
    "/dev/null",
    ".",
    "*",
    "c*.csv",
    "%20",
    "~",
    "~nobody/x",
    "x" * 300,
    "x" * 5000,
    "None",
    "u1",
    "i1",
]
_FILTERS = [
    "year >= 1990",
    "year",
    "title LIKE '%a%'",
    "lpad(title, 2000000000, 'x') = 'x'",
    " OR ".join(["year=1"] * 10_000),
    "((((",
    "year = ",
    "1",
    "\udcff",
    "",
    "SELECT 1",
    "year / 0 > 1",
    "title = title || title",
    "NOT " * 5000 + "true",
    "abs(year)",
    "foo(year)",
    "year IN (1990, 1991)",
    "year::int > 3",
    "1=1",
    "-- x",
    "year = 1;",
    "CAST(title AS INT)=1",
    "array_contains(genres, 'a')",
    "genres = 1",
    "item = 'i1'",
    "x.y = 1",
    "*",
    "count(*) > 1",
    "sum(year) > 1",
]
_SETTINGS = [
    "dim=",
    "n_interests=",
    "n_negatives=",
    "block_size=",
    "epochs=",
    "learning_rate=",
    "threads=",
    "seed=",
    "checkpoint=",
    "dcrs=",
    "n_hardest=",
    "margin=",
    "radius=",
    "average=",
    "log_file=",
    "sampler=",
    "beta=",
    "anchor=",
    "monitor=",
    "min_interests=",
    "log_base=",
    "patience=",
    "gamma_rate=",
    "spread_weight=",
    "min_spread=",
    "max_spread=",
    "popularity_power=",
    "geometry=",
    "nothing=",
    "=",
    "",
    "regularization=",
    "n_neighbors=",
    "max_minutes=",
]
_SETTING_VALUES = [*_NUMBERS, "[1]", "{}", '{"a": 1}', "[", "true", "hard", "uniform", "5", "mean", "[" * 5000]
_FLAGS: dict[str, dict[str, list[str]]] = {
    "recommend": {
        "-k": _NUMBERS,
        "--history": ["i1,i2", '"i1', "", ",", "zzz", "\udcff", '"a,b",i1'],
        "--history-file": ["h.txt", "bad.gz", "x"],
        "--features": ["clicks.csv", "bad.gz", "x"],
        "--filter": _FILTERS,
        "--item": ["i1", *_WORDS],
        "--on-unknown": ["error", "skip", "popular", "x"],
        "--rerank": ["dd", "pd", "mmr", "dpp", "calibrated", "x"],
        "--weight": _NUMBERS,
        "--pool": _NUMBERS,
        "--mix": ["nearest", "scaled", "proportional", "calibrated", "x"],
        "--diversity": _NUMBERS,
        "--column": _WORDS,
        "--mute": _NUMBERS,
        "--boost": ["0=2", "0=1e308", "0=nan", "x", "0=", "=1", "1=-1", "9999999999999999999999=1"],
        "--format": ["csv", "json", "jsonl", "parquet", "table", "x"],
        "--out": ["o.csv", "o[1].parquet", "o.x", "no/o.csv", *_WORDS],
        "--threads": _NUMBERS,
        "--delimiter": [",", ";", "tab", "", "é"],
        "--encoding": ["utf-8", "cp1252", "utf-16", "x", ""],
    },
    "shelves": {
        "-k": _NUMBERS,
        "--each": ["0=3", "x", "0=-1", "0=99999999999"],
        "--mute": _NUMBERS,
        "--boost": ["0=2", "0=1e308"],
        "--filter": _FILTERS,
        "--column": _WORDS,
        "--format": ["csv", "json", "x"],
    },
    "interests": {"-k": _NUMBERS, "--column": _WORDS, "--format": ["csv", "json", "jsonl"]},
    "explain": {"-k": _NUMBERS, "--format": ["csv", "json", "jsonl", "parquet"]},
    "similar": {"-k": _NUMBERS, "--users": [], "--format": ["csv", "json"]},
    "evaluate": {
        "-k": _NUMBERS,
        "--user": _WORDS,
        "--item": _WORDS,
        "--protocol": ["full", "paper", "x"],
        "--metric": ["NDCG@5", "P", "NDCG@0", "NDCG@x", "@", "P@99999999999999999999", "x", "MAP"],
        "--tastes": [],
        "--seen": ["clicks.csv", "bad.gz", "x"],
        "--items": ["items.csv", "bad.gz", "x"],
        "--items-id": _WORDS,
        "--column": _WORDS,
        "--on-unknown": ["error", "skip", "x"],
        "--delimiter": [",", ";", "tab", "", "é", '"'],
        "--no-header": [],
        "--encoding": ["utf-8", "cp1252", "utf-16", "x", ""],
        "--threads": _NUMBERS,
    },
    "export": {"--kind": ["npz", "parquet", "faiss", "x"]},
    "inspect": {"--verify": [], "--format": ["json", "table", "csv"]},
    "fit": {
        "--model": [
            "dpcml",
            "ease",
            "popular",
            "itemknn",
            "als",
            "bpr",
            "x",
            "blend:dpcml+ease",
            "blend:",
            "sparse-ease",
            "spectral",
            "",
        ],
        "--set": [],
        "--user": ["user", "user", *_WORDS],
        "--item": ["item", *_WORDS],
        "--rating": ["rating", *_WORDS],
        "--min-rating": _NUMBERS,
        "--weight": ["rating", *_WORDS],
        "--timestamp": ["time", *_WORDS],
        "--min-user": _NUMBERS,
        "--min-item": _NUMBERS,
        "--items": ["items.csv", "bad.gz", "x"],
        "--items-id": ["item", *_WORDS],
        "--users": ["clicks.csv", "x"],
        "--valid": _NUMBERS,
        "--seed": _NUMBERS,
        "--threads": _NUMBERS,
        "--delimiter": [",", ";", "tab", ""],
        "--no-header": [],
        "--encoding": ["utf-8", "cp1252", "x"],
        "--date-format": ["%d/%m/%Y", "%Y-%m-%d", "x"],
    },
    "models": {"--format": ["csv", "json", "x"]},
    "datasets": {"--format": ["csv", "json", "x"]},
}


class Commands:
    """Case ``number`` of a seed is always the same."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._folder, self._seed = folder, seed
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(seed)
        pairs = sorted(
            {(int(u), int(i)) for u, i in zip(rng.integers(0, 12, 90), rng.integers(0, 15, 90), strict=True)}
        )
        pairs += [(12, i) for i in range(15)]  # a user who has every item
        rows = "".join(f"u{u},i{i},{1 + i % 5},0{1 + i % 9}/02/2024\n" for u, i in pairs)
        (folder / "clicks.csv").write_text(f"user,item,rating,time\n{rows}")
        (folder / "items.csv").write_text(
            "item,title,genres,year\n" + "".join(f"i{i},a{i},{'a|b' if i % 2 else 'c'},{1985 + i}\n" for i in range(15))
        )
        (folder / "h.txt").write_text('i1,i2\n"i3"\n')
        (folder / "bad.gz").write_bytes(b"\x1f\x8b\x08\x00abc")
        from tastespace.cli.arguments import read_attributes

        data = Interactions.from_file(
            folder / "clicks.csv", item_attributes=read_attributes(folder / "items.csv", "item", "item")
        )
        DPCML(dim=4, epochs=2, n_interests=2, threads=1).fit(data).save(folder / "d.model")
        EASE(threads=1).fit(data).save(folder / "e.model")

    def arguments(self, number: int) -> list[str]:
        """The command line of a case."""
        rng = np.random.default_rng([self._seed, 2, number])
        command = str(rng.choice(list(_FLAGS), p=[0.28, 0.1, 0.06, 0.08, 0.06, 0.12, 0.04, 0.03, 0.19, 0.02, 0.02]))
        pick = lambda values: str(values[int(rng.integers(len(values)))])  # noqa: E731
        model = pick(["d.model"] * 5 + ["e.model"] * 3 + _WORDS[:3] + ["clicks.csv", "x" * 300])
        user, item = pick(["u1", "u2", "u12", *_WORDS]) if rng.random() < 0.3 else "u1", pick(["i1", "i2", "zzz"])
        found = {
            "recommend": [model, *([user] if rng.random() < 0.7 else [])],
            "shelves": [model, user],
            "interests": [model, user],
            "explain": [model, user, item],
            "similar": [model, item],
            "evaluate": [model, pick(["clicks.csv"] * 4 + ["items.csv", "bad.gz", "x"])],
            "export": [model, pick(["v", "v.npz", *_WORDS])],
            "inspect": [model],
            "fit": [pick(["clicks.csv"] * 6 + ["items.csv", "bad.gz", "c*.csv", "x"]), "--out", f"m{number}.model"],
        }.get(command, [])
        flags = list(_FLAGS[command])
        for _ in range(int(rng.integers(0, 4))):
            flag = pick(flags)
            if flag == "--set":
                found += ["--set", pick(_SETTINGS) + pick(_SETTING_VALUES)]
            else:
                found += [flag, *([pick(_FLAGS[command][flag])] if _FLAGS[command][flag] else [])]
        if command == "fit":
            if "--model" not in found:
                found += ["--model", pick(["dpcml", "ease", "popular"])]
            if found[found.index("--model") + 1] in ("dpcml", "bpr"):
                found += ["--set", "epochs=1"] if not any(one.startswith("epochs=") for one in found) else []
                found += ["--set", "max_minutes=0.01"]
        return [command, *found]

    def run(self, number: int) -> Outcome:
        """Run a case in its folder."""
        import os

        arguments = self.arguments(number)
        what = (
            " ".join(one if len(one) < 100 else f"{one[:60]}...({len(one)})" for one in arguments)
            .encode("utf-8", "backslashreplace")
            .decode()
        )
        kept = (
            sys.argv,
            sys.stdout,
            sys.stderr,
            Path.cwd(),
            warnings.showwarning,
            logging.getLogger("tastespace").handlers[:],
        )
        sys.argv = ["tastespace", *arguments]
        sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        os.chdir(self._folder)
        try:
            with warnings.catch_warnings():
                main()
        except SystemExit as leaving:
            context = leaving.__context__
            code = leaving.code or 0
            if code not in (0, 2) or (code == 1 and context is not None):
                return Outcome("raw", what, f"exit code {code} ({context!r})")
            return Outcome(f"exit {code}", what)
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            return Outcome("raw", what, f"{type(problem).__module__}.{type(problem).__name__}: {str(problem)[:300]}")
        finally:
            sys.argv, sys.stdout, sys.stderr, before, warnings.showwarning, logging.getLogger("tastespace").handlers = (
                kept
            )
            os.chdir(before)
        return Outcome("returned", what)
