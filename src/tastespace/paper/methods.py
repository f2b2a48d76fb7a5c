"""Methods of the paper's tables by name, with the parameters that each name fixes and those that were stored.

``cml+hars`` is one vector per user with hard sampling, ``bpa+...`` the same number of vectors (two or more) for
every user, ``apa+...`` an adaptive number, ``gfja`` the joint-accessibility form on the sphere, ``gfja+dcrs`` the same
with spread control. ``cml+hars+batches`` and the like are the same methods trained by the rule of the authors'
code. Any model of the registry is a method under its own name. ``+pt`` behind a model with content,
``dpcml+dn+pt``, means that its preferences were trained before. Any method with ``+dd`` or ``+pd`` behind its name is
followed by that re-ranker.

Parameters that a search found on validation data are stored for each data set and method. `parameters.json` next to
this file holds those that come with the library; it is read only. `tastespace tune --store` writes to the user's own
file, `user_file`, or to a file that is named. An entry of the user's file replaces the library's entry for the same
data set and method.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_data_path

from tastespace._util.atomic import atomic_write
from tastespace.data.cold_start import SUFFIX
from tastespace.errors import DataError, ParameterError, nearest
from tastespace.models import CML, DPCML, EASE, Recommender, create, registry
from tastespace.recommend.rerank.reranked import Reranked
from tastespace.training.samplers import SAMPLERS

# As the paper selects epochs: best validation P@3 under its own protocol.
SELECTION: dict[str, Any] = {"monitor": "P@3", "monitor_protocol": "paper"}
# What the methods of the paper take where no parameters are stored, whatever the models' own defaults are.
_TRAINING: dict[str, Any] = {"learning_rate": 0.1, "epochs": 50}
_ALIASES = {"2st": "2sts", "bpa+2st": "bpa+2sts", "dpcml1": "bpa+unis", "dpcml2": "bpa+hars", "graphdiv": "gcn-accdiv"}


Table = dict[str, dict[str, Any]]
"""Data set -> method -> parameters, validation metrics and the budget spent."""

PRETRAINED = "+pt"
"""Behind the name of a model with content: its preferences were trained before."""
BATCHES = "+batches"
"""Behind the name of a method of the paper: trained in batches with a step of Adam each, as its authors publish it."""
VARIABLE = "TASTESPACE_PARAMETERS"
"""Environment variable that names another user's file."""
_PACKAGE_FILE = Path(__file__).with_name("parameters.json")
_SAME_SPLIT = ("xing-2017",)
"""Data sets whose warm part is split alike with cold-start users and items and without."""
OWN_SPLITS = ("ml-1m", "citeulike-t")
"""Data sets that were split by another draw of the same rule before the authors' was known."""
_SECOND_STAGES = ("dd", "pd")
_OF_SECOND_STAGE = ("weight", "pool")


@dataclass(frozen=True)
class Method:
    """A named method: a model with some parameters fixed by the name."""

    name: str
    model: str
    fixed: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    second_stage: str | None = None
    """Re-ranker of the lists: dd or pd."""

    @property
    def first_stage(self) -> str:
        """Name of the method without the re-ranking."""
        return self.name if self.second_stage is None else self.name.rpartition("+")[0]

    def build(self, parameters: dict[str, Any], seed: int) -> Recommender:
        """The model with these parameters; what the name fixes cannot be changed into another method."""
        if self.second_stage is not None:
            outer = {name: value for name, value in parameters.items() if name in _OF_SECOND_STAGE}
            inner = {name: value for name, value in parameters.items() if name not in _OF_SECOND_STAGE}
            first = replace(self, name=self.first_stage, second_stage=None)
            return Reranked(first.build(inner, seed), how=self.second_stage, **outer)
        self.check(parameters)
        known = registry()[self.model]._parameter_names()
        chosen = {**self.defaults, **self.fixed, **parameters}
        if "seed" in known:
            chosen.setdefault("seed", seed)
        return create(self.model, **chosen)

    def check(self, parameters: dict[str, Any]) -> None:
        """Refuse parameters that would turn this method into another one."""
        for name, value in self.fixed.items():
            if name in parameters and parameters[name] != value:
                raise ParameterError(
                    f"{name}={parameters[name]!r} would make {self.name} another method: its name means "
                    f"{name}={value!r}.{self._meant(name, parameters[name])}"
                )
        if self.name.startswith(("bpa", "gfja")) and not _two_or_more(parameters.get("n_interests", 2)):
            raise ParameterError(
                f"n_interests={parameters['n_interests']!r}: {self.name} means the same number of vectors, two or "
                "more, "
                "for every user."
            )
        if "+hars" in self.name and parameters.get("n_hardest", 1) != 1:
            raise ParameterError(
                f"n_hardest={parameters['n_hardest']!r}: {self.name} means the hardest of the candidates."
            )

    def _meant(self, name: str, value: Any) -> str:
        """A hint at the method whose name fixes this to the value wanted, or leaves it free, all else alike."""
        rest = {key: one for key, one in self.fixed.items() if key != name}
        alike = [one for one in _methods().values() if one.model == self.model and one.name != self.name]
        known = [one.name for one in alike if one.fixed == {**rest, name: value}]
        known += [one.name for one in alike if one.fixed == rest]
        return f" Take the method {known[0]} for that." if known else ""


def _two_or_more(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 2


def _methods() -> dict[str, Method]:
    found: dict[str, Method] = {}
    for kind in SAMPLERS.values():
        sampler = kind.paper_name.lower()
        for family, model, fixed, defaults in (
            ("cml", "cml", {}, CML.paper_form()),
            ("bpa", "dpcml", {}, {**DPCML.paper_form(), "n_interests": 5}),
            ("apa", "dpcml", {"n_interests": "adaptive"}, DPCML.paper_form()),
        ):
            name = f"{family}+{sampler}"
            found[name] = Method(name, model, {**fixed, "sampler": kind.name}, {**SELECTION, **_TRAINING, **defaults})
            theirs = CML.published() if model == "cml" else {**DPCML.published(), **defaults}
            optimizer = {"optimizer": theirs.pop("optimizer")}
            name = f"{name}{BATCHES}"
            found[name] = Method(name, model, {**fixed, "sampler": kind.name, **optimizer}, theirs)
    sphere = {"geometry": "sphere"}
    common = {**SELECTION, **_TRAINING, **DPCML.paper_form(), "n_interests": 5, "sampler": "uniform"}
    found["gfja"] = Method("gfja", "dpcml", {**sphere, "dcrs": None}, common)
    found["gfja+dcrs"] = Method("gfja+dcrs", "dpcml", {**sphere, "dcrs": "mean"}, common)
    found["m2f+dcrs"] = Method("m2f+dcrs", "m2f", {"dcrs": "mean"}, SELECTION)
    found["ease"] = Method("ease", "ease", {}, {"regularization": 100.0, **EASE.paper_form()})
    for name in registry():
        if name in found:
            continue
        if not name.endswith("+dn"):
            found[name] = Method(name, name)
        else:
            found[name] = Method(name, name, {"training": "joint"}, SELECTION)
            found[f"{name}{PRETRAINED}"] = Method(f"{name}{PRETRAINED}", name, {"training": "pretrained"}, SELECTION)
    return found


def method_names() -> tuple[str, ...]:
    """All names that `run` accepts.

    >>> "apa+dihars" in method_names()
    True
    """
    return tuple(_methods())


def find_method(name: str) -> Method:
    """A method by its name in the paper's tables; case and the paper's other names are accepted.

    >>> find_method("BPA+HarS").fixed
    {'sampler': 'hard'}
    """
    methods = _methods()
    first, _, second = name.lower().rpartition("+")
    if second in _SECOND_STAGES and first:
        found = find_method(first)
        return replace(found, name=f"{found.name}+{second}", second_stage=second)
    key = _ALIASES.get(name.lower(), name.lower())
    if key not in methods:
        raise ParameterError(f"no method {name!r}; there are {', '.join(methods)}.{nearest(key, methods)}")
    return methods[key]


def user_file() -> Path:
    """The user's own parameters: ``TASTESPACE_PARAMETERS``, else parameters.json in the user's data folder."""
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else user_data_path("tastespace") / "parameters.json"


def stored_entries() -> Table:
    """Return everything stored: the library's entries, overridden by the user's."""
    packaged, own = _package_entries(), _read(user_file())
    return {dataset: {**packaged.get(dataset, {}), **own.get(dataset, {})} for dataset in {**packaged, **own}}


def stored_parameters(dataset: str, method: str) -> dict[str, Any]:
    """Return the stored parameters; empty where no search was stored.

    Those of a plain data set are used for ``<name>-cold`` only where they were found without its test part and its
    cold-start users and items; those of joint training are used for pre-training where that was not searched itself.
    """
    entry = _entry(dataset, method)
    found = {} if entry is None else dict(entry["parameters"])
    if method.endswith(PRETRAINED):
        found.pop("training", None)
    if found:
        _require_known(dataset, method, found)
    return found


def _require_known(dataset: str, method: str, stored: dict[str, Any]) -> None:
    """Refuse stored parameters that the model does not take any more."""
    known = find_method(method)
    names = {*registry()[known.model]._parameter_names(), *(_OF_SECOND_STAGE if known.second_stage else ())}
    unknown = sorted(stored.keys() - names)
    if unknown:
        raise ParameterError(
            f"the parameters stored for {method} on {dataset} hold {', '.join(unknown)}, which {known.model} does not "
            f"take: search them again (tastespace paper tune) or remove them from {user_file()}."
        )


def stored_trials(dataset: str, method: str) -> int:
    """Return the number of trials that chose the stored parameters; 0 where none are stored."""
    entry = _entry(dataset, method)
    return 0 if entry is None else int(entry["trials"])


def searched_on_other_split(dataset: str, method: str) -> bool:
    """Return true if stored parameters were chosen before the authors' split of this data set was known."""
    entry = _entry(dataset, method)
    return entry is not None and dataset in OWN_SPLITS and "split" not in entry


def store_parameters(dataset: str, method: str, entry: dict[str, Any], file: str | Path | None = None) -> Path:
    """Write the outcome of a search to a file, by default `user_file`; return its path.

    Searches that run at the same time do not lose each other's outcome: the file is locked and replaced as a whole.
    """
    path = user_file() if file is None else Path(file).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(path.name + ".lock")):
        table = _read(path)
        table.setdefault(dataset, {})[method] = entry
        ordered = {name: dict(sorted(table[name].items())) for name in sorted(table)}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    return path


def _entry(dataset: str, method: str) -> dict[str, Any] | None:
    plain, table = dataset.removesuffix(SUFFIX), stored_entries()
    joint = method.removesuffix(PRETRAINED)
    names = (dataset, plain) if plain in _SAME_SPLIT or _learns_from_content(joint) else (dataset,)
    entries = (table.get(name, {}).get(one) for one in (method, joint) for name in names)
    return next(filter(None, entries), None)


def _learns_from_content(method: str) -> bool:
    """Return true for a method that is searched with cold-start users and items, whatever the name of the data."""
    return bool(getattr(registry().get(method), "learns_from_content", False))


@lru_cache(maxsize=1)
def _package_entries() -> Table:
    return _read(_PACKAGE_FILE)


def _read(file: Path) -> Table:
    try:
        table: Table = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise DataError(
            f"{file} should hold stored parameters, but it is not valid JSON: {problem}. Mend it or remove it."
        ) from problem
    return table
