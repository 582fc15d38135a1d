"""The options that all experiments have."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.results import FOLDER, Results


@dataclass(frozen=True)
class Budget:
    """How long a cell may take."""

    limit: float  # seconds of one forward and backward, and of building a layer
    seconds: float  # of timed calls
    threads: int = 2


def positive_integer(text: str) -> int:
    """For argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def positive_number(text: str) -> float:
    """For argparse."""
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be positive and finite, got {text}")
    return value


def make_parser(name: str, what: str | None) -> argparse.ArgumentParser:
    """With the options that all have."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        f"python -m experiments.{name}", description=what, formatter_class=layout
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="small sizes, seconds: shows that it works")
    add("--out", type=Path, default=FOLDER, metavar="FOLDER", help="of the JSON; default experiments/results")
    add("--fresh", action="store_true", help="measure again what is there already")
    add(
        "--limit",
        type=positive_number,
        help="seconds to build a layer, and for one forward and backward; default 100, quick 60",
    )
    add("--seconds", type=positive_number, help="of timed calls a cell; default 5, quick 0.3")
    add("--threads", type=positive_integer, default=2)
    add("--seed", type=int, default=0)
    return parser


def budget_of(given: argparse.Namespace) -> Budget:
    """From the options."""
    limit = given.limit or (60.0 if given.quick else 100.0)
    return Budget(limit, given.seconds or (0.3 if given.quick else 5.0), given.threads)


def results_of(given: argparse.Namespace, name: str) -> Results:
    """The file to go on with."""
    if given.fresh:
        (given.out / f"{name}.json").unlink(missing_ok=True)
    results = Results(name, given.quick, given.seed, given.out)
    results.say(threads=given.threads)
    return results


def ended(name: str, run: Callable[[], None]) -> int:
    """The exit status: 2 where data or options cannot be used, with the reason."""
    try:
        run()
    except (FileNotFoundError, ValueError) as error:
        print(f"experiments.{name}: {error}", file=sys.stderr)
        return 2
    return 0
