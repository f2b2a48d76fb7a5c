"""Lists for a table of users on Ray Data: `map_batches`.

python examples/lists_on_ray.py shop.model users/ lists/ --items recent_items

``users/`` holds Parquet files with a column ``user`` and, for users who were not in training, a column of lists of
items.
"""

from __future__ import annotations

import argparse

import ray

from tastespace.cluster import BatchAnswers


def write_lists(answers: BatchAnswers, users: str, out: str) -> None:
    ray.data.read_parquet(users).map_batches(answers.__call__, batch_format="pandas").write_parquet(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "users", "out"):
        parser.add_argument(name)
    parser.add_argument("--items", help="column of the items that a new user has taken")
    parser.add_argument("-k", type=int, default=10)
    given = parser.parse_args()
    write_lists(BatchAnswers(given.model, k=given.k, items=given.items), given.users, given.out)


if __name__ == "__main__":
    main()
