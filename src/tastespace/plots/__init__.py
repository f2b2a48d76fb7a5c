"""Pictures, with the `plots` extra (matplotlib)."""

from tastespace.plots.shelves_plot import draw_shelves
from tastespace.plots.taste_map_plot import taste_map

__all__ = ["draw_shelves", "taste_map"]
