"""The closest feasible problem of one that may be infeasible: limits moved as little as possible.

    (s_e, s_i) = argmin |s|^2    subject to  A x = b + s_e,  G x <= h + s_i  for some x
    x          = argmin 1/2 x'Px + q'x  subject to  A x = b + s_e,  G x <= h + s_i

Both are quadratic programs, so that the derivative of x is that of two layers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from altdiff import SolveError, Status
from altdiff.torch import QPLayer


class Program(NamedTuple):
    """P, q, G, h, A, b; those with a batch dimension say so by their number of dimensions."""

    P: torch.Tensor
    q: torch.Tensor
    G: torch.Tensor
    h: torch.Tensor
    A: torch.Tensor
    b: torch.Tensor

    def only(self, instances: torch.Tensor) -> Program:
        """The program with these instances; what all share stays shared."""
        fields = zip(self, (2, 1, 2, 1, 2, 1), strict=True)
        return Program(*(v if v.ndim == dim or v.shape[0] == 1 else v[instances] for v, dim in fields))


class Closest(NamedTuple):
    """The solution, and how far the limits were moved: zero where the program is feasible."""

    x: torch.Tensor
    y: torch.Tensor
    z: torch.Tensor
    s_e: torch.Tensor
    s_i: torch.Tensor


def solve_closest(layer: QPLayer, program: Program) -> Closest:
    """Every instance of a batch in its closest feasible form; other failures follow the layer's policy."""
    policy = layer.on_failure
    answer = QPLayer("nan" if policy == "raise" else policy, **layer.settings).solve(*program)
    # From here on, infeasible instances are as good as solved.
    infeasible = answer.status == Status.PRIMAL_INFEASIBLE
    status = answer.status.masked_fill(infeasible, Status.SOLVED)
    if policy == "raise" and (status != Status.SOLVED).any():
        raise SolveError(status.numpy())
    s_e, s_i = torch.zeros_like(answer.y), torch.zeros_like(answer.z)
    parts = Closest(answer.x, answer.y, answer.z, s_e, s_i)
    if not infeasible.any():
        return parts
    where = infeasible.nonzero()[:, 0]
    moved = _move_limits(layer, program.only(where))
    return Closest(
        *(part.index_copy(0, where, new.to(part.dtype)) for part, new in zip(parts, moved, strict=True))
    )


def _move_limits(layer: QPLayer, program: Program) -> Closest:
    P, q, G, h, A, b = program
    n, p, m = A.shape[-1], A.shape[-2], G.shape[-2]
    distance = torch.diag(torch.tensor([0.0] * n + [1.0] * (p + m)).to(q))
    equalities = _beside(A, -torch.eye(p, p + m).to(q))
    rows = _beside(G, -torch.eye(p + m).to(q)[p:])
    s = layer(distance, torch.zeros(n + p + m).to(q), rows, h, equalities, b)[..., n:]
    s_e, s_i = s[..., :p], torch.where(torch.isfinite(h), s[..., p:], 0.0)
    solution = layer.solve(P, q, G, h + s_i, A, b + s_e)
    lead = solution.x.shape[:-1]
    return Closest(solution.x, solution.y, solution.z, s_e.expand(*lead, p), s_i.expand(*lead, m))


def _beside(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.cat([left, right.expand(*left.shape[:-1], right.shape[-1])], dim=-1)
