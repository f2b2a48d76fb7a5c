"""Models on disk: a directory that opens at once, survives crashes, and can be read without this library.

`docs/model-format.md` describes every file. Nothing is pickled: to open a model runs no code that came with it.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tastespace._util.model_files import VERIFIED_BYTES
from tastespace.errors import Argument, DataError, ModelFileError, ParameterError, require_path
from tastespace.evaluation.report import Report
from tastespace.models import Recommender
from tastespace.models.profiles import Profiles
from tastespace.store import _interactions, _manifest, _state
from tastespace.store._card import Card, card_to_write, write_card
from tastespace.store._json_values import decode, encode
from tastespace.store._state import Trust, require_trust, require_trusted
from tastespace.store._tensors import map_tensors, safetensors_chunks
from tastespace.store.directory import check_sizes, write_model

__all__ = ["inspect", "load", "save"]

log = logging.getLogger(__name__)

_ATTEMPTS = 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.5  # seconds: about five in all


def save(
    model: Recommender,
    path: str | Path,
    metrics: Mapping[str, Any] | Report | None = None,
    index: tuple[memoryview, Mapping[str, Any]] | None = None,
    card: Card = None,
) -> None:
    """Save a fitted model to the directory ``path``, which is made, or replaced if it holds a saved model.

    What was there stays intact until the new model is complete on disk, whatever happens in between; programs that
    have the old one open keep it. Stored are parameters, what was learned, the seen interactions, and ids and
    attributes of users and items; validation data is not.

    Args:
        model: Any fitted recommender.
        path: A new name, an empty directory or an earlier model. A directory that holds anything else is refused.
        metrics: Figures to keep with the model: the report of `tastespace.evaluate`, or any dict.
        index: The bytes of an index of its items and its metadata, from `Recommender.save`.
        card: Write a model card, README.md; a dict gives what it states; see `Recommender.save`.

    >>> import tempfile
    >>> from tastespace import EASE, synthetic
    >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/linear", metrics={"NDCG@10": 0.125})
    ...     inspect(f"{folder}/linear")["metrics"]
    {'NDCG@10': 0.125}
    """
    if not isinstance(model, Recommender):
        raise DataError(f"save expects a model, given {type(model).__name__}.")
    model.require_fitted()
    if isinstance(metrics, Report) and "%" in metrics.units.values():
        raise DataError(
            "metrics is a report in percent; a model file holds fractions. Give the report of evaluate itself."
        )
    figures = metrics.metrics if isinstance(metrics, Report) else metrics
    if not isinstance(figures, (Mapping, type(None))):
        raise DataError(Argument("metrics", figures), ": expected the report of evaluate, or a dict of figures.")
    folder = require_path(path)
    stated = card_to_write(folder, card, _content_before(folder))
    learned, tensors = _state.encode_learned(model)
    space = model.vectors()
    content = {
        "class": _state.class_name(model),
        "parameters": _state.encode_parameters(model),
        "metrics": None if figures is None else encode({str(k): v for k, v in figures.items()}, "metrics"),
        **({"evaluation": _how_measured(metrics)} if isinstance(metrics, Report) else {}),
        **({"card": stated} if stated else {}),
        "data": _interactions.summary_of(model.train_),
        "vectors": None
        if space is None
        else {"count": len(space.user_vectors), "dimension": int(space.item_vectors.shape[1])},
        "learned": learned,
        **({"served_diversity": model.served_diversity} if model.served_diversity else {}),
        **({"profiles": model.profiles.encoded(model.train_.users)} if model.profiles else {}),
    }
    parts = {
        "learned": safetensors_chunks(tensors),
        "seen": safetensors_chunks(_interactions.seen_tensors(model.train_)),
        "users": [_interactions.table_bytes(model.train_, "user")],
        "items": [_interactions.table_bytes(model.train_, "item")],
    }
    files = write_model(folder, parts, content, index)
    if stated is not None:
        write_card(folder, content, figures, stated)
    log.info("saved %s to %s, %d bytes", type(model).__name__, folder, sum(f["bytes"] for f in files.values()))


def load(path: str | Path, verify: bool | None = None, trust: Trust = ()) -> Recommender:
    """A model as it was saved, ready to recommend.

    Files of more than 16 MB are mapped read-only instead of read, so that a large model opens at once and processes
    that open the same one share its memory; where another program changes such a file, the next answer is a
    `ModelChangedError`. Names, types, shapes, offsets and indices of all arrays are always checked, so that a damaged
    file is an error and never a crash, and so are the checksums of model.json, users and items.

    Args:
        path: The directory that a model was saved to.
        verify: Read the arrays, compare their checksums and look for NaN as well. None: where the model has
            256 MB or less. True also looks at the order of ids and of the items of each user.
        trust: Modules that may be imported for a model whose class is not one of tastespace, such as ``"helpers"``;
            True: any. Modules that are imported already need no trust.

    >>> import tempfile
    >>> from tastespace import EASE, synthetic
    >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, folder)
    ...     again = load(folder)
    >>> again.recommend(k=5).equals(model.recommend(k=5))
    True
    """
    if verify is not None and not isinstance(verify, bool):
        raise ParameterError(
            Argument("verify", verify), ": expected True, False, or None for models of 256 MB or less."
        )
    folder, trusted = require_path(path), require_trust(trust)
    text = _manifest.read_text(folder)
    for attempt in range(_ATTEMPTS):
        try:
            return _load(text, folder, verify, trusted)
        except ModelFileError:
            # A save that ended meanwhile has deleted the files: read the new model. The longer that goes on, the longer
            # are the pauses, of random lengths so that several readers do not come back together.
            before, text = text, _manifest.read_text(folder)
            if text == before:
                raise
            time.sleep(random.uniform(0.5, 1.0) * min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt))
            text = _manifest.read_text(folder)
    raise ModelFileError(f"{folder} is being saved to all the time; no moment was found to read it.")


def inspect(path: str | Path, verify: bool = False, trust: Trust = ()) -> dict[str, Any]:
    """Contents of a model directory, without opening the model: class, parameters, metrics, counts, files.

    ``verify`` opens the model and compares all checksums as well; ``trust`` as in `load`.

    >>> import tempfile
    >>> from tastespace import MostPopular, synthetic
    >>> model = MostPopular().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, folder)
    ...     found = inspect(folder)
    >>> found["class"], found["users"], found["items"], found["vectors"]
    ('popular', 50, 40, None)
    """
    if verify:
        load(path, verify=True, trust=trust)
    folder = require_path(path)
    content = _manifest.parse(_manifest.read_text(folder), folder)
    require_trusted(content["parameters"], require_trust(trust), str(folder))
    check_sizes(folder, content["files"])
    data, vectors, metrics = content["data"], content["vectors"] or {}, content["metrics"]
    return {
        "path": str(folder),
        "class": content["class"],
        "parameters": decode(content["parameters"], {}, f"{folder}: parameters"),
        "metrics": None if metrics is None else decode(metrics, {}, f"{folder}: metrics"),
        "evaluation": content.get("evaluation"),
        "users": data["users"],
        "items": data["items"],
        "interactions": data["interactions"],
        "vectors": vectors.get("count"),
        "dimension": vectors.get("dimension"),
        "profiles": len(content.get("profiles", ())),
        "served_diversity": content.get("served_diversity", 0.0),
        "index": _index_facts(content.get("index")),
        "fingerprint": data["fingerprint"],
        "backend": data["backend"],
        "created": content["created"],
        "version": content["tastespace"],
        "format_version": content["format_version"],
        "files": {entry["name"]: entry["bytes"] for entry in content["files"].values()},
    }


def _load(text: bytes, folder: Path, verify: bool | None, trust: bool | frozenset[str]) -> Recommender:
    content = _manifest.parse(text, folder)
    require_trusted(content, trust, str(folder))
    cls = _state.find_class(content["class"], str(folder))
    files, summary = content["files"], content["data"]
    check_sizes(folder, files)
    deep = sum(entry["bytes"] for entry in files.values()) <= VERIFIED_BYTES if verify is None else verify
    paths = {part: folder / entry["name"] for part, entry in files.items()}
    crc32 = {part: entry["crc32"] for part, entry in files.items()}
    seen, seen_file = map_tensors(paths["seen"], crc32["seen"] if deep else None)
    train = _interactions.restore(
        summary,
        seen,
        _interactions.read_table(paths["users"], "user", summary, crc32["users"]),
        _interactions.read_table(paths["items"], "item", summary, crc32["items"]),
        str(folder),
        verify is True,
    )
    tensors, learned_file = map_tensors(paths["learned"], crc32["learned"] if deep else None)
    try:
        model = _state.rebuild(cls, content["parameters"], train, content["learned"], tensors, str(folder), deep)
    except RecursionError as problem:
        raise ModelFileError(f"{folder}: what model.json says is nested too deeply. Restore a copy.") from problem
    if "profiles" in content:
        model._profiles = _profiles(content["profiles"], model, folder)
    model._served_diversity = _served_diversity(content, folder)
    model._mapped_files = tuple(one for one in (seen_file, learned_file) if one is not None)
    model._stored_index = _manifest.stored_index(content.get("index"), folder)
    return model


def _how_measured(report: Report) -> dict[str, Any]:
    """Protocol and sizes of the evaluation of a report, for model.json."""
    return {"protocol": report.protocol, "units": dict(report.units), "n_users": dict(report.n_users)}


def _content_before(folder: Path) -> dict[str, Any] | None:
    """The model.json of an earlier save; None where there is none that can be read."""
    try:
        return _manifest.parse(_manifest.read_text(folder), folder)
    except ModelFileError:
        return None


def _index_facts(entry: Any) -> dict[str, Any] | None:
    """Facts of the index of a model for `inspect`; None where it has none."""
    if not isinstance(entry, dict):
        return None
    about = entry.get("about")
    recall = about.get("recall") if isinstance(about, dict) else None
    return {"kind": "ann", "name": entry.get("name"), "bytes": entry.get("bytes"), "recall@100": recall}


def _served_diversity(content: Mapping[str, Any], folder: Path) -> float:
    found = content.get("served_diversity", 0.0)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= 1:
        raise ModelFileError(f"{folder}: the stored served_diversity is {found!r}, no number from 0 to 1.")
    return float(found)


def _profiles(stored: Any, model: Recommender, folder: Path) -> Profiles:
    try:
        return Profiles.decoded(stored, model.train_.users)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
        raise ModelFileError(
            f"{folder}: the stored user profiles are invalid ({problem}). Restore a copy."
        ) from problem
