"""What a solve gives back as tensors, in the order in which functions and operators return it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from altdiff._fields import MEASURES, POINT
from altdiff.torch._tensors import to_tensor

if TYPE_CHECKING:
    from torch import Tensor

    from altdiff._layer import Solved

# What else a solution says of each instance, in the order of `Solution`.
REPORT = ("status", *MEASURES)
OUTPUTS = (*POINT, "objective", *REPORT)
STATUS = OUTPUTS.index("status")  # here the report begins


def outputs_of(solved: Solved) -> tuple[Tensor, ...]:
    """New tensors with the OUTPUTS."""
    point = [solved.part(name) for name in OUTPUTS[:STATUS]]
    return tuple(to_tensor(array) for array in (*point, *(solved.report[name].copy() for name in REPORT)))
