"""Smooth convex objectives in the core: solutions, derivatives of every field, statuses."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from altdiff import Status
from altdiff._native import core
from helpers.problems import Array
from helpers.smooth import SmoothProblem, Solved, Term
from numpy.typing import NDArray

Instances: TypeAlias = NDArray[np.int64]

SEPARABLE = (
    "square",
    "entropy",
    "negative_log",
    "softplus",
    "exp",
    "pseudo_huber",
    "power",
    "binary_entropy",
)
BATCH, N, M, P, ROWS = 3, 6, 4, 2, 7


def constraints(rng: np.random.Generator, shared: bool, bounds: bool) -> dict[str, Array]:
    """Some that hold with equality at the solutions, some that do not; x0 is inside every domain."""
    x0 = rng.random(N) * 0.4 + 0.3
    A = rng.standard_normal((1 if shared else BATCH, P, N))
    G = rng.standard_normal((BATCH, M, N))
    fields = {
        "G": G,
        "h": G @ x0 + 0.05 * rng.random((BATCH, M)),
        "A": A,
        "b": np.array(np.broadcast_to(A @ x0, (BATCH, P)), order="C"),
    }
    if bounds:
        fields["lb"] = np.full((1, N), 0.25)
        fields["ub"] = np.full((BATCH, N), 0.9)
    return fields


def mapped(kind: str, rng: np.random.Generator, shared: bool) -> SmoothProblem:
    """A quadratic term, one of the kind with a map, and an entropy."""
    own = 1 if shared else BATCH
    root = rng.standard_normal((own, N, N))
    size = 12 if kind == "binary_entropy" else 6
    weights = 1 if kind == "log_sum_exp" else ROWS
    terms = [
        Term("quadratic", {"P": 0.2 * root @ root.transpose(0, 2, 1), "q": rng.standard_normal((BATCH, N))}),
        Term(
            kind,
            {
                "weight": rng.random((BATCH, weights)) + 0.5,
                "map": np.abs(rng.standard_normal((own, ROWS, N))) / size,
                "offset": -0.05 * rng.random((BATCH, ROWS)),
            },
            power=3.0,
        ),
        Term("entropy", {"weight": rng.random((BATCH, N)), "offset": -0.1 * rng.random((1, N))}),
    ]
    return SmoothProblem(BATCH, N, terms, constraints(rng, shared, bounds=True))


def plain(kind: str, rng: np.random.Generator, bounds: bool) -> SmoothProblem:
    """A linear term and one sum of functions of single variables."""
    terms = [
        Term("quadratic", {"q": 2 * rng.standard_normal((BATCH, N))}),
        Term(kind, {"weight": rng.random((BATCH, N)) + 0.5, "offset": -0.1 * rng.random((1, N))}),
    ]
    return SmoothProblem(BATCH, N, terms, constraints(rng, True, bounds))


def check_derivatives(problem: SmoothProblem, rng: np.random.Generator) -> None:
    """vjp and jvp of every field against central differences."""
    solved = problem.solve()
    assert list(solved.status) == [Status.SOLVED] * problem.size
    assert solved.margin.min() > 1e-5  # else differences cross a kink
    bars = [rng.standard_normal(a.shape) for a in solved.outputs()]

    def outputs() -> list[Array]:
        return problem.solve().outputs()

    gradients = solved.vjp([*bars])
    for place in problem.places():
        array = problem.array(place)
        saved = array.copy()
        direction = rng.standard_normal(array.shape)
        if place[1] == "P":
            direction += direction.transpose(0, 2, 1)
        step = 1e-6
        array += step * direction
        above = outputs()
        array[...] = saved - step * direction
        below = outputs()
        array[...] = saved
        slopes = [(a - b) / (2 * step) for a, b in zip(above, below, strict=True)]
        expected = sum(float((bar * slope).sum()) for bar, slope in zip(bars, slopes, strict=True))
        found = float((gradients[place] * direction).sum())
        assert found == pytest.approx(expected, rel=2e-6, abs=2e-6), place
        tangent = solved.jvp({place: direction})
        for name, slope in zip(("x", "y", "z", "z_box"), slopes[:4], strict=True):
            np.testing.assert_allclose(tangent[name], slope, rtol=2e-5, atol=2e-5, err_msg=f"{place} {name}")


@pytest.mark.parametrize("kind", [*SEPARABLE, "log_sum_exp"])
@pytest.mark.parametrize("shared", [True, False])
def test_derivatives_of_terms_with_a_map_are_central_differences(kind: str, shared: bool) -> None:
    rng = np.random.default_rng(17)
    check_derivatives(mapped(kind, rng, shared), rng)


@pytest.mark.parametrize("kind", ["square", "entropy", "binary_entropy"])
@pytest.mark.parametrize("bounds", [True, False])
def test_derivatives_of_separable_objectives_are_central_differences(kind: str, bounds: bool) -> None:
    rng = np.random.default_rng(5)
    check_derivatives(plain(kind, rng, bounds), rng)


def phi_slope(kind: str, t: Array) -> Array:
    """phi', written down once more."""
    slopes: dict[str, Array] = {
        "square": t,
        "entropy": np.log(t) + 1,
        "negative_log": -1 / t,
        "softplus": 1 / (1 + np.exp(-t)),
        "exp": np.exp(t),
        "pseudo_huber": t / np.sqrt(1 + t * t),
        "power": 3 * t * np.abs(t),
        "binary_entropy": np.log(t) - np.log1p(-np.minimum(t, 0.999)),
    }
    return slopes[kind]


@pytest.mark.parametrize("kind", SEPARABLE)
def test_solved_is_stationary_by_a_gradient_of_our_own(kind: str) -> None:
    problem = mapped(kind, np.random.default_rng(3), shared=False)
    solved = problem.solve()
    quadratic, term, entropy = (t.fields for t in problem.terms)
    x = solved.x
    t = np.einsum("bij,bj->bi", term["map"], x) - term["offset"]
    gradient = np.einsum("bij,bj->bi", quadratic["P"], x) + quadratic["q"]
    gradient += np.einsum("bij,bi->bj", term["map"], term["weight"] * phi_slope(kind, t))
    gradient += entropy["weight"] * phi_slope("entropy", x - entropy["offset"])
    c = problem.constraints
    gradient += np.einsum("bij,bi->bj", c["A"], solved.y) + np.einsum("bij,bi->bj", c["G"], solved.z)
    assert np.abs(gradient + solved.z_box).max() < 1e-11
    assert solved.z.min() >= 0
    slack = c["h"] - np.einsum("bij,bj->bi", c["G"], x)
    assert slack.min() > -1e-12
    assert np.abs(slack * solved.z).max() < 1e-11


def softmax_problem(
    rng: np.random.Generator, n: int, scale: float, bounds: bool = False
) -> tuple[SmoothProblem, Array]:
    """Entropy with logits of the scale, a budget, and random rows that a point inside satisfies."""
    x0 = rng.random(n) * 0.8 + 0.1
    p, m = max(1, n // 5), n // 3
    A = rng.standard_normal((1, p, n))
    A[0, 0] = 1
    G = rng.standard_normal((1, m, n))
    fields = {"A": A, "b": A @ x0, "G": G, "h": G @ x0 + 0.1 * rng.random((1, m))}
    if bounds:
        fields |= {"lb": x0[None] - 0.09, "ub": x0[None] + 0.09}
    q = scale * rng.standard_normal((1, n))
    return SmoothProblem(1, n, [Term("quadratic", {"q": q}), Term("entropy")], fields), q


@pytest.mark.parametrize("bounds", [True, False])
def test_entropies_with_logits_up_to_300_are_solved(bounds: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        problem, _ = softmax_problem(rng, int(rng.integers(2, 40)), 10 ** rng.uniform(0, 2.5), bounds)
        solved = problem.solve(num_threads=1)
        assert solved.status[0] == Status.SOLVED
        assert max(solved.primal_residual[0], solved.dual_residual[0], solved.duality_gap[0]) < 1e-9


def dual_and_newton(q: Array, fields: dict[str, Array]) -> tuple[Solved, Solved]:
    """The same entropy twice: two of half the weight are not seen to be one."""
    n = q.shape[1]
    linear = Term("quadratic", {"q": q})
    halves = [Term("entropy", {"weight": np.full((1, n), 0.5)}) for _ in range(2)]
    whole = SmoothProblem(1, n, [linear, Term("entropy")], fields)
    return whole.solve(), SmoothProblem(1, n, [linear, *halves], fields).solve()


def check_agreement(dual: Solved, newton: Solved) -> None:
    """Point, multipliers and gradients."""
    bar = np.random.default_rng(0).standard_normal(dual.x.shape)
    of_dual, of_newton = (s.vjp([bar, None, None, None, None]) for s in (dual, newton))
    for a, b in zip(dual.outputs(), newton.outputs(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    for place in [(-1, name) for name in dual.problem.constraints] + [(0, "q")]:
        np.testing.assert_allclose(of_newton[place], of_dual[place], atol=1e-10, err_msg=str(place))


def test_the_two_methods_agree() -> None:
    problem, q = softmax_problem(np.random.default_rng(2), 12, 3.0)
    dual, newton = dual_and_newton(q, problem.constraints)
    assert not dual.degenerate[0]
    check_agreement(dual, newton)


@pytest.mark.parametrize("kink", ["bound", "row", "redundant equalities", "parallel rows", "no room"])
def test_at_a_kink_both_methods_follow_the_same_convention(kink: str) -> None:
    rng = np.random.default_rng(11)
    n = 5
    q = rng.standard_normal((1, n))
    x = np.exp(-q) / np.exp(-q).sum()
    row = rng.standard_normal((1, 1, n))
    simplex = {"A": np.ones((1, 1, n)), "b": np.ones((1, 1))}
    touching = np.ones((1, n))
    touching[0, 2] = x[0, 2]
    fields = {
        "bound": {**simplex, "ub": touching},
        "row": {**simplex, "G": row, "h": row @ x[0]},
        "redundant equalities": {"A": np.ones((1, 2, n)), "b": np.ones((1, 2))},
        "parallel rows": {
            **simplex,
            "G": np.repeat(row, 2, axis=1),
            "h": np.repeat(row @ x[0] - 0.05, 2, axis=1),
        },
        "no room": {**simplex, "ub": np.full((1, n), 0.2)},
    }[kink]
    dual, newton = dual_and_newton(q, fields)
    assert dual.degenerate[0]
    assert newton.degenerate[0]
    check_agreement(dual, newton)


def test_a_function_of_the_users_own_is_asked_once_a_round_for_all_instances() -> None:
    rng = np.random.default_rng(4)
    problem = plain("entropy", rng, bounds=True)
    q, weight, offset = (
        problem.terms[0].fields["q"],
        problem.terms[1].fields["weight"],
        problem.terms[1].fields["offset"][0],
    )
    calls: list[int] = []

    def evaluate(instances: Instances, x: Array, value: Array, gradient: Array, hessian: Array) -> None:
        calls.append(len(instances))
        t, w = x - offset, weight[instances]
        value[:] = (q[instances] * x + w * t * np.log(t)).sum(1)
        gradient[:] = q[instances] + w * (np.log(t) + 1)
        hessian[:] = w / t

    start = tuple(np.full((BATCH, size), 0.5) for size in (N, P, M, N))
    expected = problem.solve()
    own = SmoothProblem(BATCH, N, [], problem.constraints)
    solved = own.solve(evaluate, elementwise=True, initial=start)
    np.testing.assert_allclose(solved.x, expected.x, atol=1e-12)
    assert calls[0] == BATCH
    assert len(calls) < 20
    bar = rng.standard_normal((BATCH, N))
    u = solved.vjp([bar, None, None, None, None])[-1, "u"]
    np.testing.assert_allclose(u, expected.vjp([bar, None, None, None, None])[0, "q"], atol=1e-10)


def test_what_a_function_of_the_users_own_raises_comes_back() -> None:
    def evaluate(_i: Instances, _x: Array, _v: Array, _g: Array, _h: Array) -> None:
        raise LookupError("no such number")

    with pytest.raises(LookupError, match="no such number"):
        SmoothProblem(1, 2, []).solve(evaluate)


def test_a_function_of_the_users_own_that_curves_down_is_nonconvex() -> None:
    def evaluate(_: Instances, x: Array, value: Array, gradient: Array, hessian: Array) -> None:
        value[:] = -(x**2).sum(1)
        gradient[:] = -2 * x
        hessian[:] = -2

    assert SmoothProblem(1, 2, []).solve(evaluate, elementwise=True).status[0] == Status.NONCONVEX


BUDGET = {"A": np.ones((1, 1, 3)), "b": np.ones((1, 1))}


@pytest.mark.parametrize(
    ("terms", "fields", "status"),
    [
        (
            [Term("entropy")],
            {**BUDGET, "G": np.ones((1, 1, 3)), "h": np.full((1, 1), 0.5)},
            "PRIMAL_INFEASIBLE",
        ),
        ([Term("entropy")], {"A": np.ones((1, 1, 3)), "b": -np.ones((1, 1))}, "PRIMAL_INFEASIBLE"),
        ([Term("entropy")], {**BUDGET, "ub": np.full((1, 3), 0.3)}, "PRIMAL_INFEASIBLE"),
        ([Term("quadratic", {"q": np.ones((1, 3))})], {}, "DUAL_INFEASIBLE"),
        ([Term("softplus"), Term("quadratic", {"q": np.full((1, 3), -2.0)})], {}, "DUAL_INFEASIBLE"),
        ([Term("quadratic", {"P": -np.eye(3)[None], "q": np.ones((1, 3))})], {}, "NONCONVEX"),
        ([Term("entropy", {"weight": np.array([[1.0, -1, 1]])})], BUDGET, "INVALID_DATA"),
        ([Term("entropy", {"weight": np.array([[1.0, np.nan, 1]])})], BUDGET, "INVALID_DATA"),
        ([Term("entropy")], {"A": np.full((1, 1, 3), np.nan), "b": np.ones((1, 1))}, "INVALID_DATA"),
    ],
)
def test_what_has_no_solution_says_why(terms: list[Term], fields: dict[str, Array], status: str) -> None:
    solved = SmoothProblem(1, 3, terms, fields).solve()
    assert Status(solved.status[0]).name == status


def test_bounds_that_leave_no_room_are_solved() -> None:
    q = np.array([[300.0, -200.0, 5.0, 1.0]])
    for room in (0, 1e-9, 1e-3):
        fields = {"A": np.ones((1, 1, 4)), "b": np.ones((1, 1)), "ub": np.full((1, 4), 0.25 + room)}
        solved = SmoothProblem(1, 4, [Term("quadratic", {"q": q}), Term("entropy")], fields).solve()
        assert solved.status[0] == Status.SOLVED
        assert np.abs(solved.x - 0.25).max() <= 3.0 * room + 1e-12


def test_a_low_temperature_gives_the_largest_entry() -> None:
    terms = [
        Term("quadratic", {"q": -np.array([[1.0, 2.0, 3.0]])}),
        Term("entropy", {"weight": np.full((1, 3), 1e-6)}),
    ]
    solved = SmoothProblem(1, 3, terms, BUDGET).solve()
    assert solved.status[0] == Status.SOLVED
    np.testing.assert_allclose(solved.x, [[0, 0, 1]], atol=1e-12)


def test_an_instance_that_fails_leaves_the_others_alone() -> None:
    q = np.array([[1.0, np.nan, 0.0], [1.0, 2.0, 0.0]])
    problem = SmoothProblem(2, 3, [Term("quadratic", {"q": q}), Term("entropy")], BUDGET)
    solved = problem.solve()
    assert [Status(s).name for s in solved.status] == ["INVALID_DATA", "SOLVED"]
    expected = np.exp(-q[1]) / np.exp(-q[1]).sum()
    np.testing.assert_allclose(solved.x[1], expected, atol=1e-14)
    gradients = solved.vjp([np.ones((2, 3)), None, None, None, None])
    assert np.isnan(gradients[0, "q"][0]).all()
    assert np.abs(gradients[0, "q"][1]).max() < 1e-14


def test_limits_of_iterations_and_time_are_kept() -> None:
    terms = [Term("quadratic", {"q": -np.ones((1, 3))}), Term("exp", {"weight": np.array([[1.0, 2.0, 3.0]])})]
    problem = SmoothProblem(1, 3, terms, BUDGET)
    assert problem.solve(max_iterations=1).status[0] == Status.MAX_ITERATIONS
    assert problem.solve(time_limit=1e-9).status[0] == Status.TIME_LIMIT


def test_an_empty_batch_and_a_single_variable_are_solved() -> None:
    assert SmoothProblem(0, 3, [Term("entropy")], BUDGET).solve().x.shape == (0, 3)
    solved = SmoothProblem(1, 1, [Term("entropy")]).solve()
    np.testing.assert_allclose(solved.x, [[np.exp(-1)]], rtol=1e-15)


def test_a_solution_is_a_good_start() -> None:
    problem, q = softmax_problem(np.random.default_rng(6), 20, 2.0)
    first = problem.solve()
    q *= 1.001
    again = problem.solve(initial=(first.x, first.y, first.z, first.z_box))
    np.testing.assert_allclose(again.x, problem.solve().x, atol=1e-12)
    assert again.iterations[0] < problem.solve().iterations[0]


def test_threads_do_not_change_the_answers() -> None:
    problem = mapped("softplus", np.random.default_rng(8), shared=True)
    one, two = problem.solve(num_threads=1), problem.solve(num_threads=2)
    for a, b in zip(one.outputs(), two.outputs(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_papers_algorithm_serves_terms() -> None:
    problem = mapped("softplus", np.random.default_rng(9), shared=True)
    first = {name: array[0] for name, array in problem.constraints.items()}
    terms = [term.native(N) for term in problem.terms]
    G, h, A, b, lb, ub = (first[name] for name in ("G", "h", "A", "b", "lb", "ub"))
    paper = core.TermProblem(N, terms, G, h, A, b, lb, ub)
    solved = problem.solve()
    for place, field in (((0, "q"), (0, 1)), ((1, "map"), (1, 3)), ((1, "weight"), (1, 2))):
        result = paper.alternating_differentiation(
            None, field, None, 1.0, 1e-11, "residual", 100000, False, np.inf
        )
        np.testing.assert_allclose(result.x, solved.x[0], atol=1e-9)
        for i in range(N):
            bar = np.zeros((BATCH, N))
            bar[0, i] = 1
            gradient = solved.vjp([bar, None, None, None, None])[place][0].ravel()
            np.testing.assert_allclose(result.jacobian[i], gradient, atol=1e-7)


def test_an_unknown_kind_and_no_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of quadratic, log_sum_exp"):
        SmoothProblem(1, 3, [Term("cubic")]).solve()
    with pytest.raises(ValueError, match="no terms"):
        SmoothProblem(1, 3, []).solve()
    with pytest.raises(ValueError, match="power must be at least 2"):
        SmoothProblem(1, 3, [Term("power", power=1.5)]).solve()
