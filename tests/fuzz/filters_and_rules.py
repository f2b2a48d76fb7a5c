"""Filters and rules (TOML files) made of known words and odd values, given to `recommend`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.fuzz.tables import Outcome, outcome_of

from tastespace import (
    EASE,
    Interactions,
    Rules,
    synthetic,
)

_COLUMNS = ["year", "title", "genres", "price", "since", "stock", "item", "nothing", '"year"', "`title`", "x.y"]
_VALUES = [
    "1", "0", "-1", "1.5", "1e400", "'a'", "''", "'%'", "NULL", "TRUE", "'2024-01-01'", "DATE '2024-01-01'", "9" * 30,
    "'\\udcff'", "'a''b'", "'\x00'", "[1]", "INTERVAL '1 day'", "ARRAY[1]", "x'00'", "1/0", "'" + "x" * 500 + "'", ".5",
]  # fmt: skip
_OPERATORS = [
    "=",
    "<",
    ">=",
    "<>",
    "LIKE",
    "ILIKE",
    "RLIKE",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "AND",
    "OR",
    "IS",
    "^",
    "~",
]
_OPERATORS += [
    "CONTAINS",
    "NOT CONTAINS",
    "IS NOT NULL AND",
    "NOT IN",
    "NOT BETWEEN",
    "IN",
    "BETWEEN",
    "IS NOT",
    "NOT LIKE",
    "->",
    "::",
    "COLLATE",
    "&",
    "XOR",
    "<=>",
    "DIV",
    ",",
    ";",
    "--",
]
_FUNCTIONS = [
    "abs", "lower", "length", "substr", "round", "coalesce", "cast", "array_contains", "strftime", "regexp_like",
    "concat",
    "lpad", "repeat", "sum", "count", "read_csv", "if", "date_part", "split_part", "nullif", "log", "sqrt", "pow",
    "left",
    "try_cast", "starts_with", "week", "extract", "greatest", "ord", "sign", "mod", "string_to_array", "exp", "foo",
]  # fmt: skip
_RULE_VALUES: list[Any] = [
    0, 1, 3, -1, 10**12, 2**70, 0.5, 1.5, -0.1, float("nan"), float("inf"), True, "x", "", "year", "genres", "stock",
    "since", "title", [], [1], ["a"], [None], [[1]], [1, "a"], {}, {"genres": 1}, {"brand": 2}, {"genres": 0},
    {"x": -1},
    {1: 3}, {0: 3}, {"1": 3}, {10**9: 2}, date(2024, 1, 1), "2024-01-01", "2024-13-45", [3, 3], list(range(20)), b"x",
]  # fmt: skip
_RULES = ["max_per", "exclude", "include", "in_stock", "pinned", "min_new_share", "new", "new_days", "max_age_days"]
_RULES += ["time", "now"]


class FiltersAndRules:
    """Case ``number`` of a seed is always the same: a filter if it is even, rules otherwise."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._folder, self._seed = folder, seed
        folder.mkdir(parents=True, exist_ok=True)
        data = synthetic.multi_interest(n_users=8, n_items=20, n_interactions=80, seed=1).interactions
        about = pl.DataFrame(
            {
                "item": data.items.series,
                "year": range(1990, 2010),
                "title": [f"a{i}" for i in range(20)],
                "genres": [["a", "b"], ["c"]] * 10,
                "price": [0.5 * i for i in range(20)],
                "since": pl.date_range(date(2024, 1, 1), date(2024, 1, 20), "1d", eager=True),
                "stock": [i % 3 for i in range(20)],
            }
        )
        frame = data.to_frame()
        self._model = EASE(threads=1).fit(Interactions.from_frame(frame, item_attributes=about))
        self._users = self._model.train_.users.series.to_list()[:3]

    def run(self, number: int) -> Outcome:
        """Make lists with a filter or with rules."""
        rng = np.random.default_rng([self._seed, 5, number])
        if number % 2 == 0:
            text = _condition(rng, int(rng.integers(0, 5)))
            return outcome_of(
                f"filter {text[:300]!r}", lambda: self._model.recommend(self._users, k=3, filter=text, threads=1)
            )
        if rng.random() < 0.3:
            return self._from_file(rng, number)
        together = [["new", "min_new_share"], ["new_days", "time", "min_new_share"], ["max_age_days", "time"], []]
        names = rng.choice(_RULES[:5], int(rng.integers(0, 3)), replace=False).tolist()
        names += together[int(rng.integers(4))] if rng.random() < 0.8 else [str(rng.choice(_RULES))]
        rules = {name: _rule_value(rng, name) for name in names}
        k = int(rng.choice([1, 3, 10, 30]))
        return outcome_of(
            f"rules {rules}", lambda: self._model.recommend(self._users, k=k, rules=Rules(**rules), threads=1)
        )

    def _from_file(self, rng: np.random.Generator, number: int) -> Outcome:
        lines = []
        for name in rng.choice([*_RULES, "brand", ""], int(rng.integers(1, 4))).tolist():
            values = [
                "1",
                "0.5",
                '"year"',
                '["a"]',
                "[1, 2]",
                "{genres = 1}",
                "nan",
                "2024-01-01",
                "{1 = 3}",
                "true",
                "[",
            ]
            lines.append(f"{name} = {values[int(rng.integers(len(values)))]}")
        raw = bytearray("\n".join(lines).encode())
        if rng.random() < 0.3 and raw:
            raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
        path = self._folder / f"r{number % 50}.toml"
        path.write_bytes(raw)
        return outcome_of(
            f"rules of {bytes(raw)!r}",
            lambda: self._model.recommend(self._users, k=3, rules=Rules.from_file(path), threads=1),
        )


def _rule_value(rng: np.random.Generator, name: str) -> Any:
    """Mostly of the right kind, so that rules meet each other."""
    if rng.random() < 0.12:
        return _RULE_VALUES[int(rng.integers(len(_RULE_VALUES)))]
    ids = rng.integers(0, 25, int(rng.integers(0, 6))).tolist()
    right: dict[str, list[Any]] = {
        "max_per": [{"genres": 1}, {"genres": 2, "year": 1}, {"title": 1}, {}],
        "pinned": [ids, {1: 3}, {2: 4, 9: 5}, {30: 1}],
        "min_new_share": [0, 0.3, 0.5, 1],
        "new_days": [0, 3, 1e9],
        "max_age_days": [0, 5, 1e300],
        "time": ["since", "year", "title"],
        "now": ["2024-01-10", date(2024, 1, 10), 1.7e9],
        "new": ["stock", ids],
        "in_stock": ["stock", ids],
    }
    values = right.get(name, [ids])
    return values[int(rng.integers(len(values)))]


def _condition(rng: np.random.Generator, depth: int) -> str:
    pick = lambda values: str(values[int(rng.integers(len(values)))])  # noqa: E731
    kind = rng.random()
    if depth and rng.random() < 0.5:  # one that is likely to be a condition
        column = pick(["year", "price", "stock"])
        value = pick(["1", "0.5", "1995", "price", "abs(year)", "NULL"])
        return pick(
            [
                f"{column} {pick(['=', '<', '>=', '<>'])} {value}",
                f"{column} {pick(['IN', 'NOT IN'])} (1, {value}, {pick(_VALUES)})",
                f"{column} {pick(['BETWEEN', 'NOT BETWEEN'])} {value} AND {pick(_VALUES)}",
                f"genres {pick(['CONTAINS', '=', '!='])} {pick(_VALUES)}",
                f"title {pick(['LIKE', 'ILIKE', 'NOT LIKE', 'CONTAINS'])} {pick(_VALUES)}",
                f"{pick(_COLUMNS)} IS {pick(['NULL', 'NOT NULL'])}",
                f"since {pick(['=', '<', '>='])} {pick(_VALUES)}",
            ]
        )
    if depth <= 0 or kind < 0.15:
        return pick(_COLUMNS) if rng.random() < 0.5 else pick(_VALUES)
    if kind < 0.65:
        parts = (_condition(rng, depth - 1), pick(_OPERATORS), _condition(rng, depth - 2))
        return " ".join(parts)
    if kind < 0.85:
        arguments = ", ".join(_condition(rng, depth - 2) for _ in range(int(rng.integers(0, 4))))
        return f"{pick(_FUNCTIONS)}({arguments})"
    if kind < 0.93:
        return f"({_condition(rng, depth - 1)})"
    changed = list(_condition(rng, depth - 1))
    for _ in range(int(rng.integers(1, 3))):
        changed.insert(
            int(rng.integers(len(changed) + 1)), pick(list("()[]'\"`,.;:\\\x00é\u202e%_- ") + ["NOT ", "CASE "])
        )
    return "".join(changed)
