"""Derivatives of the torch layer: of any order, in forward and reverse mode, alone and combined."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from altdiff._layer import Solved
from altdiff.torch import QPLayer, solve_qp
from helpers.problems import FIELDS, POINT, known_problem, natural_problem
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

Tensors = dict[str, Any]

# Without types of their own.
forward_ad: Any = torch.autograd.forward_ad
slow_hessian: Any = torch.autograd.functional.hessian
slow_jacobian: Any = torch.autograd.functional.jacobian

TIGHT: Any = {"rtol": 1e-8, "atol": 1e-9}


def known(seed: int, requires_grad: bool = False) -> Tensors:
    """A problem whose active set does not change when the data move a little."""
    data = known_problem(seed, n=4, m=3, p=1).data
    return {name: torch.tensor(value, requires_grad=requires_grad) for name, value in data.items()}


def loss(values: Tensors, **changes: Any) -> Any:
    """A number that all of the solution enters."""
    solution = solve_qp(**{**values, **changes})
    parts = [getattr(solution, name) for name in POINT]
    return sum((part**3).sum() for part in parts) + solution.objective.pow(2).sum()


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, **TIGHT)


@pytest.mark.parametrize("output", [*POINT, "objective"])
def test_gradcheck_passes_in_reverse_and_forward_mode_and_batched(output: str) -> None:
    values = known(1, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *v: getattr(solve_qp(*v), output),
        tuple(values.values()),
        rtol=1e-5,
        atol=1e-6,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@pytest.mark.parametrize("output", [*POINT, "objective"])
def test_gradgradcheck_passes_for_every_output_and_all_inputs(output: str) -> None:
    values = known(2, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda *v: getattr(solve_qp(*v), output),
        tuple(values.values()),
        rtol=1e-5,
        atol=1e-6,
        check_fwd_over_rev=True,
    )


def test_gradgradcheck_passes_with_some_inputs_shared_and_others_batched() -> None:
    values = known(3, requires_grad=True)
    for name in ("q", "h", "G"):
        noise = 0.01 * torch.randn(2, *values[name].shape, generator=torch.Generator().manual_seed(3))
        values[name] = (values[name] + noise).detach().requires_grad_()
    layer = QPLayer()
    assert torch.autograd.gradgradcheck(lambda *v: layer(*v), tuple(values.values()), rtol=1e-5, atol=1e-6)


def test_a_third_derivative_is_that_of_finite_differences() -> None:
    values = known(4)
    third = jacrev(jacrev(jacrev(lambda q: loss(values, q=q))))(values["q"])
    step = 1e-5
    for i in range(4):
        move = step * torch.eye(4, dtype=torch.float64)[i]
        above, below = (slow_hessian(lambda q: loss(values, q=q), values["q"] + s * move) for s in (1, -1))
        torch.testing.assert_close(third[..., i], (above - below) / (2 * step), rtol=1e-5, atol=1e-5)


def test_dual_numbers_carry_the_tangent_of_every_output() -> None:
    values = known(5)
    direction = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    with forward_ad.dual_level():
        solution: Any = solve_qp(**{**values, "q": forward_ad.make_dual(values["q"], direction)})
        outputs = {name: getattr(solution, name) for name in (*POINT, "objective")}
        moved = {name: forward_ad.unpack_dual(value).tangent for name, value in outputs.items()}
    for name, tangent in moved.items():

        def output(q: Any, name: str = name) -> Any:
            return getattr(solve_qp(**{**values, "q": q}), name)

        same(tangent, slow_jacobian(output, values["q"]) @ direction)


def test_jvp_and_vjp_are_transposes_for_all_fields_at_once() -> None:
    values = known(6)
    names = list(values)
    generator = torch.Generator().manual_seed(6)
    tangents = tuple(torch.randn(v.shape, dtype=v.dtype, generator=generator) for v in values.values())

    def x(*arguments: Any) -> Any:
        return QPLayer()(**dict(zip(names, arguments, strict=True)))

    bar = torch.randn(4, dtype=torch.float64, generator=generator)
    moved: Any = jvp(x, tuple(values.values()), tangents)[1]
    pull = vjp(x, *values.values())[1]
    same(moved @ bar, sum((g * t).sum() for g, t in zip(pull(bar), tangents, strict=True)))


def test_jacrev_and_jacfwd_give_the_jacobian() -> None:
    values = known(7)
    for name in FIELDS:

        def x(field: Any, name: str = name) -> Any:
            return QPLayer()(**{**values, name: field})

        expected = slow_jacobian(x, values[name])
        same(jacrev(x)(values[name]), expected)
        same(jacfwd(x)(values[name]), expected)


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
def test_every_combination_of_modes_gives_the_hessian(outer: Any, inner: Any) -> None:
    values = known(8)
    names = ("P", "q", "G", "h", "lb")

    def of(*arguments: Any) -> Any:
        return loss(values, **dict(zip(names, arguments, strict=True)))

    point = tuple(values[name] for name in names)
    places = tuple(range(len(names)))
    same(outer(inner(of, places), places)(*point), slow_hessian(of, point))


def test_hessian_is_symmetric_and_agrees_with_torch_autograd() -> None:
    values = known(9)
    ours = hessian(lambda q: loss(values, q=q))(values["q"])
    same(ours, ours.mT)
    same(ours, slow_hessian(lambda q: loss(values, q=q), values["q"]))


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_the_older_interface_vectorizes_too(strategy: str) -> None:
    values = known(10)

    def x(q: Any) -> Any:
        return QPLayer()(**{**values, "q": q})

    same(slow_jacobian(x, values["q"], vectorize=True, strategy=strategy), jacrev(x)(values["q"]))


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_linearize_follows_new_tangents() -> None:
    values = known(11)

    def x(q: Any) -> Any:
        return QPLayer()(**{**values, "q": q})

    _, move = linearize(x, values["q"])
    same(move(2 * values["q"]), jacrev(x)(values["q"]) @ (2 * values["q"]))


def test_a_gradient_with_a_history_equals_the_one_without() -> None:
    for seed in range(20):
        data = natural_problem(seed, n=5, m=4, p=1)
        rng = np.random.default_rng(seed)
        data["q"] = data["q"] + 0.1 * rng.normal(size=(3, 5))
        values = {name: torch.tensor(value, requires_grad=True) for name, value in data.items()}
        with_history = torch.autograd.grad(loss(values), list(values.values()), create_graph=True)
        without = torch.autograd.grad(loss(values), list(values.values()))
        torch.testing.assert_close(with_history, without, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("push", "held"), [(-9.0, "ub"), (9.0, "lb")])
def test_a_fixed_variable_moves_with_the_bound_that_holds_it(push: float, held: str) -> None:
    P, ones = torch.eye(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)

    def x(lb: Any, ub: Any) -> Any:
        return QPLayer()(P, push * ones, lb=lb, ub=ub)

    by_lb, by_ub = jacrev(x, (0, 1))(ones, ones)
    same(by_ub if held == "ub" else by_lb, P)
    same(by_lb if held == "ub" else by_ub, 0 * P)


def test_fields_that_broadcast_both_ways_have_second_derivatives() -> None:
    values = known(25)
    generator = torch.Generator().manual_seed(25)
    shapes = {"q": (2, 1, 4), "h": (3, 3), "P": (2, 1, 4, 4), "b": (1, 1)}
    for name, shape in shapes.items():
        noise = 0.005 * torch.randn(shape, dtype=torch.float64, generator=generator)
        values[name] = values[name] + (noise + noise.mT if name == "P" else noise)
    names = ("P", "q", "G", "h", "b", "ub")

    def total(*arguments: Any) -> Any:
        return loss(values, **dict(zip(names, arguments, strict=True)))

    inputs = tuple(values[name].requires_grad_() for name in names)
    same(
        torch.autograd.grad(total(*inputs), inputs, create_graph=True),
        torch.autograd.grad(total(*inputs), inputs),
    )
    assert torch.autograd.gradgradcheck(total, inputs, rtol=1e-5, atol=1e-5)


def test_a_gradient_at_a_kink_is_the_same_with_a_history() -> None:
    # x = 0 touches its bounds and a row without being pushed.
    values: Tensors = {
        "P": torch.eye(2, dtype=torch.float64),
        "q": torch.tensor([0.0, -1.0], dtype=torch.float64),
        "G": torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64),
        "h": torch.tensor([0.0, 2.0], dtype=torch.float64),
        "lb": torch.tensor([-1.0, 1.0], dtype=torch.float64),
    }
    for value in values.values():
        value.requires_grad_()
    with_history = torch.autograd.grad(loss(values), list(values.values()), create_graph=True)
    same(with_history, torch.autograd.grad(loss(values), list(values.values())))


def test_float32_has_second_derivatives_in_its_own_type() -> None:
    values = known(12)
    single = {name: value.float() for name, value in values.items()}
    ours = hessian(lambda q: loss(single, q=q))(single["q"])
    assert ours.dtype == torch.float32
    exact = hessian(lambda q: loss(values, q=q))(values["q"])
    torch.testing.assert_close(ours.double(), exact, rtol=1e-3, atol=1e-3)


def test_sparse_constants_have_second_derivatives_in_the_other_fields() -> None:
    values = known(13)
    sparse = {**values, "P": scipy.sparse.csc_matrix(values["P"].numpy()), "A": values["A"].numpy()}
    for transform in (hessian, jacrev):
        same(
            transform(lambda h: loss(sparse, h=h))(values["h"]),
            transform(lambda h: loss(values, h=h))(values["h"]),
        )


def test_a_scalar_bound_has_a_second_derivative() -> None:
    values = known(14)
    values = {"P": values["P"], "q": values["q"]}
    scalar = torch.tensor(-0.1, dtype=torch.float64)
    vector = hessian(lambda lb: loss(values, lb=lb))(scalar.expand(4).clone())
    same(hessian(lambda lb: loss(values, lb=lb))(scalar), vector.sum())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bound", [0.0, [0.0, 0.0, 0.0]])
def test_a_bound_that_is_a_constant_leaves_the_gradient_of_the_other_alone(bound: Any, sparse: bool) -> None:
    P = scipy.sparse.eye(3).tocsc() if sparse else torch.eye(3, dtype=torch.float64)
    q = torch.tensor([1.0, -0.5, -2.0], dtype=torch.float64)  # at lb, inside, at ub
    ub = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def loss(ub: Any) -> Any:
        return QPLayer()(P, q, lb=bound, ub=ub).sum()

    expected = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    same(torch.autograd.grad(loss(ub), ub, create_graph=True)[0], expected)
    for transform in (jacrev, jacfwd):
        same(transform(loss)(ub.detach()), expected)


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_failed_instances_are_treated_alike_with_and_without_a_history(on_failure: str) -> None:
    values = known(15)
    q = values["q"].repeat(3, 1)
    q[1, 0] = torch.nan
    fields = {**values, "q": q}
    inputs = [value.requires_grad_() for value in fields.values()]

    def total(weights: Any) -> Any:
        solution = solve_qp(**fields, on_failure=on_failure)
        return (weights * (solution.x.pow(2).sum(-1) + solution.objective)).nan_to_num().sum()

    for weights in (torch.tensor([1.0, 1.0, 1.0]), torch.tensor([1.0, 0.0, 1.0])):
        with_history = torch.autograd.grad(total(weights), inputs, create_graph=True)
        without = torch.autograd.grad(total(weights), inputs)
        torch.testing.assert_close(with_history, without, equal_nan=True, **TIGHT)


def test_masking_a_failed_instance_masks_its_second_derivative() -> None:
    values = known(16)
    q = values["q"].repeat(2, 1)
    q[1, 0] = torch.nan

    def masked(P: Any) -> Any:
        return solve_qp(**{**values, "P": P, "q": q}, on_failure="nan").x[0].pow(2).sum()

    def alone(P: Any) -> Any:
        return QPLayer()(**{**values, "P": P}).pow(2).sum()

    same(hessian(masked)(values["P"]), hessian(alone)(values["P"]))


def test_a_batch_of_zero_instances_has_empty_and_zero_gradients() -> None:
    values = known(17)
    q = torch.zeros(0, 4, dtype=torch.float64)
    assert jacrev(lambda q: loss(values, q=q))(q).shape == (0, 4)
    same(grad(lambda P: loss(values, q=q, P=P))(values["P"]), torch.zeros_like(values["P"]))


def test_empty_blocks_get_empty_gradients_under_a_transform() -> None:
    values = known(18)
    empty = torch.zeros(0, dtype=torch.float64)
    gradients = grad(lambda G, h: QPLayer()(values["P"], values["q"], G, h).sum(), (0, 1))(empty, empty)
    assert [gradient.shape for gradient in gradients] == [(0,), (0,)]


def test_replacing_the_data_of_a_tensor_does_not_change_the_gradient() -> None:
    values, others = (known(19, requires_grad=True) for _ in range(2))
    expected = torch.autograd.grad(loss(others), list(others.values()))
    total = loss(values)
    for value in values.values():
        value.data = torch.full_like(value, torch.nan)
    gc.collect()
    junk = [torch.full((4, 4), torch.nan, dtype=torch.float64) for _ in range(100)]
    same(torch.autograd.grad(total, list(values.values()), retain_graph=True), expected)
    same(torch.autograd.grad(total, list(values.values()), create_graph=True), expected)
    assert len(junk) == 100


def test_resizing_a_tensor_away_is_an_error_and_not_a_read_of_freed_memory() -> None:
    values = known(20, requires_grad=True)
    x = QPLayer()(**values)
    with torch.no_grad():
        values["G"].untyped_storage().resize_(0)
    with pytest.raises(RuntimeError):
        x.sum().backward()


@pytest.mark.parametrize("no_history", [torch.no_grad, torch.inference_mode])
def test_without_gradients_no_solved_batch_stays_alive(
    no_history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    original = Solved.__init__

    def remember(self: Solved, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Solved, "__init__", remember)
    values = known(21, requires_grad=True)
    with no_history():
        x, solution = QPLayer()(**values), solve_qp(**values)
    assert not x.requires_grad
    assert not solution.x.requires_grad
    assert len(made) == 2
    assert all(reference() is None for reference in made)
    kept = QPLayer()(**values)
    assert made[-1]() is not None
    del kept
    assert made[-1]() is None


def test_a_gradient_is_computed_only_for_what_requires_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from altdiff.torch import _adjoint, _transform

    asked: list[tuple[bool, ...]] = []
    original = _adjoint.gradients

    def remember(solve: Any, guard: Any, known: Any, needed: Any, bars: Any) -> Any:
        asked.append(tuple(needed))
        return original(solve, guard, known, needed, bars)

    monkeypatch.setattr(_transform, "gradients", remember)
    values = known(22)
    values["h"].requires_grad_()
    (gradient,) = torch.autograd.grad(loss(values), values["h"], create_graph=True)
    torch.autograd.grad(gradient.sum(), values["h"])
    assert set(asked) == {tuple(name == "h" for name in FIELDS)}


def test_a_loop_of_vjps_may_be_batched_by_vmap() -> None:
    values = known(23)
    pull = vjp(lambda q: QPLayer()(**{**values, "q": q}), values["q"])[1]
    bars = torch.eye(4, dtype=torch.float64)
    same(vmap(lambda bar: pull(bar)[0])(bars), torch.stack([pull(bar)[0] for bar in bars]))
