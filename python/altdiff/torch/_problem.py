"""A dense batch whose fields are tensors: what the NumPy problem is, without a detour by NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from altdiff._arrays import is_sparse
from altdiff._fields import FIELDS
from altdiff._layout import make_layout
from altdiff._problem import Problem, make_problem
from altdiff.torch._tensors import as_double, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import torch
    from numpy.typing import NDArray

    from altdiff.torch._tensors import Argument

_DENSE = (True,) * len(FIELDS)


@dataclass(frozen=True)
class TensorProblem(Problem):
    """The fields as float64 tensors, which stay where they are."""

    tensors: dict[str, torch.Tensor | None]

    def addresses(self) -> tuple[int, ...]:
        """Where the fields lie in memory; zero where absent."""
        return tuple(0 if tensor is None else tensor.data_ptr() for tensor in self.tensors.values())

    def invalid(self) -> NDArray[np.bool_]:
        """As for arrays: too rare to be fast."""
        arrays = {name: None if t is None else t.detach().numpy() for name, t in self.tensors.items()}
        return Problem(arrays, self.layout, sparse=False).invalid()


def problem_from(arguments: Mapping[str, Argument | None]) -> Problem:
    """The problem; sparse if a matrix is."""
    if any(is_sparse(value) for value in arguments.values()):
        arrays = {name: None if v is None else to_numpy(name, v) for name, v in arguments.items()}
        return make_problem(arrays)
    tensors = {name: None if v is None else as_double(name, v) for name, v in arguments.items()}
    layout = make_layout(tuple(None if t is None else t.shape for t in tensors.values()), _DENSE)
    for name, shape in layout.used.items():
        tensor = tensors[name]
        if tensor is None or shape == tensor.shape:
            continue
        tensors[name] = None if shape is None else tensor.detach().expand(shape).contiguous()
    return TensorProblem({}, layout, False, tensors)
