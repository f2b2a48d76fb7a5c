"""Synthetic data sets whose ground truth is known.

`multi_interest` plants categories of unequal weight in each user. `shop` is closer to a real shop: tastes have
structure inside, categories are coarse and partly wrong, and the taste behind each interaction is known.
"""

from tastespace.data._shop import ShopData, shop
from tastespace.data._town import SyntheticData, multi_interest

__all__ = ["ShopData", "SyntheticData", "multi_interest", "shop"]
