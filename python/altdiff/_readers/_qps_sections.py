"""The sections of QPS and MPS files.

Stricter than most readers: what is not understood is an error, and never dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from altdiff._readers._qps_lines import BOUNDS_WITHOUT_VALUE, LineError, finite, number
from altdiff._readers._two_sided import INFINITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from altdiff._readers._qps_lines import Split

_Key = TypeVar("_Key")

_NO_INTEGERS = "integer variables are not supported: relax them in the file if that is what you want"
_QUADRATIC = ("QUADOBJ", "QMATRIX", "QSECTION")
_MINIMISE = ("MIN", "MINIMIZE", "MINIMISE")
_MAXIMISE = ("MAX", "MAXIMIZE", "MAXIMISE")


@dataclass
class Model:
    """What the lines of a file say; rows and columns by their order in the file."""

    name: str = ""
    maximise: bool = False
    objective: str | None = None  # the first row of kind N; others are left out, as the format says
    constant: float = 0.0
    rows: dict[str, int | None] = field(default_factory=dict)  # None: of kind N
    kinds: list[str] = field(default_factory=list)  # E, L or G
    columns: dict[str, int] = field(default_factory=dict)
    cost: dict[int, float] = field(default_factory=dict)
    entries: dict[tuple[int, int], float] = field(default_factory=dict)
    rhs: dict[int, float] = field(default_factory=dict)
    ranges: dict[int, float] = field(default_factory=dict)
    lower: dict[int, float] = field(default_factory=dict)
    upper: dict[int, float] = field(default_factory=dict)
    quadratic: dict[tuple[int, int], float] = field(default_factory=dict)
    quadratic_is_whole: bool = False  # True: QMATRIX; False: one triangle
    notes: list[str] = field(default_factory=list)  # what a reader of the result should know


def read_lines(lines: Iterable[str], split: Split) -> Model:
    """The model that the lines of a whole file describe; a LineError says what is wrong where."""
    sections = _Sections()
    count = 0
    for count, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("*"):
            continue
        try:
            if line[0].isspace():
                sections.data(split(sections.current, line))
            elif sections.header(line):
                return sections.finished()
        except ValueError as error:
            raise LineError(count, str(error)) from error
    raise LineError(count, "the file ends without ENDATA: it may be cut off")


class _Sections:
    """Reads one line after the other into a model; ValueError says what is wrong with a line."""

    def __init__(self) -> None:
        self.model = Model()
        self.current = ""
        self._integers = False
        self._set_names: dict[str, str] = {}  # the first name of a set in each section, which counts
        self._constants: dict[str, float] = {}
        self._bounded: set[tuple[str, int]] = set()
        self._readers = {
            "OBJSENSE": self._sense,
            "ROWS": self._row,
            "COLUMNS": self._column,
            "RHS": self._rhs,
            "RANGES": self._range,
            "BOUNDS": self._bound,
            **dict.fromkeys(_QUADRATIC, self._quadratic),
        }

    def header(self, line: str) -> bool:
        """Begins a section; True at the end of the file."""
        first, *rest = line.split()
        self.current = first.upper()
        if self.current == "ENDATA":
            return True
        if self.current == "NAME":
            self.model.name = " ".join(rest)
        elif self.current == "OBJSENSE" and rest:
            self._sense(rest)
        elif self.current in _QUADRATIC:
            self._begin_quadratic(rest)
        elif self.current not in self._readers:
            known = ", ".join(("NAME", *self._readers, "ENDATA"))
            raise ValueError(
                f"section {first!r} is not one of a quadratic program: {known};"
                " a line of data begins with a blank"
            )
        return False

    def data(self, fields: list[str]) -> None:
        """Reads a line of the current section."""
        if self.current not in self._readers:
            where = f"section {self.current}" if self.current else "the beginning of the file"
            raise ValueError(f"a line of data does not belong in {where}")
        if not fields:
            raise ValueError("the line has no fields where the fixed format has them")
        self._readers[self.current](fields)

    def finished(self) -> Model:
        """The model, after the last line."""
        model = self.model
        # Readers differ; without this exception to the lower bound of zero nothing would be feasible.
        below = [column for column, bound in model.upper.items() if bound < 0 and column not in model.lower]
        if below:
            model.lower.update(dict.fromkeys(below, -math.inf))
            names = tuple(model.columns)
            others = f" and {len(below) - 1} more" if len(below) > 1 else ""
            model.notes.append(
                f"{names[below[0]]}{others}: a negative upper bound and no lower one, which is taken as -inf"
            )
        return model

    def _sense(self, fields: list[str]) -> None:
        word = fields[0].upper()
        if len(fields) != 1 or word not in (*_MINIMISE, *_MAXIMISE):
            raise ValueError(f"OBJSENSE must be MIN or MAX, got {' '.join(fields)!r}")
        self.model.maximise = word in _MAXIMISE

    def _row(self, fields: list[str]) -> None:
        model = self.model
        if len(fields) != 2:
            raise ValueError("a line of ROWS has two fields, a kind and a name")
        kind, name = fields[0].upper(), fields[1]
        if kind not in ("N", "E", "L", "G"):
            raise ValueError(f"the kind of row {name!r} must be N, E, L or G, got {fields[0]!r}")
        if name in model.rows:
            raise ValueError(f"row {name!r} is there twice")
        if kind == "N":
            model.rows[name] = None
            model.objective = name if model.objective is None else model.objective
        else:
            model.rows[name] = len(model.kinds)
            model.kinds.append(kind)

    def _column(self, fields: list[str]) -> None:
        model = self.model
        if len(fields) >= 2 and fields[1].strip("'").upper() == "MARKER":
            self._integers = fields[-1].strip("'").upper() == "INTORG"
            return
        if self._integers:
            raise ValueError(_NO_INTEGERS)
        column = model.columns.setdefault(fields[0], len(model.columns))
        for name, word in _pairs(fields, "COLUMNS"):
            row, value = self._row_of(name), finite(word)
            if row is not None:
                _set_once(model.entries, (row, column), value, f"{fields[0]!r} in row {name!r}")
            elif name == model.objective:
                _set_once(model.cost, column, value, f"{fields[0]!r} in row {name!r}")

    def _rhs(self, fields: list[str]) -> None:
        model = self.model
        if not self._is_first_set(fields[0]):
            return
        for name, word in _pairs(fields, "RHS"):
            row = self._row_of(name)
            if row is not None:
                value = number(word)
                absent = {"L": math.inf, "G": -math.inf}.get(model.kinds[row])
                if abs(value) >= INFINITE and math.copysign(math.inf, value) != absent:
                    raise ValueError(f"the right-hand side of row {name!r} must be finite, got {word}")
                _set_once(model.rhs, row, value, f"the right-hand side of row {name!r}")
            elif name == model.objective:
                # The row reads objective - constant.
                _set_once(self._constants, name, -finite(word), f"the constant of row {name!r}")
                model.constant = self._constants[name]

    def _range(self, fields: list[str]) -> None:
        if not self._is_first_set(fields[0]):
            return
        for name, word in _pairs(fields, "RANGES"):
            row = self._row_of(name)
            if row is None:
                raise ValueError(f"row {name!r} is an objective, which has no range")
            _set_once(self.model.ranges, row, finite(word), f"the range of row {name!r}")

    def _bound(self, fields: list[str]) -> None:
        kind = fields[0].upper()
        if kind in ("BV", "LI", "UI"):
            raise ValueError(_NO_INTEGERS)
        if kind in ("SC", "SI"):
            raise ValueError("semi-continuous variables are not supported")
        if kind not in ("UP", "LO", "FX", *BOUNDS_WITHOUT_VALUE):
            raise ValueError(f"the kind of a bound must be UP, LO, FX, FR, MI or PL, got {fields[0]!r}")
        if len(fields) != 4 and not (len(fields) == 3 and kind in BOUNDS_WITHOUT_VALUE):
            raise ValueError(f"a line of BOUNDS has a kind, a set, a variable and a number, got {fields}")
        if not self._is_first_set(fields[1]):
            return
        column = self._column_of(fields[2])
        if (kind, column) in self._bounded:
            raise ValueError(f"bound {kind} of {fields[2]!r} is there twice")
        self._bounded.add((kind, column))
        value = 0.0 if kind in BOUNDS_WITHOUT_VALUE else number(fields[3])
        if kind in ("LO", "FX", "FR", "MI"):
            self.model.lower[column] = value if kind in ("LO", "FX") else -math.inf
        if kind in ("UP", "FX", "FR", "PL"):
            self.model.upper[column] = value if kind in ("UP", "FX") else math.inf

    def _begin_quadratic(self, rest: list[str]) -> None:
        if self.model.quadratic:
            raise ValueError("the quadratic part of the objective is there twice")
        row = " ".join(rest)
        if self.current == "QSECTION" and row not in ("", self.model.objective):
            raise ValueError(f"QSECTION {row}: only the objective of a quadratic program is quadratic")
        self.model.quadratic_is_whole = self.current == "QMATRIX"

    def _quadratic(self, fields: list[str]) -> None:
        model = self.model
        if len(fields) not in (3, 5):
            raise ValueError(f"a line of {self.current} has two variables and a number, got {fields}")
        first = self._column_of(fields[0])
        for name, word in _pairs(fields, self.current):
            place = (first, self._column_of(name))
            entry = f"({fields[0]}, {name})"
            if not model.quadratic_is_whole and place[0] != place[1] and place[::-1] in model.quadratic:
                raise ValueError(f"{entry} is there twice: {self.current} holds one triangle, QMATRIX both")
            _set_once(model.quadratic, place, finite(word), entry)

    def _row_of(self, name: str) -> int | None:
        if name not in self.model.rows:
            raise ValueError(f"row {name!r} is not in ROWS")
        return self.model.rows[name]

    def _column_of(self, name: str) -> int:
        if name not in self.model.columns:
            raise ValueError(f"variable {name!r} is not in COLUMNS: a zero coefficient there is enough")
        return self.model.columns[name]

    def _is_first_set(self, name: str) -> bool:
        """Whether the line is of the first set of its section: the format says that others do not count."""
        first = self._set_names.get(self.current) or name
        self._set_names[self.current] = first
        if name in ("", first):  # where the name is left out there is only one set
            return True
        note = f"{self.current} has several sets: {first!r} counts, {name!r} does not"
        if note not in self.model.notes:
            self.model.notes.append(note)
        return False


def _pairs(fields: list[str], section: str) -> Iterator[tuple[str, str]]:
    """The pairs of a name and a number that follow the first field."""
    if len(fields) not in (3, 5):
        raise ValueError(
            f"a line of {section} has a name and one or two pairs of name and number, got {fields}"
        )
    yield from zip(fields[1::2], fields[2::2], strict=True)


def _set_once(values: dict[_Key, float], key: _Key, value: float, what: str) -> None:
    if key in values:
        raise ValueError(f"{what} is there twice")
    values[key] = value
