"""One vector per user or several: six data sets, four dimensions, equal search budgets, three seeds.

    python benchmarks/several_vectors.py [--cells PATTERN ...] [--rates RATE ...] [--out FILE] [--threads N]
    python benchmarks/several_vectors.py --table [--out FILE] [--csv FILE] [--page FILE]

A cell is data:dimension:vectors:seed. Each item dimension d has the cells with 1, 2 and 4 vectors per user, and those
with one vector of dimension 2d and 4d, which has as many numbers per user as 2 or 4 vectors of dimension d. The data is
split per user (60/20/20) with the seed; one vector is CML, several are DPCML, both with default parameters but for
dimension, number of vectors, learning rate, seed and number of epochs, which is the same for all. For each cell every
learning rate is tried once, and rate and epoch are those with the best NDCG@10 on the validation part: every cell has
the same number of trials. The figures are those of the test part, protocol "full".

Finished fits are lines of a file and are not repeated, so that the run can be stopped at any time; small cells come
first, and the table shows what there is. Fits with other parameters than the library's defaults of now are repeated,
and the later line counts. PATTERN is a cell with * for anything: `ml-100k:16:*:0`, `steam-200k:*:*:*`.

The table has mean and standard deviation over the seeds, and the difference to one vector of the same dimension with
its standard error, paired by seed. Bins are fifths of the users by the entropy of the categories of their training
items: the first has users with one taste, the last those with most.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import tastespace as ts
from tastespace.data.attributes import category_column, item_categories

INTERACTIONS = {  # of the whole data set, by which cells are ordered
    "ml-100k": 55_361, "lastfm-2k": 92_801, "steam-200k": 115_139, "citeulike-a": 204_986, "anime": 253_051,
    "ml-1m": 575_271,
}  # fmt: skip
DIMENSIONS, VECTORS, SEEDS = (16, 32, 64, 100), (1, 2, 4), (0, 1, 2)
RATES = (0.05, 0.1, 0.2, 0.4)
EVERY = 5  # epochs between two validations
METRICS = ("NDCG@10", "R@20", "MinorityRecall@20")
MOST_CATEGORIES = 100  # more, such as the tags of citeulike-a, have no main one: no MinorityRecall
BINS = 5
NOT_IN_KEY = ("dim", "n_interests", "seed", "learning_rate", "epochs", "threads")  # they stand beside, or do not matter
OUT = Path(__file__).parent / "results" / "several_vectors.jsonl"
PAGE_MARKS = ("<!-- several vectors: made by benchmarks/several_vectors.py -->", "<!-- end of several vectors -->")

Fits = list[dict[str, Any]]


class Cell(NamedTuple):
    """One row of the table and one seed."""

    data: str
    dim: int
    vectors: int
    seed: int

    def __str__(self) -> str:
        return ":".join(map(str, self))

    @property
    def cost(self) -> float:
        return INTERACTIONS[self.data] * self.dim * (1 + self.vectors)


class Row(NamedTuple):
    """One row of the table: the best trial of each seed."""

    base: int
    """Dimension that the row is compared at."""
    cell: Cell
    fits: Fits
    differences: dict[str, tuple[float, float]]
    """Mean difference to one vector of dimension `base` and its standard error (NaN with one seed), by metric."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="learning rates, one trial each")
    parser.add_argument("--epochs", type=int, default=ts.DPCML().epochs)
    parser.add_argument("--out", type=Path, default=OUT, help="finished fits, which are not repeated")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--table", action="store_true", help="only print the tables of the finished fits")
    parser.add_argument("--csv", type=Path, help="with --table: write the rows here, too")
    parser.add_argument("--page", type=Path, help="with --table: replace the tables of this page")
    given = parser.parse_args()
    if not given.table:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        for cell in chosen_cells(given.cells):
            for rate in given.rates:
                run(cell, rate, given.epochs, given.out, given.threads)
    rows = rows_of([fit for fit in read(given.out) if fit["epochs"] == given.epochs])
    text = tables(rows)
    print(text)
    if given.csv is not None:
        write_csv(rows, given.csv)
    if given.page is not None:
        write_page(text, given.page)


# ---- cells and fits ----------------------------------------------------------------------------------------------


def all_cells() -> set[Cell]:
    """Return every cell; those with one vector of a larger dimension may belong to several rows."""
    return {
        Cell(data, dim, vectors, seed)
        for data in INTERACTIONS
        for base in DIMENSIONS
        for dim, vectors in row_kinds(base)
        for seed in SEEDS
    }


def row_kinds(base: int) -> list[tuple[int, int]]:
    """Return dimension and number of vectors of the rows that are compared at one item dimension."""
    return [(base, n) for n in VECTORS] + [(base * n, 1) for n in VECTORS[1:]]


def chosen_cells(patterns: list[str]) -> list[Cell]:
    """Return the cells that a pattern names, small ones first; a pattern without a cell is an error."""
    everything = all_cells()
    found: set[Cell] = set()
    for pattern in patterns:
        named = {cell for cell in everything if fnmatch(str(cell), pattern)}
        if not named:
            sys.exit(f"--cells {pattern}: no cell; expected data:dimension:vectors:seed such as ml-100k:16:*:0")
        found |= named
    return sorted(found, key=lambda cell: (cell.cost, str(cell)))


def run(cell: Cell, rate: float, epochs: int, out: Path, threads: int) -> None:
    """Fit and measure one trial of a cell, unless it is among the finished ones."""
    model = new_model(cell, learning_rate=rate, epochs=epochs, threads=threads)
    others = {name: value for name, value in sorted(model.get_params().items()) if name not in NOT_IN_KEY}
    parameters = f"{zlib.crc32(json.dumps(others).encode()):08x}"
    key = {**cell._asdict(), "rate": rate, "epochs": epochs, "parameters": parameters}
    if any(all(row[name] == value for name, value in key.items()) for row in read(out)):
        return
    parts = split(cell.data, cell.seed)
    train, valid, _ = parts
    model.fit(train, valid, progress=False)
    figures = [row[model.monitor] for row in model.history_ if model.monitor in row]
    use = next((one for one in model.diagnostics_ if one["kind"] == "interests"), None)
    row = {
        **key,
        "epoch": model.best_epoch_,
        "valid": max(figures),
        **measured(model, parts),
        "item_mb": model.item_vectors_.nbytes / 1e6,
        "epoch_seconds": float(np.mean([row["seconds"] for row in model.history_])),
        "effective": 1.0 if use is None else use["effective"],
        "dead": 0.0 if use is None else use["n_dead"] / use["n_vectors"],
    }
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    shown = " ".join(f"{name} {row['test'][name]:.4f}" for name in row["test"])
    print(
        f"{cell} rate {rate:g} epoch {row['epoch']} valid {row['valid']:.4f} test {shown}", file=sys.stderr, flush=True
    )


def new_model(cell: Cell, **settings: Any) -> ts.DPCML:
    settings |= {"dim": cell.dim, "seed": cell.seed, "patience": 0, "validate_every": EVERY}
    return ts.CML(**settings) if cell.vectors == 1 else ts.DPCML(n_interests=cell.vectors, **settings)


@lru_cache(maxsize=1)
def split(data: str, seed: int) -> list[ts.Interactions]:
    return list(ts.split.per_user(ts.datasets.load(data), (0.6, 0.2, 0.2), seed=seed))


def measured(model: ts.DPCML, parts: list[ts.Interactions]) -> dict[str, Any]:
    """Return the figures of the test part, of all users and of those in each bin."""
    train, valid, test = parts
    entropy, n_categories = category_entropy(train)
    metrics = METRICS if 0 < n_categories <= MOST_CATEGORIES else METRICS[:2]
    report = ts.evaluate(model, test, seen=[train, valid], metrics=metrics)
    found: dict[str, Any] = {"test": {name: report[name] for name in metrics}}
    if entropy is None:
        return found
    of_users = entropy[train.users.index_of(report.users.to_list())]
    edges = np.nanquantile(entropy, np.linspace(0, 1, BINS + 1))
    # A user at an edge belongs to the upper bin; users without a category to none.
    bin_of = np.where(np.isnan(of_users), -1, np.clip(np.searchsorted(edges, of_users, "right") - 1, 0, BINS - 1))
    found["bins"] = [
        {"from": float(edges[at]), "to": float(edges[at + 1]), "users": int((bin_of == at).sum())}
        | {name: mean_of(report.per_user[name][bin_of == at]) for name in metrics}
        for at in range(BINS)
    ]
    return found


def mean_of(values: np.ndarray[Any, Any]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def category_entropy(train: ts.Interactions) -> tuple[np.ndarray[Any, Any] | None, int]:
    """Return the entropy, in nats, of the categories of each user's items, and how many categories there are.

    An item of several categories counts for each with an equal share. NaN for users without a category; None and 0
    where items have no categories.
    """
    about = train.item_attributes
    column = None if about is None else category_column(about)
    if about is None or column is None:
        return None, 0
    categories = item_categories(about[column])
    member = categories.membership
    counts = np.diff(member.indptr)
    shares = sp.csr_array((1.0 / np.repeat(counts, counts), member.indices, member.indptr), shape=member.shape)
    ones = np.ones(train.n_interactions)
    taken = sp.csr_array((ones, train.indices, train.offsets), shape=(train.n_users, train.n_items))
    mix = sp.csr_array(taken @ shares)
    owner = np.repeat(np.arange(train.n_users), np.diff(mix.indptr))
    whole = np.bincount(owner, weights=mix.data, minlength=train.n_users)
    part = mix.data / whole[owner]
    entropy = np.bincount(owner, weights=-part * np.log(part), minlength=train.n_users)
    return np.where(whole > 0, entropy, np.nan), len(categories.names)


def read(path: Path) -> Fits:
    """Return the finished fits; a last line that was cut off by the end of a run is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


# ---- tables ------------------------------------------------------------------------------------------------------


def rows_of(fits: Fits) -> list[Row]:
    """Return the rows of the table that have a fit. Of each cell the trial that is best on validation data counts.

    Cells are compared at the same trials, those that most cells of a data set and dimension have: cells without one of
    them are left out until it is finished.
    """
    best: dict[tuple[int, Cell], dict[str, Any]] = {}
    for data in dict.fromkeys(fit["data"] for fit in fits):
        for base in DIMENSIONS:
            of_cell: dict[Cell, dict[float, dict[str, Any]]] = {}
            for fit in fits:
                if fit["data"] == data and (fit["dim"], fit["vectors"]) in row_kinds(base):
                    cell = Cell(*(fit[name] for name in Cell._fields))
                    of_cell.setdefault(cell, {})[fit["rate"]] = fit
            tried = Counter(frozenset(trials) for trials in of_cell.values())
            shared = max(tried, key=lambda rates: (tried[rates], len(rates)), default=frozenset())
            for cell, trials in of_cell.items():
                if shared <= trials.keys():
                    kept = [trials[rate] for rate in sorted(shared)]
                    best[base, cell] = max(kept, key=lambda fit: fit["valid"]) | {"trials": len(shared)}
    return list(_rows(best))


def _rows(best: dict[tuple[int, Cell], dict[str, Any]]) -> Iterator[Row]:
    for data in INTERACTIONS:
        for base in DIMENSIONS:
            one = {cell.seed: fit for (at, cell), fit in best.items() if (at, *cell[:3]) == (base, data, base, 1)}
            for dim, vectors in row_kinds(base):
                wanted = (base, data, dim, vectors)
                found = {cell.seed: fit for (at, cell), fit in best.items() if (at, *cell[:3]) == wanted}
                if not found:
                    continue
                differences = {}
                for name in next(iter(found.values()))["test"]:
                    paired = [found[s]["test"][name] - one[s]["test"][name] for s in sorted(found) if s in one]
                    if paired and (dim, vectors) != (base, 1):
                        differences[name] = (float(np.mean(paired)), standard_error(paired))
                fits = [found[seed] for seed in sorted(found)]
                yield Row(base, Cell(data, dim, vectors, -1), fits, differences)


def standard_error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def tables(rows: list[Row]) -> str:
    """Return the two tables as Markdown."""
    return f"{main_table(rows)}\n\n{bin_table(rows)}"


def main_table(rows: list[Row]) -> str:
    lines = [
        "| data | d | vectors per user | seeds, trials | NDCG@10 | R@20 | MinorityRecall@20 | against one vector of d "
        "| effective | items, MB | epoch, ms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        figures = " | ".join(with_spread([fit["test"].get(name) for fit in row.fits]) for name in METRICS)
        seconds = np.mean([fit["epoch_seconds"] for fit in row.fits])
        effective = np.mean([fit["effective"] for fit in row.fits])
        lines.append(
            f"| {row.cell.data} | {row.base} | {kind(row)} | {len(row.fits)}, {row.fits[0]['trials']} | {figures} "
            f"| {compared(row)} | {effective:.1f} | {row.fits[0]['item_mb']:.2f} | {1000 * seconds:.0f} |"
        )
    return "\n".join(lines)


def kind(row: Row) -> str:
    return str(row.cell.vectors) if row.cell.dim == row.base else f"1 of {row.cell.dim} dimensions"


def with_spread(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    spread = f" ± {np.std(known, ddof=1):.3f}" if len(known) > 1 else ""
    return f"{np.mean(known):.3f}{spread}"


def compared(row: Row) -> str:
    """Return the differences in the order of `METRICS`, with their standard errors."""
    parts = []
    for mean, error in (row.differences[name] for name in METRICS if name in row.differences):
        parts.append(f"{mean:+.3f}" + ("" if np.isnan(error) else f" ({error:.3f})"))
    return ", ".join(parts)


def bin_table(rows: list[Row]) -> str:
    """Return NDCG@10 and MinorityRecall@20 by fifths of the users, by the entropy of their categories."""
    lines = [
        "| data | d | vectors per user | metric | " + " | ".join(f"fifth {at + 1}" for at in range(BINS)) + " |",
        "| --- | --- | --- | --- |" + " --- |" * BINS,
    ]
    for row in rows:
        if "bins" not in row.fits[0] or row.cell.dim != row.base:
            continue
        for name in (METRICS[0], METRICS[2]):
            values = [bin_mean(row, at, name) for at in range(BINS)]
            if any(values):
                lines.append(
                    f"| {row.cell.data} | {row.base} | {row.cell.vectors} | {name} | " + " | ".join(values) + " |"
                )
    return "\n".join(lines)


def bin_mean(row: Row, at: int, name: str) -> str:
    values = [fit["bins"][at].get(name) for fit in row.fits]
    return with_spread([value for value in values if value is not None])


def write_csv(rows: list[Row], path: Path) -> None:
    """Write the rows with all their digits."""
    names = ["data", "d", "dim", "vectors", "seeds", "trials"]
    for metric in METRICS:
        names += [metric, f"{metric} sd", f"{metric} difference", f"{metric} standard error"]
        names += [f"{metric} fifth {at + 1}" for at in range(BINS)]
    names += ["valid NDCG@10", "effective", "dead", "item_mb", "epoch_seconds", "rates", "epochs"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(csv_row(row))


def csv_row(row: Row) -> dict[str, Any]:
    fits = row.fits
    found: dict[str, Any] = {"data": row.cell.data, "d": row.base, "dim": row.cell.dim, "vectors": row.cell.vectors}
    found |= {"seeds": len(fits), "trials": fits[0]["trials"]}
    for metric in METRICS:
        values = [fit["test"][metric] for fit in fits if metric in fit["test"]]
        if values:
            found[metric] = np.mean(values)
            found[f"{metric} sd"] = np.std(values, ddof=1) if len(values) > 1 else ""
        for name, value in zip(("difference", "standard error"), row.differences.get(metric, ()), strict=False):
            found[f"{metric} {name}"] = "" if np.isnan(value) else value
        for at in range(BINS):
            parts = [fit["bins"][at].get(metric) for fit in fits if "bins" in fit]
            known = [part for part in parts if part is not None]
            if known:
                found[f"{metric} fifth {at + 1}"] = np.mean(known)
    for name, source in (("valid NDCG@10", "valid"), *((x, x) for x in ("effective", "dead", "epoch_seconds"))):
        found[name] = np.mean([fit[source] for fit in fits])
    found["item_mb"] = fits[0]["item_mb"]
    found["rates"], found["epochs"] = (" ".join(f"{fit[x]:g}" for fit in fits) for x in ("rate", "epoch"))
    return {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in found.items()}


def write_page(text: str, path: Path) -> None:
    """Replace what stands between the marks of a page by the tables."""
    page = path.read_text(encoding="utf-8")
    before, first, rest = page.partition(PAGE_MARKS[0])
    _, last, after = rest.partition(PAGE_MARKS[1])
    if not (first and last):
        sys.exit(f"--page {path}: expected {PAGE_MARKS[0]!r} and {PAGE_MARKS[1]!r} in it")
    path.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
