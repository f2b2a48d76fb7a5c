"""Models of the recipe as short text: class and the parameters that its searches vary."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from tastespace.models import Recommender

_SAME_IN_ALL_TRIALS = ("epochs", "patience", "validate_every", "max_minutes", "seed", "threads", "frequency_power")


def short_name(model: Recommender, others: Iterable[Recommender] = ()) -> str:
    """Class and changed parameters, without those that are the same in all trials.

    A parameter that another model of the class has changed is shown as well, so that they can be compared.

    >>> from tastespace.models import ALS
    >>> short_name(ALS(alpha=8.0, seed=3)), short_name(ALS(), [ALS(alpha=8.0)])
    ('ALS(alpha=8.0)', 'ALS(alpha=1.0)')
    """
    shown = _changed(model).union(*(_changed(other) for other in others if type(other) is type(model)))
    parameters = model.get_params(deep=False).items()
    return f"{type(model).__name__}({', '.join(f'{name}={value!r}' for name, value in parameters if name in shown)})"


def _changed(model: Recommender) -> set[str]:
    defaults: dict[str, Any] = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    values = model.get_params(deep=False).items()
    return {name for name, value in values if value != defaults[name] and name not in _SAME_IN_ALL_TRIALS}
