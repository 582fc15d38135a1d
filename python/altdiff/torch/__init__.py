"""Quadratic programs and budgets as PyTorch layers."""

from altdiff.torch._budget import softmax, sparsemax
from altdiff.torch._qp import QPLayer, Solution, solve_qp
from altdiff.torch._sparse import Sparse

__all__ = ["QPLayer", "Solution", "Sparse", "softmax", "solve_qp", "sparsemax"]
