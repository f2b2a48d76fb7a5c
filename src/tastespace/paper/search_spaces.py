"""What is searched for each method: the ranges of this library, and the paper's own grids."""

from __future__ import annotations

from typing import Any

from tastespace.errors import ParameterError
from tastespace.paper.methods import Method
from tastespace.paper.stored_parameters import PRETRAINED

Space = dict[str, tuple[Any, ...]]
"""Name of a parameter -> its values in order."""

# Ranges in which this implementation is searched, in order, so that neighbors are alike; "spread" stands for
# (min_spread, max_spread). A search starts from what is stored for this data set or another, else from the
# middle of each.
_COMMON: Space = {
    "margin": (0.5, 0.75, 1.0, 1.25, 1.5),
    "learning_rate": (0.05, 0.1, 0.2),
    "schedule": ("linear", "constant"),
    "average": (10,),
    "epochs": (80,),
    "validate_every": (2,),
}
_SEVERAL: Space = {
    "spread_weight": (1.0, 3.0, 10.0, 30.0),
    "spread": ((0.0, 0.1), (0.05, 0.15), (0.05, 0.25), (0.1, 0.35), (0.2, 0.5)),
}
# Vectors on the sphere are farther from each other, and the loss is one of inner products.
_SEVERAL_ON_THE_SPHERE: Space = {
    "spread_weight": (0.1, 0.3, 1.0, 3.0, 10.0),
    "spread": ((0.0, 0.1), (0.05, 0.25), (0.1, 0.35), (0.1, 1.0), (0.5, 2.0)),
}
_BY_SAMPLER: dict[str, Space] = {
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
_ON_THE_SPHERE: Space = {"margin": (0.1, 0.15, 0.2, 0.3, 0.5)}  # in 1 - cos, half a squared distance
_APA: Space = {"min_interests": (1, 3, 5, 8, 12), "log_base": (5.0, 2.0)}
_BPA: Space = {"n_interests": (2, 3, 5, 8, 12)}

# The grids of the paper's "Implementation Details".
_PAPER: Space = {"margin": (1.0, 1.5, 2.0), "learning_rate": (3e-4, 5e-4, 1e-3, 3e-3, 1e-2)}
_PAPER_SEVERAL: Space = {
    "spread_weight": (10.0, 20.0, 30.0),
    "spread": tuple(
        (low, high) for low in (0.0, 0.05, 0.1, 0.2, 0.5) for high in (0.1, 0.25, 0.35, 0.5, 0.8) if low <= high
    ),
}
_PAPER_BY_SAMPLER: dict[str, Space] = {
    "hard": {"n_negatives": (10,)},
    "uniform": {"n_negatives": (10,)},
    "popularity": {"n_negatives": (10,)},
    "two-stage": {"n_negatives": (10,)},
    "hard-sorted": {
        "n_negatives": (10, 20, 30, 50, 100, 120, 200),
        "beta": (1e-5, 5e-5, 1e-4, 3e-4, 5e-4, 1e-3, 1.5e-3),
    },
}
_PAPER_BY_SAMPLER["hard-differentiable"] = _PAPER_BY_SAMPLER["hard-sorted"]
_PAPER_APA: Space = {"min_interests": (1, 2, 3, 4, 5), "log_base": (2.0, 3.0, 5.0, 10.0)}
_PAPER_BPA: Space = {"n_interests": (2, 3, 4, 5)}

# What the models that learn with torch share: the epoch is chosen as in the paper.
_NEURAL: Space = {
    "learning_rate": (5e-4, 1e-3, 3e-3),
    "validate_every": (3,),
    "patience": (4,),
    "monitor": ("P@3",),
    "monitor_protocol": ("paper",),
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
_M2F: Space = {**_FACTORS, "n_negatives": (4, 8, 16), "n_interests": (2, 3, 4, 5)}

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

_OTHERS: dict[str, Space] = {
    "cml+dn": _METRIC_DN,
    "dpcml+dn": {**_METRIC_DN, **_SEVERAL_DN, "spread": ((0.0, 0.04), (0.0, 0.1), (0.05, 0.25))},
    "mgmf+dn": {**_DROPOUTNET, **_SEVERAL_DN},
    "contentknn": {"n_neighbors": (20, 50, 100, 200, 400, 800, 1500)},
    "sparse-ease": {
        "regularization": (5.0, 10.0, 20.0, 50.0, 100.0, 200.0),
        "n_neighbors": (50, 100, 200),
        "dropout": (0.0, 0.33, 0.5, 0.67),
        "user_power": (0.0, -0.25),
    },
    "ease": {"regularization": (20.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)},
    "gmf": _FACTORS,
    "mlp": _TOWER,
    "neumf": _TOWER,
    "m2f": _M2F,
    "m2f+dcrs": {**_M2F, **_PAPER_SEVERAL},
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
        "monitor": ("P@3",),
        "monitor_protocol": ("paper",),
    },
}


def space_of(method: Method, grid: str = "ours") -> Space:
    """What is searched for a method: name -> values. ``grid`` is ``"ours"`` or ``"paper"``.

    >>> from tastespace.paper.methods import find_method
    >>> space_of(find_method("bpa+hars"), "paper")["n_interests"]
    (2, 3, 4, 5)
    """
    if grid not in ("ours", "paper"):
        raise ParameterError(f"grid={grid!r}: expected 'ours' or 'paper'.")
    if method.second_stage is not None:
        return {"weight": tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))}  # the paper's omega
    if method.model not in ("cml", "dpcml"):
        found = _OTHERS.get(method.name.removesuffix(PRETRAINED), {})
        if not method.name.endswith(PRETRAINED):
            return found
        return {name: values for name, values in found.items() if name != "training"} | {"epochs": (16, 40)}
    ours = grid == "ours"
    sampler = method.fixed.get("sampler", method.defaults.get("sampler", "hard"))
    space = {**(_COMMON if ours else _PAPER), **(_BY_SAMPLER if ours else _PAPER_BY_SAMPLER)[sampler]}
    if method.model == "dpcml":
        space |= (_APA if ours else _PAPER_APA) if "n_interests" in method.fixed else (_BPA if ours else _PAPER_BPA)
        if method.fixed.get("dcrs", "mean") is not None:
            space |= _SEVERAL if ours else _PAPER_SEVERAL
        if ours and method.fixed.get("geometry") == "sphere":
            space |= _ON_THE_SPHERE | (_SEVERAL_ON_THE_SPHERE if "spread" in space else {})
    return space
