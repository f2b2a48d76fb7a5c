"""Answers of fitted models: top-k lists, shelves, explanations, neighbors, fold-in, re-ranking, vector export."""
