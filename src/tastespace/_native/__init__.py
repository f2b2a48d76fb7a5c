"""The compiled kernels: one extension module per instruction set, the best one chosen here.

``TASTESPACE_SIMD=generic|v3|v4`` overrides the choice (to compare SIMD variants, or to get the same bits on two
machines). The rest of the library does not depend on which one is used.
"""

import os
from importlib import import_module
from importlib.util import find_spec

# How long a thread that waits for the others keeps its core busy before it sleeps. OpenMP's default, milliseconds,
# makes training ten times slower on a machine that has other work. It is read when the library is loaded, below.
_SPIN = "GOMP_SPINCOUNT"
_unset = _SPIN not in os.environ and "OMP_WAIT_POLICY" not in os.environ
if _unset:
    os.environ[_SPIN] = "2000"
_NAMES = ("generic", "v3", "v4")
_built = [name for name in _NAMES if find_spec(f"{__name__}.{name}")]
# The narrowest knows what this processor runs.
_narrowest = import_module(f"{__name__}.{_built[0] if _built else _NAMES[0]}")
if _unset:
    del os.environ[_SPIN]  # child processes make their own choice
_runs = _NAMES[: _NAMES.index(_narrowest.best_simd_variant()) + 1]
VARIANTS = tuple(name for name in _built if name in _runs)
if not VARIANTS:
    raise ImportError(
        f"tastespace was built for {', '.join(_built)} alone, and this processor runs {', '.join(_runs)}. Install it "
        "again on this machine."
    )
SIMD = os.environ.get("TASTESPACE_SIMD") or VARIANTS[-1]
if SIMD not in _runs:
    raise ImportError(
        f"TASTESPACE_SIMD={SIMD!r}: this processor runs {', '.join(_runs)}. "
        "Unset the variable to let tastespace choose."
    )
if SIMD not in VARIANTS:
    raise ImportError(
        f"TASTESPACE_SIMD={SIMD!r}: built was {', '.join(_built)}, as `make demo` does. Unset the variable, or build "
        "all SIMD variants with `make test`."
    )
_variant = _narrowest if _narrowest.__name__ == f"{__name__}.{SIMD}" else import_module(f"{__name__}.{SIMD}")
globals().update({name: value for name, value in vars(_variant).items() if not name.startswith("_")})
