"""The notebooks of examples/ run from top to bottom, and are committed with their outputs."""

import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
NAMES = {
    "quickstart",
    "one_persons_tastes",
    "shop_from_csv_to_server",
    "honest_comparison",
    "cold_start",
    "paper_table",
}
LARGEST = 400_000  # bytes: pictures and tables, no data


def test_all_notebooks_are_there():
    assert {path.stem for path in NOTEBOOKS} >= NAMES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_committed_and_say_nothing_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert len(text) < LARGEST
    assert not re.findall(r"/(?:tmp|home|root|work)/|Traceback", text)
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "run it from top to bottom"
    assert sum(bool(cell["outputs"]) for cell in cells) >= 2


def shown(notebook):
    """All text that the cells of a notebook have printed."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            found.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(found)


def tables(notebook):
    """Rows of the frames that a notebook shows, as lists of cells."""
    return [
        [cell.strip() for cell in line.strip("│").split("┆")] for line in shown(notebook).splitlines() if "┆" in line
    ]


def check_cold_start(notebook):
    rows = {row[0]: row[1:] for row in tables(notebook) if row[0] in ("most popular", "content neighbors", "DPCML+DN")}
    figures = {name: [float(cell) if cell != "null" else 0.0 for cell in row] for name, row in rows.items()}
    best = [max(figures, key=lambda name: figures[name][at]) for at in range(3)]
    # "Neighbors by content are best for people without history; a model that learns from both for the others."
    assert best == ["DPCML+DN", "content neighbors", "DPCML+DN"]
    counts = {row[0]: int(row[1]) for row in tables(notebook) if len(row) == 2 and row[1].isdigit()}
    assert counts["Jazz"] > counts["Chess"]  # "The tags outweigh two clicks."
    assert "error: 1 of 1 user ids are unknown" in shown(notebook)


def check_honest_comparison(notebook):
    rows = {
        (row[0], row[1]): [float(cell) for cell in row[2:6]]
        for row in tables(notebook)
        if len(row) == 7 and row[2][:1] == "0"
    }
    dpcml, ease, als = (rows["tastespace", name] for name in ("DPCML", "EASE", "ALS"))
    assert dpcml[0] < min(ease[0], als[0])  # NDCG@10: "DPCML alone is below EASE and ALS"
    assert abs(dpcml[2] - ease[2]) < 0.01 < als[2] - dpcml[2]  # MinorityRecall@20: "as good as EASE and below ALS"
    assert max(rows, key=lambda name: rows[name][0]) == ("tastespace", "ts.fit, 8 trials")
    p = re.search(r"NDCG@10 .*b - a +\+.*p \(t\) (\S+)", shown(notebook))
    assert float(p[1]) < 0.05  # "more than chance?"


def test_what_the_text_says_is_in_the_outputs():
    """Of the outputs that are committed; what holds on synthetic data too is checked when a notebook is run."""
    for name, check in (("cold_start", check_cold_start), ("honest_comparison", check_honest_comparison)):
        check(json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("TASTESPACE_DATA", "")  # synthetic data: seconds instead of a minute
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises where a cell does
    assert any(cell.get("outputs") for cell in notebook.cells)
    if path.stem == "cold_start":  # its data is the same everywhere
        check_cold_start(notebook)
