"""Libraries that want all rows in one matrix, C = [A; G], and matrices as entries of a pattern."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.layers.base import Tensor, TorchLayer, leaf
from benchmarks.peers.problems import Array, Mask, Problem


class Pattern:
    """Where a matrix, or any matrix of a batch, has entries; and their order, by rows or by columns."""

    def __init__(self, matrix: Array, by_columns: bool) -> None:
        self.mask: Mask = (matrix != 0).any(axis=tuple(range(matrix.ndim - 2)))
        if by_columns:
            self.columns, self.rows = np.nonzero(self.mask.T)
        else:
            self.rows, self.columns = np.nonzero(self.mask)

    def entries(self, matrix: Array) -> Array:
        """A matrix (or a batch of them) as a vector of its entries."""
        return np.asarray(matrix[..., self.rows, self.columns])

    def matrix(self, entries: Array) -> Array:
        """The matrix again."""
        matrix = np.zeros((*entries.shape[:-1], *self.mask.shape))
        matrix[..., self.rows, self.columns] = entries
        return matrix


def stacked(problem: Problem) -> Array:
    """[A; G]; both are shared, or neither."""
    A = problem.A if problem.p else np.zeros((*problem.G.shape[:-2], 0, problem.n))
    return np.concatenate([A, problem.G], axis=-2)


class StackedLayer(TorchLayer):
    """Leaves: the entries of P and C, q, and d = (b; h), of which both are shared, or neither."""

    by_columns = False  # order of the entries

    def make_leaves(self, problem: Problem) -> dict[str, Tensor]:
        """P, C, q, d."""
        C, h = stacked(problem), problem.h
        b = problem.b if problem.p else np.zeros((*h.shape[:-1], 0))
        self.of_P, self.of_C = Pattern(problem.P, self.by_columns), Pattern(C, self.by_columns)
        return {
            "P": leaf(self.of_P.entries(problem.P)),
            "C": leaf(self.of_C.entries(C)),
            "q": leaf(problem.q),
            "d": leaf(np.concatenate([b, h], axis=-1)),
        }

    def right_side(self) -> Array:
        """The gradient of d."""
        return self.gradient("d")

    def gradients(self) -> dict[str, Array]:
        """Of the fields."""
        p, d = self.problem.p, self.right_side()
        C = self.of_C.matrix(self.gradient("C"))
        return {
            "P": self.of_P.matrix(self.gradient("P")),
            "q": self.gradient("q"),
            "G": C[..., p:, :],
            "h": d[..., p:],
            "A": C[..., :p, :],
            "b": d[..., :p],
        }

    def structure(self) -> dict[str, Mask]:
        """Entries outside the pattern are no input of the library, so it gives them no gradient."""
        p = self.problem.p
        return {"P": self.of_P.mask, "G": self.of_C.mask[p:], "A": self.of_C.mask[:p]}
