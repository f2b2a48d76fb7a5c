"""Feedback that people have given since the model was fitted: kept durably, and learned from later."""
