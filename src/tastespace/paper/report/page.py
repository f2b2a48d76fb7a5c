"""The report as one self-contained page."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path

from tastespace.paper.entries import Entry
from tastespace.paper.experiment import Experiment
from tastespace.paper.rendering import as_text, chance, marks_of, problems_of, row_name, shown_metrics, signed
from tastespace.paper.report.collecting import Collected, Drawn, Section
from tastespace.paper.report.far import HEADING, remarks
from tastespace.paper.report.twin import HOW_CLAIMS_ARE_JUDGED, HOW_TO_READ, by_claim
from tastespace.paper.verdicts import Verdict

_MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
_LOOKS = {"holds": "good", "holds in part": "fair", "does not hold here": "bad", "not measured": "none"}
_STYLE = Path(__file__).with_name("page.css")


def to_page(found: Collected, facts: Mapping[str, str]) -> str:
    """The whole report as HTML; styles and figures are inside."""
    tables = "".join(_section(section) for section in found.sections)
    figures = "".join(_figure(drawn) for drawn in found.figures)
    how = HOW_TO_READ.replace("In brackets stand", "Below it stand")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title><style>{_STYLE.read_text(encoding="utf-8")}</style></head><body>
<header><h1>The paper, reproduced</h1>
<p>Improved Diversity-Promoting Collaborative Metric Learning for Recommendation (TPAMI 2024): its tables, figures and
claims, measured with tastespace, ours beside theirs.</p>
<dl class="facts">{"".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())}</dl>
{_contents(found)}</header>
<main><section id="claims"><h2>Claims</h2>{_claims(found.verdicts)}</section>
<section id="tables"><h2>Tables</h2><p>{escape(how)}</p>{tables}</section>
<section id="figures"><h2>Figures</h2>{figures}</section>
<section id="gaps"><h2>Gaps</h2>{_gaps(found)}</section></main></body></html>
"""


def _contents(found: Collected) -> str:
    tables = "".join(
        f'<li><a href="#{_anchor(s.table.name, s.dataset)}">{escape(s.title)}</a></li>' for s in found.sections
    )
    figures = "".join(
        f'<li><a href="#figure-{_anchor(d.picture.name, d.dataset)}">{escape(d.picture.title)}, '
        f"{escape(d.dataset)}</a></li>"
        for d in found.figures
    )
    return (
        f'<nav><details open><summary>Contents</summary><div><ul><li><a href="#claims">Claims</a></li>{tables}</ul>'
        f'<ul>{figures}<li><a href="#gaps">Gaps</a></li></ul></div></details></nav>'
    )


def _anchor(name: str, dataset: str) -> str:
    return f"{name}-{dataset}"


def _claims(verdicts: list[Verdict]) -> str:
    if not verdicts:
        return "<p>Claims are judged on full runs only.</p>"
    datasets, rows = by_claim(verdicts)
    heads = "".join(f"<th>{escape(name)}</th>" for name in datasets)
    lines = "".join(
        f"<tr><td>{escape(text)}</td>{''.join(_verdict(one) for one in judged)}</tr>" for text, judged in rows.items()
    )
    table = f"<table class=claims><tr><th>claim</th>{heads}</tr>{lines}</table>"
    return f"<p>{escape(HOW_CLAIMS_ARE_JUDGED)}</p><div class=wide>{table}</div>"


def _verdict(verdict: Verdict | None) -> str:
    """The word, with the differences behind it to be unfolded."""
    if verdict is None:
        return "<td></td>"
    word = f'<span class="verdict {_LOOKS[verdict.word]}">{verdict.word}</span>'
    rows = "".join(
        f"<tr><td>{escape(row['better'])}</td><td>{escape(row['worse'])}</td><td>{row['metric']}</td>"
        f"<td class=n>{row['difference']:+.2f}</td><td class=n>{escape(chance(row['p after Holm']))}</td></tr>"
        for row in verdict.rows()
    )
    if not rows:
        return f"<td>{word}</td>"
    heads = "".join(f"<th>{head}</th>" for head in ("better", "worse", "metric", "difference", "p after Holm"))
    behind = f"{verdict.pairs}: {escape(verdict.tally)}"
    return (
        f"<td>{word}<details><summary>{behind}</summary><table><tr>{heads}</tr>{rows}</table></details></td>"
    )  # fmt: skip


def _section(section: Section) -> str:
    table, metrics = section.table, shown_metrics(section.table, section.found)
    timed = isinstance(table, Experiment)
    tested = bool(section.p_values)
    heads = [
        "method" if timed else "data set",
        *metrics,
        *(["p"] if tested else []),
        *(["seeds", "trials", "seconds"] if timed else []),
    ]
    best = {name: _best([e.ours[name] for e in section.found if name in e.ours], name) for name in metrics}
    rows = "".join(_row(section, entry, metrics, best, timed, tested) for entry in section.found)
    return (
        f'<article id="{_anchor(table.name, section.dataset)}"><h3>{escape(table.title)} <small>'
        f"{escape(section.dataset)}</small></h3><div class=wide><table class=figures><thead><tr>"
        f"{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"{_problems(section)}{_far(section)}<p class=source>{_source(section)}</p></article>"
    )


def _best(values: list[float], metric: str) -> float | None:
    """The largest, of times the smallest."""
    return (min if metric.startswith("seconds") else max)(values, default=None)


def _source(section: Section) -> str:
    """The command, and what its runs cost."""
    effort = f" ({escape(section.effort)})" if section.effort else ""
    return f"<code>{escape(section.command)}</code>{effort}"


def _far(section: Section) -> str:
    """How far from the paper, to be unfolded."""
    found = "".join(f"<li>{escape(text)}</li>" for text in remarks(section))
    return (
        f"<details><summary>More than 10 % from the paper</summary><p>{escape(HEADING)}</p><ul>{found}</ul></details>"
        if found
        else ""
    )


def _problems(section: Section) -> str:
    found = problems_of(section.found) if isinstance(section.table, Experiment) else []
    return f"<ul>{''.join(f'<li>{escape(problem)}</li>' for problem in found)}</ul>" if found else ""


def _row(
    section: Section, entry: Entry, metrics: list[str], best: Mapping[str, float | None], timed: bool, tested: bool
) -> str:
    cells = [_cell(entry, name, timed and entry.ours.get(name) == best[name]) for name in metrics]
    note = "".join(
        f' <span class="{"note" if mark == entry.note else "gap"}">{escape(mark)}</span>' for mark in marks_of(entry)
    )
    if tested:
        known = section.p_values.get(entry.label)
        text = "best" if entry.label == section.best else "" if known is None else escape(chance(known))
        cells.append(f"<td class=n>{text}</td>")
    if timed:
        last = (entry.seeds or "", entry.trials or "", f"{entry.seconds:.0f}" if entry.seeds else "")
        cells.append("".join(f"<td class=n>{text}</td>" for text in last))
    return f"<tr><td>{escape(row_name(section.table, entry))}{note}</td>{''.join(cells)}</tr>"


def _cell(entry: Entry, name: str, is_best: bool) -> str:
    ours, theirs = entry.ours.get(name), entry.theirs.get(name)
    spread = f" <small>± {as_text(entry.spread[name], ours)}</small>" if name in entry.spread else ""
    above = "–" if ours is None else f"{'<b>' if is_best else ''}{as_text(ours)}{'</b>' if is_best else ''}{spread}"
    below = ""
    if theirs is not None:
        gap = "" if ours is None else f" <i>{signed(ours - theirs, theirs)}</i>"
        below = f"<div>{as_text(theirs)}{gap}</div>"
    return f"<td class=n>{above}{below}</td>"


def _figure(drawn: Drawn) -> str:
    # Lines are smaller and sharper as .svg, clouds of dots as .png.
    file = min(drawn.files, key=lambda path: path.stat().st_size)
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    title = escape(f"{drawn.picture.title}, {drawn.dataset}")
    return (
        f'<figure id="figure-{_anchor(drawn.picture.name, drawn.dataset)}"><img alt="{title}" '
        f'src="data:{_MEDIA[file.suffix]};base64,{data}"><figcaption><b>{title}.</b> {escape(drawn.caption)}'
        f"</figcaption></figure>"
    )


def _gaps(found: Collected) -> str:
    if not found.gaps:
        return "<p>None.</p>"
    rows = "".join(
        f"<tr><td>{escape(what)}</td><td>{escape(dataset)}</td><td>{escape(why)}</td></tr>"
        for what, dataset, why in found.gaps
    )
    return f"<table><tr><th>what</th><th>data set</th><th>why</th></tr>{rows}</table>"
