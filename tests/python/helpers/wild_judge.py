"""Judges answers to wild sums in long double, from the data alone.

    PYTHONPATH=tests/python python -m helpers.wild_judge [--count 2000] [--seed 0] [--spread]

prints a table, and the programs without an answer or with a wrong one. `--spread` takes log-sum-exps with
logits up to 1e4 apart instead.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from altdiff import ConvexSolution, Status
from scipy.optimize import linprog

from helpers.wild_sums import Program, random_sum, spread_logits
from helpers.wild_terms import Array, Term, wide


def full(program: Program) -> tuple[Array, ...]:
    """G, h, A, b, lb, ub in long double, present or not."""
    n = program.known.size
    c = program.constraints
    empty = {"G": (0, n), "h": (0,), "A": (0, n), "b": (0,)}
    parts = [c.get(name, np.zeros(shape)).astype(wide) for name, shape in empty.items()]
    return (
        *parts,
        c.get("lb", np.full(n, -np.inf)).astype(wide),
        c.get("ub", np.full(n, np.inf)).astype(wide),
    )


def kkt_error(program: Program, solution: ConvexSolution) -> float:
    """The worst of (R1), (R2), (R3), relative to the summands that they are made of."""
    G, h, A, b, lb, ub = full(program)
    x, y, z, box = (v.astype(wide) for v in (solution.x, solution.y, solution.z, solution.z_box))
    if not np.isfinite(np.concatenate([x, y, z, box])).all() or not np.isfinite(program.value(x)):
        return np.inf
    gap_rows = h - G @ x
    violation = np.concatenate([abs(A @ x - b), -gap_rows, lb - x, x - ub, [0]]).max()
    sizes = [abs(v).max(initial=0) for v in (A @ x, b, G @ x, x)]
    primal = violation / max(1, *sizes)
    parts = [term.slopes(x) for term in program.terms]
    rows = np.concatenate([part[0] for part in parts], axis=1)
    low, high = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    known = np.isfinite(low) & np.isfinite(high)
    middle = np.where(
        known, (low + high) / 2, np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0))
    )
    push = A.T @ y + G.T @ z + box
    summands = max(
        *(abs(v).max(initial=0) for v in (A.T @ y, G.T @ z, box)), (abs(rows) @ abs(middle)).max(initial=0)
    )
    size = gradient_size(program, program.known)
    scale = max(summands, min(1, size) if size > 0 else 1)
    wrong = rows @ middle + push
    if abs(wrong).max() > 1e-7 * scale and (high > low).any():
        middle = nearest_slopes(rows, low, high, -push)
        wrong = rows @ middle + push
        scale = max(scale, (abs(rows) @ abs(middle)).max())
    signs = [(-z).max(initial=0), abs(z[~np.isfinite(h)]).max(initial=0)]
    signs += [box[~np.isfinite(ub)].max(initial=0), (-box[~np.isfinite(lb)]).max(initial=0)]
    dual = max(abs(wrong).max(), *signs) / scale
    finite = np.isfinite(h)
    slack = np.where(box > 0, np.where(np.isfinite(ub), ub - x, 0), np.where(np.isfinite(lb), x - lb, 0))
    products = np.concatenate([(z * np.where(finite, gap_rows, 0)), abs(box) * slack])
    gap = abs(products).sum() / max(scale, scale * abs(x).max(), abs(z[finite] * h[finite]).max(initial=0))
    return float(max(primal, dual, gap))


def gradient_size(program: Program, x: Array) -> Any:
    """The largest sum of the sizes of what the gradient is a sum of."""
    total = np.zeros(x.size, wide)
    for rows, low, _ in (term.slopes(x.astype(wide)) for term in program.terms):
        total += abs(rows) @ np.where(np.isfinite(low), abs(low), 0)
    return max(total.max(), 1e-20 * max(map(steepest, program.terms)))


def steepest(term: Term) -> float:
    """How steep a term may be anywhere, if there is a limit: beside that, 1e-20 is flat."""
    if term.kind not in ("log-sum-exp", "softplus", "pseudo-huber"):
        return 0.0
    rows = abs(term.numbers["M"]).max(axis=1) if "M" in term.numbers else 1.0
    return float(np.max(rows * term.numbers.get("weight", 1.0)))


def nearest_slopes(rows: Array, low: Array, high: Array, target: Array) -> Array:
    """Slopes within their limits, which rounding of x leaves open, that come closest to stationarity."""
    free = high > low
    fixed = np.where(free, 0, low)
    right = (target - rows @ fixed).astype(float)
    size = max(abs(right).max(), 1e-300)
    length = abs(rows[:, free]).max(axis=0).astype(float)
    columns = rows[:, free].astype(float) / length
    limits = [np.clip(v[free].astype(float) * length / size, -1e9, 1e9) for v in (low, high)]
    n, k = columns.shape
    both = np.block([[columns, -np.ones((n, 1))], [-columns, -np.ones((n, 1))]])
    bounds = [*zip(*limits, strict=True), (0, None)]
    found = linprog(np.eye(k + 1)[k], both, np.concatenate([right, -right]) / size, bounds=bounds)
    result = fixed.copy()
    result[free] = 0 if found.x is None else found.x[:k] / length * size
    return result


def is_ray(program: Program, d: Array) -> bool:
    """Whether f falls along d for ever, and the constraints hold."""
    G, _, A, _, lb, ub = full(program)
    h = full(program)[1]
    d = d.astype(wide)
    if not np.isfinite(d).all() or abs(d).max() == 0:
        return False
    d = d / abs(d).max()
    rows = [abs(A @ d) / np.maximum(abs(A).max(axis=1), 1e-300)] if len(A) else []
    if len(G):
        rows.append(np.where(np.isfinite(h), G @ d, 0) / np.maximum(abs(G).max(axis=1), 1e-300))
    rows += [np.where(np.isfinite(ub), d, 0), np.where(np.isfinite(lb), -d, 0)]
    if np.concatenate(rows).max(initial=0) > 1e-7:
        return False
    d[abs(d) < 1e-7] = 0
    with np.errstate(all="ignore"):
        values = [program.value(program.known.astype(wide) + s * d) for s in (0, 1, 10, 100, 1e3, 1e4)]

    def falls(a: Any, b: Any) -> bool:
        return bool(b <= a + 1e-9 * (1 + abs(a)))

    return all(falls(a, b) for a, b in pairwise(values)) and falls(values[0], values[-1])


def is_beyond_numbers(program: Program, x: Array) -> bool:
    """Whether f still falls where x is so large that its end will be larger than any number."""
    if not np.isfinite(x).all() or abs(x).max() < 1e50:
        return False
    values = [program.value(program.known + (x.astype(wide) - program.known) * s) for s in (1e-2, 1e-1, 1)]
    return bool(values[2] < values[1] < values[0])


def verdict(program: Program, solution: ConvexSolution) -> str:
    """right, wrong, or nothing: no answer."""
    status = Status(solution.status)
    if status == Status.SOLVED:
        return "right" if kkt_error(program, solution) <= 1e-6 else "wrong"
    if status == Status.DUAL_INFEASIBLE:
        return "right" if is_ray(program, solution.x) else "wrong"
    if status == Status.NUMERICAL_ERROR and is_beyond_numbers(program, solution.x):
        return "right"
    return "wrong" if status in (Status.NONCONVEX, Status.PRIMAL_INFEASIBLE) else "nothing"


def main() -> int:
    """Prints the table; 1 if anything is wrong, or too much is without an answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--spread", action="store_true")
    options = parser.parse_args()
    make = spread_logits if options.spread else random_sum
    table: Counter[tuple[str, str]] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        program = make(seed)
        begin = time.perf_counter()
        solution = program.solve()
        took = time.perf_counter() - begin
        said = verdict(program, solution)
        table[Status(solution.status).name, said] += 1
        if said != "right" or took > 1:
            kinds = [t.kind for t in program.terms]
            name = Status(solution.status).name
            print(
                f"{seed:6d} {said:8s} {name:16s} {took:5.1f} s  n = {program.known.size} {kinds}", flush=True
            )
    for (status, said), count in sorted(table.items()):
        print(f"{status:18s} {said:8s} {count:7d}")
    nothing = sum(c for (_, said), c in table.items() if said == "nothing")
    wrong = sum(c for (_, said), c in table.items() if said == "wrong")
    print(f"of {options.count}: {nothing} without an answer, {wrong} wrong")
    return 1 if wrong or nothing > 0.0025 * options.count else 0


if __name__ == "__main__":
    raise SystemExit(main())
