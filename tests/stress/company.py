"""Gradients do not depend on the way in which a program is handed over: alone, in a batch, sparse."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
from altdiff import Status

from experiments.text_table import text_table
from tests.stress import map_programs, plain, scales  # noqa: F401  (they enter their structures)
from tests.stress.programs import POINT, Array, Program, in_csc
from tests.stress.structures import GROUP, STRUCTURES, make_group
from tests.stress.workers import run_all

VECTORS = ("q", "h", "b", "lb", "ub")
SAME = 1e-8  # relative
# Data at the edge of what numbers can say: a small share may differ.
EDGE = (
    "barely_inconsistent", "barely_infeasible", "denormal", "nearly_parallel", "mixed", "single_precision",
    "huge_bounds", "huge_bounds_linear", "huge_limits", "scaled_all", "everything_scaled",
)  # fmt: skip
SHARE, EDGE_SHARE = 0.0015, 0.06


@dataclass
class Result:
    """How many programs of a group were compared; which differ, and by how much."""

    structure: str
    compared: int = 0
    different: list[tuple[int, str, float]] = field(default_factory=list)


def _gradients(s: Any, bars: dict[str, Array], slot: Any = ...) -> dict[str, Array]:
    back = s.vjp(*(bars[name] for name in POINT))._asdict()
    return {name: np.asarray(back[name])[slot] for name in VECTORS if back[name] is not None}


def _apart(one: dict[str, Array], other: dict[str, Array]) -> float:
    """Relative; a field that only the batch has says nothing of this program."""
    pairs = [(value, other[name]) for name, value in one.items()]
    size = max([float(abs(v).max(initial=0)) for pair in pairs for v in pair], default=0.0) or 1.0
    return max([float(abs(a - b).max(initial=0)) for a, b in pairs], default=0.0) / size


def run(task: tuple[str, int]) -> Result:
    """Compares a group."""
    structure, first = task
    programs, result = make_group(structure, first), Result(structure)
    n, m, p = programs.shape
    rng = np.random.default_rng([5, first])
    sizes = {"x": n, "y": p, "z": m, "z_box": n}
    bars = {name: rng.normal(size=(len(programs), size)) for name, size in sizes.items()}
    batch = altdiff.solve_qp(**programs.arguments(), num_threads=1)
    for i in range(len(programs)):
        own = {name: bar[i] for name, bar in bars.items()}
        found = _alone(programs[i])
        if batch.status[i] != Status.SOLVED or any(s.status != Status.SOLVED for s in found.values()):
            continue
        result.compared += 1
        alone = _gradients(found["alone"], own)
        only = {
            name: np.where(np.arange(len(programs))[:, None] == i, bar, 0.0) for name, bar in bars.items()
        }
        others = {"sparse": _gradients(found["sparse"], own), "batch": _gradients(batch, only, i)}
        for way, gradients in others.items():
            if not (apart := _apart(alone, gradients)) <= SAME:
                result.different.append((first + i, way, apart))
    return result


def _alone(program: Program) -> dict[str, Any]:
    given = program.arguments()
    return {
        "alone": altdiff.solve_qp(**given, num_threads=1),
        "sparse": altdiff.solve_qp(**in_csc(given), num_threads=1),
    }


def died(task: tuple[str, int]) -> Result:
    """The result of a group whose process ended."""
    return Result(task[0], 1, [(task[1], "all", np.inf)])


def main(given: argparse.Namespace) -> bool:
    """Runs the part; False if too many gradients depend on the way."""
    groups = max(1, round(given.count / GROUP / len(STRUCTURES)))
    firsts = [given.seed // GROUP * GROUP + GROUP * k for k in range(groups)]
    compared: Counter[str] = Counter()
    different: dict[str, list[tuple[int, str, float]]] = {name: [] for name in STRUCTURES}
    tasks = [(name, first) for first in firsts for name in STRUCTURES]
    for part in run_all(run, died, tasks, given.workers):
        compared[part.structure] += part.compared
        different[part.structure] += part.different
    seeds = {name: {seed for seed, *_ in found} for name, found in different.items()}
    rows = [[name, str(compared[name]), str(len(seeds[name]))] for name in STRUCTURES]
    text = text_table(["gradients alone, in a batch, sparse", "compared", "different"], rows)
    lines = [f"{name} {seed} ({way}): {e:.1e}" for name in STRUCTURES for seed, way, e in different[name]]
    Path("out").mkdir(exist_ok=True)
    Path("out/stress-company.txt").write_text("\n".join([text, "", *lines, ""]))
    print(text)
    good = True
    for edge, share in ((False, SHARE), (True, EDGE_SHARE)):
        names = [name for name in STRUCTURES if (name in EDGE) == edge]
        count, all_of_them = sum(len(seeds[name]) for name in names), sum(compared[name] for name in names)
        kind = "at the edge of what numbers can say" if edge else "others"
        print(f"{kind}: {count} of {all_of_them} depend on the way (at most {share:.1%})")
        good &= count <= share * all_of_them
    return good
