"""Search for a model's parameters on held-out data: spaces, proposals, trials and results.

`tune` searches any model on any data; the paper's methods are searched by the same loop (`tastespace.paper`).
"""

from tastespace.tuning._results import Params, TuneResult, read_params, write_params
from tastespace.tuning.search import tune
from tastespace.tuning.spaces import Space, space_of_model

__all__ = ["Params", "Space", "TuneResult", "read_params", "space_of_model", "tune", "write_params"]
