"""What the readers return: one quadratic program, and what its file says beside the eight fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from altdiff._arrays import is_sparse
from altdiff._fields import FIELDS
from altdiff._problem import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._arrays import Array, Block


@dataclass(frozen=True, eq=False)
class QuadraticProgram:
    """minimise 1/2 x'Px + q'x + constant   subject to   G x <= h,  A x = b,  lb <= x <= ub.

    Constraints that the file does not have are None. P, G and A are dense arrays or scipy.sparse.csc_array,
    as they were stored.
    """

    P: Block
    q: Array
    G: Block | None = None
    h: Array | None = None
    A: Block | None = None
    b: Array | None = None
    lb: Array | None = None
    ub: Array | None = None
    name: str = ""  # what the file calls the problem, or the file's own name
    constant: float = 0.0  # added to the objective
    maximise: bool = False  # True: the file maximises; P, q and constant hold the negative of what it says
    variables: tuple[str, ...] = ()  # the names of the variables, where the file has them

    def fields(self) -> dict[str, Any]:
        """P, q, G, h, A, b, lb and ub, for `altdiff.solve_qp(**program.fields())`."""
        return {name: getattr(self, name) for name in FIELDS}

    def objective_in_file(self, objective: float) -> float:
        """What the file's own objective is where 1/2 x'Px + q'x is `objective`."""
        value = objective + self.constant
        return -value if self.maximise else value

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of variables n, inequalities m and equalities p."""
        return {
            "n": len(self.q),
            "m": 0 if self.h is None else len(self.h),
            "p": 0 if self.b is None else len(self.b),
        }


def make_program(fields: Mapping[str, Block | None], **rest: Any) -> QuadraticProgram:
    """The program, its shapes and numbers checked as `solve_qp` does: an error names the field."""
    for name in ("P", "q"):
        if fields.get(name) is None:
            raise ValueError(f"{name} is missing: a quadratic program needs P and q")
    try:
        problem = make_problem(fields)
    except TypeError as error:
        # Of a file, not of a caller: what is wrong is what it says.
        raise ValueError(str(error)) from error
    if problem.batch != ():
        odd = next(name for name, lead in problem.layout.leads.items() if lead != ())
        raise ValueError(f"{odd} has too many dimensions: a file holds one problem")
    problem.invalid()
    values: dict[str, Any] = {name: problem.values[name] for name in FIELDS}
    return QuadraticProgram(**values, **rest)


def entries_of(matrix: Block) -> int:
    """How many entries of a matrix are not zero."""
    return int(matrix.count_nonzero()) if is_sparse(matrix) else int((matrix != 0).sum())
