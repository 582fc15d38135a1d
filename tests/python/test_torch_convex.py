"""`ConvexLayer` with built-in objectives: derivatives, transforms, batches, failures."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse
import torch
from altdiff import SolveError, Status
from altdiff.torch import (
    ConvexLayer,
    Linear,
    Objective,
    QPLayer,
    Quadratic,
    Separable,
    builder,
    solve_convex,
)
from helpers.convex_problems import EXAMPLES, binding_constraints, example, parted
from helpers.problems import POINT
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

Tensors = dict[str, Any]

# Without types of their own.
forward_ad: Any = torch.autograd.forward_ad
OUTPUTS = (*POINT, "objective")


def values_of(name: str, requires_grad: bool = True) -> Tensors:
    arrays = {**example(name).numbers, **binding_constraints()}
    return {k: torch.tensor(v, requires_grad=requires_grad) for k, v in arrays.items()}


def solution_of(name: str, values: Tensors, **options: Any) -> Any:
    numbers, constraints = parted(values)
    return solve_convex(example(name).build(**numbers), **constraints, tolerance=1e-10, **options)


def outputs_of(name: str, names: list[str], *arguments: Any) -> Any:
    solution = solution_of(name, dict(zip(names, arguments, strict=True)))
    return tuple(getattr(solution, output) for output in OUTPUTS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradcheck_passes_for_every_output_and_number(name: str) -> None:
    values = values_of(name)
    names = list(values)
    assert torch.autograd.gradcheck(
        lambda *v: outputs_of(name, names, *v),
        tuple(values.values()),
        rtol=1e-5,
        atol=1e-6,
        check_forward_ad=True,
        fast_mode=True,
    )


@pytest.mark.parametrize("name", ["log-sum-exp", "entropy", "power with a map"])
def test_gradgradcheck_passes(name: str) -> None:
    values = values_of(name)
    names = list(values)
    assert torch.autograd.gradgradcheck(
        lambda *v: outputs_of(name, names, *v)[:1] + outputs_of(name, names, *v)[-1:],
        tuple(values.values()),
        rtol=1e-4,
        atol=1e-5,
        check_fwd_over_rev=True,
        fast_mode=True,
    )


def test_a_third_derivative_is_that_of_finite_differences() -> None:
    layer = ConvexLayer(builder(lambda y: Linear(-y) + Separable("entropy")))
    A, b = torch.ones(1, 4, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    y = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = hessian(jacrev(lambda v: (layer(v, A=A, b=b) ** 2).sum()))(y)
    expected = hessian(jacrev(lambda v: (torch.softmax(v, -1) ** 2).sum()))(y)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


def test_vmap_jacrev_and_jacfwd_agree_with_softmax_where_the_answer_is_one() -> None:
    layer = ConvexLayer(builder(lambda y, t: Linear(-y) + Separable("entropy", t)))
    A, b = torch.ones(1, 5, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    y = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    t = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)

    def ours(v: Any, s: Any) -> Any:
        return layer(v, s, A=A, b=b)

    def theirs(v: Any, s: Any) -> Any:
        return torch.softmax(v / s, -1)

    for transform in (jacrev, jacfwd):
        for argument in (0, 1):
            found: Any = vmap(transform(ours, argument))(y, t)
            torch.testing.assert_close(found, vmap(transform(theirs, argument))(y, t), rtol=1e-8, atol=1e-9)
    moved = jvp(lambda v: ours(v, t[0]), (y,), (torch.ones_like(y) * y,))[1]
    torch.testing.assert_close(
        moved, jvp(lambda v: theirs(v, t[0]), (y,), (y * 1.0,))[1], rtol=1e-8, atol=1e-9
    )


def test_vmap_over_shared_constraints_is_a_batch() -> None:
    values = values_of("softplus with a map", requires_grad=False)
    noise = 1.0 + 0.001 * torch.rand(4, *values["h"].shape, generator=torch.Generator().manual_seed(3))
    many = values["h"] * noise

    def x(h: Any) -> Any:
        return solution_of("softplus with a map", {**values, "h": h}).x

    torch.testing.assert_close(vmap(x)(many), x(many), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["log-sum-exp", "entropy", "exp with a map"])
def test_gradients_are_those_of_numpy(name: str) -> None:
    values = values_of(name)
    solution = solution_of(name, values)
    loss = sum(
        (getattr(solution, part) * torch.linspace(0.5, 1.5, getattr(solution, part).numel())).sum()
        for part in POINT
    )
    gradients = torch.autograd.grad(loss, list(values.values()))
    arrays = {k: v.detach().numpy() for k, v in values.items()}
    numbers, constraints = parted(arrays)
    theirs = altdiff.solve_convex(example(name).build(**numbers), **constraints, tolerance=1e-10)
    bars = [np.linspace(0.5, 1.5, getattr(theirs, part).size) for part in POINT]
    pulled = theirs.vjp(*bars)
    for field, gradient in zip(values, gradients, strict=True):
        if field in constraints:
            np.testing.assert_allclose(gradient, getattr(pulled, field), rtol=0, atol=1e-6)


def test_a_layer_takes_a_class_a_builder_or_an_objective_whose_numbers_keep_their_history() -> None:
    L = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    P = (L @ L.T + torch.eye(4)).requires_grad_()
    q = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).requires_grad_()
    expected = torch.autograd.grad(QPLayer()(P, q, lb=0.0)[0], [P, q])
    ways = [
        ConvexLayer(Quadratic)(P, q, lb=0.0),
        ConvexLayer(builder(Quadratic))(P, q, lb=0.0),
        ConvexLayer(Quadratic(P, q))(lb=0.0),
        solve_convex(Quadratic(P) + Linear(q), lb=0.0).x,
    ]
    for x in ways:
        for ours, theirs in zip(torch.autograd.grad(x[0], [P, q]), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_float32_in_float32_out_with_gradients_in_float32() -> None:
    y = torch.randn(2, 6, requires_grad=True)
    b = torch.ones(1, dtype=torch.float32)
    x = ConvexLayer(builder(lambda v: Linear(-v) + Separable("entropy")))(y, A=torch.ones(1, 6), b=b)
    assert x.dtype == torch.float32
    (gradient,) = torch.autograd.grad((x**2).sum(), y)
    assert gradient.dtype == torch.float32
    expected = torch.autograd.grad((torch.softmax(y, -1) ** 2).sum(), y)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


def failing(on_failure: str) -> tuple[Any, Any, Any]:
    """The second of three instances has no feasible point."""
    q = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(6)).requires_grad_()
    lb = torch.tensor([[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    layer = ConvexLayer(builder(lambda v: Linear(v) + Separable("entropy")), on_failure)
    G, h = torch.ones(1, 2, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    return q, layer, {"G": G, "h": h, "lb": lb}


def test_a_failure_raises_an_error_that_names_the_instance() -> None:
    q, layer, constraints = failing("raise")
    with pytest.raises(SolveError, match="instance 1: PRIMAL_INFEASIBLE") as error:
        layer(q, **constraints)
    assert error.value.instances == [(1,)]
    assert list(pickle.loads(pickle.dumps(error.value)).status) == list(error.value.status)


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_a_failure_leaves_the_other_instances_alone(on_failure: str) -> None:
    q, layer, constraints = failing(on_failure)
    solution = layer.solve(q, **constraints)
    assert solution.status.tolist() == [Status.SOLVED, Status.PRIMAL_INFEASIBLE, Status.SOLVED]
    (gradient,) = torch.autograd.grad((solution.x**2).sum(), q)
    alone = layer(q[::2], G=constraints["G"], h=constraints["h"], lb=constraints["lb"][::2])
    expected = torch.autograd.grad((alone**2).sum(), q)[0]
    torch.testing.assert_close(gradient[::2], expected[::2], rtol=0, atol=1e-10)
    assert gradient[1].isnan().all() if on_failure == "nan" else (gradient[1] == 0).all()
    assert solution.x[1].isnan().all() == (on_failure == "nan")


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_transforms_obey_the_failure_policy(on_failure: str) -> None:
    q, layer, constraints = failing(on_failure)
    expected = torch.autograd.grad((layer(q, **constraints) ** 2).sum(), q)[0]
    point = q.detach()
    found: Any = grad(lambda v: (layer(v, **constraints) ** 2).sum())(point)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9, equal_nan=True)
    shared = {name: constraints[name] for name in ("G", "h")}
    each: Any = vmap(lambda v, lb: layer(v, **shared, lb=lb))(point, constraints["lb"])
    torch.testing.assert_close(each, layer(point, **constraints), rtol=0, atol=1e-9, equal_nan=True)
    moved: Any = jvp(lambda v: layer(v, **constraints), (point,), (torch.ones_like(point),))[1]
    assert moved[1].isnan().all() if on_failure == "nan" else (moved[1] == 0).all()
    assert moved[::2].isfinite().all()


def test_a_warm_start_needs_no_more_rounds_and_forgets_other_shapes() -> None:
    values = values_of("softplus with a map", requires_grad=False)
    numbers, constraints = parted(values)
    layer = ConvexLayer(example("softplus with a map").build(**numbers), warm_start=True)
    first, again = layer.solve(**constraints), layer.solve(**constraints)
    assert again.iterations <= first.iterations
    torch.testing.assert_close(first.x, again.x, rtol=0, atol=1e-9)
    h = constraints["h"].clone().requires_grad_()
    slopes = [torch.autograd.grad(layer.solve(**{**constraints, "h": h}).x[0], h)[0] for _ in range(2)]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-8, atol=1e-10)
    for batch in (2, 3):
        more = layer(**{**constraints, "h": constraints["h"].expand(batch, -1)})
        assert more.shape == (batch, 5)


def test_a_layer_is_copied_pickled_and_printed() -> None:
    layer = ConvexLayer(Linear(torch.ones(3)) + Separable("entropy"), tolerance=1e-9)
    b = torch.ones(1)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(other(A=torch.ones(1, 3), b=b), layer(A=torch.ones(1, 3), b=b))
    assert repr(layer) == "ConvexLayer(Linear(q) + Separable(entropy), on_failure='raise', tolerance=1e-09)"


def test_parameters_in_an_objective_are_trained() -> None:
    q = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    layer = ConvexLayer(Linear(q) + Separable("entropy"))
    target = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    assert [name for name, _ in layer.named_parameters()] == ["q_0"]
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        loss = (layer(A=torch.ones(1, 3), b=torch.ones(1)) - target).pow(2).sum()
        loss.backward()
        optimiser.step()
    assert loss.item() < 1e-6


def test_changing_a_tensor_between_the_passes_is_an_error() -> None:
    q = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    G = torch.eye(3, dtype=torch.float64)
    x = ConvexLayer(Quadratic(torch.eye(3, dtype=torch.float64), q))(G=G, h=torch.ones(3))
    G *= 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_a_tensor_whose_memory_is_gone_is_an_error() -> None:
    q = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    x = ConvexLayer(Quadratic(torch.eye(3, dtype=torch.float64), q))(lb=0.0)
    q.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="its memory is gone"):
        x.sum().backward()


def test_a_graph_does_not_swallow_the_answer() -> None:
    layer = ConvexLayer(builder(lambda v: Linear(-v) + Separable("entropy")))
    simplex: Any = {"A": torch.ones(1, 4), "b": torch.ones(1)}
    y = torch.randn(4, generator=torch.Generator().manual_seed(7))
    with pytest.raises(TypeError, match="cannot be drawn into a graph"):
        make_fx(lambda v: layer(v, **simplex))(y)
    with FakeTensorMode() as mode, pytest.raises(TypeError, match="cannot be drawn into a graph"):
        layer(mode.from_tensor(y), **{name: mode.from_tensor(v) for name, v in simplex.items()})
    with FlopCounterMode(display=False):
        torch.testing.assert_close(layer(y, **simplex), torch.softmax(y, -1))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own, after a break
def test_the_compiler_leaves_the_layer_to_python() -> None:
    layer = ConvexLayer(builder(lambda v: Linear(-v) + Separable("entropy")))
    A, b = torch.ones(1, 4, dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    def whole(v: Any) -> Any:
        return layer(2.0 * v, A=A, b=b).sin()

    y = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(8)).requires_grad_()
    compiled: Any = torch.compile(whole, backend="eager")
    for function in (compiled, whole):
        torch.testing.assert_close(function(y), torch.softmax(2.0 * y, -1).sin())
    (found,) = torch.autograd.grad(compiled(y).sum(), y)
    torch.testing.assert_close(found, torch.autograd.grad(torch.softmax(2.0 * y, -1).sin().sum(), y)[0])


def test_mistakes_are_named() -> None:
    q = torch.ones(3)
    with pytest.raises(TypeError, match=r"A is sparse, but convex programs are dense: pass A\.toarray\(\)"):
        solve_convex(Linear(q), A=scipy.sparse.csc_matrix(np.ones((1, 3))), b=[1.0])
    with pytest.raises(TypeError, match=r"A is sparse, but convex programs are dense: pass A\.to_dense\(\)"):
        solve_convex(Linear(q), A=torch.ones(1, 3).to_sparse(), b=[1.0])
    with pytest.raises(TypeError, match="the objective has its numbers already"):
        ConvexLayer(Linear(q))(q)
    with pytest.raises(TypeError, match="must return a built-in objective, got Tensor"):
        ConvexLayer(builder(lambda v: v))(q)
    with pytest.raises(TypeError, match="objective must be a built-in objective or its class"):
        ConvexLayer(3)
    with pytest.raises(TypeError, match="ranks, n and domain are for functions of your own"):
        ConvexLayer(Linear(q), n=3)
    with pytest.raises(ValueError, match="on_failure must be one of raise, nan, zero"):
        ConvexLayer(Linear(q), "ignore")
    with pytest.raises(TypeError, match="unknown setting 'tolerence'"):
        ConvexLayer(Linear(q), tolerence=1e-3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"Linear\.q must have shape \(\.\.\., n\) with n = 2, got \(3,\)"):
        solve_convex(Quadratic(torch.eye(2)) + Linear(q))
    assert isinstance(Linear(q) + Linear(q), Objective)
