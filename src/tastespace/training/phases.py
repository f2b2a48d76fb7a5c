"""Phases of a DPCML run: epochs with one vector per user, then with all of them and a temperature that falls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phases:
    """Number of epochs of each phase, and the temperature of the smooth minimum in the second.

    >>> phases = Phases(epochs=5, one_vector_epochs=2, temperature=0.4, temperature_end=0.1)
    >>> [phases.has_one_vector(epoch) for epoch in range(5)]
    [True, True, False, False, False]
    >>> [round(phases.temperature_at(epoch), 3) for epoch in range(5)]
    [0.0, 0.0, 0.4, 0.2, 0.1]
    """

    epochs: int
    """Of both phases."""
    one_vector_epochs: int = 0
    """Epochs of the first phase; 0: there is none."""
    temperature: float = 0.0
    """Of the first epoch of the second phase, in units of distance; 0: the minimum itself, throughout."""
    temperature_end: float = 0.0
    """Of the last epoch."""

    def has_one_vector(self, epoch: int) -> bool:
        """Return True if this epoch, counted from 0, belongs to the first phase."""
        return bool(epoch < self.one_vector_epochs)  # parameters may be numbers of NumPy

    def splits_before(self, epoch: int) -> bool:
        """Return True if users get their several vectors before this epoch."""
        return epoch == self.one_vector_epochs > 0

    def temperature_at(self, epoch: int) -> float:
        """Temperature of an epoch: it falls by the same factor from epoch to epoch; 0 in the first phase."""
        if self.temperature == 0 or self.has_one_vector(epoch):
            return 0.0
        n = self.epochs - self.one_vector_epochs
        done = (epoch - self.one_vector_epochs) / (n - 1) if n > 1 else 1.0
        return self.temperature * (self.temperature_end / self.temperature) ** done

    def number_within(self, epoch: int) -> int:
        """Number of an epoch within its phase, counted from 1."""
        return epoch + 1 - (0 if self.has_one_vector(epoch) else self.one_vector_epochs)

    @property
    def least_epochs(self) -> int:
        """Epochs before which a lack of improvement does not end the training.

        The vectors of a user part when the temperature is low: a run that ends before the middle of the second phase
        has not seen what they give.
        """
        if self.one_vector_epochs == 0 and self.temperature == 0:
            return 0
        return (self.one_vector_epochs + self.epochs) // 2
