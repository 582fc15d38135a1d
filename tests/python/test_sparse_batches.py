"""Batches of sparse programs: one pattern, values shared or of each instance's own."""

from __future__ import annotations

from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status

N, M, P_ROWS, BATCH = 12, 8, 3, 5


def stacked_problem(seed: int) -> dict[str, Any]:
    """Matrices with the same stored entries and other values in every instance."""
    rng = np.random.default_rng(seed)
    mask = rng.uniform(size=(N, N)) < 0.2
    hessian = np.triu(mask, 1)
    G_mask, A_mask = rng.uniform(size=(M, N)) < 0.4, rng.uniform(size=(P_ROWS, N)) < 0.5

    def filled(kept: Any, size: int) -> Any:
        columns = sp.csc_matrix(kept.astype(float))
        return [
            sp.csc_matrix((rng.normal(size=columns.nnz), columns.indices, columns.indptr), columns.shape)
            for _ in range(size)
        ]

    P = [0.1 * (upper + upper.T) + 3 * sp.eye_array(N) for upper in filled(hessian, BATCH)]
    G, A = filled(G_mask, BATCH), filled(A_mask, BATCH)
    x = rng.normal(size=(BATCH, N))
    h = np.stack([matrix @ point + 0.1 for matrix, point in zip(G, x, strict=True)])
    b = np.stack([matrix @ point for matrix, point in zip(A, x, strict=True)])
    return {
        "P": [sp.csc_matrix(m) for m in P],
        "q": 2 * rng.normal(size=(BATCH, N)),
        "G": G,
        "h": h,
        "A": A,
        "b": b,
    }


def of_instance(data: dict[str, Any], i: int) -> dict[str, Any]:
    """One instance of it."""
    return {name: value[i] for name, value in data.items()}


def test_matrices_of_each_instance_are_solved_as_alone() -> None:
    data = stacked_problem(0)
    together = altdiff.solve_qp(**data)
    assert (together.status == Status.SOLVED).all()
    bar = np.random.default_rng(1).normal(size=(BATCH, N))
    gradient = together.vjp(bar)
    for i in range(BATCH):
        alone = altdiff.solve_qp(**of_instance(data, i))
        np.testing.assert_allclose(together.x[i], alone.x, atol=1e-12)
        own = alone.vjp(bar[i])
        for name in ("P", "G", "A"):
            np.testing.assert_array_equal(getattr(gradient, name)[i].indices, data[name][i].indices)
            np.testing.assert_allclose(getattr(gradient, name)[i].data, getattr(own, name).data, atol=1e-12)
        for name in ("q", "h", "b"):
            np.testing.assert_allclose(getattr(gradient, name)[i], getattr(own, name), atol=1e-12)


def test_a_shared_matrix_may_stand_beside_stacked_ones() -> None:
    data = stacked_problem(2)
    data["P"] = data["P"][0]
    together = altdiff.solve_qp(**data)
    gradient = together.vjp(np.ones((BATCH, N)))
    total = sum(
        altdiff.solve_qp(**of_instance(data | {"P": [data["P"]] * BATCH}, i)).vjp(np.ones(N)).P.toarray()
        for i in range(BATCH)
    )
    np.testing.assert_allclose(gradient.P.toarray(), total, atol=1e-11)


def test_tangents_of_stacked_matrices_agree_with_differences() -> None:
    data = stacked_problem(3)
    rng = np.random.default_rng(4)
    dot = [sp.csc_matrix((rng.normal(size=m.nnz), m.indices, m.indptr), m.shape) for m in data["G"]]
    tangent = altdiff.solve_qp(**data).jvp(G=dot).x
    step = 1e-6
    shifted = [
        altdiff.solve_qp(**{**data, "G": [m + t * d for m, d in zip(data["G"], dot, strict=True)]}).x
        for t in (step, -step)
    ]
    np.testing.assert_allclose(tangent, (shifted[0] - shifted[1]) / (2 * step), atol=1e-7)


def test_a_bad_number_makes_one_instance_invalid() -> None:
    data = stacked_problem(5)
    data["G"][2].data[0] = np.nan
    status = altdiff.solve_qp(**data).status
    assert status[2] == Status.INVALID_DATA
    assert (np.delete(status, 2) == Status.SOLVED).all()


def test_different_patterns_are_refused_with_advice() -> None:
    data = stacked_problem(6)
    data["A"][1] = sp.csc_matrix(np.ones((P_ROWS, N)))
    with pytest.raises(ValueError, match=r"A\[1\] and A\[0\] store different entries.*store zeros"):
        altdiff.solve_qp(**data)


def test_another_number_of_matrices_is_refused() -> None:
    data = stacked_problem(7)
    data["G"] = data["G"][:3]
    with pytest.raises(ValueError, match="do not broadcast"):
        altdiff.solve_qp(**data)


def test_torch_takes_them_as_constants() -> None:
    torch = pytest.importorskip("torch")
    from altdiff.torch import solve_qp

    data = stacked_problem(8)
    q = torch.tensor(data["q"], requires_grad=True)
    x = solve_qp(**{**data, "q": q}).x
    x.sum().backward()  # type: ignore[no-untyped-call]
    expected = altdiff.solve_qp(**data).vjp(np.ones((BATCH, N))).q
    np.testing.assert_allclose(q.grad.numpy(), expected, atol=1e-12)
