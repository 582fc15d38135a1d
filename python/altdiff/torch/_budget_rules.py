"""Derivatives of sparsemax and softmax with limits, in torch, which can differentiate them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor


class SolvedRows(NamedTuple):
    """Solved rows, and how their entries move."""

    softmax: bool
    x: Tensor
    moving: Tensor  # share of an entry that moves freely; a constant
    above: Tensor  # share that moves with the upper limit; the rest moves with the lower one
    solved: Tensor | None = None  # (..., 1); None: all rows
    missing: float = 0.0  # stands for derivatives of the others


def pull_back(rows: SolvedRows, x_bar: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of y, lower, upper and total; those of limits with an entry for every entry of x."""
    weights = _weights(rows)
    sums = weights.sum(-1, keepdim=True)
    moves = sums > 0
    held = x_bar.sum(-1, keepdim=True) / (x_bar.shape[-1] + 1)  # nothing moves: the least multipliers
    mean = torch.where(moves, (weights * x_bar).sum(-1, keepdim=True) / torch.where(moves, sums, 1.0), held)
    difference = x_bar - mean
    gradients = (  # (B5)
        weights * difference,
        (1 - rows.moving - rows.above) * difference,
        rows.above * difference,
        mean,
    )
    y, lower, upper, total = [_or_missing(rows, gradient, x_bar) for gradient in gradients]
    return y, lower, upper, total.squeeze(-1)


def push_forward(
    rows: SolvedRows,
    y_dot: Tensor | None,
    lower_dot: Tensor | None,
    upper_dot: Tensor | None,
    total_dot: Tensor | None,
) -> Tensor:
    """The tangent of x; limits' tangents broadcast, None is zero."""
    weights = _weights(rows)
    pushed = torch.zeros_like(weights)
    for share, dot in (
        (weights, y_dot),
        (1 - rows.moving - rows.above, lower_dot),
        (rows.above, upper_dot),
    ):
        if dot is not None:
            pushed = pushed + share * dot
    sums = weights.sum(-1, keepdim=True)
    moves = sums > 0
    excess = pushed.sum(-1, keepdim=True)
    if total_dot is not None:
        excess = excess - total_dot.unsqueeze(-1)
    level = excess / torch.where(moves, sums, weights.shape[-1] + 1.0)
    x_dot = pushed - torch.where(moves, weights, 1.0) * level  # (B6)
    return x_dot if rows.solved is None else torch.where(rows.solved, x_dot, rows.missing)


def _weights(rows: SolvedRows) -> Tensor:
    """(B4)"""
    if not rows.softmax:
        return rows.moving
    x = rows.x if rows.solved is None else torch.where(rows.solved, rows.x, 0.0)
    return rows.moving * x


def _or_missing(rows: SolvedRows, gradient: Tensor, x_bar: Tensor) -> Tensor:
    """A row that failed has no gradient, except for a loss that does not look at it."""
    if rows.solved is None:
        return gradient
    seen = (x_bar != 0).any(-1, keepdim=True)
    return torch.where(rows.solved, gradient, torch.where(seen, rows.missing, 0.0))
