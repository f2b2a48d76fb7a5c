"""Search spaces of the models: ordered values of their parameters, and their form as parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tastespace.errors import Argument, ParameterError
from tastespace.models import Blend, Recommender, name_of
from tastespace.models.blend.members import named_members
from tastespace.training.samplers import find_sampler

Space = dict[str, tuple[Any, ...]]
"""Name of a parameter -> its values in order."""

# Ranges in which this implementation is searched, in order, so that neighbors are alike; "spread" stands for
# (min_spread, max_spread). A search starts from the model as it is given; that of a
# paper's method from what is stored for this data set or another, else from the middle of each.
COMMON: Space = {
    "margin": (0.5, 0.75, 1.0, 1.25, 1.5),
    "learning_rate": (0.05, 0.1, 0.2),
    "schedule": ("linear", "constant"),
    "average": (10,),
    "epochs": (80,),
    "validate_every": (2,),
}
SEVERAL: Space = {
    "spread_weight": (1.0, 3.0, 10.0, 30.0),
    "spread": ((0.0, 0.1), (0.05, 0.15), (0.05, 0.25), (0.1, 0.35), (0.2, 0.5)),
}
# Vectors on the sphere are farther from each other, and the loss is one of inner products.
SEVERAL_ON_THE_SPHERE: Space = {
    "spread_weight": (0.1, 0.3, 1.0, 3.0, 10.0),
    "spread": ((0.0, 0.1), (0.05, 0.25), (0.1, 0.35), (0.1, 1.0), (0.5, 2.0)),
}
BY_SAMPLER: dict[str, Space] = {
    "uniform": {"n_negatives": (5, 10, 20, 50)},
    "popularity": {"n_negatives": (5, 10, 20), "popularity_power": (0.25, 0.5, 0.75, 1.0)},
    "two-stage": {"n_negatives": (10, 20, 50), "n_hardest": (1, 2, 5, 10), "popularity_power": (0.1, 0.25, 0.5, 1.0)},
    "hard": {"n_negatives": (5, 10, 20, 30, 50)},
    "hard-sorted": {"n_negatives": (30, 50, 100, 200), "beta": (1e-4, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1.5e-3)},
    "hard-differentiable": {
        "n_negatives": (30, 50, 100, 200),
        "beta": (1e-4, 2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1.5e-3),
        "gamma_rate": (0.05, 0.1, 0.2, 0.5),
    },
}
ON_THE_SPHERE: Space = {"margin": (0.1, 0.15, 0.2, 0.3, 0.5)}  # in 1 - cos, half a squared distance
APA: Space = {"min_interests": (1, 3, 5, 8, 12), "log_base": (5.0, 2.0)}
BPA: Space = {"n_interests": (2, 3, 5, 8, 12)}

# Common to the models that learn with torch.
_NEURAL: Space = {
    "learning_rate": (5e-4, 1e-3, 3e-3),
    "validate_every": (3,),
    "patience": (4,),
}
_FACTORS: Space = {
    **_NEURAL,
    "learning_rate": (1e-3, 3e-3, 1e-2),
    "dim": (32, 64, 100),
    "n_negatives": (2, 4, 8),
    "weight_decay": (0.0, 1e-6, 1e-5, 3e-5, 1e-4),
    "epochs": (60,),
}
_TOWER: Space = {**_FACTORS, **_NEURAL, "n_layers": (2, 3, 4), "batch_size": (512, 1024)}
M2F: Space = {**_FACTORS, "n_negatives": (4, 8, 16), "n_interests": (2, 3, 4, 5)}

# Adagrad, whose good rates are far larger than Adam's; the paper's margins begin where these end.
_METRIC: Space = {
    **_NEURAL,
    "margin": (0.25, 0.5, 1.0),
    "learning_rate": (0.05, 0.1, 0.2),
    "epochs": (60,),
    "validate_every": (4,),
    "patience": (3,),
}
_RECNET: Space = {
    **_NEURAL,
    "embedding_share": (0.3, 0.5, 0.8),
    "regularization": (1e-3, 3e-3, 1e-2),
    "learning_rate": (2e-3, 5e-3, 1e-2),
    "n_hidden": (16, 32, 64),
    "epochs": (60,),
    "validate_every": (2,),
    "patience": (8,),
}

# The networks take most of the time: small ones come first. With the paper's warm_vectors="fused" warm users lost a
# third of their accuracy on two data sets; `--set warm_vectors=fused --set drop_both=true` searches it.
_DROPOUTNET: Space = {
    **_NEURAL,
    "training": ("joint",),
    "warm_vectors": ("preference",),
    "drop_both": (True, False),
    "layers": ((800, 400, 200), (256, 128)),
    "learning_rate": (1e-3, 3e-3, 1e-2),
    "network_decay": (0.0, 1e-5, 1e-4),
    "n_negatives": (10, 30, 100),
    "negative_pool_size": (500,),
    "epochs": (60,),
    "validate_every": (10,),
    "patience": (2,),
}
_METRIC_DN: Space = {**_DROPOUTNET, "sampler": ("uniform", "hard"), "margin": (0.2, 0.5, 1.0)}
_SEVERAL_DN: Space = {"n_interests": (2, 3, 5)}

OTHERS: dict[str, Space] = {
    "popular": {},
    "category-popular": {"power": (0.3, 0.5, 0.7, 1.0), "logarithm": (False, True)},
    "cml+dn": _METRIC_DN,
    "dpcml+dn": {**_METRIC_DN, **_SEVERAL_DN, "spread": ((0.0, 0.04), (0.0, 0.1), (0.05, 0.25))},
    "mgmf+dn": {**_DROPOUTNET, **_SEVERAL_DN},
    "contentknn": {"n_neighbors": (20, 50, 100, 200, 400, 800, 1500)},
    "sparse-ease": {
        "regularization": (5.0, 10.0, 20.0, 50.0, 100.0, 200.0),
        "n_neighbors": (50, 100, 200),
        "dropout": (0.0, 0.33, 0.5, 0.67),
        "user_power": (0.0, -0.15, -0.25),
        "item_power": (0.0, 0.1, 0.2, 0.3),
    },
    "ease": {
        "regularization": (20.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0),
        "dropout": (0.0, 0.33, 0.5, 0.67),
        "user_power": (0.0, -0.15, -0.25, -0.35),
        "item_power": (0.0, 0.1, 0.2, 0.3),
    },
    "spectral": {
        "dim": (64, 128, 256, 512),
        "low_pass_weight": (0.03, 0.1, 0.3, 1.0),
        "low_pass_power": (0.3, 0.4, 0.5, 0.6, 0.7),
        "linear_power": (0.4, 0.5, 0.6, 0.7),
    },
    "gmf": _FACTORS,
    "mlp": _TOWER,
    "neumf": _TOWER,
    "m2f": M2F,
    "mgmf": {**_FACTORS, "n_interests": (2, 3, 4, 5)},
    "mult-dae": {
        **_NEURAL,
        "dim": (100, 200, 400),
        "dropout": (0.3, 0.5, 0.7),
        "weight_decay": (0.0, 1e-6, 1e-5),
        "batch_size": (64, 128, 256),
        "epochs": (100,),
    },
    "mult-vae": {
        **_NEURAL,
        "dim": (100, 200, 300),
        "n_hidden": (300, 600),
        "dropout": (0.3, 0.5, 0.7),
        "beta": (0.05, 0.1, 0.2, 0.4, 0.6),
        "anneal_epochs": (40, 20),
        "batch_size": (64, 128, 256),
        "epochs": (100,),
    },
    "lightgcn": {
        **_NEURAL,
        "learning_rate": (2e-3, 5e-3, 1e-2),
        "dim": (64, 128, 200),
        "n_layers": (1, 2, 3),
        "regularization": (1e-4, 3e-4, 1e-3, 2e-3, 5e-3),
        "batch_size": (1024, 2048, 4096),
        "epochs": (200,),
        "validate_every": (10,),
    },
    "adacml": {
        **_METRIC,
        "max_history": (20, 50, 100),
        "n_negatives": (2, 5, 10),
    },
    "hlr": {
        **_METRIC,
        "margin": (0.5, 1.0, 1.5),
        "max_history": (5, 10, 20),
        "n_slots": (10, 20, 50),
        "n_negatives": (5,),
    },
    "lrml": {
        **_METRIC,
        "n_slots": (10, 20, 50),
        "n_negatives": (5, 10, 20),
    },
    "transcf": {
        **_METRIC,
        "neighbor_weight": (0.001, 0.003, 0.01, 0.03, 0.1),
        "distance_weight": (0.001, 0.003, 0.01, 0.03, 0.1),
        "n_negatives": (5, 10, 20),
    },
    "rp3beta": {
        "n_neighbors": (50, 100, 200, 400),
        "alpha": (0.2, 0.4, 0.6, 0.8, 1.0),
        "beta": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    },
    "itemknn": {
        "n_neighbors": (20, 50, 100, 200, 400),
        "shrink": (1.0, 3.0, 10.0, 30.0, 100.0),
        "normalize": (True, False),
    },
    "softmax-mf": {
        "temperature": (0.07, 0.1, 0.15, 0.2),
        "dim": (64, 128, 256),
        "learning_rate": (0.01, 0.02, 0.03, 0.05),
        "n_negatives": (512, 1024, 2048),
    },
    "als": {
        "dim": (32, 64, 100),
        "regularization": (5.0, 10.0, 20.0, 40.0, 80.0),
        "alpha": (0.0, 0.3, 1.0, 3.0, 10.0),
        "iterations": (15,),
    },
    "prd": {
        **_NEURAL,
        "alpha": (0.3, 1.0, 2.0),
        "support": (0.3, 0.5, 0.7),
        "regularization": (0.02, 0.05, 0.1),
        "learning_rate": (1e-3, 3e-3, 1e-2),
        "epochs": (80,),
        "validate_every": (2,),
    },
    "recnet": _RECNET,
    "dp-recnet": {**_RECNET, "diversity_weight": (0.1, 0.3, 1.0, 3.0, 10.0)},
    "idcf": {
        **_NEURAL,
        "variance_weight": (0.3, 1.0, 3.0, 10.0, 30.0),
        "regularization": (0.005, 0.01, 0.02, 0.05),
        "learning_rate": (1e-3, 3e-3, 1e-2),
        "dim": (64, 100),
        "epochs": (100,),
        "validate_every": (4,),
    },
    "gcn-accdiv": {
        **_NEURAL,
        "trade_off": (0.02, 0.05, 0.1, 0.2, 0.3),
        "near_nodes": ("item", "user"),
        "n_near_neighbors": (15, 30, 60, 120),
        "n_far_neighbors": (20, 40, 80),
        "near_order": (1, 2),
        "learning_rate": (0.05,),
        "epochs": (5,),
        "validate_every": (1,),
        "patience": (2,),
    },
    "bpr": {
        "learning_rate": (0.02, 0.05, 0.1),
        "regularization": (0.003, 0.005, 0.01, 0.015, 0.02),
        "bias_regularization": (0.0, 0.01, 0.1),
        "schedule": ("linear", "constant"),
        "average": (10,),
        "epochs": (150,),
        "validate_every": (2,),
        "patience": (10,),
    },
}

_ANCHOR: Space = {"anchor": (0.0, 0.5, 1.0)}
_SPREAD, _BOUNDS = "spread", ("min_spread", "max_spread")  # searched together, as "spread"


def space_of_model(model: Recommender) -> Space:
    """Return the space of a model of the registry; of a blend the spaces of its members, as ``cml__margin``.

    >>> from tastespace.models import create
    >>> list(space_of_model(create("contentknn"))), list(space_of_model(create("blend:contentknn+popular")))
    (['n_neighbors'], ['contentknn__n_neighbors'])
    """
    if isinstance(model, Blend):
        members = named_members(model._templates())
        return {f"{name}__{key}": vs for name, one in members.items() for key, vs in space_of_model(one).items()}
    name = name_of(type(model))
    if name in ("cml", "dpcml"):
        return _space_of_metric_learning(model.get_params(), several=name == "dpcml")
    if name not in OTHERS:
        raise ParameterError(
            f"{type(model).__name__} is no model of the library, so it has no search space: give space=, names of "
            "parameters with their values in order, such as space={'alpha': (0.1, 1.0, 10.0)}."
        )
    return OTHERS[name]


def _space_of_metric_learning(given: Mapping[str, Any], several: bool) -> Space:
    sampler = find_sampler(given["sampler"] or ("uniform" if given["geometry"] == "sphere" else "hard"))
    space = {**COMMON, **BY_SAMPLER[sampler.name], **_ANCHOR}
    on_the_sphere = given["geometry"] == "sphere"
    if several:
        if given["n_interests"] != "auto":
            space |= APA if given["n_interests"] == "adaptive" else BPA
        if given["dcrs"] is not None:
            space |= SEVERAL
    if on_the_sphere:
        space |= ON_THE_SPHERE | (SEVERAL_ON_THE_SPHERE if _SPREAD in space else {})
    return space


def checked_space(space: Any, model: Recommender) -> Space:
    """A space given by the caller, its values as tuples; an error unless the model has these parameters."""
    if not isinstance(space, Mapping):
        raise ParameterError(
            Argument("space", space), ": expected names of parameters with their values, {'dim': (32, 64)}."
        )
    found: Space = {}
    for name, values in space.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
            raise ParameterError(f"space[{name!r}]={values!r}: expected a list of values in order, such as (32, 64).")
        found[str(name)] = tuple(values)
    model.clone().set_params(**unpack({name: values[0] for name, values in found.items()}))  # refuses unknown names
    return found


def extend(space: Space, first: Mapping[str, Any]) -> Space:
    """The space with these values in it, so that a search can start from them; numbers stay in ascending order."""
    found = {}
    for name, values in space.items():
        value = tuple(first[name]) if isinstance(first[name], list) else first[name]
        extended = values if value in values else (*values, value)
        in_order = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in extended)
        found[name] = tuple(sorted(extended)) if in_order and extended is not values else extended
    return found


def unpack(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a space as parameters: ``spread`` is a pair of bounds.

    >>> unpack({"dpcml__spread": (0.1, 0.3), "margin": 1.0})
    {'margin': 1.0, 'dpcml__min_spread': 0.1, 'dpcml__max_spread': 0.3}
    """
    plain = {name: value for name, value in wanted.items() if not _is_spread(name)}
    for name, value in wanted.items():
        if _is_spread(name):
            prefix = name.removesuffix(_SPREAD)
            plain |= dict(zip((f"{prefix}{bound}" for bound in _BOUNDS), value, strict=True))
    return plain


def pack(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as values of a space: the inverse of `unpack`."""
    found = dict(parameters)
    for name in parameters:
        if name.endswith(_BOUNDS[0]) and _is_spread(f"{name.removesuffix(_BOUNDS[0])}{_SPREAD}"):
            prefix = name.removesuffix(_BOUNDS[0])
            found[f"{prefix}{_SPREAD}"] = (parameters[name], parameters.get(f"{prefix}{_BOUNDS[1]}"))
    return found


def names_in_space(parameters: Mapping[str, Any]) -> set[str]:
    """Names of a space that these parameters decide: a bound decides ``spread``.

    >>> sorted(names_in_space({"max_spread": 0.3, "dim": 8}))
    ['dim', 'max_spread', 'spread']
    """
    bounds = [(name, bound) for name in parameters for bound in _BOUNDS if name.endswith(bound)]
    return {*parameters, *(f"{name.removesuffix(bound)}{_SPREAD}" for name, bound in bounds)}


def _is_spread(name: str) -> bool:
    return name == _SPREAD or name.endswith(f"__{_SPREAD}")
