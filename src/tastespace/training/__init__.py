"""Training that models share: assignment of vectors, samplers, the epoch loop, checkpoints, progress."""
