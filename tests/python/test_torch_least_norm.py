"""Where x is not unique, every transform of torch differentiates the least x: to any order, by any way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from altdiff.torch import LogSumExp, Quadratic, Separable, Sparse, solve_convex, solve_qp
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

# Without types of their own.
forward_ad: Any = torch.autograd.forward_ad
slow_jacobian: Any = torch.autograd.functional.jacobian
slow_hessian: Any = torch.autograd.functional.hessian

TIGHT: Any = {"rtol": 1e-8, "atol": 1e-8}
LOOSE: Any = {"rtol": 1e-6, "atol": 1e-6}  # second derivatives


class Family(NamedTuple):
    """Programs with a face of solutions wherever their parameters are, and the least of these."""

    parameters: Callable[[int], tuple[Any, ...]]
    program: Callable[..., dict[str, Any]]
    least: Callable[..., Any]


def numbers(seed: int, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)


def least_with(rows: Any, values: Any) -> Any:
    """The least x with rows x = values."""
    return rows.mT @ torch.linalg.solve(rows @ rows.mT, values)


def fit(W: Any, c: Any) -> dict[str, Any]:
    """min 1/2 |W x - c|^2 with fewer rows than variables."""
    return {"P": W.mT @ W, "q": -W.mT @ c}


def tied_fit(W: Any, c: Any, M: Any, b: Any) -> dict[str, Any]:
    """The same where M W x = b holds something back, so that its multiplier is not zero."""
    return {**fit(W, c), "A": M @ W, "b": b}


def tied_least(W: Any, c: Any, M: Any, b: Any) -> Any:
    return least_with(W, c - least_with(M, M @ c - b))


def equalities(A: Any, b: Any, force: Any) -> dict[str, Any]:
    """A constant objective on A x = b."""
    n = A.shape[-1]
    return {"P": torch.zeros(n, n, dtype=A.dtype), "q": A.mT @ force, "A": A, "b": b}


def face(g: Any, h: Any, top: Any) -> dict[str, Any]:
    """max g'x on g'x <= h: a face, of which a bound cuts off the least of all."""
    n = g.shape[-1]
    upper = torch.cat([top, torch.full((n - 1,), 50.0, dtype=g.dtype)])
    return {"P": torch.zeros(n, n, dtype=g.dtype), "q": -g, "G": g.unsqueeze(0), "h": h, "ub": upper}


def least_on_face(g: Any, h: Any, top: Any) -> Any:
    return torch.cat([top, least_with(g[1:].unsqueeze(0), h - g[0] * top)])


def face_numbers(seed: int) -> tuple[Any, ...]:
    (noise,) = numbers(seed, (4,))
    return 1 + 0.2 * noise, torch.full((1,), 4.0).double(), torch.full((1,), 0.3).double()


FAMILIES = {
    "fit": Family(lambda seed: numbers(seed, (2, 4), (2,)), fit, least_with),
    "tied fit": Family(lambda seed: numbers(seed, (3, 5), (3,), (1, 3), (1,)), tied_fit, tied_least),
    "equalities": Family(
        lambda seed: numbers(seed, (2, 4), (2,), (2,)), equalities, lambda A, b, force: least_with(A, b)
    ),
    "face": Family(face_numbers, face, least_on_face),
}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def same(ours: Any, theirs: Any, tolerance: Any = TIGHT) -> None:
    torch.testing.assert_close(ours, theirs, **tolerance)


def solved(family: Family) -> Callable[..., Any]:
    return lambda *parameters: solve_qp(**family.program(*parameters)).x


def places(parameters: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(range(len(parameters)))


def cubed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A number with derivatives of every order."""
    return lambda *parameters: (function(*parameters) ** 3).sum()


def test_forward_mode_knows_how_the_least_x_turns() -> None:
    # min 1/2 (w'x - 1)^2 has the least solution w / |w|^2.
    w, dw = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)

    def least(w: Any) -> Any:
        return altdiff.torch.solve_qp(torch.outer(w, w), -w).x

    tangent: Any = torch.func.jvp(least, (w,), (dw,))[1]
    np.testing.assert_allclose(tangent.numpy(), [0.12, -0.16], atol=1e-9)


@every_family
def test_the_least_x_is_the_one_that_is_differentiated(family: Family) -> None:
    parameters = family.parameters(1)
    solution = solve_qp(**family.program(*parameters))
    assert not solution.unique
    same(solution.x, family.least(*parameters))


@every_family
@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians_are_those_of_the_least_x(family: Family, transform: Any) -> None:
    parameters = family.parameters(2)
    ours, theirs = (transform(f, places(parameters))(*parameters) for f in (solved(family), family.least))
    same(ours, theirs)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@every_family
def test_every_way_to_a_tangent_gives_the_same(family: Family) -> None:
    parameters = family.parameters(3)
    changes = numbers(33, *(p.shape for p in parameters))
    expected = jvp(family.least, parameters, changes)[1]
    same(jvp(solved(family), parameters, changes)[1], expected)
    same(linearize(solved(family), *parameters)[1](*changes), expected)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p, d) for p, d in zip(parameters, changes, strict=True)]
        same(forward_ad.unpack_dual(solved(family)(*duals)).tangent, expected)
    (bar,) = numbers(34, (len(expected),))
    pulled = vjp(solved(family), *parameters)[1](bar)
    same(sum((g * d).sum() for g, d in zip(pulled, changes, strict=True)), bar @ expected)


@every_family
def test_every_way_to_a_gradient_gives_the_same(family: Family) -> None:
    parameters = tuple(p.requires_grad_() for p in family.parameters(4))
    of = cubed(solved(family))
    expected = torch.autograd.grad(cubed(family.least)(*parameters), parameters, allow_unused=True)
    expected = tuple(
        torch.zeros_like(p) if g is None else g for p, g in zip(parameters, expected, strict=True)
    )
    same(torch.autograd.grad(of(*parameters), parameters), expected)
    same(torch.autograd.grad(of(*parameters), parameters, create_graph=True), expected)
    same(grad(of, places(parameters))(*parameters), expected)
    stacked = tuple(torch.stack([p.detach(), p.detach()]) for p in parameters)
    many = vmap(grad(of, places(parameters)))(*stacked)
    for own, wanted in zip(many, expected, strict=True):
        same(own, torch.stack([wanted, wanted]))


@every_family
@pytest.mark.parametrize("vectorize", [False, True])
def test_the_older_interface_knows_it_too(family: Family, vectorize: bool) -> None:
    parameters = family.parameters(5)
    expected = jacrev(family.least, places(parameters))(*parameters)
    same(slow_jacobian(solved(family), parameters, vectorize=vectorize), expected)


@every_family
@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
def test_every_combination_of_modes_gives_the_hessian(family: Family, outer: Any, inner: Any) -> None:
    parameters = family.parameters(6)
    where = places(parameters)
    ours = outer(inner(cubed(solved(family)), where), where)(*parameters)
    # Not by the same modes: a derivative of torch.linalg.solve's tangent is wrong in torch 2.13.0.
    same(ours, jacrev(jacrev(cubed(family.least), where), where)(*parameters), LOOSE)


@every_family
def test_a_double_backward_is_the_slope_of_the_first(family: Family) -> None:
    parameters = family.parameters(7)
    expected = hessian(cubed(family.least), places(parameters))(*parameters)
    same(slow_hessian(cubed(solved(family)), parameters), expected, LOOSE)
    leaves = tuple(p.clone().requires_grad_() for p in parameters)
    changes = numbers(77, *(p.shape for p in parameters))
    gradient = torch.autograd.grad(cubed(solved(family))(*leaves), leaves, create_graph=True)
    along = sum((g * d).sum() for g, d in zip(gradient, changes, strict=True))
    second = torch.autograd.grad(along, leaves)
    step = 1e-5
    sides = []
    for sign in (1, -1):
        moved = [p + sign * step * d for p, d in zip(parameters, changes, strict=True)]
        sides.append(grad(cubed(solved(family)), places(parameters))(*moved))
    for own, above, below in zip(second, *sides, strict=True):
        same(own, (above - below) / (2 * step), {"rtol": 1e-4, "atol": 1e-4})


def test_third_derivatives_are_right() -> None:
    family = FAMILIES["fit"]
    W, c = family.parameters(8)
    ours, theirs = (
        jacfwd(jacrev(jacrev(lambda W, f=f: cubed(f)(W, c))))(W) for f in (solved(family), family.least)
    )
    same(ours, theirs, {"rtol": 1e-4, "atol": 1e-4})


def test_multipliers_have_derivatives_beside_a_face() -> None:
    W, c, M, b = FAMILIES["tied fit"].parameters(9)

    def y(*parameters: Any) -> Any:
        return solve_qp(**tied_fit(*parameters)).y

    def expected(W: Any, c: Any, M: Any, b: Any) -> Any:
        return torch.linalg.solve(M @ M.mT, M @ c - b)

    where = (0, 1, 2, 3)
    for transform in (jacrev, jacfwd):
        same(transform(y, where)(W, c, M, b), transform(expected, where)(W, c, M, b))
    ours, theirs = (hessian(cubed(f), where)(W, c, M, b) for f in (y, expected))
    same(ours, theirs, LOOSE)


def mixed(W: Any, c: Any) -> Any:
    """Instances with four, two and three rows of W: x is unique in the first alone."""
    kept = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 1, 1]], dtype=W.dtype)
    weighted = kept.unsqueeze(-1) * W
    return solve_qp(W.mT @ weighted, -(weighted.mT @ c.unsqueeze(-1)).squeeze(-1))


def mixed_least(W: Any, c: Any) -> Any:
    rows = ([0, 1, 2, 3], [0, 2], [1, 2, 3])
    return torch.stack([least_with(W[..., own, :], c[i, own]) for i, own in enumerate(rows)])


def test_instances_with_one_x_and_with_many_share_a_batch() -> None:
    W, c = numbers(10, (4, 4), (3, 4))
    assert mixed(W, c).unique.tolist() == [True, False, False]

    def ours(W: Any, c: Any) -> Any:
        return mixed(W, c).x

    for transform in (jacrev, jacfwd):
        same(transform(ours, (0, 1))(W, c), transform(mixed_least, (0, 1))(W, c))
    same(hessian(cubed(ours), (0, 1))(W, c), hessian(cubed(mixed_least), (0, 1))(W, c), LOOSE)
    stacked = torch.stack([W, W + 0.1])
    both = vmap(jacfwd(ours), in_dims=(0, None))(stacked, c)
    same(both, torch.stack([jacrev(mixed_least)(own, c) for own in stacked]))


def test_a_unique_x_takes_no_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> Any:
        raise AssertionError("x is unique")

    monkeypatch.setattr("altdiff.torch._transform.flat_columns", forbidden)
    W, c = numbers(11, (4, 4), (4,))
    hessian(lambda W: cubed(solved(FAMILIES["fit"]))(W, c))(W)


@pytest.mark.parametrize("policy", ["nan", "zero"])
def test_a_failed_instance_beside_a_face_has_what_its_policy_says(policy: str) -> None:
    W, c = numbers(12, (2, 4), (2, 2))
    broken = torch.tensor([[0.0], [torch.nan]], dtype=torch.float64)

    def x(W: Any) -> Any:
        return solve_qp(W.mT @ W, -(c @ W) + broken, on_failure=policy).x

    filler = torch.full((4, 2, 4), torch.nan if policy == "nan" else 0.0, dtype=torch.float64)
    for transform in (jacrev, jacfwd):
        jacobian = transform(x)(W)
        same(jacobian[0], jacrev(lambda W: least_with(W, c[0]))(W))
        torch.testing.assert_close(jacobian[1], filler, equal_nan=True)
    same(grad(lambda W: x(W)[0].sum())(W), grad(lambda W: least_with(W, c[0]).sum())(W))


@every_family
def test_transforms_agree_with_numpy_in_every_direction(family: Family) -> None:
    """Also in those in which the face ends, where both follow one convention."""
    program = family.program(*family.parameters(13))
    names = list(program)
    changes = numbers(14, *(program[name].shape for name in names))
    (bar,) = numbers(15, program["q"].shape)
    theirs = altdiff.solve_qp(**{name: value.numpy() for name, value in program.items()})

    def x(*fields: Any) -> Any:
        return solve_qp(**dict(zip(names, fields, strict=True))).x

    moved: Any = jvp(x, tuple(program.values()), changes)[1]
    arrays = {name: change.numpy() for name, change in zip(names, changes, strict=True)}
    np.testing.assert_allclose(moved, theirs.jvp(**arrays).x, rtol=1e-8, atol=1e-8)
    pulled = vjp(x, *program.values())[1](bar)
    for name, own in zip(names, pulled, strict=True):
        np.testing.assert_allclose(own, getattr(theirs.vjp(bar.numpy()), name), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("batched", [False, True])
def test_values_of_a_sparse_matrix_turn_the_least_x(batched: bool) -> None:
    c, force = numbers(16, (2,), (2,))
    pattern = Sparse(sp.csr_matrix(np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]])))
    (values,) = numbers(17, (3, 6) if batched else (6,))
    P = Sparse(sp.csr_matrix((4, 4)))

    def x(values: Any) -> Any:
        A = pattern.with_values(values)
        return solve_qp(P, (A.to_dense().mT @ force), A=A, b=c).x

    def expected(values: Any) -> Any:
        rows = pattern.with_values(values).to_dense()
        return (torch.linalg.pinv(rows) @ c.unsqueeze(-1)).squeeze(-1)

    for transform in (jacrev, jacfwd):
        same(transform(x)(values), transform(expected)(values))
    same(hessian(cubed(x))(values), hessian(cubed(expected))(values), LOOSE)


def test_single_precision_is_computed_in_double() -> None:
    W, c = numbers(18, (2, 4), (2,))
    single = W.float()

    def x(W: Any) -> Any:
        return solve_qp(A=W, b=c.float(), P=torch.zeros(4, 4), q=torch.zeros(4)).x

    for transform in (jacrev, jacfwd):
        found = transform(x)(single)
        assert found.dtype == torch.float32
        same(found, transform(lambda W: least_with(W, c.float().double()))(single.double()).float(), LOOSE)


# What torch's compiler says about itself.
quiet = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@quiet
@every_family
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_gradient_is_that_of_the_least_x(family: Family, backend: str) -> None:
    parameters = tuple(p.requires_grad_() for p in family.parameters(19))
    compiled = torch.compile(cubed(solved(family)), fullgraph=True, backend=backend)
    expected = torch.autograd.grad(cubed(solved(family))(*parameters), parameters)
    same(torch.autograd.grad(compiled(*parameters), parameters), expected)


@quiet
def test_one_compiled_graph_serves_problems_with_one_x_and_with_many() -> None:
    W, c = numbers(20, (4, 4), (4,))
    compiled: Any = torch.compile(cubed(solved(FAMILIES["fit"])), fullgraph=True, backend="aot_eager")
    for kept in ([1, 1, 1, 1], [1, 0, 1, 0]):
        leaf = (torch.tensor(kept).unsqueeze(-1) * W).requires_grad_()
        (gradient,) = torch.autograd.grad(compiled(leaf, c), leaf)
        (expected,) = torch.autograd.grad(cubed(solved(FAMILIES["fit"]))(leaf, c), leaf)
        same(gradient, expected)


class Layer(torch.nn.Module):
    def forward(self, W: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return solve_qp(**fit(W, c)).x


@quiet
@pytest.mark.parametrize("rows", [2, 4])
def test_an_exported_program_has_second_derivatives(rows: int) -> None:
    W, c = numbers(21, (rows, 4), (rows,))
    exported = torch.export.export(Layer(), (W, c)).module()
    where = (0, 1)
    expected = hessian(cubed(least_with), where)(W, c)
    same(slow_hessian(cubed(exported), (W, c)), expected, LOOSE)
    same(slow_hessian(cubed(exported), (W, c), vectorize=True), expected, LOOSE)


@quiet
def test_a_traced_derivative_follows_its_inputs_from_one_x_to_many() -> None:
    W, c = numbers(22, (4, 4), (4,))
    few = torch.tensor([[1.0], [0.0], [1.0], [0.0]], dtype=torch.float64) * W
    first = grad(lambda W: cubed(solved(FAMILIES["fit"]))(W, c))
    for function, tolerance in ((first, TIGHT), (jacrev(first), LOOSE)):
        graph = make_fx(function)(W)
        same(graph(few), function(few), tolerance)


@quiet
def test_a_compiled_backward_pass_solves_once_more_and_no_more() -> None:
    graphs = []

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    W, c = (p.requires_grad_() for p in numbers(24, (2, 4), (2,)))
    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    torch.compile(cubed(solved(FAMILIES["fit"])), fullgraph=True, backend=backend)(W, c).backward()
    targets = [str(node.target) for graph in graphs for node in graph.graph.nodes]
    calls = [target for target in targets if target.startswith("altdiff")]
    assert calls == ["altdiff.solve_qp.default", "altdiff.pull_back.default"]


@quiet
def test_a_compiled_vmap_knows_it_too() -> None:
    W, c = numbers(25, (2, 4), (3, 2))
    W.requires_grad_()

    def loss(W: Any) -> Any:
        return vmap(lambda c: cubed(solved(FAMILIES["fit"]))(W, c))(c).sum()

    compiled: Any = torch.compile(loss, fullgraph=True, backend="aot_eager")
    same(torch.autograd.grad(compiled(W), W), torch.autograd.grad(loss(W), W))


def flow(seed: int) -> dict[str, Any]:
    """Transport from two places to three, at costs of which some tie; one row says what the others do."""
    rng = np.random.default_rng(seed)
    A = np.concatenate([np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))])
    costs = np.add.outer(rng.integers(0, 3, 2), rng.integers(0, 3, 3)).ravel().astype(float)
    b = A @ rng.uniform(1, 2, 6)
    arrays = {"P": np.zeros((6, 6)), "q": costs, "A": A, "b": b, "lb": np.zeros(6)}
    return {name: torch.tensor(array) for name, array in arrays.items()}


@pytest.mark.parametrize("seed", range(5))
def test_ways_agree_where_rows_depend_on_each_other_and_bounds_hold_x_back(seed: int) -> None:
    program = flow(seed)
    names = list(program)

    def x(*fields: Any) -> Any:
        return solve_qp(**dict(zip(names, fields, strict=True))).x

    leaves = tuple(value.clone().requires_grad_() for value in program.values())
    (bar,) = numbers(seed, (6,))
    plain = torch.autograd.grad(x(*leaves) @ bar, leaves)
    same(torch.autograd.grad(x(*leaves) @ bar, leaves, create_graph=True), plain)
    same(vjp(x, *program.values())[1](bar), plain)
    changes = numbers(seed + 5, *(value.shape for value in program.values()))
    moved: Any = jvp(x, tuple(program.values()), changes)[1]
    same(moved @ bar, sum((g * d).sum() for g, d in zip(plain, changes, strict=True)))


def quadratic(W: Any, c: Any) -> Any:
    return solve_convex(Quadratic(W.mT @ W, -W.mT @ c)).x


def squares(W: Any, c: Any) -> Any:
    return solve_convex(Separable("square", M=W, offset=c)).x


def huber(W: Any, c: Any) -> Any:
    weight = torch.tensor([0.5, 2.0], dtype=W.dtype)
    return solve_convex(Separable("pseudo-huber", weight, M=W, offset=c)).x


def log_sum(W: Any, c: Any) -> Any:
    return solve_convex(LogSumExp(torch.cat([W, -W]), torch.cat([c, -c]))).x


def own_function(W: Any, c: Any) -> Any:
    return solve_convex(lambda x, W, c: 0.5 * (W @ x - c).pow(2).sum(), W, c, ranks=(2, 1), n=4).x


@pytest.mark.parametrize("function", [quadratic, squares, huber, log_sum, own_function])
def test_a_convex_layer_differentiates_the_least_x(function: Any) -> None:
    W, c = numbers(23, (2, 4), (2,))
    same(function(W, c), least_with(W, c))
    expected = grad(cubed(least_with), (0, 1))(W, c)
    leaves = W.clone().requires_grad_(), c.clone().requires_grad_()
    same(torch.autograd.grad(cubed(function)(*leaves), leaves), expected)
    same(torch.autograd.grad(cubed(function)(*leaves), leaves, create_graph=True), expected)
    for transform in (jacrev, jacfwd):
        same(transform(function, (0, 1))(W, c), transform(least_with, (0, 1))(W, c))
    same(hessian(cubed(function), (0, 1))(W, c), hessian(cubed(least_with), (0, 1))(W, c), LOOSE)


def test_a_convex_solution_of_arrays_moves_with_its_terms_as_one_of_tensors_does() -> None:
    W, c, dW, dc, bar = numbers(26, (2, 4), (2,), (2, 4), (2,), (4,))
    expected: Any = jvp(least_with, (W, c), (dW, dc))[1]
    fitted = altdiff.solve_convex(altdiff.Separable("square", M=W.numpy(), offset=c.numpy()))
    moved = fitted.jvp([{"M": dW.numpy(), "offset": dc.numpy()}])
    np.testing.assert_allclose(moved.x, expected, rtol=1e-8, atol=1e-8)
    P, dP = (W.mT @ W).numpy(), (dW.mT @ W + W.mT @ dW).numpy()
    q, dq = (-W.mT @ c).numpy(), (-dW.mT @ c - W.mT @ dc).numpy()
    solution = altdiff.solve_convex(altdiff.Quadratic(P, q))
    np.testing.assert_allclose(solution.jvp([{"P": dP, "q": dq}]).x, expected, rtol=1e-8, atol=1e-8)
    (pulled,) = solution.vjp(bar.numpy()).objective
    np.testing.assert_allclose(np.vdot(pulled["P"], dP) + pulled["q"] @ dq, bar @ expected, rtol=1e-8)
