"""The layer of proxsuite (QPLayer): write `from altdiff.compat.proxsuite import QPFunction` instead of
`from proxsuite.torch.qplayer import QPFunction`.

minimise 1/2 x'Qx + p'x subject to A x = b, l <= G x <= u
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from altdiff.compat._arguments import check_pairs, read, tolerance_of
from altdiff.torch import QPLayer

__all__ = ["QPFunction"]

_DIMENSIONS = {"Q": "nn", "p": "n", "A": "en", "b": "e", "G": "mn", "l": "m", "u": "m"}
_INFINITE = 1e20  # what proxsuite takes for no limit


class QPFunction:
    """`zhats, lams, nus = QPFunction()(Q, p, A, b, G, l, u)`, always with a batch dimension.

    Each argument is a tensor with or without a leading batch dimension; an empty tensor is an absent block.
    Limits of 1e20 and more are infinite. The gradient of an argument without batch dimension is the sum over
    the batch, as in proxsuite.

    - `eps` loosens the tolerance where it is above 1e-8.
    - `maxIter`, `eps_backward`, `rho_backward`, `mu_backward` and `omp_parallel` tune proxsuite's algorithm, and
      change nothing here: gradients are exact, and batches run on several threads.
    - `structural_feasibility=False`, the closest feasible problem, is not available.
    - `on_failure` is that of `altdiff.torch.QPLayer`. proxsuite returns its last iterate instead.
    """

    def __init__(
        self,
        eps: float = 1e-9,
        maxIter: int = 1000,
        eps_backward: float = 1e-4,
        rho_backward: float = 1e-6,
        mu_backward: float = 1e-6,
        omp_parallel: bool = False,
        structural_feasibility: bool = True,
        *,
        on_failure: str = "raise",
    ) -> None:
        if not structural_feasibility:
            raise NotImplementedError(
                "structural_feasibility=False (the closest feasible problem) is not available: soften the "
                "constraints with slack variables, or pass on_failure='nan' and leave those instances out"
            )
        self.layer = QPLayer(on_failure, tolerance=tolerance_of(eps))

    def __call__(
        self,
        Q: torch.Tensor,
        p: torch.Tensor,
        A: torch.Tensor,
        b: torch.Tensor,
        G: torch.Tensor,
        l: torch.Tensor,  # noqa: E741 - the name that proxsuite uses
        u: torch.Tensor,
    ) -> Answer:
        """x (B, n), the multipliers of A x = b (B, p), and those of G x (B, m), positive at u, negative at l."""
        given = read({"Q": Q, "p": p, "A": A, "b": b, "G": G, "l": l, "u": u}, _DIMENSIONS)
        check_pairs(given, ("A", "b"), ("G", "l", "u"))
        Q_, p_, A_, b_, G_, l_, u_ = given.values.values()
        rows = limits = None
        if G_ is not None and l_ is not None and u_ is not None:
            rows = torch.cat([G_, -G_], dim=-2)
            limits = torch.cat(torch.broadcast_tensors(_upper(u_), _upper(-l_)), dim=-1)
        solution = self.layer.solve(Q_, p_, rows, limits, A_, b_)
        m = solution.z.shape[-1] // 2
        parts = (solution.x, solution.y, solution.z[..., :m] - solution.z[..., m:])
        return Answer(*((part[None] if given.unbatched else part).to(Q.device) for part in parts))


class Answer(NamedTuple):
    """What a call returns, a tuple as in proxsuite."""

    zhats: torch.Tensor
    lams: torch.Tensor
    nus: torch.Tensor


def _upper(limits: torch.Tensor) -> torch.Tensor:
    return torch.where(limits >= _INFINITE, torch.inf, limits)
