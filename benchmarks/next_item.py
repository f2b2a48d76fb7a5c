"""The next item of a session against the plain list, on the last tenth of the interactions by time.

    python benchmarks/next_item.py [--data NAME ...] [--events N]

A model is fitted to the first nine tenths of all published interactions. Then it is asked for ten items before each of
N interactions of the last tenth, drawn at random: with all that the user took until then, in order. The plain list is
the model's own for these items; the other two are `model.next_items` and that without times in the training data. Items
of the user are left out, and interactions with items that are not in the training data are not asked for. HR@10 is the
share of the interactions whose item is among the ten, MRR@10 the mean of one over its rank.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

import tastespace as ts
from tastespace.recommend.together import next_scores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=("ml-100k", "ml-1m"))
    parser.add_argument("--events", type=int, default=4_000)
    arguments = parser.parse_args()
    print("| data | interactions asked for | list | HR@10 | MRR@10 |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.data:
        data = ts.datasets.load(name, view="raw").without_weights()
        is_old = data.timestamps <= np.quantile(data.timestamps, 0.9)
        train = data.subset(is_old)
        model = ts.EASE().fit(train)
        timeless = ts.EASE().fit(replace(train, timestamps=None))
        lists = {
            "plain": lambda session, model=model: plain(model, session),
            "next_items, no times": lambda session, model=timeless: next_scores(model, session),
            "next_items": lambda session, model=model: next_scores(model, session),
        }
        asked = questions(data, is_old, arguments.events)
        for label, scores_of in lists.items():
            ranks = np.array(
                [rank(scores_of(session), session, item, train.item_counts > 0) for session, item in asked]
            )
            found = ranks < 10
            print(f"| {name} | {len(asked):,} | {label} | {found.mean():.4f} | {(found / (ranks + 1)).mean():.4f} |")


def questions(data, is_old, n):
    """Sessions, as rows of items in the order of time, and the item that comes next."""
    known = np.bincount(data.indices[is_old], minlength=data.n_items) > 0
    order = np.lexsort((data.timestamps, data.row_of_each()))
    items, late = data.indices[order], ~is_old[order]
    places = np.flatnonzero(late & known[items] & (np.arange(len(items)) > data.offsets[:-1][data.row_of_each()]))
    chosen = np.random.default_rng(0).permutation(places)[:n]
    first = data.offsets[:-1][data.row_of_each()[chosen]]
    sessions = [items[start:place] for start, place in zip(first, chosen, strict=True)]
    return [(one[known[one]], items[place]) for one, place in zip(sessions, chosen, strict=True) if known[one].any()]


def plain(model, session):
    row = sp.csr_array((np.ones(len(session), dtype=np.float32), session, [0, len(session)]), (1, model.train_.n_items))
    return model.history_scores(row)[0]


def rank(scores, session, item, known):
    """The number of other items before this one; ties count half."""
    allowed = known.copy()
    allowed[session] = False
    others = np.asarray(scores)[allowed]
    return (others > scores[item]).sum() + ((others == scores[item]).sum() - 1) / 2


if __name__ == "__main__":
    main()
