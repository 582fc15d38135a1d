"""The same values and gradients as qpth and proxsuite, where those are installed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from altdiff.compat import proxsuite, qpth
from helpers.compat_problems import gradients, one_sided, two_sided

MIXES = ["", "p", "Q p", "G h A b", "Q p G h A b"]


def their_qpth() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("qpth.qp")


def their_proxsuite() -> Any:
    pytest.importorskip("proxsuite")
    return pytest.importorskip("proxsuite.torch.qplayer")


def assert_same(ours: Any, theirs: Any, accuracy: float) -> None:
    """Equal shapes and, up to their accuracy, equal numbers; what they leave out may be None in ours."""
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            assert mine.shape == other.shape
            assert mine.dtype == other.dtype
            scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
            torch.testing.assert_close(mine, other, rtol=0, atol=accuracy * scale)


@pytest.mark.parametrize("batched", MIXES)
@pytest.mark.parametrize("solver", ["PDIPM_BATCHED", "CVXPY"])
def test_qpth_gives_the_same(batched: str, solver: str) -> None:
    theirs = their_qpth()
    if solver == "CVXPY":
        pytest.importorskip("cvxpy")
    for seed in range(5):
        arguments = one_sided(seed, batch=3, batched=batched)
        expected = theirs.QPFunction(verbose=-1, solver=theirs.QPSolvers[solver])(*arguments)
        x = qpth.QPFunction(verbose=-1, solver=theirs.QPSolvers[solver])(*arguments)
        # qpth clamps slacks and multipliers at 1e-8, and CVXPY's solver stops early.
        assert_same([x], [expected], 1e-7 if solver == "PDIPM_BATCHED" else 1e-4)
        accuracy = 1e-6 if solver == "PDIPM_BATCHED" else 1e-3
        assert_same(gradients(x, arguments), gradients(expected, arguments), accuracy)


def test_qpth_gives_the_same_without_equalities() -> None:
    theirs, empty = their_qpth(), torch.Tensor()
    Q, p, G, h, _, _ = one_sided(6, batch=3)
    expected = theirs.QPFunction(verbose=-1)(Q, p, G, h, empty, empty)
    x = qpth.QPFunction(verbose=-1)(Q, p, G, h, empty, empty)
    assert_same([x], [expected], 1e-7)
    assert_same(gradients(x, [Q, p, G, h]), gradients(expected, [Q, p, G, h]), 1e-6)


def test_qpth_refuses_the_same_matrices() -> None:
    theirs = their_qpth()
    _, *rest = one_sided(7)
    for library in (theirs, qpth):
        with pytest.raises(RuntimeError, match="Q is not SPD"):
            library.QPFunction(verbose=-1)(torch.zeros(5, 5, dtype=torch.float64), *rest)


@pytest.mark.parametrize("batched", ["", "p", "Q p", "G u A b", "Q p A b G u"])
def test_proxsuite_gives_the_same(batched: str) -> None:
    theirs = their_proxsuite()
    for seed in range(5):
        arguments = two_sided(seed, batch=3, batched=batched)
        expected = theirs.QPFunction(eps=1e-11, eps_backward=1e-11)(*arguments)
        answer = proxsuite.QPFunction(eps=1e-11, eps_backward=1e-11)(*arguments)
        assert_same(answer, expected, 1e-7)
        # Its gradients are made in float32. Through nus they are wrong in version 0.8: ours pass gradcheck.
        ours, reference = (gradients(tuple(parts)[:2], arguments) for parts in (answer, expected))
        assert_same(ours, reference, 2e-5)


def test_proxsuite_gives_the_same_without_equalities() -> None:
    theirs, empty = their_proxsuite(), torch.empty(0)
    Q, p, _, _, G, low, u = two_sided(8, batch=2)
    expected = theirs.QPFunction(eps=1e-11, eps_backward=1e-11)(Q, p, empty, empty, G, low, u)
    answer = proxsuite.QPFunction()(Q, p, empty, empty, G, low, u)
    assert_same(answer, expected, 1e-7)
    arguments = [Q, p, G, low, u]
    assert_same(gradients(answer[0], arguments), gradients(expected[0], arguments), 2e-5)


def test_proxsuite_gives_the_same_where_a_row_is_an_equality() -> None:
    theirs = their_proxsuite()
    for seed in range(3):
        arguments = two_sided(seed)
        with torch.no_grad():
            arguments[5][0] = arguments[6][0]
        expected = theirs.QPFunction(eps=1e-11, eps_backward=1e-11)(*arguments)
        answer = proxsuite.QPFunction()(*arguments)
        assert_same(answer, expected, 1e-7)
        assert_same(gradients(answer[0], arguments), gradients(expected[0], arguments), 2e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of proxsuite's use of NumPy
def test_proxsuite_gives_the_same_where_the_problem_is_infeasible() -> None:
    theirs = their_proxsuite()
    Q, p, A, b, G, low, u = two_sided(9)
    with torch.no_grad():
        G[1] = G[0]
        low[0], u[0] = u[1] + 1, u[1] + 2
    arguments = [Q, p, A, b, G, low, u]
    x, _, _, s_e, s_i = proxsuite.QPFunction(structural_feasibility=False)(*arguments)
    expected = theirs.QPFunction(structural_feasibility=False)(*arguments)
    assert s_i.abs().max() > 0.1
    assert_same([x, s_e, s_i], [expected[0], expected[3], expected[4]], 1e-6)
    # A and G have parallel rows, where nothing is differentiable in them.
    smooth = [Q, p, b, low, u]
    assert_same(gradients(x, smooth), gradients(expected[0], smooth), 1e-2)
