"""Compares altdiff with other differentiable QP layers: time, memory and error, on the same problems.

    python -m benchmarks.peers --quick --workloads own-10 energy
    python -m benchmarks.peers --libraries altdiff proxqp moreau --no-growth

Prints a table a workload and a summary; writes peers.json, peers.svg and growth.svg. All libraries run in the
same run, in turns, each in a process of its own; times are medians, of calls on warm layers.
"""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.peers.growth import Point, measure_growth
from benchmarks.peers.layers import ALTDIFF, PEERS
from benchmarks.peers.measure import Cell, Options, Result, measure
from benchmarks.peers.plots import plot_growth, plot_peers
from benchmarks.peers.pool import stop, warn_if_busy
from benchmarks.peers.tables import growth_table, met, notes, result_table, summary_table, wanted
from benchmarks.peers.workloads import WORKLOADS

QUICK = Options(seconds=0.5, repeats=10)


def cell_record(result: Result, cell: Cell) -> dict[str, Any]:
    """One cell, for JSON."""
    record: dict[str, Any] = {
        "library": cell.library,
        "version": cell.version,
        "problem": cell.problem,
        "remark": cell.remark,
    }
    if cell.ok:
        record |= {
            "forward": cell.forward,
            "backward": cell.backward,
            "total": cell.total,
            "dpotrf_units": result.units(cell),
            "memory": cell.memory,
            "errors": cell.errors,
            "calls": len(cell.times),
        }
    return record


def result_record(result: Result) -> dict[str, Any]:
    """One workload, for JSON: seconds and bytes."""
    best = result.best_peer
    return {
        "workload": result.workload.name,
        "what": result.workload.what,
        "dpotrf": result.unit,
        "best_peer": None if best is None else best.library,
        "ratio": result.ratio,
        "wanted": wanted(result),
        "met": met(result),
        "cells": [cell_record(result, cell) for cell in result.cells.values()],
    }


def save(results: list[Result], growth: dict[str, list[Point]], options: Options, folder: Path) -> None:
    """The numbers and the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "threads": options.threads,
        "seconds_a_cell": options.seconds,
        "workloads": [result_record(result) for result in results],
        "growth": {
            title: [{"value": point.value} | result_record(point.result) for point in points]
            for title, points in growth.items()
        },
    }
    (folder / "peers.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if results:
        plot_peers(results, folder / "peers.svg")
    if growth:
        plot_growth(growth, folder / "growth.svg")


def measure_all(names: list[str], libraries: list[str], options: Options) -> list[Result]:
    """Prints each table as soon as it is there."""
    results = []
    progress: tqdm[Any]
    with tqdm(total=len(names) * (len(libraries) + 1), disable=None, leave=False) as progress:
        for name in names:
            result = measure(WORKLOADS[name], libraries, options, progress)
            progress.write(result_table(result) + "\n")
            results.append(result)
    return results


def parse() -> argparse.Namespace:
    """The options of the command line."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.peers", description=__doc__, formatter_class=layout)
    every = [ALTDIFF, *PEERS]
    parser.add_argument(
        "--workloads", nargs="*", choices=list(WORKLOADS), default=list(WORKLOADS), metavar="NAME"
    )
    parser.add_argument("--libraries", nargs="+", choices=every, default=every, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="few calls, half a second a cell")
    parser.add_argument("--seconds", type=float, help="of timed calls a cell; default 5, or 0.5 with --quick")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one forward and backward")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--growth", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=Path, default=Path("out/bench"), metavar="DIR")
    return parser.parse_args()


def main() -> None:
    """Measures, prints, saves."""
    arguments = parse()
    signal.signal(signal.SIGTERM, stop)
    preset = QUICK if arguments.quick else Options()
    seconds = preset.seconds if arguments.seconds is None else arguments.seconds
    options = Options(seconds, arguments.timeout, preset.repeats, arguments.threads)
    print(f"float64, {options.threads} threads, medians; /dpotrf: total in units of one dpotrf an instance.")
    print("Errors are relative to the largest entry, worst over the batch, against an exact reference.\n")
    warn_if_busy()
    results = measure_all(arguments.workloads, arguments.libraries, options)
    growth = measure_growth(options) if arguments.growth else {}
    for title, points in growth.items():
        print(growth_table(f"Growth: {title}", points) + "\n")
    if results:
        print(summary_table(results) + "\n\n" + notes(arguments.libraries, results))
    save(results, growth, options, arguments.out)
    print(f"\n{arguments.out / 'peers.json'}, and plots beside it")


if __name__ == "__main__":
    main()
