"""Sums of terms that are flat, steep, spread out or at the end of their domains: all have true answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from altdiff import Linear, LogSumExp, Quadratic, Separable, Status, solve_convex
from altdiff.torch import solve_convex as torch_solve
from helpers.wild_judge import kkt_error, verdict
from helpers.wild_sums import random_sum, spread_logits

# Programs that ended without an answer or with a wrong one, because of: another x with the same Hessian (239,
# 850), kinks (1992), the end of a domain in the way (16, 96, 175, 1999), zero rows (403), constraints that
# cost nothing (26, 233), flat minima (1304), far bounds (858, 916), an f of 1e-300 (218, 956).
MET = (16, 22, 26, 96, 102, 120, 175, 218, 233, 239, 403, 850, 858, 916, 956, 1304, 1992, 1999, 3486, 3791)


@pytest.mark.parametrize("seed", MET)
def test_a_sum_of_terms_has_an_answer_and_that_is_right(seed: int) -> None:
    program = random_sum(seed)
    with np.errstate(all="ignore"):
        assert verdict(program, program.solve()) == "right"


def test_of_many_sums_of_terms_hardly_any_is_without_an_answer_and_none_is_wrong() -> None:
    verdicts = Counter[str]()
    for seed in range(100):
        program = random_sum(seed)
        with np.errstate(all="ignore"):
            verdicts[verdict(program, program.solve())] += 1
    assert verdicts["right"] >= 99
    assert verdicts["wrong"] == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_softmax_that_has_chosen_is_solved_however_far_its_logits_are_apart(seed: int) -> None:
    program = spread_logits(seed)
    with np.errstate(all="ignore"):
        assert verdict(program, program.solve()) == "right"


@pytest.mark.parametrize(
    ("M", "offset"),
    [
        ([[1.1, 0.3], [0.7, -0.4]], [0.0, 30.0]),
        ([[1.1, 0.3]], [2.0]),
        ([[1.1, 0.3], [1.1, 0.3]], [0.0, 30.0]),
        ([[1.1, 0.3], [0.7, -0.4]], [0.0, 1e4]),
    ],
)
def test_rounding_of_a_hessian_is_no_negative_curvature(M: list[list[float]], offset: list[float]) -> None:
    built_in = solve_convex(LogSumExp(M, offset), lb=[-1.0, -1.0], ub=[1.0, 1.0])
    assert built_in.status is Status.SOLVED
    rows, shift = torch.tensor(M, dtype=torch.float64), torch.tensor(offset, dtype=torch.float64)
    ones = torch.ones(2, dtype=torch.float64)
    bounds: dict[str, Any] = {"lb": -ones, "ub": ones}
    own = torch_solve(lambda x: torch.logsumexp(rows @ x - shift, 0), **bounds)
    assert own.status == Status.SOLVED
    np.testing.assert_allclose(own.x, built_in.x, rtol=0, atol=1e-7)


def test_a_p_that_curves_down_is_nonconvex_beside_any_other_term() -> None:
    ones = np.ones(2)
    for other in (Separable("softplus", ones), LogSumExp(np.eye(2), [0.0, 30.0]), Linear(ones)):
        solution = solve_convex(Quadratic(-np.eye(2)) + other, lb=-ones, ub=ones)
        assert solution.status is Status.NONCONVEX


@pytest.mark.parametrize("kind", ["entropy", "binary entropy", "-log"])
def test_a_row_of_zeros_is_a_number_also_at_the_end_of_a_domain(kind: str) -> None:
    M = np.array([[0.0, 0.0], [1.0, 0.5]])
    ends = {"entropy": (0.0, 1e-300), "binary entropy": (0.0, 1.0), "-log": (1e-300, 1e-20)}[kind]
    phi: dict[str, Any] = {"entropy": lambda t: t * np.log(t) if t > 0 else 0.0, "-log": lambda t: -np.log(t)}
    without = solve_convex(Separable(kind, [2.0], M[1:], [-0.5]) + Separable("square", np.ones(2)))
    for t in ends:
        terms = Separable(kind, [3.0, 2.0], M, [-t, -0.5]) + Separable("square", np.ones(2))
        solution = solve_convex(terms)
        assert solution.status is Status.SOLVED
        np.testing.assert_allclose(solution.x, without.x, rtol=0, atol=1e-12)
        constant = 3.0 * phi.get(kind, lambda _: 0.0)(t)
        np.testing.assert_allclose(solution.objective, without.objective + constant, rtol=1e-12)
        gradient: Any = solution.vjp(np.ones(2)).objective[0]["M"]
        assert np.isfinite(gradient[1]).all()
    outside = solve_convex(Separable(kind, [3.0, 2.0], M, [0.1, -0.5]) + Separable("square", np.ones(2)))
    assert outside.status is Status.PRIMAL_INFEASIBLE


def test_x_solves_the_program_also_where_its_quadratic_program_has_other_solutions() -> None:
    """Only one row of the softmax counts at x: its Hessian is zero, and every x is as good for (N2)."""
    objective = LogSumExp([[1.0, 0.5], [-2.0, 1.0]], [0.0, 700.0]) + LogSumExp([[0.0, -1.0]], [0.0])
    solution = solve_convex(objective, lb=[-5.0, -np.inf], ub=[5.0, 400.0])
    assert solution.status is Status.SOLVED
    p = np.exp([solution.x[0] + 0.5 * solution.x[1], -2.0 * solution.x[0] + solution.x[1] - 700.0])
    gradient = np.array([[1.0, 0.5], [-2.0, 1.0]]).T @ (p / p.sum()) + [0.0, -1.0]
    np.testing.assert_allclose(gradient + solution.z_box, 0.0, rtol=0, atol=1e-8)


def test_a_gradient_does_not_pass_a_bound_that_holds_however_flat_f_is() -> None:
    objective = LogSumExp([[0.01335776]], [-1.21427]) + Linear([0.0])
    solution = solve_convex(objective, lb=[0.0], ub=[1e6], G=[[-0.5778638]], h=[0.20886])
    gradient: Any = solution.vjp([1.0])
    assert abs(gradient.objective[1]["q"][0]) < 1e-8
    for weight in (1e-8, 1e-12, 1e-16, 1e-20):
        for term in (Separable("softplus", [weight]), Quadratic([[weight]])):
            solution = solve_convex(term + Linear([1.0]), lb=[0.0], ub=[1.0])
            assert solution.status is Status.SOLVED
            gradient = solution.vjp([1.0])
            assert abs(gradient.objective[1]["q"][0]) < 1e-8
            np.testing.assert_allclose(gradient.lb, [1.0], rtol=1e-8)


def test_what_is_called_solved_is_solved_in_long_double() -> None:
    worst = 0.0
    for seed in range(60, 160):
        program = random_sum(seed)
        solution = program.solve()
        if solution.status is Status.SOLVED:
            with np.errstate(all="ignore"):
                worst = max(worst, kkt_error(program, solution))
    assert worst < 1e-7
