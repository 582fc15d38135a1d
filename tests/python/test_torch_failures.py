"""A batch of 64 in which four instances cannot be solved."""

from __future__ import annotations

from typing import Any

import altdiff
import pytest
import torch
from altdiff.torch import QPLayer
from helpers.problems import known_problem

INFEASIBLE, WITH_NAN = (7, 23, 50), 31
BAD = (*INFEASIBLE, WITH_NAN)
GOOD = [i for i in range(64) if i not in BAD]


def batch(own: bool) -> dict[str, Any]:
    """60 good instances, 3 whose bounds of one row contradict each other, and one with NaN."""
    fields = {name: torch.tensor(v) for name, v in known_problem(3, n=8, m=6, p=2, bounds=False).data.items()}
    noise = torch.randn(64, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    fields["q"] = fields["q"] + 0.01 * noise
    fields["G"] = torch.cat([fields["G"], -fields["G"][:1]])  # the first row from both sides
    h = torch.cat([fields["h"], -fields["h"][:1] + 50]).repeat(64, 1)
    h[list(INFEASIBLE), -1] = -fields["h"][0] - 1
    fields["h"] = h
    fields["q"][WITH_NAN, 0] = float("nan")
    if own:
        fields = {
            name: v if name in ("q", "h") else v.repeat(64, *(1,) * v.dim()) for name, v in fields.items()
        }
    return {name: value.requires_grad_() for name, value in fields.items()}


def part(fields: dict[str, Any], own: bool) -> dict[str, Any]:
    """The good instances alone."""
    batched = {name for name in fields if own or name in ("q", "h")}
    return {
        name: (v.detach()[GOOD] if name in batched else v.detach()).clone().requires_grad_()
        for name, v in fields.items()
    }


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("on_failure", ["nan", "zero"])
def test_sixty_good_instances_do_not_notice_four_bad_ones(on_failure: str, own: bool) -> None:
    fields = batch(own)
    alone = part(fields, own)
    solution = QPLayer(on_failure=on_failure).solve(**fields)
    expected = QPLayer().solve(**alone)
    torch.testing.assert_close(solution.x[GOOD], expected.x, rtol=1e-9, atol=1e-9)
    bad = solution.x[list(BAD)]
    assert bool(bad.isnan().all() if on_failure == "nan" else bad.isfinite().all())
    loss = (solution.x[GOOD] ** 2).sum() if on_failure == "nan" else (solution.x**2).sum()
    torch.autograd.backward(loss)
    torch.autograd.backward((expected.x**2).sum())
    for name, field in fields.items():
        whole = own or name in ("q", "h")
        ours = field.grad[GOOD] if whole else field.grad
        torch.testing.assert_close(ours, alone[name].grad, rtol=1e-8, atol=1e-8)
        if whole:
            assert torch.equal(field.grad[list(BAD)], torch.zeros_like(field.grad[list(BAD)]))


def test_an_error_names_the_four() -> None:
    with pytest.raises(altdiff.SolveError) as caught:
        QPLayer()(**batch(own=False))
    message = str(caught.value)
    assert "4 of 64 instances were not solved" in message
    for i in INFEASIBLE:
        assert f"instance {i}: PRIMAL_INFEASIBLE" in message
    assert f"instance {WITH_NAN}: INVALID_DATA" in message
    assert caught.value.instances == [(i,) for i in sorted(BAD)]
    assert "soften a constraint" in message
    assert "look at what computes them" in message


@pytest.mark.parametrize("sparse", [False, True])
def test_a_p_that_is_not_convex_is_named_with_its_eigenvalues(sparse: bool) -> None:
    P: Any = torch.diag(torch.tensor([4.0, -1e-3], dtype=torch.float64))
    fields = {"P": P.to_sparse() if sparse else P, "q": torch.zeros(2, dtype=torch.float64), "lb": 0.0}
    with pytest.raises(altdiff.SolveError, match=r"smallest eigenvalue is -0\.001, the largest 4") as caught:
        QPLayer()(**fields)
    assert caught.value.spectrum == pytest.approx((-1e-3, 4.0))
