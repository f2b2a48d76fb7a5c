"""Pictures, with the `plots` extra (matplotlib)."""

from tastespace.plots._shelves import draw_shelves
from tastespace.plots._taste_map import taste_map
from tastespace.plots._tradeoff import draw_tradeoff

__all__ = ["draw_shelves", "draw_tradeoff", "taste_map"]
