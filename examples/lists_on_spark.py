"""Lists for a table of users on Spark: `mapInPandas`, or `mapInArrow` with --arrow.

spark-submit examples/lists_on_spark.py shop.model users/ lists/ --items recent_items

``users/`` holds Parquet files with a column ``user`` and, for users who were not in training, a column of lists of
items.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from tastespace.cluster import BatchAnswers


def write_lists(spark: SparkSession, answers: BatchAnswers, users: str, out: str, arrow: bool = False) -> None:
    frame = spark.read.parquet(users)
    apply = frame.mapInArrow if arrow else frame.mapInPandas
    apply(answers.over, answers.spark_schema()).write.parquet(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "users", "out"):
        parser.add_argument(name)
    parser.add_argument("--items", help="column of the items that a new user has taken")
    parser.add_argument("--arrow", action="store_true")
    parser.add_argument("-k", type=int, default=10)
    given = parser.parse_args()
    answers = BatchAnswers(given.model, k=given.k, items=given.items)
    write_lists(SparkSession.builder.getOrCreate(), answers, given.users, given.out, given.arrow)


if __name__ == "__main__":
    main()
