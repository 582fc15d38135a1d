"""The network of section 5.3: convolutions, a QP layer with parameters of its own, ten classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from altdiff.torch import QPLayer
from torch import Tensor, nn
from torch.nn.functional import softplus

from experiments.unrolled import TruncatedLayer

Size = tuple[int, int, int]  # variables, inequalities, equalities
PAPER: Size = (200, 50, 50)
SMALL: Size = (20, 5, 5)
CHANNELS = (16, 40)  # the paper does not say; multiples of eight fill vector registers
LEAST_CURVATURE = 1e-2  # eps of P = LL' + eps I
FIRST_SLACK = -3.0  # softplus of it is 0.05: inequalities bind from the first batch on
EXACT = "exact"
Solve = Callable[..., Tensor]


class Parameters(nn.Module):
    """P, G, h, A, b of the layer, valid whatever the optimiser does: x0 is always strictly feasible."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        n, m, p = size
        self.L = nn.Parameter(torch.eye(n) + 0.1 / n**0.5 * torch.randn(n, n))
        self.G = nn.Parameter(torch.randn(m, n) / n**0.5)
        self.A = nn.Parameter(torch.randn(p, n) / n**0.5)
        self.x0 = nn.Parameter(torch.zeros(n))
        self.slack = nn.Parameter(torch.full((m,), FIRST_SLACK))

    def forward(self) -> dict[str, Tensor]:
        """P = LL' + eps I,  h = G x0 + positive,  b = A x0."""
        P = self.L @ self.L.mT + LEAST_CURVATURE * torch.eye(self.L.shape[0])
        return {
            "P": P,
            "G": self.G,
            "h": self.G @ self.x0 + softplus(self.slack),
            "A": self.A,
            "b": self.A @ self.x0,
        }


def exact_layer() -> Solve:
    """altdiff's default, in float64 inside whatever goes in."""
    return QPLayer()


def make_layer(kind: str) -> Solve:
    """`exact`, or the paper's layer stopped at a tolerance."""
    return exact_layer() if kind == EXACT else TruncatedLayer(float(kind))


class DigitNetwork(nn.Module):
    """Pictures in, logarithms of probabilities out."""

    def __init__(self, side: int, size: Size, solve: Solve) -> None:
        super().__init__()
        first, second = CHANNELS
        small = side < 16
        options: dict[str, Any] = {"kernel_size": 3, "padding": 1} if small else {"kernel_size": 5}
        left = side // 4 if small else ((side - 4) // 2 - 4) // 2
        self.features = nn.Sequential(
            # A maximum of rectified numbers is a rectified maximum, of which there are a quarter as many.
            nn.Conv2d(1, first, **options),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(first, second, **options),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * left * left, size[0]),
        )
        # Convolutions take two thirds of the time with channels last.
        self.features.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters_of_layer = Parameters(size)
        self.head = nn.Linear(size[0], 10)
        self.solve = solve

    def layer(self, q: Tensor) -> Tensor:
        """The QP layer alone."""
        x: Tensor = self.solve(q=q, **self.parameters_of_layer())
        return x

    def forward(self, pixels: Tensor) -> Tensor:
        """(batch, 10)"""
        return torch.log_softmax(self.head(self.layer(self.features(pixels))), dim=-1)
