"""How a solve ended."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """How a solve ended; the integers are those of the C++ core.

    SOLVED is a promise: the residuals, recomputed from the data in double precision, are below tolerance.
    """

    SOLVED = 0  # residuals and gap below tolerance
    MAX_ITERATIONS = 1  # stopped early; x is the last iterate
    TIME_LIMIT = 2  # stopped early; x is the last iterate
    PRIMAL_INFEASIBLE = 3  # no x satisfies the constraints; y, z, z_box hold a certificate
    DUAL_INFEASIBLE = 4  # unbounded below; x holds a ray
    NONCONVEX = 5  # P has a negative direction
    INVALID_DATA = 6  # this instance of a batch holds NaN or an infinity where none is allowed
    NUMERICAL_ERROR = 7  # rounding errors spoiled the answer

    def __str__(self) -> str:
        return self.name
