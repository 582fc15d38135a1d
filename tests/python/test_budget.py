"""sparsemax and softmax with limits, for NumPy: optimality, derivatives, and rows that are hard."""

from __future__ import annotations

import pickle
from typing import Any

import altdiff
import numpy as np
import pytest
from altdiff import SolveError, Status, solve_budget
from helpers.budgets import KINDS, Row, kkt_error, random_row
from helpers.differences import central_difference, relative_error

INF, NAN = np.inf, np.nan
both = pytest.mark.parametrize("kind", KINDS)


def solve(kind: str, *row: Any, **options: Any) -> Any:
    return solve_budget(kind, *row, **options).x


@both
def test_two_thousand_random_rows_satisfy_the_conditions_of_optimality(kind: str) -> None:
    generator = np.random.default_rng(1)
    for k in range(2000):
        row = random_row(generator, ("own", "cap", "plain")[k % 3], scale=300 ** generator.uniform(0, 1))
        assert kkt_error(kind, row, solve(kind, *row)) < 1e-9


@both
def test_long_rows_satisfy_the_conditions_of_optimality(kind: str) -> None:
    generator = np.random.default_rng(2)
    for n in (1000, 40000, 140001):
        for limits in ("own", "cap", "plain"):
            row = random_row(generator, limits, scale=3.0, n=n)
            assert kkt_error(kind, row, solve(kind, *row)) < 1e-12


@both
@pytest.mark.parametrize("n", [8192, 16384, 40000])
def test_a_row_whose_sample_tells_nothing_of_the_others_is_solved(kind: str, n: int) -> None:
    generator = np.random.default_rng(5)
    y = generator.normal(size=n)
    for step in (32, 128):  # every so many entries a long row takes four as a sample
        for offset in (-50.0, 50.0):
            misleading = y.copy()
            for lane in range(4):
                misleading[lane::step] += offset
            row = Row(misleading, 2.0 / n, 0.0, 1.0)
            assert kkt_error(kind, row, solve(kind, *row)) < 1e-12


@both
def test_float32_rows_add_up_to_the_total_and_are_right_to_rounding(kind: str) -> None:
    generator = np.random.default_rng(3)
    for k in range(300):
        row = random_row(generator, ("own", "cap", "plain")[k % 3], scale=10.0)
        single: list[Any] = [None if v is None else np.asarray(v, np.float32) for v in row]
        x = solve(kind, *single)
        assert x.dtype == np.float32
        doubles = [None if v is None else v.astype(np.float64) for v in single]
        assert np.abs(x - solve(kind, *doubles)).max() < 1e-6
        assert abs(x.astype(np.float64).sum() - float(single[3])) < 1e-6


def test_without_limits_they_are_the_known_functions() -> None:
    generator = np.random.default_rng(4)
    y = generator.normal(size=(50, 30))
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(altdiff.softmax(y), e / e.sum(axis=-1, keepdims=True), rtol=1e-14)
    ordered = -np.sort(-y, axis=-1)
    levels = (ordered.cumsum(axis=-1) - 1) / np.arange(1, 31)
    support = (ordered > levels).sum(axis=-1)
    tau = levels[np.arange(50), support - 1]
    np.testing.assert_allclose(altdiff.sparsemax(y), np.maximum(y - tau[:, None], 0), atol=1e-15)


def test_sparsemax_is_the_solution_of_its_quadratic_program() -> None:
    generator = np.random.default_rng(5)
    for _ in range(50):
        row = random_row(generator)
        n = row.y.size
        qp = altdiff.solve_qp(
            np.eye(n), -row.y, A=np.ones((1, n)), b=[row.total], lb=row.lower, ub=row.upper, tolerance=1e-12
        )
        ours = solve_budget("sparsemax", *row)
        np.testing.assert_allclose(ours.x, qp.x, atol=1e-10)
        x_bar = generator.normal(size=n)
        bar: Any = ours.vjp(x_bar)
        theirs: Any = qp.vjp(x_bar)
        for mine, other in ((bar.y, -theirs.q), (bar.upper, theirs.ub), (bar.lower, theirs.lb)):
            np.testing.assert_allclose(mine, other, atol=1e-8)
        np.testing.assert_allclose(bar.total, theirs.b[0], atol=1e-8)


@both
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_derivatives_of_all_arguments_are_central_differences(kind: str, axis: int) -> None:
    generator = np.random.default_rng(6)
    shape = (4, 5, 6)
    n = shape[axis]
    batch = tuple(np.delete(shape, axis))
    arguments: list[Any] = [
        generator.normal(size=shape),
        generator.uniform(1.2, 2.5, size=(5, 6)) / n,
        generator.uniform(0.1, 0.4, size=(4, 1, 1)) / n,
        generator.uniform(0.8, 1, size=batch),
    ]
    options: Any = {"axis": axis}
    solution = solve_budget(kind, *arguments, **options)
    x_bar = generator.normal(size=shape)
    gradient: Any = solution.vjp(x_bar)
    for place, (name, argument) in enumerate(zip(("y", "upper", "lower", "total"), arguments, strict=True)):
        direction = generator.normal(size=argument.shape)

        def moved(value: Any, place: int = place) -> Any:
            return solve(kind, *arguments[:place], value, *arguments[place + 1 :], axis=axis)

        expected = central_difference(moved, argument, direction)
        assert relative_error(solution.jvp(**{name: direction}), expected) < 1e-7
        assert gradient[place].shape == argument.shape
        assert abs((gradient[place] * direction).sum() - (x_bar * expected).sum()) < 1e-6


@both
def test_numbers_that_rows_share_get_the_sum_of_gradients(kind: str) -> None:
    generator = np.random.default_rng(7)
    y, x_bar = generator.normal(size=(2, 5, 8))
    scalar = solve_budget(kind, y, 0.3, 0.01, 0.9).vjp(x_bar)
    full = solve_budget(kind, y, np.full((5, 8), 0.3), np.full((5, 8), 0.01), np.full(5, 0.9)).vjp(x_bar)
    np.testing.assert_allclose(scalar.y, full.y, atol=1e-15)
    for name in ("upper", "lower", "total"):
        assert getattr(scalar, name).shape == ()
        np.testing.assert_allclose(getattr(scalar, name), getattr(full, name).sum(), atol=1e-14)
    assert solve_budget(kind, y).vjp(x_bar).upper is None


@both
def test_the_derivative_at_a_kink_is_the_midpoint_of_the_two_sides(kind: str) -> None:
    y = np.array([0.7, 0.1, 0.3])
    tau = float(np.log(np.exp(y[1:]).sum() / 0.5)) if kind == "softmax" else float((y[1:].sum() - 0.5) / 2)
    y[0] = np.log(0.5) + tau if kind == "softmax" else 0.5 + tau  # reaches its limit, which does not hold it
    at = solve_budget(kind, y, 0.5)
    assert abs(at.x[0] - 0.5) < 1e-15
    for i in range(3):
        step = 1e-6 * np.eye(3)[i]
        sides = [(solve(kind, y + s * step, 0.5) - at.x) / (s * 1e-6) for s in (1, -1)]
        np.testing.assert_allclose(at.jvp(y=np.eye(3)[i]), np.mean(sides, axis=0), atol=1e-5)


@both
def test_masked_entries_are_at_their_lower_limit(kind: str) -> None:
    y = np.array([0.3, -INF, 1.0, -INF])
    x = solve(kind, y, None, [0.0, 0.1, 0.0, 0.0])
    assert x[1] == 0.1
    assert x[3] == 0
    np.testing.assert_allclose(x[[0, 2]], solve(kind, y[[0, 2]], None, 0.0, 0.9), atol=1e-15)
    gradient = solve_budget(kind, y, None, [0.0, 0.1, 0.0, 0.0]).vjp([1.0, 2.0, 3.0, 4.0])
    assert all(np.isfinite(part).all() for part in (gradient.y, gradient.lower, gradient.total))
    assert gradient.y[1] == gradient.y[3] == 0


@both
@pytest.mark.parametrize(
    ("row", "status"),
    [
        (([NAN, 1.0],), Status.INVALID_DATA),
        (([INF, 1.0],), Status.INVALID_DATA),
        (([-INF, -INF],), Status.PRIMAL_INFEASIBLE),
        (([-INF, 1.0], 0.6), Status.PRIMAL_INFEASIBLE),
        (([0.0, 1.0], 0.4), Status.PRIMAL_INFEASIBLE),
        (([0.0, 1.0], None, [0.7, 0.7]), Status.PRIMAL_INFEASIBLE),
        (([0.0, 1.0], [0.3, 0.9], [0.4, 0.0]), Status.INVALID_DATA),
        (([0.0, 1.0], [NAN, 0.9]), Status.INVALID_DATA),
        (([0.0, 1.0], None, 0.0, np.array(NAN)), Status.INVALID_DATA),
        (([0.0, 1.0], None, 0.0, -1.0), Status.PRIMAL_INFEASIBLE),
        (([],), Status.PRIMAL_INFEASIBLE),
    ],
)
def test_a_row_without_a_solution_says_why(kind: str, row: tuple[Any, ...], status: Status) -> None:
    with pytest.raises(SolveError, match=status.name):
        solve(kind, *row)
    options: Any = {"on_failure": "nan"}
    failed = solve_budget(kind, *row, **options)
    assert failed.status == status
    assert np.isnan(failed.x).all()


@both
def test_a_failed_row_leaves_the_others_alone(kind: str) -> None:
    generator = np.random.default_rng(8)
    y = generator.normal(size=(4, 5))
    expected = solve_budget(kind, y, 0.4)
    y[2, 3] = NAN
    with pytest.raises(SolveError, match="instance 2: INVALID_DATA") as caught:
        solve(kind, y, 0.4)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    good = [0, 1, 3]
    x_bar = generator.normal(size=(4, 5))
    for policy, filler in (("nan", NAN), ("zero", 0.0)):
        solution = solve_budget(kind, y, 0.4, on_failure=policy)
        np.testing.assert_array_equal(solution.x[good], expected.x[good])
        np.testing.assert_array_equal(solution.x[2], np.full(5, filler))
        gradient = solution.vjp(x_bar)
        np.testing.assert_array_equal(gradient.y[good], expected.vjp(x_bar).y[good])
        np.testing.assert_array_equal(gradient.y[2], np.full(5, filler))
        np.testing.assert_array_equal(solution.jvp(y=x_bar)[2], np.full(5, filler))
    masked = solve_budget(kind, y, 0.4, on_failure="nan").vjp(x_bar * [[1], [1], [0], [1]])
    np.testing.assert_array_equal(masked.y[2], np.zeros(5))


@both
def test_limits_that_leave_one_point_are_met_by_it(kind: str) -> None:
    np.testing.assert_array_equal(solve(kind, [3.0, -1.0], [0.25, 0.75]), [0.25, 0.75])
    np.testing.assert_array_equal(solve(kind, [3.0, -1.0], None, [0.25, 0.75]), [0.25, 0.75])
    np.testing.assert_array_equal(solve(kind, [3.0, -1.0], 0.5, 0.5), [0.5, 0.5])
    np.testing.assert_allclose(solve(kind, np.arange(7.0), 1 / 7), np.full(7, 1 / 7), atol=1e-15)
    tenths = np.full(10, 0.09999999, np.float32)  # add up to one only in rounding
    np.testing.assert_array_equal(solve(kind, np.arange(10, dtype=np.float32), tenths), tenths)
    half = solve_budget(kind, [3.0, -1.0, 0.0], [0.5, 0.2, 1.0], [0.5, 0.2, 0.0])
    np.testing.assert_allclose(half.x, [0.5, 0.2, 0.3], atol=1e-15)
    np.testing.assert_allclose(half.vjp([1.0, 2.0, 4.0]).total, 4.0)


@both
def test_huge_logits_keep_the_digits_of_the_rest(kind: str) -> None:
    rest = solve(kind, [0.3, 0.1, -0.2], None, 0.0, 0.5)
    for huge in (1e3, 1e30, 1e300):
        np.testing.assert_allclose(
            solve(kind, [0.3, huge, 0.1, -0.2], 0.5), np.insert(rest, 1, 0.5), atol=1e-12
        )
    np.testing.assert_allclose(solve(kind, [1e300, 1e300, -1e300]), [0.5, 0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(solve(kind, [1e300, 1e300, -1e300], 0.7), [0.5, 0.5, 0.0], atol=1e-15)
    steps = -1000.0 * np.arange(6)
    np.testing.assert_allclose(solve(kind, steps, 0.3), [0.3, 0.3, 0.3, 0.1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(
        solve(kind, steps.astype(np.float32), 0.3), [0.3, 0.3, 0.3, 0.1, 0, 0], atol=1e-7
    )


def test_sparsemax_takes_negative_and_absent_lower_limits() -> None:
    generator = np.random.default_rng(9)
    y = generator.normal(size=(3, 6))
    free = altdiff.sparsemax(y, lower=-INF)
    np.testing.assert_allclose(free, y - y.mean(axis=-1, keepdims=True) + 1 / 6, atol=1e-15)
    x = altdiff.sparsemax(y, 2.0, -1.0, 0.5)
    assert x.min() >= -1
    np.testing.assert_allclose(x.sum(axis=-1), 0.5)
    with pytest.raises(ValueError, match="lower must not be negative"):
        altdiff.softmax(y, lower=-1.0)


@both
def test_shapes_follow_the_arrays(kind: str) -> None:
    assert solve(kind, np.zeros((0, 3))).shape == (0, 3)
    assert solve(kind, np.zeros((3, 0, 2))).shape == (3, 0, 2)
    assert solve(kind, 5.0) == 1
    assert solve(kind, [5.0]) == 1
    assert solve(kind, np.zeros(4), np.full((3, 1), 0.5)).shape == (3, 4)
    assert solve(kind, np.zeros(4), total=[1.0, 2.0]).shape == (2, 4)
    assert solve(kind, np.zeros((4, 2)), total=[1.0, 2.0], axis=0).sum(axis=0).tolist() == [1, 2]
    assert solve(kind, np.array([1, 2], np.float16)).dtype == np.float16
    assert solve(kind, [1, 2]).dtype == np.float64


def test_mistakes_name_the_argument() -> None:
    calls: dict[str, Any] = {
        "kind must be one of": lambda: solve_budget("max", [1.0]),
        "on_failure must be one of": lambda: altdiff.softmax([1.0], on_failure="ignore"),
        "axis must be between -1 and 0": lambda: altdiff.softmax([1.0], axis=1),
        "upper must not be NaN": lambda: altdiff.softmax([1.0], NAN),
        "lower must not exceed upper": lambda: altdiff.sparsemax([1.0], 0.0, 1.0),
        "total must be finite": lambda: altdiff.sparsemax([1.0], total=INF),
        "y must be real numbers": lambda: altdiff.sparsemax(np.array([1j])),
        "x_bar must broadcast": lambda: solve_budget("softmax", [1.0, 2.0]).vjp(np.zeros(3)),
    }
    for message, call in calls.items():
        with pytest.raises((ValueError, TypeError, IndexError), match=message):
            call()
