"""The reader of MATLAB files: the form of the Maros-Meszaros set, or the eight names.

    minimise 1/2 x'Px + q'x + r   subject to   l <= A x <= u

Bounds on x are the last n rows of A where those are the identity; +-1e20 means infinity.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, tril, triu

from altdiff._arrays import is_sparse
from altdiff._fields import FIELDS, MATRICES
from altdiff._readers._mat_file import Other, variables
from altdiff._readers._program import make_program
from altdiff._readers._two_sided import TwoSided

if TYPE_CHECKING:
    from altdiff._arrays import Array, Block
    from altdiff._readers._program import QuadraticProgram

_TWO_SIDED = ("P", "q", "A", "l", "u")
_SIZES = ("n", "m")
_LONGEST = 10**8  # a sparse vector that claims more is from a damaged file, and would fill the memory


def read_mat(content: bytes, name: str) -> QuadraticProgram:
    """The program in the bytes of a .mat file."""
    stored = variables(content)
    constant = _number("r", stored["r"]) if "r" in stored else 0.0
    two_sided = "l" in stored or "u" in stored
    names = _TWO_SIDED if two_sided else FIELDS
    left_out = sorted(set(stored) - {*names, *_SIZES, "r"})
    if left_out:
        warnings.warn(f"{name}: left out {', '.join(left_out)}: not a field", stacklevel=4)
    values = {field: _value(field, stored[field]) for field in names if field in stored}
    if two_sided:
        values = _fields(values, {size: stored[size] for size in _SIZES if size in stored}, name)
    return make_program(values, name=name, constant=constant)


def _value(field: str, value: Block | Other) -> Block:
    """A matrix as it is stored, sparse or dense; anything else as a vector."""
    if isinstance(value, Other):
        raise ValueError(f"{field} must be a matrix of real numbers, got {value.kind}")
    if field in MATRICES:
        if len(value.shape) != 2:
            raise ValueError(f"{field} must be a matrix, got shape {value.shape}")
        return value
    longest = max(value.shape, default=1)
    if math.prod(value.shape) != longest or longest > _LONGEST:
        raise ValueError(f"{field} must be a vector, got shape {value.shape}")
    vector: Array = value.toarray() if is_sparse(value) else value
    return vector.reshape(-1)


def _number(field: str, value: Block | Other) -> float:
    number = _value(field, value)
    if number.size != 1 or not np.isfinite(number).all():
        raise ValueError(f"{field} must be one finite number, got {number}")
    return float(number[0])


def _fields(values: dict[str, Block], sizes: dict[str, Any], name: str) -> dict[str, Any]:
    """The eight fields of the two-sided form, its shapes checked."""
    for field in _TWO_SIDED:
        if field not in values:
            raise ValueError(f"{field} is missing: this form needs {', '.join(_TWO_SIDED)}")
    P, A = csc_array(values["P"]), csc_array(values["A"])
    (m, n), q = A.shape, values["q"]
    shapes = {"P": (n, n), "q": (n,), "l": (m,), "u": (m,)}
    for field, shape in shapes.items():
        if values[field].shape != shape:
            raise ValueError(
                f"{field} must have shape {shape} beside A of {m} x {n}, got {values[field].shape}"
            )
    for size, actual in {"n": n, "m": m}.items():
        if size in sizes and _number(size, sizes[size]) != actual:
            raise ValueError(f"{size} is {_number(size, sizes[size]):g}, but A is {m} x {n}")
    l, u = values["l"], values["u"]  # noqa: E741
    rows = m - n if _ends_in_identity(A) else m
    none = np.full(n, np.inf)
    lb, ub = (l[rows:], u[rows:]) if rows < m else (-none, none)
    return TwoSided(_whole(P, name), q, A[:rows], l[:rows], u[:rows], lb, ub).fields()


def _ends_in_identity(A: Block) -> bool:
    m, n = A.shape
    if m < n:
        return False
    tail = csc_array(A[m - n :])
    tail.sum_duplicates()
    tail.eliminate_zeros()
    return tail.nnz == n and bool((tail.indices == np.arange(n)).all() and (tail.data == 1).all())


def _whole(P: Block, name: str) -> Block:
    """P from one triangle, where that is all a file has: solvers of this form read no more than that."""
    above, below = triu(P, 1).count_nonzero(), tril(P, -1).count_nonzero()
    if bool(above) == bool(below):
        return P
    warnings.warn(f"{name}: P is one triangle of a symmetric matrix, and is completed", stacklevel=6)
    strict = triu(P, 1) if above else tril(P, -1)
    return csc_array(P + strict.T)
