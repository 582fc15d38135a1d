"""What a change costs, workload by workload.

    python -m benchmarks.change build/before       # a folder with the altdiff package of before
    python -m benchmarks.change build/before --only own-50 QAFIRO.mat    # a workload, and a file

prints the median over turns of time now / time before, and the smallest and largest of them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from statistics import median

from benchmarks.change.cell import NAMES
from benchmarks.turns import Racer

LONGEST = 600.0  # seconds of a turn


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="folder with the altdiff package to compare with")
    parser.add_argument("--only", nargs="+", default=NAMES, help=f"files, or of {', '.join(NAMES)}")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    options = parser.parse_args()
    print(f"{'workload':24} {'before ms':>10} {'now ms':>10} {'now/before':>11}  ratios from .. to")
    for name in options.only:
        compare(name, options.before, options.turns, options.seconds)


def compare(name: str, before: Path, turns: int, seconds: float) -> None:
    """Prints a row. Who goes first changes from turn to turn."""
    command = ("benchmarks.change.cell", name)
    racers = [Racer(command, LONGEST, {"PYTHONPATH": str(before.resolve())}), Racer(command, LONGEST)]
    for turn in range(turns):
        for racer in racers if turn % 2 else reversed(racers):
            racer.run(seconds)
    old, new = (racer.summary([1.0] * turns) for racer in racers)
    for cell in (old, new):
        if "problem" in cell:
            print(f"{name:24} {cell['problem']}", flush=True)
            return
    ratios = [b / a for a, b in zip(old["ratios"], new["ratios"], strict=True)]
    times = f"{1e3 * old['seconds']:10.3f} {1e3 * new['seconds']:10.3f}"
    print(
        f"{Path(name).stem:24} {times} {median(ratios):11.3f}  {min(ratios):.3f} .. {max(ratios):.3f}",
        flush=True,
    )


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main()
