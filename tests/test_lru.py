"""The bounded cache: eviction of what was used least recently, and threads that share it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tastespace._util.lru import LruCache


def test_the_least_recently_used_makes_room():
    cache = LruCache(3)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.get("a") == "A"  # used: b is the oldest now
    cache.put("c", "new")  # replaced, which evicts nothing
    cache.put("d", "D")
    assert [cache.get(key) for key in "abcd"] == ["A", None, "new", "D"]
    assert len(cache) == 3


def test_a_value_is_made_once_and_an_error_is_not_kept():
    cache, made = LruCache(2), []

    def make():
        made.append(1)
        if len(made) == 1:
            raise ValueError("first")
        return len(made)

    with pytest.raises(ValueError, match="first"):
        cache.get_or_make("a", make)
    assert [cache.get_or_make("a", make) for _ in range(3)] == [2, 2, 2]


def test_threads_share_one():
    cache = LruCache(16)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: cache.get_or_make(n % 40, lambda: n % 40 + 1), range(4000)))
    assert found == [n % 40 + 1 for n in range(4000)]
    assert len(cache) == 16
