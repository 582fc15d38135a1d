"""What `solve_qp` returns: a solution, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from altdiff import _layer
from altdiff._directions import cotangent
from altdiff._fields import POINT
from altdiff._stack import SparseStack
from altdiff._status import Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from altdiff._arrays import Array, Block, MatrixLike
    from altdiff._layer import Solved


# A number, or in a batch an array of them. Not a union, which would ask every caller which one it is.
Number: TypeAlias = Any


class Gradient(NamedTuple):
    """Gradients of the eight fields, shaped as the fields were given; None for a field that was not.

    A sparse matrix gets a csc matrix on its own pattern. The gradient of P is symmetric. An array that
    several instances share gets the sum over them.
    """

    P: Block
    q: Block
    G: Block
    h: Block
    A: Block
    b: Block
    lb: Block
    ub: Block


class Tangent(NamedTuple):
    """Directional derivatives of the solution, shaped as the solution."""

    x: Array
    y: Array
    z: Array
    z_box: Array


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of one quadratic program, or of a batch of them.

    Stationarity reads P x + q + A'y + G'z + z_box = 0. In a batch every field has the batch's leading
    dimensions.
    """

    x: Array  # the minimiser (..., n)
    y: Array  # multipliers of A x = b (..., p)
    z: Array  # multipliers of G x <= h, not negative (..., m)
    z_box: Array  # multipliers of the bounds, positive at ub, negative at lb (..., n)
    objective: Number  # 1/2 x'Px + q'x
    status: Number  # how the solve ended, a Status; a batch holds the integers of Status
    iterations: Number  # rounds of the engine
    primal_residual: Number  # relative, as docs/math.md defines it
    dual_residual: Number  # relative
    duality_gap: Number  # relative
    degenerate: Number  # True: a weak or redundant active row, or x not unique
    unique: Number  # True: no other x has this objective
    margin: Number  # min over the constraints of max(slack, multiplier), scaled
    _solved: Solved = field(repr=False)

    def vjp(
        self,
        x_bar: ArrayLike | None = None,
        y_bar: ArrayLike | None = None,
        z_bar: ArrayLike | None = None,
        z_box_bar: ArrayLike | None = None,
    ) -> Gradient:
        """Gradients of a loss with respect to the eight fields, from those with respect to x, y, z, z_box.

        An instance that has no solution to differentiate gets NaN, unless its cotangents are zero.
        """
        bars = dict(zip(POINT, (x_bar, y_bar, z_bar, z_box_bar), strict=True))
        checked = {name: cotangent(name, bar, getattr(self, name).shape) for name, bar in bars.items()}
        gradients: dict[str, Any] = _layer.vjp(self._solved, checked)
        return Gradient(
            **{
                name: value.matrices() if isinstance(value, SparseStack) else value
                for name, value in gradients.items()
            }
        )

    def jvp(
        self,
        P: MatrixLike | None = None,
        q: ArrayLike | None = None,
        G: MatrixLike | None = None,
        h: ArrayLike | None = None,
        A: MatrixLike | None = None,
        b: ArrayLike | None = None,
        lb: ArrayLike | None = None,
        ub: ArrayLike | None = None,
    ) -> Tangent:
        """How the solution moves when the fields move in the given directions (missing: they stay)."""
        tangents = {"P": P, "q": q, "G": G, "h": h, "A": A, "b": b, "lb": lb, "ub": ub}
        return Tangent(**_layer.jvp(self._solved, tangents))

    def jacobian(self, field: str) -> Array:
        """The derivative of x with respect to q, h, b, lb or ub, (..., n, size of the field)."""
        return _layer.jacobian(self._solved, field)


def make_solution(solved: Solved) -> Solution:
    """The solution that users see: plain numbers when nothing is batched."""
    fields: dict[str, Any] = {**{name: solved.part(name) for name in POINT}, **solved.report}
    if solved.report["status"].shape == ():
        fields.update({name: value.item() for name, value in solved.report.items()})
        fields["status"] = Status(fields["status"])
    return Solution(**fields, _solved=solved)
