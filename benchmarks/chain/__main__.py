"""Chains of optimal control: growth up to a million variables, beside PIQP and other differentiable layers.

    python -m benchmarks.chain --sizes 1200 12000 --seconds 1
    python -m benchmarks.chain --no-peers

Prints altdiff's time and memory along n and their exponents, its forward pass beside PIQP's, and forward and
backward beside other layers with errors against an exact reference; writes chain.json.
"""

from __future__ import annotations

import argparse
import json
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.chain.forward import Forward, take_turns
from benchmarks.chain.growth import Growth, exponents, grow
from benchmarks.chain.own_process import alone
from benchmarks.chain.problems import Chain, chain_of
from benchmarks.chain.race import best_peer, race
from benchmarks.chain.tables import forward_table, growth_table, race_table
from benchmarks.peers.measure import Cell, Options
from benchmarks.peers.pool import stop, warn_if_busy

SIZES = (1200, 12_000, 120_000, 1_200_000)
LARGEST_FORWARD = 120_000  # variables that PIQP gets, too
LARGEST_RACE = 12_000  # variables that the layers get, too


def cell_record(cell: Cell) -> dict[str, Any]:
    """One library, for JSON."""
    record: dict[str, Any] = {"library": cell.library, "version": cell.version, "problem": cell.problem}
    if cell.ok:
        times = {"forward": cell.forward, "backward": cell.backward, "total": cell.total}
        record |= times | {"memory": cell.memory, "errors": cell.errors, "calls": len(cell.times)}
    return record


def race_record(n: int, cells: dict[str, Cell]) -> dict[str, Any]:
    """One size, for JSON."""
    best = best_peer(cells)
    return {
        "n": n,
        "best_peer": None if best is None else best.library,
        "cells": [cell_record(cell) for cell in cells.values()],
    }


def measure_growth(chains: list[Chain], options: Options) -> list[Growth]:
    """Prints the table."""
    points = [alone(options.threads, grow, chain, options.seconds) for chain in chains]
    print(growth_table(points) + "\n", flush=True)
    return points


def measure_forward(chains: list[Chain], options: Options) -> dict[int, dict[str, Forward]]:
    """Prints the table, or that there is no PIQP."""
    try:
        found = {
            chain.n: alone(options.threads, take_turns, chain, options.seconds)
            for chain in chains
            if chain.n <= LARGEST_FORWARD
        }
    except ImportError as problem:
        print(f"Forward, beside PIQP: not available ({problem})\n")
        return {}
    print(forward_table(found) + "\n", flush=True)
    return found


def measure_race(chains: list[Chain], options: Options) -> dict[int, dict[str, Cell]]:
    """Prints each table as soon as it is there."""
    races = {}
    for chain in chains:
        if chain.n <= LARGEST_RACE:
            races[chain.n] = race(chain, options)
            print(race_table(chain.n, races[chain.n]) + "\n", flush=True)
    return races


def parse(words: list[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.chain", description=__doc__, formatter_class=layout)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--seconds", type=float, default=5.0, help="of timed calls a measurement")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one call of a peer")
    parser.add_argument("--disturbance", type=float, default=0.1, help="more of it, more active bounds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where chain.json goes; by default nowhere")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Measures, prints, saves."""
    arguments = parse(words)
    options = Options(arguments.seconds, arguments.timeout, threads=arguments.threads)
    warn_if_busy()
    chains = [chain_of(n, arguments.disturbance) for n in arguments.sizes]
    points = measure_growth(chains, options)
    record: dict[str, Any] = {
        "threads": options.threads,
        "disturbance": arguments.disturbance,
        "growth": [asdict(point) for point in points],
        "exponents": exponents(points),
    }
    if arguments.peers:
        forward = measure_forward(chains, options)
        record["forward"] = [
            {"n": n} | {name: asdict(one) for name, one in found.items()} for n, found in forward.items()
        ]
        record["race"] = [race_record(n, cells) for n, cells in measure_race(chains, options).items()]
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        path = arguments.out / "chain.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    main()
