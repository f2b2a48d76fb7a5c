"""Pictures, with the `plots` extra (matplotlib)."""

from tastespace.plots.people import draw_shelves, taste_map

__all__ = ["draw_shelves", "taste_map"]
