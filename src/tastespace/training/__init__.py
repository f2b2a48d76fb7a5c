"""What trained models share: assignment of vectors, samplers, the epoch loop, checkpoints, progress."""
