"""`tastespace run-daily`: the work of every night from one file: read, learn, compare, save, switch, write lists."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tastespace._util.addresses import shown_address
from tastespace._util.locks import only_one
from tastespace._util.terminal import Console
from tastespace.cli.arguments import cast_ids, parse_settings
from tastespace.cli.config import read_config
from tastespace.cli.deletion import note_obeyed, without_deleted
from tastespace.cli.fit import fit_and_measure
from tastespace.cli.flags import TableFlags, require_half_life
from tastespace.cli.update import new_feedback, with_half_life, without_removed
from tastespace.data.interactions import Interactions
from tastespace.data.merge import added
from tastespace.data.reading.dates import seconds_of, size_unit
from tastespace.errors import BusyError, ParameterError, TastespaceError
from tastespace.models import Recommender, create_seeded
from tastespace.models.updating import begin_update, fitted_again, has_only_dislikes
from tastespace.models.updating import update as updated
from tastespace.recipe import RecipeReport, check_arguments
from tastespace.recipe import fit as default_recipe
from tastespace.recipe.newest import Comparison, compared, without_newest
from tastespace.store import load
from tastespace.store.directory import require_free
from tastespace.tuning import read_params

if TYPE_CHECKING:
    from tastespace.serve.feedback.training import Feedback

REFUSED, BUSY, NOT_SERVED = 3, 4, 5
"""Exit codes: the new model was worse, another run is going on, the server or the lists do not have the new model."""
_OF_FIT = {
    "data", "out", "model", "minutes", "trials", "target", "set", "params", "valid", "card", "seed", "threads",
    "feedback",
}  # fmt: skip
_OF_UPDATE = {"model", "out", "data", "feedback", "new_items", "threads"}
_VALID = 0.1
_RELOAD_TRIES = 20
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_DAY = 86_400.0
_TOKEN = "TASTESPACE_TOKEN"


@dataclass
class Outcome:
    """Outcome of a run: a line of the log."""

    time: str
    model: str
    action: str = ""
    """fit or update."""
    result: str = ""
    """saved, kept (nothing new), refused, or would be saved."""
    interactions: int = 0
    new: int = 0
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    users: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    code: int = 0


def run_daily(
    config: Path,
    model: Annotated[
        Path | None,
        typer.Option(help="Directory of the served model; by default that of [serve], else --out of [fit]."),
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit this time, also where [update] would learn new data.")
    ] = False,
    fit_every: Annotated[
        str | None,
        typer.Option(help="With [update]: fit when the last fit is so long ago, such as 7d; default: never."),
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric on the newest interactions that decides.")] = "NDCG@10",
    worse_by: Annotated[
        float, typer.Option(help="Share of the metric that the new model may lose.", min=0.0, max=1.0)
    ] = 0.05,
    least_users: Annotated[
        int, typer.Option(help="Users that a comparison needs to decide; with fewer the model is saved.", min=1)
    ] = 50,
    server: Annotated[
        str | None,
        typer.Option(help=f"Address of the server to tell; its token is in {_TOKEN}. Servers see new models without."),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Append a line of JSON about the run to this file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, learn and compare, and write nothing.")] = False,
) -> None:
    """Do the work of a night: read, learn, compare with the served model, save, switch the server, write lists.

    The table [fit] says where the data is and which model is fitted; with a table [update] the served model learns new
    data instead, or feedback. Both models, the new one without the newest interactions, are measured on these. Where
    the new one is worse than allowed it is refused and the old one stays. Lists are written as the table [recommend]
    says. Two runs at once are refused; a run that is killed leaves the served model whole.

    Exit codes: 0 saved, or nothing was new; 2 error; 3 refused; 4 another run is going on; 5 saved, but the server or
    the lists do not have the new model; 130 interrupted.
    """
    messages = Console(stderr=True, soft_wrap=True)

    def say(text: str) -> None:
        messages.print(text, highlight=False, markup=False)

    tables = _Tables(config)
    target = model or tables.served_model()
    require_free(target)
    longest = None if fit_every is None else seconds_of(fit_every, "fit_every")
    outcome = Outcome(datetime.now(timezone.utc).isoformat(timespec="seconds"), str(target))
    run = _Run(tables, target, fit, longest, metric, worse_by, least_users, server, dry_run, outcome, say)
    start = time.monotonic()
    try:
        with contextlib.nullcontext() if dry_run else only_one(run.state_file, f"the daily run of {target}"):
            run()
    except BusyError as problem:
        outcome.code, outcome.result = BUSY, "busy"
        say(f"error: {problem}")
    except TastespaceError as problem:
        outcome.code, outcome.result = 2, "error"
        outcome.notes.append(str(problem))
        raise
    finally:
        outcome.seconds = round(time.monotonic() - start, 2)
        if log is not None and not dry_run:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome), ensure_ascii=False) + "\n")
    if outcome.code:
        raise typer.Exit(outcome.code)


class _Tables:
    """The tables of the config file, read as the commands read them: mistakes are refused before the work begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = read_config(path)
        if "fit" not in self.content:
            raise ParameterError(f"{path} has no table [fit], which says where the data is.")

    def of(self, command: str, *words: str) -> dict[str, Any]:
        """The flags of a command by the names of its parameters; ``words`` are given beside those of the file."""
        made = _command(command)
        with made.make_context(command, [*words, "--config", str(self.path)]) as context:
            return dict(context.params)

    def flags(self, command: str, known: set[str], *words: str) -> tuple[dict[str, Any], TableFlags]:
        """The flags of fit or update: its own, and those of the table; others than known ones are refused."""
        values = self.of(command, *words)
        names = [one.name for one in fields(TableFlags)]
        table = TableFlags(**{name: values.pop(name) for name in names if name in values})
        section = {key.replace("-", "_") for key in self.content[command]}
        for key in section - known - set(names):
            raise ParameterError(f"{self.path}: {key!r} of [{command}] is not for run-daily. Leave it out.")
        return values, table

    def served_model(self) -> Path:
        """The directory that is served, by the tables [serve] and [fit]."""
        found = self.content.get("serve", {}).get("model") or self.content["fit"].get("out")
        if not found:
            raise ParameterError(
                f"{self.path}: name the served model: `model` in [run-daily] or [serve], or `out` in [fit]."
            )
        return Path(found)


def _command(name: str) -> Any:
    from tastespace.cli.app import COMMANDS

    return next(one for one in COMMANDS if one.name == name).load()


@dataclass
class _Run:
    """One run, with all that it was told."""

    tables: _Tables
    target: Path
    must_fit: bool
    fit_every: float | None
    metric: str
    worse_by: float
    least_users: int
    server: str | None
    dry_run: bool
    outcome: Outcome
    say: Callable[[str], None]

    @property
    def state_file(self) -> Path:
        """The lock, and the time of the last fit."""
        return self.target.with_name(f"{self.target.name}.daily")

    def __call__(self) -> None:
        """Do all of it; the outcome says how it ended."""
        lists = self.tables.content.get("recommend")
        if lists is not None:
            given = self.tables.of("recommend", str(self.target))
            if given["to"] is None and given["out"] is None:
                raise ParameterError(f"{self.tables.path}: [recommend] needs `to` or `out`, the place of the lists.")
        served = load(self.target) if (self.target / "model.json").exists() else None
        is_update = served is not None and "update" in self.tables.content and not self._is_fit_due()
        self.outcome.action = "update" if is_update else "fit"
        with contextlib.ExitStack() as stack:
            learn = self._update(stack, served) if served is not None and is_update else self._fit(served)
            if learn is None:
                self._end("kept", "nothing is new: the model stays as it is")
            else:
                self._finish(served, *learn)
        if self.outcome.code == 0 and lists is not None and self.outcome.result == "saved":
            self._write_lists()

    # ---- learning ----------------------------------------------------------------------------------------

    def _fit(self, served: Recommender | None) -> _Learning:
        flags, table = self.tables.flags("fit", _OF_FIT, "--out", str(self.target))
        require_half_life(table.half_life, table.timestamp)
        seed, threads, name = flags["seed"], flags["threads"], flags["model"]
        parameters: dict[str, Any] = {}
        if flags["params"] is not None:
            name, parameters = read_params(flags["params"], name)
        parameters |= parse_settings(flags["set"] or [])
        if name is None:
            check_arguments(flags["minutes"], flags["trials"], seed, threads)
        else:
            create_seeded(name, seed, threads, **parameters)
        data = table.with_half_life(table.load(flags["data"], threads))
        self.say(f"{', '.join(map(shown_address, flags['data']))}: {data!r}")
        data = data if served is None else cast_ids(data, served.train_)
        feedback, removal = flags["feedback"], 0
        if feedback is not None:
            data, removal, said = without_deleted(data, feedback)
            self.say(said)
        wanted = None
        if flags["target"] is not None:
            wanted = table.load(flags["data"], threads, part=True, target=flags["target"])

        def learn(part: Interactions) -> Recommender:
            if name is None:
                budget = {"minutes": flags["minutes"], "trials": flags["trials"]}
                return default_recipe(part, **budget, seed=seed, threads=threads, target=wanted)
            valid = _VALID if flags["valid"] is None else flags["valid"]
            return fit_and_measure(
                create_seeded(name, seed, threads, **parameters), part, valid, seed, threads, None, wanted
            )[0]

        def again(candidate: Recommender) -> Recommender:
            final = candidate.as_chosen().fit(data)
            if hasattr(candidate, "recipe_"):
                final.recipe_ = candidate.recipe_  # type: ignore[attr-defined]
            return final

        return data, learn, again, lambda: None if feedback is None else note_obeyed(feedback, self.target, removal)

    def _update(self, stack: contextlib.ExitStack, served: Recommender) -> _Learning | None:
        flags, table = self.tables.flags("update", _OF_UPDATE, str(self.target), "--out", str(self.target))
        source, feedback = flags["data"], flags["feedback"]
        if (source is None) == (feedback is None):
            raise ParameterError(f"{self.tables.path}: [update] needs `data` or `feedback`, and not both.")
        require_half_life(table.half_life, table.timestamp if feedback is None else "time", served)
        note = None
        if feedback is not None:
            found, note_learned = stack.enter_context(
                new_feedback(served, self.target, feedback, flags["new_items"], self.say)
            )
            note = note_learned
            if found.removed:
                return self._without_removed(served, found, lambda: note_learned(self.target))
            if found.data is None:
                return None
            new = found.data
        else:
            new = table.load(source, flags["threads"], part=True, events=served.train_.events)
            if new.events is not None and served.train_.weights is None:
                new = new.without_weights()
            new = cast_ids(new, served.train_)
        self.say(f"{shown_address(source or feedback)}: {new!r}")
        if table.half_life is not None:
            new = with_half_life(new, served.train_, table.half_life)
        if not has_only_dislikes(served.train_, new) and begin_update(served, new) is None:
            return None

        def learn(part: Interactions) -> Recommender:
            is_known = part.n_interactions == 0 or added(served.train_, part).nothing
            return served if is_known and part is not new else updated(served, part)

        return new, learn, lambda candidate: learn(new), lambda: None if note is None else note(self.target)

    def _without_removed(self, served: Recommender, found: Feedback, done: Callable[[], None]) -> _Learning:
        """Data of the served model and the new feedback, without the users and items that were deleted."""
        data = without_removed(served, found, self.say)

        def learn(part: Interactions) -> Recommender:
            return fitted_again(served, part)

        return data, learn, lambda candidate: learn(data), done

    # ---- comparing, saving -------------------------------------------------------------------------------

    def _finish(
        self,
        served: Recommender | None,
        data: Interactions,
        learn: Callable[[Interactions], Recommender],
        again: Callable[[Recommender], Recommender],
        done: Callable[[], None],
    ) -> None:
        """Learn, compare, save, and tell the server."""
        self._note_clock(data)
        self.outcome.interactions = data.n_interactions
        if served is None:
            final = learn(data)
        else:
            rest, newest = without_newest(data, served.train_)
            self.outcome.new = newest.n_interactions
            candidate = learn(rest if newest.n_interactions else data)
            found = None
            if newest.n_interactions:
                found = compared(served, candidate, newest, rest, self.metric)
            self._decide(found)
            if self.outcome.result == "refused":
                return
            final = again(candidate) if newest.n_interactions else candidate
            with contextlib.suppress(ParameterError):  # a model that cannot mix has the plain list
                final.set_served_diversity(served.served_diversity)
        if self.dry_run:
            self._end("would be saved", f"dry run: {final!r} of {final.train_!r} would be saved to {self.target}")
            return
        outcome = self.outcome
        metrics = None if outcome.metric is None or outcome.after is None else {outcome.metric: outcome.after}
        if metrics is None and getattr(final, "recipe_", None):
            metrics = RecipeReport(**final.recipe_).metrics  # type: ignore[attr-defined]
        final.save(self.target, metrics=metrics)
        done()
        if self.outcome.action == "fit":
            self._write_state({"fitted": self.outcome.time})
        self._end("saved", f"saved {final!r} of {final.train_!r} to {self.target}")
        if self.server is not None:
            self._tell()

    def _decide(self, found: Comparison | None) -> None:
        if found is None:
            self._say_note("nothing newer than the served model to compare on: the new model is not refused")
            return
        outcome = self.outcome
        outcome.metric, outcome.before, outcome.after, outcome.users = (
            found.metric,
            found.before,
            found.after,
            found.n_users,
        )
        self.say(f"on the newest interactions: {found}")
        if found.n_users < self.least_users:
            self._say_note(f"{found.n_users:,} users are too few to refuse a model (--least-users {self.least_users})")
        elif found.is_worse(self.worse_by):
            self._end(
                "refused", f"refused: it loses more than {100 * self.worse_by:g} %; the served model stays", REFUSED
            )

    def _note_clock(self, data: Interactions) -> None:
        """Say how many interactions have times after now: clocks that are wrong make them the newest for ever."""
        if data.timestamps is None or not len(data.timestamps):
            return
        unit = size_unit(data.timestamps)
        if unit not in _SECONDS:
            return
        late = data.timestamps.astype(np.float64) * _SECONDS[unit] > time.time() + _DAY
        if late.any():
            self._say_note(f"{int(late.sum()):,} interactions have times more than a day after now: check the clocks")

    def _tell(self) -> None:
        """Make the server switch, and learn whether it does."""
        from tastespace.client import Client, ServerError

        assert self.server is not None
        with Client(self.server, token=os.environ.get(_TOKEN)) as client:
            for _ in range(_RELOAD_TRIES):
                try:
                    found = client.reload()
                    self.say(f"{shown_address(self.server)} serves generation {found['generation']}")
                    return
                except ServerError as problem:
                    said = str(problem)
                    if problem.code != "reload_in_progress":
                        break
                    time.sleep(0.5)
        self.outcome.code = NOT_SERVED
        self._say_note(f"the server does not serve the new model: {said}")

    def _write_lists(self) -> None:
        try:
            with _command("recommend").make_context(
                "recommend", [str(self.target), "--config", str(self.tables.path)]
            ) as context:
                context.command.invoke(context)
        except TastespaceError as problem:
            self.outcome.code = NOT_SERVED
            self._say_note(f"the lists were not written: {problem}")

    # ---- state and words ---------------------------------------------------------------------------------

    def _is_fit_due(self) -> bool:
        if self.must_fit or self.fit_every is None:
            return self.must_fit
        try:
            fitted = datetime.fromisoformat(json.loads(self.state_file.read_text(encoding="utf-8"))["fitted"])
            return (datetime.now(timezone.utc) - fitted).total_seconds() >= self.fit_every
        except (OSError, ValueError, KeyError, TypeError):  # no run has fitted yet, or one was killed while it wrote
            return True

    def _write_state(self, state: dict[str, Any]) -> None:
        """Into the file itself: it is locked, and a new one in its place would not be."""
        self.state_file.write_text(json.dumps(state) + "\n", encoding="utf-8")

    def _say_note(self, text: str) -> None:
        self.outcome.notes.append(text)
        self.say(f"note: {text}")

    def _end(self, result: str, text: str, code: int = 0) -> None:
        self.outcome.result, self.outcome.code = result, code
        self.say(text)


_Learning = tuple[
    Interactions,
    Callable[[Interactions], Recommender],
    Callable[[Recommender], Recommender],
    Callable[[], None],
]
"""All data; how a model learns from a part of it, and then from all of it; what to do when that is saved."""
