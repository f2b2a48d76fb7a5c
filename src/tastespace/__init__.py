"""Recommendations for people with more than one taste.

A user is a small set of points, an item is one point, and a smaller distance means a stronger preference.
"""

import logging
from importlib.metadata import version

from tastespace.data import Interactions, split, synthetic

__version__ = version("tastespace")
__all__ = ["Interactions", "__version__", "split", "synthetic"]

# The library never prints; whoever wants to hear it configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())
