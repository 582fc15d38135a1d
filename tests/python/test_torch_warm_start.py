"""Where the torch layer begins: at an earlier solution, which saves rounds and never changes the answer."""

from __future__ import annotations

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import altdiff
import pytest
import scipy.sparse
import torch
from altdiff.torch import QPLayer, solve_qp
from helpers.problems import POINT, natural_problem

N, M = 12, 16
POINT_BYTES = (N + M + N) * 8  # x, z and z_box: there are no equalities


def dataset(count: int, seed: int = 0) -> dict[str, Any]:
    data = natural_problem(seed, n=N, m=M, p=0)
    fields = {name: torch.tensor(value) for name, value in data.items() if name in ("P", "G", "h")}
    generator = torch.Generator().manual_seed(seed)
    fields["q"] = 3 * torch.randn(count, N, generator=generator, dtype=torch.float64)
    return fields


def chosen(fields: dict[str, Any], index: torch.Tensor) -> dict[str, Any]:
    return {**fields, "q": fields["q"][index]}


def rounds(solution: Any) -> int:
    return int(solution.iterations.sum())


@pytest.mark.parametrize("method", ["active_set", "alternating"])
def test_to_begin_at_the_solution_saves_rounds_and_gives_the_same_answer(method: str) -> None:
    fields = dataset(20)
    cold = solve_qp(**fields, method=method)
    warm = solve_qp(**fields, method=method, initial=cold)
    assert rounds(warm) < rounds(cold)
    torch.testing.assert_close(warm.x, cold.x, rtol=1e-9, atol=1e-9)


def test_gradients_do_not_depend_on_the_start() -> None:
    fields = {name: value.requires_grad_() for name, value in dataset(4).items()}
    layer = QPLayer()
    cold = torch.autograd.grad(layer(**fields).pow(2).sum(), tuple(fields.values()))
    start = layer.solve(**{**fields, "q": fields["q"] + 0.1})
    warm = torch.autograd.grad(layer(**fields, initial=start).pow(2).sum(), tuple(fields.values()))
    for a, b in zip(cold, warm, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_one_start_may_serve_a_whole_batch_and_may_come_from_numpy() -> None:
    fields = dataset(3)
    arrays: Any = {name: v[0].numpy() if name == "q" else v.numpy() for name, v in fields.items()}
    first = altdiff.solve_qp(**arrays)
    x = QPLayer()(**fields, initial=first)
    torch.testing.assert_close(x, QPLayer()(**fields), rtol=1e-9, atol=1e-9)


def test_nan_in_a_start_means_that_nothing_is_known() -> None:
    fields = dataset(3)
    layer = QPLayer(on_failure="nan")
    cold = layer.solve(**fields)
    start = copy.deepcopy(cold)
    for name in POINT:
        getattr(start, name)[1] = float("nan")
    warm = layer.solve(**fields, initial=start)
    torch.testing.assert_close(warm.x, cold.x, rtol=1e-9, atol=1e-9)
    assert warm.iterations[1] == cold.iterations[1]


def test_a_start_that_does_not_fit_is_named() -> None:
    fields = dataset(3)
    start = QPLayer().solve(**chosen(fields, torch.tensor([0, 1])))
    with pytest.raises(ValueError, match=r"initial.x must have shape \(3, 12\), got \(2, 12\)"):
        QPLayer()(**fields, initial=start)
    with pytest.raises(TypeError, match="initial must be a Solution, got Tensor"):
        QPLayer()(**fields, initial=torch.zeros(3))


def test_a_layer_that_remembers_saves_rounds_in_the_second_epoch() -> None:
    fields = dataset(40)
    layer = QPLayer(warm_start=True)
    counts = []
    for epoch in range(2):
        order: Any = torch.randperm(40, generator=torch.Generator().manual_seed(epoch)).reshape(5, 8)
        counts.append(sum(rounds(layer.solve(**chosen(fields, i), index=i)) for i in order))
    assert counts[1] < 0.7 * counts[0]
    x = layer(**fields, index=torch.arange(40))
    torch.testing.assert_close(x, QPLayer()(**fields), rtol=1e-9, atol=1e-9)


def test_sparse_problems_are_remembered_too() -> None:
    fields: Any = dataset(4)
    fields["P"] = scipy.sparse.csc_matrix(fields["P"].numpy())
    layer = QPLayer(warm_start=True, method="alternating")
    first, second = (layer.solve(**fields, index=range(4)) for _ in range(2))
    assert rounds(second) < rounds(first)


def test_what_is_remembered_stays_within_its_bytes_and_who_came_first_stays() -> None:
    fields = dataset(30)
    layer = QPLayer(warm_start=True, warm_start_bytes=10 * POINT_BYTES + 1)
    for index in torch.arange(30).reshape(5, 6):
        layer(**chosen(fields, index), index=index)
    assert layer.remembered is not None
    assert len(layer.remembered) == 10
    assert layer.remembered.nbytes <= 10 * POINT_BYTES
    late, early = torch.arange(24, 30), torch.arange(6)
    known = layer.solve(**chosen(fields, early), index=early)
    unknown = layer.solve(**chosen(fields, late), index=late)
    assert rounds(known) < rounds(unknown)


def test_only_what_was_solved_is_remembered() -> None:
    fields = dataset(4)
    fields["q"][2] = float("nan")
    layer = QPLayer(on_failure="zero", warm_start=True)
    layer(**fields, index=range(4))
    assert layer.remembered is not None
    assert len(layer.remembered) == 3


def test_problems_of_other_sizes_begin_anew() -> None:
    layer = QPLayer(warm_start=True)
    layer(**dataset(4), index=range(4))
    q = torch.ones(4, 3, dtype=torch.float64)
    x = layer(torch.eye(3, dtype=torch.float64), q, index=range(4))
    torch.testing.assert_close(x, -q)


def test_a_state_dict_carries_what_is_remembered() -> None:
    fields = dataset(6)
    layer = QPLayer(warm_start=True)
    layer(**fields, index=torch.arange(6))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = QPLayer(warm_start=True)
    other.load_state_dict(torch.load(file, weights_only=True))
    warm = other.solve(**fields, index=torch.arange(6))
    assert rounds(warm) < rounds(QPLayer().solve(**fields))
    small = QPLayer(warm_start=True, warm_start_bytes=2 * POINT_BYTES)
    small.load_state_dict(layer.state_dict())
    assert small.remembered is not None
    assert len(small.remembered) == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_remembers_on_its_own(copied: Any) -> None:
    fields = dataset(4)
    layer = QPLayer(warm_start=True)
    layer(**chosen(fields, torch.arange(2)), index=range(2))
    other = copied(layer)
    other(**fields, index=range(4))
    assert len(other.remembered) == 4
    assert layer.remembered is not None
    assert len(layer.remembered) == 2


def test_one_instance_has_one_index() -> None:
    fields = dataset(1)
    layer = QPLayer(warm_start=True)
    for _ in range(2):
        x = layer(**{**fields, "q": fields["q"][0]}, index=7)
    torch.testing.assert_close(x, QPLayer()(**fields)[0], rtol=1e-9, atol=1e-9)


def test_threads_may_share_what_is_remembered() -> None:
    fields = dataset(64)
    layer = QPLayer(warm_start=True)
    expected = QPLayer()(**fields)

    def solved(index: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = layer(**chosen(fields, index), index=index)
        return x

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            parts = list(pool.map(solved, torch.arange(64).reshape(16, 4)))
            torch.testing.assert_close(torch.cat(parts), expected, rtol=1e-9, atol=1e-9)


def test_a_wrong_index_is_named() -> None:
    fields = dataset(3)
    layer = QPLayer(warm_start=True)
    with pytest.raises(ValueError, match=r"index must have the shape of the batch, \(3,\), got \(2,\)"):
        layer(**fields, index=torch.arange(2))
    with pytest.raises(TypeError, match="index must hold integers, got dtype float32"):
        layer(**fields, index=torch.zeros(3))
    with pytest.raises(ValueError, match=r"QPLayer\(warm_start=True\)"):
        QPLayer()(**fields, index=torch.arange(3))
    with pytest.raises(ValueError, match="warm_start_bytes must be positive, got 0"):
        QPLayer(warm_start=True, warm_start_bytes=0)


def test_under_a_transform_and_a_compiler_the_answer_is_the_same() -> None:
    fields = dataset(3)
    layer = QPLayer(warm_start=True)
    index = torch.arange(3)
    expected = layer(**fields, index=index)
    start = layer.solve(**fields)
    P, G, h = fields["P"], fields["G"], fields["h"]
    x = torch.func.vmap(lambda q: layer(P, q, G, h, initial=start))(fields["q"])
    torch.testing.assert_close(x, expected, rtol=1e-9, atol=1e-9)
    compiled = torch.compile(layer, backend="eager")
    torch.testing.assert_close(compiled(**fields, index=index), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(compiled(**fields, initial=start), expected, rtol=1e-9, atol=1e-9)
