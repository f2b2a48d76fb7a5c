"""The paper's experiments: its methods by name, runs, and the search for their parameters."""

from tastespace.paper.methods import Method, find_method, method_names
from tastespace.paper.runs import run

__all__ = ["Method", "find_method", "method_names", "run"]
