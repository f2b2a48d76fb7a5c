"""Rules of a shop for lists: stock, limits per brand, pinned items, filters."""

from tastespace.recommend.rules.rules import Rules

__all__ = ["Rules"]
