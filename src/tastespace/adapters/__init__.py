"""Adapters to other libraries: models for their tools, and their data as `Interactions`.

One module for each: `lenskit`, `rectools`, `sklearn`, `mlflow`, `surprise`, `implicit`. Each needs the package that it
is for, and says so where that is missing.
"""
