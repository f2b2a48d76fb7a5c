"""Tastes: groups of a user's past items, and scores split by them."""

from tastespace.tastes.grouping import Tastes, carried_over, directions, group_tastes
from tastespace.tastes.parts import TasteParts

__all__ = ["TasteParts", "Tastes", "carried_over", "directions", "group_tastes"]
