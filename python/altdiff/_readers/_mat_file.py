"""MATLAB's level 5 files, as far as matrices of real numbers go: full and sparse, packed or not.

scipy.io.loadmat reads more, but a damaged file can make it take the whole process down. Here every length is
checked before it is used.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array

from altdiff._arrays import check_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from altdiff._arrays import Array, Block

_HEADER = 128
_MATRIX, _PACKED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_SPARSE = 5
_REAL = range(6, 16)  # classes of full matrices, double to uint64
_OTHERS = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text"}
_COMPLEX = 0x0800
_AGAIN = "save it again with -v7"


@dataclass(frozen=True)
class Other:
    """A variable that is not a matrix of real numbers: `kind` says what it is."""

    kind: str


def variables(content: bytes) -> dict[str, Block | Other]:
    """The variables of a .mat file by name; ValueError if the file is damaged or of another level."""
    if content[:19] == b"MATLAB 7.3 MAT-file":
        raise ValueError(f"MATLAB 7.3 files are not read: {_AGAIN}")
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER])
    if order is None:
        raise ValueError(f"not a MATLAB file of level 5: {_AGAIN}")
    found: dict[str, Block | Other] = {}
    try:
        for kind, data in _elements(content[_HEADER:], order):
            for inner, body in _elements(zlib.decompress(data), order) if kind == _PACKED else [(kind, data)]:
                if inner == _MATRIX:
                    found.update(_variable(body, order))
    except (zlib.error, struct.error, StopIteration) as error:
        raise ValueError(f"the MATLAB file is damaged or cut off ({error}): {_AGAIN}") from error
    return found


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """The elements that follow each other in `data`: a type and its bytes."""
    place = 0
    while place < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, place)
        start = place + 8
        if kind >> 16:  # both fit in the first word, and the bytes in the second
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        end = start + size
        if end > len(data) or (start == place + 4 and size > 4):
            raise ValueError(f"the MATLAB file is damaged or cut off (an element is too long): {_AGAIN}")
        yield kind, data[start:end]
        # Packed elements are not padded to a multiple of eight bytes.
        place = end if kind == _PACKED else place + 8 if start == place + 4 else start + (size + 7) // 8 * 8


def _variable(body: bytes, order: str) -> dict[str, Block | Other]:
    """One variable by its name; nothing for functions and the like, which have another layout."""
    parts = _elements(body, order)
    (flags,) = struct.unpack_from(f"{order}I", next(parts)[1])
    kind = flags & 0xFF
    if kind not in (*_OTHERS, _SPARSE, *_REAL):
        return {}
    shape = tuple(int(size) for size in _numbers(*next(parts), order))
    name = next(parts)[1].decode("latin-1")
    if kind in _OTHERS:
        return {name: Other(_OTHERS[kind])}
    if flags & _COMPLEX:
        return {name: Other("complex numbers")}
    if kind == _SPARSE:
        return {name: _sparse(name, shape, [_numbers(*next(parts), order) for _ in range(3)])}
    values = _numbers(*next(parts), order).astype(np.float64)
    if min(shape, default=0) < 0 or np.prod(shape, dtype=object) != values.size:
        raise ValueError(f"{name} has {values.size} numbers for shape {shape}: {_AGAIN}")
    return {name: values.reshape(shape, order="F")}


def _numbers(kind: int, data: bytes, order: str) -> Array:
    if kind not in _NUMBERS:
        raise ValueError(f"the MATLAB file is damaged (numbers of the unknown type {kind}): {_AGAIN}")
    dtype = np.dtype(order + _NUMBERS[kind])
    return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)


def _sparse(name: str, shape: Any, parts: list[Any]) -> Block:
    rows, starts, values = parts
    if rows.dtype.kind not in "iu" or starts.dtype.kind not in "iu":
        raise ValueError(f"{name} is not a valid sparse matrix (its indices are no integers): {_AGAIN}")
    # Files may have room for more entries than there are.
    stored = int(starts[-1]) if len(starts) else 0
    native = (values[:stored].astype(np.float64), rows[:stored].astype(np.int32), starts.astype(np.int32))
    try:
        matrix: Any = csc_array(native, shape=shape)
        check_format(matrix)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name} is not a valid sparse matrix ({error}): {_AGAIN}") from error
    return matrix
