"""Inverse of a large symmetric matrix, in place, in single or double precision, with all cores."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

# ---------------------------------------------------------------------------------------------------------------------
# Cholesky and inversion by LAPACK without Python's global lock, so that Ctrl-C is handled while they run.
#
# SciPy's own wrappers hold the lock for the whole call, which may take minutes. The same routines, with the same
# results, are called through the addresses that SciPy gives to Cython.


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
        _lapack_routine(routine)(b"L", ctypes.byref(n), matrix.ctypes.data, ctypes.byref(n), ctypes.byref(failed))
        if failed.value:
            break
    return failed.value


@cache
def _lapack_routine(name: str) -> Callable[..., None]:
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


# ---------------------------------------------------------------------------------------------------------------------
# The inverse of a large symmetric matrix, in place, in single or double precision, with all cores.
#
# The threaded Cholesky decomposition of OpenBLAS 0.3.30 and 0.3.31 crashes from about 16,000 rows on. Here the matrix
# is inverted block by block (the sweep operator of Gauss and Jordan), which is n^3 operations as well, nearly all of
# them in matrix products of one thread each; threads take the next product when they are done. So the result does not
# depend on their number, and a thread that another program holds up delays the others by one product.

Floats = TypeVar("Floats", np.float32, np.float64)
_BLOCK = 256  # rows that are eliminated at once; the products with the pivot take 2 n^2 times this number
_TILE = 1024  # columns of one product
_CORNER = 256  # columns of one product at the diagonal: what it computes above the diagonal is of no use


def blocked_inverse(matrix: NDArray[Floats], threads: int, block: int = _BLOCK) -> int:
    """Replace the lower triangle of a symmetric, positive definite matrix by that of its inverse.

    The matrix is square, in column order; what is above the diagonal means nothing before and after. Gives 0, or the
    row (from 1) in which it was found not to be positive definite.

    >>> matrix = np.asfortranarray(np.diag([4.0, 16.0, 2.0]).astype(np.float32))
    >>> blocked_inverse(matrix, threads=1, block=2), matrix.diagonal().tolist()
    (0, [0.25, 0.0625, 0.5])
    """
    assert matrix.flags.f_contiguous
    first: int
    n: int = len(matrix)
    column = np.empty((n, min(n, block)), dtype=matrix.dtype, order="F")
    product = np.empty_like(column)
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for first in range(0, n, block):
            last: int = min(n, first + block)
            pivot: NDArray[Any]
            failed, pivot = _inverse_of_pivot(matrix[first:last, first:last])
            if failed:
                return first + failed
            tiles = [*_parts(0, first, _TILE), *_parts(last, n, _TILE)]  # all but the rows of the pivot

            def multiply(tile: slice, pivot: NDArray[Any] = pivot, own: slice = slice(first, last)) -> None:
                above = tile.stop <= own.start
                column[tile, : len(pivot)] = matrix[own, tile].T if above else matrix[tile, own]
                _add_product(product[tile, : len(pivot)], column[tile, : len(pivot)], pivot, add=False)

            def eliminate(tile: slice, own: slice = slice(first, last)) -> None:
                parts = [(rows, tile) for rows in (slice(tile.stop, own.start), slice(max(tile.stop, own.stop), n))]
                parts += [(slice(part.start, tile.stop), part) for part in _parts(tile.start, tile.stop, _CORNER)]
                width = own.stop - own.start
                for rows, columns in parts:
                    if rows.start < rows.stop:
                        right = column[columns, :width].T
                        _add_product(matrix[rows, columns], product[rows, :width], right, add=True)

            def put_back(tile: slice, own: slice = slice(first, last)) -> None:
                width = own.stop - own.start
                if tile.stop <= own.start:
                    matrix[own, tile] = product[tile, :width].T
                else:
                    matrix[tile, own] = product[tile, :width]

            for work in (multiply, eliminate, put_back):
                list(pool.map(work, tiles))
            matrix[first:last, first:last] = -pivot
        list(pool.map(lambda start: _negate(matrix[start:, start : start + _TILE]), range(0, n, _TILE)))
    return 0


def _parts(first: int, last: int, size: int) -> list[slice]:
    """The range from first to last in parts of at most this size."""
    return [slice(start, min(last, start + size)) for start in range(first, last, size)]


def _inverse_of_pivot(block: NDArray[Floats]) -> tuple[int, NDArray[Floats]]:
    """The inverse of a small block whose lower triangle is given, computed in double precision."""
    exact = np.asfortranarray(block, dtype=np.float64)
    if exact is block:
        exact = exact.copy(order="F")
    failed = inverse_in_place(exact) if np.isfinite(exact.diagonal()).all() else 1
    lower = np.tril(exact)
    return failed, np.asfortranarray(lower + np.tril(exact, -1).T, dtype=block.dtype)


def _negate(columns: NDArray[Any]) -> None:
    np.negative(columns, out=columns)


def _add_product(out: NDArray[Floats], left: NDArray[Floats], right: NDArray[Floats], add: bool) -> None:
    """``out = left @ right``, or with ``add`` ``out -= left @ right``; column order, ``right`` may be transposed.

    By the routine that SciPy gives to Cython, because ctypes releases Python's lock, and without a copy of ``out``.
    """
    kind = ctypes.c_float if out.dtype == np.float32 else ctypes.c_double
    transposed = right.strides[0] != right.itemsize
    m, n, k = (ctypes.c_int(size) for size in (out.shape[0], out.shape[1], left.shape[1]))
    steps = [
        ctypes.c_int(max(1, one.strides[1] // one.itemsize)) for one in (left, right.T if transposed else right, out)
    ]
    factors = [kind(-1.0 if add else 1.0), kind(1.0 if add else 0.0)]
    by = ctypes.byref
    _routine("sgemm" if kind is ctypes.c_float else "dgemm")(
        b"N", b"T" if transposed else b"N", by(m), by(n), by(k), by(factors[0]), left.ctypes.data, by(steps[0]),
        right.ctypes.data, by(steps[1]), by(factors[1]), out.ctypes.data, by(steps[2]),
    )  # fmt: skip


@cache
def _routine(name: str) -> Callable[..., None]:
    """``name(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)``."""
    whole, text, address = ctypes.POINTER(ctypes.c_int), ctypes.c_char_p, ctypes.c_void_p
    number = ctypes.POINTER(ctypes.c_float if name == "sgemm" else ctypes.c_double)
    rest = (number, address, whole, address, whole, number, address, whole)
    kind = ctypes.CFUNCTYPE(None, text, text, whole, whole, whole, *rest)
    return kind(capsule_address(scipy.linalg.cython_blas, name))
