"""Which SQL conditions a filter may be: limits on length and nesting, and the functions that are allowed.

The SQL engine parses and evaluates recursively, so a condition of some thousand terms ends the process, and a function
such as lpad makes texts of any length. A filter may come from a request over the network, so both end here.
"""

from __future__ import annotations

import re

from tastespace.errors import DataError, nearest

MOST_CHARACTERS = 20_000
MOST_TERMS = 200
"""Operators and words such as AND, NOT, BETWEEN: what the engine nests. A list behind IN is one."""
MOST_NESTED = 20

FUNCTIONS = frozenset(
    [
        "abs",
        "array_contains",
        "array_length",
        "array_max",
        "array_mean",
        "array_min",
        "array_sum",
        "bit_length",
        "cast",
        "ceil",
        "ceiling",
        "char_length",
        "character_length",
        "coalesce",
        "concat",
        "concat_ws",
        "contains",
        "date",
        "date_part",
        "datepart",
        "day",
        "ends_with",
        "exp",
        "extract",
        "floor",
        "greatest",
        "hour",
        "if",
        "ifnull",
        "initcap",
        "least",
        "left",
        "length",
        "ln",
        "log",
        "log10",
        "log2",
        "lower",
        "ltrim",
        "minute",
        "mod",
        "month",
        "nullif",
        "octet_length",
        "ord",
        "pow",
        "power",
        "quarter",
        "regexp_like",
        "reverse",
        "right",
        "round",
        "rtrim",
        "second",
        "sign",
        "split_part",
        "sqrt",
        "starts_with",
        "strftime",
        "string_to_array",
        "strpos",
        "substr",
        "substring",
        "trim",
        "try_cast",
        "upper",
        "week",
        "year",
    ]
)
"""The functions that a filter may call: each gives about as much as it is given."""

# Words that stand in front of a parenthesis without being functions.
_BEFORE_PARENTHESIS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "like",
        "ilike",
        "rlike",
        "regexp",
        "between",
        "when",
        "then",
        "else",
        "case",
        "is",
        "any",
        "all",
    ]
)
_TYPES = frozenset(
    [
        "varchar",
        "char",
        "text",
        "decimal",
        "numeric",
        "float",
        "timestamp",
        "time",
        "datetime",
        "int",
        "integer",
        "bigint",
        "double",
    ]
)
_TERMS = frozenset(
    ["and", "or", "not", "xor", "between", "when", "like", "ilike", "rlike", "regexp", "is", "in", "div", "collate"]
)
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>[^\W\d]\w*|"(?:[^"]|"")*"|`[^`]*`)
    |(?P<number>\d[\w.]*|\.\d\w*)
    |(?P<open>[(\[])|(?P<close>[)\]])
    |(?P<operator><=>|<>|!=|<=|>=|==|\|\||::|->>|->|[-+*/%=<>~!^&|@#])
    |(?P<other>[,.:;])""",
    re.VERBOSE,
)


def require_plain_condition(text: str) -> None:
    """Raise `DataError` unless this is a condition within the limits that calls only allowed functions.

    >>> require_plain_condition("year >= 1990 AND lower(title) LIKE '%jam%'")
    >>> require_plain_condition("lpad(title, 2000000000, 'x') = 'x'")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tastespace.errors.DataError: a filter cannot call 'lpad'. It may call abs, ..., year.
    """
    if len(text) > MOST_CHARACTERS:
        raise DataError(
            f"the filter has {len(text):,} characters, at most {MOST_CHARACTERS:,} are allowed. Name items with items= "
            "(--item), or give a polars expression or a function."
        )
    at = depth = n_terms = 0
    before = ("space", "")
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise DataError(f"the filter cannot be read at {text[at : at + 20]!r}: expected an SQL condition.")
        kind, token, at = str(found.lastgroup), found.group(), found.end()
        if kind == "space":
            continue
        if token in ("-", "/") and text[at : at + 1] in ("-", "*") and text[at - 1 : at + 1] in ("--", "/*"):
            raise DataError("a filter cannot hold comments (-- or /*).")
        if kind == "text" and before[0] == "name" and text[found.start() - 1 : found.start()] == before[1][-1:]:
            raise DataError(f"a filter cannot hold a text with a prefix ({before[1]}'...').")
        word = token.lower()
        if word in ("select", "with"):
            raise DataError("a filter is a condition, without SELECT.")
        n_terms += kind == "operator" or word in _TERMS
        if kind == "open":
            depth += 1
            if token == "(" and before[0] == "name":
                _require_allowed(before[1])
        depth -= kind == "close"
        if n_terms > MOST_TERMS or depth > MOST_NESTED:
            raise DataError(
                f"the filter has more than {MOST_TERMS} terms or {MOST_NESTED} parentheses inside each other. Write it "
                "with IN (...), name items with items= (--item), or give a polars expression or a function."
            )
        before = (kind, token)


def _require_allowed(name: str) -> None:
    plain = name.strip('"`').lower()
    known = FUNCTIONS | _TYPES
    if plain not in known and (plain not in _BEFORE_PARENTHESIS or name[0] in '"`'):
        raise DataError(
            f"a filter cannot call {plain!r}.{nearest(plain, FUNCTIONS)} It may call {', '.join(sorted(FUNCTIONS))}."
        )
