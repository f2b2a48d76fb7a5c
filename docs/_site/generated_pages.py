"""What is made from the code: a page of commands, and tables of models, metrics and the paper's claims inside pages.

Tables are committed in their pages, between comments, so that they can be read on a code host. A test compares them
with the code; `python docs/_site/generated_pages.py` writes them again.
"""

from __future__ import annotations

import csv
import re
from enum import Enum
from pathlib import Path
from typing import Any

from tastespace import models
from tastespace.cli.app import COMMANDS
from tastespace.evaluation import METRICS
from tastespace.paper.claims import CLAIMS

DOCS = Path(__file__).parents[1]
RESULTS = DOCS / "results"
PAGES_WITH_TABLES = (
    "reference/models",
    "explanation/metrics",
    "explanation/papers-claims",
    "explanation/about-the-paper",
)
_TABLE = re.compile(r"(<!-- table: ([a-z]+)[^>]*-->\n).*?(\n<!-- end of table -->)", re.DOTALL)


def pages() -> dict[str, str]:
    """Return the text of each page, by name."""
    return {"commands": _commands()}


def with_tables(text: str, is_site: bool = False) -> str:
    """Return the text of a page with its tables as the code has them now; those of the site have links to classes."""
    tables = {
        "models": lambda: _model_table(is_site),
        "metrics": _metric_table,
        "claims": _claim_table,
        "rules": _rule_table,
    }
    return _TABLE.sub(lambda match: f"{match[1]}\n{tables[match[2]]()}{match[3]}", text)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


# ---- commands --------------------------------------------------------------------------------------------------


def _commands() -> str:
    parts = [
        "# Commands",
        "Made from the program itself. Every command prints its own help with `--help`, can read its flags from a TOML "
        "file (`--config FILE`) and write them to one (`--print-config`). In a pipe tables are CSV, messages go to "
        "standard error, and an error is one line and exit code 2.",
        _table(["command", "what it does"], [[f"[`{one.name}`](#{one.name})", str(one.help)] for one in COMMANDS]),
    ]
    for one in COMMANDS:
        parts += _command(one.load(), str(one.name), f"tastespace {one.example}", level=2)
    return "\n\n".join(parts) + "\n"


def _command(command: Any, name: str, example: str | None, level: int) -> list[str]:
    parts = [f"{'#' * level} {name}", _paragraphs(command.help or "")]
    if example:
        parts.append(f"```text\n{example}\n```")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    rows = [[f"`{one.name.upper()}`", _help(one)] for one in arguments]
    rows += [[", ".join(f"`{flag}`" for flag in [*one.opts, *one.secondary_opts]), _help(one)] for one in options]
    if rows:
        parts.append(_table(["argument or flag", "meaning"], rows))
    for sub_name, sub in getattr(command, "commands", {}).items():
        parts += _command(sub, f"{name} {sub_name}", None, level + 1)
    return parts


def _paragraphs(text: str) -> str:
    """Help texts are wrapped by hand; two spaces and markup of the terminal mean nothing here."""
    return _escaped("\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")))


def _help(parameter: Any) -> str:
    text = _escaped(" ".join((getattr(parameter, "help", None) or "").split()))
    if choices := _choices(parameter):
        text += f" One of {', '.join(f'`{one}`' for one in choices)}."
    if parameter.required:
        return f"{text} *Required.*"
    default = parameter.default
    if default is None or default is False or callable(default) or default == () or default == []:
        return text
    return f"{text} Default: `{getattr(default, 'value', default)}`."


def _choices(parameter: Any) -> list[str]:
    """Values of a flag that takes one of a few; older versions of Typer know the type, newer ones the annotation."""
    if found := getattr(getattr(parameter, "type", None), "choices", None):
        return [str(getattr(one, "value", one)) for one in found]
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    is_enum = isinstance(annotation, type) and issubclass(annotation, Enum)
    return [str(one.value) for one in annotation] if is_enum else []


def _escaped(text: str) -> str:
    """Text as Markdown that shows it: no tags, no emphasis by chance."""
    inside = False
    out = []
    for piece in text.split("`"):
        out.append(piece if inside else piece.replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_"))
        inside = not inside
    return "`".join(out).replace("[", "\\[")


# ---- tables ----------------------------------------------------------------------------------------------------


def _model_table(is_site: bool) -> str:
    role = "{py:class}`~tastespace.models." if is_site else "`"
    mark = {True: "✓", False: ""}
    rows = [
        [
            f"`{one.name}`",
            f"{role}{one.class_name}`",
            one.family,
            mark[one.interests],
            mark[one.fold_in],
            mark[one.cold_start],
            mark[one.partial_fit],
            mark[one.weights],
            one.extra or "",
        ]
        for one in models.table()
    ]
    header = ["name", "class", "family", "interests", "fold-in", "cold start", "update", "weights", "extra"]
    return f"{_table(header, rows)}\n"


def _metric_table() -> str:
    rows = [
        [
            f"`{one.name}@k`" if one.at_k else f"`{one.name}`",
            one.doc,
            one.unit,
            one.range,
            "smaller" if one.lower_is_better else "larger",
            one.needs,
        ]
        for one in METRICS.values()
    ]
    return f"{_table(['metric', 'what it is', 'unit', 'range', 'better', 'needs'], rows)}\n"


_RULES = ("their rule", "our trainer")
_OF_RULES = ("P@3", "MAP", "MRR")


_OVERALL = ("results1", "citeulike", "recsys")


def _rule_table() -> str:
    """The table `family` of docs/results/results.csv: the paper, their rule and our trainer side by side.

    Where our trainer was not run for it, the overall table has a row of it.
    """
    with (RESULTS / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] in _OF_RULES]
    found = {
        (row["dataset"], *row["label"].split(", "), row["metric"]): row for row in rows if row["table"] == "family"
    }
    overall = {(row["dataset"], row["label"], row["metric"]): row for row in rows if row["table"] in _OVERALL}
    lines = []
    for dataset, method in dict.fromkeys(key[:2] for key in found):
        theirs, ours = ([found.get((dataset, method, rule, one)) for one in _OF_RULES] for rule in _RULES)
        if not any(row and row["ours"] for row in ours):
            ours = [overall.get((dataset, method, one)) for one in _OF_RULES]
        texts = [_measured(theirs, "paper"), _measured(theirs, "ours"), _measured(ours, "ours")]
        about = [f"{rule}: {_about(row[-1])}" for rule, row in zip(_RULES, (theirs, ours), strict=True) if row[-1]]
        lines.append([dataset, method, *texts, "; ".join(about)])
    return f"{_table(['data set', 'method', 'the paper', *_RULES, 'about the rows'], lines)}\n"


def _about(row: dict[str, str] | None) -> str:
    if row is None or not row["ours"]:
        return "not run"
    seeds, trials = int(row["seeds"]), int(row["trials"])
    parts = [f"{seeds} seed{'s' * (seeds > 1)}", f"{trials} settings tried", row["revision"], row["note"]]
    return ", ".join(part for part in parts if part)


def _measured(rows: list[dict[str, str] | None], column: str) -> str:
    cells = []
    for row in rows:
        known = row is not None and row[column]
        spread = f" ± {float(row['spread']):.2f}" if row and known and column == "ours" and row["spread"] else ""
        cells.append(f"{float(row[column]):.2f}{spread}" if row and known else "-")
    return " / ".join(cells)


def _claim_table() -> str:
    """The verdicts of docs/results/claims.csv: one row for each claim, one column for each data set."""
    with (RESULTS / "claims.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    datasets = list(dict.fromkeys(row["dataset"] for row in found))
    verdicts: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in found:
        verdicts.setdefault((row["claim"], row["dataset"]), []).append(row)
    texts = {name: claim.text for name, claim in CLAIMS.items()}
    rows = [
        [texts.get(name, name), *(_verdict(verdicts.get((name, dataset), [])) for dataset in datasets)]
        for name in dict.fromkeys(row["claim"] for row in found)
    ]
    return f"{_table(['claim', *datasets], rows)}\n"


def _verdict(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    known = [row for row in rows if row["p after Holm"]]
    sure = [float(row["difference"]) for row in known if float(row["p after Holm"]) < 0.05]
    seeds = sorted({int(row["seeds"]) for row in rows if row["seeds"]})
    about = f"{min(seeds)} to {max(seeds)} seeds" if len(seeds) > 1 else f"{seeds[0]} seed{'s' * (seeds[0] > 1)}"
    ours, against = sum(one > 0 for one in sure), sum(one < 0 for one in sure)
    measured, _, declared = rows[0]["pairs"].removesuffix(" pairs").partition(" of ")
    part = "" if measured == declared else f"{rows[0]['pairs']}; "
    return f"**{rows[0]['verdict']}** ({part}{ours} of {len(known)} for, {against} against; {about})"


if __name__ == "__main__":
    for page in PAGES_WITH_TABLES:
        path = DOCS / f"{page}.md"
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
