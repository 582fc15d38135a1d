"""`QPLayer` and `solve_qp`: a quadratic program as a torch layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from altdiff._layer import POLICIES
from altdiff._settings import native_settings
from altdiff.torch._function import Call, call_outputs, call_solve
from altdiff.torch._graph import in_graph
from altdiff.torch._operators import encode

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from altdiff._settings import Settings
    from altdiff.torch._tensors import Argument


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution as tensors; x, y, z, z_box and objective are differentiable.

    Stationarity reads P x + q + A'y + G'z + z_box = 0. In a batch every field has the batch's leading
    dimensions.
    """

    x: torch.Tensor  # the minimiser (..., n)
    y: torch.Tensor  # multipliers of A x = b (..., p)
    z: torch.Tensor  # multipliers of G x <= h, not negative (..., m)
    z_box: torch.Tensor  # multipliers of the bounds, positive at ub, negative at lb (..., n)
    objective: torch.Tensor  # 1/2 x'Px + q'x; differentiable even where x is not unique
    status: torch.Tensor  # the integers of altdiff.Status
    iterations: torch.Tensor  # rounds of the engine
    primal_residual: torch.Tensor  # relative, as docs/math.md defines it
    dual_residual: torch.Tensor  # relative
    duality_gap: torch.Tensor  # relative
    degenerate: torch.Tensor  # a weak or redundant active row, or x not unique
    unique: torch.Tensor  # no other x has this objective
    margin: torch.Tensor  # min over the constraints of max(slack, multiplier), scaled


def solve_qp(
    P: Argument,
    q: Argument,
    G: Argument | None = None,
    h: Argument | None = None,
    A: Argument | None = None,
    b: Argument | None = None,
    lb: Argument | None = None,
    ub: Argument | None = None,
    on_failure: str = "raise",
    **settings: Unpack[Settings],
) -> Solution:
    """Minimises 1/2 x'Px + q'x subject to G x <= h, A x = b, lb <= x <= ub.

    Each argument is one instance's tensor, or has leading batch dimensions that broadcast; None or an empty
    tensor is an absent block. Arrays, and scipy.sparse matrices for P, G and A, are constants. The
    computation is in float64, the answer in the tensors' type. `on_failure` says what becomes of instances
    that are not solved: "raise" a SolveError, "nan" for values and gradients, or "zero" gradients and the
    last iterate.
    """
    check_policy(on_failure)
    if torch.compiler.is_compiling():
        return Solution(*in_graph(encode(on_failure, settings), (P, q, G, h, A, b, lb, ub)))
    call = Call(native_settings(settings), on_failure, settings)
    return Solution(*call_outputs(call, P, q, G, h, A, b, lb, ub))


class QPLayer(torch.nn.Module):
    """A quadratic program as a layer without parameters of its own: `x = layer(P, q, G, h, A, b, lb, ub)`.

    The arguments are those of `solve_qp`.
    """

    def __init__(self, on_failure: str = "raise", **settings: Unpack[Settings]) -> None:
        super().__init__()
        check_policy(on_failure)
        self.on_failure = on_failure
        self.settings = settings
        self._checked: tuple[tuple[str, dict[str, Any]], Call] | None = None
        # What a compiled call passes: with dynamic shapes the numbers in `settings` would become symbols.
        self._text = encode(on_failure, settings)
        self._call()

    def forward(
        self,
        P: Argument,
        q: Argument,
        G: Argument | None = None,
        h: Argument | None = None,
        A: Argument | None = None,
        b: Argument | None = None,
        lb: Argument | None = None,
        ub: Argument | None = None,
    ) -> torch.Tensor:
        """The minimiser x."""
        if torch.compiler.is_compiling():
            return in_graph(self._text, (P, q, G, h, A, b, lb, ub))[0]
        x: torch.Tensor = call_solve(self._call(), P, q, G, h, A, b, lb, ub)[0]
        return x

    def solve(
        self,
        P: Argument,
        q: Argument,
        G: Argument | None = None,
        h: Argument | None = None,
        A: Argument | None = None,
        b: Argument | None = None,
        lb: Argument | None = None,
        ub: Argument | None = None,
    ) -> Solution:
        """The whole solution."""
        if torch.compiler.is_compiling():
            return Solution(*in_graph(self._text, (P, q, G, h, A, b, lb, ub)))
        return Solution(*call_outputs(self._call(), P, q, G, h, A, b, lb, ub))

    def _call(self) -> Call:
        """What every call passes, made again when somebody has changed the settings."""
        if self._checked is None or self._checked[0] != (self.on_failure, self.settings):
            options: dict[str, Any] = dict(self.settings)
            call = Call(native_settings(options), self.on_failure, options)
            self._checked = ((self.on_failure, options), call)
            self._text = encode(self.on_failure, options)
        return self._checked[1]

    def __getstate__(self) -> dict[str, Any]:
        """What pickle and deepcopy take: not the core's settings, which are made again."""
        return {**self.__dict__, "_checked": None}

    def extra_repr(self) -> str:
        """The settings, for `print(layer)`."""
        options: dict[str, Any] = {"on_failure": self.on_failure, **self.settings}
        return ", ".join(f"{name}={value!r}" for name, value in options.items())


def check_policy(on_failure: str) -> None:
    if on_failure not in POLICIES:
        raise ValueError(f"on_failure must be one of {', '.join(POLICIES)}, got {on_failure!r}")
