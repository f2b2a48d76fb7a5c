"""`tastespace.fit`: the default recipe."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tastespace._util.checks import require_number, require_seed, require_whole
from tastespace._util.interrupts import interrupts_end_task, time_limit
from tastespace._util.threads import resolve_threads
from tastespace.data import split
from tastespace.data.attributes import category_column, item_categories
from tastespace.data.interactions import Interactions
from tastespace.data.merge import pairs_of
from tastespace.data.reading.options import ColumnArguments
from tastespace.errors import Argument, ParameterError, TimeLimitError
from tastespace.models import Blend, MostPopular, SparseEASE
from tastespace.models.base import TrainingData, interactions_from
from tastespace.models.trained import TrainedRecommender
from tastespace.recipe._checkpoint import RecipeCheckpoint, fingerprint
from tastespace.recipe._choice import choose
from tastespace.recipe._families import ALWAYS_TRIED, families, short_name
from tastespace.recipe._trials import Budget, Setting, Trial, n_measured, run_trials, sample_users, usable
from tastespace.recipe.report import make_report, reference_rows, report_without_choice

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.dates import Duration
    from tastespace.data.reading.options import TableArguments

log = logging.getLogger(__name__)

_MOST_CATEGORIES = 500
_HELD_OUT = 0.1, 0.2  # share of the interactions, at least, at most
_ENOUGH_HELD_OUT = 15_000
_TOO_SHORT = "Histories are too short to hold anything out"
_NONE_FITTED = "No model of the trials could be fitted (the log says why)"
_NO_TIME = "No model could be fitted to all of the data within the budget"
_LATEST = 1.1  # end of the last fits, in budgets, plus
_GRACE = 3.0  # seconds
_LEAST_TRAINING = 0.3  # share of the time left that a model has, whatever else is to be fitted


@interrupts_end_task()
def fit(
    data: TrainingData,
    *,
    minutes: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    threads: int = 0,
    half_life: Duration | None = None,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    **columns: Unpack[TableArguments],
) -> Blend:
    """Choose and fit a model for this data within a budget of time: the default recipe.

    A part of each history is held out, a fifth, or a tenth of large data; where the data has timestamps
    (``timestamp="column"``) the last interactions of all, because that is what a model will have to rank
    (`split.hold_out`). On the rest models of several families are tried (linear, factorization, metric learning with
    one and with several vectors per user), and their best ones are blended, with the weights that rank the held-out
    items best; the blend is not worse there than its best member. Then the users' past items are grouped into tastes,
    and it is tried how much the strongest taste alone should decide and how much smaller tastes are lifted, as far as
    that costs no more than 0.5 % of NDCG@10 and of R@20; where items have categories smaller ones get more weight for
    up to half of the blend's lead over its best member, at most 2 %. Then everything is fitted to all of the data.

    Weights of interactions, by a column, by kinds of events (``kind="column"``) or by age (``half_life``), go to the
    families that use them. Each tries to what power they count, 0 being not at all, and the held-out part decides.

    Args:
        data: `Interactions`, or a frame of any library, or a SciPy CSR matrix.
        minutes: Time for all of it, by default 2 for up to 100,000 interactions, and more for more: see
            `default_minutes`. At least two models are tried, however small the budget, a linear one and one with
            several vectors, unless that takes more than some seconds. Models that take too long are stopped or left
            out, and the report says so.
        trials: Number of models to try, instead of ``minutes``: gives the same model every time.
        seed: Of the held-out part and of the models.
        threads: 0 means all cores.
        half_life: Old interactions weigh less, as in `Interactions.with_half_life`: ``"90d"``. Needs ``timestamp``.
        checkpoint: Folder to which every model is written as soon as it is finished. A run that was stopped, in
            whatever way, resumes there when the same call is made again, and loses at most the model that was being
            fitted. With ``trials`` it ends in the same bits as one that was never stopped; of ``minutes``, the time
            spent before counts. A folder of other data or arguments is refused. At the end the folder holds the
            finished blend, which the same call returns at once; save it elsewhere and delete the folder.
        progress: Show what is being tried: by default only where standard error is a terminal.
        **columns: ``target`` is the kind of event that models are measured by, such as ``"purchase"``, where the frame
            has kinds; of `Interactions` it is other `Interactions` with the pairs that count. Of a frame, the options
            of `Interactions.from_frame`: ``user`` and ``item``, the names of the columns of ids, ``rating``,
            ``min_rating``, ``item_attributes``, ...

    Returns:
        A fitted `Blend`. Its ``recipe_`` says what was tried and why it was chosen: a table of trials, the blend, and
        one sentence on whether users of this data have several tastes. `RecipeReport` prints it.

    >>> import tastespace as ts
    >>> town = ts.synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    >>> model = ts.fit(town, trials=3)
    >>> len(model.recipe_["trials"]), model.recommend(7, k=2)["rank"].to_list()
    (3, [1, 2])
    """
    began = time.monotonic()
    check_arguments(minutes, trials, seed, threads)
    target = columns.pop("target", None)
    whole = interactions_from("fit", data, columns)
    wanted = _target_of(data, target, columns)
    if half_life is not None:
        whole = whole.with_half_life(half_life)
    minutes = default_minutes(whole.n_interactions) if minutes is None and trials is None else minutes
    identity: dict[str, Any] = {"minutes": minutes, "trials": trials, "seed": seed}
    if checkpoint is not None:
        identity["data"] = fingerprint(whole)
        if wanted is not None:
            identity["target"] = fingerprint(wanted)
    kept = RecipeCheckpoint(checkpoint, identity)
    finished = kept.finished()
    if finished is not None:
        log.info("%s holds the finished model", checkpoint)
        return cast(Blend, finished)
    try:
        model = _chosen_and_fitted(whole, wanted, minutes, trials, seed, threads, kept, began - kept.seconds, progress)
        kept.finish(model, time.monotonic() - began)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept.interrupted()) from None
    return model


def _target_of(data: TrainingData, target: Interactions | str | None, columns: Any) -> Interactions | None:
    """The interactions that models are measured by; None: all."""
    if target is None or isinstance(target, Interactions):
        return target
    if isinstance(data, Interactions):
        raise ParameterError(
            Argument("target", target), ": the data are Interactions, which do not tell kinds apart. Give the frame, "
            "or the Interactions of that kind, read with ", Argument("target"), "."
        )  # fmt: skip
    about_rows = {name: value for name, value in columns.items() if name in ColumnArguments.__annotations__}
    return interactions_from("fit", data, cast("TableArguments", {**about_rows, "target": target}), part=True)


def _chosen_and_fitted(
    whole: Interactions,
    wanted: Interactions | None,
    minutes: float | None,
    trials: int | None,
    seed: int,
    threads: int,
    checkpoint: RecipeCheckpoint,
    began: float,
    progress: bool | None,
) -> Blend:
    """Try models, choose a blend, fit it to everything; work that the checkpoint holds is not done again."""
    notes: list[str] = []
    if whole.weights is not None and (whole.weights == whole.weights[:1]).all():
        whole = whole.without_weights()  # nothing to choose from
    compared = whole if _has_few_categories(whole) else replace(whole, item_attributes=None)
    parts = split.hold_out(compared, held_out_share(compared.n_interactions), seed=seed)
    train, held_out = _of_usual_weight(parts.rest, whole), pairs_of(parts.held_out, wanted).without_weights()
    if not held_out.n_interactions:
        return _without_choice(whole, threads, notes, _TOO_SHORT, began)
    budget = Budget(None if minutes is None else 60 * minutes, trials, began)
    seconds = 60 * default_minutes(whole.n_interactions) if budget.seconds is None else budget.seconds
    measured = sample_users(held_out, n_measured(train.n_items, seconds))
    with _messages(progress) as report:
        setting = Setting(train, measured, budget, report, threads, checkpoint, notes)
        done = run_trials(families(train, seed, threads), setting)
        if not done:
            return _without_choice(whole, threads, notes, _NONE_FITTED, began)
        checkpoint.end_search(budget.elapsed)
        report("choosing the blend")
        choice = choose(done, measured, threads)
        if minutes is not None and len(done) <= len(ALWAYS_TRIED):
            notes.append(f"The budget of {minutes:g} minutes was used up by the first models; give more for a choice.")
        references = reference_rows(done, setting)
        notes += parts.notes
        found = replace(make_report(done, choice, notes, seconds=0.0), references=references, held_out=parts.how)
        members = [Member(trial, float(weight)) for trial, weight in zip(choice.trials, choice.weights, strict=True)]
        parameters = choice.parameters
        del done, choice  # the models of the trials take as much memory as those that are fitted now
        fitted = _fitted_to_everything(members, whole, setting)
    if not fitted:
        return _without_choice(whole, threads, notes, _NO_TIME, began)
    members = [members[at] for at in fitted]
    weights = [member.weight for member in members]
    if len(fitted) < len(found.blend["members"]):
        weights = [weight / sum(weights) if sum(weights) else 1 / len(weights) for weight in weights]
        found = found.with_members(fitted, weights)
        notes.append(found.notes[-1])
    model = Blend.of([member.model for member in members], weights, **parameters, threads=threads)
    model.train_ = whole  # with the weights, whether members use them or not
    model.recipe_ = replace(found, notes=notes, seconds=budget.elapsed).to_dict()
    return model


def _of_usual_weight(train: Interactions, whole: Interactions) -> Interactions:
    """The part with the mean weight of all: half-lives make one without the last interactions lighter."""
    if train.weights is None or whole.weights is None or not train.n_interactions:
        return train
    return replace(train, weights=train.weights * np.float32(whole.weights.mean() / train.weights.mean()))


class Member:
    """A member of the blend that is to be fitted to everything."""

    def __init__(self, trial: Trial, weight: float) -> None:
        self.model, self.weight = trial.model.as_chosen(), weight
        """Not fitted, with the number of epochs that was best."""
        self.seconds = trial.refit_seconds
        """Estimate of the time that fitting it takes."""


def _fitted_to_everything(members: list[Member], whole: Interactions, setting: Setting) -> list[int]:
    """Places of the members that there was time to fit, ascending; those with much weight have their turn first."""
    budget, fitted = setting.budget, set[int]()
    order = sorted(range(len(members)), key=lambda at: -members[at].weight)
    for number, at in enumerate(order):
        member = members[at]
        name = short_name(member.model)
        known = setting.checkpoint.final(at, member.model)
        if known is not None:
            member.model = known
            fitted.add(at)
            continue
        left = None
        if budget.seconds is not None:
            left = _LATEST * budget.seconds + _GRACE - budget.elapsed
            left = max(left, _GRACE) if not fitted else left
        is_trained = isinstance(member.model, TrainedRecommender)
        if left is not None and (left <= 0 or (not is_trained and fitted and member.seconds > left)):
            setting.notes.append(f"{name} was left out of the blend: no time was left to fit it to all of the data.")
            continue
        setting.report(f"fitting to everything: {name}")
        try:
            if is_trained and left is not None:
                rest = sum(members[one].seconds for one in order[number + 1 :])
                member.model.set_params(max_minutes=max(left - rest, _LEAST_TRAINING * left) / 60)
            with time_limit(left):
                member.model.fit(usable(whole, member.model), progress=False)
            if is_trained:
                member.model.set_params(max_minutes=None)
        except TimeLimitError:
            setting.notes.append(f"{name} was left out of the blend: fitting it to all of the data took too long.")
            continue
        setting.checkpoint.add_final(at, member.model)
        fitted.add(at)
    return sorted(fitted)


def _without_choice(whole: Interactions, threads: int, notes: list[str], why: str, began: float) -> Blend:
    """A simple model where nothing can be compared."""
    # Without two items of one user a model of items has nothing to learn from.
    linear = whole.user_counts.max(initial=0) > 1 and why == _TOO_SHORT
    member = (SparseEASE(threads=threads) if linear else MostPopular()).fit(whole)
    note = f"{why}: {short_name(member)} was fitted without a comparison."
    log.warning("%s", note)
    model = Blend.of([member], [1.0], threads=threads)
    model.recipe_ = report_without_choice(member, [*notes, note], time.monotonic() - began).to_dict()
    return model


def _has_few_categories(data: Interactions) -> bool:
    """Return True if the items have categories such as genres, rather than thousands of tags or none."""
    column = category_column(data.item_attributes)
    if column is None or data.item_attributes is None:
        return False
    return 2 <= len(item_categories(data.item_attributes[column]).names) <= _MOST_CATEGORIES


def default_minutes(n_interactions: int) -> float:
    """Time for the recipe on data of this size: with its square root, from 2 to 15 minutes.

    >>> default_minutes(10_000), default_minutes(400_000), default_minutes(100_000_000)
    (2.0, 4.0, 15.0)
    """
    return min(max(2.0, 2.0 * (n_interactions / 100_000) ** 0.5), 15.0)


def held_out_share(n_interactions: int) -> float:
    """Share of the interactions to choose on: no more than is needed, so that models are compared as they will be.

    Models that count pairs of items gain most from further interactions, so a large share favors the others.

    >>> held_out_share(60_000), held_out_share(100_000), held_out_share(1_000_000)
    (0.2, 0.15, 0.1)
    """
    least, most = _HELD_OUT
    return min(max(_ENOUGH_HELD_OUT / max(n_interactions, 1), least), most)


def check_arguments(minutes: float | None, trials: int | None, seed: int, threads: int) -> None:
    """Raise `ParameterError` for arguments of `fit` that are no budget, seed or number of threads."""
    if minutes is not None and trials is not None:
        raise ParameterError(
            Argument("minutes", minutes),
            " and ",
            Argument("trials", trials),
            ": give only one: the budget is either a time or a number of trials.",
        )
    if minutes is not None:
        require_number("minutes", minutes, above=0.0)
    if trials is not None:
        require_whole("trials", trials)
    require_seed(seed)
    resolve_threads(threads)


@contextmanager
def _messages(progress: bool | None) -> Iterator[Callable[[str], None]]:
    """A line on standard error that says what is being tried."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda text: log.info("%s", text)
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from tastespace._util.terminal import Console

    console = Console(stderr=True)
    if not console.is_terminal:  # a file: a line for each message
        yield lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text: bar.update(task, description=text, refresh=True)
