"""Lines of QPS and MPS files: how they fall into fields, and how the fields become numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias

# Python's own float() would take "1_000"; Fortran's exponent D is common in old files.
_NUMBER = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[ed][+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII
)

# Fields 1 to 6 of the fixed format.
_COLUMNS = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))
_GAPS = ((0, 1), (3, 4), (12, 14), (22, 24), (36, 39), (47, 49), (61, None))
_CODED = ("ROWS", "BOUNDS")  # sections whose lines have a field 1
_NAMED = ("RHS", "RANGES")  # sections whose lines begin with the name of a set, which may be missing
BOUNDS_WITHOUT_VALUE = ("FR", "MI", "PL", "BV")

Split: TypeAlias = Callable[[str, str], list[str]]


class LineError(ValueError):
    """What is wrong in a line, which `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


def free_fields(section: str, line: str) -> list[str]:
    """The fields of a line in free format: words. A missing name of a set becomes an empty one."""
    words = line.split()
    if section in _NAMED and len(words) % 2 == 0:
        words.insert(0, "")
    if section == "BOUNDS" and words:
        full = 3 if words[0].upper() in BOUNDS_WITHOUT_VALUE else 4
        if len(words) == full - 1:
            words.insert(1, "")
    return words


def fixed_fields(section: str, line: str) -> list[str]:
    """The fields of a line in fixed format: columns, so that names may hold blanks."""
    if "\t" in line:
        return free_fields(section, line)
    # A number that reaches over the end of its field must not lose its last digits.
    if any(line[start:end].strip() for start, end in _GAPS):
        raise ValueError("the line has characters between the fields of the fixed format")
    fields = [line[start:end].strip() for start, end in _COLUMNS]
    while fields and not fields[-1]:
        fields.pop()
    return fields if section in _CODED else fields[1:]


def number(word: str) -> float:
    """The number that a field holds; ValueError if it is not one."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{word!r} is not a number")
    return float(word.lower().replace("d", "e"))


def finite(word: str) -> float:
    """The same, for numbers that must not be infinite."""
    value = number(word)
    if not math.isfinite(value):
        raise ValueError(f"{word!r} is not finite")
    return value
