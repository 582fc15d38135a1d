"""Time of one row against its length."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib import pyplot as plt

from benchmarks.budget.race import race

mpl.use("Agg")
LENGTHS = (10, 100, 1000, 10_000, 100_000, 1_000_000)
SHOWN = {
    "torch.softmax": "k",
    "softmax": "C0",
    "softmax, cap 3/n": "C9",
    "sparsemax": "C3",
    "entmax.sparsemax": "C7",
}


def draw(path: Path, dtype: torch.dtype, seconds: float) -> None:
    """Forward and backward of one row, one thread."""
    times: dict[str, list[float]] = {}
    for n in LENGTHS:
        for runner in race(1, n, dtype, seconds):
            times.setdefault(runner.name, []).append(1e3 * sum(runner.seconds))
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, color in SHOWN.items():
        if name in times:
            axes.plot(LENGTHS, times[name], "o-", color=color, label=name)
    axes.set(xscale="log", yscale="log", xlabel="entries of the row", ylabel="forward + backward, ms")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    mpl.rcParams["svg.hashsalt"] = "budget"  # the same file for the same numbers
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
