"""How many random programs of each kind are solved, and how well, by a check of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import altdiff
from altdiff import Status

from benchmarks.convex.instances import KINDS, kkt_residual, random_instance


@dataclass
class Verdict:
    """What became of the instances of one kind."""

    kind: str
    statuses: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0  # KKT residual among the solved
    worst_seed: int = -1
    failed_seeds: list[int] = field(default_factory=list)

    @property
    def line(self) -> str:
        """A row of the table."""
        total = sum(self.statuses.values())
        others = ", ".join(f"{name} {count}" for name, count in self.statuses.items() if name != "SOLVED")
        seeds = f" seeds {self.failed_seeds[:5]}" if self.failed_seeds else ""
        solved = self.statuses["SOLVED"]
        return (
            f"{self.kind:16} {solved:6} of {total:6}  {self.worst:10.1e} ({self.worst_seed})  {others}{seeds}"
        )


def judge(kind: str, count: int, first: int = 0) -> Verdict:
    """Solves `count` instances. Every one has a solution by construction, so that nothing else is right."""
    verdict = Verdict(kind)
    for seed in range(first, first + count):
        instance = random_instance(kind, seed)
        solution = altdiff.solve_convex(instance.objective, **instance.constraints)
        verdict.statuses[solution.status.name] += 1
        if solution.status is not Status.SOLVED:
            verdict.failed_seeds.append(seed)
            continue
        residual = kkt_residual(instance, solution)
        if not residual <= verdict.worst:
            verdict.worst, verdict.worst_seed = residual, seed
    return verdict


def run(count: int, kinds: tuple[str, ...] = KINDS) -> list[Verdict]:
    """Prints a row for each kind."""
    print(f"{'kind':16} {'solved':>16}  {'worst KKT':>10} (seed)")
    verdicts = []
    for kind in kinds:
        verdicts.append(judge(kind, count))
        print(verdicts[-1].line, flush=True)
    return verdicts
