"""Quadratic programs and budgets as PyTorch layers."""

from altdiff.torch._budget import softmax, sparsemax
from altdiff.torch._qp import QPLayer, Solution, solve_qp

__all__ = ["QPLayer", "Solution", "softmax", "solve_qp", "sparsemax"]
