"""Between torch tensors and the NumPy arrays that the core works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from altdiff._arrays import real_array
from altdiff._stack import is_list_of_sparse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from altdiff._arrays import MatrixLike
    from altdiff.torch._sparse import Sparse

    # Tensors may have gradients; arrays and scipy.sparse matrices are constants.
    Argument: TypeAlias = torch.Tensor | Sparse | MatrixLike


_FLOAT64, _STRIDED = torch.float64, torch.strided
_BY_SIZE = {2: torch.float16, 4: torch.float32}  # types of arrays, by bytes


def as_double(name: str, value: Argument) -> torch.Tensor:
    """The argument as a float64 tensor in C order, without a history. May share memory; is not written to."""
    if not isinstance(value, torch.Tensor):
        return torch.from_numpy(real_array(name, value).copy())
    if value.dtype is _FLOAT64 and value.is_cpu and value.layout is _STRIDED:
        if value.is_contiguous() and not value.is_neg():
            return value
        return value.detach().resolve_neg().contiguous()
    require_real_numbers(name, value)
    return value.detach().resolve_neg().double().contiguous()


def require_real_numbers(name: str, value: torch.Tensor) -> None:
    """An error that names the argument, unless it is a dense tensor of real numbers in main memory."""
    if not value.is_cpu:
        raise ValueError(f"{name} is on {value.device}, but altdiff works on the CPU: pass {name}.cpu()")
    if value.layout is not torch.strided:
        raise TypeError(f"{name} is a sparse tensor, and only P, G and A may be: pass {name}.to_dense()")
    if value.is_complex() or value.dtype is torch.bool:
        dtype = str(value.dtype).removeprefix("torch.")
        raise TypeError(f"{name} must be real numbers, got dtype {dtype}")


def with_history_in_double(value: torch.Tensor) -> torch.Tensor:
    """The tensor in float64, differentiably. Of other types than floating ones `as_double` takes care."""
    return value.double() if value.is_floating_point() else value


def to_tensor(array: NDArray[np.generic], dtype: torch.dtype | None = None) -> torch.Tensor:
    """The tensor in an array's memory, which is nobody else's, or a copy in another type."""
    tensor = torch.from_numpy(array)
    return tensor if dtype is None or dtype is tensor.dtype else tensor.to(dtype)


def result_type(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    """The floating type of the answer, as torch promotes it: float64 with float32 gives float64."""
    kind = _promoted(tensors)
    return torch.get_default_dtype() if kind is None else kind


def answer_type(arguments: Iterable[Any]) -> torch.dtype:
    """The same of a call with other arguments too: arrays count where no tensor does, never numbers.

    So constraints that are float64 arrays, as NumPy makes them, do not turn a float32 network into float64.
    """
    given = list(arguments)
    kind = _promoted([value for value in given if isinstance(value, torch.Tensor)])
    if kind is not None:
        return kind
    return result_type([torch.empty(0, dtype=_BY_SIZE.get(size, _FLOAT64)) for size in _float_sizes(given)])


def _promoted(tensors: Iterable[torch.Tensor]) -> torch.dtype | None:
    kind = None
    for tensor in tensors:
        if tensor.dtype is kind or not tensor.is_floating_point():
            continue
        kind = tensor.dtype if kind is None else torch.promote_types(kind, tensor.dtype)
    return kind


def _float_sizes(values: Iterable[Any]) -> list[int]:
    """The bytes of a number in each floating array, or sparse matrix; lists of these are looked into."""
    matrices = [value[0] if is_list_of_sparse(value) else value for value in values]
    arrays = [value for value in matrices if not isinstance(value, np.generic)]
    types = [getattr(value, "dtype", None) for value in arrays]
    return [kind.itemsize for kind in types if isinstance(kind, np.dtype) and kind.kind == "f"]
