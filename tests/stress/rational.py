"""Exact arithmetic on small matrices of integers and fractions."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from tests.stress.programs import Array


def exact(array: Array) -> Array:
    """The same numbers as fractions, in an array of objects."""
    return _each(Fraction, np.asarray(array, dtype=np.float64))


def whole(array: Array) -> Array:
    """Each row times the least number that makes it integers, in an array of objects."""
    if not array.size:
        return array.astype(object)
    if (array == np.rint(array)).all():
        return _each(int, array)
    fractions = exact(array)
    for row in fractions:
        row[:] = row * lcm(*(entry.denominator for entry in row))
    return _each(int, fractions)


def solve(K: Array, right: Array) -> Array | None:
    """K^-1 right in fractions; None where K is singular. `right` has a column for each case."""
    rows = np.concatenate([K, right], axis=1)
    size = len(K)
    for k in range(size):
        pivot = next((i for i in range(k, size) if rows[i, k] != 0), None)
        if pivot is None:
            return None
        if pivot != k:
            rows[[k, pivot]] = rows[[pivot, k]]
        rows[k, k:] = rows[k, k:] / rows[k, k]
        for i in range(size):
            if i != k and rows[i, k] != 0:
                rows[i, k:] = rows[i, k:] - rows[i, k] * rows[k, k:]
    return np.asarray(rows[:, size:])


def semidefinite(P: Array) -> bool:
    """Whether the symmetric part of a matrix of floats is positive semidefinite, exactly."""
    S = exact(P)
    S = S + S.T
    for k in range(len(S)):
        if S[k, k] < 0 or (S[k, k] == 0 and (S[k, k:] != 0).any()):
            return False
        if S[k, k] != 0:
            S[k + 1 :, k + 1 :] = (
                S[k + 1 :, k + 1 :] - np.multiply.outer(S[k + 1 :, k], S[k, k + 1 :]) / S[k, k]
            )
    return True


def _each(kind: Any, array: Array) -> Array:
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [kind(entry) for entry in array.ravel().tolist()]
    return out
