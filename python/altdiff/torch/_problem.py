"""A dense batch whose fields are tensors: what the NumPy problem is, without a detour by NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from altdiff._arrays import is_sparse
from altdiff._fields import FIELDS
from altdiff._layout import make_layout
from altdiff._problem import Problem, make_problem
from altdiff.torch._tensors import as_double

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from altdiff._layout import Layout
    from altdiff.torch._tensors import Argument

_DENSE = (True,) * len(FIELDS)
_NO_ARRAYS: dict[str, Any] = {}
PLACES = {name: place for place, name in enumerate(FIELDS)}


@dataclass(eq=False)
class TensorProblem(Problem):
    """The fields as float64 tensors, which stay where they are."""

    tensors: list[torch.Tensor | None]

    def addresses(self) -> tuple[int, ...]:
        """Where the fields lie in memory; zero where absent."""
        return tuple([0 if tensor is None else tensor.data_ptr() for tensor in self.tensors])

    def invalid(self) -> NDArray[np.bool_]:
        """As for arrays: too rare to be fast."""
        tensors = zip(FIELDS, self.tensors, strict=True)
        arrays = {name: None if t is None else t.detach().numpy() for name, t in tensors}
        return Problem(arrays, self.layout, sparse=False).invalid()


def problem_from(
    names: tuple[str, ...], tensors: tuple[torch.Tensor, ...], constants: Mapping[str, Argument]
) -> Problem:
    """The problem with these tensors and constants; sparse if a constant is."""
    if any(map(is_sparse, constants.values())):
        arrays = {name: as_double(name, t).detach().numpy() for name, t in zip(names, tensors, strict=True)}
        return make_problem({**constants, **arrays})
    values: list[torch.Tensor | None] = [None] * len(FIELDS)
    shapes: list[tuple[int, ...] | None] = [None] * len(FIELDS)
    for name, value in (*zip(names, tensors, strict=True), *constants.items()):
        place = PLACES[name]
        values[place] = tensor = as_double(name, value)
        shapes[place] = tensor.shape
    layout = make_layout(tuple(shapes), _DENSE)
    if not layout.plain:
        _adapt(values, layout)
    return TensorProblem(_NO_ARRAYS, layout, False, values)


def _adapt(values: list[torch.Tensor | None], layout: Layout) -> None:
    """Scalar bounds as vectors; what holds no entry is absent."""
    for place, shape in enumerate(layout.used.values()):
        tensor = values[place]
        if shape is None or tensor is None:
            values[place] = None
        elif tensor.shape != shape:
            values[place] = tensor.detach().expand(shape).contiguous()
