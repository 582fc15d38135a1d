"""`solve_qp` for NumPy arrays and scipy.sparse matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from altdiff import _layer
from altdiff._problem import make_problem
from altdiff._revived import Again
from altdiff._settings import native_settings
from altdiff._solution import make_solution
from altdiff._start import parts_of, start_from

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from altdiff._arrays import MatrixLike
    from altdiff._settings import Settings
    from altdiff._solution import Solution


def solve_qp(
    P: MatrixLike,
    q: ArrayLike,
    G: MatrixLike | None = None,
    h: ArrayLike | None = None,
    A: MatrixLike | None = None,
    b: ArrayLike | None = None,
    lb: ArrayLike | None = None,
    ub: ArrayLike | None = None,
    initial: Solution | None = None,
    **settings: Unpack[Settings],
) -> Solution:
    """Minimises 1/2 x'Px + q'x subject to G x <= h, A x = b, lb <= x <= ub.

    Each argument is one instance's array, or has leading batch dimensions that broadcast as NumPy's do. P, G
    and A may be scipy.sparse matrices, shared by the batch, or lists of them that store the same entries, one
    for each instance. Only the symmetric part of P counts. Infinities
    in h, lb and ub mean that the row does not exist. `initial` is an earlier solution to start from.
    """
    checked = native_settings(settings)
    arguments = {"P": P, "q": q, "G": G, "h": h, "A": A, "b": b, "lb": lb, "ub": ub}
    # Copies: what the user does to an array later must not change a derivative.
    problem = make_problem({name: _copied(value) for name, value in arguments.items()})
    start = None if initial is None else start_from(parts_of(initial), problem.layout)
    solved = _layer.solve(problem, checked, start)
    solved.call = Again(settings, start)
    return make_solution(solved)


def _copied(value: MatrixLike | None) -> MatrixLike | None:
    return value.copy(order="C") if isinstance(value, np.ndarray) else value
