"""What the layers of other libraries share: one leading batch dimension, empty tensors for absent blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARED_GRADIENTS = ("mean", "sum")
TOLERANCE = 1e-8  # what a solve promises; a finer one would only refuse good answers


class Given(NamedTuple):
    """The arguments of a call by name, on the CPU; absent blocks are None."""

    values: dict[str, torch.Tensor | None]
    shared: frozenset[str]  # names without a batch dimension
    batch: int  # instances; 1 if nothing has a batch dimension

    @property
    def unbatched(self) -> bool:
        """No argument has a batch dimension."""
        return all(value is None or name in self.shared for name, value in self.values.items())


def read(arguments: Mapping[str, Any], dimensions: Mapping[str, str]) -> Given:
    """Checks shapes against `dimensions`, such as {"G": "mn"}, by the names that the caller knows."""
    values: dict[str, torch.Tensor | None] = {}
    sizes: dict[str, tuple[int, str]] = {}  # letter -> size, and who said so
    for name, letters in dimensions.items():
        value = arguments[name]
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")
        if letters not in ("n", "nn") and _is_empty(value, len(letters)):
            values[name] = None
            continue
        _check(name, value, letters, sizes)
        values[name] = value.cpu()
    shared = frozenset(
        name for name, v in values.items() if v is not None and v.ndim == len(dimensions[name])
    )
    batched = [v.shape[0] for name, v in values.items() if v is not None and name not in shared]
    # One instance is broadcast to the others, as everywhere.
    batch = next((size for size in batched if size != 1), 1)
    return Given(values, shared, batch)


def _is_empty(value: torch.Tensor, ndim: int) -> bool:
    """Without rows, or `torch.Tensor()`; a batch of no instances is something else."""
    return value.numel() == 0 and (value.ndim < ndim or 0 in value.shape[-ndim:])


def _check(name: str, value: torch.Tensor, letters: str, sizes: dict[str, tuple[int, str]]) -> None:
    shape = tuple(value.shape)
    if value.ndim not in (len(letters), len(letters) + 1):
        raise ValueError(f"{name} must have shape {_written(letters)}, got {shape}")
    if value.ndim > len(letters):
        letters = "B" + letters
    for letter, size in zip(letters, shape, strict=True):
        known, source = sizes.setdefault(letter, (size, name))
        if letter == "B" and known == 1:
            sizes["B"] = (size, name)
        elif size != known and not (letter == "B" and size == 1):
            raise ValueError(
                f"{name} must have shape {_written(letters.removeprefix('B'))}, got {shape}: "
                f"{source} says that {letter} = {known}"
            )


def _written(letters: str) -> str:
    names = ", ".join(letters)
    return f"({names}{',' if len(letters) == 1 else ''}) or (B, {names})"


def check_pairs(given: Given, *pairs: tuple[str, ...]) -> None:
    """Blocks come together or not at all."""
    for names in pairs:
        there = [name for name in names if given.values[name] is not None]
        if there and len(there) < len(names):
            missing = next(name for name in names if given.values[name] is None)
            raise ValueError(f"{missing} is empty, but {there[0]} is given")


class _Scaled(torch.autograd.Function):
    """The same tensor; its gradient is scaled."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *bars: torch.Tensor) -> tuple[torch.Tensor, None]:
        return bars[0] * ctx.factor, None


def with_shared_gradient(given: Given, kind: str) -> dict[str, torch.Tensor | None]:
    """The values; with "mean", the gradients of shared ones will be the mean over the batch."""
    if kind == "sum" or given.batch <= 1:
        return given.values
    return {
        name: _Scaled.apply(v, 1.0 / given.batch)  # type: ignore[no-untyped-call]
        if v is not None and name in given.shared and v.requires_grad
        else v
        for name, v in given.values.items()
    }


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value`, which must be one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)


def tolerance_of(eps: float) -> float:
    """Their tolerance as ours, where it is looser: answers come at machine precision anyway."""
    return max(float(eps), TOLERANCE)
