"""How long it takes to start: `import tastespace` and `tastespace --help`, each in fresh processes.

Prints two ratios and their limits: `import tastespace` against `import numpy, scipy.sparse, polars`, and
`tastespace --help` against `import tastespace`. The three commands take turns, so that a busy machine slows all of
them; the fastest run of each counts.

    python benchmarks/startup.py [--runs 15]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

COMMANDS = {
    "import numpy, scipy.sparse, polars": ("-c", "import numpy, scipy.sparse, polars"),
    "import tastespace": ("-c", "import tastespace"),
    "tastespace --help": ("-c", "from tastespace.cli import main; main()", "--help"),
}
RATIOS = (
    ("import tastespace", "import numpy, scipy.sparse, polars", 1.3),
    ("tastespace --help", "import tastespace", 1.5),
)


def seconds(arguments: tuple[str, ...]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure(runs: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for run in range(runs + 1):
        for name, arguments in COMMANDS.items():
            taken = seconds(arguments)
            if run:  # the first run reads files from disk and writes .pyc files
                times[name].append(taken)
    return {name: min(taken) for name, taken in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="runs of each command")
    best = measure(parser.parse_args().runs)
    for name, taken in best.items():
        print(f"{name:36} {1000 * taken:7.0f} ms")
    for name, against, limit in RATIOS:
        ratio = best[name] / best[against]
        print(f"{name} / {against}: {ratio:.2f} (at most {limit}){'' if ratio <= limit else '  TOO SLOW'}")


if __name__ == "__main__":
    main()
