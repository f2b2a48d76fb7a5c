"""Generated tables and command lines: `python -m tests.fuzz --tables 5000 --commands 1500 --seed 0`."""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
from pathlib import Path

from tests.fuzz.command_lines import Commands
from tests.fuzz.tables import Tables


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--commands", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    n_raw = 0
    with tempfile.TemporaryDirectory() as folder:
        for title, cases, n in (
            ("tables", Tables(Path(folder) / "tables", given.seed), given.tables),
            ("command lines", Commands(Path(folder) / "commands", given.seed), given.commands),
        ):
            ends: collections.Counter[str] = collections.Counter()
            for number in range(n):
                outcome = cases.run(number)
                ends[outcome.kind] += 1
                if outcome.raw is not None:
                    n_raw += 1
                    sys.stdout.write(f"{title} {number}: {outcome.what}\n  {outcome.raw}\n")
            sys.stdout.write(f"{title}: {n} cases, {dict(ends)}\n")
    return min(n_raw, 1)


if __name__ == "__main__":
    sys.exit(main())
