"""Checks an installed wheel: the kernels load, and the README's quickstart runs as it stands.

    python .ci/check_wheel.py README.md

The README needs nothing but tastespace and what it depends on; docs/tour.md, which may be named as well, matplotlib,
faiss-cpu and pandas. Runs in an empty folder, so that the sources cannot be imported
instead of what was installed.
"""

import os
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run the pages named on the command line."""
    root = Path(__file__).resolve().parents[1]
    pages = [Path(page).resolve() for page in sys.argv[1:]]
    if not pages:
        raise SystemExit("give the pages to run, such as README.md")
    os.chdir(tempfile.mkdtemp())

    import tastespace
    from tastespace import _native

    where = Path(tastespace.__file__).resolve()
    if where.is_relative_to(root / "src"):
        raise SystemExit(f"imported {where}, which is not an installed wheel")
    sys.stdout.write(f"tastespace {tastespace.__version__}, SIMD variant {_native.SIMD}\n")
    for page in pages:
        names: dict[str, object] = {}
        blocks = page.read_text(encoding="utf-8").split("```python\n")[1:]
        if not blocks:
            raise SystemExit(f"{page.name} has no Python code to run")
        for block in blocks:
            exec(compile(block.partition("```")[0], page.name, "exec"), names)
        sys.stdout.write(f"{page.name}: {len(blocks)} blocks run\n")


if __name__ == "__main__":
    main()
