"""Lists for a table of users on a Dask cluster: `map_partitions`.

python examples/lists_on_dask.py shop.model users/ lists/ --scheduler tcp://scheduler:8786 --items recent_items

``users/`` holds Parquet files with a column ``user`` and, for users who were not in training, a column of lists of
items.
"""

from __future__ import annotations

import argparse

import dask.dataframe as dd
import pandas as pd
from distributed import Client

from tastespace.cluster import BatchAnswers


def write_lists(answers: BatchAnswers, users: str, out: str) -> None:
    meta = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in answers.schema().items()})
    dd.read_parquet(users).map_partitions(answers, meta=meta).to_parquet(out, write_index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "users", "out"):
        parser.add_argument(name)
    parser.add_argument("--scheduler", help="its address; without one Dask starts workers here")
    parser.add_argument("--items", help="column of the items that a new user has taken")
    parser.add_argument("-k", type=int, default=10)
    given = parser.parse_args()
    with Client(given.scheduler):
        write_lists(BatchAnswers(given.model, k=given.k, items=given.items), given.users, given.out)


if __name__ == "__main__":
    main()
