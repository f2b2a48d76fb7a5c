"""The search: propose, run, write down, until the budget of trials or minutes is spent."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tastespace.tuning.proposals import Proposals
from tastespace.tuning.trial_journal import Trial, TrialJournal, trial_key

log = logging.getLogger(__name__)

Ended = Literal["trials", "minutes", "everything", "interrupted"]


@dataclass(frozen=True)
class SearchOutcome:
    """All trials of a search, those of the journal included, in the order in which they were made."""

    trials: list[Trial]
    seconds: float
    """Spent on all of them, now and before."""
    ended: Ended
    """By which budget, ``"everything"`` was tried, or the user has ``"interrupted"`` the search."""

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
    goes on exactly as if it had never stopped.

    Args:
        proposals: What to try next.
        parameters_of: From a proposal to the parameters of a model.
        run_trial: From parameters, and the minutes that are left, to a trial. A trial that holds ``interrupted`` ends
            the search and does not count.
        journal: Where trials are kept.
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
