"""`python -m benchmarks.convex`: random instances of every kind, then times beside cvxpylayers and Moreau."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.convex import trust
from benchmarks.convex.instances import KINDS


def main(arguments: Sequence[str] | None = None) -> None:
    """Both parts, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=2000, help="of each kind; 0: none")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="most for a layer to be ready, or for a turn; 0: no times"
    )
    parser.add_argument("--largest", type=int, default=1000, help="n of the largest workload")
    options = parser.parse_args(arguments)
    if options.instances:
        trust.run(options.instances, tuple(options.kinds))
    if options.seconds:
        from benchmarks.convex import race  # here: the other part needs none of the peers

        race.run(options.seconds, options.largest)


if __name__ == "__main__":
    main()
