import gc
import os
import threading
import time

import numpy as np
import polars as pl
import pytest

from tastespace._util import computed_once as module
from tastespace._util.computed_once import computed_once, freeze, is_frozen


def test_frozen_arrays_are_read_only():
    array = np.arange(12.0)
    freeze(array)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 7.0
    view = array.reshape(3, 4)
    freeze(view)
    assert is_frozen(array)
    assert is_frozen(view)


def test_nothing_is_kept_for_a_view_that_others_may_write_through():
    whole = np.arange(12.0)
    view = whole[4:]
    freeze(view)
    assert not is_frozen(view)
    assert computed_once(view, "sum", lambda: view.sum()) == 60
    whole[4] = 100.0
    assert computed_once(view, "sum", lambda: view.sum()) == 156


def test_values_are_computed_once_for_each_array_and_key():
    array, calls = np.arange(3), []
    for _ in range(2):  # what can change is computed each time
        computed_once(array, "sum", lambda: calls.append(1))
    assert len(calls) == 2
    freeze(array)
    other = np.arange(3)
    freeze(other)
    for _ in range(2):
        computed_once(array, "sum", lambda: calls.append(1))
        computed_once(array, "mean", lambda: calls.append(1))
        computed_once(other, "sum", lambda: calls.append(1))
    assert len(calls) == 5


def test_an_array_that_was_writable_in_between_is_computed_again():
    array = np.arange(3)
    freeze(array)
    assert computed_once(array, "sum", lambda: array.sum()) == 3
    array.flags.writeable = True
    array[0] = 10
    assert not is_frozen(array)
    assert computed_once(array, "sum", lambda: array.sum()) == 13
    freeze(array)
    assert computed_once(array, "sum", lambda: array.sum()) == 13


def test_what_is_kept_goes_with_its_source():
    gc.collect()
    before = len(module._values)
    array, frame = np.arange(3), pl.DataFrame({"a": [1]})
    freeze(array)
    computed_once(array, "list", lambda: [1])
    assert computed_once(frame, "width", lambda: [1]) is computed_once(frame, "width", lambda: None)
    assert len(module._values) == before + 2
    del array, frame
    gc.collect()
    assert len(module._values) == before


def test_threads_share_one_value():
    array, calls, found = np.arange(3), [], []
    freeze(array)

    def make():
        calls.append(1)
        time.sleep(0.02)
        return object()

    threads = [threading.Thread(target=lambda: found.append(computed_once(array, "slow", make))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    array = np.arange(3)
    freeze(array)
    holds, done = threading.Event(), threading.Event()

    def make():
        holds.set()
        done.wait(60)

    thread = threading.Thread(target=lambda: computed_once(array, "slow", make))
    thread.start()
    assert holds.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            answers = []
            asked = threading.Thread(
                target=lambda: answers.append(computed_once(array, "sum", lambda: int(array.sum()))), daemon=True
            )
            asked.start()
            asked.join(60)
            code = 0 if answers == [3] else 1
        finally:
            os._exit(code)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
