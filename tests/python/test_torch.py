"""The torch layer: gradients, batches, failure policies, and types."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse
import torch
from altdiff.torch import QPLayer, solve_qp
from helpers.problems import FIELDS, POINT, Data, known_problem, natural_problem

# Any rather than Tensor: a tensor's `grad` may be None, and these tests know where it is not.
Tensors = dict[str, Any]


def tensors(data: Data, requires_grad: bool = True) -> Tensors:
    return {name: torch.tensor(value, requires_grad=requires_grad) for name, value in data.items()}


def arguments(values: Tensors) -> list[Any]:
    """The eight fields by position."""
    return [values.get(name) for name in FIELDS]


@pytest.mark.parametrize("output", [*POINT, "objective"])
def test_gradcheck_passes_for_every_output_and_all_inputs(output: str) -> None:
    data = known_problem(seed=1, n=4, m=3, p=1).data

    def function(*values: Any) -> Any:
        return getattr(solve_qp(*values), output)

    assert torch.autograd.gradcheck(function, tuple(tensors(data).values()), eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("batched", [("q",), ("P", "b"), ("G", "h", "ub"), FIELDS])
def test_gradcheck_passes_with_some_inputs_shared_and_others_batched(batched: tuple[str, ...]) -> None:
    data = known_problem(seed=2, n=3, m=2, p=1).data
    rng = np.random.default_rng(2)
    for name in batched:
        moved = data[name] + 0.05 * rng.normal(size=(2, *data[name].shape))
        data[name] = moved if name != "P" else data["P"] * np.array([1.0, 1.1])[:, None, None]
    layer = QPLayer()
    inputs = tuple(tensors(data).values())
    assert torch.autograd.gradcheck(lambda *v: layer(*v), inputs, eps=1e-6, atol=1e-6, rtol=1e-5)


def test_the_gradient_of_a_shared_tensor_is_the_sum_over_the_batch() -> None:
    data = natural_problem(3, n=4, m=3, p=1)
    data["q"] = np.random.default_rng(3).normal(size=(5, 4))
    shared = tensors(data)
    QPLayer()(*arguments(shared)).pow(2).sum().backward()
    total = torch.zeros_like(shared["P"])
    for q in data["q"]:
        own = tensors({**data, "q": q})
        QPLayer()(*arguments(own)).pow(2).sum().backward()
        total += own["P"].grad
    torch.testing.assert_close(shared["P"].grad, total, rtol=0, atol=1e-12)


def test_unbatched_in_is_unbatched_out_and_leading_dimensions_are_kept() -> None:
    data = natural_problem(4, n=4, m=3, p=1)
    solution: Any = QPLayer().solve(**tensors(data))
    assert solution.x.shape == (4,)
    assert solution.objective.shape == ()
    assert solution.status.shape == ()
    q = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    solution = QPLayer().solve(**{**tensors(data), "q": q})
    assert solution.x.shape == (2, 3, 4)
    assert solution.z.shape == (2, 3, 3)
    assert solution.status.shape == (2, 3)


def test_the_values_are_those_of_the_numpy_interface() -> None:
    data = natural_problem(5, n=5, m=4, p=2)
    ours, theirs = solve_qp(**tensors(data)), altdiff.solve_qp(**data)
    for name in (
        *POINT,
        "objective",
        "status",
        "iterations",
        "primal_residual",
        "dual_residual",
        "duality_gap",
    ):
        np.testing.assert_array_equal(getattr(ours, name).detach().numpy(), getattr(theirs, name))
    for name in ("degenerate", "unique"):
        assert getattr(ours, name).dtype == torch.bool


def test_a_batch_of_zero_instances_has_zero_gradients() -> None:
    values = tensors(natural_problem(6, n=4, m=3, p=1))
    values["q"] = torch.zeros(0, 4, dtype=torch.float64, requires_grad=True)
    x = QPLayer()(**values)
    assert x.shape == (0, 4)
    x.sum().backward()
    for value in values.values():
        assert torch.equal(value.grad, torch.zeros_like(value))


def test_none_and_empty_tensors_are_absent_blocks() -> None:
    values = tensors(natural_problem(7, n=4, m=3, p=1))
    empty: Any = torch.tensor([], dtype=torch.float64, requires_grad=True)
    layer = QPLayer()
    x = layer(values["P"], values["q"], empty, empty, torch.zeros(0, 4), torch.zeros(0))
    assert torch.equal(x, layer(values["P"], values["q"], None, None))
    x.sum().backward()
    assert empty.grad.shape == (0,)


def test_a_scalar_bound_gets_a_scalar_gradient() -> None:
    values = tensors(natural_problem(7, n=4, m=3, p=1))
    scalar, vector = (
        torch.full(shape, -0.1, dtype=torch.float64, requires_grad=True) for shape in ((), (4,))
    )
    for bound in (scalar, vector):
        QPLayer()(values["P"], values["q"], lb=bound).sum().backward()
    assert scalar.grad is not None
    assert vector.grad is not None
    assert scalar.grad != 0
    torch.testing.assert_close(scalar.grad, vector.grad.sum())


def test_only_inputs_that_need_a_gradient_get_one() -> None:
    values = tensors(natural_problem(8, n=4, m=3, p=1), requires_grad=False)
    values["h"].requires_grad_()
    QPLayer()(**values).sum().backward()
    assert all(value.grad is None for name, value in values.items() if name != "h")


def test_no_grad_and_constants_give_values_without_history() -> None:
    values = tensors(natural_problem(9, n=4, m=3, p=1))
    with torch.no_grad():
        assert not QPLayer()(**values).requires_grad
    assert not QPLayer()(**{name: value.detach() for name, value in values.items()}).requires_grad


def test_arrays_and_sparse_matrices_are_constants() -> None:
    data = natural_problem(10, n=4, m=3, p=1)
    q = torch.tensor(data["q"], requires_grad=True)
    constant = {**data, "P": scipy.sparse.csr_matrix(data["P"]), "A": scipy.sparse.csc_matrix(data["A"])}
    solution: Any = QPLayer().solve(**{**constant, "q": q})
    (solution.x.sum() + solution.objective).backward()
    other = torch.tensor(data["q"], requires_grad=True)
    expected: Any = QPLayer().solve(**{**tensors(data), "q": other})
    (expected.x.sum() + expected.objective).backward()
    torch.testing.assert_close(q.grad, other.grad, rtol=0, atol=1e-8)


def test_float32_is_computed_in_float64_and_cast_back() -> None:
    data = natural_problem(11, n=4, m=3, p=1)
    single = {name: value.detach().float().requires_grad_() for name, value in tensors(data).items()}
    double = {name: value.detach().double().requires_grad_() for name, value in single.items()}
    x, exact = QPLayer()(**single), QPLayer()(**double)
    assert x.dtype == torch.float32
    assert torch.equal(x, exact.float())
    x.sum().backward()
    exact.sum().backward()
    for name in FIELDS:
        gradient, reference = single[name].grad, double[name].grad
        assert gradient.dtype == torch.float32
        assert torch.equal(gradient, reference.float())


def test_mixed_types_are_promoted_as_torch_promotes_them() -> None:
    values = tensors(natural_problem(12, n=4, m=3, p=1), requires_grad=False)
    values["q"] = values["q"].float().requires_grad_()
    x = QPLayer()(**values)
    assert x.dtype == torch.float64
    x.sum().backward()
    assert values["q"].grad.dtype == torch.float32


# Of these instances the first is solvable, the second holds NaN and the third is infeasible.
def three_fates() -> Tensors:
    return {
        "P": torch.eye(2, dtype=torch.float64).requires_grad_(),
        "q": torch.tensor(
            [[-1.0, -2.0], [float("nan"), 0.0], [0.0, 0.0]], dtype=torch.float64
        ).requires_grad_(),
        "G": torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64),
        "h": torch.tensor([[0.5, 1.0], [1.0, 1.0], [0.0, -1.0]], dtype=torch.float64).requires_grad_(),
    }


def first_alone() -> Tensors:
    values = three_fates()
    values["q"] = values["q"].detach()[0].requires_grad_()
    values["h"] = values["h"].detach()[0].requires_grad_()
    return values


def test_a_failure_raises_an_error_that_names_the_instances_and_what_to_try() -> None:
    with pytest.raises(altdiff.SolveError) as caught:
        QPLayer()(**three_fates())
    message = str(caught.value)
    assert "2 of 3 instances were not solved" in message
    assert "instance 1: INVALID_DATA" in message
    assert "instance 2: PRIMAL_INFEASIBLE" in message
    assert "soften a constraint" in message
    assert caught.value.instances == [(1,), (2,)]
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_an_error_names_at_most_ten_instances() -> None:
    with pytest.raises(altdiff.SolveError, match=r"(?s)12 of 12.*instance 9: INVALID_DATA\n  and 2 more"):
        QPLayer()(torch.eye(2), torch.full((12, 2), float("nan")))


def test_an_unbatched_failure_raises_too() -> None:
    with pytest.raises(
        altdiff.SolveError, match=r"the problem was not solved: PRIMAL_INFEASIBLE\. What to try"
    ):
        QPLayer()([[1.0]], torch.zeros(1), [[1.0], [-1.0]], [0.0, -1.0])


def test_nan_marks_only_the_failed_instances() -> None:
    values, alone = three_fates(), first_alone()
    solution: Any = QPLayer(on_failure="nan").solve(**values)
    expected: Any = QPLayer().solve(**alone)
    assert torch.equal(solution.x[0], expected.x)
    assert solution.x[1:].isnan().all()
    assert solution.objective[1:].isnan().all()
    assert solution.status.tolist() == [0, 6, 3]
    solution.x.sum().backward()
    expected.x.sum().backward()
    q, h, P = values["q"].grad, values["h"].grad, values["P"].grad
    assert torch.equal(q[0], alone["q"].grad)
    assert q[1:].isnan().all()
    assert h[1:].isnan().all()
    assert P.isnan().all()


def test_an_instance_that_the_loss_leaves_out_does_not_spoil_the_shared_gradient() -> None:
    values, alone = three_fates(), first_alone()
    solution: Any = QPLayer(on_failure="nan").solve(**values)
    solution.x[solution.status == altdiff.Status.SOLVED].sum().backward()
    QPLayer()(**alone).sum().backward()
    torch.testing.assert_close(values["P"].grad, alone["P"].grad, rtol=0, atol=0)


def test_zero_gives_the_last_iterate_without_gradient() -> None:
    values, alone = three_fates(), first_alone()
    solution: Any = QPLayer(on_failure="zero").solve(**values)
    expected: Any = QPLayer().solve(**alone)
    assert torch.equal(solution.x[0], expected.x)
    assert solution.x.isfinite().all()
    (solution.x.sum() + solution.objective.sum()).backward()
    (expected.x.sum() + expected.objective).backward()
    for name in ("q", "h"):
        gradient = values[name].grad
        assert torch.equal(gradient[0], alone[name].grad)
        assert torch.equal(gradient[1:], torch.zeros_like(gradient[1:]))
    assert torch.equal(values["P"].grad, alone["P"].grad)


def test_reaching_max_iterations_is_a_failure() -> None:
    values = tensors(natural_problem(13, n=6, m=5, p=2))
    options: Any = {"max_iterations": 1, "finish": False, "method": "alternating"}
    with pytest.raises(altdiff.SolveError, match=r"MAX_ITERATIONS.*raise max_iterations"):
        QPLayer(**options)(**values)
    x = QPLayer(on_failure="zero", **options)(**values)
    assert x.isfinite().all()
    x.sum().backward()
    assert not values["q"].grad.any()


def test_changing_an_output_in_place_does_not_change_the_gradient() -> None:
    values, same = (tensors(natural_problem(15, n=4, m=3, p=1)) for _ in range(2))
    solution: Any = solve_qp(**values)
    expected: Any = solve_qp(**same)
    solution.x.detach().zero_()
    solution.objective.backward()
    expected.objective.backward()
    assert torch.equal(values["P"].grad, same["P"].grad)


def test_non_contiguous_tensors_are_accepted() -> None:
    values = tensors(natural_problem(16, n=4, m=3, p=1), requires_grad=False)
    wide = torch.stack([values["G"], values["G"]], dim=-1)[..., 0]
    assert not wide.is_contiguous()
    assert torch.equal(QPLayer()(**{**values, "G": wide, "P": values["P"].T}), QPLayer()(**values))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            {"q": torch.zeros(4, dtype=torch.complex128)},
            TypeError,
            "q must be real numbers, got dtype complex128",
        ),
        ({"h": torch.zeros(2)}, ValueError, r"h must have shape \(..., m\) with m = 3, got \(2,\)"),
        ({"q": torch.zeros(4, device="meta")}, ValueError, r"q is on meta.*CPU: pass q.cpu\(\)"),
        ({"h": torch.ones(3).to_sparse()}, TypeError, r"h is a sparse tensor.*pass h.to_dense\(\)"),
        ({"b": None}, ValueError, "b is missing: A is given"),
    ],
)
def test_a_wrong_tensor_is_named(change: Any, kind: type[Exception], message: str) -> None:
    values: Any = {**tensors(natural_problem(17, n=4, m=3, p=1)), **change}
    with pytest.raises(kind, match=message):
        QPLayer()(**values)


def test_a_wrong_option_is_an_error_when_the_layer_is_made() -> None:
    with pytest.raises(ValueError, match="on_failure must be one of raise, nan, zero, got 'ignore'"):
        QPLayer(on_failure="ignore")
    with pytest.raises(TypeError, match="unknown setting 'tolerence': did you mean 'tolerance'"):
        QPLayer(tolerence=1e-6)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="tolerance must"):
        QPLayer(tolerance=-1.0)


def test_a_layer_has_no_parameters_and_survives_copy_and_pickle() -> None:
    layer = QPLayer(on_failure="nan", tolerance=1e-9)
    assert list(layer.parameters()) == []
    assert repr(layer) == "QPLayer(on_failure='nan', tolerance=1e-09)"
    values = tensors(natural_problem(18, n=4, m=3, p=1))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(**values), layer(**values))
