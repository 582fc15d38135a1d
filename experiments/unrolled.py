"""Algorithm 1 for a batch in torch, differentiated backwards through its rounds.

The derivative of a run of k rounds is one number whichever way the chain rule is applied: backwards through
the rounds gives the same J'x_bar as the paper's forward recursion, for every field at once and without an
n x n Jacobian an instance. It is what training with a truncated layer sees.
"""

from __future__ import annotations

import torch
from torch import Tensor

RHO = 1.0  # the authors'


def rounds(
    P: Tensor,
    q: Tensor,
    G: Tensor,
    h: Tensor,
    A: Tensor | None = None,
    b: Tensor | None = None,
    *,
    tolerance: float,
    rho: float = RHO,
    most: int = 10_000,
) -> tuple[Tensor, int]:
    """x of a batch with shared matrices, and the number of rounds: until the paper's rule holds for every
    instance, |x+ - x| < tolerance |x|."""
    if A is None or b is None:
        A, b = q.new_zeros(0, q.shape[-1]), q.new_zeros(0)
    K = P + rho * (A.mT @ A + G.mT @ G)  # (K1)
    inverse = torch.linalg.inv(K)  # once, as the authors do
    x, s = torch.zeros_like(q), q.new_zeros(*q.shape[:-1], G.shape[0])
    y, z = q.new_zeros(*q.shape[:-1], A.shape[0]), torch.zeros_like(s)
    for count in range(1, most + 1):
        right = q + (y - rho * b) @ A + (z + rho * (s - h)) @ G
        before, x = x, -right @ inverse  # (F1)
        Gx = x @ G.mT
        s = torch.relu(h - Gx - z / rho)  # (F2)
        y = y + rho * (x @ A.mT - b)  # (F3)
        z = z + rho * (Gx + s - h)  # (F4)
        with torch.no_grad():
            still = (x - before).norm(dim=-1) >= tolerance * before.norm(dim=-1)
        if not still.any():
            return x, count
    raise RuntimeError(f"the paper's rule at {tolerance:g} was not met in {most} rounds")


class TruncatedLayer(torch.nn.Module):
    """In place of a QPLayer: the paper's layer, stopped at a tolerance."""

    def __init__(self, tolerance: float) -> None:
        super().__init__()
        self.tolerance = tolerance
        self.last_rounds = 0

    def forward(
        self, P: Tensor, q: Tensor, G: Tensor, h: Tensor, A: Tensor | None = None, b: Tensor | None = None
    ) -> Tensor:
        """(batch, n) to (batch, n)."""
        x, self.last_rounds = rounds(P, q, G, h, A, b, tolerance=self.tolerance)
        return x
