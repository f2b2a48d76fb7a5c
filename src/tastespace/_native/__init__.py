"""The compiled kernels: one extension module per instruction set, the best one chosen here.

``TASTESPACE_SIMD=generic|v3|v4`` overrides the choice (to compare SIMD variants, or to get the same bits on two
machines). The rest of the library does not depend on which one is used.
"""

import os
from importlib import import_module

# How long a thread that waits for the others keeps its core busy before it sleeps. OpenMP's default, milliseconds,
# makes training ten times slower on a machine that has other work. It is read when the library is loaded, below.
_SPIN = "GOMP_SPINCOUNT"
_unset = _SPIN not in os.environ and "OMP_WAIT_POLICY" not in os.environ
if _unset:
    os.environ[_SPIN] = "2000"
_generic = import_module(f"{__name__}.generic")
if _unset:
    del os.environ[_SPIN]  # child processes make their own choice
_VARIANTS = ("generic", "v3", "v4")
_best = _generic.best_simd_variant()
SIMD = os.environ.get("TASTESPACE_SIMD") or _best
if SIMD not in _VARIANTS or _VARIANTS.index(SIMD) > _VARIANTS.index(_best):
    raise ImportError(
        f"TASTESPACE_SIMD={SIMD!r}: this processor runs {', '.join(_VARIANTS[: _VARIANTS.index(_best) + 1])}. "
        "Unset the variable to let tastespace choose."
    )
_variant = _generic if SIMD == "generic" else import_module(f"{__name__}.{SIMD}")
globals().update({name: value for name, value in vars(_variant).items() if not name.startswith("_")})
