"""All experiments, the important ones first, each in a process of its own.

    python -m experiments [--quick] [--data FOLDER] [--minutes 70] [--only table1 mnist]

Cells that were measured before are not measured again, so that an interrupted run goes on where it ended.
After --minutes no further part is started, and what is left is named.
"""

from __future__ import annotations

import argparse
import math
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.pool import stop
from experiments.command import positive_number
from experiments.report import SECTIONS
from experiments.results import FOLDER

WITH_DATA = ("figure2", "mnist")


@dataclass(frozen=True)
class Part:
    """One call of an experiment, and the minutes that it may be expected to take on two quiet cores."""

    name: str
    options: tuple[str, ...]
    minutes: float


def part(name: str, options: str, minutes: float) -> Part:
    """With its options as one would type them."""
    return Part(name, tuple(options.split()), minutes)


# The limit is a peer's for one forward and backward; what is predicted to exceed it is not started.
FULL = (
    part("figure2", "--limit 60 --seconds 3", 3),
    part("mnist", "--layers exact --limit 60 --seconds 5", 5),
    part("table1", "--sizes tiny small --limit 60 --seconds 2", 10),
    part("table4", "--limit 60 --seconds 2", 5),
    part("table6", "--limit 60 --seconds 2", 4),
    part("table1", "--sizes medium --limit 60 --seconds 2", 5),
    part("table1", "--sizes large --limit 100 --seconds 2", 7),
    part("mnist", "--layers exact --seeds 0 --epochs 30 --methods", 7),
    part("table2", "--limit 60 --seconds 2", 6),
    part("table5", "--limit 60 --seconds 2", 2),
    part("figure1", "", 1),
    part("truncation", "--seconds 1", 2),
    part("mnist", "--layers 1e-1 1e-2 1e-3 --seeds 0 --methods", 4),
    part("mnist", "--layers 1e-1 1e-2 1e-3 --seeds 1 2 --methods", 8),
)
QUICK = tuple(Part(name, ("--quick",), 0.5) for name in SECTIONS)


def command(chosen: Part, given: argparse.Namespace) -> list[str]:
    """The call of one part."""
    words = [sys.executable, "-m", f"experiments.{chosen.name}", *chosen.options, "--out", str(given.out)]
    if given.data is not None and chosen.name in WITH_DATA and not given.quick:
        words += ["--data", str(given.data)]
    return words


def title(chosen: Part) -> str:
    """For people."""
    return " ".join([chosen.name, *chosen.options])


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m experiments", description=__doc__, formatter_class=layout)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER", help="of the JSON")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with MNIST and PJM")
    parser.add_argument("--minutes", type=positive_number, default=math.inf, help="when to start no more")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs what is missing; the exit status says whether every part ended well and none is left."""
    given = parse(arguments)
    parts = [each for each in (QUICK if given.quick else FULL) if each.name in given.only]
    start, failed, left = time.monotonic(), [], []
    for number, each in enumerate(parts, 1):
        minutes = (time.monotonic() - start) / 60.0
        if minutes >= given.minutes:
            left.append(title(each))
            continue
        print(
            f"== {number}/{len(parts)}, {minutes:.1f} min: {title(each)} (about {each.minutes:g})", flush=True
        )
        if subprocess.run(command(each, given), check=False).returncode != 0:
            failed.append(title(each))
    for what, names in (("failed", failed), ("not started", left)):
        if names:
            print(f"{what}: {'; '.join(names)}", file=sys.stderr)
    return 1 if failed or left else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)  # the part that runs ends too
    sys.exit(main())
