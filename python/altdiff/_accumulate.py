"""Gathers the gradient of one field over a batch, in the shape that the user gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from altdiff._arrays import is_sparse, on_pattern
from altdiff._fields import MATRICES
from altdiff._stack import SparseStack

if TYPE_CHECKING:
    from altdiff._arrays import Array, Block
    from altdiff._problem import Index, Problem


class Accumulator:
    """The sum of one field's gradients over the instances that share it; each instance's own otherwise."""

    def __init__(self, problem: Problem, name: str) -> None:
        self._problem = problem
        self._name = name
        self._value = problem.values[name]
        given = problem.layout.given[name]
        if given is None:
            raise ValueError(f"{name} is absent and has no gradient")
        self._given = given
        self._stacked = isinstance(self._value, SparseStack)
        self._pattern = self._value if is_sparse(self._value) else None
        if isinstance(self._value, SparseStack):
            self._pattern = self._value.pattern
        # A scalar bound is gathered as the vector that it stands for. What had no entry keeps its empty
        # shape.
        stored: Block = self._value if self._pattern is None or self._value is None else self._value.data
        self._total: Array = np.zeros(given if stored is None else stored.shape)

    def add(self, index: Index, gradient: Array) -> None:
        """Adds the gradient of one instance as the core returns it: of a matrix the stored entries."""
        if self._value is None:
            return
        if self._pattern is None and self._problem.sparse and self._name in MATRICES:
            # The core saw a csc matrix with every entry stored, column after column.
            rows, columns = self._problem.layout.shape(self._name)
            gradient = gradient.reshape(columns, rows).T
        self._add(index, gradient)

    def add_dense(self, index: Index, gradient: Array) -> None:
        """Adds a dense gradient of one instance, of which a sparse field takes its own entries."""
        if self._value is None:
            return
        if self._pattern is not None:
            columns = np.repeat(np.arange(self._pattern.shape[1]), np.diff(self._pattern.indptr))
            gradient = gradient[self._pattern.indices, columns]
        self._add(index, gradient)

    def fill(self, index: Index, value: float) -> None:
        """Adds `value` to every entry, where an instance has no gradient."""
        if self._value is not None:
            self._add(index, value)

    def result(self) -> Block:
        """The gradient, shaped as the field was given."""
        if self._stacked:
            return SparseStack(self._pattern, self._total)
        if self._pattern is not None:
            return on_pattern(self._pattern, self._total)
        return np.asarray(self._total.sum()) if self._given == () else self._total

    def _add(self, index: Index, gradient: Array | float) -> None:
        self._total[self._problem.own_index(self._name, index)] += gradient
