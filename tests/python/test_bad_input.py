"""Whatever is wrong with the input is an error that names the field, and nothing is lost."""

from __future__ import annotations

import re
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse
from altdiff import Linear, Quadratic
from helpers.problems import Data, known_problem

FIELDS = ("P", "q", "G", "h", "A", "b", "lb", "ub")
FINITE_FIELDS = ("P", "q", "G", "A", "b")


def problem() -> Data:
    """A problem with n = 3, m = 2, p = 1."""
    return known_problem(seed=0, n=3, m=2, p=1).data


def solve(**changes: Any) -> altdiff.Solution:
    return altdiff.solve_qp(**{**problem(), **changes})


@pytest.mark.parametrize(
    ("field", "shape", "message"),
    [
        ("P", (3, 2), "P must have shape (..., n, n) with n = 3, got (3, 2)"),
        ("P", (3,), "P must have shape (..., n, n) with n = 3, got (3,)"),
        ("q", (4,), "q must have shape (..., n) with n = 3, got (4,)"),
        ("q", (), "q must have shape (..., n), got ()"),
        ("G", (2, 4), "G must have shape (..., m, n) with n = 3, got (2, 4)"),
        ("G", (3,), "G must have shape (..., m, n) with n = 3, got (3,)"),
        ("h", (3,), "h must have shape (..., m) with m = 2, got (3,)"),
        ("h", (), "h must have shape (..., m) with m = 2, got ()"),
        ("A", (1, 2), "A must have shape (..., p, n) with n = 3, got (1, 2)"),
        ("b", (2,), "b must have shape (..., p) with p = 1, got (2,)"),
        ("lb", (2,), "lb must have shape (..., n) with n = 3, got (2,)"),
        ("ub", (1,), "ub must have shape (..., n) with n = 3, got (1,)"),
    ],
)
def test_a_wrong_shape_is_named_with_the_shape_it_should_have(
    field: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        solve(**{field: np.ones(shape)})


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("dtype", ["complex128", "bool", "object", "<U32"])
def test_a_wrong_dtype_is_named(field: str, dtype: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"{field} must be real numbers, got dtype {dtype}")):
        solve(**{field: problem()[field].astype(dtype)})


def test_a_ragged_list_is_named() -> None:
    with pytest.raises(ValueError, match="G must be a rectangular array of real numbers"):
        solve(G=[[1.0, 2.0, 3.0], [1.0]])


@pytest.mark.parametrize("field", FIELDS)
def test_nan_in_any_field_is_named(field: str) -> None:
    value = problem()[field].copy()
    value.flat[-1] = np.nan
    with pytest.raises(ValueError, match=f"^{field} must not hold NaN$"):
        solve(**{field: value})


@pytest.mark.parametrize("field", ["P", "G", "A"])
def test_nan_in_a_sparse_matrix_is_named(field: str) -> None:
    value = problem()[field].copy()
    value.flat[-1] = np.nan
    with pytest.raises(ValueError, match=f"^{field} must not hold NaN$"):
        solve(**{field: scipy.sparse.csr_matrix(value)})


@pytest.mark.parametrize("field", FINITE_FIELDS)
@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_an_infinity_in_a_finite_field_is_named(field: str, infinity: float) -> None:
    value = problem()[field].copy()
    value.flat[0] = infinity
    with pytest.raises(ValueError, match=re.escape(f"{field} must not hold an infinity, got {infinity:+}")):
        solve(**{field: value})


@pytest.mark.parametrize(("field", "wrong"), [("h", -np.inf), ("lb", np.inf), ("ub", -np.inf)])
def test_an_infinity_of_the_wrong_sign_is_named(field: str, wrong: float) -> None:
    value = problem()[field].copy()
    value[0] = wrong
    message = f"{field} must not hold an infinity other than {-wrong:+}, got {wrong:+}"
    with pytest.raises(ValueError, match=re.escape(message)):
        solve(**{field: value})


def test_a_lower_bound_above_the_upper_names_both_and_the_index() -> None:
    with pytest.raises(ValueError, match=re.escape("lb must not exceed ub, got lb[1] = 2 and ub[1] = 1")):
        solve(lb=[0, 2, 0], ub=[1, 1, 1])


def test_p_and_q_that_disagree_alone_are_an_error() -> None:
    message = "P must have shape (..., n, n) with n = 2, got (3, 3)"
    with pytest.raises(ValueError, match=re.escape(message)):
        altdiff.solve_qp(np.eye(3), np.ones(2))


@pytest.mark.parametrize("lead", [(), (4,)])
@pytest.mark.parametrize("others", [{}, {"lb": -1.0}, {"G": np.eye(3), "h": np.ones(3)}])
@pytest.mark.parametrize("field", ["q", "h", "b", "lb", "ub"])
def test_a_vector_that_is_a_column_is_named_with_what_to_do(
    field: str, others: Data, lead: tuple[int, ...]
) -> None:
    data: Data = {"P": np.eye(3), "q": np.ones(3), **others}
    data |= {"h": {"G": np.eye(3)}, "b": {"A": np.eye(3)}}.get(field, {})
    data[field] = np.ones((*lead, 3, 1))
    with pytest.raises(ValueError, match=f"^{field} must have shape .* {field}.squeeze\\(-1\\)$"):
        altdiff.solve_qp(**data)


def test_a_column_is_named_beside_matrices_of_each_instance_and_in_convex_programs() -> None:
    with pytest.raises(ValueError, match=r"^q must have .*squeeze"):
        altdiff.solve_qp(np.stack([np.eye(3)] * 4), np.ones((4, 3, 1)))
    for terms in (
        Linear(np.ones((4, 3, 1))) + Quadratic(np.eye(3)),
        Quadratic(np.eye(3)) + Linear(np.ones((3, 1))),
    ):
        with pytest.raises(ValueError, match=r"^term \d: Linear.q must have shape .*q.squeeze\(-1\)$"):
            altdiff.solve_convex(terms)


def test_one_variable_in_a_batch_of_two_dimensions_is_no_column() -> None:
    assert altdiff.solve_qp(np.eye(1), np.ones((4, 1, 1))).x.shape == (4, 1, 1)
    assert altdiff.solve_convex(Linear(np.ones((4, 1))) + Quadratic(np.eye(1))).x.shape == (4, 1)


def test_an_empty_problem_is_an_error() -> None:
    with pytest.raises(ValueError, match="q is empty: a problem needs at least one variable"):
        altdiff.solve_qp(np.zeros((0, 0)), np.zeros(0))


@pytest.mark.parametrize("field", ["P", "q"])
def test_a_missing_objective_is_named(field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field} is missing"):
        solve(**{field: None})


@pytest.mark.parametrize(("missing", "present"), [("G", "h"), ("h", "G"), ("A", "b"), ("b", "A")])
def test_half_a_constraint_block_says_which_half_is_missing(missing: str, present: str) -> None:
    with pytest.raises(ValueError, match=f"^{missing} is missing: {present} is given"):
        solve(**{missing: None})


def test_batch_dimensions_that_do_not_broadcast_list_the_shapes() -> None:
    with pytest.raises(ValueError, match=r"batch dimensions do not broadcast.*q \(4, 3\).*h \(5, 2\)"):
        solve(q=np.ones((4, 3)), h=np.ones((5, 2)))


@pytest.mark.parametrize("field", ["q", "h", "b", "lb", "ub"])
def test_a_sparse_vector_is_refused_by_name(field: str) -> None:
    with pytest.raises(TypeError, match=f"^{field} must be a dense array: only P, G and A may be sparse"):
        solve(**{field: scipy.sparse.csc_matrix(problem()[field])})


def test_a_complex_sparse_matrix_is_named() -> None:
    with pytest.raises(TypeError, match="P must be real numbers, got dtype complex128"):
        solve(P=scipy.sparse.csc_matrix(problem()["P"].astype(complex)))


@pytest.mark.parametrize("sparse", [False, True])
def test_only_the_symmetric_part_of_p_counts(sparse: bool) -> None:
    P = problem()["P"]
    skew = np.array([[0.0, 5.0, -1.0], [-5.0, 0.0, 2.0], [1.0, -2.0, 0.0]])
    lopsided = scipy.sparse.csc_matrix(P + skew) if sparse else P + skew
    solution = solve(P=lopsided)
    np.testing.assert_allclose(solution.x, solve().x, atol=1e-10)
    gradient = solution.vjp(np.array([1.0, 2.0, 3.0])).P
    gradient = gradient.toarray() if sparse else gradient
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12)


def test_half_of_a_sparse_p_counts_as_half_of_its_symmetric_part() -> None:
    P = problem()["P"]
    upper = scipy.sparse.csc_matrix(np.triu(2 * P, 1) + np.diag(np.diag(P)))
    solution = solve(P=upper)
    np.testing.assert_allclose(solution.x, solve().x, atol=1e-10)
    gradient = solution.vjp(np.array([1.0, 2.0, 3.0])).P
    full = solve().vjp(np.array([1.0, 2.0, 3.0])).P
    np.testing.assert_array_equal(gradient.indices, upper.indices)
    np.testing.assert_allclose(gradient.toarray(), np.triu(full), atol=1e-9)


def test_duplicates_in_a_sparse_matrix_are_summed_and_the_input_is_left_alone() -> None:
    G = problem()["G"]
    rows, columns = np.nonzero(np.ones_like(G))
    # Every entry twice, a half each, and the rows of each column in falling order.
    order = np.lexsort((-rows, columns))
    rows, columns = np.repeat(rows[order], 2), columns[order]
    starts = np.concatenate([[0], 2 * np.cumsum(np.bincount(columns))])
    halves = np.repeat(G[rows[::2], columns] / 2, 2)
    messy = scipy.sparse.csc_matrix((halves, rows, starts), shape=G.shape)
    assert not messy.has_canonical_format
    solution = solve(G=messy)
    np.testing.assert_allclose(solution.x, solve().x, atol=1e-10)
    assert messy.nnz == 2 * G.size
    np.testing.assert_array_equal(messy.data, halves)
    np.testing.assert_allclose(solution.vjp(np.ones(3)).G.toarray(), solve().vjp(np.ones(3)).G, atol=1e-9)


@pytest.mark.parametrize("layout", ["csc", "csr", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_every_sparse_format_is_accepted(layout: str, kind: Any) -> None:
    data = {name: kind(problem()[name]).asformat(layout) for name in ("P", "G", "A")}
    np.testing.assert_allclose(solve(**data).x, solve().x, atol=1e-10)


def test_integers_lists_and_float32_are_accepted() -> None:
    expected = altdiff.solve_qp(2.0 * np.eye(2), np.array([-2.0, -6.0]), np.ones((1, 2)), np.ones(1)).x
    P, q, G, h = [[2, 0], [0, 2]], [-2, -6], [[1, 1]], [1]
    for kind in (list, np.asarray, lambda value: np.asarray(value, dtype=np.float32)):
        solution = altdiff.solve_qp(kind(P), kind(q), kind(G), kind(h))
        assert solution.x.dtype == np.float64
        np.testing.assert_allclose(solution.x, expected, atol=1e-12)


def test_non_contiguous_and_read_only_arrays_are_accepted_and_not_written_to() -> None:
    data: Data = {}
    for name, value in problem().items():
        wide = np.zeros(tuple(2 * size for size in value.shape))
        view = wide[tuple(slice(None, None, 2) for _ in value.shape)]
        view[...] = value
        wide.flags.writeable = False
        view.flags.writeable = False
        data[name] = view
    solution = altdiff.solve_qp(**data)
    np.testing.assert_array_equal(solution.x, solve().x)
    solution.vjp(np.ones(3))
    for name, value in problem().items():
        np.testing.assert_array_equal(data[name], value)


def test_a_read_only_sparse_matrix_and_one_with_long_indices_are_accepted() -> None:
    G = scipy.sparse.csc_matrix(problem()["G"])
    for part in (G.data, G.indices, G.indptr):
        part.flags.writeable = False
    A = scipy.sparse.csc_matrix(problem()["A"])
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    solution = solve(G=G, A=A)
    np.testing.assert_allclose(solution.x, solve().x, atol=1e-10)
    tangent = solve().jvp(G=G.toarray(), A=A.toarray())
    np.testing.assert_allclose(solution.jvp(G=G, A=A).x, tangent.x, atol=1e-8)


def test_an_array_changed_after_the_solve_does_not_change_its_derivatives() -> None:
    data = problem()
    solution = altdiff.solve_qp(**data)
    expected = solution.vjp(np.ones(3))
    for value in data.values():
        value[...] = np.nan
    for left, right in zip(solution.vjp(np.ones(3)), expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_what_is_wrong_in_one_instance_of_a_batch_leaves_the_others_alone() -> None:
    data = problem()
    wrong = {
        0: ("q", np.nan),
        1: ("b", np.inf),
        2: ("h", -np.inf),
        3: ("lb", np.inf),
        4: ("ub", np.nan),
        6: ("P", np.nan),
    }
    batch: Data = {name: np.repeat(value[None], 7, axis=0) for name, value in data.items()}
    all_right: Data = {name: value.copy() for name, value in batch.items()}
    for index, (field, value) in wrong.items():
        batch[field][index].flat[0] = value
    solution = altdiff.solve_qp(**batch)
    right = altdiff.solve_qp(**all_right)
    invalid, solved = int(altdiff.Status.INVALID_DATA), int(altdiff.Status.SOLVED)
    assert solution.status.tolist() == [invalid] * 5 + [solved, invalid]
    np.testing.assert_array_equal(solution.x[5], right.x[5])
    assert np.isnan(np.delete(solution.x, 5, axis=0)).all()
    gradient = solution.vjp(np.ones((7, 3)))
    np.testing.assert_array_equal(gradient.q[5], right.vjp(np.ones((7, 3))).q[5])
    assert np.isnan(np.delete(gradient.q, 5, axis=0)).all()


def test_bounds_that_cross_in_one_instance_make_that_instance_invalid() -> None:
    lower = np.array([[-9.0, -9.0, -9.0], [-9.0, 99.0, -9.0]])
    solution = solve(lb=lower)
    assert solution.status.tolist() == [altdiff.Status.SOLVED, altdiff.Status.INVALID_DATA]


def test_nan_in_an_array_that_the_batch_shares_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^h must not hold NaN$"):
        solve(q=np.ones((4, 3)), h=np.array([1.0, np.nan]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tolerance", -1.0),
        ("tolerance", float("nan")),
        ("gradient_tolerance", 0.0),
        ("max_iterations", -5),
        ("time_limit", -1.0),
        ("num_threads", -2),
        ("rho", -0.1),
        ("method", "simplex"),
    ],
)
def test_a_bad_value_of_a_setting_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} must"):
        solve(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("tolerance", "small", "a number"),
        ("max_iterations", 1.5, "an integer"),
        ("max_iterations", True, "an integer"),
        ("verbose", 1, "True or False"),
        ("method", 3, "a string"),
    ],
)
def test_a_setting_of_the_wrong_type_is_named(name: str, value: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be {kind}, got {value!r}"):
        solve(**{name: value})


def test_an_unknown_setting_lists_the_right_ones_and_the_closest() -> None:
    with pytest.raises(TypeError, match=r"'max_iter': did you mean 'max_iterations'\?.*tolerance.*method"):
        solve(max_iter=5)
    with pytest.raises(TypeError, match="unknown setting 'warm'"):
        solve(warm=True)


def test_the_settings_accept_none_where_that_means_no_limit() -> None:
    np.testing.assert_array_equal(solve(num_threads=None, time_limit=None).x, solve().x)


def test_reaching_max_iterations_returns_its_status_and_the_last_iterate() -> None:
    solution = solve(max_iterations=1, finish=False, method="alternating")
    assert solution.status == altdiff.Status.MAX_ITERATIONS
    assert solution.iterations == 1
    assert np.isfinite(solution.x).all()
    assert np.abs(solution.x).max() > 0


def test_a_cotangent_or_a_tangent_of_the_wrong_shape_is_named() -> None:
    solution = solve()
    with pytest.raises(ValueError, match=re.escape("y_bar must have shape (1,), got (2,)")):
        solution.vjp(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match=re.escape("the tangent of G must have shape (2, 3), got (3, 2)")):
        solution.jvp(G=np.ones((3, 2)))
    with pytest.raises(ValueError, match="the tangent of A must be None: A is absent"):
        solve(A=None, b=None).jvp(A=np.ones((1, 3)))
    with pytest.raises(ValueError, match="field must be one of q, h, b, lb, ub, got 'P'"):
        solution.jacobian("P")


def test_an_initial_point_of_the_wrong_shape_is_named() -> None:
    other = altdiff.solve_qp(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match=re.escape("initial.x must have shape (3,), got (2,)")):
        solve(initial=other)
    with pytest.raises(TypeError, match="initial must be a Solution, got ndarray"):
        solve(initial=np.ones(3))


def test_a_sparse_matrix_with_an_index_out_of_range_is_named() -> None:
    P = scipy.sparse.csc_matrix(np.eye(2))
    P.indices[0] = 7
    with pytest.raises(ValueError, match="P is not a valid sparse matrix"):
        altdiff.solve_qp(P, np.ones(2))


def test_a_sparse_matrix_whose_pointers_go_back_is_refused() -> None:
    damaged = scipy.sparse.csc_matrix((3, 3))
    damaged.indptr = np.array([0, 5, 0, 0], dtype=np.int32)  # no entries, which scipy's own check lets pass
    with pytest.raises(ValueError, match="G is not a valid sparse matrix"):
        altdiff.solve_qp(np.eye(3), np.ones(3), damaged, np.ones(3))
