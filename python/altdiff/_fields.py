"""The eight fields of a quadratic program: their names, their order and their shapes."""

from __future__ import annotations

FIELDS = ("P", "q", "G", "h", "A", "b", "lb", "ub")
CONSTRAINTS = FIELDS[2:]  # what an objective of any kind is minimised under

MATRICES = ("P", "G", "A")

# The dimensions of one instance; leading dimensions are the batch.
DIMENSIONS: dict[str, tuple[str, ...]] = {
    "P": ("n", "n"),
    "q": ("n",),
    "G": ("m", "n"),
    "h": ("m",),
    "A": ("p", "n"),
    "b": ("p",),
    "lb": ("n",),
    "ub": ("n",),
}

# A constraint block is a matrix and its right-hand side: both, or neither.
BLOCKS = (("G", "h"), ("A", "b"))

# The one infinity that means "this row does not exist"; every other infinity is an error.
ABSENT_ROW = {"h": float("inf"), "lb": float("-inf"), "ub": float("inf")}

# What a solution holds for each instance, and the dimension of each.
POINT = {"x": "n", "y": "p", "z": "m", "z_box": "n"}

# What a solution says of each instance beside its status.
MEASURES = (
    "iterations",
    "primal_residual",
    "dual_residual",
    "duality_gap",
    "degenerate",
    "unique",
    "margin",
)
