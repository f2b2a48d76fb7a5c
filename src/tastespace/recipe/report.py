"""Report of the recipe: what was tried and chosen, as a table and in one sentence, next to most popular and EASE."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tastespace._util.interrupts import time_limit
from tastespace.data.interactions import Interactions
from tastespace.errors import TastespaceError
from tastespace.models import (
    EASE,
    MostPopular,
    Recommender,
    SparseEASE,
)
from tastespace.models.blend.weights import Accuracy
from tastespace.models.linear.ease import MOST_FOR_COMPARISON
from tastespace.recipe._choice import Choice
from tastespace.recipe._families import ease_seconds, short_name
from tastespace.recipe._trials import Setting, Trial, best_of_families, measured_accuracy

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


def reference_rows(done: list[Trial], setting: Setting) -> list[dict[str, Any]]:
    """A row for most popular and one for EASE (SparseEASE for large data): label, model, metrics, seconds.

    The figures are those of the same users as in the trials. A model that is among the trials is not fitted again; one
    that does not fit into the budget is left out.
    """
    rows = []
    for wanted in reference_models(setting.train, setting.threads):
        tried = _best(done, type(wanted))
        if tried is None and not _fits(wanted, done, setting):
            tried = _best(done, SparseEASE)
            if tried is None:
                continue
        start = time.monotonic()
        try:
            if tried is not None:
                model, figures = tried.model, tried.figures
            else:
                with time_limit(setting.budget.limit(done, "")):
                    model = wanted.fit(setting.train, progress=False)
                figures = measured_accuracy(model, setting.train, setting.measured, setting.threads)
        except (TastespaceError, MemoryError, np.linalg.LinAlgError) as problem:
            log.warning("%s was left out: %s", short_name(wanted), problem)
            continue
        rows.append(
            {
                "label": _LABELS[type(model)],
                "model": short_name(model),
                "NDCG@10": figures.ndcg,
                "R@20": figures.recall,
                "MinorityRecall@20": _or_none(figures.minority),
                "seconds": time.monotonic() - start,
            }
        )
    return rows


def _best(done: list[Trial], kind: type[Recommender]) -> Trial | None:
    return max((trial for trial in done if type(trial.model) is kind), key=lambda one: one.objective, default=None)


def _fits(model: Recommender, done: list[Trial], setting: Setting) -> bool:
    """Most popular takes no time worth counting; EASE takes what its closed form does on a slow machine."""
    budget = setting.budget
    if budget.seconds is None or isinstance(model, MostPopular):
        return True
    return budget.elapsed + ease_seconds(setting.train) + budget.reserve(done) < budget.seconds


# ---------------------------------------------------------------------------------------------------------------------
# The report: a table of trials, the reasons for the choice, and one sentence about several tastes.

_SIGNIFICANT = 0.05  # p-values above are taken for chance


@dataclass(frozen=True)
class RecipeReport:
    """The report of `tastespace.fit`; a fitted model has it as ``recipe_`` in plain values."""

    trials: list[dict[str, Any]]
    """A row for each model tried: family, model (what its search varies), setting (all of its parameters), NDCG@10,
    R@20 and, where items have categories, MinorityRecall@20 on held-out data, seconds, weight in the blend (0: there
    for its interests alone), and ``best``: True for the model of its family that the blend could take."""
    blend: dict[str, Any]
    """Members, weights, other parameters, and the figures of the blend, of its best member and of the plain sum of the
    members, without tastes; None where nothing was compared."""
    tastes: str
    """The tastes of the users of this data, and what serving them gains or costs."""
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

    def with_members(self, kept: list[int], weights: list[float]) -> RecipeReport:
        """The report where only the members at these places could be fitted to everything, with these weights."""
        left_out = [name for at, name in enumerate(self.blend["members"]) if at not in kept]
        names = [self.blend["members"][at] for at in kept]
        note = f"The figures of the blend are those with {', '.join(left_out)}, left out since."
        blend = {**self.blend, "members": names, "weights": weights}
        return replace(self, blend=blend, notes=[*self.notes, note])

    @property
    def blend_size(self) -> str:
        """Number of the models in the blend, and of those beside them, in words."""
        weights = self.blend["weights"]
        n = sum(weight > 0 for weight in weights)
        beside = f", and {len(weights) - n} beside that groups past items," if len(weights) > n else ""
        return f"a blend of {n} model{'s' * (n != 1)}{beside}"

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
        in_blend = [name for name, weight in zip(members, self.blend["weights"], strict=True) if weight > 0]
        if len(in_blend) == 1:
            chosen = f"Chosen: {in_blend[0]}, {reached}."
        else:
            chosen = (
                f"Chosen: the blend of {len(in_blend)} models, {reached}; the best model alone, {best['model']}, has "
                f"{best['ndcg']:.4f} and {best['recall']:.4f}."
            )
        beside = [name for name, weight in zip(members, self.blend["weights"], strict=True) if not weight > 0]
        return chosen + "".join(f" {name} is kept beside: its item vectors group past items." for name in beside)


def report_without_choice(model: Recommender, notes: list[str], seconds: float) -> RecipeReport:
    """The report where nothing could be held out, so that nothing could be compared."""
    return RecipeReport(
        trials=[],
        blend={
            "members": [short_name(model)],
            "weights": [1.0],
            **dict.fromkeys(("parameters", "figures", "best_member", "without_tastes", "minority_p")),
        },
        tastes="Tastes were not compared: no models were.",
        notes=notes,
        seconds=seconds,
    )


def make_report(trials: list[Trial], choice: Choice, notes: list[str], seconds: float) -> RecipeReport:
    """The report of a finished recipe."""
    weights = {id(trial): float(weight) for trial, weight in zip(choice.trials, choice.weights, strict=True)}
    candidates = {id(trial) for trial in best_of_families(trials)}
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
                "best": id(trial) in candidates,
            }
            for trial in trials
        ],
        blend={
            "members": [short_name(trial.model, models) for trial in choice.trials],
            "weights": [float(weight) for weight in choice.weights],
            "parameters": choice.parameters,
            "figures": _plain(choice.figures),
            "best_member": {"model": short_name(best.model, models), **_plain(figures)},
            "without_tastes": _plain(choice.without_tastes),
            "minority_p": choice.minority_p,
        },
        tastes=tastes_sentence(choice),
        notes=notes,
        seconds=seconds,
    )


def tastes_sentence(choice: Choice) -> str:
    """Say how many tastes people have here, and what serving them gains or costs."""
    people = (
        f"People here have {choice.tastes_per_user:.1f} tastes on average, {100 * choice.several:.0f} % of them "
        "two or more"
    )
    now, plain, used = choice.figures, choice.without_tastes, choice.parameters
    if not (used["focus"] or used["lift"] or used["category_balance"]):
        return f"{people}. Lists by the sum of what all of them say are best; shelves show each of them."
    what = "outside the main category" if choice.by_categories else "of smaller tastes"
    changes = [("NDCG@10", _relative(now.ndcg, plain.ndcg)), ("R@20", _relative(now.recall, plain.recall))]
    if not math.isnan(now.minority):
        changes.append((f"the recall of items {what}", _relative(now.minority, plain.minority)))
    said = ", ".join(f"{name} {100 * change:+.1f} %" for name, change in changes)
    chance = ""
    if choice.minority_p is not None and choice.minority_p > _SIGNIFICANT:
        chance = f" The last may be chance (p = {choice.minority_p:.2g})."
    return f"{people}. Serving them changes {said}, on held-out data.{chance}"


def _plain(figures: Accuracy) -> dict[str, float | None]:
    return {name: _or_none(value) for name, value in figures._asdict().items()}


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _relative(value: float, reference: float) -> float:
    return value / reference - 1.0 if reference else 0.0
