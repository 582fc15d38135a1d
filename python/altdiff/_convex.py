"""`solve_convex` for NumPy arrays: smooth convex objectives under linear constraints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from altdiff import _convex_batch
from altdiff._arrays import is_sparse, real_array
from altdiff._convex_layout import layout_of_terms
from altdiff._directions import cotangent
from altdiff._fields import CONSTRAINTS, POINT
from altdiff._layer import Solved
from altdiff._objectives import Objective, labels_of
from altdiff._revived import Again
from altdiff._settings import native_settings
from altdiff._solution import Number, Tangent
from altdiff._stack import is_list_of_sparse
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from altdiff._arrays import Array
    from altdiff._convex_layout import ConvexLayout
    from altdiff._settings import Settings


class ConvexGradient(NamedTuple):
    """Gradients, shaped as what they belong to; None for what was not given.

    `objective` has a dictionary for each term, in order: `gradient.objective[0]["q"]`. What several instances
    share gets the sum over them.
    """

    objective: tuple[dict[str, Array | None], ...]
    G: Array | None
    h: Array | None
    A: Array | None
    b: Array | None
    lb: Array | None
    ub: Array | None


@dataclass(frozen=True, eq=False)
class ConvexSolution:
    """The solution of one convex program, or of a batch of them.

    Stationarity reads grad f(x) + A'y + G'z + z_box = 0. In a batch every field has the batch's leading
    dimensions.
    """

    x: Array  # the minimiser (..., n)
    y: Array  # multipliers of A x = b (..., p)
    z: Array  # multipliers of G x <= h, not negative (..., m)
    z_box: Array  # multipliers of the bounds, positive at ub, negative at lb (..., n)
    objective: Number  # f(x)
    status: Number  # an altdiff.Status, or in a batch its integers
    iterations: Number  # rounds of the engine
    primal_residual: Number  # relative, as docs/math.md defines it
    dual_residual: Number  # relative
    duality_gap: Number  # relative
    degenerate: Number  # True: a weak or redundant active row, or x not unique
    unique: Number  # True: no other x has this objective
    margin: Number  # min over the constraints of max(slack, multiplier), scaled
    _solved: Solved = field(repr=False)

    @property
    def _batch(self) -> _convex_batch.ConvexBatch:
        assert isinstance(self._solved.batch, _convex_batch.ConvexBatch)
        return self._solved.batch

    def vjp(
        self,
        x_bar: ArrayLike | None = None,
        y_bar: ArrayLike | None = None,
        z_bar: ArrayLike | None = None,
        z_box_bar: ArrayLike | None = None,
    ) -> ConvexGradient:
        """Gradients of a loss with respect to all numbers, from those with respect to x, y, z, z_box.

        An instance that has no solution to differentiate gets NaN, unless its cotangents are zero.
        """
        bars = dict(zip(POINT, (x_bar, y_bar, z_bar, z_box_bar), strict=True))
        given = {name: cotangent(name, bar, getattr(self, name).shape) for name, bar in bars.items()}
        checked = {name: bar for name, bar in given.items() if bar is not None}
        batch = self._batch
        found = batch.gradients(checked, list(range(len(batch.numbers))), list(CONSTRAINTS), np.nan, False)
        numbers = iter(range(len(batch.numbers)))
        terms = tuple(
            {name: found.numbers[next(numbers)] if name in t.present else None for name in t.term.DIMENSIONS}
            for t in batch.objective or ()
        )
        return ConvexGradient(terms, **{name: found.fields.get(name) for name in CONSTRAINTS})

    def jvp(
        self, objective: Sequence[Mapping[str, ArrayLike]] | None = None, **constraints: ArrayLike
    ) -> Tangent:
        """How the solution moves when numbers move: a mapping for each term, and G, h, A, b, lb, ub."""
        unknown = [name for name in constraints if name not in CONSTRAINTS]
        if unknown:
            raise TypeError(f"jvp takes objective, {', '.join(CONSTRAINTS)}, got {unknown[0]!r}")
        batch = self._batch
        return Tangent(**batch.push_forward(batch.term_tangents(objective), constraints, np.nan, False))

    def jacobian(self, field: str) -> Array:
        """The derivative of x with respect to h, b, lb or ub, (..., n, size of the field)."""
        given = self._batch.layout.program.used
        if field not in ("h", "b", "lb", "ub") or given[field] is None:
            raise ValueError(
                f"field must be one of h, b, lb, ub, and be given, got {field!r}; else use vjp or jvp"
            )
        return self._batch.jacobian(field, np.nan, False)


def solve_convex(
    objective: Objective,
    G: ArrayLike | None = None,
    h: ArrayLike | None = None,
    A: ArrayLike | None = None,
    b: ArrayLike | None = None,
    lb: ArrayLike | None = None,
    ub: ArrayLike | None = None,
    initial: ConvexSolution | ArrayLike | None = None,
    **settings: Unpack[Settings],
) -> ConvexSolution:
    """Minimises a smooth convex objective subject to G x <= h, A x = b, lb <= x <= ub.

    `objective` is a sum of the terms `Linear`, `Quadratic`, `Separable` and `LogSumExp`. All numbers are one
    instance's, or have leading batch dimensions that broadcast. Infinities in h, lb and ub mean that the row
    does not exist. `initial` is a point, or an earlier solution, to start from.
    """
    if not isinstance(objective, Objective):
        kind = type(objective).__name__
        raise TypeError(f"objective must be a sum of Linear, Quadratic, Separable and LogSumExp, got {kind}")
    checked = native_settings(settings)
    layout, numbers, constraints = arrays_of(objective, (G, h, A, b, lb, ub))
    start = None if initial is None else _start(initial)
    problem = _convex_batch.constraint_problem(layout, constraints)
    batch = _convex_batch.solve_arrays(objective.structure, layout, numbers, problem, checked, start)
    return _solution(Solved(batch, call=Again(settings, start)))


def _start(initial: ConvexSolution | ArrayLike) -> dict[str, Array]:
    """All parts of a solution, or x alone."""
    if isinstance(initial, ConvexSolution):
        return {name: getattr(initial, name) for name in POINT}
    return {"x": real_array("initial", initial)}


def arrays_of(
    objective: Objective, given: Sequence[ArrayLike | None]
) -> tuple[ConvexLayout, list[Array], list[Array | None]]:
    """Shapes, the objective's numbers and the constraints, checked and copied.

    Copied because what the user does to an array later must not change a derivative.
    """
    constraints = [
        None if value is None else _copied(name, value)
        for name, value in zip(CONSTRAINTS, given, strict=True)
    ]
    labels = labels_of(objective.structure)
    values = [_copied(name, value) for name, value in zip(labels, objective.present, strict=True)]
    layout = layout_of_terms(
        objective.structure,
        tuple(v.shape for v in values),
        tuple(None if v is None else v.shape for v in constraints),
    )
    numbers = [np.ascontiguousarray(np.broadcast_to(v, s)) for v, s in zip(values, layout.used, strict=True)]
    return layout, numbers, constraints


def _solution(solved: Solved) -> ConvexSolution:
    fields: dict[str, Any] = {**{name: solved.part(name) for name in POINT}, **solved.report}
    if solved.report["status"].shape == ():
        fields.update({name: value.item() for name, value in solved.report.items()})
        fields["status"] = Status(fields["status"])
    return ConvexSolution(**fields, _solved=solved)


def _copied(name: str, value: Any) -> Array:
    if is_sparse(value) or is_list_of_sparse(value):
        raise TypeError(f"{name} is sparse, but convex programs are dense: pass {name}.toarray()")
    array = real_array(name, value)
    return array.copy() if array is value else array
