"""docs/benchmarks.md from the logs below benchmarks/peers/results: tables, and in which of them we are not the best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from environments import LIBRARIES

NAMES = {
    "tastespace": "tastespace", "implicit": "implicit", "lenskit": "LensKit", "rectools": "RecTools",
    "recbole": "RecBole", "cornac": "Cornac",
}  # fmt: skip
METHODS = {
    "fit": "`ts.fit`", "dpcml": "DPCML", "ease": "EASE", "als": "ALS", "bpr": "BPR", "cosine": "item-item cosine",
    "sparse-ease": "SparseEASE", "itemknn": "item-item", "knn": "item-item cosine", "lightgcn": "LightGCN",
}  # fmt: skip
ACCURACY = ("NDCG@10", "R@20", "MinorityRecall@20", "Coverage@20")
COSTS = {
    "train_seconds": "training s", "lists_seconds": "all lists s", "one_person_ms": "one person ms",
    "peak_memory_mb": "peak MB",
}  # fmt: skip
DATA = {"ml-1m": "MovieLens-1M", "steam-200k": "Steam-200k", "anime": "Anime"}
Log = dict[str, Any]

HEAD = """# Compared with other libraries

`make peers` makes this page: same data, same split, same metric code for all, each library in an environment of its
own. Do not edit it; the text is in `benchmarks/peers/page.py`.

**How it is measured.** `ts.split.per_user(data, (0.6, 0.2, 0.2), seed=0)`. A library gets the first two parts as
Parquet files of numbers and nothing else (no genres, no times). It is fitted to both and writes everybody's 20 best
new items; `tastespace.evaluate`, protocol "full", measures these lists on the third part. *Default* rows have the
documented defaults of the library. There is one *tuned* row for each library, ours included: out of a fixed list of
settings of its methods (in `benchmarks/peers/run_*.py`) the one with the best NDCG@10 on the second part when fitted to
the first. We wrote all of these lists. Ours has SparseEASE, which the others do not have, and its values come from the
recipe of `ts.fit`, which was developed on data sets that include these; theirs are ordinary values for each method. So
the tuned rows favor us: an author of another library would choose a better list for it.

**The budget for that is the same for every library: half a minute of two cores, 60 s of processor time**, so
a library that is slower tries fewer settings; below each table is how many. The third part is used once, for the row
in the table. `ts.fit` is no such row: it has two minutes by the clock for its choice and the final model together, more
than the tuned rows, and they are part of its training seconds. Elsewhere training seconds are those of the final fit.

Seconds are by the clock, on an otherwise idle machine. Where the machine was busy there are seconds of processor time
instead, of all threads together, marked *cpu*: with two cores up to twice the seconds that would have passed, so they
are compared with each other only. *All lists* is one call for all users where the library has one; *one person* is the
median of 50 calls for one user each. Memory is the peak of the process until all lists were there. One run per cell,
one seed: differences of a few percent in times, and in the third digit of accuracy, mean nothing.

MinorityRecall@20 is recall of items outside a user's main genre; Coverage@20 the share of the catalog that is in
anybody's list. Genres serve the metric only. **Bold**: the best of a column.
"""


def write_page(results: Path, file: Path) -> None:
    """Write the page from all logs that there are."""
    logs = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    cells = [log for log in logs if "title" in log and log["title"] != "tuning"]
    parts = [HEAD]
    for name, title in DATA.items():
        own = [log for log in cells if log["data"] == name]
        if own:
            parts.append(_data_part(name, title, own, [log for log in logs if log.get("title") == "tuning"]))
    parts.append(_environment_part([log for log in logs if "size_mb" in log]))
    parts.append(_what_is_missing(cells))
    file.write_text("\n".join(parts), encoding="utf-8")


def _order(log: Log) -> tuple[int, bool, int]:
    methods = LIBRARIES[log["library"]].methods
    method = log["title"].removesuffix("-default")
    return list(LIBRARIES).index(log["library"]), log["title"] == "tuned", (*methods, method).index(method)


def _row_name(log: Log) -> str:
    method = METHODS[log["method"]]
    setting = "tuned" if log["title"] == "tuned" else "chosen within 2 minutes" if log["method"] == "fit" else "default"
    return f"{NAMES[log['library']]} {method}, {setting}"


def _data_part(name: str, title: str, cells: list[Log], tunings: list[Log]) -> str:
    done = sorted((log for log in cells if "metrics" in log), key=_order)
    columns = {metric: [log["metrics"][metric] for log in done] for metric in ACCURACY}
    costs = {cost: [log.get(cost) for log in done] for cost in COSTS}
    lines = [f"## {title}", "", f"| library, method, setting | {' | '.join((*ACCURACY, *COSTS.values()))} | log |"]
    lines.append("| --- |" + " ---: |" * (len(ACCURACY) + len(COSTS)) + " --- |")
    for row, log in enumerate(done):
        values = [_bold(f"{v[row]:.4f}", v[row] == max(v)) for v in columns.values()]
        values += [
            _cpu(log, cost) if v[row] is None else _bold(_short(v[row]), v[row] == min(x for x in v if x is not None))
            for cost, v in costs.items()
        ]
        file = f"../benchmarks/peers/results/{name}-{log['library']}-{log['title']}.json"
        lines.append(f"| {_row_name(log)} | {' | '.join(values)} | [log]({file}) |")
    lines += ["", *_verdicts(done), *_same_method(done), ""]
    tuned = {log["library"] for log in done if log["title"] == "tuned"}
    untuned = [NAMES[lib] for lib in LIBRARIES if lib not in tuned]
    if untuned:
        lines += [f"No tuned row yet: {', '.join(untuned)}. Their default rows chose nothing on this data, so compare"]
        lines += ["them with our default rows.", ""]
    own = [log for log in tunings if log["data"] == name and "trials" in log]
    if own:
        own.sort(key=lambda log: list(LIBRARIES).index(log["library"]))
        told = (
            f"{NAMES[log['library']]} {len(log['trials'])} of {log['grid']} in {log['cpu_seconds']} s, "
            f"{METHODS[log['method']]} with `{_settings(log['parameters'])}`"
            for log in own
        )
        lines += ["Settings that were tried within the budget, processor seconds, and what was chosen:", ""]
        lines += [f"* {one}." for one in told] + [""]
    noted = [f"{_row_name(log)}: {note}" for log in done for note in log["notes"]]
    lines += [f"* {note}." for note in noted] + ([""] if noted else [])
    busy = [log for log in done if log.get("train_seconds") and log["machine"]["load"] > 2 * log["machine"]["cores"]]
    if busy:
        loads = [round(log["machine"]["load"]) for log in busy]
        rows = "all rows" if len(busy) == len(done) else "; ".join(map(_row_name, busy))
        lines += [
            f"Times that were taken on a busy machine (load of {min(loads)} to {max(loads)}), so too long by an unknown"
        ]
        lines += [f"factor: {rows}.", ""]
    machine = done[0]["machine"]
    lines.append(f"{machine['cpu']}, {machine['cores']} cores, Python {done[0]['python']}, {done[0]['date']}.")
    return "\n".join(lines) + "\n"


def _verdicts(done: list[Log]) -> list[str]:
    """One line for each column: which of our rows is best, which other row is better than that."""
    ours = [log for log in done if log["library"] == "tastespace"]
    others = [log for log in done if log["library"] != "tastespace"]
    if not ours or not others:
        return []
    lines = ["Where another library is better than the best of our rows:", ""]
    for label, value, sign in (
        *((metric, lambda log, m=metric: log["metrics"][m], 1) for metric in ACCURACY),
        *((title, lambda log, c=cost: log.get(c), -1) for cost, title in COSTS.items()),
    ):
        measured = [log for log in ours if value(log) is not None]
        if not measured:
            continue
        best = max(measured, key=lambda log: sign * value(log))
        there = [log for log in others if value(log) is not None]
        better = sorted((o for o in there if sign * value(o) > sign * value(best)), key=lambda o: -sign * value(o))
        if better:
            first, form = better[0], (lambda v: f"{v:.4f}") if sign > 0 else _short
            more = f", and {len(better) - 1} more rows" if len(better) > 1 else ""
            lines.append(
                f"* **{label}**: {_row_name(first)} {form(value(first))} against {form(value(best))} of "
                f"{_row_name(best)}{more}."
            )
    return lines if len(lines) > 2 else ["No other library is better than the best of our rows in any column."]


def _same_method(done: list[Log]) -> list[str]:
    """EASE is everywhere: whose default is more accurate than ours, whose solver is faster."""
    rows = {log["library"]: log for log in done if log["title"] == "ease-default"}
    ours = rows.pop("tastespace", None)
    if ours is None:
        return []
    told = []
    for log in rows.values():
        figures = []
        if log["metrics"]["NDCG@10"] > ours["metrics"]["NDCG@10"]:
            figures.append(f"NDCG@10 {log['metrics']['NDCG@10']:.4f}")
        if log.get("train_seconds", float("inf")) < ours.get("train_seconds", 0.0):
            figures.append(f"training {_short(log['train_seconds'])} s")
        if figures:
            told.append(f"{NAMES[log['library']]} ({', '.join(figures)})")
    if not told:
        return []
    mine = f"NDCG@10 {ours['metrics']['NDCG@10']:.4f}, training {_short(ours.get('train_seconds', 0.0))} s"
    return [f"* **EASE against our EASE** ({mine}), defaults of both: better are {', '.join(told)}."]


def _environment_part(logs: list[Log]) -> str:
    logs = sorted(logs, key=lambda log: list(LIBRARIES).index(log["library"]))
    lines = ["## Installation and import", ""]
    lines.append("| library | installed | MB in site-packages | packages | import ms | what is imported |")
    lines.append("| --- | --- | ---: | ---: | ---: | --- |")
    for log in logs:
        took = _bold(f"{log['import_ms']}", log["import_ms"] == min(o.get("import_ms", 1e9) for o in logs)) if (
            "import_ms" in log
        ) else "not measured"  # fmt: skip
        size = _bold(f"{log['size_mb']:.0f}", log["size_mb"] == min(o["size_mb"] for o in logs))
        version = {name.lower(): number for name, number in log["versions"].items()}[log["library"]]
        lines.append(
            f"| {NAMES[log['library']]} {version} | `{'`, then `'.join(log['install'])}` | {size} | "
            f"{len(log['versions'])} | {took} | `{log.get('import', '')}` |"
        )
    start = min((log["start_ms"] for log in logs if "start_ms" in log), default=None)
    lines += ["", "Size: what the installation adds to an empty environment, with everything it depends on; torch is"]
    lines += ["its build for processors. Import: the fastest of 5 fresh processes, with what a program needs that fits"]
    lines += [f"a model; an interpreter that imports nothing takes {start} ms." if start else "a model."]
    return "\n".join(lines) + "\n"


def _what_is_missing(cells: list[Log]) -> str:
    lines = ["## What is not in the tables", ""]
    for log in cells:
        if "error" in log:
            lines.append(f"* {NAMES[log['library']]} {log['title']} on {DATA[log['data']]}: `{log['error']}`.")
    for name in dict.fromkeys(log["data"] for log in cells):
        there = {(log["library"], log["title"]) for log in cells if log["data"] == name}
        wanted = [(lib, f"{m}-default") for lib, what in LIBRARIES.items() for m in what.methods]
        wanted += [(lib, "tuned") for lib in LIBRARIES]
        gone = [f"{NAMES[lib]} {title.removesuffix('-default')}" for lib, title in wanted if (lib, title) not in there]
        if gone:
            lines.append(f"* {DATA[name]}: not run, for lack of machine time: {', '.join(gone)}.")
    lines += [
        "* EASE differs in more than its default: RecTools 0.19 ranks by the transposed weights (`weight[j, i]` for",
        "  item j and past item i), and Cornac leaves negative weights out unless `posB=False`.",
        "* Cornac's WMF needs TensorFlow, which the package does not install.",
        "* RecBole 1.2.1 needs NumPy below 2 and SciPy below 1.11. Its models that learn by gradients were stopped",
        "  after 120 s of processor time.",
        "* Cornac's BPR is run without a seed: with one it uses a single thread.",
        "* Graphics cards and data that does not fit into memory are not compared.",
    ]
    return "\n".join(lines) + "\n"


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def _cpu(log: Log, cost: str) -> str:
    """Processor seconds where the clock said nothing of use."""
    seconds = log.get(cost.replace("_seconds", "_cpu_seconds"))
    return "–" if seconds is None else f"*{_short(seconds)} cpu*"


def _settings(parameters: Log) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items()) or "its defaults"


def _short(value: float) -> str:
    """Three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
