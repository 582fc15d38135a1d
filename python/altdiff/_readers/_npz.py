"""The reader of .npz: arrays under the eight names, sparse matrices in parts, None as numpy stores it.

Nothing is ever unpickled: a file from somebody else must not be able to run code.
"""

from __future__ import annotations

import io
import math
import pickletools
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from altdiff._arrays import check_format
from altdiff._extras import require
from altdiff._fields import FIELDS, MATRICES
from altdiff._readers._program import make_program

if TYPE_CHECKING:
    from altdiff._arrays import Array, Block
    from altdiff._readers._program import QuadraticProgram

_PARTS = ("data", "indices", "indptr", "shape")
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")


def read_npz(content: bytes, name: str) -> QuadraticProgram:
    """The program in the bytes of an .npz file."""
    arrays = _arrays(content)
    constant = _constant(arrays.pop("constant", None))
    fields = {field: _field(field, arrays) for field in FIELDS}
    if arrays:
        warnings.warn(f"{name}: left out {', '.join(sorted(arrays))}: not a field", stacklevel=4)
    return make_program(fields, name=name, constant=constant)


def _arrays(content: bytes) -> dict[str, Array | None]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except Exception as error:  # zipfile raises many kinds for damaged files
        raise ValueError(f"not an .npz file ({error}): write it with numpy.savez") from error
    with archive:
        return {info.filename.removesuffix(".npy"): _member(archive, info) for info in archive.infolist()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array | None:
    """One array of the archive; None where numpy stored a None."""
    field = info.filename.removesuffix(".npy")
    try:
        stored = archive.read(info)
        shape, kind, start = _header(stored)
        if kind.hasobject:
            if shape == () and _is_pickled_none(stored[start:]):
                return None
        elif math.prod(shape) * kind.itemsize == len(stored) - start:
            return np.asarray(npy.read_array(io.BytesIO(stored), allow_pickle=False))
    except Exception as error:  # what zipfile, zlib and numpy raise for damaged data has no common class
        raise ValueError(f"{field} cannot be read ({error}): write the file again") from error
    if kind.hasobject:
        raise ValueError(
            f"{field} is a pickled Python object, which is not read because it could run code: store numbers,"
            f" and a sparse matrix as {', '.join(f'{field}_{part}' for part in _PARTS)} of its csc form"
        )
    raise ValueError(f"{field} holds more or fewer numbers than its shape {shape} says: write the file again")


def _header(stored: bytes) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type of an array, and where its numbers begin."""
    stream = io.BytesIO(stored)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = read(stream)
    return shape, kind, stream.tell()


def _is_pickled_none(payload: bytes) -> bool:
    """Whether the pickle is that of np.array(None), by reading its operations and running none of them."""
    names = [operation.name for operation, _, _ in pickletools.genops(payload)]
    names = [name for name in names if name not in _MEMO]
    if "EMPTY_LIST" not in names:
        return False
    place = names.index("EMPTY_LIST")
    return names[place + 1 : place + 3] == ["NONE", "APPEND"]


def _field(field: str, arrays: dict[str, Array | None]) -> Block | None:
    """Takes a field out of the file's arrays."""
    dense = arrays.pop(field, None)
    parts = {part: arrays.pop(f"{field}_{part}", None) for part in _PARTS} if field in MATRICES else {}
    if any(part is not None for part in parts.values()):
        if dense is not None:
            raise ValueError(f"{field} is there twice, dense and in parts: keep one")
        return _sparse(field, parts)
    if dense is None:
        return None
    if field in MATRICES:
        # One row may be stored as a vector.
        return dense[np.newaxis] if dense.ndim == 1 and field != "P" else dense
    # Vectors may be stored as columns.
    return dense.reshape(-1) if dense.ndim == 2 and 1 in dense.shape else dense


def _sparse(field: str, parts: dict[str, Array | None]) -> Block:
    require("scipy", "a sparse matrix in a .npz file")
    from scipy.sparse import csc_array

    for part, value in parts.items():
        if value is None:
            raise ValueError(f"{field}_{part} is missing: {field} is stored in {', '.join(_PARTS)}")
    data, indices, indptr, shape = (np.asarray(parts[part]) for part in _PARTS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError(f"{field}_shape must be two integers, got {shape!r}")
    try:
        matrix: Any = csc_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
        check_format(matrix)
    except Exception as error:  # TypeError, ValueError or OverflowError, as the parts are wrong
        raise ValueError(f"{field} is not a csc matrix in parts: {error}") from error
    return matrix


def _constant(value: Array | None) -> float:
    if value is None:
        return 0.0
    if value.size != 1 or value.dtype.kind not in "iuf" or not np.isfinite(value).all():
        raise ValueError("constant must be one finite number")
    return float(value.reshape(-1)[0])
