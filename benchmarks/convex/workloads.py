"""The timed programs: the paper's constrained softmax, and logistic regression under constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.convex.instances import Array


@dataclass(frozen=True)
class Workload:
    """Sizes of one program."""

    kind: str  # "softmax" or "logistic"
    n: int
    m: int
    p: int
    batch: int = 0  # instances that share the constraints; 0: one, without a batch dimension

    @property
    def name(self) -> str:
        """As the command line has it."""
        alone = f"{self.kind}-{self.n}-{self.m}-{self.p}"
        return f"{alone}-{self.batch}" if self.batch else alone

    @staticmethod
    def named(name: str) -> Workload:
        """The inverse of `name`."""
        kind, *sizes = name.split("-")
        return Workload(kind, *(int(size) for size in sizes))

    def numbers(self) -> dict[str, Array]:
        """The data, with a feasible point by construction; the first number has the batch dimension."""
        rng = np.random.default_rng([self.n, self.m, self.p])
        inside = rng.uniform(0.1, 1.0, size=self.n)
        A, G = rng.normal(size=(self.p, self.n)), rng.normal(size=(self.m, self.n))
        numbers = {"A": A, "b": A @ inside, "G": G, "h": G @ inside + rng.uniform(size=self.m)}
        lead = (self.batch,) if self.batch else ()
        if self.kind == "softmax":
            return {"q": rng.normal(size=(*lead, self.n)), **numbers}
        return {"M": rng.normal(size=(*lead, 2 * self.n, self.n)), **numbers}

    def first_instance(self) -> dict[str, Array]:
        """The data of one instance."""
        numbers = self.numbers()
        if self.batch:
            name = next(iter(numbers))
            numbers[name] = numbers[name][0]
        return numbers


SOFTMAX = [
    Workload("softmax", *sizes) for sizes in ((100, 30, 10), (300, 100, 20), (500, 200, 20), (1000, 500, 200))
]
LOGISTIC = [Workload("logistic", n, n // 2, n // 10) for n in (20, 50, 100, 200)]
BATCHES = [Workload("softmax", 100, 30, 10, 64), Workload("logistic", 20, 10, 2, 64)]
WORKLOADS = [*SOFTMAX, *LOGISTIC, *BATCHES]


def reference(workload: Workload, x: Array, z: Array, bar: Array) -> tuple[Array, dict[str, Array]]:
    """x and the gradients by Newton's method and a dense solve on the rows that have a multiplier.

    Of the first instance alone. Written with NumPy alone, so that it judges every layer alike.
    """
    of = workload.first_instance()
    C = np.concatenate([of["A"], of["G"][z > 0]])
    d = np.concatenate([of["b"], of["h"][z > 0]])
    n, rows = x.size, len(d)
    w = np.zeros(rows)
    for _ in range(20):
        g, H = _derivatives(workload, of, x)
        K = np.block([[H, C.T], [C, np.zeros((rows, rows))]])
        step = np.linalg.solve(K, -np.concatenate([g + C.T @ w, C @ x - d]))
        x, w = x + step[:n], w + step[n:]
        if np.abs(step[:n]).max() < 1e-14 * np.abs(x).max():
            break
    adjoint = np.linalg.solve(K, -np.concatenate([bar, np.zeros(rows)]))
    u, v = adjoint[:n], adjoint[n:]
    p = workload.p
    gradients = {"A": np.outer(v[:p], x) + np.outer(w[:p], u), "b": -v[:p]}
    if workload.kind == "softmax":
        return x, {"q": u, **gradients}
    s = 1.0 / (1.0 + np.exp(-of["M"] @ x))
    return x, {"M": np.outer(s * (1.0 - s) * (of["M"] @ u), x) + np.outer(s, u), **gradients}


def _derivatives(workload: Workload, of: dict[str, Array], x: Array) -> tuple[Array, Array]:
    if workload.kind == "softmax":
        return of["q"] + np.log(x) + 1.0, np.diag(1.0 / x)
    s = 1.0 / (1.0 + np.exp(-of["M"] @ x))
    return of["M"].T @ s + x, of["M"].T @ ((s * (1.0 - s))[:, None] * of["M"]) + np.eye(x.size)
