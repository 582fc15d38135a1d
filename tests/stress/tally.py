"""What became of the programs, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from altdiff import Status

COLUMNS = {
    Status.SOLVED: "solved",
    Status.PRIMAL_INFEASIBLE: "infeasible",
    Status.DUAL_INFEASIBLE: "unbounded",
    Status.NONCONVEX: "nonconvex",
}
WITHOUT, FALSE = "without", "false"
SPLIT, FLAGS = "split", "flags"  # beside the others: answers, or their flags, depend on the way
SHOWN = ("count", *COLUMNS.values(), WITHOUT, FALSE, SPLIT, FLAGS)


@dataclass(frozen=True)
class Finding:
    """One program for which something is wrong."""

    structure: str
    seed: int
    sort: str  # a column of the table
    what: str

    def __str__(self) -> str:
        return f"{self.sort:<8} {self.structure} {self.seed}: {self.what}"


@dataclass
class Tally:
    """Counts by structure and by way, and what was found."""

    structures: Counter[tuple[str, str]] = field(default_factory=Counter)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Adds another's counts."""
        self.structures.update(other.structures)
        self.ways.update(other.ways)
        self.findings.extend(other.findings)

    def total(self, column: str) -> int:
        """Over all structures."""
        return sum(count for (_, name), count in self.structures.items() if name == column)


def rows_of(counts: Counter[tuple[str, str]], names: list[str]) -> list[list[str]]:
    """A line for each name, and one for all."""
    lines = [[name, *(str(counts[name, column]) for column in SHOWN)] for name in names]
    sums = [sum(counts[name, column] for name in names) for column in SHOWN]
    return [*lines, ["all", *map(str, sums)]]
