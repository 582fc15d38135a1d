"""The type of an answer: that of the tensors, or without tensors that of the arrays; one rule everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from altdiff.torch import ConvexLayer, QPLayer, Quadratic, solve_qp

EYE = [[2.0, 0.0], [0.0, 2.0]]
ONES = [1.0, 1.0]


def array(kind: Any, value: Any = EYE) -> Any:
    return np.array(value, dtype=kind)


def tensor(kind: Any, value: Any = ONES) -> torch.Tensor:
    return torch.tensor(value, dtype=kind)


f32, f64, bf16 = torch.float32, torch.float64, torch.bfloat16
CASES = {
    "float64 arrays": (array("f8"), array("f8", ONES), None, f64),
    "float32 arrays": (array("f4"), array("f4", ONES), None, f32),
    "float16 arrays": (array("f2"), array("f2", ONES), None, torch.float16),
    "long double": (array("longdouble"), ONES, None, f64),
    "float32 and float64 arrays": (array("f4"), array("f8", ONES), None, f64),
    "an array and a list": (array("f8"), ONES, None, f64),
    "lists": (EYE, ONES, None, f32),
    "lists and a number of NumPy's": (EYE, ONES, np.float64(-1.0), f32),
    "a list and bounds in an array": (EYE, ONES, array("f8", [-1.0, -1.0]), f64),
    "integers": (array("i8"), [1, 1], None, f32),
    "a float64 array and a float32 tensor": (array("f8"), tensor(f32), None, f32),
    "a float64 array and a bfloat16 tensor": (array("f8"), tensor(bf16), None, bf16),
    "a float32 array and a float64 tensor": (array("f4"), tensor(f64), None, f64),
    "a list and a float64 tensor": (EYE, tensor(f64), None, f64),
    "a number beside float32 tensors": (tensor(f32, EYE), tensor(f32), -1.0, f32),
    "float64 bounds beside float32 tensors": (tensor(f32, EYE), tensor(f32), array("f8", [-1.0, -1.0]), f32),
    "a float64 array and integers in a tensor": (array("f8"), tensor(torch.int64, [1, 1]), None, f64),
}


@pytest.mark.parametrize(("P", "q", "lb", "expected"), CASES.values(), ids=CASES)
def test_layers_agree_on_the_type_of_the_answer(P: Any, q: Any, lb: Any, expected: torch.dtype) -> None:
    solution = QPLayer().solve(P, q, lb=lb)
    assert [solution.x.dtype, solution.z_box.dtype, solution.objective.dtype] == [expected] * 3
    assert QPLayer()(P, q, lb=lb).dtype == expected
    assert ConvexLayer(Quadratic)(P, q, lb=lb).dtype == expected
    own = ConvexLayer(lambda x, P, q: 0.5 * x @ P @ x + q @ x, n=2)
    assert own(P, q, lb=lb).dtype == expected


def test_float64_arrays_lose_nothing() -> None:
    q = np.array([1.0 / 3.0, -1.0 / 7.0])
    x = QPLayer()(np.eye(2), q)
    np.testing.assert_array_equal(x.numpy(), -q)


@pytest.mark.parametrize("kind", ["matrix", "list"])
def test_sparse_constants_count_as_arrays_do(kind: str) -> None:
    matrix = scipy.sparse.csc_matrix(np.eye(2))
    P: Any = matrix if kind == "matrix" else [matrix, matrix]
    q = ONES if kind == "matrix" else [ONES, ONES]
    assert solve_qp(P, q).x.dtype == f64
    assert solve_qp(P, torch.tensor(q)).x.dtype == f32


def test_types_are_the_same_under_transforms_and_gradients_keep_those_of_their_tensors() -> None:
    P, lb, q = array("f8"), array("f8", [-1.0, -1.0]), tensor(f32).requires_grad_()
    for layer in (QPLayer(), ConvexLayer(Quadratic)):
        x = layer(P, q, lb=lb)
        (gradient,) = torch.autograd.grad(x.sum(), q)
        assert (x.dtype, gradient.dtype) == (f32, f32)
        torch.testing.assert_close(gradient, tensor(f32, [-0.5, -0.5]))
        moved = torch.func.jvp(lambda q, layer=layer: layer(P, q, lb=lb), (q.detach(),), (q.detach(),))
        assert [part.dtype for part in moved] == [f32, f32]
