"""torch.compile, torch.export and other ways to draw a graph through the layer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from altdiff.torch import QPLayer, solve_qp
from helpers.problems import FIELDS, POINT, natural_problem
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, hessian, jacfwd, jacrev, vmap
from torch.fx.experimental.proxy_tensor import make_fx

Tensors = dict[str, Any]
TIGHT: Any = {"rtol": 1e-9, "atol": 1e-9}

# What torch's compiler says about itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def problem(seed: int, batch: int = 3) -> Tensors:
    values = {name: torch.tensor(value) for name, value in natural_problem(seed, n=4, m=3, p=1).items()}
    noise = torch.randn(batch, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return {**values, "q": values["q"] + 0.02 * noise}


def outcome(function: Any, values: Tensors) -> list[Any]:
    """The value of a function of the eight fields, and the gradients of its squares."""
    leaves = [values[name].clone().requires_grad_() for name in FIELDS]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum(output.pow(2).sum() for output in outputs)
    return [*(output.detach() for output in outputs), *torch.autograd.grad(loss, leaves)]


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, **TIGHT)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_layer_gives_the_same_values_and_gradients_without_a_break(backend: str) -> None:
    values = problem(1)
    layer = QPLayer(tolerance=1e-9)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    same(outcome(compiled, values), outcome(layer, values))


def test_the_whole_solution_compiles() -> None:
    def parts(*fields: Any) -> Any:
        solution = solve_qp(*fields, max_iterations=500)
        return tuple(getattr(solution, name) for name in (*POINT, "objective"))

    values = problem(2)
    compiled = torch.compile(parts, fullgraph=True, backend="aot_eager")
    same(outcome(compiled, values), outcome(parts, values))


def test_one_graph_serves_every_batch_size() -> None:
    graphs = []

    def count(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    layer = QPLayer(tolerance=1e-9)
    compiled = torch.compile(layer, fullgraph=True, backend=aot_autograd(fw_compiler=count), dynamic=True)
    for batch in (2, 3, 7):
        values = problem(3, batch)
        same(outcome(compiled, values), outcome(layer, values))
    assert len(graphs) <= 2  # a forward, perhaps apart from one of inference


def test_more_shapes_than_the_compiler_wants_to_compile_are_solved_in_python() -> None:
    compiled = torch.compile(QPLayer(), backend="aot_eager", dynamic=False)
    for n in range(2, 14):
        q = torch.zeros(n, requires_grad=True)
        same(torch.autograd.grad(compiled(torch.eye(n), q).sum(), q), (-torch.ones(n),))


@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_failed_instances_are_treated_as_without_a_compiler(on_failure: str) -> None:
    values = problem(4)
    values["q"][1] = torch.nan
    layer = QPLayer(on_failure=on_failure)

    def masked(*fields: Any) -> Any:
        return layer(*fields)[::2]

    compiled = torch.compile(masked, fullgraph=True, backend="aot_eager")
    same(outcome(compiled, values), outcome(masked, values))


def test_a_failure_raises_from_compiled_code_too() -> None:
    values = problem(5)
    values["q"][1] = torch.nan
    compiled = torch.compile(QPLayer(), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="instance 1: INVALID_DATA"):
        compiled(*values.values())


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = torch.nn.Linear(3, 4)
        self.layer = QPLayer(tolerance=1e-9)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        q = self.features(inputs)
        x: torch.Tensor = self.layer(torch.eye(4), q, lb=torch.zeros(4), ub=torch.full((4,), 0.5))
        return x


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_takes_other_batch_sizes_and_survives_a_file(strict: bool, tmp_path: Any) -> None:
    network = Network()
    dynamic = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(network, (torch.randn(2, 3),), dynamic_shapes=dynamic, strict=strict)
    torch.export.save(program, tmp_path / "network.pt2")
    loaded = torch.export.load(tmp_path / "network.pt2")
    inputs = torch.randn(9, 3)
    same(loaded.module()(inputs), network(inputs))


def test_vmap_is_compiled() -> None:
    values = problem(6)

    def x(q: Any) -> Any:
        return vmap(lambda q: QPLayer()(**{**values, "q": q}))(q)

    same(torch.compile(x, fullgraph=True, backend="aot_eager")(values["q"]), QPLayer()(**values))


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_a_derivative_inside_of_a_compiled_function_is_right_or_an_error(transform: Any) -> None:
    values = problem(7)
    layer = QPLayer()

    def loss(h: Any) -> Any:
        return layer(**{**values, "h": h}).pow(2).sum()

    compile_: Any = torch.compile
    same(compile_(transform(loss), backend="aot_eager")(values["h"]), transform(loss)(values["h"]))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"cannot be compiled inside forward mode"):
        compile_(transform(loss), fullgraph=True, backend="aot_eager")(values["h"])


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_a_transform_of_a_compiled_function_is_right(transform: Any) -> None:
    values = problem(8)
    layer = QPLayer()

    def loss(h: Any) -> Any:
        return layer(**{**values, "h": h}).pow(2).sum()

    compiled = torch.compile(loss, backend="aot_eager")
    same(transform(compiled)(values["h"]), transform(loss)(values["h"]))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_forward_mode_around_a_compiled_graph_is_an_error_and_not_a_lost_tangent(backend: str) -> None:
    values = problem(13)
    forward_ad: Any = torch.autograd.forward_ad
    compiled = torch.compile(lambda q: QPLayer()(**{**values, "q": q}), backend=backend)
    compiled(values["q"])
    with (
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="forward mode does not reach through a compiled graph"),
    ):
        compiled(forward_ad.make_dual(values["q"], values["q"]))


def test_forward_mode_inside_of_a_compiled_function_is_right() -> None:
    values = problem(14)
    forward_ad: Any = torch.autograd.forward_ad

    def moved(q: Any) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(QPLayer()(**{**values, "q": forward_ad.make_dual(q, q)})).tangent

    same(torch.compile(moved, backend="aot_eager")(values["q"]), moved(values["q"]))


def test_a_second_derivative_of_a_compiled_graph_is_an_error_of_torch() -> None:
    values = problem(9)
    h = values["h"].requires_grad_()
    compiled = torch.compile(QPLayer(), fullgraph=True, backend="aot_eager")
    x = compiled(**values)
    (gradient,) = torch.autograd.grad(x.pow(2).sum(), h, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(gradient.sum(), h)


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_for_bounds_are_compiled(dynamic: bool) -> None:
    def x(q: Any) -> Any:
        return QPLayer()(torch.eye(4), q, lb=0.0, ub=1)

    q = torch.linspace(-2, 2, 4).requires_grad_()
    compiled: Any = torch.compile(x, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    same(compiled(q), x(q))
    same(torch.autograd.grad(compiled(q).sum(), q), torch.autograd.grad(x(q).sum(), q))
    same(make_fx(x)(q)(2 * q), x(2 * q))


def test_arrays_break_the_graph_but_not_the_answer() -> None:
    values = problem(10)
    P = values["P"].numpy()
    compiled = torch.compile(lambda q: QPLayer()(P, q), backend="aot_eager")
    same(compiled(values["q"]), QPLayer()(P, values["q"]))


def test_a_compiled_layer_computes_half_precision_in_float64() -> None:
    P, q = torch.eye(4, dtype=torch.bfloat16), torch.linspace(-1, 1, 4, dtype=torch.bfloat16)
    compiled = torch.compile(QPLayer(), fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = compiled(P, q)
    assert x.dtype == torch.bfloat16
    assert torch.equal(x, -q)


def test_a_traced_graph_follows_its_inputs() -> None:
    values = problem(11)
    layer = QPLayer()

    def x(q: Any) -> Any:
        return layer(**{**values, "q": q})

    def gradient(q: Any) -> Any:
        return grad(lambda q: x(q).pow(2).sum())(q)

    for function in (x, gradient):
        graph = make_fx(function)(values["q"])
        same(graph(2 * values["q"]), function(2 * values["q"]))


def test_tensors_without_numbers_give_shapes() -> None:
    with FakeTensorMode():
        P, q, h = torch.empty(4, 4), torch.empty(5, 4), torch.empty(3)
        solution = solve_qp(P, q, torch.empty(3, 4), h)
    assert solution.x.shape == (5, 4)
    assert solution.z.shape == (5, 3)
    assert solution.x.dtype == torch.float32
    assert solution.status.shape == (5,)


@pytest.mark.parametrize("name", ["solve_qp", "solve_kkt", "project_flat", "pull_back"])
def test_the_operators_keep_what_they_promise_to_the_compiler(name: str) -> None:
    values = problem(12)
    fields = [values[field].requires_grad_() for field in FIELDS]
    arguments: list[Any] = [*fields, "raise"]
    solution: Any = solve_qp(**values)
    point = [getattr(solution, part).detach() for part in POINT]
    right_side = [torch.randn_like(part).requires_grad_() for part in point]
    if name == "solve_kkt":
        arguments = [*fields, *point, *right_side, "raise", 0, True]
    elif name == "project_flat":
        arguments = [*fields, *point, right_side[0], "raise", 0]
    elif name == "pull_back":  # what it is part of has second derivatives without it
        bars = [part.detach() for part in right_side]
        plain = [field.detach() for field in fields]
        arguments = [*plain, *point, *bars, None, "raise", [True, False, *(True,) * 6]]
    torch.library.opcheck(getattr(torch.ops.altdiff, name).default, tuple(arguments))


def test_importing_the_layer_does_not_import_the_compiler() -> None:
    code = "import altdiff.torch, sys; sys.exit('torch._dynamo' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
