"""Times of forward and backward beside other layers, each in a process of its own, on one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.convex.cell import LAYERS
from benchmarks.convex.workloads import WORKLOADS, Workload

TIMED = 5.0  # seconds of timed calls in a cell


def run(limit: float, largest: int) -> list[dict[str, Any]]:
    """Prints a row for each workload and layer: milliseconds, errors, and how many times slower than ours."""
    print(f"{'workload':24} {'layer':12} {'ms':>10} {'x':>9} {'gradient':>9} {'ratio':>8}")
    rows = []
    for workload in WORKLOADS:
        if workload.n > largest:
            continue
        ours = None
        for layer in LAYERS:
            cell = _cell(layer, workload, limit)
            rows.append({"workload": workload.name, "layer": layer, **cell})
            ours = cell.get("seconds") if layer == "altdiff" else ours
            print(_line(workload, layer, cell, ours), flush=True)
    return rows


def _cell(layer: str, workload: Workload, limit: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.convex.cell", layer, workload.name, str(min(TIMED, limit))]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, env=one_thread
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"more than {limit:g} s"}
    if done.returncode != 0:
        return {"problem": (done.stderr.strip().splitlines() or ["no message"])[-1][:80]}
    cell: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return cell


def _line(workload: Workload, layer: str, cell: dict[str, Any], ours: float | None) -> str:
    if "problem" in cell:
        return f"{workload.name:24} {layer:12} {cell['problem']}"
    ratio = f"{cell['seconds'] / ours:8.1f}" if ours else ""
    numbers = f"{1e3 * cell['seconds']:10.3f} {cell['x']:9.1e} {cell['gradient']:9.1e}"
    return f"{workload.name:24} {layer:12} {numbers} {ratio}"
