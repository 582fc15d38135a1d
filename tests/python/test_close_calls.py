"""Rows that hardly are independent, vertices under a tiny P, opposed rows: one verdict in every way."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp

from tests.stress.rational import exact, solve

Data = dict[str, Any]


def in_every_way(data: Data) -> dict[str, tuple[Any, Any]]:
    """Solutions, and what picks the program out of each: alone, sparse, in a small batch."""
    sparse: Data = {name: sp.csc_array(value) if name in "PGA" else value for name, value in data.items()}
    batch: Data = {name: np.stack([value] * 5) for name, value in data.items()}
    return {
        "alone": (altdiff.solve_qp(**data), ...),
        "sparse": (altdiff.solve_qp(**sparse), ...),
        "batch": (altdiff.solve_qp(**batch), 3),
    }


def gradients(solution: Any, slot: Any, x_bar: Any) -> dict[str, Any]:
    bar = x_bar if slot is ... else np.stack([x_bar] * 5)
    back = solution.vjp(bar)._asdict()
    names = ("q", "h", "b", "lb", "ub")
    return {name: np.asarray(back[name])[slot] for name in names if back[name] is not None}


def assert_alike(data: Data) -> None:
    """Flags, multipliers and gradients."""
    ways = in_every_way(data)
    x_bar = np.arange(1.0, 1.0 + len(data["q"]))
    first, _ = ways["alone"]
    for way, (solution, slot) in ways.items():
        assert np.all(solution.status == altdiff.Status.SOLVED), way
        assert np.asarray(solution.unique)[slot] == first.unique, way
        assert np.asarray(solution.degenerate)[slot] == first.degenerate, way
        for name in ("x", "y", "z", "z_box"):
            np.testing.assert_allclose(getattr(solution, name)[slot], getattr(first, name), atol=1e-9)
        expected = gradients(first, ..., x_bar)
        for name, value in gradients(solution, slot, x_bar).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-8, atol=1e-8, err_msg=f"{way} {name}")


@pytest.mark.parametrize("angle", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_rows_that_are_nearly_parallel_have_their_exact_gradient_in_every_way(angle: float) -> None:
    P, g, across = np.eye(3) + 0.1, np.array([1.0, 2.0, -1.0]), np.array([0.5, -1.0, 2.0])
    G, x, z = np.stack([g, g + angle * across]), np.ones(3), np.array([1.0, 2.0])
    data: Data = {"P": P, "q": -(P @ x + G.T @ z), "G": G, "h": G @ x}
    x_bar = np.array([1.0, 2.0, 3.0])
    K = np.block([[P, G.T], [G, np.zeros((2, 2))]])
    solved = solve(exact(K), exact(np.r_[x_bar, 0, 0]).reshape(-1, 1))
    assert solved is not None
    right = -solved[:3, 0].astype(float)
    for way, (solution, slot) in in_every_way(data).items():
        assert not np.any(solution.degenerate), way
        np.testing.assert_allclose(gradients(solution, slot, x_bar)["q"], right, atol=1e-8, err_msg=way)


def test_a_tangent_is_linear_where_a_row_is_large_and_p_is_small() -> None:
    solution = altdiff.solve_qp([[2e-6]], [0.0], G=[[-1e4]], h=[-1e4])
    both, q, h = (solution.jvp(**t).x for t in ({"q": [1.0], "h": [1.0]}, {"q": [1.0]}, {"h": [1.0]}))
    np.testing.assert_allclose(both, q + h, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1e-10, 1e-14, 1e-18])
def test_nothing_comes_through_a_vertex_however_small_p_is(size: float) -> None:
    P = size * np.array([[2.0, 1.0], [1.0, 3.0]])
    G, h = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([1.0, 2.0])
    data: Data = {"P": P, "q": np.array([-5.0, -1.0]), "G": G, "h": h}
    x_bar = np.array([1.0, 3.0])
    for way, (solution, slot) in in_every_way(data).items():
        found = gradients(solution, slot, x_bar)
        np.testing.assert_allclose(found["h"], np.linalg.solve(G.T, x_bar), rtol=1e-10, err_msg=way)
        np.testing.assert_allclose(found["q"], 0.0, atol=1e-10, err_msg=way)


def test_a_kink_beside_a_flat_direction_has_one_derivative() -> None:
    assert_alike({"P": np.diag([0.0, 1.0]), "q": np.zeros(2), "G": np.array([[-2.0, 1.0]]), "h": np.zeros(1)})


def test_rows_that_hold_x_together_make_it_unique_without_curvature() -> None:
    # x_1 + x_2 + x_3 = 0, x >= 0, x_2 <= 0: only zero is left, though none of these rows pushes x_1 or x_2.
    G, h = np.eye(3), np.array([3.0, 0.0, 0.0])
    data: Data = {"P": np.zeros((3, 3)), "q": np.array([0.0, 0.0, 5.0]), "G": G, "h": h}
    data |= {"A": np.ones((1, 3)), "b": np.zeros(1), "lb": np.zeros(3)}
    assert altdiff.solve_qp(**data).unique
    assert_alike(data)


def test_rows_that_say_the_same_share_their_multiplier_by_their_lengths() -> None:
    G, h = np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([1.0, 2.0])
    data: Data = {"P": np.eye(2), "q": np.array([-2.0, -2.0]), "G": G, "h": h}
    for way, (solution, slot) in in_every_way(data).items():
        np.testing.assert_allclose(solution.z[slot], [0.75, 0.375], atol=1e-10, err_msg=way)


def test_fixed_variables_and_the_rows_that_they_imply_are_degenerate_in_every_way() -> None:
    P, q = np.array([[2.0, 5.0], [5.0, 13.0]]), np.array([3.0, 8.0])
    fixed = np.array([0.0, -3.0])
    data: Data = {"P": P, "q": q, "A": np.array([[-1.0, -2.0]]), "b": np.array([6.0])}
    data |= {"lb": fixed, "ub": fixed}
    assert altdiff.solve_qp(**data).degenerate
    assert_alike(data)


def test_a_fixed_variable_that_nothing_pushes_is_at_its_upper_bound() -> None:
    zero = np.zeros(1)
    data: Data = {"P": np.eye(2), "q": np.zeros(2), "lb": np.array([0.0, -1.0]), "ub": np.array([0.0, 1.0])}
    data |= {"A": np.array([[1.0, 1.0]]), "b": zero}
    for way, (solution, slot) in in_every_way(data).items():
        found = gradients(solution, slot, np.array([1.0, 0.0]))
        assert found["lb"][0] == 0.0, way
        assert found["ub"][0] != 0.0, way


def test_a_slack_is_not_zero_because_another_variable_is_large() -> None:
    # x = (-2, -2.5e10): x_1 is two away from its lower bound.
    bounds = {"lb": np.array([-4.0, -2.5e10]), "ub": np.array([3e11, 2.5e10])}
    data: Data = {
        "P": np.zeros((2, 2)),
        "q": np.array([-5.0, 2.0]),
        "G": np.array([[1.0, 0.0]]),
        "h": -2 * np.ones(1),
    }
    for way, (solution, _) in in_every_way({**data, **bounds}).items():
        assert not np.any(solution.degenerate), way


def test_an_equality_that_implies_a_touching_bound_is_noticed_in_every_way() -> None:
    P = np.array([[18.0, -18.0, 9.0], [-18.0, 27.0, -18.0], [9.0, -18.0, 18.0]])
    A, b = np.array([[-1.0, 2.0, 0.0], [0.0, -1.0, 0.0]]), np.array([2.0, -1.0])
    data: Data = {"P": P, "q": np.array([-6.0, -2.0, -2.0]), "A": A, "b": b}
    data |= {"lb": np.array([-2.0, -np.inf, -3.0]), "ub": np.array([0.0, np.inf, np.inf])}
    assert altdiff.solve_qp(**data).degenerate
    assert_alike(data)
