"""Each test fails on the paper's wording, and passes on ours (docs/math.md lists the errata)."""

from __future__ import annotations

from collections.abc import Callable

import altdiff
import numpy as np
import pytest
import scipy.sparse
from altdiff import alternating_differentiation
from helpers.differences import central_difference, relative_error
from helpers.kkt import kkt_jacobian
from helpers.problems import Array, Data, Known, known_problem, natural_problem


def algorithm_1(data: Data, sgn: Callable[[Array], Array], rounds: int) -> Array:
    """dx/db by the paper's equations (6) and (7), with rho = 1 and the given reading of sgn."""
    P, q, G, h, A, b = (data[name] for name in ("P", "q", "G", "h", "A", "b"))
    inverse = np.linalg.inv(P + A.T @ A + G.T @ G)
    s, y, z = np.zeros(h.size), np.zeros(b.size), np.zeros(h.size)
    ds, dy, dz = np.zeros((h.size, b.size)), np.zeros((b.size, b.size)), np.zeros((h.size, b.size))
    dx = np.zeros((q.size, b.size))
    for _ in range(rounds):
        x = -inverse @ (q + A.T @ (y - b) + G.T @ (z + s - h))
        dx = -inverse @ (A.T @ (dy - np.eye(b.size)) + G.T @ (dz + ds))
        s = np.maximum(0.0, h - G @ x - z)
        ds = -sgn(s)[:, None] * (dz + G @ dx)
        y, dy = y + A @ x - b, dy + A @ dx - np.eye(b.size)
        z, dz = z + G @ x + s - h, dz + G @ dx + ds
    return dx


def test_erratum_1_sgn_of_zero_must_be_zero() -> None:
    data = known_problem(seed=2, n=6, m=5, p=2, bounds=False).data
    ours = alternating_differentiation(**data, wrt="b", tolerance=1e-12, stopping="residual")
    exact = kkt_jacobian(data, altdiff.solve_qp(**data), "b")
    strict = algorithm_1(data, lambda s: np.where(s > 0, 1.0, 0.0), ours.iterations)
    printed = algorithm_1(data, lambda s: np.where(s >= 0, 1.0, 0.0), ours.iterations)
    assert relative_error(ours.jacobian, exact) < 1e-8
    assert relative_error(strict, exact) < 1e-8
    assert relative_error(printed, exact) > 0.1


def test_erratum_2_the_papers_stopping_rule_stops_far_from_the_solution() -> None:
    data = natural_problem(seed=0, n=200, m=100, p=20)
    data = {name: data[name] for name in ("P", "q", "G", "h", "A", "b")}

    def dual_residual(stopping: str) -> float:
        result = alternating_differentiation(**data, stopping=stopping, tolerance=1e-3)
        assert result.converged
        stationarity = data["P"] @ result.x + data["q"] + data["A"].T @ result.y + data["G"].T @ result.z
        return float(np.abs(stationarity).max())

    assert dual_residual("paper") > 0.5
    assert dual_residual("residual") < 0.05


def sparsemax(n: int) -> Data:
    """min ||x - y||^2 over the simplex with upper bounds: the layer of the paper's table 4."""
    y = np.random.default_rng(0).normal(size=n)
    return {
        "P": 2.0 * scipy.sparse.eye_array(n, format="csc"),
        "q": -2.0 * y,
        "A": scipy.sparse.csc_array(np.ones((1, n))),
        "b": np.ones(1),
        "lb": np.zeros(n),
        "ub": np.full(n, 0.1),
    }


def test_erratum_3_a_fixed_penalty_needs_ten_thousand_rounds_where_an_adapted_one_needs_few() -> None:
    data = sparsemax(1000)
    exact = altdiff.solve_qp(**data, tolerance=1e-10).x
    fixed = alternating_differentiation(
        **data, rho=1.0, stopping="residual", tolerance=1e-12, max_iterations=10_000
    )
    assert np.abs(fixed.x - exact).max() > 1e-7
    adapted = altdiff.solve_qp(**data, method="alternating", finish=False)
    assert np.abs(adapted.x - exact).max() < 1e-7
    assert adapted.iterations < 5000
    finished = altdiff.solve_qp(**data, method="alternating")
    assert np.abs(finished.x - exact).max() < 1e-12
    assert finished.iterations < 500


def test_erratum_4_the_kkt_jacobian_as_printed_is_wrong() -> None:
    # The printed matrix has diag(Gx - h) under the multipliers of A x = b, so it needs as many rows in G as
    # in A.
    known = known_problem(seed=5, n=5, m=2, p=2, bounds=False)
    active = np.flatnonzero(known.z)
    assert active.size == 2
    # One active and one inactive row, so that both of its diagonals matter.
    h = known.data["h"].copy()
    h[active[1]] += 10.0
    data = {**known.data, "h": h}
    solution = altdiff.solve_qp(**data)
    P, G, A = data["P"], data["G"], data["A"]
    slack, nothing = np.diag(G @ solution.x - h), np.zeros((2, 2))
    scaled = np.diag(solution.z) @ G
    right = np.vstack([np.zeros((5, 2)), np.eye(2), nothing])
    printed = np.block([[P, A.T, G.T], [A, nothing, nothing], [scaled, slack, nothing]])
    corrected = np.block([[P, A.T, G.T], [A, nothing, nothing], [scaled, nothing, slack]])

    columns = [
        central_difference(lambda b: altdiff.solve_qp(**{**data, "b": b}).x, data["b"], e) for e in np.eye(2)
    ]
    differences = np.stack(columns, axis=1)
    assert relative_error(solution.jacobian("b"), differences) < 1e-6
    assert relative_error(np.linalg.solve(corrected, right)[:5], differences) < 1e-6
    # Least squares, because the printed matrix may be singular.
    wrong, *_ = np.linalg.lstsq(printed, right)
    assert relative_error(wrong[:5], differences) > 0.1


def nearly_degenerate(delta: float) -> Known:
    """A problem with an active row whose multiplier is only `delta`."""
    known = known_problem(seed=0, n=6, m=5, p=1, bounds=False)
    z = known.z.copy()
    z[np.flatnonzero(z)[0]] = delta
    P, A, G = known.data["P"], known.data["A"], known.data["G"]
    data = {**known.data, "q": -(P @ known.x + A.T @ known.y + G.T @ z)}
    return Known(data, known.x, known.y, z, known.z_box)


def errors_by_round(known: Known, rounds: range) -> tuple[Array, Array, list[bool]]:
    """The errors of x and of dx/db after each number of rounds, and whether the active set was right."""
    exact = kkt_jacobian(known.data, known, "b")
    x_errors, gradient_errors, right = [], [], []
    for count in rounds:
        result = alternating_differentiation(**known.data, max_iterations=count, tolerance=1e-300)
        x_errors.append(np.linalg.norm(result.x - known.x))
        gradient_errors.append(np.linalg.norm(result.jacobian - exact))
        right.append(np.array_equal(result.z > 0, known.z > 0))
    return np.array(x_errors), np.array(gradient_errors), right


def test_erratum_5_no_constant_bounds_the_gradient_error_before_the_active_set_is_right() -> None:
    ratios = []
    for delta in (1e-1, 1e-3, 1e-5):
        x_error, gradient_error, right = errors_by_round(nearly_degenerate(delta), range(1, 300, 2))
        last_wrong = max(index for index, known in enumerate(right) if not known)
        # The wrong row dominates: the gradient stays wrong by as much while x comes ever closer.
        assert gradient_error[last_wrong] > 0.5
        ratios.append(gradient_error[last_wrong] / x_error[last_wrong])
        # Afterwards both fall together, down to rounding.
        late = np.arange(x_error.size) > last_wrong + 50
        late &= x_error > 1e-11
        settled = gradient_error[late] / x_error[late]
        assert settled.max() < 2 * settled.min()
    assert ratios[1] > 10 * ratios[0]
    assert ratios[2] > 10 * ratios[1]


@pytest.mark.parametrize(
    ("first_row", "second_row", "equalities", "elements"),
    [(100, 30, 10, 1.96e4), (300, 100, 20, 1.76e5), (500, 200, 20, 5.18e5), (1000, 500, 200, 2.89e6)],
)
def test_erratum_6_the_first_row_of_table_6_is_n(
    first_row: int, second_row: int, equalities: int, elements: float
) -> None:
    # Both rows are labelled m. The KKT matrix has (n + m + p)^2 elements, which fits only if the first is n.
    kkt_elements = (first_row + second_row + equalities) ** 2
    assert float(f"{kkt_elements:.2e}") == elements
