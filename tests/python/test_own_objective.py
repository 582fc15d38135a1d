"""`ConvexLayer` with functions of the user's own: f(x, *theta), a module, or one applied to every entry."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from altdiff import SolveError, Status
from altdiff.torch import ConvexLayer, Linear, Separable, builder, elementwise, solve_convex
from helpers.convex_problems import K, N, binding_constraints
from torch.func import jacrev, vmap

POSITIVE = (0.0, math.inf)


def constraints(requires_grad: bool = False) -> dict[str, Any]:
    return {name: torch.tensor(v, requires_grad=requires_grad) for name, v in binding_constraints().items()}


def random(*shape: int, seed: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def cosh(x: Any, M: Any, c: Any, scale: Any) -> Any:
    """Smooth, convex, and none of the built-in objectives."""
    return torch.cosh(M @ x - c).sum() + scale * (x**4).sum()


def demand(x: Any, price: Any, share: Any) -> Any:
    """A utility with a domain, x > 0: concave, so its negative is minimised."""
    return price @ x - (share * torch.log(x)).sum() + 0.5 * (x.sum() - 1) ** 2


OWN: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "cosh": (cosh, [random(K, N, seed=1), random(K, seed=2), torch.tensor(0.7).double()], {}),
    "demand": (demand, [random(N, seed=3).abs(), random(N, seed=4).abs() + 0.1], {"domain": POSITIVE}),
}


@pytest.mark.parametrize("name", OWN)
def test_gradcheck_passes_for_theta_and_every_constraint(name: str) -> None:
    f, theta, options = OWN[name]
    given = constraints(requires_grad=True)
    names = list(given)
    inputs = (*(t.clone().requires_grad_() for t in theta), *given.values())

    def outputs(*values: Any) -> Any:
        own, rest = values[: len(theta)], dict(zip(names, values[len(theta) :], strict=True))
        solution = solve_convex(f, *own, **rest, **options, tolerance=1e-10)
        return solution.x, solution.y, solution.z, solution.z_box, solution.objective

    solution = solve_convex(f, *theta, **{k: v.detach() for k, v in given.items()}, **options)
    assert solution.margin > 1e-4  # differences do not step over a kink
    assert torch.autograd.gradcheck(
        outputs, inputs, rtol=1e-5, atol=1e-6, check_forward_ad=True, fast_mode=True
    )


def test_every_entry_of_theta_has_the_gradient_of_central_differences() -> None:
    f, theta, options = OWN["cosh"]
    given = constraints()

    def x(*own: Any) -> Any:
        return solve_convex(f, *own, **given, **options, tolerance=1e-10).x

    inputs = tuple(t.clone().requires_grad_() for t in theta)
    assert torch.autograd.gradcheck(x, inputs, eps=1e-5, rtol=1e-6, atol=1e-7)


def test_gradgradcheck_passes() -> None:
    f, theta, options = OWN["demand"]
    given = constraints()
    inputs = tuple(t.clone().requires_grad_() for t in theta)
    assert torch.autograd.gradgradcheck(
        lambda *own: solve_convex(f, *own, **given, **options, tolerance=1e-10).x,
        inputs,
        rtol=1e-4,
        atol=1e-5,
        fast_mode=True,
        check_fwd_over_rev=True,
    )


def test_ranks_tell_batch_dimensions_from_the_instances_own() -> None:
    layer = ConvexLayer(cosh, ranks=(2, 1, 0))
    M, c, scale = random(K, N, seed=5), random(3, K, seed=6), random(2, 1, seed=7).abs() + 0.1
    given = constraints(requires_grad=True)
    inputs = [t.clone().requires_grad_() for t in (M, c, scale)]
    x = layer(*inputs, **given)
    assert x.shape == (2, 3, N)
    found = torch.autograd.grad((x**3).sum(), [*inputs, given["h"], given["A"]])
    total = [torch.zeros_like(v) for v in (*inputs, given["h"], given["A"])]
    for i in range(2):
        for j in range(3):
            own = [t.detach().clone().requires_grad_() for t in (M, c[j], scale[i, 0])]
            alone = layer(*own, **given)
            torch.testing.assert_close(alone, x[i, j], rtol=0, atol=1e-9)
            part = torch.autograd.grad((alone**3).sum(), [*own, given["h"], given["A"]])
            total[0] += part[0]
            total[1][j] += part[1]
            total[2][i, 0] += part[2]
            total[3] += part[3]
            total[4] += part[4]
    for ours, theirs in zip(found, total, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def test_own_elementwise_and_built_in_objectives_agree() -> None:
    y = random(4, 6, seed=8).requires_grad_()
    simplex: Any = {"A": torch.ones(1, 6, dtype=torch.float64), "b": torch.ones(1, dtype=torch.float64)}
    layers = [
        ConvexLayer(builder(lambda v: Linear(-v) + Separable("entropy"))),
        ConvexLayer(lambda x, v: torch.xlogy(x, x).sum() - v @ x, ranks=(1,), domain=POSITIVE),
        ConvexLayer(elementwise(lambda t, v: torch.xlogy(t, t) - v * t), domain=POSITIVE),
    ]
    expected = torch.autograd.grad((torch.softmax(y, -1) ** 2).sum(), y)[0]
    for layer in layers:
        x = layer(y, **simplex)
        torch.testing.assert_close(x, torch.softmax(y, -1), rtol=0, atol=1e-10)
        torch.testing.assert_close(torch.autograd.grad((x**2).sum(), y)[0], expected, rtol=0, atol=1e-9)


def test_an_elementwise_objective_with_a_map_is_that_function_of_all_of_x() -> None:
    M, a, ridge = random(K, N, seed=9), random(2, K, seed=10).abs() + 0.5, torch.tensor(0.3).double()
    given = constraints()
    inputs = [t.clone().requires_grad_() for t in (M, a, ridge)]

    def whole(x: Any, M: Any, a: Any, ridge: Any) -> Any:
        return (a * torch.cosh(M @ x) + ridge * (M @ x) ** 2).sum()

    ours = ConvexLayer(elementwise(lambda t, a, r: a * torch.cosh(t) + r * t**2, M=inputs[0]))
    theirs = ConvexLayer(whole, ranks=(2, 1, 0))
    x, expected = ours(*inputs[1:], **given), theirs(*inputs, **given)
    torch.testing.assert_close(x, expected, rtol=0, atol=1e-9)
    found = torch.autograd.grad((x**2).sum(), inputs)
    for g, e in zip(found, torch.autograd.grad((expected**2).sum(), inputs), strict=True):
        torch.testing.assert_close(g, e, rtol=1e-7, atol=1e-8)


class Potential(torch.nn.Module):
    """A convex function with parameters and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.W = torch.nn.Parameter(random(4, 3, seed=11).float())
        self.register_buffer("ridge", torch.tensor(0.5))

    def forward(self, x: Any, shift: Any) -> Any:
        return torch.nn.functional.softplus(self.W @ x - shift).sum() + self.ridge * (x**2).sum()


def test_the_parameters_of_a_module_get_gradients() -> None:
    module = Potential()
    layer = ConvexLayer(module, n=3)
    shift = random(4, seed=12)
    x = layer(shift)
    x.pow(2).sum().backward()
    W = module.W.detach().double().requires_grad_()
    other = ConvexLayer(
        lambda x, W: torch.nn.functional.softplus(W @ x - shift).sum() + 0.5 * (x**2).sum(), n=3
    )
    (expected,) = torch.autograd.grad(other(W).pow(2).sum(), W)
    assert module.W.grad is not None
    torch.testing.assert_close(module.W.grad.double(), expected, rtol=1e-5, atol=1e-7)
    assert [name for name, _ in layer.named_parameters()] == ["objective.W"]


def test_vmap_over_theta_is_a_batch() -> None:
    layer = ConvexLayer(cosh, ranks=(2, 1, 0))
    M, c, scale = random(K, N, seed=13), random(3, K, seed=14), torch.tensor(0.5).double()
    given = constraints()
    batched = layer(M, c, scale, **given)
    torch.testing.assert_close(vmap(lambda v: layer(M, v, scale, **given))(c), batched, rtol=0, atol=1e-10)
    J: Any = vmap(jacrev(lambda v: layer(M, v, scale, **given)))(c)
    alone: Any = jacrev(lambda v: layer(M, v, scale, **given))(c[1])
    torch.testing.assert_close(J[1], alone, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("f", "given", "expected"),
    [
        (lambda x: -(x**2).sum(), {"lb": -torch.ones(2), "ub": torch.ones(2)}, Status.NONCONVEX),
        (lambda x: torch.cos(x).sum(), {"lb": -torch.ones(2)}, Status.NONCONVEX),
        (lambda x: (x * math.nan).sum(), {"lb": torch.zeros(2)}, Status.NUMERICAL_ERROR),
        (lambda x: x.sum(), {"ub": torch.zeros(2)}, Status.DUAL_INFEASIBLE),
        (
            lambda x: (x**2).sum(),
            {"lb": torch.ones(2), "G": torch.ones(1, 2), "h": torch.ones(1)},
            Status.PRIMAL_INFEASIBLE,
        ),
    ],
)
def test_what_has_no_solution_has_a_status(f: Any, given: dict[str, Any], expected: Status) -> None:
    assert solve_convex(f, **given, on_failure="zero").status == expected
    with pytest.raises(SolveError, match=expected.name):
        solve_convex(f, **given)


def test_a_kink_where_the_gradient_does_not_vanish_is_not_a_solution() -> None:
    solution = solve_convex(
        lambda x: (x - 0.3).abs().sum() + 0.5 * (x**2).sum(), n=2, on_failure="zero", max_iterations=30
    )
    assert solution.status != Status.SOLVED


def test_pieces_without_curvature_are_left_by_descent() -> None:
    target = torch.tensor([5.0, -3.0], dtype=torch.float64)
    x = ConvexLayer(lambda x, t: torch.nn.functional.huber_loss(x, t, reduction="sum"), n=2)(target)
    torch.testing.assert_close(x, target, rtol=0, atol=1e-8)


def test_a_domain_may_be_declared_or_found_or_given_by_a_point() -> None:
    def f(x: Any) -> Any:
        return (x - torch.log(x)).sum()

    def shifted(x: Any) -> Any:
        return f(x - 5.0)

    ones = torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(ConvexLayer(f, n=3)(), ones.to(torch.get_default_dtype()))
    for x in (
        ConvexLayer(shifted, domain=(5.0, math.inf), n=3)(),
        ConvexLayer(shifted, n=3)(initial=7 * ones),
        ConvexLayer(shifted)(lb=5 * ones),
    ):
        torch.testing.assert_close(x.double(), 6 * ones, rtol=0, atol=1e-6)
    torch.testing.assert_close(ConvexLayer(shifted, n=3)().double(), 6 * ones, rtol=0, atol=1e-6)
    far = ConvexLayer(lambda x: f(x - 5e5), n=3)
    with pytest.raises(SolveError, match=r"NUMERICAL_ERROR.*inf or NaN outside .*initial=.* or domain="):
        far()
    torch.testing.assert_close(far(initial=5e5 + 2 * ones).double(), (5e5 + 1) * ones, rtol=0, atol=0.1)


@pytest.mark.parametrize("outside", [math.nan, math.inf, 0.0])
def test_steps_turn_back_where_a_function_has_left_its_domain(outside: float) -> None:
    def f(x: Any) -> Any:
        inside = x > 3.0
        return torch.where(inside, 1e-2 * x - torch.log(torch.where(inside, x - 3.0, 1.0)), outside).sum()

    x = ConvexLayer(f, n=2)(initial=torch.tensor([3.5, 60.0], dtype=torch.float64))
    torch.testing.assert_close(x.double(), torch.full((2,), 103.0, dtype=torch.float64), rtol=1e-6, atol=0)


def test_what_the_function_raises_comes_out() -> None:
    def f(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ConvexLayer(f, n=2)()


def test_mistakes_are_named() -> None:
    W = random(2, 2, seed=15).requires_grad_()
    with pytest.raises(RuntimeError, match="requires a gradient but is not among its arguments"):
        ConvexLayer(lambda x: ((W @ x) ** 2).sum(), n=2)()
    with pytest.raises(ValueError, match="how many variables there are is not known"):
        ConvexLayer(lambda x: (x**2).sum())()
    with pytest.raises(ValueError, match=r"must return a scalar for one instance, got shape \(2,\).*ranks"):
        ConvexLayer(lambda x: x**2, n=2)()
    with pytest.raises(TypeError, match="must return a tensor, got float"):
        ConvexLayer(lambda x: 1.0, n=2)()
    with pytest.raises(ValueError, match=r"phi must return a tensor of its argument's shape \(2,\)"):
        ConvexLayer(elementwise(lambda t: t.sum()), n=2)()
    with pytest.raises(TypeError, match="ranks has 1 entries, but the call has 2 theta"):
        ConvexLayer(cosh, ranks=(1,), n=2)(W, W)
    with pytest.raises(ValueError, match=r"theta\[0\] must have 2 dimensions or more"):
        ConvexLayer(lambda x, t: x @ x, ranks=(2,), n=2)(torch.ones(2))
    with pytest.raises(ValueError, match="ranks must be integers"):
        ConvexLayer(cosh, ranks=(1, -1))
    with pytest.raises(ValueError, match="n must be a positive integer"):
        ConvexLayer(cosh, n=0)
    with pytest.raises(ValueError, match="domain must be an interval"):
        ConvexLayer(cosh, domain=(1.0, 0.0))


def test_an_empty_batch_and_one_variable_work() -> None:
    layer = ConvexLayer(lambda x, t: ((x - t) ** 2).sum(), ranks=(1,), n=3)
    theta = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    x = layer(theta)
    assert x.shape == (0, 3)
    assert torch.autograd.grad(x.sum(), theta)[0].shape == (0, 3)
    one = ConvexLayer(lambda x, t: torch.exp(x).sum() - t * x.sum(), n=1)(torch.tensor(2.0).double())
    assert one.item() == pytest.approx(math.log(2.0), abs=1e-10)


def test_a_layer_with_a_named_function_is_pickled() -> None:
    layer = pickle.loads(pickle.dumps(ConvexLayer(demand, domain=POSITIVE)))
    _, theta, _ = OWN["demand"]
    torch.testing.assert_close(
        layer(*theta, **constraints()), ConvexLayer(demand, domain=POSITIVE)(*theta, **constraints())
    )
