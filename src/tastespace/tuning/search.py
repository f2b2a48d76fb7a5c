"""`tastespace.tune`: the parameters of a model that do best on held-out interactions of any data."""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tastespace._util.checks import require_number, require_seed, require_whole
from tastespace.data import split as splits
from tastespace.data.interactions import Interactions
from tastespace.data.split import is_pair
from tastespace.errors import Argument, DataError, ParameterError, TrainingError
from tastespace.evaluation import evaluate
from tastespace.evaluation.metrics import MetricColumn, columns_for
from tastespace.models import (
    Blend,
    Recommender,
    create,
    create_seeded,
    name_of,
    registry,
)
from tastespace.models.base import TrainingData, interactions_from
from tastespace.models.blend.members import named_members
from tastespace.training.samplers import find_sampler
from tastespace.tuning._results import TuneResult, short_parameters
from tastespace.tuning.journal import Trial, TrialJournal, trial_key
from tastespace.tuning.proposals import Proposals, make_proposals
from tastespace.tuning.spaces import (
    Space,
    checked_space,
    extend,
    names_in_space,
    pack,
    space_of_model,
    unpack,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

# ---------------------------------------------------------------------------------------------------------------------
# The search: propose, run, write down, until the budget of trials or minutes is spent.

log = logging.getLogger(__name__)

Ended = Literal["trials", "minutes", "everything", "interrupted"]


@dataclass(frozen=True)
class SearchOutcome:
    """All trials of a search, those of the journal included, in the order in which they were made."""

    trials: list[Trial]
    seconds: float
    """Time of all trials, now and before."""
    ended: Ended
    """Reason for the end: a budget, ``"everything"`` was tried, or the user has ``"interrupted"`` the search."""

    @property
    def best(self) -> Trial:
        """The trial with the largest score, the first of equal ones."""
        return max(self.trials, key=lambda trial: trial["score"])


def run_search(
    proposals: Proposals,
    parameters_of: Callable[[dict[str, Any]], dict[str, Any]],
    run_trial: Callable[[dict[str, Any], float | None], Trial],
    journal: TrialJournal,
    objective: set[str],
    *,
    trials: int | None,
    minutes: float | None,
    report: Callable[[Trial, int, bool], None] = lambda trial, number, is_new: None,
) -> SearchOutcome:
    """Try what is proposed until the budget is spent; at least one trial is made.

    Trials that the journal holds are told to the proposals instead of being run again, so a search that was stopped
    continues exactly as if it had never stopped.

    Args:
        proposals: Parameters to try next.
        parameters_of: From a proposal to the parameters of a model.
        run_trial: From parameters, and the minutes that are left, to a trial. A trial that holds ``interrupted`` ends
            the search and does not count.
        journal: File of finished trials.
        objective: Names of the metrics that trials are judged by.
        trials, minutes: The budget, of this search and of those in the journal together; None: no limit.
        report: Called with each trial, its number, and whether it was run now.
    """
    kept = journal.read(objective)
    done: dict[str, Trial] = {}
    ended: Ended = "everything"
    spent = sum(trial["seconds"] for trial in kept.values())
    for wanted in itertools.islice(proposals, trials):
        parameters = parameters_of(wanted)
        key = trial_key(parameters)
        trial = kept.get(key) or done.get(key)
        if trial is None:
            if minutes is not None and spent > 60 * minutes and (done or kept):
                log.info("the budget of %g minutes ended the search after %d trials", minutes, len(done))
                ended = "minutes"
                break
            try:
                trial = run_trial(parameters, None if minutes is None else minutes - spent / 60)
            except KeyboardInterrupt:
                if not done:
                    raise
                trial = {"interrupted": True}
            if trial.get("interrupted"):
                ended = "interrupted"
                if done or trial.keys() == {"interrupted"}:
                    break
            else:
                journal.add(trial)
            spent += trial["seconds"]
        done[key] = trial
        proposals.tell(trial["score"])
        report(trial, len(done), key not in kept)
        if ended == "interrupted":
            break
    else:
        ended = "trials" if trials is not None and len(done) >= trials else "everything"
    found = {**kept, **done}
    return SearchOutcome(list(found.values()), spent, ended)


_DEFAULT_MINUTES = 5.0
_NOT_SEARCHED = ("validate_every", "patience")  # how often is measured, not what is learned
_RESOURCES = ("threads", "max_minutes", "checkpoint", "checkpoint_epochs", "checkpoint_minutes", "log_file", "members")
_FAILED = -1e9  # score of a trial that diverged


def tune(
    model: str | Recommender,
    data: TrainingData,
    *,
    minutes: float | None = None,
    trials: int | None = None,
    split: str | Sequence[Interactions] = "auto",
    share: float = 0.2,
    metric: str = "NDCG@10",
    space: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    journal: str | Path | None = None,
    seed: int = 0,
    threads: int = 0,
    progress: bool | None = None,
    **columns: Unpack[TableArguments],
) -> TuneResult:
    """Search the parameters of a model that rank held-out interactions best.

    The first trial is the model as it is given, so the result is never worse on the held-out part. Optuna proposes
    the others where it is installed (the ``tune`` extra), else they are neighbors of the best so far.

    Args:
        model: A name of `tastespace.models.table`, ``"blend:dpcml+ease"``, or a model of the library or your own.
        data: `Interactions`, a frame of any library, or a SciPy CSR matrix.
        minutes: Time for the search, by default 5; at least one trial is made. A trial that would take longer is
            stopped where the model trains by epochs, and judged by its best epoch.
        trials: Number of trials, instead of ``minutes`` or besides it.
        split: ``"random"`` holds out a share of each history, ``"time"`` the last interactions; by default ``"time"``
            where the data has timestamps. See `split.hold_out`. Or a pair of (train, held out) of your own, as
            `split.per_user` and `split.by_time` give; ``share`` is not used then.
        share: Of the interactions that is held out.
        metric: One metric of `tastespace.evaluate`; it chooses the epoch too, where the model trains by epochs.
        space: Values to search, name -> values in order; by default those that suit the model. Models of your own
            need it.
        params: Parameters that all trials share; they are not searched.
        journal: File to which trials are written. A search that was stopped resumes from there: the same call gives
            the result it would have given. The budget counts what was spent before.
        seed: Of the held-out part, of the proposals, and of a model that is given by its name.
        threads: 0 means all cores.
        progress: Print a line for each trial to standard error: by default only where that is a terminal.
        **columns: Of a frame, the options of `Interactions.from_frame`: ``user``, ``item``, ``timestamp``, ...

    >>> import tastespace as ts
    >>> town = ts.synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    >>> result = ts.tune("ease", town, trials=4)
    >>> len(result.trials), result.value >= result.given_value
    (4, True)
    >>> result.model().fit(town).is_fitted
    True
    """
    _check_arguments(minutes, trials, split, seed)
    minutes = _DEFAULT_MINUTES if minutes is None and trials is None else minutes
    base = create_seeded(model, seed, threads) if isinstance(model, str) else _checked_model(model).clone()
    base.set_params(**(params or {}))
    whole = interactions_from("tune", data, columns)
    wanted = _column(metric, whole.n_items)
    found_space = _searched(base, space, params or {})
    parts = _parts(whole, split, share, seed)
    rest, held_out = parts.rest, parts.held_out
    if not held_out.n_interactions:
        raise DataError(
            f"{whole!r}: histories are too short to hold out {100 * share:g} % of each, so nothing can be compared. "
            "Give a larger share=, or data with longer histories."
        )
    first = pack(_with_numbers(base.get_params()))
    known = {name: value for name, value in first.items() if name in found_space}
    ready = _monitoring(base, wanted)
    runner = _TrialRunner(ready, rest, held_out, wanted, threads)
    printer = _Progress(progress, metric, found_space)
    identity = hashlib.sha256(f"{ready!r} {rest.fingerprint()} {held_out.fingerprint()}".encode()).hexdigest()[:16]
    outcome = run_search(
        make_proposals(extend(found_space, known), seed, known),
        unpack,
        runner.run,
        TrialJournal(journal, f"{_name(base)} {identity} {wanted.label} seed {seed}"),
        {wanted.label},
        trials=trials,
        minutes=minutes,
        report=printer.add,
    )
    numbered = [{"number": number, **trial} for number, trial in enumerate(outcome.trials, 1)]
    best = max(numbered, key=lambda trial: trial["score"])
    if best["score"] == _FAILED:
        raise TrainingError(f"no trial of {_name(base)} could be fitted; the last error: {runner.problem}")
    chosen = base.clone().set_params(**best["chosen"])
    return TuneResult(
        name=_name(base),
        params=_differences(chosen, _defaults(base)),
        metric=wanted.label,
        value=best["validation"][wanted.label],
        given_value=_or_nan(numbered[0]["validation"][wanted.label]),
        trials=numbered,
        seconds=outcome.seconds,
        held_out=parts.how,
        n_users=best["users"],
        notes=[*_notes(outcome.ended, numbered, minutes, found_space), *parts.notes],
        best=chosen,
        backend=whole.backend,
    )


class _TrialRunner:
    """Fits the model with some parameters to one part and measures it on the other."""

    def __init__(
        self, base: Recommender, rest: Interactions, held_out: Interactions, column: MetricColumn, threads: int
    ) -> None:
        self._base, self._rest, self._held_out = base, rest, held_out
        self._column, self._threads = column, threads
        self.problem: Exception | None = None

    def run(self, parameters: dict[str, Any], minutes: float | None) -> Trial:
        """Fit and measure a model with these parameters; one that diverges has the worst score."""
        start = time.perf_counter()
        model = self._base.clone().set_params(**parameters)
        if minutes is not None and "max_minutes" in model.get_params():
            model.set_params(max_minutes=max(minutes, 1e-3))
        value, users, chosen = None, 0, {}
        try:
            model.fit(self._rest, self._held_out, progress=False)
            report = evaluate(
                model, self._held_out, seen=self._rest, metrics=[self._column.label], threads=self._threads
            )
            value, users = report[self._column.label], report.n_users[self._column.label]
            chosen = _differences(model.as_chosen(), self._base.get_params())
        except (TrainingError, MemoryError, np.linalg.LinAlgError) as problem:  # diverged, too large: others continue
            log.warning("%s was left out: %s", model, problem)
            self.problem = problem
        if value is not None and math.isnan(value):
            raise ParameterError(
                Argument("metric", self._column.label),
                ": no user of the held-out part counts for it. Choose another metric.",
            )
        stopped = getattr(model, "stopped_", "")
        trial = {
            "parameters": parameters,
            "validation": {self._column.label: value},
            "score": _FAILED if value is None else -value if self._column.metric.lower_is_better else value,
            "users": users,
            "chosen": chosen,
            "best_epoch": getattr(model, "best_epoch_", None),
            "cut": stopped == "time",
            "seconds": round(time.perf_counter() - start, 2),
        }
        return {**trial, "interrupted": True} if stopped == "interrupted" else trial


class _Progress:
    """A line on standard error for each trial."""

    def __init__(self, wanted: bool | None, metric: str, space: Space) -> None:
        self._print: Callable[[str], None] | None = None
        if sys.stderr.isatty() if wanted is None else wanted:
            from tastespace._util.terminal import Console

            console = Console(stderr=True)
            self._print = lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._searched = {name for name, values in space.items() if len(values) > 1}
        self._metric, self._best = metric, -math.inf

    def add(self, trial: Trial, number: int, is_new: bool) -> None:
        """A trial that was made now, or that the journal had."""
        if self._print is None:
            return
        if number == 1:
            self._print(f"trial  {self._metric:>10}  best so far  seconds  parameters")
        (value,) = trial["validation"].values()
        is_best = trial["score"] > self._best
        self._best = max(self._best, trial["score"])
        figure = "failed" if value is None else f"{value:.4f}"
        searched = {name: one for name, one in pack(trial["parameters"]).items() if name in self._searched}
        seconds = f"{trial['seconds']:7.1f}" if is_new else "journal"
        self._print(
            f"{number:5d}  {figure:>10}  {abs(self._best):10.4f}{'*' if is_best else ' '}  {seconds}  "
            f"{short_parameters(searched)}"
        )


def _parts(whole: Interactions, split: str | Sequence[Interactions], share: float, seed: int) -> splits.HeldOut:
    if isinstance(split, str):
        return splits.hold_out(whole, share, by=None if split == "auto" else split, seed=seed)
    rest, held_out = split
    if (rest.users, rest.items) != (held_out.users, held_out.items):
        raise DataError(
            f"split: {rest!r} and {held_out!r} do not share users and items. Split one Interactions with "
            "tastespace.split."
        )
    if not held_out.n_interactions:
        raise DataError(f"split: the held-out part, {held_out!r}, is empty, so nothing can be compared.")
    return splits.HeldOut(rest, held_out, f"the given {held_out.n_interactions:,} held-out interactions")


def _check_arguments(minutes: float | None, trials: int | None, split: str | Sequence[Interactions], seed: int) -> None:
    if minutes is not None:
        require_number("minutes", minutes, above=0.0)
    if trials is not None:
        require_whole("trials", trials)
    if split not in ("auto", "random", "time") if isinstance(split, str) else not is_pair(split):
        raise ParameterError(
            Argument("split", split),
            ": expected 'random', 'time', or 'auto' (by time where there are times); or a pair of "
            "Interactions, (train, held out).",
        )
    require_seed(seed)


def _checked_model(model: Any) -> Recommender:
    if not isinstance(model, Recommender):
        raise ParameterError(Argument("model", model), ": expected the name of a model, such as 'ease', or a model.")
    return model


def _column(metric: str, n_items: int) -> MetricColumn:
    """The one metric to judge by; its list is no longer than the catalog."""
    columns = columns_for([metric], (10,)) if isinstance(metric, str) else []
    if [column.label for column in columns] != [metric]:
        raise ParameterError(Argument("metric", metric), ": expected one metric, such as 'NDCG@10', 'R@20' or 'MAP'.")
    (column,) = columns
    if column.metric.at_k and int(column.parameter or 0) > n_items:
        (column,) = columns_for([f"{column.metric.name}@{n_items}"], (10,))
    return column


def _searched(base: Recommender, space: Mapping[str, Any] | None, params: Mapping[str, Any]) -> Space:
    if space is not None:
        return checked_space(space, base)
    decided = names_in_space(params)
    return {
        name: values
        for name, values in space_of_model(base).items()
        if name not in decided and name.rpartition("__")[2] not in _NOT_SEARCHED
    }


def _with_numbers(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters in which a number of negatives that follows from the sampler is written out."""
    for name, value in list(given.items()):
        prefix, _, plain = name.rpartition("n_negatives")
        sampler = f"{prefix}sampler"
        if value is None and not plain and sampler in given:
            on_the_sphere = given.get(f"{prefix}geometry") == "sphere"
            given[name] = find_sampler(given[sampler] or ("uniform" if on_the_sphere else "hard")).n_negatives
    return given


def _monitoring(base: Recommender, column: MetricColumn) -> Recommender:
    """The model with this metric as the one that chooses the epoch, where it can and nothing else was asked for."""
    usable = column.metric.is_accuracy and not column.metric.needs and not column.metric.lower_is_better
    model = base.clone()
    for name, value in model.get_params().items():
        if usable and name.rpartition("__")[2] == "monitor" and value == "NDCG@10":
            model.set_params(**{name: column.label})
    return model


def _name(model: Recommender) -> str:
    if isinstance(model, Blend):
        return "blend:" + "+".join(name_of(type(member)) for member in model._templates())
    return name_of(type(model))


def _defaults(model: Recommender) -> dict[str, Any]:
    """Return the default parameters of the model's class; those of this model if some of the class have no default."""
    name = _name(model)
    if name in registry() or (isinstance(model, Blend) and len(named_members(model._templates())) > 0):
        return create(name).get_params()
    try:
        return type(model)().get_params()
    except TypeError:  # a model of the caller's own with arguments that must be given
        return model.get_params()


def _differences(model: Recommender, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the model that differ from these, as plain values; resources and nested models are left out."""
    return {
        name: value
        for name, value in model.get_params().items()
        if name.rpartition("__")[2] not in _RESOURCES
        and not isinstance(value, Recommender)
        and repr(value) != repr(reference.get(name))
    }


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _notes(ended: str, trials: list[Trial], minutes: float | None, space: Space) -> list[str]:
    notes = []
    if not space:
        notes.append("The model has nothing to search: it was measured as it is.")
    elif len(trials) == 1 and ended == "minutes":
        notes.append(f"The budget of {minutes:g} minutes was used up by the first trial; give more for a choice.")
    elif ended == "minutes":
        notes.append(f"The budget of {minutes:g} minutes ended the search after {len(trials)} trials.")
    elif ended == "everything":
        notes.append("Every combination was tried.")
    elif ended == "interrupted":
        notes.append(f"Stopped by the user after {len(trials)} trials.")
    n_cut = sum(bool(trial.get("cut")) for trial in trials)
    if n_cut:
        notes.append(f"{n_cut} of {len(trials)} trials were stopped by the time limit and judged by their best epoch.")
    n_failed = sum(trial["score"] == _FAILED for trial in trials)
    if n_failed:
        notes.append(f"{n_failed} of {len(trials)} trials failed (the log says why).")
    return notes
