"""A tiny quadratic program, and a stack of them that share their shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Rng: TypeAlias = np.random.Generator

FIELDS = ("P", "q", "G", "h", "A", "b", "lb", "ub")
MATRICES = ("P", "G", "A")
POINT = ("x", "y", "z", "z_box")


class Shape(NamedTuple):
    """How many variables, inequalities and equalities."""

    n: int
    m: int
    p: int


@dataclass
class Program:
    """One program, or a stack with a leading dimension; absent bounds are infinite."""

    P: Array
    q: Array
    G: Array
    h: Array
    A: Array
    b: Array
    lb: Array
    ub: Array

    @property
    def shape(self) -> Shape:
        """Without the leading dimension of a stack."""
        return Shape(self.q.shape[-1], self.h.shape[-1], self.b.shape[-1])

    def __len__(self) -> int:
        """Programs in a stack."""
        return len(self.q)

    def __getitem__(self, index: Any) -> Program:
        """One program of a stack, or a smaller stack."""
        return Program(*(getattr(self, name)[index] for name in FIELDS))

    def __iter__(self) -> Iterator[Program]:
        """The programs of a stack."""
        return (self[i] for i in range(len(self)))

    def arguments(self) -> dict[str, Any]:
        """What solve_qp takes: rows and bounds that nobody has are left out."""
        given: dict[str, Any] = {"P": self.P, "q": self.q}
        if self.shape.m:
            given |= {"G": self.G, "h": self.h}
        if self.shape.p:
            given |= {"A": self.A, "b": self.b}
        if (self.lb > -np.inf).any():
            given["lb"] = self.lb
        if (self.ub < np.inf).any():
            given["ub"] = self.ub
        return given


def stack(programs: Iterable[Program]) -> Program:
    """Programs of one shape in one."""
    listed = list(programs)
    return Program(*(np.stack([getattr(one, part.name) for one in listed]) for part in fields(Program)))


def in_csc(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same arguments with sparse matrices."""
    return {name: sp.csc_matrix(value) if name in MATRICES else value for name, value in arguments.items()}


def dense(value: Any) -> Array:
    """An array, whatever it was."""
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def in_numpy(program: Program) -> str:
    """The program as code that makes it; every digit counts."""
    with np.printoptions(floatmode="unique", threshold=10**6, linewidth=100):
        parts = [f"{name} = {_literal(value)}" for name, value in program.arguments().items()]
    return "\n".join(["from numpy import array, float32, inf", *parts])


def _literal(value: Array) -> str:
    text = np.array2string(value, separator=", ", floatmode="unique", threshold=10**6, max_line_width=100)
    return f"array({text}{', dtype=float32' if value.dtype == np.float32 else ''})"
