"""`tastespace.fit`: the default recipe."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tastespace._util.checks import require_number, require_seed, require_whole
from tastespace._util.interrupts import interrupts_end_task
from tastespace._util.threads import resolve_threads
from tastespace.data import split
from tastespace.data.attributes import category_column, item_categories
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError
from tastespace.models import Blend, MostPopular, SparseEASE
from tastespace.models.base import TrainingData, interactions_from
from tastespace.recipe._choice import choose
from tastespace.recipe._trials import ALWAYS_TRIED, Budget, families, run_trials, short_name
from tastespace.recipe.report import make_report, reference_rows, report_without_choice

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

log = logging.getLogger(__name__)

_MOST_CATEGORIES = 500
_HELD_OUT = 0.2
_TOO_SHORT = "Histories are too short to hold anything out"
_NONE_FITTED = "No model of the trials could be fitted (the log says why)"


@interrupts_end_task()
def fit(
    data: TrainingData,
    *,
    minutes: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    threads: int = 0,
    progress: bool | None = None,
    **columns: Unpack[TableArguments],
) -> Blend:
    """Choose and fit a model for this data within a budget of time: the default recipe.

    A fifth of each history is held out; where the data has timestamps (``timestamp="column"``) the last fifth of all
    interactions, because that is what a model will have to rank (`split.hold_out`). On the rest models of several
    families are tried (linear, factorization, metric learning with one and with several vectors per user), and their
    best ones are blended, with the weights that rank the held-out items best; the blend is not worse there than its
    best member. Where users have several interests, the smaller ones get more weight as far as that costs no more than
    0.5 % of NDCG@10 and of R@20; where items have categories up to half of the blend's lead over its best member, at
    most 2 %. Then everything is fitted again to all of the data.

    Args:
        data: `Interactions`, or a frame of any library, or a SciPy CSR matrix.
        minutes: Time for all of it, by default 2 for up to 100,000 interactions, and more for more: see
            `default_minutes`. At least two models are tried, however small the budget: a
            linear one and one with several vectors.
        trials: Number of models to try, instead of ``minutes``: gives the same model every time.
        seed: Of the held-out part and of the models.
        threads: 0 means all cores.
        progress: Show what is being tried: by default only where standard error is a terminal.
        **columns: Of a frame, the options of `Interactions.from_frame`: ``user`` and ``item``, the names of the columns
            of ids, ``rating``, ``min_rating``, ``item_attributes``, ...

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
    whole = interactions_from("fit", data, columns)
    notes = []
    if whole.weights is not None:
        whole = whole.without_weights()
        notes.append("Weights were not used: the recipe learns from the interactions alone.")
        log.warning(notes[-1])
    compared = whole if _has_few_categories(whole) else replace(whole, item_attributes=None)
    parts = split.hold_out(compared, _HELD_OUT, seed=seed)
    train, held_out = parts.rest, parts.held_out
    if not held_out.n_interactions:
        return _without_choice(whole, threads, notes, _TOO_SHORT, began)
    minutes = default_minutes(whole.n_interactions) if minutes is None else minutes
    budget = Budget(None if trials is not None else 60 * minutes, trials, began)
    with _messages(progress) as report:
        done = run_trials(families(train, seed, threads), train, held_out, budget, report, threads)
        if not done:
            return _without_choice(whole, threads, notes, _NONE_FITTED, began)
        report("choosing the blend")
        choice = choose(done, held_out, threads)
        if budget.seconds is not None and len(done) <= len(ALWAYS_TRIED):
            notes.append(f"The budget of {minutes:g} minutes was used up by the first models; give more for a choice.")
        references = reference_rows(done, train, held_out, budget, threads)
        notes += parts.notes
        found = replace(make_report(done, choice, notes, seconds=0.0), references=references, held_out=parts.how)
        members = [trial.model.as_chosen() for trial in choice.trials]
        weights = [float(weight) for weight in choice.weights]
        balance, balance_by = choice.balance, choice.balance_by
        del done, choice  # the models of the trials take as much memory as those that are fitted now
        for member in members:
            report(f"fitting to everything: {short_name(member)}")
            member.fit(whole, progress=False)
    model = Blend.of(members, weights, balance=balance, balance_by=balance_by, threads=threads)
    model.recipe_ = replace(found, seconds=time.monotonic() - began).to_dict()
    return model


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
