"""`ConvexLayer` and `solve_convex`: a smooth convex program as a torch layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from altdiff._dense import COTANGENTS as DIFFERENTIABLE
from altdiff._fields import POINT
from altdiff._layer import Solved, check_policy
from altdiff._settings import native_settings
from altdiff.torch._convex_call import ConvexCall
from altdiff.torch._convex_function import call_convex
from altdiff.torch._convex_objective import Options, bind, check_objective, parameters_of
from altdiff.torch._dynamo import hidden
from altdiff.torch._function import Call, all_outputs
from altdiff.torch._module import Layer
from altdiff.torch._qp import Solution
from altdiff.torch._tensors import as_double

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from altdiff._convex_batch import Start
    from altdiff._settings import Settings
    from altdiff.torch._tensors import Argument


class ConvexLayer(Layer):
    """Minimises a smooth convex f(x; theta) subject to G x <= h, A x = b, lb <= x <= ub.

    `objective` is one of

    - a built-in objective with its numbers, `Linear(q) + Separable("entropy")`; then theta is empty;
    - its class, `ConvexLayer(Quadratic)`, or `builder(make)`: theta is what they are made from;
    - a function of x and theta, of one instance, that returns a scalar tensor, or a module, whose parameters
      get gradients too;
    - `elementwise(phi, M)`, the sum of phi over the entries of M x.

    `ranks`, `n` and `domain` describe a function: how many dimensions each theta has for one instance (more
    are batch dimensions; by default there are none), how many variables there are where no constraint tells,
    and an open interval outside which f is not defined. `warm_start=True` begins each call at the solution of
    the one before, if that had the same shape. `on_failure` and settings are those of `QPLayer`.
    """

    def __init__(
        self,
        objective: Any,
        on_failure: str = "raise",
        *,
        ranks: Sequence[int] | None = None,
        n: int | None = None,
        domain: tuple[float, float] | None = None,
        warm_start: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(on_failure, settings)
        self.objective = objective
        self.warm_start = warm_start
        self._options = make_options(ranks, n, domain)
        self._last: Start | None = None
        check_objective(objective, self._options)
        for name, parameter in parameters_of(objective).items():
            self.register_parameter(name, parameter)

    @hidden
    def forward(
        self,
        *theta: Any,
        G: Argument | None = None,
        h: Argument | None = None,
        A: Argument | None = None,
        b: Argument | None = None,
        lb: Argument | None = None,
        ub: Argument | None = None,
        initial: Solution | torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The minimiser x. `initial` is a point, or an earlier solution, to start from."""
        # The messages are literals because torch would not show others.
        if torch.compiler.is_compiling():
            torch._dynamo.skip_frame("altdiff.torch leaves convex layers to Python: drop fullgraph=True")
        x: torch.Tensor = self._outputs(theta, (G, h, A, b, lb, ub), initial, 1)[0]
        return x

    @hidden
    def solve(
        self,
        *theta: Any,
        G: Argument | None = None,
        h: Argument | None = None,
        A: Argument | None = None,
        b: Argument | None = None,
        lb: Argument | None = None,
        ub: Argument | None = None,
        initial: Solution | torch.Tensor | None = None,
    ) -> Solution:
        """The whole solution."""
        if torch.compiler.is_compiling():
            torch._dynamo.skip_frame("altdiff.torch leaves convex layers to Python: drop fullgraph=True")
        outputs = self._outputs(theta, (G, h, A, b, lb, ub), initial, len(DIFFERENTIABLE))
        return Solution(*all_outputs(outputs))

    def _outputs(
        self, theta: tuple[Any, ...], fields: tuple[Any, ...], initial: Any, count: int
    ) -> tuple[Any, ...]:
        bound = bind(self.objective, theta, self._options)
        call = self._call(count)
        if initial is not None:
            return call_convex(ConvexCall(bound, call, _start(initial)), fields)
        outputs = call_convex(ConvexCall(bound, call, self._last, self.warm_start), fields)
        if self.warm_start and isinstance(outputs[-1], Solved):
            self._last = {name: outputs[-1].part(name) for name in POINT}
        return outputs

    def __getstate__(self) -> dict[str, Any]:
        """Without the last solution too."""
        return {**super().__getstate__(), "_last": None}

    def extra_repr(self) -> str:
        """Objective and settings, for `print(layer)`."""
        name = getattr(self.objective, "__name__", None) or repr(self.objective)
        shown = [] if isinstance(self.objective, torch.nn.Module) else [name]
        return ", ".join([*shown, super().extra_repr()])


@hidden
def solve_convex(
    objective: Any,
    *theta: Any,
    G: Argument | None = None,
    h: Argument | None = None,
    A: Argument | None = None,
    b: Argument | None = None,
    lb: Argument | None = None,
    ub: Argument | None = None,
    initial: Solution | torch.Tensor | None = None,
    on_failure: str = "raise",
    ranks: Sequence[int] | None = None,
    n: int | None = None,
    domain: tuple[float, float] | None = None,
    **settings: Unpack[Settings],
) -> Solution:
    """What `ConvexLayer(objective, ...).solve(*theta, ...)` returns."""
    if torch.compiler.is_compiling():
        torch._dynamo.skip_frame("altdiff.torch leaves convex layers to Python: drop fullgraph=True")
    check_policy(on_failure)
    options = make_options(ranks, n, domain)
    check_objective(objective, options)
    call = Call(native_settings(settings), on_failure, settings, len(DIFFERENTIABLE))
    start = None if initial is None else _start(initial)
    outputs = call_convex(ConvexCall(bind(objective, theta, options), call, start), (G, h, A, b, lb, ub))
    return Solution(*all_outputs(outputs))


def make_options(ranks: Sequence[int] | None, n: int | None, domain: tuple[float, float] | None) -> Options:
    """The options, checked."""
    if ranks is not None and not all(isinstance(rank, int) and rank >= 0 for rank in ranks):
        raise ValueError(f"ranks must be integers, not negative, one for each theta, got {ranks!r}")
    if n is not None and (not isinstance(n, int) or n < 1):
        raise ValueError(f"n must be a positive integer, got {n!r}")
    if domain is not None and not (len(domain) == 2 and float(domain[0]) < float(domain[1])):
        raise ValueError(f"domain must be an interval (low, high) with low < high, got {domain!r}")
    return Options(
        None if ranks is None else tuple(ranks),
        n,
        None if domain is None else (float(domain[0]), float(domain[1])),
    )


def _start(initial: Any) -> Start:
    """All parts of a solution, or x alone."""
    if isinstance(initial, Solution):
        return {name: as_double("initial", getattr(initial, name)).detach().numpy() for name in POINT}
    if not isinstance(initial, (torch.Tensor, np.ndarray)):
        raise TypeError(f"initial must be a Solution, or a tensor with x, got {type(initial).__name__}")
    return {"x": as_double("initial", initial).detach().numpy()}
