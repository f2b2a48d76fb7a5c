"""`tastespace serve` and `tastespace serve-token`: a model over HTTP, and its access tokens."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tastespace._util.addresses import shown_address
from tastespace._util.extras import missing
from tastespace._util.limits import IMPRESSIONS_KEPT
from tastespace.cli.arguments import HideCategoryOption, ImagesOption, display_of
from tastespace.data import Interactions, datasets, synthetic
from tastespace.errors import ParameterError, require_path
from tastespace.models import create
from tastespace.online.experiments import arms_of

_DEMO = {"dim": 32, "n_interests": 4, "epochs": 15, "seed": 0}


def serve(
    model: Annotated[
        Path | None, typer.Argument(help="Directory of a saved model; with --demo a named data set.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; by default for this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 means a free one, which is printed.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes, which share the mapped model.", min=1, max=256)] = 1,
    store: Annotated[
        str | None,
        typer.Option(help="Feedback store: an SQLite file or postgresql://...; default: a file next to the model."),
    ] = None,
    compare: Annotated[Path | None, typer.Option(help="A second model to compare with.")] = None,
    rules: Annotated[Path | None, typer.Option(help="TOML file of rules for all lists; may change.")] = None,
    wording: Annotated[
        Path | None,
        typer.Option(help="TOML file with other sentences and names of shelves: another language."),
    ] = None,
    images: ImagesOption = "auto",
    hide_category: HideCategoryOption = None,
    tokens: Annotated[
        Path | None, typer.Option(help="JSON file of tokens (tastespace serve-token); may change.")
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Allow unauthenticated requests on a public --host.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Accept this name in the Host header; default: any, except on loopback.")
    ] = None,
    cors: Annotated[list[str] | None, typer.Option(help="Allow pages of this origin: https://shop.example.")] = None,
    rate: Annotated[float, typer.Option(help="Requests a second for each token; 0: no limit.", min=0.0)] = 0.0,
    max_k: Annotated[int, typer.Option(help="Most items in a list.", min=1)] = 1_000,
    max_batch: Annotated[int, typer.Option(help="Most users or events in a request.", min=1)] = 1_000,
    max_body: Annotated[int, typer.Option(help="Most bytes in the body of a request.", min=1_000)] = 1 << 20,
    timeout: Annotated[float, typer.Option(help="Seconds for an answer, and for a request to arrive.", min=0.1)] = 10.0,
    watch: Annotated[float, typer.Option(help="Seconds between checks for changed files; 0: never.", min=0.0)] = 1.0,
    any_catalog: Annotated[
        bool, typer.Option("--any-catalog", help="Switch to models of other items and ids, too; default: refuse them.")
    ] = False,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log a line of JSON for each request.")] = False,
    keep_answers: Annotated[int, typer.Option(help="Plain lists that each worker remembers.", min=0)] = 10_000,
    experiment: Annotated[
        list[str] | None,
        typer.Option(help="In place of MODEL: a model and its share of the people, A.model=50; given for each model."),
    ] = None,
    salt: Annotated[str, typer.Option(help="With --experiment: another text assigns people to models anew.")] = "",
    explore: Annotated[
        float,
        typer.Option(
            help="Share of places below the first that are drawn from the next items, with logged probabilities.",
            min=0.0,
            max=0.9,
        ),
    ] = 0.0,
    no_impressions: Annotated[
        bool, typer.Option("--no-impressions", help="Do not log the lists that are shown; answers then have no ids.")
    ] = False,
    impression_days: Annotated[float, typer.Option(help="Days that shown lists are kept.", min=0.01)] = 90.0,
    impressions_kept: Annotated[int, typer.Option(help="Most shown lists that are kept.", min=1)] = IMPRESSIONS_KEPT,
    demo: Annotated[
        bool, typer.Option("--demo", help="Fit a small model first: to the data set named, or a synthetic town.")
    ] = False,
) -> None:
    """Serve a saved model over HTTP: lists, shelves, explanations, feedback, and a page at /.

    Requests and answers are JSON; GET /openapi.json describes them. Feedback is stored before it is acknowledged and
    folded in at once. When the model is saved again, or POST /v1/model/reload names another one next to it, the server
    switches to it without a pause. See docs/serving.md.
    """
    try:
        from tastespace.serve.process import (
            bound_socket,
            checked,
            is_loopback,
            run,
        )
        from tastespace.serve.settings import Limits, ServerSettings
    except ImportError as problem:
        raise missing("serve", f"the server needs {problem.name}") from problem
    arms = arms_of(experiment or [])
    if arms and (model is not None or demo):
        raise ParameterError("--experiment names all models: leave out MODEL and --demo.")
    if explore and no_impressions:
        raise ParameterError(
            "--explore is of no use with --no-impressions: what was drawn is not logged. Leave one out."
        )
    if arms:
        model = arms[0].path
    if model is None and not demo:
        raise ParameterError("expected the directory of a saved model, or --demo.")
    if not is_loopback(host) and tokens is None and not anonymous:
        raise ParameterError(
            f"--host {host} lets other machines connect: give --tokens (tastespace serve-token makes them), or "
            "--anonymous to allow unauthenticated requests."
        )
    messages = Console(stderr=True, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="tastespace-demo-") as folder:
        if demo or model is None:
            model = _demo_model(Path(folder), None if model is None else str(model), messages)
        settings = ServerSettings(
            model=require_path(model),
            compare=compare,
            store=store,
            rules=rules,
            wording=wording,
            display=display_of(images, hide_category),
            tokens=tokens,
            host=host,
            port=port,
            workers=workers,
            allowed_hosts=tuple(name.lower() for name in allowed_host or ()),
            cors=tuple(cors or ()),
            watch_seconds=watch,
            any_catalog=any_catalog,
            access_log=access_log,
            keep_answers=keep_answers,
            arms=arms,
            salt=salt,
            impressions=not no_impressions,
            impression_days=impression_days,
            impressions_kept=impressions_kept,
            explore=explore,
            limits=Limits(k=max_k, batch=max_batch, body=max_body, seconds=timeout, read_seconds=timeout, rate=rate),
        )
        listening = bound_socket(host, port)
        try:
            settings = checked(settings)
            shown = f"[{host}]" if ":" in host else host
            # Flushed at once: programs wait for this line.
            typer.echo(f"serving {settings.model.name} at http://{shown}:{listening.getsockname()[1]}/")
            messages.print(f"feedback goes to {shown_address(settings.store_location)}", highlight=False, markup=False)
            run(settings, listening)
        finally:
            listening.close()


def serve_token(
    name: Annotated[str, typer.Argument(help="Name of the token's holder; a token of this name is replaced.")],
    tokens: Annotated[Path, typer.Option(help="JSON file of tokens, created if missing.")] = Path("tokens.json"),
    scope: Annotated[list[str] | None, typer.Option(help="read, feedback or admin; several may be given.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second for this token.", min=0.001)] = None,
) -> None:
    """Create a token for the server and print it; the file stores only its hash.

    A running server reads the file again. Without --scope the token may read.
    """
    from tastespace.serve.tokens import add_token

    typer.echo(add_token(tokens, name, scope or ["read"], rate))


def _demo_model(folder: Path, dataset: str | None, messages: Console) -> Path:
    """A model of the synthetic town or of a named data set, saved in a folder."""
    data: Interactions
    if dataset is None:
        data = synthetic.multi_interest(n_users=1_500, n_items=800, n_interactions=60_000, seed=0).interactions
    else:
        data = datasets.load(dataset)
    messages.print(f"fitting DPCML to {data!r}", highlight=False, markup=False)
    path = folder / f"{dataset or 'town'}.model"
    create("dpcml", **_DEMO).fit(data).save(path)
    return path
