"""What is exactly true of a program: feasible, convex, and whether it falls along a ray.

Linear feasibility is decided by the simplex method on integers. Pivots keep all entries over one common
denominator, which is divided out exactly, so that numbers stay small; Bland's rule cannot cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from altdiff import Status

from tests.stress.programs import Array, Program
from tests.stress.rational import semidefinite, whole


@dataclass(frozen=True)
class Truth:
    """Facts about a program."""

    convex: bool
    feasible: bool
    falls: bool  # q'd < 0, P d = 0 for a d that rows and bounds allow for ever

    def statuses(self) -> set[Status]:
        """What the library may say."""
        allowed = set()
        if not self.convex:
            allowed.add(Status.NONCONVEX)
        if not self.feasible:
            allowed.add(Status.PRIMAL_INFEASIBLE)
        if self.falls:
            allowed.add(Status.DUAL_INFEASIBLE)
        return allowed or {Status.SOLVED}


def truth(program: Program) -> Truth:
    """The facts."""
    return Truth(semidefinite(program.P), feasible(program), falls(program))


def feasible(program: Program) -> bool:
    """Whether some x satisfies rows and bounds."""
    r, unit = program, np.eye(program.shape.n)
    limited, below, above = np.isfinite(r.h), np.isfinite(r.lb), np.isfinite(r.ub)
    rows = [
        np.column_stack([r.G[limited], r.h[limited]]),
        np.column_stack([-unit[below], -r.lb[below]]),
        np.column_stack([unit[above], r.ub[above]]),
    ]
    return has_point(np.column_stack([r.A, r.b]), np.concatenate(rows))


def falls(program: Program) -> bool:
    """Whether there is a ray without curvature along which the objective falls."""
    r, unit = program, np.eye(program.shape.n)
    limited, below, above = np.isfinite(r.h), np.isfinite(r.lb), np.isfinite(r.ub)
    level = np.concatenate([np.concatenate([r.P + r.P.T, r.A])])
    cone = np.concatenate([r.G[limited], -unit[below], unit[above]])
    rows = np.column_stack([cone, np.zeros(len(cone))])
    descent = np.append(r.q, -1.0)  # q'd <= -1: a cone has all lengths
    return has_point(np.column_stack([level, np.zeros(len(level))]), np.concatenate([rows, [descent]]))


def has_point(equalities: Array, rows: Array) -> bool:
    """Whether E x = e, C x <= c has a solution; the last column is the right-hand side."""
    T = np.concatenate([whole(equalities), whole(rows)])  # slack_i = T[i, -1] - T[i, :-1] x
    T[:, :-1] = -T[:, :-1]
    tableau = Tableau(T, len(equalities))
    return tableau.without_free_variables() and tableau.feasible()


class Tableau:
    """slack = right + matrix times (what is zero): the variables first, then slacks that took their place."""

    def __init__(self, T: Array, equalities: int) -> None:
        self.T = T
        self.denominator = 1
        self.must_vanish = np.arange(len(T)) < equalities
        self.column_vanishes = np.zeros(T.shape[1] - 1, dtype=bool)

    def pivot(self, row: int, column: int) -> None:
        """Exchanges a row with a column."""
        T, pivot = self.T, self.T[row, column]
        old_row, old_column = T[row].copy(), T[:, column].copy()
        T = (T * pivot - np.multiply.outer(old_column, old_row)) // self.denominator
        T[:, column], T[row] = old_column, -old_row
        T[row, column] = self.denominator
        self.T, self.denominator = (T, pivot) if pivot > 0 else (-T, -pivot)

    def without_free_variables(self) -> bool:
        """Puts a slack in the place of every variable; False if an equality cannot hold."""
        for column in range(self.T.shape[1] - 1):
            found = np.flatnonzero(self.T[:, column] != 0)
            if not found.size:
                self.column_vanishes[column] = True  # of no consequence
                continue
            first = found[np.argmax(self.must_vanish[found])]
            self.pivot(int(first), column)
            self.column_vanishes[column] = self.must_vanish[first]
            # The row now says what the variable is, which may be anything.
            self.T = np.delete(self.T, first, axis=0)
            self.must_vanish = np.delete(self.must_vanish, first)
        keep = np.append(~self.column_vanishes, True)
        T = self.T[:, keep]
        twice = T[self.must_vanish]
        self.T = np.concatenate([T, -twice])
        constant = ~(self.T[:, :-1] != 0).any(axis=1)
        if (self.T[constant, -1] < 0).any():
            return False
        self.T = self.T[~constant]
        return True

    def feasible(self) -> bool:
        """Whether all slacks can be nonnegative: the dual simplex method, with the rule of least index."""
        rows, columns = self.T.shape[0], self.T.shape[1] - 1
        in_row, in_column = np.arange(columns, columns + rows), np.arange(columns)
        while True:
            negative = np.flatnonzero(self.T[:, -1] < 0)
            if not negative.size:
                return True
            row = int(negative[np.argmin(in_row[negative])])
            rising = np.flatnonzero(self.T[row, :-1] > 0)
            if not rising.size:
                return False
            column = int(rising[np.argmin(in_column[rising])])
            self.pivot(row, column)
            in_row[row], in_column[column] = in_column[column], in_row[row]
