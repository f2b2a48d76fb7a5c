"""The models that tests of lists use, too."""

from tests.recommend.conftest import cml, dpcml, ease, popular, shop, shop_frames

__all__ = ["cml", "dpcml", "ease", "popular", "shop", "shop_frames"]
