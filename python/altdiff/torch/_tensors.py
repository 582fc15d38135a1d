"""Between torch tensors and the NumPy arrays that the core works on."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from altdiff._arrays import MatrixLike

    # Tensors may have gradients; arrays and scipy.sparse matrices are constants.
    Argument: TypeAlias = torch.Tensor | MatrixLike


def to_numpy(name: str, tensor: torch.Tensor) -> NDArray[np.generic]:
    """The tensor as an array: float64 if it is of any floating type. May share memory; is not written to."""
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} is on {tensor.device}, but altdiff works on the CPU: pass {name}.cpu()")
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} is a sparse tensor: pass a scipy.sparse matrix, or {name}.to_dense()")
    plain = tensor.detach()
    array: NDArray[np.generic] = (
        (plain.double() if plain.is_floating_point() else plain).resolve_neg().numpy()
    )
    return array


def to_tensor(array: NDArray[np.generic], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor with memory of its own, so that changing it in place cannot change a later gradient."""
    return torch.tensor(array, dtype=dtype)


def result_type(tensors: Iterable[torch.Tensor]) -> torch.dtype:
    """The floating type of the answer, as torch promotes it: float64 with float32 gives float64."""
    floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
    return reduce(torch.promote_types, floating) if floating else torch.get_default_dtype()
