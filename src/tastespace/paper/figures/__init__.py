"""The paper's figures and two of our own, each a small declaration and a function that draws it."""

from tastespace.paper.figures.declaration import Material, NothingToDrawError, Picture
from tastespace.paper.figures.index import FIGURES, find_figure

__all__ = ["FIGURES", "Material", "NothingToDrawError", "Picture", "find_figure"]
