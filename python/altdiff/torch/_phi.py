"""The scalar functions of separable terms in torch: value, first and second derivative.

Each is written so that torch's own derivatives of it are right too, also where a factor is zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


_END_SLOPE = 745.0  # as in the core: phi' at the end of a closed domain
_NEXT_TO_END = 1e-16  # curvature is bounded by its inverse: nothing moves there
_LAST = 1.0 - 2.0**-53


def value(kind: str, t: Tensor, exponent: float) -> Tensor:
    """phi(t)."""
    if kind == "square":
        return 0.5 * t * t
    if kind == "entropy":
        return torch.xlogy(t, t)
    if kind == "-log":
        return -torch.log(t)
    if kind == "softplus":
        return torch.logaddexp(t, torch.zeros_like(t))
    if kind == "exp":
        return torch.exp(t)
    if kind == "pseudo-huber":
        # Without the difference of two numbers close to one.
        return t * t / (1.0 + torch.sqrt(1.0 + t * t))
    if kind == "power":
        return t.abs().pow(exponent)
    other: Tensor = torch.special.xlog1py(1.0 - t, -t)
    return torch.xlogy(t, t) + other


def first(kind: str, t: Tensor, exponent: float) -> Tensor:
    """phi'(t)."""
    if kind == "square":
        return t
    if kind == "entropy":
        return _log(t) + 1.0
    if kind == "-log":
        return -1.0 / t
    if kind == "softplus":
        return torch.sigmoid(t)
    if kind == "exp":
        return torch.exp(t)
    if kind == "pseudo-huber":
        return t / torch.sqrt(1.0 + t * t)
    if kind == "power":
        return exponent * t * _power(t, exponent - 2.0)
    return _log(t) - torch.where(t < 1.0, torch.log1p(-t.clamp_max(_LAST)), -_END_SLOPE)


def second(kind: str, t: Tensor, exponent: float) -> Tensor:
    """phi''(t)."""
    if kind == "square":
        return torch.ones_like(t)
    if kind == "entropy":
        return 1.0 / t.clamp_min(_NEXT_TO_END)
    if kind == "-log":
        return 1.0 / (t * t)
    if kind == "softplus":
        return torch.sigmoid(t) * torch.sigmoid(-t)
    if kind == "exp":
        return torch.exp(t)
    if kind == "pseudo-huber":
        return (1.0 + t * t) ** -1.5
    if kind == "power":
        return exponent * (exponent - 1.0) * _power(t, exponent - 2.0)
    return 1.0 / (t * (1.0 - t)).clamp_min(_NEXT_TO_END)


def _log(t: Tensor) -> Tensor:
    """At zero, where bounds may hold x, the slope that stands for minus infinity."""
    return torch.where(t > 0.0, torch.log(torch.where(t > 0.0, t, 1.0)), -_END_SLOPE)


def _power(t: Tensor, exponent: float) -> Tensor:
    """|t|^exponent. A zero stays away from the power, whose derivative there may be 0 times infinity."""
    if exponent == 0.0:
        return torch.ones_like(t)
    apart = t != 0.0
    return torch.where(apart, torch.where(apart, t, 1.0).abs() ** exponent, 0.0)
