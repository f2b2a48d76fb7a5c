"""Our models in the tools of others, and data of others as ours.

One module for each: `lenskit`, `rectools`, `sklearn`, `mlflow`, `surprise`,
`implicit_data`. Each needs the package that it is for, and says so where that is missing.
"""
