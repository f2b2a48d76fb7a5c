"""The default recipe: from a table to a fitted model, chosen on held-out data within a budget of time.

`fit` tries linear, factorization and metric models with one and with several vectors per user, blends the best of each
family with weights chosen on held-out interactions, decides how much more weight smaller interests get, and fits the
result to all of the data.
"""

from tastespace.recipe._recipe import check_arguments, fit
from tastespace.recipe.report import RecipeReport

__all__ = ["RecipeReport", "check_arguments", "fit"]
