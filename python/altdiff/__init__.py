"""altdiff: quadratic programs as differentiable layers.

    minimise 1/2 x'Px + q'x   subject to   G x <= h,  A x = b,  lb <= x <= ub

`solve_qp` takes NumPy arrays and scipy.sparse matrices, `solve_convex` other smooth convex objectives;
`sparsemax` and `softmax` share out a total within limits; `read_qp` reads problems from files;
`altdiff.torch` holds the PyTorch layers, `altdiff.compat` drop-ins for those of other libraries.
"""

from altdiff._budget import BudgetGradient, BudgetSolution, softmax, solve_budget, sparsemax
from altdiff._convex import ConvexGradient, ConvexSolution, solve_convex
from altdiff._errors import SolveError
from altdiff._native import core as _core
from altdiff._objectives import Linear, LogSumExp, Objective, Quadratic, Separable
from altdiff._paper import Entropy, alternating_differentiation
from altdiff._readers import QuadraticProgram, read_qp
from altdiff._solution import Gradient, Solution, Tangent
from altdiff._solve import solve_qp
from altdiff._status import Status

__version__: str = _core.build_info()["version"]

__all__ = [
    "BudgetGradient",
    "BudgetSolution",
    "ConvexGradient",
    "ConvexSolution",
    "Entropy",
    "Gradient",
    "Linear",
    "LogSumExp",
    "Objective",
    "Quadratic",
    "QuadraticProgram",
    "Separable",
    "Solution",
    "SolveError",
    "Status",
    "Tangent",
    "__version__",
    "alternating_differentiation",
    "read_qp",
    "softmax",
    "solve_budget",
    "solve_convex",
    "solve_qp",
    "sparsemax",
]
