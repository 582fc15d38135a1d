"""The stress suite.

    python -m tests.stress tiny --count 500000 --workers 2
    python -m tests.stress tiny --structures integer linear --ways alone batch
    python -m tests.stress exact --count 10000
    python -m tests.stress maps --count 2000
    python -m tests.stress company --count 20000
    python -m tests.stress smooth --count 2000
    python -m tests.stress smooth --structure spread --only 17
    python -m tests.stress quick --workers 2
    python -m tests.stress all --workers 2
    python -m tests.stress one integer 4711
    python -m tests.stress list

Each part prints a table; the exit status is 1 if an answer was false, or too few were found.
"""

from __future__ import annotations

import argparse
import sys

from tests.stress import company, exact, faults, maps, one, smooth, tiny
from tests.stress.structures import STRUCTURES
from tests.stress.ways import WAYS

PARTS = {  # how many programs by default, and how many in `quick`
    "tiny": (tiny.main, 500_000, 4_000),
    "exact": (exact.main, 10_000, 400),
    "maps": (maps.main, 2_000, 448),
    "company": (company.main, 20_000, 1_248),
    "smooth": (smooth.main, 2_000, 448),
    "faults": (faults.main, 8, 1),  # memory limits for each path; 1: a few paths only
}


DEFAULTS = {"structures": None, "ways": None, "only": None}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    layout = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser("python -m tests.stress", description=__doc__, formatter_class=layout)
    parts = top.add_subparsers(dest="part", required=True)
    for name, (run, count, _) in PARTS.items():
        add = parts.add_parser(name, help=sys.modules[run.__module__].__doc__)
        add.add_argument("--count", type=int, default=count, help=f"programs; default {count}")
        _add_common(add)
        if name == "tiny":
            add.add_argument("--structures", nargs="*", choices=list(STRUCTURES), metavar="STRUCTURE")
            add.add_argument("--ways", nargs="*", choices=list(WAYS), metavar="WAY")
        if name in ("exact", "smooth"):
            add.add_argument("--only", type=int, metavar="SEED", help="this program, in detail")
        if name == "smooth":
            add.add_argument("--structure", default="sums", help="that of --only")
    _add_common(parts.add_parser("all", help="every part, in full"))
    _add_common(parts.add_parser("quick", help="a little of every part, in less than two minutes"))
    add = parts.add_parser("one", help=one.__doc__)
    add.add_argument("structure", choices=list(STRUCTURES), metavar="STRUCTURE")
    add.add_argument("seed", type=int)
    parts.add_parser("list", help="the structures")
    return top


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="the first; default 0")
    parser.add_argument("--workers", type=int, default=2, help="processes; default 2")


def main() -> int:
    """The command."""
    given = parser().parse_args()
    if given.part == "list":
        print("\n".join(f"{name:<22}{kind.about}" for name, kind in STRUCTURES.items()))
        return 0
    if given.part == "one":
        return 0 if one.main(given) else 1
    if given.part in PARTS:
        return 0 if PARTS[given.part][0](given) else 1
    good = []
    for name, (run, count, few) in PARTS.items():
        print(f"\n== {name}", flush=True)
        chosen = {"count": few if given.part == "quick" else count} | DEFAULTS
        good.append(run(argparse.Namespace(**{**vars(given), **chosen})))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
