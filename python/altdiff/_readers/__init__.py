"""Readers for problems in files: `read_qp` looks at the file's ending and asks the reader of that format.

Every reader raises ValueError for what is wrong in a file, with the file's name in front; OSError is left to
files that cannot be opened.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from altdiff._extras import require
from altdiff._readers._program import QuadraticProgram

if TYPE_CHECKING:
    import os

__all__ = ["FORMATS", "QuadraticProgram", "read_qp"]

_GZIP = b"\x1f\x8b"
FORMATS = (".npz", ".mat", ".qps", ".mps")


def read_qp(path: str | os.PathLike[str]) -> QuadraticProgram:
    """Reads a quadratic program; `altdiff.solve_qp(**program.fields())` solves it.

    The ending of the file says what is in it:

    - ``.npz``: arrays under the names P q G h A b lb ub; only P and q must be there.
    - ``.mat``: MATLAB, with P q A l u r as in the Maros-Meszaros set, or with the eight names.
    - ``.qps``, ``.mps``, also ``.qps.gz`` and ``.mps.gz``: fixed or free format.

    A problem that maximises is returned as one that minimises, with a warning. What is malformed raises a
    ValueError that names the file and the field or line. All but dense .npz files need scipy.
    """
    path = Path(path)
    ending = _ending(path)
    content = path.read_bytes()
    try:
        return _read(ending, content, _stem(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(ending: str, content: bytes, name: str) -> QuadraticProgram:
    # Imported where they are needed: most users of the package never read a file.
    if ending == ".npz":
        from altdiff._readers._npz import read_npz

        return read_npz(content, name)
    require("scipy", f"reading {ending} files")
    if ending == ".mat":
        from altdiff._readers._mat import read_mat

        return read_mat(content, name)
    from altdiff._readers._qps import read_qps

    return read_qps(_unpacked(content), name)


def _ending(path: Path) -> str:
    endings = [ending.lower() for ending in path.suffixes]
    if endings[-1:] == [".gz"] and endings[-2:-1] in ([".qps"], [".mps"]):
        return endings[-2]
    if endings and endings[-1] in FORMATS:
        return endings[-1]
    known = ", ".join((*FORMATS, ".qps.gz", ".mps.gz"))
    raise ValueError(f"{path}: the name of the file must end in one of {known}")


def _stem(path: Path) -> str:
    stem = path.stem
    return Path(stem).stem if path.suffix.lower() == ".gz" else stem


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(_GZIP):
        return content
    import gzip
    import zlib

    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"the gzip data are damaged or cut off ({error}): fetch the file again") from error
