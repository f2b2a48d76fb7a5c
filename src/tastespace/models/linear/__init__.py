"""Linear item-item models in closed form: EASE and SparseEASE."""
