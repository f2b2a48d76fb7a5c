"""The compiled kernels: one extension module per instruction set, the best one chosen here.

``TASTESPACE_SIMD=generic|v3|v4`` overrides the choice (to compare twins, or to get the same bits on two
machines). Nothing else in the library knows that there is more than one twin.
"""

import os
from importlib import import_module

# How long a thread that waits for the others keeps its core busy before it sleeps. OpenMP's own choice, milliseconds,
# makes training ten times slower on a machine that has other work. It is read when the library is loaded, below.
_SPIN = "GOMP_SPINCOUNT"
_ours = _SPIN not in os.environ and "OMP_WAIT_POLICY" not in os.environ
if _ours:
    os.environ[_SPIN] = "2000"
_generic = import_module(f"{__name__}.generic")
if _ours:
    del os.environ[_SPIN]  # other programs that we start choose for themselves
_TWINS = ("generic", "v3", "v4")
_best = _generic.best_twin()
SIMD = os.environ.get("TASTESPACE_SIMD") or _best
if SIMD not in _TWINS or _TWINS.index(SIMD) > _TWINS.index(_best):
    raise ImportError(
        f"TASTESPACE_SIMD={SIMD!r}: this processor runs {', '.join(_TWINS[: _TWINS.index(_best) + 1])}. "
        "Unset the variable to let tastespace choose."
    )
_twin = _generic if SIMD == "generic" else import_module(f"{__name__}.{SIMD}")
globals().update({name: value for name, value in vars(_twin).items() if not name.startswith("_")})
