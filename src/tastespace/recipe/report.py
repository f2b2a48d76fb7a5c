"""What the recipe tried and why it chose, as a table and in one sentence about several tastes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from tastespace.models.blend_weights import Accuracy
from tastespace.recipe.choice import Choice
from tastespace.recipe.trials import Trial

_NOTABLE = 0.005  # relative difference below which figures count as equal


@dataclass(frozen=True)
class RecipeReport:
    """The report of `tastespace.fit`; a fitted model has it as ``recipe_`` in plain values."""

    trials: list[dict[str, Any]]
    """A row for each model tried: family, model, NDCG@10 and R@20 on held-out data, seconds, weight in the blend."""
    blend: dict[str, Any]
    """Members, weights, balance, and the figures of the blend and of its best member."""
    tastes: str
    """Whether this data has users with several tastes, in one sentence."""
    notes: list[str]
    """What a user should know: a budget that was too small, weights that were not used, ..."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    @property
    def metrics(self) -> dict[str, float]:
        """Figures of the blend on held-out data, to keep with the model; empty where nothing could be held out."""
        names = {"ndcg": "NDCG@10", "recall": "R@20", "minority": "MinorityRecall@20"}
        found = self.blend.get("figures", {})
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
        return "\n".join([*lines, "", self.reason, self.tastes, *self.notes])

    @property
    def reason(self) -> str:
        """Why this blend was chosen."""
        figures, best = self.blend["figures"], self.blend["best_member"]
        lifted = (
            f" Smaller interests are lifted (balance {self.blend['balance']:g} by {self.blend['balance_by']})."
            if self.blend["balance"]
            else ""
        )
        if len(self.blend["members"]) == 1:
            return f"Chosen: {self.blend['members'][0]}, NDCG@10 {figures['ndcg']:.4f}, R@20 {figures['recall']:.4f}."
        return (
            f"Chosen: the blend of {len(self.blend['members'])} models, NDCG@10 {figures['ndcg']:.4f} and R@20 "
            f"{figures['recall']:.4f} on held-out data; its best member alone has {best['ndcg']:.4f} and "
            f"{best['recall']:.4f}.{lifted}"
        )


def make_report(trials: list[Trial], choice: Choice, notes: list[str], seconds: float) -> RecipeReport:
    """The report of a finished recipe."""
    weights = {id(trial): float(weight) for trial, weight in zip(choice.trials, choice.weights, strict=True)}
    best, figures = choice.best_member
    return RecipeReport(
        trials=[
            {
                "family": trial.family,
                "model": repr(trial.model),
                "NDCG@10": trial.figures.ndcg,
                "R@20": trial.figures.recall,
                "MinorityRecall@20": _or_none(trial.figures.minority),
                "seconds": trial.seconds,
                "weight": weights.get(id(trial)),
            }
            for trial in trials
        ],
        blend={
            "members": [repr(trial.model) for trial in choice.trials],
            "weights": [float(weight) for weight in choice.weights],
            "balance": choice.balance,
            "balance_by": choice.balance_by,
            "figures": _plain(choice.figures),
            "best_member": {"model": repr(best.model), **_plain(figures)},
            "one_vector": _plain(choice.one_vector),
        },
        tastes=tastes_sentence(choice),
        notes=notes,
        seconds=seconds,
    )


def tastes_sentence(choice: Choice) -> str:
    """Whether several interests per user pay on this data."""
    several, one = choice.figures, choice.one_vector
    if not any(trial.model.has_interests for trial in choice.trials):
        return "Several vectors per user were not tried: the budget was too small."
    if math.isnan(several.minority) or math.isnan(one.minority):
        return "Nobody has held-out items outside the main interest: whether several tastes pay cannot be said."
    gain = _relative(several.minority, one.minority)
    loss = min(_relative(several.ndcg, one.ndcg), _relative(several.recall, one.recall))
    what = f"recall of items outside a user's main {'category' if choice.balance_by == 'categories' else 'interest'}"
    if gain < _NOTABLE:
        return f"One vector is enough here: several interests do not improve the {what} ({_percent(gain)})."
    cost = "at no loss of accuracy" if loss > -_NOTABLE else f"for {_percent(loss)} of accuracy"
    return f"This data has users with several tastes: several interests improve the {what} by {_percent(gain)} {cost}."


def _plain(figures: Accuracy) -> dict[str, float | None]:
    return {name: _or_none(value) for name, value in figures._asdict().items()}


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _relative(value: float, reference: float) -> float:
    return value / reference - 1.0 if reference else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
