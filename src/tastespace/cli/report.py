"""`tastespace report`: what the lists of a server have brought in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from tastespace.cli.output import FORMAT_HELP, Format, emit, is_table_output, show
from tastespace.errors import ParameterError

if TYPE_CHECKING:
    from tastespace.online.report import Report


def report(
    store: Annotated[str, typer.Argument(help="Feedback store of a server: a file of SQLite, or postgresql://...")],
    since: Annotated[str | None, typer.Option(help="Only lists shown since: 2026-05-01, or with a time.")] = None,
    conversion: Annotated[
        list[str] | None, typer.Option(help="Kind of event that is a conversion; by default purchase; may be repeated.")
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="Probability that a comparison is ever wrong; intervals hold with 1 - alpha.")
    ] = 0.05,
    planned_users: Annotated[
        int, typer.Option(help="Users of both arms near which a comparison is sharpest; fixed beforehand.", min=100)
    ] = 2_000,
    out: Annotated[Path | None, typer.Option(help="File of the rates: .json, .jsonl, .csv, .parquet.")] = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP + " json has all tables, the others the rates.")] = (
        Format.auto
    ),
) -> None:
    """Report click-through and conversion of the lists of a server: by arm, model, rank and taste, with intervals.

    Events are attributed by the id of the answer that they name (recommendation in POST /v1/feedback). Arms of an
    experiment are compared by a test that may be looked at every day. Where the server explored (--explore), the values
    of the lists as ranked, and of the items below, are estimated from the probabilities in the log.
    """
    from tastespace.online.report import CONVERSIONS
    from tastespace.online.report import report as made
    from tastespace.serve.feedback.store import open_feedback_store

    if "://" not in store and not Path(store).exists():
        raise ParameterError(f"{store}: there is no such file. Give the --store of the server.")
    if not 0 < alpha < 1:
        raise ParameterError(f"--alpha {alpha}: expected a number between 0 and 1, such as 0.05.")
    opened = open_feedback_store(store)
    try:
        kinds = tuple(conversion or CONVERSIONS)
        found = made(opened, since=_microseconds(since), conversions=kinds, alpha=alpha, planned=planned_users)
    finally:
        opened.close()
    if is_table_output(format, out):
        _show(found)
    elif out is None and format is Format.json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        emit(found.rates, format, out)


def _microseconds(text: str | None) -> int:
    if text is None:
        return 0
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ParameterError(f"--since {text}: expected a date or time in ISO form, such as 2026-05-01.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return int(moment.timestamp() * 1e6)


def _show(found: Report) -> None:
    shown = found.rates.select(
        "by",
        "value",
        "lists",
        "users",
        pl.Series("clicked %", [_percent(row, "ctr") for row in found.rates.iter_rows(named=True)]),
        pl.Series("converted %", [_percent(row, "conversion") for row in found.rates.iter_rows(named=True)]),
    )
    show(shown, "Lists; of ranks and tastes, places in lists. Intervals are between users.")
    if len(found.comparisons):
        show(
            found.comparisons.select(
                pl.format("{} against {}", "second", "first").alias("arms"), "metric",
                pl.Series("difference %", [_difference(row) for row in found.comparisons.iter_rows(named=True)]),
                "p_value", "verdict",
            ),
            "Valid whenever it is looked at.",
        )  # fmt: skip
    if len(found.policies):
        show(found.policies, "Clicks per place where exploration may draw.")
    named = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in found.counts.items())
    typer.echo(f"events that name a list: {named}")


def _percent(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return "-"
    return f"{100 * row[name]:.2f} ({100 * row[f'{name}_low']:.2f} to {100 * row[f'{name}_high']:.2f})"


def _difference(row: Mapping[str, Any]) -> str:
    if row["low"] <= -1:
        return "-"
    return f"{100 * row['difference']:+.2f} ({100 * row['low']:+.2f} to {100 * row['high']:+.2f})"
