"""What a recommender is: parameters stored, `fit`, and scores for blocks of users."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_unweighted
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, NotFittedError, ParameterError, nearest
from tastespace.models.inference import InferenceMixin
from tastespace.models.vectors import VectorSpace

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="Recommender")


class Recommender(InferenceMixin, ABC):
    """Base of all models.

    A subclass writes ``__init__`` (which only stores its parameters), `_fit`, and either `score_block` or, for
    vector models, `vectors`. It then has evaluation, recommendation, the command line and the conformance
    tests. What is learned ends in an underscore; the fitted model owns the ids and the seen items (`train_`).
    """

    uses_weights: ClassVar[bool] = False
    """Whether the model learns from the weights of interactions; `fit` refuses weighted data otherwise."""
    train_: Interactions
    """What the model was fitted on."""
    valid_: Interactions | None
    """What it was tuned on, if anything."""
    _world: Interactions | None = None

    def fit(self: Self, train: Interactions, valid: Interactions | None = None, progress: bool | None = None) -> Self:
        """Learn from ``train``; ``valid`` serves early stopping where the model has any.

        ``progress`` shows a progress bar: by default only where standard error is a terminal.
        """
        if not isinstance(train, Interactions):
            raise DataError(
                f"fit expects Interactions, given {type(train).__name__}. Build them with Interactions.from_frame, "
                ".from_file or .from_scipy."
            )
        if train.n_interactions == 0:
            raise DataError(f"fit was given {train!r}: nothing to learn from.")
        if not self.uses_weights:
            require_unweighted(type(self).__name__, train.weights)
        if valid is not None and (valid.users != train.users or valid.items != train.items):
            raise DataError(
                f"valid ({valid!r}) has other users or items than train ({train!r}). Split one Interactions with "
                "tastespace.split; its parts share both."
            )
        self._fit(train, valid, progress)
        self.train_, self.valid_ = train, valid
        return self

    @abstractmethod
    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        """Learn; sets the attributes that end in an underscore."""

    def vectors(self) -> VectorSpace | None:
        """The learned vectors, for models that have them; None for others."""
        return None

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Scores of all items for the users at these indices, larger is better: ``(len(users), n_items)``."""
        space = self.vectors()
        if space is None:
            raise TypeError(f"{type(self).__name__} defines neither score_block nor vectors")
        return space.scores(users)

    @property
    def world(self) -> Interactions:
        """Where popularity is counted: the training data, also for a model of newcomers."""
        return self.train_ if self._world is None else self._world

    def item_space(self) -> VectorSpace | None:
        """The vectors by which items are compared, for diversity; a two-stage model has those of its first stage."""
        return self.vectors()

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32] | None:
        """How close all items are to the items at these rows, for models that compare items without vectors.

        Larger is closer; shape ``(len(rows), n_items)``. None for models that do not compare items.
        """
        return None

    # ---- parameters, as in scikit-learn --------------------------------------------------------------------

    @classmethod
    def _parameter_names(cls) -> list[str]:
        signature = inspect.signature(cls)  # of a class without a constructor: no parameters
        return [name for name, p in signature.parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters and their values."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self: Self, **parameters: Any) -> Self:
        """Change parameters; unknown names are an error that offers the nearest."""
        names = self._parameter_names()
        for name, value in parameters.items():
            if name not in names:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(names) or 'none'}."
                    + nearest(name, names)
                )
            setattr(self, name, value)
        return self

    def clone(self: Self) -> Self:
        """A new, unfitted model with the same parameters."""
        return type(self)(**self.get_params())

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "train_")

    def require_fitted(self) -> None:
        """Raise `NotFittedError` unless the model was fitted."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(train) first.")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [f"{n}={v!r}" for n, v in self.get_params().items() if repr(v) != repr(defaults[n].default)]
        return f"{type(self).__name__}({', '.join(changed)})"
