"""Dense batches: any mix of shared and own arrays, threads, starts, and arrays that change afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altdiff
import numpy as np
import pytest
import torch
from altdiff import Status
from altdiff.torch import QPLayer
from helpers.problems import FIELDS, POINT, Array, Data, known_problem

MATRICES = ("P", "G", "A")
VECTORS = ("q", "h", "b", "lb", "ub")


def moved(seed: int, name: str, value: Array, lead: tuple[int, ...]) -> Array:
    """Arrays near one of a problem whose solution is smooth around it; P stays positive definite."""
    rng = np.random.default_rng([seed, FIELDS.index(name)])
    if name == "P":
        return value * rng.uniform(1.0, 1.2, size=(*lead, 1, 1))
    return np.asarray(value + 0.02 * rng.normal(size=(*lead, *value.shape)))


def batch(seed: int, leads: Mapping[str, tuple[int, ...]], n: int = 6, m: int = 5, p: int = 2) -> Data:
    """A batch in which the fields in `leads` have those leading dimensions, and the others none."""
    data = known_problem(seed, n, m, p).data
    return {
        name: moved(seed, name, value, leads[name]) if name in leads else value
        for name, value in data.items()
    }


def own_batch(seed: int, size: int, n: int = 6, m: int = 5, p: int = 2) -> Data:
    return batch(seed, dict.fromkeys(FIELDS, (size,)), n, m, p)


def member(data: Data, index: tuple[int, ...], shape: tuple[int, ...]) -> Data:
    """One instance of a batch, by NumPy's own broadcasting."""
    dimensions = {name: 2 if name in MATRICES else 1 for name in data}
    return {
        name: np.broadcast_to(value, (*shape, *value.shape[value.ndim - dimensions[name] :]))[index]
        for name, value in data.items()
    }


def summed(gradients: Array, lead: tuple[int, ...], batch_shape: tuple[int, ...]) -> Array:
    """Gradients of all instances, summed over those dimensions along which an array was broadcast."""
    padded = (1,) * (len(batch_shape) - len(lead)) + lead
    axes = tuple(a for a, (own, all_) in enumerate(zip(padded, batch_shape, strict=True)) if own != all_)
    total = np.asarray(gradients.sum(axis=axes, keepdims=True))
    return total.reshape((*lead, *gradients.shape[len(batch_shape) :]))


def expect_equal_to_loop(data: Data, leads: Mapping[str, tuple[int, ...]], shape: tuple[int, ...]) -> None:
    solution = altdiff.solve_qp(**data)
    rng = np.random.default_rng(1)
    bars = [rng.normal(size=getattr(solution, name).shape) for name in POINT]
    gradient = solution.vjp(*bars)
    each: dict[str, Array] = {}
    for index in np.ndindex(*shape):
        one = altdiff.solve_qp(**member(data, index, shape))
        assert one.status is Status.SOLVED
        for name in (*POINT, "objective", "status"):
            value = getattr(solution, name)[index]
            np.testing.assert_allclose(value, getattr(one, name), rtol=1e-12, atol=1e-12)
        own = one.vjp(*(bar[index] for bar in bars))
        for name in data:
            value = getattr(own, name)
            each.setdefault(name, np.zeros((*shape, *value.shape)))[index] = value
    for name in data:
        expected = summed(each[name], leads.get(name, ()), shape)
        assert getattr(gradient, name).shape == data[name].shape
        np.testing.assert_allclose(getattr(gradient, name), expected, rtol=1e-11, atol=1e-11)


MIXES = [
    tuple(np.array(FIELDS)[np.random.default_rng(seed).uniform(size=len(FIELDS)) < 0.5]) for seed in range(20)
]


@pytest.mark.parametrize("own", [("q",), MATRICES, VECTORS, FIELDS, *filter(None, MIXES)], ids="-".join)
def test_a_batch_equals_a_loop_whatever_is_shared(own: tuple[str, ...]) -> None:
    leads = dict.fromkeys(own, (5,))
    expect_equal_to_loop(batch(1, leads), leads, (5,))


@pytest.mark.parametrize(
    ("leads", "shape"),
    [
        (dict.fromkeys(FIELDS, (2, 3)), (2, 3)),
        ({"q": (2, 3)}, (2, 3)),
        ({"q": (1, 3), "h": (2, 1)}, (2, 3)),
        ({"P": (2, 1), "G": (1, 3)}, (2, 3)),
        ({"P": (3,), "q": (2, 1), "A": (2, 3)}, (2, 3)),
        ({"P": (2, 1, 1), "b": (3, 1), "ub": (2,)}, (2, 3, 2)),
        ({"P": (1,), "q": (4,)}, (4,)),
        ({"P": (1, 1), "G": (1,)}, (1, 1)),
        ({"q": (37,), "P": (37,)}, (37,)),
        ({"q": (37,)}, (37,)),
    ],
    ids=str,
)
def test_leading_dimensions_broadcast(leads: Mapping[str, tuple[int, ...]], shape: tuple[int, ...]) -> None:
    expect_equal_to_loop(batch(2, leads), leads, shape)


@pytest.mark.parametrize(("n", "m", "p"), [(1, 0, 0), (1, 1, 0), (5, 0, 0), (5, 0, 2), (5, 9, 0)])
def test_blocks_may_be_absent_and_variables_few(n: int, m: int, p: int) -> None:
    for own in (("q",), ("P", "q"), FIELDS):
        leads = dict.fromkeys(own, (3,))
        data = batch(3, leads, n, m, p)
        expect_equal_to_loop(data, leads, (3,))


@pytest.mark.parametrize("lead", [(0,), (2, 0), (0, 3)])
def test_a_batch_of_zero_instances_has_shapes_and_zero_gradients(lead: tuple[int, ...]) -> None:
    data = known_problem(4, n=4, m=3, p=1).data
    data["q"] = np.zeros((*lead, 4))
    data["P"] = np.broadcast_to(data["P"], (*lead, 4, 4))
    solution = altdiff.solve_qp(**data)
    sizes = {"x": 4, "y": 1, "z": 3, "z_box": 4}
    for name, size in sizes.items():
        assert getattr(solution, name).shape == (*lead, size)
    assert solution.status.shape == lead
    gradient = solution.vjp(*(np.zeros((*lead, size)) for size in sizes.values()))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(gradient, name), np.zeros(data[name].shape))
    assert solution.jvp(q=np.ones(4)).z.shape == (*lead, 3)
    assert solution.jacobian("h").shape == (*lead, 4, 3)


def all_numbers(data: Data, threads: int, seed: int = 5) -> list[Array]:
    """Everything that a solve, a vjp, a jvp and a jacobian return."""
    solution = altdiff.solve_qp(**data, num_threads=threads)
    assert (solution.status == Status.SOLVED).all()
    rng = np.random.default_rng(seed)
    gradient = solution.vjp(*(rng.normal(size=getattr(solution, name).shape) for name in POINT))
    tangent = solution.jvp(**{name: rng.normal(size=value.shape[-1:]) for name, value in data.items()
                              if name in VECTORS})  # fmt: skip
    parts = [getattr(solution, name) for name in (*POINT, "objective", "margin", "dual_residual")]
    return [*parts, *(getattr(gradient, name) for name in data), *tangent, solution.jacobian("q")]


def expect_same_bits(data: Data) -> None:
    expected = all_numbers(data, threads=1)
    for threads in (2, 4):
        for part, (value, reference) in enumerate(zip(all_numbers(data, threads), expected, strict=True)):
            np.testing.assert_array_equal(value, reference, err_msg=f"{threads} threads, part {part}")


@pytest.mark.parametrize("size", [1, 31, 67])
@pytest.mark.parametrize("own", [("q",), ("q", "h", "b"), ("q", "P"), FIELDS], ids="-".join)
def test_the_answers_are_the_same_bits_on_any_number_of_threads(size: int, own: tuple[str, ...]) -> None:
    expect_same_bits(batch(6, dict.fromkeys(own, (size,)), n=9, m=8, p=2))


def test_the_answers_are_the_same_bits_for_medium_sizes() -> None:
    expect_same_bits(batch(7, {"q": (35,)}, n=80, m=60, p=20))
    expect_same_bits(batch(8, dict.fromkeys(FIELDS, (7,)), n=60, m=40, p=10))


def test_the_answers_of_a_batch_that_shares_large_matrices_are_the_same_bits() -> None:
    expect_same_bits(batch(9, {"q": (3,)}, n=410, m=20, p=5))


@pytest.mark.parametrize("own", [("q",), FIELDS], ids="-".join)
def test_a_solution_as_start_of_the_same_batch_needs_no_change(own: tuple[str, ...]) -> None:
    data = batch(10, dict.fromkeys(own, (9,)))
    cold = altdiff.solve_qp(**data)
    warm = altdiff.solve_qp(**data, initial=cold)
    assert cold.iterations.max() > 0
    assert (warm.iterations == 0).all()
    for name in POINT:
        np.testing.assert_allclose(getattr(warm, name), getattr(cold, name), rtol=1e-13, atol=1e-13)


def test_one_solution_may_be_the_start_of_a_whole_batch() -> None:
    data = batch(11, {"q": (2, 4), "P": (4,)})
    one = altdiff.solve_qp(**member(data, (0, 0), (2, 4)))
    cold, warm = altdiff.solve_qp(**data), altdiff.solve_qp(**data, initial=one)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-12, atol=1e-12)
    assert warm.iterations.sum() < cold.iterations.sum()


def test_a_start_with_failed_instances_serves_the_others() -> None:
    data = own_batch(12, 6)
    spoilt = {**data, "q": data["q"].copy(), "h": data["h"].copy()}
    spoilt["q"][1, 0] = np.nan
    spoilt["h"][4] = -1e9
    before = altdiff.solve_qp(**spoilt)
    assert before.status.tolist() == [0, Status.INVALID_DATA, 0, 0, Status.PRIMAL_INFEASIBLE, 0]
    cold, warm = altdiff.solve_qp(**data), altdiff.solve_qp(**data, initial=before)
    assert (warm.status == Status.SOLVED).all()
    assert (np.delete(warm.iterations, [1, 4]) == 0).all()
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-12, atol=1e-12)
    again = altdiff.solve_qp(**spoilt, initial=cold)
    assert again.status.tolist() == before.status.tolist()


def test_a_start_from_a_slightly_different_batch_needs_few_changes() -> None:
    data = own_batch(13, 40, n=20, m=15, p=4)
    before = altdiff.solve_qp(**data)
    rng = np.random.default_rng(13)
    data["q"] = data["q"] * (1.0 + 0.01 * rng.normal(size=data["q"].shape))
    cold, warm = altdiff.solve_qp(**data), altdiff.solve_qp(**data, initial=before)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-11, atol=1e-11)
    assert 4 * warm.iterations.sum() < cold.iterations.sum()


@pytest.mark.parametrize("own", [(), ("q",), FIELDS], ids=str)
def test_arrays_that_change_after_the_solve_do_not_change_derivatives(own: tuple[str, ...]) -> None:
    data = batch(14, dict.fromkeys(own, (4,)))
    solution = altdiff.solve_qp(**data)
    values = {name: getattr(solution, name).copy() for name in POINT}
    bars = [np.ones_like(value) for value in values.values()]
    before = (*solution.vjp(*bars), *solution.jvp(q=np.ones(6)), solution.jacobian("b"))
    for value in data.values():
        value[...] = np.nan
    for name, value in values.items():
        np.testing.assert_array_equal(getattr(solution, name), value)
        getattr(solution, name)[...] = np.nan  # the answers are the user's, too
    after = (*solution.vjp(*bars), *solution.jvp(q=np.ones(6)), solution.jacobian("b"))
    for left, right in zip(before, after, strict=True):
        np.testing.assert_array_equal(left, right)


def test_results_are_the_users_own_arrays() -> None:
    solution = altdiff.solve_qp(**own_batch(15, 3))
    bars = np.ones((3, 6))
    first = solution.vjp(bars)
    kept = [value.copy() for value in first]
    for value in first:
        value[...] = np.nan
    for value, expected in zip(solution.vjp(bars), kept, strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("name", FIELDS)
def test_torch_notices_a_tensor_that_changes_between_forward_and_backward(name: str) -> None:
    values: Any = {f: torch.tensor(v) for f, v in batch(16, {"q": (4,), "h": (4,)}).items()}
    values["q"].requires_grad_()
    x = QPLayer()(**values)
    with torch.no_grad():
        values[name].mul_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_the_gradients_of_two_backward_passes_have_their_own_memory() -> None:
    values: Any = {name: torch.tensor(v, requires_grad=True) for name, v in own_batch(18, 5).items()}
    x = QPLayer()(**values)
    first = torch.autograd.grad(x.sum(), list(values.values()), retain_graph=True)
    kept = [gradient.clone() for gradient in first]
    second = torch.autograd.grad((2.0 * x).sum(), list(values.values()))
    for gradient, same, doubled in zip(first, kept, second, strict=True):
        assert torch.equal(gradient, same)
        torch.testing.assert_close(doubled, 2.0 * same, rtol=1e-12, atol=1e-12)


def test_torch_gradients_are_those_of_numpy_for_mixed_batches() -> None:
    data = batch(17, {"q": (2, 3), "P": (3,), "h": (2, 1)})
    values: Any = {name: torch.tensor(value, requires_grad=True) for name, value in data.items()}
    x = QPLayer()(**values)
    bar = np.random.default_rng(17).normal(size=x.shape)
    (x * torch.tensor(bar)).sum().backward()
    gradient = altdiff.solve_qp(**data).vjp(bar)
    for name, value in values.items():
        np.testing.assert_array_equal(value.grad.numpy(), getattr(gradient, name))


@pytest.mark.parametrize("size", [513, 1100])
@pytest.mark.parametrize(
    "leads",
    [
        {"q": "all"},
        {"q": "all", "h": "all", "P": "all", "ub": "all"},
        {"q": "all", "P": "some", "G": "some", "b": "some"},
    ],
)
def test_gradients_of_a_long_batch_are_the_sums_of_those_of_its_parts(size: int, leads: Any) -> None:
    shapes = {"all": (2, size), "some": (2, 1)}
    data = batch(7, {name: shapes[kind] for name, kind in leads.items()}, n=4, m=3, p=1)
    bars = {f"{name}_bar": np.random.default_rng(2).normal(size=4) for name in ("x", "z_box")}
    whole = altdiff.solve_qp(**data).vjp(**bars)
    parts = []
    for some in (slice(0, size // 3), slice(size // 3, size)):
        part = {name: value[:, some] if leads.get(name) == "all" else value for name, value in data.items()}
        parts.append(altdiff.solve_qp(**part).vjp(**bars))
    for name in FIELDS:
        one, two = (getattr(part, name) for part in parts)
        expected = np.concatenate([one, two], axis=1) if leads.get(name) == "all" else one + two
        np.testing.assert_allclose(getattr(whole, name), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("own", [False, True])
def test_without_bounds_badly_conditioned_instances_have_the_gradients_of_the_kkt_system(own: bool) -> None:
    rng = np.random.default_rng(4)
    n, m, p, size = 23, 23, 7, 5
    L, G, A = rng.normal(size=(n, n)), rng.normal(size=(m, n)), rng.normal(size=(p, n))
    x = rng.normal(size=n)
    P = L @ np.diag(np.logspace(0, -7, n)) @ L.T
    data: Data = {"P": P, "q": rng.normal(size=(size, n)), "G": G, "h": G @ x + 0.1, "A": A, "b": A @ x}
    if own:
        data["P"] = np.stack([P] * size)
    solution = altdiff.solve_qp(**data)
    assert (solution.status == Status.SOLVED).all()
    x_bar = rng.normal(size=(size, n))
    q_bar = solution.vjp(x_bar).q
    for i in range(size):
        active = solution.z[i] > 0
        C = np.concatenate([A, G[active]])
        kkt = np.block([[P, C.T], [C, np.zeros((len(C), len(C)))]])
        expected = np.linalg.solve(kkt, -np.concatenate([x_bar[i], np.zeros(len(C))]))[:n]
        np.testing.assert_allclose(q_bar[i], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
