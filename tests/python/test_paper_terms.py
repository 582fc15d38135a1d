"""The paper's Algorithm 1 on built-in objectives: its Jacobian is the derivative of the solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from altdiff import Linear, Separable, alternating_differentiation, solve_convex
from helpers.convex_problems import EXAMPLES, N, binding_constraints, example, parted
from helpers.differences import relative_error

TIGHT: dict[str, Any] = {"tolerance": 1e-12, "stopping": "residual"}
VECTORS = ("b", "h", "lb", "ub")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_jacobian_of_every_number_is_that_of_solve_convex(name: str) -> None:
    numbers, constraints = parted({**example(name).numbers, **binding_constraints()})
    objective = example(name).build(**numbers)
    solution = solve_convex(objective, **constraints, tolerance=1e-11)
    for field in VECTORS:
        result = alternating_differentiation(objective=objective, **constraints, wrt=field, **TIGHT)
        assert result.converged
        assert relative_error(result.x, solution.x) < 1e-8
        assert relative_error(result.jacobian, solution.jacobian(field)) < 1e-6, field
    for t, term in enumerate(objective.terms):
        for field, value in term.numbers.items():
            holders = [other for other in objective.terms if other.numbers.get(field) is not None]
            if value is None or len(holders) > 1:
                continue
            result = alternating_differentiation(objective=objective, **constraints, wrt=field, **TIGHT)
            assert result.jacobian.shape == (N, *np.shape(value))
            for i in np.ndindex(*np.shape(value)):
                unit = np.zeros(np.shape(value))
                unit[i] = 1.0
                moved = solution.jvp([{field: unit} if s == t else {} for s in range(len(objective.terms))])
                assert relative_error(result.jacobian[(slice(None), *i)], moved.x) < 1e-6, (field, i)


def test_a_tangent_of_the_constraints_and_of_a_linear_term_is_that_of_jvp() -> None:
    rng = np.random.default_rng(1)
    numbers, constraints = parted({**example("entropy").numbers, **binding_constraints()})
    objective = example("entropy").build(**numbers)
    tangent: dict[str, Any] = {field: rng.normal(size=value.shape) for field, value in constraints.items()}
    q = rng.normal(size=N)
    result = alternating_differentiation(
        objective=objective, **constraints, tangent={**tangent, "q": q}, **TIGHT
    )
    moved = solve_convex(objective, **constraints, tolerance=1e-11).jvp([{"q": q}, {}], **tangent)
    assert relative_error(result.jacobian, moved.x) < 1e-6


def test_mistakes_are_named() -> None:
    simplex: dict[str, Any] = {"A": np.ones((1, 3)), "b": np.ones(1)}
    objective = Linear(np.zeros(3)) + Separable("entropy", np.ones(3)) + Separable("square", 0.1)
    with pytest.raises(ValueError, match=r"wrt must be q, .* but 2 terms have weight"):
        alternating_differentiation(objective=objective, **simplex, wrt="weight")
    with pytest.raises(ValueError, match=r"wrt must be q, .* \(q, weight\), got 'h'"):
        alternating_differentiation(objective=objective, **simplex, wrt="h")
    with pytest.raises(ValueError, match="objective replaces P and q"):
        alternating_differentiation(q=np.ones(3), objective=objective, **simplex)
    with pytest.raises(ValueError, match="takes one instance"):
        alternating_differentiation(objective=Linear(np.zeros((2, 3))) + Separable("entropy"), **simplex)
    with pytest.raises(ValueError, match=r"Linear\.q must not hold NaN"):
        alternating_differentiation(objective=Linear(np.full(3, np.nan)) + Separable("entropy"), **simplex)
    with pytest.raises(TypeError, match=r"objective must be an altdiff\.Objective"):
        alternating_differentiation(objective=3, **simplex)  # type: ignore[arg-type]
