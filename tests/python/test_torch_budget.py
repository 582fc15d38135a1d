"""sparsemax and softmax with limits, for torch: they behave like a function of torch's own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import altdiff
import pytest
import torch
from altdiff import SolveError
from altdiff.torch import softmax, sparsemax
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

FUNCTIONS = {"sparsemax": sparsemax, "softmax": softmax}
TIGHT: Any = {"rtol": 1e-12, "atol": 1e-12}
both = pytest.mark.parametrize("function", [sparsemax, softmax], ids=FUNCTIONS)

# What torch's compiler says about itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=generator)


def arguments(shape: tuple[int, ...] = (3, 6), dim: int = -1, seed: int = 0) -> list[Any]:
    """y, upper, lower and total with a history; far enough from kinks for differences."""
    n = shape[dim]
    batch = [size for place, size in enumerate(shape) if place != dim % len(shape)]
    values = [
        random(*shape, seed=seed),
        uniform(1.3, 2.5, *shape, seed=seed) / n,
        uniform(0.1, 0.4, *shape, seed=seed + 1) / n,
        uniform(0.8, 1.0, *batch, seed=seed),
    ]
    return [value.requires_grad_() for value in values]


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, **TIGHT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax_without_limits_is_torchs_softmax_and_so_is_its_gradient(
    dtype: torch.dtype, dim: int
) -> None:
    y = (10 * random(4, 5, 33)).to(dtype).requires_grad_()
    ours, theirs = softmax(y, dim=dim), torch.softmax(y, dim)
    torch.testing.assert_close(ours, theirs)
    bar = random(4, 5, 33, seed=1).to(dtype)
    torch.testing.assert_close(*[torch.autograd.grad(x, y, bar)[0] for x in (ours, theirs)])


@both
@pytest.mark.parametrize("dim", [-1, 0])
def test_first_and_second_derivatives_are_differences_in_both_modes(function: Any, dim: int) -> None:
    values = arguments(dim=dim)

    def call(*values: Any) -> Any:
        return function(*values, dim=dim)

    assert gradcheck(
        call, values, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert gradgradcheck(call, values, check_fwd_over_rev=True, check_batched_grad=True)


@both
def test_the_core_and_torch_compute_the_same_gradients(function: Any) -> None:
    values = arguments((5, 40))
    bar = random(5, 40, seed=3)
    core = torch.autograd.grad(function(*values), values, bar)
    formula = torch.autograd.grad(function(*values), values, bar, create_graph=True)
    same(core, formula)


@both
def test_limits_of_every_shape_get_gradients_of_that_shape(function: Any) -> None:
    y = random(4, 7)
    for shape in ((), (7,), (4, 1), (1, 7), (4, 7)):
        upper = uniform(0.25, 0.6, *shape).requires_grad_()
        lower = uniform(0.01, 0.05, *shape).requires_grad_()
        assert gradcheck(lambda u, low: function(y, u, low), (upper, lower))
    for shape in ((), (1,), (4,)):
        total = uniform(0.8, 1.0, *shape).requires_grad_()
        assert gradcheck(lambda c: function(y, 0.4, 0.0, c), (total,))
    assert function(random(7), uniform(0.3, 0.5, 3, 7)).shape == (3, 7)


@both
def test_vmap_nests_and_shares_what_is_not_batched(function: Any) -> None:
    y, upper, total = random(5, 7), uniform(0.3, 0.6, 4), uniform(0.5, 1.0, 2)
    nested = vmap(
        vmap(vmap(lambda y, u, c: function(y, u, 0.0, c), (0, None, None)), (None, 0, None)), (None, None, 0)
    )
    expected = torch.stack(
        [torch.stack([function(y, float(u), 0.0, float(c)) for u in upper]) for c in total]
    )
    same(nested(y, upper, total), expected)
    limits = uniform(0.3, 0.6, 5, 3, 7)
    same(vmap(function, (1, 0))(random(7, 5), limits), function(random(7, 5).T.unsqueeze(1), limits))


@both
def test_transforms_agree_with_each_other(function: Any) -> None:
    y, upper, lower, total = [value.detach() for value in arguments((6,), seed=2)]
    places = (0, 1, 2, 3)
    same(jacrev(function, places)(y, upper, lower, total), jacfwd(function, places)(y, upper, lower, total))

    def loss(*values: Any) -> Any:
        return (function(*values) ** 3).sum()

    ours = hessian(loss, (0, 1))(y, upper, lower, total)
    same(ours, jacrev(jacrev(loss, (0, 1)), (0, 1))(y, upper, lower, total))
    same(ours, jacfwd(jacfwd(loss, (0, 1)), (0, 1))(y, upper, lower, total))
    same(
        vmap(grad(loss))(y.expand(2, 6), *[v.expand(2, *v.shape) for v in (upper, lower, total)])[0],
        jacrev(loss)(y, upper, lower, total),
    )
    moved: Any = jvp(lambda y: function(y, upper), (y,), (upper,))
    unpack: Any = forward_ad.unpack_dual
    make: Any = forward_ad.make_dual
    with forward_ad.dual_level():
        dual = unpack(function(make(y, upper), upper))
    same(moved, (dual.primal, dual.tangent))


@both
def test_compiled_and_exported_calls_are_the_same(function: Any) -> None:
    values = arguments((3, 6))

    def call(*values: Any) -> Any:
        return 2 * function(values[0] + 1, *values[1:]) ** 2

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    bar = random(3, 6, seed=4)
    same(compiled(*values), call(*values))
    same(torch.autograd.grad(compiled(*values), values, bar), torch.autograd.grad(call(*values), values, bar))
    capped = torch.compile(
        lambda y: function(y, 0.4, dim=0), fullgraph=True, backend="aot_eager", dynamic=True
    )
    for shape in ((3, 6), (4, 5), (7, 2)):
        same(capped(random(*shape)), function(random(*shape), 0.4, dim=0))

    class Layer(torch.nn.Module):
        def forward(self, y: Any) -> Any:
            return function(y, 0.4)

    y = values[0].detach()
    same(torch.export.export(Layer(), (y,)).module()(y), function(y, 0.4))
    same(make_fx(Layer())(y)(y), function(y, 0.4))
    same(vmap(torch.compile(Layer(), backend="aot_eager"))(y), function(y, 0.4))


@both
def test_half_precision_is_computed_in_float32_and_returned_as_it_came(function: Any) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        y = random(3, 50).to(dtype).requires_grad_()
        x = function(y, 0.1)
        assert x.dtype is dtype
        same(x, function(y.float(), 0.1).to(dtype))
        x.sum().backward()
        assert y.grad.dtype is dtype
        with torch.autocast("cpu", dtype=dtype):
            assert function(y, 0.1).dtype is dtype
    assert function(torch.arange(3)).dtype is torch.get_default_dtype()
    assert function(random(3).float(), uniform(0.5, 1.0, 3)).dtype is torch.float64


@both
def test_a_failed_row_raises_or_leaves_the_others_alone(function: Any) -> None:
    y = random(4, 5)
    expected = function(y, 0.4)
    y[1, 2], y[3] = float("nan"), -float("inf")
    with pytest.raises(SolveError, match=r"instance 1: INVALID_DATA\n.*instance 3: PRIMAL_INFEASIBLE"):
        function(y, 0.4)
    for policy, filler in (("nan", float("nan")), ("zero", 0.0)):
        for create_graph in (False, True):
            leaf = y.clone().requires_grad_()
            x = function(leaf, 0.4, on_failure=policy)
            same(x[[0, 2]], expected[[0, 2]])
            assert torch.equal(x[[1, 3]].isnan(), torch.full((2, 5), policy == "nan"))
            seen, hidden = [
                torch.autograd.grad(x, leaf, bar, create_graph=create_graph, retain_graph=True)[0]
                for bar in (
                    torch.ones(4, 5).double(),
                    torch.tensor([[1.0], [0], [1], [0]]).double().expand(4, 5),
                )
            ]
            torch.testing.assert_close(seen[1], torch.full((5,), filler).double(), equal_nan=True)
            same(hidden[[1, 3]], torch.zeros(2, 5).double())
            same(seen[[0, 2]], hidden[[0, 2]])
        tangent = jvp(lambda y, p=policy: function(y, 0.4, on_failure=p), (y,), (torch.ones_like(y),))[1]
        torch.testing.assert_close(tangent[3], torch.full((5,), filler).double(), equal_nan=True)


@both
def test_memory_that_is_not_in_order_is_read_as_torch_reads_it(function: Any) -> None:
    y = random(6, 8)
    same(function(y.T, 0.4), function(y.T.contiguous(), 0.4))
    same(function(y[:, ::2], 0.4), function(y[:, ::2].contiguous(), 0.4))
    negated = torch.complex(y, -y).conj().imag
    assert negated.is_neg()
    same(function(negated, 0.4), function(y, 0.4))
    leaf = y.clone().requires_grad_()
    bar = torch.autograd.grad(function(leaf, 0.4).sum(0), leaf, torch.ones(8).double())[0]  # expanded
    same(bar, torch.zeros_like(bar))


@both
def test_what_torch_allows_of_its_own_functions(function: Any) -> None:
    assert function(torch.zeros(0, 4)).shape == (0, 4)
    assert function(torch.tensor(3.0)).item() == 1
    numpy = getattr(altdiff, function.__name__)
    y = random(5, 6)
    same(function(y, 0.3, 0.02, 0.9, 0), torch.from_numpy(numpy(y.numpy(), 0.3, 0.02, 0.9, 0)))
    leaf = y.clone().requires_grad_()
    x = function(leaf, 0.3)
    with torch.no_grad():
        leaf.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function


def test_mistakes_name_the_argument() -> None:
    y = torch.zeros(3)
    calls: dict[str, Any] = {
        "y must be a tensor": lambda: softmax([1.0]),  # type: ignore[arg-type]
        "y must be real numbers": lambda: softmax(torch.zeros(3, dtype=torch.complex64)),
        "y is a sparse tensor": lambda: softmax(torch.zeros(3).to_sparse()),
        "y is on meta": lambda: softmax(torch.zeros(3, device="meta")),
        "upper must be a number": lambda: softmax(y, "1"),  # type: ignore[arg-type]
        "upper must not be NaN": lambda: softmax(y, float("nan")),
        "lower must not exceed upper": lambda: sparsemax(y, 0.1, 0.2),
        "lower must not be negative": lambda: softmax(y, lower=-1.0),
        "total must be finite": lambda: softmax(y, total=float("inf")),
        "dim must be between": lambda: softmax(y, dim=1),
        "on_failure must be one of": lambda: softmax(y, on_failure="ignore"),
    }
    for message, call in calls.items():
        with pytest.raises((ValueError, TypeError, IndexError), match=message):
            call()
