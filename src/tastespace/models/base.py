"""The base class of all recommenders: parameters, `fit`, and scores for blocks of users."""

from __future__ import annotations

import copy
import inspect
import logging
from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.interrupts import interruptible
from tastespace._util.memory import available_gb
from tastespace._util.threads import resolve_threads
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.merge import concat
from tastespace.data.reading.options import ColumnArguments, FileArguments, TableArguments, require_arguments
from tastespace.errors import Argument, DataError, NotFittedError, ParameterError, TrainingError, nearest
from tastespace.models._fit_memory import require_memory_to_fit
from tastespace.models.inference import InferenceMixin
from tastespace.models.stored_values import Declared
from tastespace.models.vector_space import VectorSpace

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame
    from typing_extensions import Unpack

    from tastespace.models.blend.program import Program
    from tastespace.tastes import TasteParts, Tastes

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="Recommender")
TrainingData: TypeAlias = "Interactions | IntoFrame | SparseMatrix | str | Path"
"""Data for `Recommender.fit`: `Interactions`, a frame of any library that narwhals supports, a file or address, or a
SciPy matrix."""


_FRAME, _FILE = "a frame", "a file"
_ROLES = ("weight", "timestamp")


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy, which has no types of its own."""

    shape: Any

    def tocsr(self) -> Any:
        """The same in compressed rows."""


class _CheckedWhenMade(ABCMeta):
    """Checks the parameters of a model as soon as its constructor, which only stores them, has returned."""

    if not TYPE_CHECKING:  # type checkers read the signature of __init__

        def __call__(cls, *args: Any, **parameters: Any) -> Any:
            """A new model; invalid parameters are a `ParameterError`."""
            model = super().__call__(*args, **parameters)
            model._check()
            return model


class _ConstructorSignature:
    """The signature of a class is that of its ``__init__``, although `Recommender` has a ``__new__``."""

    def __get__(self, model: object, cls: type) -> inspect.Signature:
        if cls.__init__ is object.__init__:  # type: ignore[misc]
            return inspect.Signature()
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Recommender(InferenceMixin, metaclass=_CheckedWhenMade):
    """Base of all models.

    A subclass writes ``__init__`` (which only stores its parameters), `_check` (which raises where one is invalid, and
    is called when a model is made), `_fit`, and either `score_block` or, for vector models, `vectors`. It then
    has evaluation, recommendation, the command line and the conformance tests. Names of learned attributes end in an
    underscore; `train_` holds the ids and the seen items.
    """

    uses_weights: ClassVar[bool] = False
    """True if the model learns from the weights of interactions; `fit` refuses weighted data otherwise."""
    extra: ClassVar[str | None] = None
    """The optional dependencies that the model needs: a name of `tastespace._util.extras.EXTRAS`."""
    splits_scores: ClassVar[bool] = False
    """True if scores are the totals of `taste_parts`."""
    deterministic_threads: ClassVar[bool] = True
    """True if training gives the same bits for every value of ``threads``, for models with that parameter."""
    _fixed_parameters: ClassVar[dict[str, str]] = {}
    """Parameters of the base class that this one fixes, with what to do instead."""
    train_: Interactions
    """Interactions that the model was fitted on."""
    valid_: Interactions | None
    """Validation data that `fit` was given, if any."""
    _popularity_source: Interactions | None = None
    _fits_in_one_call: ClassVar[bool] = False
    """True if `_fit` is a few long calls (of LAPACK, SciPy, one kernel) that Ctrl-C cannot stop."""

    def fit(
        self: Self,
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        **columns: Unpack[TableArguments],
    ) -> Self:
        """Learn from ``train``; ``valid`` is used for early stopping, in models that have it.

        Args:
            train: `Interactions`; or a frame (polars, pandas, pyarrow, ...) with the columns ``user`` and ``item`` and,
                where there are any, ``weight`` and ``timestamp``; other columns are read only where they are named. Or
                a SciPy CSR matrix of shape ``(n_users, n_items)``, whose ids are then row and column numbers; values
                other than 1 are weights.
            valid: The same kind of data as ``train``. Interactions come from one split, matrices have one shape;
                frames have the same columns and may have users and items that ``train`` does not have.
            progress: Show a progress bar: by default only where standard error is a terminal.
            **columns: Of a frame, the options of `Interactions.from_frame`: ``user`` and ``item``, the names of the
                columns of ids, ``rating``, ``min_rating``, ``item_attributes``, ...

        >>> import polars as pl
        >>> from tastespace.models import EASE
        >>> frame = pl.DataFrame({"who": ["ann", "ann", "bob", "bob"], "sku": ["tea", "jam", "tea", "rye"]})
        >>> EASE().fit(frame, user="who", item="sku").recommend("bob", k=1)["item"].to_list()
        ['jam']
        """
        return self._fit_to(train, valid, progress, columns)

    def _fit_to(
        self: Self,
        train: TrainingData,
        valid: TrainingData | None,
        progress: bool | None,
        columns: TableArguments,
        **arguments: Any,
    ) -> Self:
        """Check the data, call `_fit` with it, and set `train_` and `valid_`; ``arguments`` are further ones of `_fit`.

        A subclass whose `fit` takes more arguments passes them here by name.
        """
        self._check()  # attributes may have been set since the model was made
        data, held_out = _training_data(train, valid, columns)
        if data.n_interactions == 0:
            raise DataError(f"fit was given {data!r}: nothing to learn from.")
        self._require_usable_weights(data)
        if held_out is not None and (held_out.users != data.users or held_out.items != data.items):
            raise DataError(
                f"valid ({held_out!r}) has other users or items than train ({data!r}). Split one Interactions with "
                "tastespace.split; its parts share both."
            )
        require_memory_to_fit(self, data)
        try:
            if self._fits_in_one_call:
                learned = copy.copy(self)  # after Ctrl-C its thread runs on for a while
                interruptible(lambda: learned._fit(data, held_out, progress, **arguments))
                self.__dict__ = learned.__dict__
            else:
                self._fit(data, held_out, progress, **arguments)
        except MemoryError as problem:
            raise TrainingError(
                f"{self!r} needs more memory for {data!r} than there is ({available_gb():.3g} GB are free): lower the "
                "parameters that make it large, or drop rare users and items (",
                Argument("min_user"),
                ", ",
                Argument("min_item"),
                ").",
            ) from problem
        self._drop_profiles()
        self._stored_index = None
        self._mapped_files = ()
        self._kept_lists = self._kept_space = None  # they hold the vectors of an earlier fit
        self.train_, self.valid_ = data, held_out
        self._after_fit()
        return self

    def _after_fit(self) -> None:
        """Look at the fitted model; called at the end of `fit`."""

    def _drop_profiles(self) -> None:
        """Forget all profiles: interests that are learned again have other numbers."""
        if self._profiles:
            log.warning(
                "%s was fitted again, which renumbers interests: the profiles of %d users are dropped",
                type(self).__name__,
                len(self._profiles),
            )
        self._profiles = None

    def _attributes_changed(self) -> None:
        """Called after `set_item_attributes`: a model that keeps something computed from them forgets it."""

    def _require_usable_weights(self, data: Interactions) -> None:
        """Raise if the data has weights that the model would not use."""
        if self.uses_weights or data.weights is None:
            return
        from tastespace.models import registry

        span = f" from {data.weights.min():g} to {data.weights.max():g}" if len(data.weights) else ""
        others = ", ".join(name for name, cls in registry().items() if cls.uses_weights)
        raise DataError(
            f"{type(self).__name__} does not use weights, given {len(data.weights):,} interactions with weights{span}. "
            "Drop them (weight=None for a frame, Interactions.without_weights(), or no --weight), or take a model that "
            f"uses them: {others}."
        )

    def _check(self) -> None:
        """Raise `ParameterError` for invalid parameters; called when a model is made, changed and fitted."""
        if "threads" in vars(self):
            resolve_threads(vars(self)["threads"])

    def _stored(self, learned: Mapping[str, Any]) -> Declared | None:
        """Declare the learned values that a model file must hold, by name (`tastespace.models.stored_values`).

        ``learned`` is what was found in a file; parameters and `train_` are set. None: no declaration, so that whatever
        the file holds is taken.
        """
        return None

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

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Mask of the users at these indices of whom the model has learned something, shape ``(len(users),)``.

        Users without a training history (cold-start users) have random vectors or scores of 0, which say nothing of
        them. Models whose lists do not depend on a history, or come from features where there is none, serve them too.

        >>> from tastespace import EASE, split, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> EASE().fit(town.subset(town.row_of_each() != 7)).can_serve(np.array([6, 7])).tolist()
        [True, False]
        """
        found: NDArray[np.bool_] = self.train_.user_counts[users] > 0
        return found

    def can_serve_one(self, user: int) -> bool:
        """`can_serve` of the user at this index."""
        if type(self).can_serve is Recommender.can_serve:
            return bool(self.train_.user_counts[user] > 0)  # without arrays
        return bool(self.can_serve(np.array([user]))[0])

    @property
    def popularity_source(self) -> Interactions:
        """The interactions that popularity is computed from: the training data, also after `fold_in`."""
        return self.train_ if self._popularity_source is None else self._popularity_source

    @property
    def weighted_train(self) -> Interactions:
        """`train_` with the weights as they count for the model: to its ``weight_power``, where it has one."""
        return self.train_.powered(vars(self).get("weight_power", 1.0))

    def item_space(self) -> VectorSpace | None:
        """The vectors by which items are compared, for diversity; a re-ranked model has those of its first stage."""
        return self.vectors()

    def interest_space(self) -> VectorSpace | None:
        """The vectors that tell which of a user's interests an item matches; None for models without vectors.

        The model's own vectors; a blend has those of one of its members, although it ranks by other scores.
        """
        return self.vectors()

    def scores_by(self, user: int, interests: Sequence[int]) -> NDArray[np.float32]:
        """Scores of all items for the user at this index as if only these interests existed, shape ``(n_items,)``."""
        space = self.interest_space()
        if space is None:
            raise ParameterError(f"{type(self).__name__} has no vectors, so users have no interests.")
        first = int(space.user_offsets[user])
        chosen = np.ascontiguousarray(space.user_vectors[[first + x for x in interests]])
        offsets = np.array([0, len(chosen)], dtype=np.int64)
        one = VectorSpace(chosen, offsets, space.item_vectors, space.metric, space.item_bias)
        return one.scores(np.zeros(1, dtype=np.int64))[0]

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32] | None:
        """Similarity of all items to the items at these rows, for models that compare items without vectors.

        Larger is closer; shape ``(len(rows), n_items)``. None for models that do not compare items.
        """
        return None

    def history_scores(self, histories: sp.csr_array) -> NDArray[np.float32] | None:
        """Scores of all items from these histories, rows of past items with their weights: ``(n_histories, n_items)``.

        For models whose scores are sums over past items: the scores of two histories add up to those of both together.
        None for all others.
        """
        return None

    def past_rows(self) -> _native.PastRows | None:
        """The matrix that `history_scores` multiplies histories with, for kernels (`models.past_rows`).

        None where scores are not computed that way. A class that has its own `history_scores` needs its own.
        """
        return None

    def vector_scores(self) -> tuple[VectorSpace, float] | None:
        """The vectors that give `score_block`, for kernels, and a temperature t: 0, or scores are
        ``exp((score - the user's largest) / t)``.

        None where scores are not computed that way. A class that has its own `score_block` needs its own.
        """
        space = self.vectors()
        return None if space is None else (space, 0.0)

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32] | None:
        """Contribution of each past item of the user to the scores of some items, all given by their index.

        Shape ``(n_past, len(items))``, with past items in the order of ``train_.indices[train_.offsets[user]:
        train_.offsets[user + 1]]``. Where scores are sums over past items the contributions sum to the score; None for
        models whose scores are not.

        >>> from tastespace import synthetic
        >>> from tastespace.models import EASE
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> model = EASE().fit(town)
        >>> contributions = model.evidence(7, np.array([3, 5]))
        >>> contributions.shape == (len(town.items_of(town.users[7])), 2)
        True
        >>> scores = model.score_block(np.array([7]))[0, [3, 5]]
        >>> bool(np.allclose(contributions.sum(axis=0), scores, atol=1e-6))
        True
        """
        return None

    # ---- tastes -------------------------------------------------------------------------------------------------

    def tastes(self) -> Tastes | None:
        """Groups of the users' past items that lists, shelves and explanations speak of (`tastespace.tastes`).

        None for models whose interests are vectors, and for those without interests.
        """
        return None

    def taste_parts(self, users: NDArray[np.integer[Any]]) -> TasteParts:
        """Scores of all items for these users, split by taste; for models with `tastes`."""
        raise TypeError(f"{type(self).__name__} has no tastes")

    def program(self) -> Program | None:
        """The kernel that computes `taste_parts` and their lists, for models that `splits_scores`."""
        return None

    # ---- parameters, as in scikit-learn --------------------------------------------------------------------

    __signature__ = _ConstructorSignature()

    if not TYPE_CHECKING:  # type checkers and editors read the signature of __init__

        def __new__(cls, *args: Any, **parameters: Any) -> Any:
            """Refuse unknown keyword arguments with an error that names the nearest one."""
            if parameters:
                cls._require_parameters(parameters)
            return super().__new__(cls)

    @classmethod
    def _parameter_names(cls) -> list[str]:
        parameters = inspect.signature(cls).parameters.values()
        return [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @classmethod
    def _require_parameters(cls, given: Iterable[str]) -> None:
        """Raise unless every given name is one of the parameters; the message names the nearest one."""
        known = cls._parameter_names()
        for name in given:
            if name in cls._fixed_parameters and name not in known:
                raise ParameterError(f"{cls.__name__} has no parameter {name!r}: {cls._fixed_parameters[name]}")
            if name not in known:
                raise ParameterError(
                    f"{cls.__name__} has no parameter {name!r}; it has {', '.join(known) or 'none'}."
                    + nearest(name, known)
                )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters and their values.

        With ``deep``, also the parameters of a model that is itself a parameter: ``model__dim`` is the ``dim`` of the
        parameter ``model``.
        """
        found = {name: getattr(self, name) for name in self._parameter_names()}
        for name, value in list(found.items()) if deep else ():
            if isinstance(value, Recommender):
                found.update({f"{name}__{inner}": one for inner, one in value.get_params().items()})
        return found

    def set_params(self: Self, **parameters: Any) -> Self:
        """Change parameters, ``model__dim=8`` those of a nested model; unknown names are an error.

        >>> from tastespace.models import EASE
        >>> EASE().set_params(regularization=50.0)
        EASE(regularization=50.0)
        """
        own: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            outer, is_nested, inner = name.partition("__")
            if is_nested:
                nested.setdefault(outer, {})[inner] = value
            else:
                own[name] = value
        self._require_parameters([*own, *nested])
        for name, inner_values in nested.items():
            value = own.get(name, getattr(self, name))
            if not isinstance(value, Recommender):
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name}__{next(iter(inner_values))}: {name}={value!r} is "
                    "not a model."
                )
        for name, value in own.items():
            setattr(self, name, value)
        for name, inner_values in nested.items():  # after their models, which may be new
            getattr(self, name).set_params(**inner_values)
        self._check()
        return self

    def clone(self: Self) -> Self:
        """A new, unfitted model with the same parameters; models that are parameters are cloned too."""
        parameters = self.get_params(deep=False)
        return type(self)(**{name: _copied(value) for name, value in parameters.items()})

    def __sklearn_tags__(self) -> Any:
        """Tags that scikit-learn reads before a search, see `tastespace.adapters.sklearn`."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def as_chosen(self: Self) -> Self:
        """An unfitted copy of a fitted model with what validation data chose, such as the number of epochs.

        For a second fit, to all of the data.
        """
        return self.clone()

    @property
    def is_fitted(self) -> bool:
        """True if `fit` has been called."""
        return hasattr(self, "train_")

    def require_fitted(self) -> None:
        """Raise `NotFittedError` unless the model was fitted, `ModelChangedError` where its files were changed."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(train) first.")
        for file in self._mapped_files:
            file.require_unchanged()

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        parameters = self.get_params(deep=False).items()
        changed = [f"{name}={value!r}" for name, value in parameters if repr(value) != repr(defaults[name].default)]
        return f"{type(self).__name__}({', '.join(changed)})"


def _copied(value: Any) -> Any:
    """A copy of a parameter; models in it, alone or in a list, are cloned."""
    if isinstance(value, Recommender):
        return value.clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(one) for one in value)
    return copy.deepcopy(value)


def _training_data(train: Any, valid: Any, columns: TableArguments) -> tuple[Interactions, Interactions | None]:
    """Training and validation data of any accepted kind, over the same users and items where they were frames."""
    kind = _kind("fit", "train", train)
    if valid is not None and _kind("fit", "valid", valid) != kind:
        raise DataError(f"valid is {_kind('fit', 'valid', valid)}, train is {kind}: give both as the same kind.")
    data = interactions_from("fit", train, columns, "train", _ROLES)
    if valid is None:
        return data, None
    about_rows = {name: value for name, value in columns.items() if name in ColumnArguments.__annotations__}
    held_out = interactions_from("fit", valid, cast(TableArguments, about_rows), "valid", _ROLES, part=True)
    if kind not in (_FRAME, _FILE):
        return data, held_out
    whole = concat(data, held_out)
    return _with_ids(data, whole.users, whole.items), _with_ids(held_out, whole.users, whole.items)


def _kind(function: str, name: str, data: Any) -> str:
    if isinstance(data, Interactions):
        return "Interactions"
    if sp.issparse(data):
        return "a sparse matrix"
    if isinstance(data, (str, Path)):
        return _FILE
    import narwhals as nw  # imported here: not needed for Interactions and matrices

    if isinstance(nw.from_native(data, pass_through=True), (nw.DataFrame, nw.LazyFrame)):
        return _FRAME
    raise DataError(
        f"{function} expects {name} to be Interactions, a frame with the columns user and item, a file, or a SciPy CSR "
        f"matrix; given {type(data).__name__}."
    )


def _from_sparse(matrix: Any) -> Interactions:
    values = sp.csr_array(matrix).data
    return Interactions.from_scipy(matrix, weight=bool(((values != 0) & (values != 1)).any()))


def _with_ids(data: Interactions, users: IdMap, items: IdMap) -> Interactions:
    """The same interactions over larger sets of ids; all ids are sorted, so the interactions keep their order."""
    counts = np.zeros(len(users), dtype=np.int64)
    counts[users.index_of(data.users.series)] = data.user_counts
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = items.index_of(data.items.series)[data.indices].astype(np.int32)
    return replace(data, users=users, items=items, offsets=offsets, indices=indices)


def interactions_from(
    function: str,
    data: Any,
    options: TableArguments | ColumnArguments,
    name: str = "data",
    read: Collection[str] = (),
    part: bool = False,
    accepted: type = TableArguments,
) -> Interactions:
    """Return ``data`` as `Interactions`; ``options`` are those of a frame or file.

    Args:
        function: Name of the function that was called, for messages.
        data: `Interactions`, a frame of any library, a file or address, or a SciPy matrix.
        options: Columns and filters of a frame or file.
        name: Name of the argument, for messages.
        read: Roles whose columns are read where a frame has a column of that name, such as ``weight``.
        part: One user or item is enough.
        accepted: The dictionary type of the options that the function takes.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"who": ["ann", "bob"], "what": ["tea", "jam"]})
    >>> interactions_from("fit", frame, {"user": "who", "item": "what"}).n_users
    2
    """
    kind = _kind(function, name, data)
    if kind == _FRAME:
        require_arguments(function, accepted, options, takes="of a frame it takes")
        return _from_frame(function, data, dict(options), name, read, part)
    if kind == _FILE:
        require_arguments(function, FileArguments, options, takes="of a file it takes")
        return Interactions.from_file(data, **({"part": True} if part else {}) | dict(options))  # type: ignore[arg-type]
    for option, given in options.items():
        if option not in ("user", "item") or given != option:
            raise ParameterError(f"{option}= is for a frame, but {name} is {kind} already. Leave it out.")
    return data if isinstance(data, Interactions) else _from_sparse(data)


def _from_frame(
    function: str, frame: Any, options: dict[str, Any], name: str, read: Collection[str], part: bool
) -> Interactions:
    from tastespace.data.reading.tables import FrameTable

    columns = FrameTable(frame).columns
    for role in ("user", "item"):
        column = options.get(role, role)
        if column not in columns:
            raise DataError(
                f"{function} was given {name} as a frame without the column {column!r}; its columns are "
                f"{', '.join(map(repr, columns))}.{nearest(column, columns)} Name the columns: "
                f"{function}(..., user=..., item=...)."
            )
    for role in read:
        if role in columns:
            options.setdefault(role, role)
    if part:
        options.setdefault("part", True)
    return Interactions.from_frame(frame, **options)
