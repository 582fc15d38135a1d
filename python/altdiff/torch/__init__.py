"""Quadratic and other convex programs, and budgets, as PyTorch layers."""

from altdiff._objectives import Linear, LogSumExp, Objective, Quadratic, Separable
from altdiff.torch import _installed  # noqa: F401  (first)
from altdiff.torch._budget import softmax, sparsemax
from altdiff.torch._convex import ConvexLayer, solve_convex
from altdiff.torch._convex_objective import builder, elementwise
from altdiff.torch._qp import QPLayer, Solution, solve_qp
from altdiff.torch._sparse import Sparse

__all__ = [
    "ConvexLayer",
    "Linear",
    "LogSumExp",
    "Objective",
    "QPLayer",
    "Quadratic",
    "Separable",
    "Solution",
    "Sparse",
    "builder",
    "elementwise",
    "softmax",
    "solve_convex",
    "solve_qp",
    "sparsemax",
]
