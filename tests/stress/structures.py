"""The structures of tiny programs by name; each is one line of documentation and a generator.

`groups` of consecutive seeds share a shape, so that they can be solved in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np

from tests.stress.blocks import small_shape
from tests.stress.programs import Program, Rng, Shape, stack

GROUP = 32  # consecutive seeds of one shape

FULL = "full"  # exact arithmetic decides every status
CERTIFICATES = "certificates"  # it decides proofs; SOLVED is up to the tolerance
NEVER = "never"  # the data are rounded: what is exactly true of them says nothing

Make: TypeAlias = Callable[[Rng, Shape], Program]


@dataclass(frozen=True)
class Structure:
    """A generator, and what may be said of its programs."""

    name: str
    make: Make
    shape: Callable[[Rng], Shape]
    exact: str
    counts: bool  # whether a program without an answer counts

    @property
    def about(self) -> str:
        """One line."""
        return (self.make.__doc__ or "").split("\n")[0]


STRUCTURES: dict[str, Structure] = {}


def structure(
    exact: str = NEVER, shape: Callable[[Rng], Shape] = small_shape, counts: bool = True
) -> Callable[[Make], Make]:
    """Enters a generator in the list, under its own name."""

    def enter(make: Make) -> Make:
        STRUCTURES[make.__name__] = Structure(make.__name__, make, shape, exact, counts)
        return make

    return enter


def make_program(name: str, seed: int) -> Program:
    """The program of a seed."""
    number, kind = crc32(name.encode()), STRUCTURES[name]
    shape = kind.shape(np.random.default_rng([number, 0, seed // GROUP]))
    with np.errstate(over="ignore", under="ignore"):
        return kind.make(np.random.default_rng([number, 1, seed]), shape)


def make_group(name: str, first: int) -> Program:
    """The programs of a group; `first` is its first seed."""
    return stack(make_program(name, seed) for seed in range(first, first + GROUP))
