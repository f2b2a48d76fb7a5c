"""Training and lists on more than one process or machine.

A round of training is a plain function from files to files (`rounds`), which a Dask cluster or processes of one machine
call (`executors`). `batch_answers` has a function for lists in Dask, Spark and Ray.
"""

from tastespace.cluster.answers import BatchAnswers
from tastespace.cluster.fit import (
    ClusterOptions,
    fit_files,
    fit_on_cluster,
    lists_on_cluster,
)

__all__ = ["BatchAnswers", "ClusterOptions", "fit_files", "fit_on_cluster", "lists_on_cluster"]
