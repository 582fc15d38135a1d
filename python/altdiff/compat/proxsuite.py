"""The layer of proxsuite (QPLayer): write `from altdiff.compat.proxsuite import QPFunction` instead of
`from proxsuite.torch.qplayer import QPFunction`.

minimise 1/2 x'Qx + p'x subject to A x = b, l <= G x <= u
"""

from __future__ import annotations

import torch

from altdiff.compat._arguments import Given, check_pairs, read, tolerance_of
from altdiff.compat._closest import Program, solve_closest
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
    - `maxIter`, `eps_backward`, `rho_backward`, `mu_backward` and `omp_parallel` tune proxsuite's algorithm,
      and change nothing here: gradients are exact, and batches run on several threads.
    - `structural_feasibility=False` solves the closest feasible problem, A x = b + s_e and
      l <= G x - s_i <= u with the smallest sum of squares, and returns (zhats, lams, nus, s_e, s_i). Where a
      limit had to move, the multipliers are not unique: these are the least, proxsuite's grow with its
      iterations.
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
        self.structural_feasibility = structural_feasibility
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
    ) -> tuple[torch.Tensor, ...]:
        """x (B, n), the multipliers of A x = b (B, p), and those of G x (B, m), positive at u, negative at l.

        With `structural_feasibility=False` also s_e (B, p) and s_i (B, m).
        """
        given = read({"Q": Q, "p": p, "A": A, "b": b, "G": G, "l": l, "u": u}, _DIMENSIONS)
        check_pairs(given, ("A", "b"), ("G", "l", "u"))
        program = _one_sided(given)
        m = program.h.shape[-1] // 2
        if self.structural_feasibility:
            solution = self.layer.solve(*program)
            parts = [solution.x, solution.y, _difference(solution.z, m)]
        else:
            x, y, z, s_e, s_i = solve_closest(self.layer, program)
            parts = [x, y, _difference(z, m), s_e, _difference(s_i, m)]
        return tuple(part.to(Q.device) for part in parts)


def _one_sided(given: Given) -> Program:
    """As altdiff takes it: the rows at u, then those at l; always with a batch dimension."""
    Q, p, A, b, G, l, u = given.values.values()  # noqa: E741
    assert Q is not None
    assert p is not None
    n = Q.shape[-1]
    none, no_rows = p.new_zeros(0), p.new_zeros(0, n)
    rows, limits = no_rows, none
    if G is not None and l is not None and u is not None:
        shape = torch.broadcast_shapes(l.shape, u.shape)  # type: ignore[no-untyped-call]
        rows = torch.cat([G, -G], dim=-2)
        limits = torch.cat([_upper(u).expand(shape), _upper(-l).expand(shape)], dim=-1)
    return Program(
        Q,
        p[None] if given.unbatched else p,
        rows,
        limits,
        no_rows if A is None else A,
        none if b is None else b,
    )


def _difference(values: torch.Tensor, m: int) -> torch.Tensor:
    return values[..., :m] - values[..., m:]


def _upper(limits: torch.Tensor) -> torch.Tensor:
    return torch.where(limits >= _INFINITE, torch.inf, limits)
