"""Report of the recipe: what was tried and chosen, as a table and in one sentence, next to most popular and EASE."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tastespace.data.attributes import category_column
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError
from tastespace.evaluation import evaluate
from tastespace.models import (
    EASE,
    MostPopular,
    Recommender,
    SparseEASE,
)
from tastespace.models.blend.weights import Accuracy
from tastespace.models.linear.ease import MOST_FOR_COMPARISON
from tastespace.recipe._choice import Choice
from tastespace.recipe._trials import Budget, Trial, ease_seconds, sample_users, short_name

# ---------------------------------------------------------------------------------------------------------------------
# The models next to which figures are shown: without them a figure says little about a model.


def reference_models(train: Interactions, threads: int = 0) -> list[Recommender]:
    """The most popular items, and EASE; SparseEASE, which is much like it, where the data is too large. Not fitted.

    >>> from tastespace import synthetic
    >>> reference_models(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    [MostPopular(), EASE()]
    """
    small = min(train.n_users, train.n_items) <= MOST_FOR_COMPARISON
    return [MostPopular(), EASE(threads=threads) if small else SparseEASE(threads=threads)]


# ---------------------------------------------------------------------------------------------------------------------
# Figures of most popular and EASE on the same held-out data, to show next to the blend.

log = logging.getLogger(__name__)

_LABELS = {MostPopular: "most popular", EASE: "EASE", SparseEASE: "SparseEASE"}
_MEASURED_USERS = 4_000  # those that the blend is measured on, see `CandidateScores.of`


def reference_rows(
    done: list[Trial], train: Interactions, held_out: Interactions, budget: Budget, threads: int
) -> list[dict[str, Any]]:
    """A row for most popular and one for EASE (SparseEASE for large data): label, model, metrics, seconds.

    A model that is among the trials is not fitted again; one that does not fit into the budget is left out.
    """
    measured = sample_users(held_out, _MEASURED_USERS)
    rows = []
    for wanted in reference_models(train, threads):
        start = time.monotonic()
        model = _best(done, type(wanted))
        if model is None and not _fits(wanted, done, budget, train):
            model = _best(done, SparseEASE)
        try:
            row = _row((wanted if model is None else model), train, measured, threads)
        except (TastespaceError, MemoryError, np.linalg.LinAlgError) as problem:
            log.warning("%s was left out: %s", short_name(wanted), problem)
            continue
        rows.append({**row, "seconds": time.monotonic() - start})
    return rows


def _best(done: list[Trial], kind: type[Recommender]) -> Recommender | None:
    alike = [trial for trial in done if type(trial.model) is kind and trial.model.is_fitted]
    return max(alike, key=lambda one: one.objective).model if alike else None


def _fits(model: Recommender, done: list[Trial], budget: Budget, train: Interactions) -> bool:
    """Most popular takes no time worth counting; EASE takes what its closed form does on a slow machine."""
    if budget.seconds is None or isinstance(model, MostPopular):
        return True
    return budget.elapsed + ease_seconds(train) + budget.reserve(done) < budget.seconds


def _row(model: Recommender, train: Interactions, measured: Interactions, threads: int) -> dict[str, Any]:
    if not model.is_fitted:
        model.fit(train, progress=False)
    names = {"NDCG@10": f"NDCG@{min(10, train.n_items)}", "R@20": f"R@{min(20, train.n_items)}"}
    if category_column(train.item_attributes) is not None:
        names["MinorityRecall@20"] = f"MinorityRecall@{min(20, train.n_items)}"
    found = evaluate(model, measured, seen=train, metrics=list(names.values()), threads=threads)
    figures = {label: float(found[name]) for label, name in names.items()}
    minority = figures.get("MinorityRecall@20", math.nan)
    figures_or_none = {**figures, "MinorityRecall@20": None if math.isnan(minority) else minority}
    return {"label": _LABELS[type(model)], "model": short_name(model), **figures_or_none}


# ---------------------------------------------------------------------------------------------------------------------
# The report: a table of trials, the reasons for the choice, and one sentence about several tastes.

_SIGNIFICANT = 0.05  # p-values above are taken for chance
_NOTABLE = 0.005  # relative difference below which figures count as equal


@dataclass(frozen=True)
class RecipeReport:
    """The report of `tastespace.fit`; a fitted model has it as ``recipe_`` in plain values."""

    trials: list[dict[str, Any]]
    """A row for each model tried: family, model (what its search varies), setting (all of its parameters), NDCG@10,
    R@20 and, where items have categories, MinorityRecall@20 on held-out data, seconds, and weight in the blend."""
    blend: dict[str, Any]
    """Members, weights, balance, and the figures of the blend, of its best member and of the best blend of models with
    one vector per user; None where nothing was compared."""
    tastes: str
    """One sentence on users with several tastes in this data."""
    notes: list[str]
    """Remarks for the user: a budget that was too small, weights that were not used, ..."""
    seconds: float
    references: list[dict[str, Any]] = field(default_factory=list)
    """Reference models on the same held-out data: most popular, and EASE if there was time for it."""
    held_out: str = ""
    """Description of the held-out part."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    @property
    def metrics(self) -> dict[str, float]:
        """Figures of the blend on held-out data, to keep with the model; empty where nothing could be held out."""
        names = {"ndcg": "NDCG@10", "recall": "R@20", "minority": "MinorityRecall@20"}
        found = self.blend["figures"] or {}
        return {label: found[name] for name, label in names.items() if found.get(name) is not None}

    def __str__(self) -> str:
        rows = [("family", "model", "NDCG@10", "R@20", "minority", "seconds", "weight")]
        rows += [
            (
                row["family"], row["model"], f"{row['NDCG@10']:.4f}", f"{row['R@20']:.4f}",
                "" if row["MinorityRecall@20"] is None else f"{row['MinorityRecall@20']:.4f}", f"{row['seconds']:.1f}",
                f"{row['weight']:.2f}" if row["weight"] is not None else "",
            )
            for row in self.trials
        ]  # fmt: skip
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, "", self.reason, *self.beside, self.tastes, *self.notes])

    @property
    def beside(self) -> list[str]:
        """One line with the figures of most popular and EASE, to compare with."""
        if not self.references:
            return []
        rows = [f"{row['label']} {row['NDCG@10']:.4f} and {row['R@20']:.4f}" for row in self.references]
        return [f"For comparison, NDCG@10 and R@20 on the same data: {', '.join(rows)}."]

    @property
    def reason(self) -> str:
        """Return the reasons for this blend."""
        members, figures, best = self.blend["members"], self.blend["figures"], self.blend["best_member"]
        if figures is None:
            return f"Fitted without a comparison: {', '.join(members)}."
        reached = f"NDCG@10 {figures['ndcg']:.4f} and R@20 {figures['recall']:.4f} on held-out data"
        in_blend = sum(weight > 0 for weight in self.blend["weights"])
        if in_blend == 1:
            members = [member for member, weight in zip(members, self.blend["weights"], strict=True) if weight > 0]
            chosen = f"Chosen: {members[0]}, {reached}."
        else:
            chosen = (
                f"Chosen: the blend of {in_blend} models, {reached}; the best model alone has {best['ndcg']:.4f} "
                f"and {best['recall']:.4f}."
            )
        balance, by = self.blend["balance"], self.blend["balance_by"]
        return chosen + (f" Smaller interests get more weight (balance {balance:g} by {by})." if balance else "")


def report_without_choice(model: Recommender, notes: list[str], seconds: float) -> RecipeReport:
    """The report where nothing could be held out, so that nothing could be compared."""
    return RecipeReport(
        trials=[],
        blend={
            "members": [short_name(model)],
            "weights": [1.0],
            "balance": 0.0,
            "balance_by": "interests",
            **dict.fromkeys(("figures", "best_member", "one_vector", "minority_p")),
        },
        tastes="Several interests per user were not compared: no interactions were held out.",
        notes=notes,
        seconds=seconds,
    )


def make_report(trials: list[Trial], choice: Choice, notes: list[str], seconds: float) -> RecipeReport:
    """The report of a finished recipe."""
    weights = {id(trial): float(weight) for trial, weight in zip(choice.trials, choice.weights, strict=True)}
    best, figures = choice.best_member
    models = [trial.model for trial in trials]
    return RecipeReport(
        trials=[
            {
                "family": trial.family,
                "model": short_name(trial.model, models),
                "setting": repr(trial.model),
                "NDCG@10": trial.figures.ndcg,
                "R@20": trial.figures.recall,
                "MinorityRecall@20": _or_none(trial.figures.minority),
                "seconds": trial.seconds,
                "weight": weights.get(id(trial)),
            }
            for trial in trials
        ],
        blend={
            "members": [short_name(trial.model, models) for trial in choice.trials],
            "weights": [float(weight) for weight in choice.weights],
            "balance": choice.balance,
            "balance_by": choice.balance_by,
            "figures": _plain(choice.figures),
            "best_member": {"model": short_name(best.model, models), **_plain(figures)},
            "one_vector": None if choice.one_vector is None else _plain(choice.one_vector),
            "minority_p": choice.minority_p,
        },
        tastes=tastes_sentence(choice),
        notes=notes,
        seconds=seconds,
    )


def tastes_sentence(choice: Choice) -> str:
    """Say if several interests per user improve lists on this data."""
    several, one = choice.figures, choice.one_vector
    if not any(trial.model.has_interests for trial in choice.trials):
        return "Several interests per user were not compared: no model of the trials has several vectors per user."
    if one is None:
        return "Several interests per user were not compared: no model of the trials has one vector per user."
    by = "category" if choice.balance_by == "categories" else "interest"
    if math.isnan(several.minority) or math.isnan(one.minority):
        return f"Several interests per user were not compared: no user has held-out items outside the main {by}."
    what = f"recall of items outside a user's main {by}"
    change = f"from {one.minority:.4f} to {several.minority:.4f}"
    if not _uses_interests(choice):
        return f"One vector is enough here: several interests improve neither accuracy nor the {what}."
    gain = _relative(several.plain, one.plain)
    if several.minority <= (1 + _NOTABLE) * one.minority and gain > _NOTABLE:
        return f"Several interests improve accuracy by {100 * gain:.1f} %, but not the {what} ({change})."
    if several.minority <= (1 + _NOTABLE) * one.minority:
        return f"One vector is enough here: several interests do not notably improve the {what} ({change})."
    if choice.minority_p is not None and choice.minority_p > _SIGNIFICANT:
        return (
            f"One vector may be enough here: the {what} is higher with several interests ({change}), but that may be "
            f"chance (p = {choice.minority_p:.2g})."
        )
    loss = -min(_relative(several.ndcg, one.ndcg), _relative(several.recall, one.recall))
    cost = "at no loss of accuracy" if loss < _NOTABLE else f"for {100 * loss:.1f} % less accuracy"
    rise = f"by {100 * _relative(several.minority, one.minority):.1f} % ({change})" if one.minority else change
    return f"This data has users with several tastes: several interests improve the {what} {rise} {cost}."


def _uses_interests(choice: Choice) -> bool:
    """Return True if vectors of several interests change a score of the blend."""
    if choice.balance > 0 and choice.balance_by == "interests":
        return True
    return any(w > 0 and trial.model.has_interests for w, trial in zip(choice.weights, choice.trials, strict=True))


def _plain(figures: Accuracy) -> dict[str, float | None]:
    return {name: _or_none(value) for name, value in figures._asdict().items()}


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _relative(value: float, reference: float) -> float:
    return value / reference - 1.0 if reference else 0.0
