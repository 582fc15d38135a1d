"""Energy generation scheduling (paper, section 5.2) as a quadratic program.

    minimise  sum_k (x_k - d_k)^2   subject to   |x_{k+1} - x_k| <= r

Generation x follows the demand d of the next hours as closely as the ramp limit r allows.
"""

from __future__ import annotations

import numpy as np
import torch
from altdiff.torch import QPLayer
from torch import Tensor

from experiments.load_data import NEXT_HOURS, FloatArray

SHARE_OF_RAMPED_DAYS = 0.85  # the paper gives no r; a limit that hardly ever binds would teach nothing


def ramp_matrix(hours: int) -> FloatArray:
    """G of G x <= r: every step up, then every step down."""
    steps = np.diff(np.eye(hours), axis=0)
    return np.concatenate([steps, -steps])


def largest_steps(demand: FloatArray) -> FloatArray:
    """Per day, the largest change from one hour to the next."""
    return np.asarray(np.abs(np.diff(demand, axis=-1)).max(axis=-1))


def choose_ramp_limit(demand: FloatArray) -> float:
    """The limit, in halves, that binds on about 85 % of the days."""
    quantile = float(np.quantile(largest_steps(demand), 1.0 - SHARE_OF_RAMPED_DAYS))
    return max(0.5, round(2.0 * quantile) / 2.0)


def share_of_ramped_days(demand: FloatArray, limit: float) -> float:
    """A day's limit binds exactly if its demand, unlimited, would break it."""
    return float((largest_steps(demand) > limit).mean())


class Scheduler(torch.nn.Module):
    """Demand in, schedule out, differentiable: the QP layer with this problem's P, G and h."""

    P: Tensor
    G: Tensor
    h: Tensor

    def __init__(self, ramp_limit: float, hours: int = NEXT_HOURS) -> None:
        super().__init__()
        G = torch.from_numpy(ramp_matrix(hours))
        self.register_buffer("P", 2.0 * torch.eye(hours, dtype=torch.float64))
        self.register_buffer("G", G)
        self.register_buffer("h", torch.full((G.shape[0],), ramp_limit, dtype=torch.float64))
        self.layer = QPLayer()

    def forward(self, demand: Tensor) -> Tensor:
        """(..., hours) to (..., hours)."""
        schedule: Tensor = self.layer(self.P, -2.0 * demand, self.G, self.h)
        return schedule


def schedule_loss(schedule: Tensor, best_schedule: Tensor) -> Tensor:
    """The paper's optimisation loss, 1/2 sum (x*(predicted) - x*(true))^2, as a mean over the days."""
    return 0.5 * (schedule - best_schedule).square().sum(dim=-1).mean()
