"""`QPLayer` and `solve_qp`: a quadratic program as a torch layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._layer import Solved, check_policy
from altdiff._settings import native_settings
from altdiff.torch._dynamo import hidden
from altdiff.torch._function import Call, all_outputs, call_outputs, call_solve, start_of
from altdiff.torch._graph import in_graph
from altdiff.torch._module import Layer
from altdiff.torch._operators import encode
from altdiff.torch._remembered import Remembered

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

    def __copy__(self) -> Solution:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """What pickle and deepcopy take: the numbers without their history, which torch keeps to itself."""
        return Solution, tuple(getattr(self, name).detach() for name in self.__dataclass_fields__)


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
    initial: Any = None,
    **settings: Unpack[Settings],
) -> Solution:
    """Minimises 1/2 x'Px + q'x subject to G x <= h, A x = b, lb <= x <= ub.

    Each argument is one instance's tensor, or has leading batch dimensions that broadcast; None or an empty
    tensor is an absent block. Arrays, and scipy.sparse matrices for P, G and A, are constants; P, G and A may
    also be sparse tensors, or `Sparse`. The computation is in float64, the answer in the
    tensors' type, or without tensors in that of the arrays.

    `on_failure` says what becomes of instances that are not solved: "raise" a SolveError, "nan" for values
    and gradients, or "zero" gradients and the last iterate. `initial` is an earlier solution to start from,
    for speed: it does not change the answer.
    """
    check_policy(on_failure)
    if torch.compiler.is_compiling():
        return Solution(*in_graph(encode(on_failure, settings), (P, q, G, h, A, b, lb, ub)))
    call = Call(native_settings(settings), on_failure, settings, start=start_of(initial))
    return Solution(*call_outputs(call, P, q, G, h, A, b, lb, ub))


class QPLayer(Layer):
    """A quadratic program as a layer without parameters of its own: `x = layer(P, q, G, h, A, b, lb, ub)`.

    The arguments are those of `solve_qp`. With `warm_start=True` the layer remembers the solution of each
    `index` (the instances' places in a dataset), and begins there when the index comes again: in at most
    `warm_start_bytes`, and as a part of `state_dict`.
    """

    def __init__(
        self,
        on_failure: str = "raise",
        warm_start: bool = False,
        warm_start_bytes: int = 2**28,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(on_failure, settings)
        self.remembered = Remembered(warm_start_bytes) if warm_start else None

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
        initial: Any = None,
        index: Any = None,
    ) -> torch.Tensor:
        """The minimiser x."""
        if torch.compiler.is_compiling() and index is None:
            return in_graph(self._text, (P, q, G, h, A, b, lb, ub))[0]
        call = self._call()
        x: torch.Tensor
        if initial is None and index is None:
            x = call_solve(call, P, q, G, h, A, b, lb, ub)[0]
            return x
        x = self._from_start(call, initial, index, (P, q, G, h, A, b, lb, ub))[0]
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
        initial: Any = None,
        index: Any = None,
    ) -> Solution:
        """The whole solution."""
        fields = (P, q, G, h, A, b, lb, ub)
        if torch.compiler.is_compiling() and index is None:
            return Solution(*in_graph(self._text, fields))
        call = self._call(len(DIFFERENTIABLE))
        return Solution(*all_outputs(self._from_start(call, initial, index, fields)))

    @hidden
    def _from_start(
        self, call: Call, initial: Any, index: Any, fields: tuple[Argument | None, ...]
    ) -> tuple[Any, ...]:
        """What `call_solve` returns, begun at an earlier solution; the next one begins at this."""
        start = start_of(initial)
        if index is not None:
            if self.remembered is None:
                raise ValueError("index needs a layer that remembers: QPLayer(warm_start=True)")
            start = start or partial(self.remembered.start, index)
        outputs: tuple[Any, ...] = call_solve(call._replace(start=start), *fields)
        if self.remembered is not None and index is not None and isinstance(outputs[-1], Solved):
            self.remembered.keep(index, outputs[-1])
        return outputs
