"""What the default recipe tried, as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tastespace.recipe import RecipeReport


def print_recipe(report: RecipeReport, console: Console) -> None:
    """The trials, those in the blend marked by their weight, why it was chosen, and the sentence about tastes."""
    if report.trials:
        table = Table(title="Tried on held-out data", title_justify="left", title_style="bold")
        by_category = any(row["MinorityRecall@20"] is not None for row in report.trials)
        table.add_column("kind")
        table.add_column("model", overflow="fold")
        for name in ("NDCG@10", "R@20", *(["minority"] if by_category else []), "seconds", "in the blend"):
            table.add_column(name, justify="right")
        for row in report.trials:
            figures = [f"{row[name]:.4f}" for name in ("NDCG@10", "R@20")]
            if by_category:
                figures.append("" if row["MinorityRecall@20"] is None else f"{row['MinorityRecall@20']:.4f}")
            weight = "" if row["weight"] is None else f"{100 * row['weight']:.0f} %"
            style = "bold" if row["weight"] else ""
            table.add_row(row["family"], escape(row["model"]), *figures, f"{row['seconds']:.1f}", weight, style=style)
        console.print(table)
        console.print(escape(report.reason), highlight=False)
    for line in (report.tastes, *report.notes):
        console.print(escape(line), highlight=False)
