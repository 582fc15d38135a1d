"""The paper's Algorithm 1 on a sum of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from altdiff._convex import arrays_of
from altdiff._convex_batch import TERM_FIELDS, Numbers, constraint_problem, native_terms, require_numbers
from altdiff._directions import block, direction
from altdiff._fields import CONSTRAINTS, FIELDS, MATRICES
from altdiff._native import core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._arrays import Array
    from altdiff._binding import Blocks, NativeResult
    from altdiff._convex_layout import ConvexLayout
    from altdiff._objectives import Objective
    from altdiff._problem import Problem

_VECTORS = ("q", *(name for name in CONSTRAINTS if name not in MATRICES))


def differentiate_terms(
    objective: Objective,
    given: Mapping[str, Any],
    wrt: str,
    tangent: Mapping[str, Any] | None,
    settings: tuple[float, float, str, int, bool, float],
) -> tuple[NativeResult, Array]:
    """The last round, and the Jacobian in the shape of what it is with respect to."""
    layout, numbers, constraints = arrays_of(objective, [given[name] for name in CONSTRAINTS])
    if layout.program.batch != ():
        raise ValueError("alternating_differentiation takes one instance, without batch dimensions")
    problem = constraint_problem(layout, constraints)
    problem.invalid()
    require_numbers(layout, numbers)
    n = layout.program.sizes["n"]
    native = core.TermProblem(
        n,
        native_terms(objective.structure, layout, Numbers.of_arrays(numbers).addresses),
        *(problem.values[name] for name in CONSTRAINTS),
    )
    if tangent is not None:
        result = native.alternating_differentiation(None, None, _blocks(problem, tangent), *settings)
        return result, result.jacobian[:, 0]
    field, place = _with_respect_to(objective, problem, wrt)
    result = native.alternating_differentiation(field, place, None, *settings)
    return result, result.jacobian if place is None else _shaped(objective, layout, place, result.jacobian)


def _with_respect_to(
    objective: Objective, problem: Problem, wrt: str
) -> tuple[str | None, tuple[int, int] | None]:
    """A vector of the constraints or a linear term, or the one field of a term that has this name."""
    if wrt in _VECTORS and (wrt == "q" or problem.values[wrt] is not None):
        return wrt, None
    terms = objective.terms
    holders = [t for t, term in enumerate(terms) if term.numbers.get(wrt) is not None]
    if len(holders) != 1:
        names = sorted({name for term in terms for name, v in term.numbers.items() if v is not None})
        several = f", but {len(holders)} terms have {wrt}" if holders else f", got {wrt!r}"
        raise ValueError(
            "wrt must be q, a given vector of the constraints, or a number of a single term "
            f"({', '.join(names)}){several}"
        )
    return None, (holders[0], TERM_FIELDS.index(wrt))


def _shaped(objective: Objective, layout: ConvexLayout, place: tuple[int, int], jacobian: Array) -> Array:
    """(n, *shape of the number); of a number that stands for all rows, the sum over them."""
    term, field = place
    before = sum(v is not None for t in objective.terms[:term] for v in t.numbers.values())
    own = [name for name, v in objective.terms[term].numbers.items() if v is not None]
    shape = layout.numbers[before + own.index(TERM_FIELDS[field])].shape
    return np.asarray(jacobian.sum(axis=1) if shape == () else jacobian.reshape(len(jacobian), *shape))


def _blocks(problem: Problem, tangent: Mapping[str, Any]) -> Blocks:
    names = FIELDS[1:]
    unknown = [name for name in tangent if name not in names]
    if unknown:
        raise ValueError(f"tangent must name fields among {', '.join(names)}, got {unknown[0]!r}")
    directions = {name: direction(problem, name, tangent.get(name)) for name in FIELDS}
    P, q, G, h, A, b, lb, ub = (block(problem, name, directions[name], ()) for name in FIELDS)
    return P, q, G, h, A, b, lb, ub
