"""qpth's layer: write `from altdiff.compat.qpth import QPFunction` instead of
`from qpth.qp import QPFunction`.

minimise 1/2 x'Qx + p'x subject to G x <= h, A x = b
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import torch

from altdiff.compat._arguments import (
    SHARED_GRADIENTS,
    check_choice,
    check_pairs,
    read,
    tolerance_of,
    with_shared_gradient,
)
from altdiff.torch import QPLayer

if TYPE_CHECKING:
    from typing import Any

__all__ = ["QPFunction", "QPSolvers"]

_DIMENSIONS = {"Q": "nn", "p": "n", "G": "mn", "h": "m", "A": "en", "b": "e"}


class QPSolvers(Enum):
    """The names of qpth's solvers; both mean altdiff's."""

    PDIPM_BATCHED = 1
    CVXPY = 2


class QPFunction:
    """`QPFunction(verbose=-1)(Q, p, G, h, A, b)`: the minimisers, always with a batch dimension.

    Each argument is a tensor with or without a leading batch dimension; an empty tensor is an absent block.

    - `eps` loosens the tolerance where it is above 1e-8; `verbose` above zero is altdiff's `verbose`.
    - `notImprovedLim`, `maxIter` and `solver` tune qpth's iteration, and change nothing here.
    - `check_Q_spd` refuses a Q that is not positive definite; without it a semidefinite Q is solved too.
    - `shared_gradient`: "mean", as in qpth, divides the gradient of an argument without batch dimension by
      the number of instances; "sum" is the derivative of the loss.
    - `on_failure` is that of `altdiff.torch.QPLayer`. qpth returns its last iterate instead.
    """

    def __init__(
        self,
        eps: float = 1e-12,
        verbose: int = 0,
        notImprovedLim: int = 3,
        maxIter: int = 20,
        solver: Any = QPSolvers.PDIPM_BATCHED,
        check_Q_spd: bool = True,
        *,
        shared_gradient: str = "mean",
        on_failure: str = "raise",
    ) -> None:
        # By name, so that qpth's own enumeration may be passed.
        check_choice("solver", getattr(solver, "name", solver), tuple(QPSolvers.__members__))
        self.check_Q_spd = check_Q_spd
        self.shared_gradient = check_choice("shared_gradient", shared_gradient, SHARED_GRADIENTS)
        self.layer = QPLayer(on_failure, tolerance=tolerance_of(eps), verbose=verbose > 0)

    def __call__(
        self,
        Q: torch.Tensor,
        p: torch.Tensor,
        G: torch.Tensor,
        h: torch.Tensor,
        A: torch.Tensor,
        b: torch.Tensor,
    ) -> torch.Tensor:
        """The minimisers: (B, n), with B = 1 if no argument has a batch dimension."""
        given = read({"Q": Q, "p": p, "G": G, "h": h, "A": A, "b": b}, _DIMENSIONS)
        check_pairs(given, ("G", "h"), ("A", "b"))
        if self.check_Q_spd:
            _check_positive_definite(Q)
        x: torch.Tensor = self.layer(*with_shared_gradient(given, self.shared_gradient).values())
        return (x[None] if given.unbatched else x).to(Q.device)


def _check_positive_definite(Q: torch.Tensor) -> None:
    _, failed = torch.linalg.cholesky_ex(Q.detach())
    if failed.any():
        raise RuntimeError("Q is not SPD.")
