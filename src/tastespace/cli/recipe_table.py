"""What the default recipe tried, as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tastespace.recipe import RecipeReport


def print_recipe(report: RecipeReport, console: Console) -> None:
    """The best model of each kind with its weight in the blend, why that was chosen, and the sentence about tastes."""
    if report.trials:
        console.print(_table(report))
        console.print(escape(report.reason), highlight=False)
    for line in (report.tastes, *report.notes):
        console.print(escape(line), highlight=False)


def _table(report: RecipeReport) -> Table:
    by_category = any(row["MinorityRecall@20"] is not None for row in report.trials)
    title = f"{len(report.trials)} models tried on held-out data, the best of each kind"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("kind", no_wrap=True)
    table.add_column("tried", justify="right")
    table.add_column("best", overflow="fold")
    for name in ("NDCG@10", "R@20", *(["minority"] if by_category else []), "weight"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in dict.fromkeys(row["family"] for row in report.trials):
        rows = [row for row in report.trials if row["family"] == family]
        best = max(rows, key=_order)
        figures = [f"{best[name]:.4f}" for name in ("NDCG@10", "R@20")]
        if by_category:
            figures.append("" if best["MinorityRecall@20"] is None else f"{best['MinorityRecall@20']:.4f}")
        weight = "" if best["weight"] is None else f"{100 * best['weight']:.0f} %"
        name = escape(best["model"].replace("(", " (", 1))
        table.add_row(family, str(len(rows)), name, *figures, weight, style="bold" if best["weight"] else "")
    return table


def _order(row: dict[str, Any]) -> tuple[bool, float]:
    """Members of the blend first, which are the best of their kind; else by accuracy."""
    return row["weight"] is not None, row["NDCG@10"] * row["R@20"]
