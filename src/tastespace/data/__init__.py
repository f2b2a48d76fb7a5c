"""Tables in, `Interactions` out: reading, filters, splits, named data sets, synthetic data sets."""

from tastespace.data import datasets, split, synthetic
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Cleaning, Interactions

__all__ = ["Cleaning", "IdMap", "Interactions", "datasets", "split", "synthetic"]
