"""Types of the compiled kernels. Arrays must be C-contiguous and of exactly the type given."""

import numpy as np
from numpy.typing import NDArray

SIMD: str
"""The twin in use: ``"generic"``, ``"v3"`` or ``"v4"``."""

def best_twin() -> str: ...
def factorize(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(ids, codes)``: the distinct values in ascending order and each value's place among them."""

def build_csr(
    rows: NDArray[np.int32], columns: NDArray[np.int32], n_rows: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(offsets, columns)`` of the distinct pairs, columns ascending within a row."""

def build_csr_with_sources(
    rows: NDArray[np.int32], columns: NDArray[np.int32], n_rows: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """As `build_csr`, with ``(sources, starts)``: cell ``c`` was built from the input positions
    ``sources[starts[c]:starts[c + 1]]``, ascending."""
