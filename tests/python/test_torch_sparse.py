"""Sparse matrices in torch: a pattern, and values with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from altdiff.torch import QPLayer, Sparse, solve_qp
from helpers.problems import POINT, known_problem
from torch.func import jacfwd, jacrev, vmap

# Torch says so once in each process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

MATRICES = ("P", "G", "A")
TIGHT: Any = {"rtol": 1e-8, "atol": 1e-9}


def tensors(seed: int) -> dict[str, torch.Tensor]:
    """A problem with holes in its matrices, whose active set does not change when the data move a little."""
    data = known_problem(seed, n=5, m=4, p=2).data
    return {name: torch.tensor(value) for name, value in data.items()}


def patterns(values: dict[str, torch.Tensor], kind: str = "csr") -> dict[str, Any]:
    return {name: getattr(scipy.sparse, f"{kind}_matrix")(values[name].numpy()) for name in MATRICES}


def sparse_fields(seed: int, kind: str = "csr") -> tuple[dict[str, torch.Tensor], dict[str, Sparse]]:
    values = tensors(seed)
    return values, {name: Sparse(matrix) for name, matrix in patterns(values, kind).items()}


def loss(values: dict[str, Any]) -> Any:
    solution = solve_qp(**values)
    total: Any = solution.objective.pow(2).sum()
    for name in POINT:
        total = total + getattr(solution, name).pow(3).sum()
    return total


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_gradients_of_the_values_are_those_of_the_dense_matrices_in_the_order_of_the_pattern(
    kind: str,
) -> None:
    values, fields = sparse_fields(1, kind)
    dense = {name: value.clone().requires_grad_() for name, value in values.items()}
    loss(dense).backward()
    entries = {name: field.values.clone().requires_grad_() for name, field in fields.items()}
    loss({**values, **{name: fields[name].with_values(v) for name, v in entries.items()}}).backward()
    for name, field in fields.items():
        expected = dense[name].grad[field.pattern.rows, field.pattern.columns]  # type: ignore[index]
        torch.testing.assert_close(entries[name].grad, expected, **TIGHT)


@pytest.mark.parametrize("batch", [(3,), (2, 3), (1, 3)])
def test_values_with_batch_dimensions_belong_to_the_instances(batch: tuple[int, ...]) -> None:
    values, fields = sparse_fields(2)
    scale = 1 + 0.01 * torch.rand(*batch, 1, dtype=torch.float64)
    entries = (scale * fields["G"].values).requires_grad_()
    q = values["q"] + 0.01 * torch.rand(2, 3, 5, dtype=torch.float64)
    sparse = fields["G"].with_values(entries)
    dense = sparse.to_dense().detach().requires_grad_()
    assert sparse.shape == dense.shape
    loss({**values, "q": q, "G": sparse}).backward()
    loss({**values, "q": q, "G": dense}).backward()
    rows, columns = fields["G"].pattern.rows, fields["G"].pattern.columns
    torch.testing.assert_close(entries.grad, dense.grad[..., rows, columns], **TIGHT)  # type: ignore[index]


@pytest.mark.parametrize("batch", [(), (3,)])
def test_first_and_second_derivatives_of_the_values_are_those_of_differences(batch: tuple[int, ...]) -> None:
    values, fields = sparse_fields(3)
    inputs = tuple(
        (fields[name].values * (1 + 0.01 * torch.rand(*batch, 1, dtype=torch.float64))).requires_grad_()
        for name in MATRICES
    )

    def solved(*entries: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = {name: fields[name].with_values(v) for name, v in zip(MATRICES, entries, strict=True)}
        arguments: Any = {**values, **own}
        solution = solve_qp(**arguments)
        return (*(getattr(solution, name) for name in POINT), solution.objective)

    assert torch.autograd.gradcheck(solved, inputs, rtol=1e-5, atol=1e-6, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(solved, inputs, rtol=1e-4, atol=1e-5)


def test_transforms_see_the_values() -> None:
    values, fields = sparse_fields(4)
    entries = fields["A"].values * (1 + 0.01 * torch.rand(3, 1, dtype=torch.float64))

    def x(own: torch.Tensor) -> Any:
        return QPLayer()(**{**values, "A": fields["A"].with_values(own)})

    expected = torch.stack([x(own) for own in entries])
    torch.testing.assert_close(vmap(x)(entries), expected, **TIGHT)
    reverse, forward = jacrev(x)(entries[0]), jacfwd(x)(entries[0])
    torch.testing.assert_close(reverse, forward, **TIGHT)
    each = vmap(jacrev(x))(entries)
    torch.testing.assert_close(each[0], reverse, **TIGHT)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc])
def test_sparse_tensors_are_taken_as_they_are(layout: Any) -> None:
    values = tensors(5)
    sparse = {name: values[name].to_sparse(layout=layout) for name in MATRICES}
    x = QPLayer()(**{**values, **sparse})
    torch.testing.assert_close(x, QPLayer()(**values), **TIGHT)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo])
def test_a_sparse_tensor_that_requires_a_gradient_gets_a_sparse_one(layout: Any) -> None:
    values = tensors(5)
    sparse = values["G"].to_sparse(layout=layout).requires_grad_()
    dense = values["G"].clone().requires_grad_()
    loss({**values, "G": sparse}).backward()
    loss({**values, "G": dense}).backward()
    assert sparse.grad is not None
    assert sparse.grad.layout is layout
    stored = values["G"] != 0
    torch.testing.assert_close(sparse.grad.to_dense(), dense.grad * stored, **TIGHT)  # type: ignore[operator]


def test_a_batch_of_csr_matrices_has_one_pattern() -> None:
    values = tensors(6)
    stack = torch.stack([values["G"], 1.001 * values["G"]])
    x = QPLayer()(**{**values, "G": stack.to_sparse_csr()})
    torch.testing.assert_close(x, QPLayer()(**{**values, "G": stack}), **TIGHT)
    holes = values["G"] * (torch.arange(5) != 1)
    with pytest.raises(ValueError, match="must store the same entries"):
        QPLayer()(**{**values, "G": _csr_of(holes, torch.roll(holes, 1, dims=1))})


def _csr_of(*matrices: torch.Tensor) -> torch.Tensor:
    parts = [matrix.to_sparse_csr() for matrix in matrices]
    return torch.sparse_csr_tensor(
        torch.stack([p.crow_indices() for p in parts]),
        torch.stack([p.col_indices() for p in parts]),
        torch.stack([p.values() for p in parts]),
        check_invariants=True,
    )


def test_values_in_single_precision_get_gradients_in_it() -> None:
    values, fields = sparse_fields(7)
    entries = fields["P"].values.float().requires_grad_()
    single = {name: value.float() for name, value in values.items()}
    x = QPLayer()(**{**single, "P": fields["P"].with_values(entries)})
    x.sum().backward()
    assert x.dtype is torch.float32
    assert entries.grad is not None
    assert entries.grad.dtype is torch.float32


def test_a_matrix_without_entries_has_an_empty_gradient() -> None:
    entries = torch.zeros(0, dtype=torch.float64, requires_grad=True)
    G = Sparse(scipy.sparse.csr_matrix((2, 3)), entries)
    x = QPLayer()(torch.eye(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64), G, np.ones(2))
    x.sum().backward()
    torch.testing.assert_close(x.detach(), -torch.ones(3, dtype=torch.float64))
    assert entries.grad is not None
    assert entries.grad.shape == (0,)


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_a_failed_instance_leaves_the_values_of_the_others_alone(on_failure: str) -> None:
    values, fields = sparse_fields(8)
    entries = fields["G"].values.repeat(3, 1)
    entries[1, 0] = float("nan")
    entries.requires_grad_()
    x = QPLayer(on_failure=on_failure)(**{**values, "G": fields["G"].with_values(entries)})
    x.pow(2).sum().backward()
    alone = fields["G"].values.clone().requires_grad_()
    QPLayer()(**{**values, "G": fields["G"].with_values(alone)}).pow(2).sum().backward()
    assert entries.grad is not None
    torch.testing.assert_close(entries.grad[0], alone.grad, **TIGHT)
    torch.testing.assert_close(entries.grad[2], alone.grad, **TIGHT)
    spoiled = entries.grad[1]
    assert bool(spoiled.isnan().all() if on_failure == "nan" else (spoiled == 0).all())


def test_a_wrong_pattern_or_its_values_are_named() -> None:
    eye = scipy.sparse.eye(3, format="csr")
    with pytest.raises(ValueError, match=r"values must have shape \(..., nnz\) with nnz = 3, got \(2,\)"):
        Sparse(eye, torch.zeros(2))
    with pytest.raises(TypeError, match=r"pattern must be a scipy.sparse matrix or a sparse tensor"):
        Sparse(np.eye(3))
    places = (np.array([0, 0]), np.array([1, 1]))
    twice = scipy.sparse.coo_matrix((np.array([1.0, 2.0]), places), shape=(2, 2))
    with pytest.raises(ValueError, match="stores an entry twice"):
        Sparse(twice)
    with pytest.raises(TypeError, match=r"layout torch.sparse_bsr is not served"):
        Sparse(torch.eye(4).to_sparse_bsr((2, 2)))


def test_a_graph_cannot_hold_it_and_a_compiled_layer_falls_back_to_python() -> None:
    values, fields = sparse_fields(9)
    compiled = torch.compile(QPLayer(), backend="eager")
    x = compiled(**{**values, "G": fields["G"]})
    torch.testing.assert_close(x, QPLayer()(**values), **TIGHT)
