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


@dataclass(eq=False)
class TensorProblem(Problem):
    """The fields as float64 tensors, which stay where they are."""

    tensors: dict[str, torch.Tensor | None]

    def addresses(self) -> tuple[int, ...]:
        """Where the fields lie in memory; zero where absent."""
        return tuple([0 if tensor is None else tensor.data_ptr() for tensor in self.tensors.values()])

    def invalid(self) -> NDArray[np.bool_]:
        """As for arrays: too rare to be fast."""
        arrays = {name: None if t is None else t.detach().numpy() for name, t in self.tensors.items()}
        return Problem(arrays, self.layout, sparse=False).invalid()


def problem_from(
    names: tuple[str, ...], tensors: tuple[torch.Tensor, ...], constants: Mapping[str, Argument]
) -> Problem:
    """The problem with these tensors and constants; sparse if a constant is."""
    values: dict[str, Any] = dict.fromkeys(FIELDS)
    if any(is_sparse(value) for value in constants.values()):
        values.update(constants)
        values.update((name, as_double(name, t).detach().numpy()) for name, t in zip(names, tensors, strict=True))
        return make_problem(values)
    for name, tensor in (*zip(names, tensors, strict=True), *constants.items()):
        values[name] = as_double(name, tensor)
    layout = make_layout(tuple([None if t is None else t.shape for t in values.values()]), _DENSE)
    if not layout.plain:
        _adapt(values, layout)
    return TensorProblem({}, layout, False, values)


def _adapt(values: dict[str, Any], layout: Layout) -> None:
    """Scalar bounds as vectors; what holds no entry is absent."""
    for name, shape in layout.used.items():
        tensor = values[name]
        if shape is None:
            values[name] = None
        elif tensor.shape != shape:
            values[name] = tensor.detach().expand(shape).contiguous()
