"""Linear item-item models in closed form: EASE, SparseEASE and Spectral."""
