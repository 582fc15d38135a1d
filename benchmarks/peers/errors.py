"""Relative errors of a solution and its gradients, against the exact reference."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.peers.problems import Array, Mask, Problem
from benchmarks.peers.reference import Reference

ZERO = 1e-12  # relative to the batch's largest entry; at a vertex q has no gradient, but for rounding
BLOCK = 1024  # rows of a gradient that are compared at a time, so that large ones need little memory


def _ratio(difference: Array, size: Array) -> float:
    """Worst over the batch of largest error / largest entry.

    Where the exact value is zero (no row is active, so h has no gradient), the batch's largest entry
    takes its place.
    """
    largest = size.max(initial=0.0) or 1.0
    worst = float((difference / np.where(size > ZERO * largest, size, largest)).max())
    return worst if math.isfinite(worst) else math.inf


def _vector_error(value: Array, exact: Array) -> float:
    """Of one row an instance."""
    return _ratio(np.abs(value - exact).max(axis=1), np.abs(exact).max(axis=1))


def _peaks(value: Array, left: Array, right: Array, mask: Mask, symmetric: bool) -> tuple[float, float]:
    """Largest entries of value - left'right and of left'right, where the mask is set."""
    difference = size = 0.0
    for k in range(0, len(value), BLOCK):
        rows = slice(k, k + BLOCK)
        exact = left[:, rows].T @ right
        block = (value[rows] + value[:, rows].T) / 2 if symmetric else value[rows]
        distance = np.where(mask[rows], np.nan_to_num(np.abs(block - exact), nan=math.inf), 0.0)
        difference = max(difference, float(distance.max()))
        size = max(size, float(np.abs(exact, where=mask[rows], out=np.zeros_like(exact)).max()))
    return difference, size


def _matrix_error(name: str, value: Array, mask: Mask, shared: bool, exact: Reference) -> float:
    """Of a gradient that is a sum of two outer products an instance, summed over the batch if shared."""
    by_x, by_u = {"P": (exact.u / 2, exact.x / 2), "G": (exact.r, exact.z), "A": (exact.v, exact.y)}[name]
    left, right = np.stack([by_x, by_u]), np.stack([exact.x, exact.u])
    if shared:
        values, left, right = (
            value[None],
            left.reshape(-1, 1, left.shape[-1]),
            right.reshape(-1, 1, right.shape[-1]),
        )
    else:
        values = value.reshape(-1, *value.shape[-2:])
    peaks = [_peaks(values[k], left[:, k], right[:, k], mask, name == "P") for k in range(len(values))]
    difference, size = (np.array(column) for column in zip(*peaks, strict=True))
    return _ratio(difference, size)


def relative_errors(
    problem: Problem,
    exact: Reference,
    x: Array,
    gradients: dict[str, Array],
    structure: dict[str, Mask] | None = None,
) -> dict[str, float]:
    """The error of x, and of the gradient of every field that is not empty, inside its structure if any."""
    errors = {"x": _vector_error(x.reshape(exact.x.shape), exact.x)}
    vectors = {"q": exact.u, "h": -exact.r, "b": -exact.v}
    for name, value in gradients.items():
        if value.size == 0:
            continue
        shared = problem.is_shared(name)
        if name in vectors:
            summed = vectors[name].sum(axis=0, keepdims=True) if shared else vectors[name]
            errors[name] = _vector_error(value.reshape(summed.shape), summed)
        else:
            mask = (structure or {}).get(name, np.ones(value.shape[-2:], np.bool_))
            errors[name] = _matrix_error(name, value, mask, shared, exact)
    return errors
