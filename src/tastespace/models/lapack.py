"""Cholesky and inversion by LAPACK without Python's global lock, so that Ctrl-C is handled while they run.

SciPy's own wrappers hold the lock for the whole call, which may take minutes. The same routines, with the same results,
are called through the addresses that SciPy gives to Cython.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg.cython_lapack
from numpy.typing import NDArray


def inverse_in_place(matrix: NDArray[np.float64]) -> int:
    """Replace the lower triangle of a symmetric, positive definite matrix by that of its inverse.

    The matrix is square, in column order. Gives LAPACK's code: 0, or the row in which it failed.

    >>> matrix = np.asfortranarray(np.diag([4.0, 16.0]))
    >>> inverse_in_place(matrix), matrix.diagonal().tolist()
    (0, [0.25, 0.0625])
    """
    assert matrix.dtype == np.float64
    assert matrix.flags.f_contiguous
    n, failed = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    for routine in ("dpotrf", "dpotri"):
        _routine(routine)(b"L", ctypes.byref(n), matrix.ctypes.data, ctypes.byref(n), ctypes.byref(failed))
        if failed.value:
            break
    return failed.value


@cache
def _routine(name: str) -> Callable[..., None]:
    """``name(uplo, n, a, lda, info)``; ctypes releases the lock during the call."""
    whole = ctypes.POINTER(ctypes.c_int)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, whole, ctypes.c_void_p, whole, whole)
    return kind(capsule_address(scipy.linalg.cython_lapack, name))


def capsule_address(module: Any, name: str) -> int:
    """The address of a routine of BLAS or LAPACK that a module of SciPy gives to Cython."""
    capsule = module.__pyx_capi__[name]
    name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(address_of(capsule, name_of(capsule)))
