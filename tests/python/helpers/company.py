"""One program handed over in many ways: alone, in batches, shared or broadcast arrays, sparse, in torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import altdiff
import altdiff.torch
import numpy as np
import torch

from helpers.problems import FIELDS, POINT, Array, Data, as_sparse, dense

MATRICES = ("P", "G", "A")
SIZES = (2, 5, 64)


@dataclass(frozen=True)
class Answer:
    """What came back for the program, and the gradients for the cotangents."""

    status: int
    unique: bool
    degenerate: bool
    point: dict[str, Array]
    gradient: dict[str, Array]


def of_numpy(data: Data, bars: dict[str, Array], slot: int | None = None, shared: bool = False) -> Answer:
    """`slot`: where the program is in a batch; the cotangents of others are zero, for what is shared gets
    the gradients of all.
    """
    s = altdiff.solve_qp(**data)
    full = bars if slot is None else {name: _at(bars[name], getattr(s, name), slot) for name in POINT}
    g = s.vjp(*(full[name] for name in POINT))
    own: Any = ... if slot is None else slot
    gradient = {}
    for name in FIELDS:
        value = getattr(g, name)
        if value is None:
            continue
        whole = slot is None or (shared and name in MATRICES)
        gradient[name] = dense(value) if whole else dense(value[own])
    point = {name: np.asarray(getattr(s, name)[own]) for name in POINT}
    status, unique, degenerate = (np.asarray(v)[own].item() for v in (s.status, s.unique, s.degenerate))
    return Answer(status, unique, degenerate, point, gradient)


def _at(bar: Array, like: Array, slot: int) -> Array:
    out = np.zeros(like.shape)
    out[slot] = bar
    return out


def of_torch(data: Data, bars: dict[str, Array]) -> Answer:
    """Alone, through the layer's function."""
    given = {name: torch.tensor(value, requires_grad=True) for name, value in data.items()}
    arguments: dict[str, Any] = {**given, "on_failure": "nan"}
    s = altdiff.torch.solve_qp(**arguments)
    loss = sum((getattr(s, name) * torch.tensor(bars[name])).sum() for name in POINT)
    if int(s.status) == altdiff.Status.SOLVED:
        loss.backward()
    gradient = {name: value.grad.numpy() for name, value in given.items() if value.grad is not None}
    point = {name: getattr(s, name).detach().numpy() for name in POINT}
    return Answer(int(s.status), bool(s.unique), bool(s.degenerate), point, gradient)


def ways(data: Data, other: Data, bars: dict[str, Array]) -> Iterator[tuple[str, Answer]]:
    """The answer of every way. `other` is a program of the same shape, which keeps it company."""
    yield "sparse", of_numpy(as_sparse(data), bars)
    yield "torch", of_torch(data, bars)
    for size in SIZES:
        slot = size // 2
        rows = [data if i == slot else other for i in range(size)]
        own = {name: np.stack([row[name] for row in rows]) for name in data}
        shared = {name: data[name] if name in MATRICES else own[name] for name in data}
        repeated = {name: np.broadcast_to(data[name], (size, *data[name].shape)) for name in data}
        yield f"batch of {size}", of_numpy(own, bars, slot)
        yield f"shared by {size}", of_numpy(shared, bars, slot, shared=True)
        yield f"broadcast to {size}", of_numpy(repeated, bars, slot)
        yield f"sparse, shared by {size}", of_numpy(as_sparse(shared), bars, slot, shared=True)
