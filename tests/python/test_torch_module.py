"""The layer as a module among others: precision, copies, processes and threads."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from altdiff.torch import QPLayer, solve_qp
from helpers.problems import natural_problem
from helpers.torch_workers import Network, Projections, gradients_of_a_share

Tensors = dict[str, Any]


def problem(seed: int, batch: int = 3) -> Tensors:
    values = {name: torch.tensor(value) for name, value in natural_problem(seed, n=6, m=4, p=1).items()}
    noise = torch.randn(batch, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return {**values, "q": values["q"] + 0.02 * noise}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_leaves_the_solve_in_float64_and_the_answer_in_the_tensors_type(dtype: Any) -> None:
    values = {name: value.to(dtype) for name, value in problem(1).items()}
    layer = QPLayer()
    exact = layer(**{name: value.double() for name, value in values.items()})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = layer(**values)
    assert x.dtype == dtype
    assert torch.equal(x, exact.to(dtype))


def test_under_autocast_a_network_in_half_precision_meets_a_problem_in_single() -> None:
    features = torch.nn.Linear(3, 4)
    inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
    P, lb = torch.eye(4), torch.zeros(4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q = features(inputs)
        x = QPLayer()(P, q, lb=lb)
        assert q.dtype == torch.bfloat16
        assert x.dtype == torch.float32  # as torch promotes bfloat16 with float32
        x.pow(2).sum().backward()
    torch.testing.assert_close(x, (-q.float()).clamp(min=0))
    assert features.weight.grad is not None
    assert features.weight.grad.dtype == torch.float32


def test_second_derivatives_are_the_same_under_autocast() -> None:
    values = problem(3)

    def loss(h: Any) -> Any:
        return QPLayer()(**{**values, "h": h}).pow(3).sum()

    expected = torch.func.hessian(loss)(values["h"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = torch.func.hessian(loss)(values["h"])
    assert torch.equal(ours, expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_of_a_layer_solves_alike_and_has_settings_of_its_own(copied: Any) -> None:
    layer = QPLayer(on_failure="nan", tolerance=1e-9, time_limit=10.0)
    values = problem(4)
    x = layer(**values)
    other = copied(layer)
    assert torch.equal(other(**values), x)
    other.settings["tolerance"] = 1e-6
    assert layer.settings["tolerance"] == 1e-9
    assert repr(layer) == "QPLayer(on_failure='nan', tolerance=1e-09, time_limit=10.0)"


def test_a_state_dict_holds_what_is_around_the_layer_and_nothing_of_it() -> None:
    network = Network()
    state = network.state_dict()
    assert set(state) == {"features.weight", "features.bias", "factor"}
    assert QPLayer().state_dict() == {}
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    other = Network()
    with torch.no_grad():
        other.factor.zero_()
    other.load_state_dict(torch.load(file))
    inputs = torch.ones(2, 3, dtype=torch.float64)
    assert torch.equal(other(inputs), network(inputs))


def test_a_whole_module_survives_a_file(tmp_path: Path) -> None:
    network = Network()
    torch.save(network, tmp_path / "network.pt")
    loaded = torch.load(tmp_path / "network.pt", weights_only=False)
    inputs = torch.ones(2, 3, dtype=torch.float64)
    assert torch.equal(loaded(inputs), network(inputs))


@pytest.mark.parametrize("context", ["fork", "spawn"])
# Python's own warning about fork in a process with threads, from 3.12 on.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_workers_of_a_data_loader_solve(context: str) -> None:
    points = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    data = Projections(points)
    assert torch.equal(data[0], points[0].clamp(0, 1))  # the pool of threads is there before the fork
    QPLayer(num_threads=2)(torch.eye(3, dtype=torch.float64).repeat(64, 1, 1), torch.ones(64, 3))
    loader = torch.utils.data.DataLoader(
        data, batch_size=2, num_workers=2, multiprocessing_context=context, timeout=120
    )
    torch.testing.assert_close(torch.cat(list(loader)), points.clamp(0, 1), rtol=0, atol=1e-12)


def test_threads_share_a_layer() -> None:
    layer = QPLayer()
    problems = [problem(seed, batch=20) for seed in range(4)]

    def gradient(values: Tensors) -> Any:
        q = values["q"].clone().requires_grad_()
        solution = layer.solve(**{**values, "q": q})
        return torch.autograd.grad(solution.x.pow(2).sum() + solution.objective.sum(), q)[0]

    def second(values: Tensors) -> Any:
        # torch keeps the level of forward mode for all threads together: only reverse mode is for several.
        gradient = torch.func.jacrev(lambda h: layer(**{**values, "h": h}).pow(3).sum())
        return torch.func.jacrev(gradient)(values["h"])

    expected = [(gradient(values), second(values)) for values in problems]
    found: dict[int, list[Any]] = {index: [] for index in range(4)}

    def work(index: int) -> None:
        for _ in range(5):
            found[index].append((gradient(problems[index]), second(problems[index])))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, results in found.items():
        assert len(results) == 5
        for ours in results:
            torch.testing.assert_close(ours, expected[index], rtol=1e-12, atol=1e-12)


def test_two_processes_of_ddp_get_the_gradients_of_the_full_batch(tmp_path: Path) -> None:
    inputs = torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    target = tmp_path / "gradients.pt"
    arguments = (2, str(tmp_path / "store"), inputs, str(target))
    spawn: Any = importlib.import_module("torch.multiprocessing").spawn
    spawn(gradients_of_a_share, arguments, nprocs=2)
    network = Network()
    network(inputs).pow(2).mean().backward()
    expected = [parameter.grad for parameter in network.parameters()]
    torch.testing.assert_close(torch.load(target), expected, rtol=1e-10, atol=1e-12)


def test_checkpointing_solves_again_instead_of_keeping() -> None:
    from torch.utils.checkpoint import checkpoint

    values = problem(7)
    layer = QPLayer()
    q = values["q"].clone().requires_grad_()
    direct = torch.autograd.grad(layer(**{**values, "q": q}).pow(2).sum(), q)

    def again(q: Any) -> Any:
        return layer(**{**values, "q": q})

    recomputed = torch.autograd.grad(checkpoint(again, q, use_reentrant=False).pow(2).sum(), q)
    assert torch.equal(direct[0], recomputed[0])


def test_a_functional_call_of_a_network_has_per_sample_gradients() -> None:
    network = Network()
    inputs = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    parameters = {name: value.detach() for name, value in network.named_parameters()}

    def loss(parameters: Any, one: Any) -> Any:
        return torch.func.functional_call(network, parameters, (one,)).pow(2).sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, inputs)
    network(inputs).pow(2).sum().backward()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(each[name].sum(0), parameter.grad, rtol=1e-9, atol=1e-10)


def test_the_solution_names_its_fields_and_has_no_history_in_its_report() -> None:
    values = problem(9)
    values["q"].requires_grad_()
    solution = solve_qp(**values)
    for name in ("x", "y", "z", "z_box", "objective"):
        assert getattr(solution, name).requires_grad
    for name in ("status", "iterations", "primal_residual", "duality_gap", "degenerate", "unique", "margin"):
        assert not getattr(solution, name).requires_grad
