"""Texts that a spreadsheet would take for formulas: `=HYPERLINK(...)` in a title runs when it opens a CSV file."""

from __future__ import annotations

import polars as pl

_FORMULA = r"^[=+\-@\t\r\n]"


def formula_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with an apostrophe before each text that starts like a formula; numbers are numbers and stay.

    Spreadsheets show such a cell as text. Other programs see the apostrophe, so this is not the default.

    >>> formula_safe(pl.DataFrame({"title": ["=1+1", "jam"], "score": [-1.0, 2.0]}))["title"].to_list()
    ["'=1+1", 'jam']
    """

    def safe(text: pl.Expr) -> pl.Expr:
        return pl.when(text.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)

    changed = []
    for column in frame:
        if column.dtype in (pl.String, pl.Categorical, pl.Enum):
            changed.append(safe(pl.col(column.name).cast(pl.String)).alias(column.name))
        elif column.dtype == pl.List(pl.String):
            joined = pl.col(column.name).list.join("|")
            changed.append(safe(joined).alias(column.name))
    return frame.with_columns(changed)
