"""A dense batch whose fields are tensors: what the NumPy problem is, without a detour by NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from altdiff._arrays import is_sparse
from altdiff._fields import FIELDS
from altdiff._layout import make_layout
from altdiff._native import core
from altdiff._problem import Index, Problem, make_problem
from altdiff._stack import is_list_of_sparse
from altdiff.torch._sparse import problem_arguments
from altdiff.torch._tensors import as_double

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from altdiff._binding import Blocks
    from altdiff._layer import Solved
    from altdiff._layout import Layout, Shape
    from altdiff.torch._sparse import Patterns
    from altdiff.torch._tensors import Argument

MEMORY_GONE = (
    "a tensor that the forward pass read was resized before the backward pass, and its memory is gone"
)
# Types that hold nothing but a tensor, and torch's functions in C. Versions of torch that offer none get an
# exchange that leaves everything to Python.
PLAIN = (torch.Tensor, torch.nn.Parameter)
FUNCTIONS: Any = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
_DENSE = (True,) * len(FIELDS)
_NO_ARRAYS: dict[str, Any] = {}


@dataclass(eq=False)
class TensorProblem(Problem):
    """The fields as float64 tensors, which stay where they are."""

    tensors: Sequence[torch.Tensor | None]
    # What the core reads: `tensor.data = other` would otherwise free it.
    memory: list[torch.UntypedStorage]

    def addresses(self) -> tuple[int, ...]:
        """Where the fields lie in memory; zero where absent."""
        return tuple([0 if tensor is None else tensor.data_ptr() for tensor in self.tensors])

    def invalid(self) -> NDArray[np.bool_]:
        """As for arrays: too rare to be fast."""
        return self._of_arrays().invalid()

    def instance(self, index: Index) -> Blocks:
        """The same."""
        return self._of_arrays().instance(index)

    def _of_arrays(self) -> Problem:
        tensors = zip(FIELDS, self.tensors, strict=True)
        arrays = {name: None if t is None else t.detach().numpy() for name, t in tensors}
        return Problem(arrays, self.layout, sparse=False)


def problem_from(fields: tuple[Argument | None, ...], patterns: Patterns | None = None) -> Problem:
    """The problem with these fields; sparse if a constant is, or if there are patterns."""
    if patterns is not None or any(is_sparse(value) or is_list_of_sparse(value) for value in fields):
        return make_problem(problem_arguments(fields, patterns))
    values = [None if v is None else as_double(name, v) for name, v in zip(FIELDS, fields, strict=True)]
    layout = _describe(tuple([None if tensor is None else tensor.shape for tensor in values]))
    return tensor_problem(layout, values if layout.plain else _adapted(values, layout))


def tensor_problem(layout: Layout, tensors: Sequence[torch.Tensor | None]) -> TensorProblem:
    """The problem with these float64 tensors in C order, of which the layout is."""
    return TensorProblem(_NO_ARRAYS, layout, False, tensors, memory_of(tensors))


def memory_of(tensors: Sequence[torch.Tensor | None]) -> list[torch.UntypedStorage]:
    """What holds the tensors' numbers, which lives as long as somebody has it."""
    return [tensor.untyped_storage() for tensor in tensors if tensor is not None]


def require_memory(solved: Solved) -> None:
    """RuntimeError if somebody has given away the memory that the core reads."""
    problem = solved.batch.problem
    if not isinstance(problem, TensorProblem):
        return
    tensors = [tensor for tensor in problem.tensors if tensor is not None]
    if any(t.numel() > 0 and block.nbytes() == 0 for t, block in zip(tensors, problem.memory, strict=True)):
        raise RuntimeError(MEMORY_GONE)


def constant(solved: Solved, name: str) -> torch.Tensor | None:
    """A dense field that the user did not pass as a tensor."""
    problem = solved.batch.problem
    if isinstance(problem, TensorProblem):
        return problem.tensors[FIELDS.index(name)]
    array = problem.values[name]
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else None


def _describe(shapes: tuple[Shape | None, ...]) -> Layout:
    return make_layout(shapes, _DENSE)


def _adapted(values: Sequence[torch.Tensor | None], layout: Layout) -> list[torch.Tensor | None]:
    """Scalar bounds as vectors; what holds no entry is absent."""
    return [
        None if tensor is None or shape is None else tensor.detach().expand(shape).contiguous()
        for tensor, shape in zip(values, layout.used.values(), strict=True)
    ]


exchange = core.TensorExchange(FUNCTIONS, PLAIN, _describe)
