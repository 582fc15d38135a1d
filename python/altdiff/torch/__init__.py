"""Quadratic programs as PyTorch layers."""

from altdiff.torch._qp import QPLayer, Solution, solve_qp

__all__ = ["QPLayer", "Solution", "solve_qp"]
