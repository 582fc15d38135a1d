"""The reader of QPS and MPS files, in fixed or free format: from the lines to a quadratic program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, csc_array

from altdiff._readers._program import make_program
from altdiff._readers._qps_lines import LineError, fixed_fields, free_fields
from altdiff._readers._qps_sections import Model, read_lines
from altdiff._readers._two_sided import TwoSided

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._arrays import Array, Block
    from altdiff._readers._program import QuadraticProgram


def read_qps(content: bytes, name: str) -> QuadraticProgram:
    """The program in the bytes of a QPS or MPS file."""
    model = _model(_text(content))
    name = model.name or name
    notes = list(model.notes)
    if model.maximise:
        notes.append("the file maximises: P, q and the constant are negated, and the program minimises")
    for note in notes:
        warnings.warn(f"{name}: {note}", stacklevel=4)
    sign = -1.0 if model.maximise else 1.0
    n = len(model.columns)
    program = TwoSided(
        P=sign * _quadratic(model, n),
        q=sign * _vector(model.cost, n, 0.0),
        A=_matrix(model.entries, (len(model.kinds), n)),
        **_row_limits(model),
        lb=_vector(model.lower, n, 0.0),
        ub=_vector(model.upper, n, np.inf),
    )
    return make_program(
        program.fields(),
        name=name,
        constant=sign * model.constant,
        maximise=model.maximise,
        variables=tuple(model.columns),
    )


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # any bytes; only names may look odd


def _model(text: str) -> Model:
    """What the lines say. Nothing in a file tells its format: names with blanks make sense in fixed only."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    try:
        return read_lines(lines, free_fields)
    except LineError as free:
        try:
            return read_lines(lines, fixed_fields)
        except LineError as fixed:
            # The format that made sense for longer is the one that was meant.
            raise (fixed if fixed.line > free.line else free) from None


def _row_limits(model: Model) -> dict[str, Array]:
    """The limits l and u of each row: its right-hand side, widened by its range."""
    m = len(model.kinds)
    rhs = _vector(model.rhs, m, 0.0)
    kinds = np.array(model.kinds, dtype="U1")
    lower = np.where(kinds == "L", -np.inf, rhs)
    upper = np.where(kinds == "G", np.inf, rhs)
    for row, width in model.ranges.items():
        if kinds[row] == "L" or (kinds[row] == "E" and width < 0):
            lower[row] = rhs[row] - abs(width)
        else:
            upper[row] = rhs[row] + abs(width)
    return {"l": lower, "u": upper}


def _vector(values: Mapping[int, float], size: int, default: float) -> Array:
    vector = np.full(size, default)
    vector[list(values)] = list(values.values())
    return vector


def _matrix(entries: Mapping[tuple[int, int], float], shape: tuple[int, int]) -> Block:
    places = np.array(list(entries), dtype=np.int64).reshape(-1, 2)
    data = np.array(list(entries.values()), dtype=np.float64)
    matrix: Any = coo_array((data, (places[:, 0], places[:, 1])), shape=shape)
    return csc_array(matrix)


def _quadratic(model: Model, n: int) -> Block:
    """P: one triangle is mirrored, a whole matrix must be symmetric."""
    entries = model.quadratic
    if not model.quadratic_is_whole:
        return _matrix({**entries, **{(j, i): value for (i, j), value in entries.items()}}, (n, n))
    names = tuple(model.columns)
    for (i, j), value in entries.items():
        mirrored = entries.get((j, i), 0.0)
        if mirrored != value:
            raise ValueError(
                f"QMATRIX is not symmetric: ({names[i]}, {names[j]}) is {value:g}, its mirror {mirrored:g};"
                " a single triangle belongs in QUADOBJ"
            )
    return _matrix(entries, (n, n))
