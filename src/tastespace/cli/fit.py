"""`tastespace fit`: fit a model to a table of interactions and save it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from tastespace._util.addresses import is_address, shown_address
from tastespace._util.interrupts import interrupts_end_step
from tastespace._util.terminal import Console
from tastespace.cli.arguments import parse_settings, print_notes
from tastespace.cli.deletion import note_obeyed, without_deleted
from tastespace.cli.flag_groups import GroupUse
from tastespace.cli.flags import DEFAULT_TABLE, TableFlags, require_half_life
from tastespace.cluster.fit import ClusterOptions, fit_files, within
from tastespace.cluster.model_parts import supported
from tastespace.data import Interactions, split
from tastespace.data.merge import pairs_of
from tastespace.errors import ParameterError, require_path
from tastespace.evaluation import Report, evaluate
from tastespace.models import Recommender, create_seeded, registry
from tastespace.models.trained import TrainedRecommender, with_final
from tastespace.recipe import RecipeReport, check_arguments
from tastespace.recipe import fit as default_recipe
from tastespace.recipe.report import reference_models
from tastespace.store.directory import require_free
from tastespace.training.visits import USERS_AT_ONCE, UserBlockSettings
from tastespace.tuning import read_params

# ---------------------------------------------------------------------------------------------------------------------
# What the default recipe tried, as a table on the terminal.


def print_recipe(report: RecipeReport, console: Console) -> None:
    """The best model of each kind with its weight in the blend, why that was chosen, and the sentence about tastes."""
    if report.trials:
        console.print(_table(report))
        console.print(escape(report.reason), highlight=False)
    for line in (report.tastes, *report.notes):
        console.print(escape(line), highlight=False)


def _table(report: RecipeReport) -> Table:
    by_category = any(row["MinorityRecall@20"] is not None for row in report.trials)
    what = f" ({report.held_out})" if report.held_out else ""
    title = f"{len(report.trials)} models tried on held-out data{what}, the best of each kind"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("kind", min_width=8)
    table.add_column("tried", justify="right")
    table.add_column("best", overflow="fold", min_width=22)
    for name in ("NDCG@10", "R@20", *(["minority"] if by_category else []), "weight"):
        table.add_column(name, justify="right", no_wrap=True)
    for family in dict.fromkeys(row["family"] for row in report.trials):
        rows = [row for row in report.trials if row["family"] == family]
        best = next(row for row in rows if row["best"])
        weight = "" if best["weight"] is None else f"{100 * best['weight']:.0f} %" if best["weight"] else "beside"
        name = escape(best["model"].replace("(", " (", 1).removesuffix(" ()"))
        table.add_row(
            family, str(len(rows)), name, *_figures(best, by_category), weight, style="bold" if best["weight"] else ""
        )
    table.add_section()
    blend = report.blend["figures"]
    chosen = {"NDCG@10": blend["ndcg"], "R@20": blend["recall"], "MinorityRecall@20": blend["minority"]}
    table.add_row("chosen blend", "", "", *_figures(chosen, by_category), "100 %", style="bold")
    for row in report.references:
        table.add_row("to compare", "", escape(row["label"]), *_figures(row, by_category), "", style="dim")
    return table


def _figures(row: dict[str, Any], by_category: bool) -> list[str]:
    names = ("NDCG@10", "R@20", *(["MinorityRecall@20"] if by_category else []))
    return ["" if row[name] is None else f"{row[name]:.4f}" for name in names]


log = logging.getLogger(__name__)

_VALID = 0.1  # share of each history that is held out with --model


def fit(
    data: Annotated[
        list[str],
        typer.Argument(
            help="A Parquet, CSV, TSV or JSON lines file, or several read as one; an .inter file of RecBole; "
            "a folder of Parquet files; an address (s3://, gs://, https://, or a database with --query); the name of "
            "a data set; or town (synthetic)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory of the model.")],
    model: Annotated[
        str | None,
        typer.Option(help="Name of a model: dpcml, ease, blend:dpcml+ease, ...; none: the default recipe chooses."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time for the default recipe; by default 2, up to 15 for large data.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Number of models to try instead of a time limit; gives the same model every time."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="With --kind: the kind that models are chosen and measured by, such as purchase."),
    ] = None,
    table: Annotated[
        TableFlags,
        GroupUse(
            help={
                "timestamp": "Column of times: the last interactions are held out instead of random ones.",
                "half_life": "With --timestamp: old interactions weigh less, such as 90d; a --model has to use "
                "weights.",
            }
        ),
    ] = DEFAULT_TABLE,
    feedback: Annotated[
        str | None,
        typer.Option(help="Feedback store of a server: leave out the users and items that were deleted there."),
    ] = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; may be repeated.")] = None,
    params: Annotated[
        Path | None, typer.Option(help="File of parameters that `tastespace tune --out` wrote, in place of --model.")
    ] = None,
    valid: Annotated[
        float | None,
        typer.Option(help="With --model: share of the data held out to choose the epoch and to report; 0: none."),
    ] = None,
    spill: Annotated[
        Path | None,
        typer.Option(
            help="Folder for data larger than memory: the table is built there, and dpcml, cml and bpr train there."
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="With --spill: memory for building the table, such as 4GB.")] = "1GB",
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Train dpcml, cml or bpr on partitions of the users: local:4 (Dask on this machine), tcp://host:8786, "
            "a scheduler file (.json), or processes:4 (without Dask)."
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="With --cluster: parts of the users, 8 by default; the result depends on it.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help="With --cluster: how often items are combined in an epoch; 8, or more below 50."),
    ] = None,
    compress: Annotated[
        bool | None, typer.Option("--compress", help="With --cluster: send changes in half precision.")
    ] = None,
    cluster_storage: Annotated[
        str | None,
        typer.Option(
            help="With --cluster: folder or address (s3://...) of its files; a stopped run resumes from them."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder of finished work: after Ctrl-C, a kill or a crash the same command resumes there. It is "
            "deleted once the model is saved."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="With --checkpoint: refuse to begin anew where there is nothing to resume.")
    ] = False,
    card: Annotated[
        bool,
        typer.Option(
            "--card", help="Write a model card next to the model: README.md, as the Hugging Face Hub reads it."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed for the split and the training.")] = 0,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Fit a model to a table of interactions and save it.

    Without --model the default recipe tries several kinds of models on held-out data within --minutes, blends the best,
    gives smaller interests more weight where accuracy stays, and prints what it tried and why it chose. With --model a
    share of each history is held out first, to choose the number of epochs and to measure the model (in fractions),
    next to the most popular items and EASE. With --timestamp the last interactions are held out. Either way the model
    is then fitted to everything. With --cluster the model is dpcml unless --model names another.

    With --checkpoint a run that was stopped resumes. Ctrl-C and SIGTERM in the training of a single model save what it
    has learned to OUT.interrupted.
    """
    require_free(out)  # bad arguments fail here, before hours of training
    messages = Console(stderr=True, soft_wrap=True)  # standard output stays empty
    parameters: dict[str, Any] = {}
    require_half_life(table.half_life, table.timestamp)
    if params is not None:
        model, parameters = read_params(params, model)
    options = _cluster_options(cluster, partitions, rounds, compress, cluster_storage)
    _require_checkpoint(checkpoint, resume, options)
    named = ", ".join(map(shown_address, data))
    about = {"data": named} if card else None
    if options is not None and model is None:
        model = "dpcml"
    if model is None:
        only_one = {"--set": set, "--valid": valid}
        _refuse("without --model", only_one, "it is for one model; name it with --model")
        check_arguments(minutes, trials, seed, threads)
    else:
        _refuse(f"with --model {model}", {"--minutes": minutes, "--trials": trials}, "it is for the default recipe")
        if not 0 <= (valid or 0.0) < 1:
            raise ParameterError(f"--valid {valid}: expected a share from 0 to below 1.")
        parameters |= parse_settings(set or [])
        if checkpoint is not None:
            parameters["checkpoint"] = _file_of_checkpoint(model, checkpoint, parameters)
        is_spilled = spill is not None and options is None
        if is_spilled and issubclass(registry().get(model, Recommender), UserBlockSettings):
            parameters = {"spill": f"{spill}/vectors", "users_at_once": USERS_AT_ONCE} | parameters
        require_half_life(table.half_life, table.timestamp, create_seeded(model, seed, threads, **parameters))
    is_plain = (
        spill is None and feedback is None and table.given().keys() <= {"--user", "--item", "--min-user", "--min-item"}
    )
    if options is not None and model is not None and valid == 0 and is_plain and _are_parquet(data):
        chosen = supported(create_seeded(model, seed, threads, **parameters))
        with _stopped(out):
            fit_files(
                chosen, data, within(options, "final"), user=table.user or "user", item=table.item or "item",
                min_user=table.min_user, min_item=table.min_item,
            )  # fmt: skip
            chosen.save(out, card=about)
        messages.print(f"{named}: {chosen.train_!r}", highlight=False, markup=False)
        messages.print(f"saved {chosen!r} to {out}", highlight=False, markup=False)
        return
    if target is not None and table.kind is None:
        raise ParameterError(f"--target {target}: give --kind as well, the column of kinds of events.")
    whole = table.with_half_life(table.load(data, threads, spill=spill, memory=memory))
    wanted = None if target is None else table.load(data, threads, part=True, target=target)
    messages.print(f"{named}: {whole!r}", highlight=False, markup=False)
    removal = 0
    if feedback is not None:
        whole, removal, said = without_deleted(whole, feedback)
        messages.print(said, highlight=False, markup=False)
    print_notes(whole, messages)
    if model is None:
        with _stopped(out):
            blend = default_recipe(
                whole, minutes=minutes, trials=trials, seed=seed, threads=threads, target=wanted, checkpoint=checkpoint
            )
            recipe = RecipeReport(**blend.recipe_ or {})
            if about is not None and recipe.held_out:
                about["protocol"] = f"full ranking, on {recipe.held_out}; the saved model was then fitted to everything"
            blend.save(out, metrics=recipe.metrics, card=about)
        print_recipe(recipe, messages)
        messages.print(f"saved {recipe.blend_size} to {out}", highlight=False, markup=False)
    else:
        share = _VALID if valid is None else valid
        with _stopped(out, parameters.get("checkpoint")):
            fitted, figures, notes = fit_and_measure(
                create_seeded(model, seed, threads, **parameters), whole, share, seed, threads, options, wanted
            )
            if about is not None and figures:
                about["protocol"] = f"full ranking, on {notes[0]}; the saved model was then fitted to everything"
            if checkpoint is not None:
                fitted.set_params(checkpoint=None)
            fitted.save(out, metrics=next(iter(figures.values()), None), card=about)
        if figures:
            messages.print(figures_table(figures, notes[0]))
            for note in notes[1:]:
                messages.print(note, highlight=False)
        messages.print(f"saved {fitted!r} to {out}", highlight=False, markup=False)
    if feedback is not None:
        note_obeyed(feedback, out, removal)
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)


@contextlib.contextmanager
def _stopped(out: Path, checkpoint: str | None = None) -> Iterator[None]:
    """Ctrl-C and SIGTERM in this block say what is on disk: the model is saved at its end."""
    before = "is the model from before" if out.exists() else "was not written"
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except _TrainingStopped as stopped:
        raise KeyboardInterrupt(f"{out} {before}. {_saved_part(stopped, out)}{_resumes(checkpoint)}") from None
    except KeyboardInterrupt as interrupt:
        kept = f" {interrupt}" if str(interrupt) else ""
        raise KeyboardInterrupt(f"{out} {before}.{kept}{_resumes(checkpoint)}") from None
    finally:
        signal.signal(signal.SIGTERM, handler)


def _resumes(checkpoint: str | None) -> str:
    files = [Path(checkpoint), with_final(checkpoint)] if checkpoint else []
    kept = [str(file) for file in files if file.exists()]
    return f" The same command resumes from the checkpoint {' and '.join(kept)}." if kept else ""


class _TrainingStopped(KeyboardInterrupt):
    """Ctrl-C in the training of a single model, which is usable as it is."""

    def __init__(self, model: TrainedRecommender) -> None:
        self.model = model


def _saved_part(stopped: _TrainingStopped, out: Path) -> str:
    """Save what a training has learned until it was stopped; it never takes the place of a finished model."""
    model, path = stopped.model, out.with_name(f"{out.name}.interrupted")
    if not model.history_:
        return "No epoch was finished."
    model.set_params(checkpoint=None)
    model.save(path)
    epochs = f"{len(model.history_)} epoch{'s' * (len(model.history_) != 1)}"
    part = "" if model.valid_ is None else ", of the data without the held-out part"
    return f"What was learned in {epochs}{part} is saved to {path}."


def _require_checkpoint(checkpoint: Path | None, resume: bool, cluster: ClusterOptions | None) -> None:
    """Raise unless the flags of the checkpoint fit together, and with --resume unless there is something to resume."""
    if checkpoint is None:
        if resume:
            raise ParameterError("--resume without --checkpoint: name the folder of the run, --checkpoint FOLDER.")
        return
    if cluster is not None:
        raise ParameterError("--checkpoint with --cluster: a cluster resumes from --cluster-storage. Leave one out.")
    if resume and not (checkpoint.is_dir() and any(checkpoint.iterdir())):
        raise ParameterError(f"--resume: {checkpoint} holds no run. Begin one with the same command without --resume.")


def _file_of_checkpoint(model: str, folder: Path, parameters: dict[str, Any]) -> str:
    """The file in the folder of --checkpoint to which a model that trains by epochs writes its state."""
    if "checkpoint" in parameters:
        raise ParameterError("--checkpoint and --set checkpoint=... are the same. Leave one of them out.")
    if not issubclass(registry().get(model, Recommender), TrainedRecommender):
        raise ParameterError(
            f"--checkpoint with --model {model}: it does not train by epochs, so that there is nothing to resume. "
            "Leave --checkpoint out."
        )
    if folder.exists() and (
        not folder.is_dir() or any(not one.name.startswith("training") for one in folder.iterdir())
    ):
        raise ParameterError(f"--checkpoint {folder}: it holds other files. Give a new name or an empty folder.")
    return str(folder / "training.safetensors")


def _refuse(when: str, flags: dict[str, Any], reason: str) -> None:
    for flag, value in flags.items():
        if value is not None and value != []:
            raise ParameterError(f"{flag} {when}: {reason}. Leave one of them out.")


def _cluster_options(
    cluster: str | None, partitions: int | None, rounds: int | None, compress: bool | None, storage: str | None
) -> ClusterOptions | None:
    """The flags of a cluster as the library takes them; None: no cluster."""
    if cluster is None:
        named = ("--partitions", "--rounds", "--compress", "--cluster-storage")
        given = dict(zip(named, (partitions, rounds, compress, storage), strict=True))
        _refuse("without --cluster", given, "it is for training on a cluster")
        return None
    known = {"partitions": partitions, "rounds_per_epoch": rounds, "compress": compress, "storage": storage}
    return ClusterOptions(cluster, **{name: value for name, value in known.items() if value is not None})  # type: ignore[arg-type]


def _are_parquet(data: list[str]) -> bool:
    """Return True where the arguments name Parquet files, folders or patterns of them, which workers can read."""
    return all(
        not is_address(name) and (name.endswith((".parquet", ".pq")) or require_path(name).is_dir()) for name in data
    )


def _fitted(
    model: Recommender,
    train: Interactions,
    valid: Interactions | None,
    cluster: ClusterOptions | None,
    name: str,
) -> Recommender:
    """The model, fitted here or on a cluster; ``name`` is that of the run in the cluster's storage."""
    if cluster is None and isinstance(model, TrainedRecommender):
        with interrupts_end_step():
            model.fit(train, valid=valid)
        if model.stopped_ == "interrupted":
            raise _TrainingStopped(model)
        return model
    if cluster is None:
        return model.fit(train, valid=valid)
    return supported(model).fit(train, valid=valid, cluster=within(cluster, name))


def fit_and_measure(
    model: Recommender,
    whole: Interactions,
    valid: float,
    seed: int,
    threads: int,
    cluster: ClusterOptions | None = None,
    wanted: Interactions | None = None,
) -> tuple[Recommender, dict[str, Report], list[str]]:
    """The model fitted to everything; before that its figures on a part held out, and those of the reference models.

    ``wanted`` holds the pairs that figures are about; None: all. The last value says what was held out, and what should
    be known of that.
    """
    if valid == 0:
        return _fitted(model, whole, None, cluster, "final"), {}, []
    parts = split.hold_out(whole, valid, seed=seed)
    train, held_out = parts.rest, pairs_of(parts.held_out, wanted)
    if held_out.n_interactions == 0:
        log.warning(
            "histories are too short to hold out %g %% of each: no metrics, and no choice of epoch", 100 * valid
        )
        return _fitted(model, whole, None, cluster, "final"), {}, []
    _fitted(model, train, held_out, cluster, "held-out")
    reports = {type(model).__name__: _measured(model, train, held_out, threads)}
    for other in reference_models(train, threads):
        if repr(other) != repr(model):
            label = type(other).__name__ + (" (default)" if type(other) is type(model) else "")
            reports[label] = _measured(other.fit(train, progress=False), train, held_out, threads)
    return _fitted(model.as_chosen(), whole, None, cluster, "final"), reports, [parts.how, *parts.notes]


def _measured(model: Recommender, train: Interactions, held_out: Interactions, threads: int) -> Report:
    k = min(10, train.n_items)
    return evaluate(model, held_out, seen=train, k=k, metrics=["P", "R", "NDCG", "MRR"], threads=threads)


def figures_table(reports: dict[str, Report], how: str) -> Table:
    """Figures of several models on the same held-out part, side by side, as fractions."""
    first = next(iter(reports.values()))
    title = f"on {how} ({max(first.n_users.values()):,} users), fractions from 0 to 1"
    table = Table(title=title, title_justify="left")
    table.add_column("model")
    for name in first.metrics:
        table.add_column(name, justify="right")
    for at, (name, report) in enumerate(reports.items()):
        figures = (f"{report[metric]:.3f}" for metric in first.metrics)
        table.add_row(name, *figures, style="bold" if at == 0 else "dim")
    return table
