"""The paper's experiments: methods by name, runs, tables, claims and figures, and the search for parameters.

Nothing else in the library imports this package; the commands `run`, `tune` and `paper` load it when they run.
"""

from tastespace.paper.methods import Method, find_method, method_names
from tastespace.paper.runs import run

__all__ = ["Method", "find_method", "method_names", "run"]
