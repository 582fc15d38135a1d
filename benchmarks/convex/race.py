"""Times of forward and backward beside other layers, each in a process of its own, on one thread.

They take turns, and what counts is the median of the ratios of the turns.
"""

from __future__ import annotations

import time
from statistics import median

from benchmarks.convex.cell import LAYERS
from benchmarks.convex.workloads import WORKLOADS, Workload
from benchmarks.turns import Racer, Turn

TURNS = 7
TURN = 0.7  # seconds, or one call
ALL_TURNS = 30.0  # seconds after which no other turn begins
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(limit: float, largest: int) -> list[Turn]:
    """Prints a row for each workload and layer: milliseconds, errors, and how many times slower than ours."""
    print(f"{'workload':24} {'layer':12} {'ms':>10} {'x':>9} {'gradient':>9} {'ratio':>8}  ratios from .. to")
    rows = []
    for workload in WORKLOADS:
        if workload.n > largest:
            continue
        for layer, cell in _race(workload, limit).items():
            rows.append({"workload": workload.name, "layer": layer, **cell})
            print(_line(workload, layer, cell), flush=True)
    return rows


def _race(workload: Workload, limit: float) -> dict[str, Turn]:
    racers = {
        layer: Racer(("benchmarks.convex.cell", layer, workload.name), limit, ONE_THREAD) for layer in LAYERS
    }
    begin = time.perf_counter()
    for turn in range(TURNS):
        if turn > 0 and time.perf_counter() - begin > ALL_TURNS:
            break
        for racer in racers.values():
            racer.run(TURN)
    ours = [turn["seconds"] for turn in racers["altdiff"].turns]
    return {layer: racer.summary(ours) for layer, racer in racers.items()}


def _line(workload: Workload, layer: str, cell: Turn) -> str:
    if "problem" in cell:
        return f"{workload.name:24} {layer:12} {cell['problem']}"
    ratios = cell["ratios"]
    spread = f"{median(ratios):8.1f}  {min(ratios):.1f} .. {max(ratios):.1f}" if ratios else ""
    numbers = f"{1e3 * cell['seconds']:10.3f} {cell['x']:9.1e} {cell['gradient']:9.1e}"
    return f"{workload.name:24} {layer:12} {numbers} {spread}"
