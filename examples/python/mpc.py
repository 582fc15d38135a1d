"""Differentiable model-predictive control: what an expert aims at, and how hard it may push, from its moves.

A cart on a line (position, velocity) is pushed by a bounded force. The controller plans N steps ahead by a
quadratic program in states and forces, with scipy.sparse matrices that never change:

    minimise sum |position - target|^2 + ...   subject to   the dynamics,  |force| <= limit

The expert is the same controller with a target and a limit that the learner does not know. Its forces at
random starts are all that is given; q holds the target, ub and lb the limit, b the start, and the layer
differentiates all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sparse
import torch
from altdiff.torch import QPLayer

STEP = 0.2  # seconds
A_STATE = np.array([[1.0, STEP], [0.0, 1.0]])
B_FORCE = np.array([[STEP**2 / 2], [STEP]])
WEIGHTS = (1.0, 0.1)  # of position and velocity
FORCE_WEIGHT = 0.05


class Controller(torch.nn.Module):
    """Plans forces from a start. Variables: x_1, ..., x_N, then u_0, ..., u_{N-1}."""

    def __init__(self, horizon: int, target: float, limit: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.target = torch.nn.Parameter(torch.tensor(target, dtype=torch.float64))
        self.limit = torch.nn.Parameter(torch.tensor(limit, dtype=torch.float64))
        states, forces = np.tile(WEIGHTS, horizon), np.full(horizon, FORCE_WEIGHT)
        self.P = sparse.diags_array(np.concatenate([states, forces])).tocsc()
        chain = sparse.kron(sparse.eye_array(horizon, k=-1), A_STATE)
        drive = sparse.kron(sparse.eye_array(horizon), B_FORCE)
        self.A = sparse.hstack([sparse.eye_array(2 * horizon) - chain, -drive]).tocsc()
        self.layer = QPLayer()

    def forward(self, start: torch.Tensor) -> torch.Tensor:
        """The forces of the whole plan, for each start (position, velocity)."""
        N = self.horizon
        aim = torch.stack([self.target, torch.zeros_like(self.target)]) * start.new_tensor(WEIGHTS)
        q = torch.cat([-aim.repeat(N), start.new_zeros(N)])
        b = torch.nn.functional.pad(start @ start.new_tensor(A_STATE).T, (0, 2 * N - 2))
        free = start.new_full((2 * N,), torch.inf)
        ub = torch.cat([free, self.limit.expand(N)])
        plan: torch.Tensor = self.layer(self.P, q, A=self.A, b=b, lb=-ub, ub=ub)
        return plan[..., 2 * N :]


def main(arguments: Sequence[str] | None = None) -> None:
    """Learns from an expert, and prints what was learnt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--horizon", type=int, default=20)
    parser.add_argument("--starts", type=int, default=16, help="plans of the expert")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    generator = torch.Generator().manual_seed(options.seed)
    starts = torch.randn(options.starts, 2, dtype=torch.float64, generator=generator)
    expert = Controller(options.horizon, target=1.5, limit=0.8)
    with torch.no_grad():
        shown = expert(starts)
    learner = Controller(options.horizon, target=0.0, limit=0.3)
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.steps)
    print(f"{'step':>5}  {'loss':>8}  {'target':>7}  {'limit':>6}")
    for step in range(options.steps + 1):
        loss = torch.nn.functional.mse_loss(learner(starts), shown)
        if step % max(1, options.steps // 5) == 0:
            print(f"{step:5}  {loss.item():8.1e}  {learner.target.item():7.4f}  {learner.limit.item():6.4f}")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    print(f"expert: {'':>8}  {expert.target.item():7.4f}  {expert.limit.item():6.4f}")


if __name__ == "__main__":
    main()
