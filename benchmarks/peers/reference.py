"""Exact solutions and gradients, by code that owes nothing to any of the libraries.

The active set is guessed, then mended until every multiplier and every slack has the right sign; that is a
proof of optimality, wherever the guess came from. Gradients follow from one adjoint solve on that set:

    [P C_S'; C_S 0] (u, v, r) = (-x_bar, 0, 0)
    q: u   P: (u x' + x u')/2   b: -v   h: -r   A: v x' + y u'   G: r x' + z u'
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr
from scipy.optimize import nnls

from benchmarks.peers.kkt import Kkt, times
from benchmarks.peers.problems import Array, Mask, Problem

if TYPE_CHECKING:
    from typing_extensions import Self

GUESS_ROUNDS = 40
MENDING_ROUNDS = 40
PATIENCE = 4  # rounds without fewer wrong signs, after which the guess is said to cycle


class Saved:
    """A dataclass of arrays that travels between processes as files."""

    def save(self, folder: Path) -> None:
        """One file a field."""
        for field in fields(self):  # type: ignore[arg-type]
            np.save(folder / f"reference_{field.name}.npy", getattr(self, field.name))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What `save` wrote."""
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return cls(*(np.load(folder / f"reference_{name}.npy") for name in names))


@dataclass(frozen=True)
class Reference(Saved):
    """Solution and adjoint, a row an instance."""

    x: Array
    y: Array
    z: Array
    u: Array  # adjoint of stationarity
    v: Array  # of A x = b
    r: Array  # of G x <= h, zero on inactive rows


def all_at_once(kkt: Kkt, w: Array) -> Mask | None:
    """A guess: every wrong sign flips at once. Quick where rows are few; None where it cycles.

    With w = C x - d at the minimiser without constraints, a set S has multipliers M_SS^-1 w_S, and leaves
    w - M lambda on the other rows.
    """
    active = np.zeros(w.size - kkt.p, np.bool_)
    fewest, waited = active.size + 1, 0
    for _ in range(GUESS_ROUNDS):
        rows = kkt.rows(active)
        left = w.copy()
        multipliers = np.zeros(w.size)
        if rows.size:
            try:
                factor = cho_factor(kkt.M[np.ix_(rows, rows)], lower=True)
            except LinAlgError:
                return None
            multipliers[rows] = cho_solve(factor, w[rows])
            left -= kkt.M[:, rows] @ multipliers[rows]
        wrong = np.where(active, multipliers[kkt.p :] < 0, left[kkt.p :] > 0)
        count = int(wrong.sum())
        if count == 0:
            return active
        waited = 0 if count < fewest else waited + 1
        if waited > PATIENCE:
            return None
        fewest = min(fewest, count)
        active = active ^ wrong
    return None


def least_distance(kkt: Kkt, w: Array) -> Mask:
    """A guess: Lawson and Hanson's least distance programming, which cannot cycle.

    In t = L'(x - x_free) the problem is min |t|^2 with Y_A't = -w_A, Y_G't <= -w_G. The equalities fix a
    part of t; for the rest, min |t|^2 with E t >= e, the active rows are the positive entries of the
    non-negative least squares solution of [E'; e'] c = (0, ..., 0, 1).
    """
    Y_A, Y_G = kkt.Y[:, : kkt.p], kkt.Y[:, kkt.p :]
    Q, R = qr(Y_A)
    fixed = Q[:, : kkt.p] @ np.linalg.solve(R[: kkt.p].T, -w[: kkt.p])
    E = -(Q[:, kkt.p :].T @ Y_G).T
    e = w[kkt.p :] + Y_G.T @ fixed
    target = np.zeros(E.shape[1] + 1)
    target[-1] = 1.0
    weights, _ = nnls(np.vstack([E.T, e]), target, maxiter=30 * e.size)
    return np.asarray(weights > 0)


def solve_instance(kkt: Kkt, q: Array, b: Array, h: Array, x_bar: Array) -> tuple[Array, ...]:
    """x, y, z, u, v, r of one instance."""
    w = kkt.violations(q, b, h)
    active = all_at_once(kkt, w)
    if active is None:
        active = least_distance(kkt, w)
    G, p = kkt.C[kkt.p :], kkt.p
    for _ in range(MENDING_ROUNDS):
        x, multipliers = kkt.solve(active, -q, np.concatenate([b, h[active]]))
        slack = h - times(G, x)
        z = np.zeros(h.size, np.longdouble)
        z[active] = multipliers[p:]
        wrong = np.where(active, z < 0, slack < 0)
        if not wrong.any():
            break
        active = active ^ wrong
    else:
        raise RuntimeError(f"no set of active rows with all signs right in {MENDING_ROUNDS} rounds")
    u, adjoint = kkt.solve(active, -x_bar, np.zeros(p + int(active.sum())))
    r = np.zeros(h.size)
    r[active] = adjoint[p:]
    exact = (x, multipliers[:p], z, u, adjoint[:p], r)
    return tuple(np.asarray(value, np.float64) for value in exact)


def solve_reference(problem: Problem) -> Reference:
    """The solution and adjoint of every instance; P, A, G are factorised once where they are shared."""
    names = ("P", "A", "G")
    common = all(problem.is_shared(name) for name in names)
    x_bar = problem.x_bar.reshape(problem.batch, problem.n)
    rows: list[tuple[Array, ...]] = []
    kkt: Kkt | None = None
    for k in range(problem.batch):
        if kkt is None or not common:
            kkt = Kkt(*(problem.instance(name, k) for name in names))
        q, b, h = (problem.instance(name, k) for name in ("q", "b", "h"))
        rows.append(solve_instance(kkt, q, b, h, x_bar[k]))
    return Reference(*(np.stack(column) for column in zip(*rows, strict=True)))
