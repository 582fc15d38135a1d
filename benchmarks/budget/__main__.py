"""Times sparsemax and softmax with limits beside torch.softmax and, if it is installed, entmax.

    python -m benchmarks.budget
    python -m benchmarks.budget --figure docs/figures/budget.svg

Medians of functions that take turns, in milliseconds (of the thread, if there is one) and in units of
torch.softmax; beside them the error against the same function in float64.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.budget.race import TORCH, Runner, race
from experiments.text_table import text_table

SHAPES = ((1, 1_000_000), (1024, 1000), (1024, 100), (1, 20))
HEADER = ["function", "forward, ms", "units", "backward, ms", "units", "error"]


def table(runners: list[Runner]) -> str:
    """One line a function."""
    forward, backward = next(runner.seconds for runner in runners if runner.name == TORCH)
    return text_table(
        HEADER,
        [
            [
                runner.name,
                f"{1e3 * runner.seconds[0]:.3f}",
                f"{runner.seconds[0] / forward:.2f}",
                f"{1e3 * runner.seconds[1]:.3f}",
                f"{runner.seconds[1] / backward:.2f}",
                f"{runner.error:.0e}",
            ]
            for runner in runners
        ],
    )


def main() -> None:
    """Prints a table for each shape, or draws the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="a function and shape")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--figure", type=Path, help="draw time against n instead")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    if options.figure is not None:
        from benchmarks.budget.figure import draw

        draw(options.figure, dtype, options.seconds)
        return
    for rows, n in SHAPES:
        print(f"\n{rows} x {n}, {options.dtype}, {options.threads} threads")
        print(table(race(rows, n, dtype, options.seconds)))


if __name__ == "__main__":
    main()
