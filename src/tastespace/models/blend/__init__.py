"""A recommender that mixes the scores of others: `Blend`."""

from tastespace.models.blend.model import Blend

__all__ = ["Blend"]
