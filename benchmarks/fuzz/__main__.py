"""Solves random problems, and proves every status.

python -m benchmarks.fuzz --count 20000
python -m benchmarks.fuzz --seed 1234 --count 1
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import altdiff
from tqdm import tqdm

from benchmarks.fuzz.problems import KINDS, make
from benchmarks.fuzz.proofs import proved
from experiments.text_table import text_table


def main() -> int:
    """The command; 1 if a status was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tally: Counter[tuple[str, str]] = Counter()
    wrong, unproved = [], []
    for seed in tqdm(range(options.seed, options.seed + options.count), mininterval=2):
        case = make(seed)
        solution = altdiff.solve_qp(**case.arguments())
        tally[case.kind, solution.status.name] += 1
        verdict = proved(case, solution)
        if verdict is None:
            unproved.append(seed)
        elif not verdict:
            wrong.append(seed)
    names = sorted({status for _, status in tally})
    rows = [[kind, *(str(tally[kind, name]) for name in names)] for kind in KINDS]
    print(text_table(["kind", *names], rows))
    print(f"{len(wrong)} wrong of {options.count}: {wrong[:20]}")
    print(f"{len(unproved)} without an answer: {unproved[:20]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
