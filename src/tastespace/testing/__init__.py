"""For authors of recommenders: one set of tests that every model of this library passes.

Subclass `RecommenderConformance` in a file of your test suite and say how to make your model; pytest does the rest::

    from tastespace.testing import RecommenderConformance

    class TestMine(RecommenderConformance):
        def make(self):
            return Mine(epochs=3)
"""

from tastespace.testing.conformance import RecommenderConformance

__all__ = ["RecommenderConformance"]
