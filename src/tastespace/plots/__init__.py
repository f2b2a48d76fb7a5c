"""Pictures, with the `plots` extra (matplotlib)."""

from tastespace.plots.shelves_plot import draw_shelves
from tastespace.plots.taste_map_plot import taste_map
from tastespace.plots.tradeoff_plot import draw_tradeoff

__all__ = ["draw_shelves", "draw_tradeoff", "taste_map"]
