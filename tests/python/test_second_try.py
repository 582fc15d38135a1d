"""Problems on which the usual way gives up: what is tried then, and that it claims nothing that is not so."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status
from helpers.problems import known_problem

from benchmarks.fuzz.problems import make
from benchmarks.fuzz.proofs import proved

# Rows or objectives of 1e-8 to 1e8; infeasible by little; infeasible by a row of zeros.
STALLED = (582, 768, 891, 1549, 1747, 1818, 2932, 415, 6021, 12729, 15602, 216, 1124, 4550, 5643, 14551)


def sparse(matrix: Any) -> Any:
    """The matrix as users hand it over."""
    return sp.csc_matrix(np.asarray(matrix, dtype=float))


@pytest.mark.parametrize("seed", STALLED)
def test_what_stalls_at_first_gets_an_answer_with_a_proof(seed: int) -> None:
    case = make(seed)
    assert proved(case, altdiff.solve_qp(**case.arguments()))


@pytest.mark.parametrize("kind", [sparse, np.asarray])
def test_a_row_that_holds_for_every_x_changes_nothing_however_large(kind: Any) -> None:
    known = known_problem(seed=1, n=6, m=5, p=2)
    data = known.data
    G, h = np.vstack([data["G"], np.zeros((3, 6))]), np.concatenate([data["h"], [0.0, 1.0, 1e14]])
    wide = {**data, "P": kind(data["P"]), "G": kind(G), "h": h, "A": kind(data["A"])}
    solution = altdiff.solve_qp(**wide, method="interior_point")
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.x, known.x, atol=1e-10)
    np.testing.assert_array_equal(solution.z[-3:], 0)
    gradient = solution.vjp(np.ones(6))
    np.testing.assert_array_equal(np.asarray(gradient.h)[-3:], 0)


@pytest.mark.parametrize("kind", [sparse, np.asarray])
@pytest.mark.parametrize("limit", [-1e-6, -0.3, -1e9])
def test_a_row_of_zeros_with_a_negative_limit_proves_infeasibility(kind: Any, limit: float) -> None:
    rng = np.random.default_rng(0)
    A, G = rng.normal(size=(2, 5)), np.vstack([rng.normal(size=(3, 5)), np.zeros(5)])
    h = np.array([1.0, -0.2, 0.5, limit])
    solution = altdiff.solve_qp(kind(np.eye(5)), np.ones(5), kind(G), h, kind(A), np.ones(2))
    assert solution.status is Status.PRIMAL_INFEASIBLE
    assert solution.z[3] > 0


def test_a_second_try_does_not_exceed_the_iterations_that_were_allowed() -> None:
    solution = altdiff.solve_qp(**make(72).arguments(), max_iterations=5)
    assert solution.status is Status.MAX_ITERATIONS
    assert solution.iterations == 5
