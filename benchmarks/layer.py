"""Time and error of one dense QP, forward (solve_qp) and backward (vjp), beside one Cholesky factorisation.

Machines differ, so times are also given in ratio to LAPACK's dpotrf of the same n, measured in the same run
and in turn with the rest (at n = 10 most of it is the call from Python). The problems are built around a
known solution with a known active set, and the reference gradient is a dense solve of the KKT system on that
set: the errors owe nothing to the code they judge.

    python -m benchmarks.layer --sizes 50 200 --repeats 20
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import altdiff
import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf
from tqdm import tqdm

Array = NDArray[np.float64]
HEADER = (
    "    n     m     p     dpotrf    forward  /dpotrf   backward  /dpotrf   error x gradient  rounds  status"
)


@dataclass(frozen=True)
class Problem:
    """A strictly convex QP and its solution: x, y, z are known because q, h and b were made from them."""

    P: Array
    q: Array
    G: Array
    h: Array
    A: Array
    b: Array
    x: Array
    y: Array
    z: Array
    active: NDArray[np.bool_]


def random_problem(n: int, rng: np.random.Generator) -> Problem:
    """n variables, n/5 equalities, n/2 inequalities, half of them active; none is close to changing sides."""
    p, m = n // 5, n // 2
    L = rng.normal(size=(n, n))
    P = L @ L.T / n + np.eye(n)
    A, G = rng.normal(size=(p, n)), rng.normal(size=(m, n))
    x, y = rng.normal(size=n), rng.normal(size=p)
    active = np.arange(m) < m // 2
    z = np.where(active, rng.uniform(0.5, 1.5, size=m), 0.0)
    s = np.where(active, 0.0, rng.uniform(0.5, 1.5, size=m))
    return Problem(P, -(P @ x + A.T @ y + G.T @ z), G, G @ x + s, A, A @ x, x, y, z, active)


def reference_gradient(problem: Problem, x_bar: Array) -> dict[str, Array]:
    """Gradients of all fields by a dense solve of the adjoint KKT system on the active rows."""
    n, p, m = problem.x.size, problem.y.size, problem.z.size
    C = np.vstack([problem.A, problem.G[problem.active]])
    K = np.block([[problem.P, C.T], [C, np.zeros((len(C), len(C)))]])
    adjoint = np.linalg.solve(K, np.concatenate([-x_bar, np.zeros(len(C))]))
    u, v, r = adjoint[:n], adjoint[n : n + p], np.zeros(m)
    r[problem.active] = adjoint[n + p :]
    x, y, z = problem.x, problem.y, problem.z
    return {
        "P": (np.outer(u, x) + np.outer(x, u)) / 2,
        "q": u,
        "G": np.outer(r, x) + np.outer(z, u),
        "h": -r,
        "A": np.outer(v, x) + np.outer(y, u),
        "b": -v,
    }


def relative_error(value: Array, reference: Array) -> float:
    """Largest error, relative to the largest entry."""
    return float(np.abs(value - reference).max() / np.abs(reference).max())


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(n: int, repeats: int, seed: int, progress: tqdm[Any]) -> str:
    """One row of the table."""
    rng = np.random.default_rng(seed)
    problem, x_bar = random_problem(n, rng), rng.normal(size=n)
    data = (problem.P, problem.q, problem.G, problem.h, problem.A, problem.b)
    solution = altdiff.solve_qp(*data, num_threads=1)
    gradient = solution.vjp(x_bar)
    factor, forward, backward = [], [], []
    for _ in range(repeats):
        factor.append(seconds(lambda: dpotrf(problem.P)))
        forward.append(seconds(lambda: altdiff.solve_qp(*data, num_threads=1)))
        backward.append(seconds(lambda: solution.vjp(x_bar)))
        progress.update()
    unit, reference = median(factor), reference_gradient(problem, x_bar)
    gradient_error = max(relative_error(getattr(gradient, name), value) for name, value in reference.items())
    return (
        f"{n:5d} {problem.z.size:5d} {problem.y.size:5d}  {1e3 * unit:9.3f}"
        f"  {1e3 * median(forward):9.3f} {median(forward) / unit:8.1f}"
        f"  {1e3 * median(backward):9.3f} {median(backward) / unit:8.1f}"
        f"  {relative_error(solution.x, problem.x):8.1e} {gradient_error:8.1e}"
        f"  {solution.iterations:6d}  {altdiff.Status(solution.status).name}"
    )


def main() -> None:
    """Prints the table of medians."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 50, 100, 200, 500], help="values of n")
    parser.add_argument("--repeats", type=int, default=15, help="the table shows the median of so many runs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tqdm(total=len(options.sizes) * options.repeats, disable=None, leave=False) as progress:
        rows = [measure(n, options.repeats, options.seed, progress) for n in options.sizes]
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "unset")
    print(f"Median of {options.repeats} runs: milliseconds, and units of dpotrf. Errors are relative.")
    print(f"num_threads=1 for altdiff, OPENBLAS_NUM_THREADS={threads} for dpotrf.\n")
    print(HEADER)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
