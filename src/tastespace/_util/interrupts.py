"""Ctrl-C: long calls that cannot be stopped are waited for in a way that can, and a step of a larger task ends that.

Python handles signals in the main thread, between two of its own instructions: a call into LAPACK, SciPy or polars that
takes minutes would delay Ctrl-C by as long.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

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


def interrupt_ends_task() -> bool:
    """Return whether Ctrl-C in a training ends more than this training."""
    return _ends_task.get()


def interruptible(function: Callable[[], Result]) -> Result:
    """The result of a function that runs in a thread, so that Ctrl-C need not wait for its end.

    After Ctrl-C the thread is left alone: the function must change nothing that is used afterwards. Outside of the main
    thread, which alone gets Ctrl-C, the function is simply called.

    >>> interruptible(lambda: 6 * 7)
    42
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    results: list[Result] = []
    problems: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            results.append(context.run(function))
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work, name="tastespace", daemon=True)
    thread.start()
    while thread.is_alive():  # the system may give the signal to another thread, which does not end a wait
        thread.join(_LOOK_EVERY)
    if problems:
        raise problems[0]
    return results[0]
