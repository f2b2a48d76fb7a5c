"""The recommenders, by name.

A model is added in one file and one line of `_MODELS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tastespace.errors import ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.vectors import VectorSpace

__all__ = ["Recommender", "VectorSpace", "create", "registry"]

# Name -> module and class. Modules are imported when asked for, so that nobody pays for what they do not use.
_MODELS = {
    "popular": "tastespace.models.baselines:MostPopular",
    "ease": "tastespace.models.baselines:EASE",
    "itemknn": "tastespace.models.item_knn:ItemKNN",
    "contentknn": "tastespace.models.content_knn:ContentKNN",
    "als": "tastespace.models.als:ALS",
    "bpr": "tastespace.models.bpr:BPR",
    "cml": "tastespace.models.dpcml:CML",
    "dpcml": "tastespace.models.dpcml:DPCML",
    "adacml": "tastespace.models.attention_cml:AdaCML",
    "hlr": "tastespace.models.attention_cml:HLR",
    "lrml": "tastespace.models.translation_cml:LRML",
    "transcf": "tastespace.models.translation_cml:TransCF",
    "gmf": "tastespace.models.ncf:GMF",
    "mlp": "tastespace.models.ncf:MLP",
    "neumf": "tastespace.models.ncf:NeuMF",
    "m2f": "tastespace.models.multi_vector_mf:M2F",
    "mgmf": "tastespace.models.multi_vector_mf:MGMF",
    "mult-dae": "tastespace.models.autoencoders:MultDAE",
    "mult-vae": "tastespace.models.autoencoders:MultVAE",
    "lightgcn": "tastespace.models.lightgcn:LightGCN",
    "dp-recnet": "tastespace.models.recnet:DPRecNet",
    "gcn-accdiv": "tastespace.models.gcn_accdiv:GCNAccDiv",
    "idcf": "tastespace.models.diverse_mf:IDCF",
    "prd": "tastespace.models.diverse_mf:PRD",
    "recnet": "tastespace.models.recnet:RecNet",
    "dpcml+dn": "tastespace.models.dropoutnet:DPCMLDN",
    "cml+dn": "tastespace.models.dropoutnet:CMLDN",
    "mgmf+dn": "tastespace.models.dropoutnet:MGMFDN",
}


def registry() -> dict[str, type[Recommender]]:
    """All recommenders: name -> class.

    >>> registry()["ease"].__name__
    'EASE'
    """
    return {name: _load(name) for name in _MODELS}


def create(name: str, **parameters: Any) -> Recommender:
    """A new model by name.

    >>> create("ease", regularization=50.0)
    EASE(regularization=50.0)
    """
    if name not in _MODELS:
        raise ParameterError(f"no model {name!r}; there are {', '.join(_MODELS)}.{nearest(name, _MODELS)}")
    cls = _load(name)
    known = cls._parameter_names()
    for parameter in parameters:
        if parameter not in known:
            raise ParameterError(
                f"{name} has no parameter {parameter!r}; it has {', '.join(known) or 'none'}."
                + nearest(parameter, known)
            )
    return cls(**parameters)


def _load(name: str) -> type[Recommender]:
    module, _, cls = _MODELS[name].partition(":")
    found: type[Recommender] = getattr(import_module(module), cls)
    return found
