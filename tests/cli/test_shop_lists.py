"""`tastespace popular`, `together`, `next` and `recommend --after`."""

import json
import re

from tastespace.store import load


def test_lists_are_those_of_the_model(run, shop):
    model = load(shop.model)
    for words, found in (
        (("popular", shop.model, "-k", 4, "--filter", "year > 1990"), model.popular_items(4, filter="year > 1990")),
        (("together", shop.model, "i07", "i09", "-k", 3), model.taken_together(["i07", "i09"], 3)),
        (("next", shop.model, "i07", "i09", "-k", 3), model.next_items(["i07", "i09"], 3)),
    ):
        done = run(*words, "--format", "json")
        assert done.code == 0, done.err
        assert [list(row.values())[:2] for row in json.loads(done.out)] == [list(row[:2]) for row in found.rows()]
    assert "no. " in run("next", shop.model, "i07", "--format", "table").out  # titles
    done = run("popular", shop.model, "--trending")
    assert done.code == 2
    assert "fit it with --timestamp" in done.err or "fit it with timestamp=" in done.err


def test_pages(run, shop):
    whole = [row["item"] for row in json.loads(run("recommend", shop.model, "u03", "-k", 9, "--format", "json").out)]
    after, shown = "", []
    for _ in range(3):
        done = run("recommend", shop.model, "u03", "-k", 3, "--after", after, "--format", "json")
        assert done.code == 0, done.err
        shown += [row["item"] for row in json.loads(done.out)]
        after = re.search(r"next page: --after (\S+)", done.err)[1]
    assert shown == whole
    assert "is no token of a page" in run("recommend", shop.model, "u03", "--after", "x").err
    assert "--after is for one user" in run("recommend", shop.model, "--after", "").err
