"""The error of a layer that must not go on with an unsolved instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from altdiff._status import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAMED = 10  # instances named in a message; a batch may hold thousands

_ADVICE = {
    Status.MAX_ITERATIONS: "raise max_iterations, or loosen tolerance",
    Status.TIME_LIMIT: "raise time_limit, or loosen tolerance",
    Status.PRIMAL_INFEASIBLE: "no x satisfies the constraints: check A, b, G, h, lb and ub, "
    "or soften a constraint with a slack variable",
    Status.DUAL_INFEASIBLE: "the objective is unbounded below: add bounds, "
    "or a small multiple of the identity to P",
    Status.NONCONVEX: "P has a negative eigenvalue: build it as P = L L', or add a multiple of the identity "
    "(1e-6 of its largest number if P was computed in single precision)",
    Status.INVALID_DATA: "the data hold NaN, a forbidden infinity, or lb > ub: look at what computes them",
    Status.NUMERICAL_ERROR: "rounding errors spoiled the answer: bring rows and columns to similar size, "
    "or add a small multiple of the identity to P",
}

# What is different for other kinds of problems.
_SPECIAL = {
    "convex": {
        Status.PRIMAL_INFEASIBLE: "no x in the domain of the objective satisfies the constraints: check A, "
        "b, G, h, lb and ub, and where its terms are defined",
        Status.DUAL_INFEASIBLE: "the objective falls along x for ever, without an end or towards an infimum "
        "that no x attains: add bounds, or a small multiple of |x|^2",
        Status.NONCONVEX: "the Hessian of the objective has a negative eigenvalue: look at its signs, "
        "or add a multiple of |x|^2",
        Status.INVALID_DATA: "the data hold NaN, a forbidden infinity, a negative weight, or lb > ub: "
        "look at what computes them",
        Status.NUMERICAL_ERROR: "rounding errors spoiled the answer, the objective is not smooth, A and G "
        "leave nothing of a domain but its end (let lb and ub say so), or x is beyond 1e308: bring rows and "
        "columns to similar size, or add a small multiple of |x|^2 to the objective. A function of your own "
        "must be finite inside its domain, and inf or NaN outside of it: where iterations is 0 it was finite "
        "at none of the points that were tried, of which x is one; pass initial=x0, a point inside, or "
        "domain=(low, high)",
    },
    "budget": {
        Status.PRIMAL_INFEASIBLE: "no x satisfies the constraints: lower must not add up to more than total, "
        "nor upper (lower where y is -inf) to less",
        Status.INVALID_DATA: "the data hold NaN, a forbidden infinity, lower > upper, or for softmax a "
        "negative lower: look at what computes them",
        Status.NUMERICAL_ERROR: "the limits are too far apart for floating point: rescale y, lower and upper",
    },
}


def advice(status: Status, kind: str = "quadratic") -> str:
    """What to try where a solve ended with `status`; `kind` is "quadratic", "convex" or "budget"."""
    return _SPECIAL.get(kind, {}).get(status, _ADVICE[status])


class SolveError(RuntimeError):
    """Some instances were not solved: names them, their statuses, and what to try.

    `status` holds the status of every instance; `instances` the indices of those that failed.
    """

    def __init__(
        self, status: NDArray[np.int64], kind: str = "quadratic", spectrum: tuple[float, float] | None = None
    ) -> None:
        # These alone rebuild the error, so that it crosses process borders by pickle.
        super().__init__(status, kind, spectrum)
        self.status = np.asarray(status)
        self.kind = kind
        self.spectrum = spectrum  # the smallest and the largest eigenvalue of the first P that is not convex

    @property
    def instances(self) -> list[tuple[int, ...]]:
        """The indices of the instances that failed."""
        return [tuple(int(i) for i in index) for index in np.argwhere(self.status != Status.SOLVED)]

    def __str__(self) -> str:
        if self.status.ndim == 0:
            status = Status(int(self.status))
            return f"the problem was not solved: {status.name}. What to try: {self._advice(status)}"
        failed = self.instances
        lines = [f"{len(failed)} of {self.status.size} instances were not solved:"]
        lines += [f"  instance {_written(i)}: {Status(int(self.status[i])).name}" for i in failed[:_NAMED]]
        if len(failed) > _NAMED:
            lines.append(f"  and {len(failed) - _NAMED} more")
        lines.append("What to try:")
        codes = sorted({int(self.status[i]) for i in failed})
        lines += [f"  {Status(code).name}: {self._advice(Status(code))}" for code in codes]
        return "\n".join(lines)

    def _advice(self, status: Status) -> str:
        found = advice(status, self.kind)
        if status != Status.NONCONVEX or self.spectrum is None:
            return found
        smallest, largest = self.spectrum
        return f"{found}; the smallest eigenvalue is {smallest:.2g}, the largest {largest:.2g}"


def _written(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)
