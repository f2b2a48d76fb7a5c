"""Ctrl-C and limits of time: long calls that cannot be stopped are waited for in a way that can, and a step of a
larger task ends that.

Python handles signals in the main thread, between two of its own instructions: a call into LAPACK, SciPy or polars that
takes minutes would delay Ctrl-C by as long. Kernels that learn ask `check_time` a few times a second.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from tastespace import _native
from tastespace.errors import TimeLimitError

Result = TypeVar("Result")

_LOOK_EVERY = 0.1  # seconds

_ends_task: contextvars.ContextVar[bool] = contextvars.ContextVar("_ends_task", default=False)


@contextlib.contextmanager
def interrupts_end_task() -> Iterator[None]:
    """Within this block Ctrl-C in a training ends the whole task by KeyboardInterrupt.

    A training that the user has started stops and leaves a usable model. As a step of something larger (a blend, a
    comparison, a command) it must not: the next step would begin as if nothing had happened.
    """
    token = _ends_task.set(True)
    try:
        yield
    finally:
        _ends_task.reset(token)


@contextlib.contextmanager
def interrupts_end_step() -> Iterator[None]:
    """Within this block, in a larger task, Ctrl-C in a training ends the training alone: its caller knows of it."""
    token = _ends_task.set(False)
    try:
        yield
    finally:
        _ends_task.reset(token)


def interrupt_ends_task() -> bool:
    """Return whether Ctrl-C in a training ends more than this training."""
    return _ends_task.get()


# ---------------------------------------------------------------------------------------------------------------------
# Limits of time.

_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("_deadline", default=None)
_is_left: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("_is_left", default=None)


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Within this block learning that takes longer than ``seconds`` raises `TimeLimitError`; None: no limit.

    Of limits within each other the shorter one counts. Kernels that learn stop within a fraction of a second; calls
    into LAPACK and SciPy are left alone in their thread.

    >>> from tastespace import synthetic
    >>> from tastespace.models import SparseEASE
    >>> town = synthetic.multi_interest(n_users=600, n_items=2000, n_interactions=40_000).interactions
    >>> with time_limit(0.001):
    ...     SparseEASE().fit(town)
    Traceback (most recent call last):
    tastespace.errors.TimeLimitError: stopped: the limit of time was over.
    """
    before = _deadline.get()
    own = None if seconds is None else time.monotonic() + seconds
    token = _deadline.set(min((one for one in (before, own) if one is not None), default=None))
    try:
        yield
    finally:
        _deadline.reset(token)


def time_check() -> Callable[[], None]:
    """Return a function that raises `TimeLimitError` once the limit of this moment's `time_limit` is over.

    It raises too where the caller of `interruptible` does not wait any more. Threads of a pool, which do not know the
    context of their task, can call it.
    """
    deadline, is_left = _deadline.get(), _is_left.get()

    def check() -> None:
        if (is_left is not None and is_left.is_set()) or (deadline is not None and time.monotonic() > deadline):
            raise TimeLimitError("stopped: the limit of time was over.")

    return check


def check_time() -> None:
    """Raise `TimeLimitError` if the limit of time is over, see `time_limit`."""
    time_check()()


_native.set_interrupt_check(check_time)


def interruptible(function: Callable[[], Result]) -> Result:
    """The result of a function that runs in a thread, so that Ctrl-C and a `time_limit` need not wait for its end.

    Afterwards the thread is left alone, and kernels that learn stop in it: the function must change nothing that is
    used then. Outside of the main thread, which alone gets Ctrl-C, the function is simply called.

    >>> interruptible(lambda: 6 * 7)
    42
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    results: list[Result] = []
    problems: list[BaseException] = []
    context, is_left, check = contextvars.copy_context(), threading.Event(), time_check()
    context.run(_is_left.set, is_left)

    def work() -> None:
        try:
            results.append(context.run(function))
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work, name="tastespace", daemon=True)
    thread.start()
    try:
        while thread.is_alive():  # the system may give the signal to another thread, which does not end a wait
            thread.join(_LOOK_EVERY)
            if thread.is_alive():
                check()
    except BaseException:
        is_left.set()
        raise
    if problems:
        raise problems[0]
    return results[0]
