"""`tastespace update`: a saved model learns from more interactions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tastespace._util.addresses import shown_address
from tastespace._util.terminal import Console
from tastespace.cli.arguments import ModelArgument, cast_ids, open_model
from tastespace.cli.flag_groups import GroupUse
from tastespace.cli.flags import DEFAULT_TABLE, TableFlags, require_half_life
from tastespace.data.interactions import Interactions
from tastespace.data.merge import concat
from tastespace.errors import ParameterError
from tastespace.models import Blend, Recommender
from tastespace.models.updating import begin_update, fitted_again, has_only_dislikes
from tastespace.models.updating import update as updated
from tastespace.store.directory import require_free

if TYPE_CHECKING:
    from tastespace.serve.feedback.training import Feedback


def update(
    model: ModelArgument,
    out: Annotated[Path, typer.Option(help="Directory of the updated model; may be that of the model itself.")],
    data: Annotated[
        str | None,
        typer.Argument(
            help="A file of new interactions, a folder of Parquet files, or an address (s3://, https://, or a database "
            "with --query); not with --feedback."
        ),
    ] = None,
    feedback: Annotated[
        str | None, typer.Option(help="Learn what a server has stored: a file of SQLite, or postgresql://...")
    ] = None,
    new_items: Annotated[
        bool, typer.Option("--new-items", help="With --feedback: learn items, too, that the model's catalog lacks.")
    ] = False,
    table: Annotated[
        TableFlags,
        GroupUse(
            without=("all_items", "event"),
            help={
                "weight": "Column of weights, where the model was fitted with some.",
                "kind": "Column of kinds of events, with the weights that the model was fitted with.",
                "timestamp": "Column of times, where the model was fitted with it.",
                "half_life": "With --timestamp: as in the fit of the model: 90d.",
                "min_user": "Drop users with fewer interactions in the file.",
                "min_item": "Drop items with fewer interactions in the file.",
                "items": "File of attributes of new items: title, genres, ...",
                "users": "File of attributes of new users: age, likes, ...",
            },
        ),
    ] = DEFAULT_TABLE,
    threads: Annotated[int, typer.Option(help="For reading; 0 means all cores. Training uses the model's own.")] = 0,
) -> None:
    """Learn from more interactions, at the cost of these, and save the updated model.

    New users and items may be among them. DPCML, CML, BPR, ALS and blends of them continue from what they have learned:
    training visits the new interactions and a share of the old ones. Other models are fitted again, which is printed.
    What stands at --out stays until the updated model is complete.

    With --feedback the new interactions are those that a server has stored since; what a model has learned of them is
    noted in the store, so that nothing counts twice. Events on items that are not in the model's catalog are left out
    unless --new-items is given. Users who were deleted in the store are unlearned: a model that knows some of them is
    fitted again without them, and without deleted items.
    """
    require_free(out)
    if (data is None) == (feedback is None):
        raise ParameterError("expected a file of new interactions, or --feedback, and not both.")
    if new_items and feedback is None:
        raise ParameterError("--new-items goes with --feedback: new items of a file are always learned. Leave it out.")
    messages = Console(stderr=True, soft_wrap=True)  # standard output stays empty
    opened = open_model(model)
    require_half_life(table.half_life, table.timestamp if feedback is None else "time", opened)  # feedback has times

    def say(text: str) -> None:
        messages.print(text, highlight=False, markup=False)

    if feedback is not None:
        _learn_feedback(opened, model, feedback, new_items, out, table.half_life, say)
        return
    assert data is not None
    read = table.load(data, threads, part=True, events=opened.train_.events)
    if read.events is not None and opened.train_.weights is None:
        read = read.without_weights()
    _learn(opened, cast_ids(read, opened.train_), shown_address(data), out, table.half_life, say)


def _learn_feedback(
    opened: Recommender,
    model: Path,
    location: str,
    new_items: bool,
    out: Path,
    half_life: str | None,
    say: Callable[[str], None],
) -> None:
    """Learn what a feedback store holds and the model does not know, and note in the store how far it has learned."""
    with new_feedback(opened, model, location, new_items, say) as (found, note_learned):
        if found.removed:
            _fit_without(opened, found, out, say)
        elif found.data is None:
            opened.save(out)
            say(f"kept as it was, saved to {out}")
        else:
            _learn(opened, found.data, "feedback", out, half_life, say)
        note_learned(out)


@contextlib.contextmanager
def new_feedback(
    opened: Recommender, model: Path, location: str, new_items: bool, say: Callable[[str], None]
) -> Iterator[tuple[Feedback, Callable[[Path], None]]]:
    """Feedback that the model does not know, and a function to call when a saved one knows it."""
    from tastespace.serve.feedback.store import open_feedback_store
    from tastespace.serve.feedback.training import feedback_for
    from tastespace.serve.served_model import model_checksum

    if "://" not in location and not Path(location).exists():
        raise ParameterError(f"--feedback {location}: there is no such file. Give the --store of the server.")
    store = open_feedback_store(location)
    try:
        found = feedback_for(store, opened, model_checksum(model), new_items)
        say(f"feedback: {found.n_events:,} events that the model has not learned")
        if found.n_other:
            say(f"note: {found.n_other:,} of them have blank ids, or ids of other types than the model: left out")
        if found.n_unreadable:
            say(
                f"note: {found.n_unreadable:,} of them cannot be read, or have a time or weight out of bounds: left out"
            )
        if found.n_new_items:
            say(f"note: {found.n_new_items:,} of them have items that are not in the catalog and are left out; "
                "--new-items learns them")  # fmt: skip
        yield found, lambda out: store.note_learned(model_checksum(out), found.last.event, found.last.removal)
    finally:
        store.close()


def without_removed(opened: Recommender, found: Feedback, say: Callable[[str], None]) -> Interactions:
    """The data of a model and the new feedback, without the users and items that were deleted."""
    from tastespace.serve.feedback.training import without

    users, items = len(found.removed), len(found.deleted_items)
    say(f"deleted since: {users:,} users and {items:,} items that the model knows: it is fitted again without them")
    data = without(opened.train_, found.removed, found.deleted_items)
    return data if found.data is None else concat(data, found.data)


def _fit_without(opened: Recommender, found: Feedback, out: Path, say: Callable[[str], None]) -> None:
    """Fit a model again to its data and the new feedback, without the users and items that were deleted."""
    data = without_removed(opened, found, say)
    start = time.perf_counter()
    later = fitted_again(opened, data)
    later.save(out)
    say(f"fitted in {time.perf_counter() - start:.2f} s: {later!r} of {later.train_!r}")
    say(f"saved to {out}")


def _learn(
    opened: Recommender,
    new: Interactions,
    source: str,
    out: Path,
    half_life: str | None,
    say: Callable[[str], None],
) -> None:
    """Update the model with new interactions, save it, and say what was done."""
    if half_life is not None:
        new = with_half_life(new, opened.train_, half_life)
    start = time.perf_counter()
    only_dislikes = has_only_dislikes(opened.train_, new)
    found = None if only_dislikes else begin_update(opened, new)  # None: nothing is new, and a warning says so
    say(f"{source}: {new!r}")
    if only_dislikes:
        later = updated(opened, new)
        later.save(out)
        say(f"added {len(new.disliked[1]):,} dislikes, saved to {out}")
        return
    later = opened if found is None else updated(opened, new)
    seconds = time.perf_counter() - start
    if found is None:
        say(f"added nothing: all {new.n_interactions:,} interactions were known")
    else:
        repeated = f", {new.cleaning.duplicates:,} rows repeated in the file" if new.cleaning.duplicates else ""
        say(f"added {found}{repeated}")
        again = _fitted_again(opened)
        if again:
            say(f"fitted again, because a new interaction changes all of them: {', '.join(again)}")
    later.save(out)
    done = "kept as it was" if found is None else f"updated in {seconds:.2f} s"
    say(f"{done}: {later!r} of {later.train_!r}")
    say(f"saved to {out}")


def with_half_life(new: Interactions, old: Interactions, half_life: str) -> Interactions:
    """New interactions with weights that continue those of a model's own."""
    if old.timestamps is None:
        raise ParameterError(
            f"--half-life {half_life}: the model was fitted without times. Leave it out, or fit again with --timestamp."
        )
    return new.with_half_life(half_life, latest=float(old.timestamps.max(initial=0)))


def _fitted_again(model: Recommender) -> list[str]:
    """Names of the models, or members of a blend, that have no update of their own."""
    parts = model.members_ if isinstance(model, Blend) else [model]
    return [type(part).__name__ for part in parts if not part.supports_partial_fit]
