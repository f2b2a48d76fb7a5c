"""The recommenders, by name and by class.

A model is added in one file and one line of `_MODELS`, which gives it its name, its family and a place in this module:
``from tastespace.models import LightGCN``. Modules are imported when one of their models is used. Type checkers do not
run code, so they read the imports below; a test compares these with `_MODELS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from tastespace.errors import ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace

if TYPE_CHECKING:
    from tastespace.models.als import ALS as ALS
    from tastespace.models.blend.model import Blend as Blend
    from tastespace.models.bpr import BPR as BPR
    from tastespace.models.content_knn import ContentKNN as ContentKNN
    from tastespace.models.dpcml.model import CML as CML
    from tastespace.models.dpcml.model import DPCML as DPCML
    from tastespace.models.dropoutnet import CMLDN as CMLDN
    from tastespace.models.dropoutnet import DPCMLDN as DPCMLDN
    from tastespace.models.dropoutnet import MGMFDN as MGMFDN
    from tastespace.models.gcn_accdiv import GCNAccDiv as GCNAccDiv
    from tastespace.models.item_knn import ItemKNN as ItemKNN
    from tastespace.models.item_knn import RP3beta as RP3beta
    from tastespace.models.linear.ease import EASE as EASE
    from tastespace.models.linear.sparse_ease import SparseEASE as SparseEASE
    from tastespace.models.linear.spectral import Spectral as Spectral
    from tastespace.models.neural.attention_cml import HLR as HLR
    from tastespace.models.neural.attention_cml import AdaCML as AdaCML
    from tastespace.models.neural.autoencoders import MultDAE as MultDAE
    from tastespace.models.neural.autoencoders import MultVAE as MultVAE
    from tastespace.models.neural.factorization import IDCF as IDCF
    from tastespace.models.neural.factorization import M2F as M2F
    from tastespace.models.neural.factorization import MGMF as MGMF
    from tastespace.models.neural.factorization import PRD as PRD
    from tastespace.models.neural.lightgcn import LightGCN as LightGCN
    from tastespace.models.neural.ncf import GMF as GMF
    from tastespace.models.neural.ncf import MLP as MLP
    from tastespace.models.neural.ncf import NeuMF as NeuMF
    from tastespace.models.neural.recnet import DPRecNet as DPRecNet
    from tastespace.models.neural.recnet import RecNet as RecNet
    from tastespace.models.neural.translation_cml import LRML as LRML
    from tastespace.models.neural.translation_cml import TransCF as TransCF
    from tastespace.models.popular import CategoryPopular as CategoryPopular
    from tastespace.models.popular import MostPopular as MostPopular
    from tastespace.models.softmax_mf import SoftmaxMF as SoftmaxMF


class _Entry(NamedTuple):
    module: str
    class_name: str
    family: str


_MODELS = {
    "popular": _Entry("popular", "MostPopular", "baseline"),
    "category-popular": _Entry("popular", "CategoryPopular", "baseline"),
    "ease": _Entry("linear.ease", "EASE", "linear"),
    "sparse-ease": _Entry("linear.sparse_ease", "SparseEASE", "linear"),
    "spectral": _Entry("linear.spectral", "Spectral", "linear"),
    "itemknn": _Entry("item_knn", "ItemKNN", "neighbors"),
    "rp3beta": _Entry("item_knn", "RP3beta", "neighbors"),
    "contentknn": _Entry("content_knn", "ContentKNN", "neighbors"),
    "als": _Entry("als", "ALS", "factorization"),
    "bpr": _Entry("bpr", "BPR", "factorization"),
    "softmax-mf": _Entry("softmax_mf", "SoftmaxMF", "factorization"),
    "cml": _Entry("dpcml.model", "CML", "metric learning"),
    "dpcml": _Entry("dpcml.model", "DPCML", "metric learning"),
    "adacml": _Entry("neural.attention_cml", "AdaCML", "metric learning"),
    "hlr": _Entry("neural.attention_cml", "HLR", "metric learning"),
    "lrml": _Entry("neural.translation_cml", "LRML", "metric learning"),
    "transcf": _Entry("neural.translation_cml", "TransCF", "metric learning"),
    "gmf": _Entry("neural.ncf", "GMF", "neural factorization"),
    "mlp": _Entry("neural.ncf", "MLP", "neural factorization"),
    "neumf": _Entry("neural.ncf", "NeuMF", "neural factorization"),
    "m2f": _Entry("neural.factorization", "M2F", "factorization"),
    "mgmf": _Entry("neural.factorization", "MGMF", "neural factorization"),
    "mult-dae": _Entry("neural.autoencoders", "MultDAE", "autoencoder"),
    "mult-vae": _Entry("neural.autoencoders", "MultVAE", "autoencoder"),
    "lightgcn": _Entry("neural.lightgcn", "LightGCN", "graph"),
    "dp-recnet": _Entry("neural.recnet", "DPRecNet", "neural factorization"),
    "gcn-accdiv": _Entry("gcn_accdiv", "GCNAccDiv", "graph"),
    "idcf": _Entry("neural.factorization", "IDCF", "factorization"),
    "prd": _Entry("neural.factorization", "PRD", "factorization"),
    "recnet": _Entry("neural.recnet", "RecNet", "neural factorization"),
    "blend": _Entry("blend.model", "Blend", "blend"),
    "dpcml+dn": _Entry("dropoutnet", "DPCMLDN", "DropoutNet"),
    "cml+dn": _Entry("dropoutnet", "CMLDN", "DropoutNet"),
    "mgmf+dn": _Entry("dropoutnet", "MGMFDN", "DropoutNet"),
}
_BLEND_OF = "blend:"
_NAME_OF_CLASS = {entry.class_name: name for name, entry in _MODELS.items()}

__all__ = [
    "ModelInfo",
    "Recommender",
    "VectorSpace",
    "create",
    "create_seeded",
    "is_registered",
    "name_of",
    "registry",
    "table",
    *_NAME_OF_CLASS,
]


@dataclass(frozen=True)
class ModelInfo:
    """Properties of a model that are known without fitting it."""

    name: str
    """As `create`, ``tastespace fit --model`` and saved models spell it."""
    class_name: str
    """Its class in this module."""
    family: str
    extra: str | None
    """Optional dependencies that it needs: a name of `tastespace._util.extras.EXTRAS`, such as ``"neural"``."""
    interests: bool
    """True if users have several vectors: `Recommender.shelves` then has a row of items for each."""
    fold_in: bool
    """True if it recommends to users who were not in training, from their histories: `Recommender.fold_in`."""
    cold_start: bool
    """True if it handles users and items without any history, from their features."""
    partial_fit: bool
    """True if training can be continued with more data."""
    weights: bool
    """True if it learns from the weights of interactions."""


def registry() -> dict[str, type[Recommender]]:
    """All recommenders: name -> class.

    >>> registry()["ease"].__name__
    'EASE'
    """
    return {name: _load(name) for name in _MODELS}


def create(name: str, **parameters: Any) -> Recommender:
    """A new model by name; ``blend:`` and names joined by a plus sign make a blend of models.

    >>> create("ease", regularization=50.0)
    EASE(regularization=50.0)
    >>> create("blend:cml+ease", cml__dim=8).members
    [CML(dim=8), EASE()]
    """
    if name.startswith(_BLEND_OF):
        from tastespace.models.blend.model import Blend

        members = [create(member) for member in _member_names(name.removeprefix(_BLEND_OF))]
        return Blend(members).set_params(**parameters)
    if name not in _MODELS:
        raise ParameterError(f"no model {name!r}; there are {', '.join(_MODELS)}.{nearest(name, _MODELS)}")
    return _load(name)(**parameters)


def create_seeded(name: str, seed: int = 0, threads: int = 0, /, **parameters: Any) -> Recommender:
    """As `create`, with ``seed`` and ``threads`` for the model and the members of a blend, where they have these.

    ``parameters`` take precedence over both.

    >>> create_seeded("blend:cml+ease", 7, cml__dim=8).members
    [CML(seed=7, dim=8), EASE()]
    """
    common = {
        known: value
        for known in create(name).get_params()
        for end, value in (("seed", seed), ("threads", threads))
        if known == end or known.endswith(f"__{end}")
    }
    return create(name, **{**common, **parameters})


def name_of(cls: type[Recommender]) -> str:
    """The registry's name of a class; the name of the class itself where it is not in the registry.

    >>> from tastespace.models import EASE
    >>> name_of(EASE)
    'ease'
    """
    return _NAME_OF_CLASS[cls.__name__] if is_registered(cls) else cls.__name__


def is_registered(cls: type[Recommender]) -> bool:
    """Return whether a class is one of the registry; imports no other.

    >>> from tastespace.models import EASE
    >>> is_registered(EASE)
    True
    """
    name = _NAME_OF_CLASS.get(cls.__name__)
    return name is not None and _load(name) is cls


def _member_names(text: str) -> list[str]:
    """``"dpcml+dn+ease"`` as names of models, some of which hold a plus sign themselves."""
    found: list[str] = []
    rest = text.split("+")
    while rest:
        # The longest name that is one: dpcml+dn before dpcml.
        ends = [end for end in range(len(rest), 0, -1) if "+".join(rest[:end]) in _MODELS]
        if not ends:
            raise ParameterError(
                f"{_BLEND_OF}{text}: {rest[0]!r} is no model; expected names joined by a plus sign, such as "
                f"{_BLEND_OF}dpcml+ease. There are {', '.join(_MODELS)}.{nearest(rest[0], _MODELS)}"
            )
        found.append("+".join(rest[: ends[0]]))
        rest = rest[ends[0] :]
    return found


def table() -> list[ModelInfo]:
    """Name, family and abilities of every model, in the order of `registry`.

    >>> [one.name for one in table() if one.partial_fit]
    ['als', 'bpr', 'cml', 'dpcml', 'blend']
    """
    return [_info(name, create(name)) for name in _MODELS]


def _info(name: str, model: Recommender) -> ModelInfo:
    return ModelInfo(
        name=name,
        class_name=_MODELS[name].class_name,
        family=_MODELS[name].family,
        extra=model.extra,
        interests=model.has_interests,
        fold_in=model.supports_fold_in,
        cold_start=model.supports_cold_start,
        partial_fit=model.supports_partial_fit,
        weights=model.uses_weights,
    )


def _load(name: str) -> type[Recommender]:
    entry = _MODELS[name]
    found: type[Recommender] = getattr(import_module(f"tastespace.models.{entry.module}"), entry.class_name)
    return found


if not TYPE_CHECKING:  # with it, type checkers would accept every name

    def __getattr__(name: str) -> type[Recommender]:
        if name not in _NAME_OF_CLASS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _load(_NAME_OF_CLASS[name])


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAME_OF_CLASS})
