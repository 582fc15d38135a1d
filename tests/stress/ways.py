"""The ways in which a program can be handed over: alone or in company, dense or sparse.

An answer must not depend on the way, so every program goes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp

from tests.stress.programs import FIELDS, MATRICES, POINT, Array, Program, in_csc

COMPANY = 2  # instances that share the matrices of one
FLAGS = ("unique", "degenerate")
SOME = 5  # instances of a small batch


@dataclass
class Answers:
    """What came back for a stack of programs."""

    programs: Program
    seeds: Array  # whose program, or whose matrices, it was
    own: Array  # whether the program is that of the seed, or has vectors of another
    status: Array  # -1 where the call raised
    x: Array
    y: Array
    z: Array
    z_box: Array
    unique: Array
    degenerate: Array
    error: str = ""  # of a call that raised


def solve(arguments: dict[str, Any], programs: Program, seeds: Array, own: Array) -> Answers:
    """One call; an exception is the fate of all of its instances."""
    count, shape = len(programs), programs.shape
    try:
        s = altdiff.solve_qp(**arguments, num_threads=1)
    except Exception as error:
        sizes = {"x": shape.n, "y": shape.p, "z": shape.m, "z_box": shape.n}
        parts: dict[str, Any] = {name: np.full((count, size), np.nan) for name, size in sizes.items()}
        parts |= {name: np.zeros(count, dtype=bool) for name in FLAGS} | {"status": np.full(count, -1)}
        return Answers(programs, seeds, own, **parts, error=f"{type(error).__name__}: {error}")
    parts = {name: np.reshape(getattr(s, name), (count, -1)) for name in POINT}
    parts |= {name: np.reshape(np.asarray(getattr(s, name)), count) for name in (*FLAGS, "status")}
    return Answers(programs, seeds, own, **parts)


def joined(parts: list[Answers]) -> Answers:
    """Several calls in one."""
    names = ("seeds", "own", "status", *POINT, *FLAGS)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    programs = Program(*(np.concatenate([getattr(part.programs, name) for part in parts]) for name in FIELDS))
    return Answers(programs, **arrays, error=next((part.error for part in parts if part.error), ""))


def alone(programs: Program, seeds: Array) -> Iterator[Answers]:
    """One call each."""
    yes = np.ones(1, dtype=bool)
    for i in range(len(programs)):
        yield solve(programs[i].arguments(), programs[i : i + 1], seeds[i : i + 1], yes)


def batch(programs: Program, seeds: Array) -> Iterator[Answers]:
    """All in one call, each with matrices of its own."""
    yield solve(programs.arguments(), programs, seeds, np.ones(len(seeds), dtype=bool))


def some(programs: Program, seeds: Array) -> Iterator[Answers]:
    """A few in one call."""
    for first in range(0, len(seeds), SOME):
        yield from batch(programs[first : first + SOME], seeds[first : first + SOME])


def shared(programs: Program, seeds: Array) -> Iterator[Answers]:
    """The matrices of one with the vectors of several: the first of them are its own."""
    for i, (stacked, arguments) in enumerate(_sharing(programs)):
        yield solve(arguments, stacked, np.full(COMPANY, seeds[i]), np.arange(COMPANY) == 0)


def sparse(programs: Program, seeds: Array) -> Iterator[Answers]:
    """One call each, matrices sparse."""
    yes = np.ones(1, dtype=bool)
    for i in range(len(programs)):
        yield solve(in_csc(programs[i].arguments()), programs[i : i + 1], seeds[i : i + 1], yes)


def sparse_batch(programs: Program, seeds: Array) -> Iterator[Answers]:
    """All in one call, each with sparse matrices of its own; zeros are stored where another has a number."""
    arguments = programs.arguments()
    for name in MATRICES:
        if name in arguments:
            arguments[name] = _stored(arguments[name])
    yield solve(arguments, programs, seeds, np.ones(len(seeds), dtype=bool))


def sparse_shared(programs: Program, seeds: Array) -> Iterator[Answers]:
    """As `shared`, matrices sparse."""
    for i, (stacked, arguments) in enumerate(_sharing(programs)):
        yield solve(in_csc(arguments), stacked, np.full(COMPANY, seeds[i]), np.arange(COMPANY) == 0)


Way = Callable[[Program, Array], Iterator[Answers]]
WAYS: dict[str, Way] = {
    way.__name__: way for way in (alone, batch, some, shared, sparse, sparse_batch, sparse_shared)
}


def _sharing(programs: Program) -> Iterator[tuple[Program, dict[str, Any]]]:
    """The programs that the matrices of each make with its neighbours' vectors, and the arguments."""
    count = len(programs)
    for i in range(count):
        vectors = programs[[(i + k) % count for k in range(COMPANY)]]
        matrices = {name: getattr(programs, name)[i] for name in MATRICES}
        full = {name: np.stack([matrix] * COMPANY) for name, matrix in matrices.items()}
        stacked = Program(*({**vars(vectors), **full}[name] for name in FIELDS))
        arguments = stacked.arguments()
        arguments |= {name: matrix for name, matrix in matrices.items() if name in arguments}
        yield stacked, arguments


def _stored(matrices: Array) -> list[Any]:
    pattern = sp.csc_matrix((matrices != 0).any(axis=0))
    rows = pattern.indices
    columns = np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr))
    return [
        sp.csc_matrix((one[rows, columns], rows, pattern.indptr), shape=pattern.shape) for one in matrices
    ]


def go(name: str, programs: Program, first: int) -> Answers:
    """All programs of a group, one way."""
    return joined(list(WAYS[name](programs, np.arange(first, first + len(programs)))))
