"""Arguments in the order of other libraries, and the gradients of a loss."""

from __future__ import annotations

from typing import Any

import torch

from helpers.problems import known_problem


def one_sided(seed: int, batch: int = 0, batched: str = "Q p G h A b") -> list[Any]:
    """Q, p, G, h, A, b with gradients, around a strictly complementary solution; some of them batched."""
    data = known_problem(seed, n=5, m=4, p=2, bounds=False).data
    names = dict(zip("QpGhAb", "PqGhAb", strict=True))
    values = [torch.tensor(data[ours]) for ours in names.values()]
    generator = torch.Generator().manual_seed(seed)
    for i, name in enumerate(names):
        if batch and name in batched.split():
            noise = torch.randn(batch, *values[i].shape, generator=generator, dtype=torch.float64)
            values[i] = values[i] + (0.02 * noise if name != "Q" else 0.01 * noise @ noise.mT)
    return [value.requires_grad_() for value in values]


def two_sided(seed: int, batch: int = 0, batched: str = "Q p A b G u l") -> list[Any]:
    """Q, p, A, b, G, l, u: some rows at u, some at l, some without a lower limit."""
    Q, p, G, h, A, b = one_sided(seed, batch, batched.replace("u", "h"))
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    far = torch.full_like(h, 5.0)
    far[..., 2] = 1e20
    G, h = G.detach() * sign[:, None], h.detach()
    u, low = torch.where(sign > 0, h, far - h), torch.where(sign > 0, h - far, -h)
    return [v.detach().requires_grad_() for v in (Q, p, A, b, G, low, u)]


def gradients(outputs: Any, arguments: list[Any]) -> list[Any]:
    """Of a loss in which every entry of every output has its own weight."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum((o * torch.linspace(0.5, 1.5, o[0].numel(), dtype=o.dtype)).sum() for o in outputs)
    return list(torch.autograd.grad(loss, arguments, allow_unused=True))
