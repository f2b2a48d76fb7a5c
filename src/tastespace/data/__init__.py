"""Tables in, `Interactions` out: reading, filters, splits, named data sets, synthetic data sets."""

from types import ModuleType
from typing import TYPE_CHECKING

from tastespace.data import split, synthetic
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Cleaning, Interactions
from tastespace.data.reading.options import ReadOptions

if TYPE_CHECKING:
    from tastespace.data import datasets

__all__ = ["Cleaning", "IdMap", "Interactions", "ReadOptions", "datasets", "split", "synthetic"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        if name != "datasets":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module("tastespace.data.datasets")  # when it is used: it brings what downloads need
