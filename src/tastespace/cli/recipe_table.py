"""What the default recipe tried, as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from tastespace.recipe import RecipeReport
from tastespace.terminal import Console


def print_recipe(report: RecipeReport, console: Console) -> None:
    """The best model of each kind with its weight in the blend, why that was chosen, and the sentence about tastes."""
    if report.trials:
        console.print(_table(report))
        console.print(escape(report.reason), highlight=False)
    for line in (report.tastes, *report.notes):
        console.print(escape(line), highlight=False)


def _table(report: RecipeReport) -> Table:
    by_category = any(row["MinorityRecall@20"] is not None for row in report.trials)
    what = f" ({report.held_out})" if report.held_out else ""
    title = f"{len(report.trials)} models tried on held-out data{what}, the best of each kind"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("kind", no_wrap=True)
    table.add_column("tried", justify="right")
    table.add_column("best", overflow="fold")
    for name in ("NDCG@10", "R@20", *(["minority"] if by_category else []), "weight"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in dict.fromkeys(row["family"] for row in report.trials):
        rows = [row for row in report.trials if row["family"] == family]
        best = max(rows, key=_order)
        weight = "" if best["weight"] is None else f"{100 * best['weight']:.0f} %"
        name = escape(best["model"].replace("(", " (", 1))
        table.add_row(
            family, str(len(rows)), name, *_figures(best, by_category), weight, style="bold" if best["weight"] else ""
        )
    table.add_section()
    blend = report.blend["figures"]
    chosen = {"NDCG@10": blend["ndcg"], "R@20": blend["recall"], "MinorityRecall@20": blend["minority"]}
    table.add_row("chosen blend", "", "", *_figures(chosen, by_category), "100 %", style="bold")
    for row in report.references:
        table.add_row("to compare", "", escape(row["label"]), *_figures(row, by_category), "", style="dim")
    return table


def _figures(row: dict[str, Any], by_category: bool) -> list[str]:
    names = ("NDCG@10", "R@20", *(["MinorityRecall@20"] if by_category else []))
    return ["" if row[name] is None else f"{row[name]:.4f}" for name in names]


def _order(row: dict[str, Any]) -> tuple[bool, float]:
    """Members of the blend first, which are the best of their kind; else by accuracy."""
    return row["weight"] is not None, row["NDCG@10"] * row["R@20"]
