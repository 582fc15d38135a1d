"""Quadratic programs and other convex programs as PyTorch layers."""

from altdiff._objectives import Linear, LogSumExp, Objective, Quadratic, Separable
from altdiff.torch._convex import ConvexLayer, solve_convex
from altdiff.torch._convex_objective import builder, elementwise
from altdiff.torch._qp import QPLayer, Solution, solve_qp

__all__ = [
    "ConvexLayer",
    "Linear",
    "LogSumExp",
    "Objective",
    "QPLayer",
    "Quadratic",
    "Separable",
    "Solution",
    "builder",
    "elementwise",
    "solve_convex",
    "solve_qp",
]
