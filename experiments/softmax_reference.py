"""An exact constrained softmax, by code that owes nothing to the library:

    min -y'x + sum x log x   with   A x = b,  G x <= h

An interior point finds the active rows; Newton's method on them finds x to rounding, and one adjoint solve
with the same matrix finds the gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.peers.problems import Array
from benchmarks.peers.reference import Saved

CENTRAL = 0.1  # how far each step aims down the central path
ITERATIONS = 200
GAP = 1e-12


@dataclass(frozen=True)
class Softmax(Saved):
    """An instance with its exact solution and derivatives."""

    y: Array
    G: Array
    h: Array
    A: Array
    b: Array
    x_bar: Array
    x: Array
    y_bar: Array  # gradients of <x_bar, x>
    b_bar: Array


def longest(values: Array, step: Array) -> float:
    """The share of a step that keeps positive values positive, at most 1."""
    falling = step < 0
    return min(1.0, 0.99 * float((-values[falling] / step[falling]).min(initial=np.inf)))


def saddle(hessian: Array, C: Array, top: Array, bottom: Array) -> tuple[Array, Array]:
    """[H C'; C 0] (dx, multipliers) = (top, bottom)."""
    zero = np.zeros((len(C), len(C)))
    found = np.linalg.solve(np.block([[hessian, C.T], [C, zero]]), np.concatenate([top, bottom]))
    return found[: top.size], found[top.size :]


def interior_point(y: Array, G: Array, h: Array, A: Array, b: Array, x: Array) -> tuple[Array, Array, Array]:
    """x, slacks and multipliers of G, from a strictly feasible x."""
    s, z, nu = h - G @ x, 1.0 / (h - G @ x), np.zeros(b.size)
    for _ in range(ITERATIONS):
        mu = float(s @ z) / s.size
        gradient = np.log(x) + 1.0 - y
        if mu < GAP and np.abs(gradient + A.T @ nu + G.T @ z).max() < 1e-10:
            break
        weights = z / s
        hessian = np.diag(1.0 / x) + (G.T * weights) @ G
        left = G @ x + s - h
        target = CENTRAL * mu / s - z
        top = -(gradient + A.T @ nu + G.T @ (z + target + weights * left))
        dx, dnu = saddle(hessian, A, top, b - A @ x)
        ds = -left - G @ dx
        dz = target - weights * ds
        step = min(longest(v, d) for v, d in ((x, dx), (s, ds), (z, dz)))
        x, s, z, nu = x + step * dx, s + step * ds, z + step * dz, nu + step * dnu
    return x, s, z


def make_case(n: int, m: int, p: int, seed: int) -> Softmax:
    """A, G, y, x_bar ~ N(0, 1); b = A x0 and h = G x0 + U(0, 1) with x0 ~ U(0, 1)."""
    rng = np.random.default_rng(seed)
    A, G = rng.normal(size=(p, n)), rng.normal(size=(m, n))
    y, x_bar, x0 = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.1, 1.0, size=n)
    b, h = A @ x0, G @ x0 + rng.uniform(0.01, 1.0, size=m)
    x, s, z = interior_point(y, G, h, A, b, x0)
    active = z > s
    C, limits = np.concatenate([A, G[active]]), np.concatenate([b, h[active]])
    multipliers = np.zeros(limits.size)
    for _ in range(5):
        top = -(np.log(x) + 1.0 - y + C.T @ multipliers)
        dx, change = saddle(np.diag(1.0 / x), C, top, limits - C @ x)
        x, multipliers = x + dx, multipliers + change
    if (multipliers[p:] < 0).any() or (G @ x > h + 1e-9).any() or (x <= 0).any():
        raise RuntimeError("the interior point did not find the active rows")
    u, v = saddle(np.diag(1.0 / x), C, -x_bar, np.zeros(limits.size))
    return Softmax(y, G, h, A, b, x_bar, x, -u, -v[:p])
