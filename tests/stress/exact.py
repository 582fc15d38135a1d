"""Derivatives of programs whose solution is known exactly, against fractions: all fields, all cotangents."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
from altdiff import Status

from experiments.text_table import text_table
from tests.stress.exact_maps import gradient, jacobian, tangent
from tests.stress.exact_programs import KINDS, Known, known, known_shape
from tests.stress.programs import FIELDS, MATRICES, POINT, Array, dense, in_csc, in_numpy, stack
from tests.stress.workers import run_all

GROUP = 20  # programs of one shape, solved in one batch
RIGHT = 1e-8  # relative
VECTORS = ("q", "h", "b", "lb", "ub")
WAYS = ("alone", "batch", "sparse", "convex")


@dataclass(frozen=True)
class Wrong:
    """A derivative that is not right, or a program that was not solved."""

    kind: str
    seed: int
    way: str
    what: str
    error: float

    def __str__(self) -> str:
        return f"{self.kind} {self.seed} ({self.way}): {self.what}, error {self.error:.1e}"


@dataclass(frozen=True)
class Case:
    """A program, and the directions that its derivatives are taken along."""

    k: Known
    seed: int
    bars: dict[str, Array]
    tangents: dict[str, Array]
    field: str  # whose Jacobian


def make_case(seed: int) -> Case:
    """The program of a seed; all kinds take turns."""
    k = known(KINDS[seed % len(KINDS)], seed, known_shape(seed // GROUP))
    rng = np.random.default_rng([2, seed])
    n, m, p = k.program.shape
    bars = {"x": n, "y": p, "z": m, "z_box": n}
    # In other units of the objective multipliers are of another size: their cotangents are left out.
    whole = {
        name: rng.integers(-3, 4, size=size) * float(name == "x" or k.unit == 1.0)
        for name, size in bars.items()
    }
    tangents = {name: rng.integers(-3, 4, size=getattr(k.program, name).shape) * 1.0 for name in FIELDS}
    tangents["P"] = (tangents["P"] + tangents["P"].T) * k.unit
    tangents["q"] = tangents["q"] * k.unit
    given = [name for name in VECTORS if name in k.program.arguments()]
    return Case(k, seed, whole, tangents, str(rng.choice(given)))


def run(first: int) -> list[Wrong]:
    """Checks a group in every way."""
    cases = [make_case(seed) for seed in range(first, first + GROUP)]
    wrong: list[Wrong] = []
    for case in cases:
        given = case.k.program.arguments()
        wrong.extend(_checked(case, "alone", altdiff.solve_qp(**given, num_threads=1)))
        wrong.extend(_checked(case, "sparse", altdiff.solve_qp(**in_csc(given), num_threads=1)))
        wrong.extend(_convex(case, given))
    wrong.extend(_batch(cases))
    return wrong


def _errors(
    case: Case, found: dict[str, Array | None], right: dict[str, Array], unit: float
) -> Iterator[Any]:
    """The relative error of each part; `unit` is the size of a part that is exactly zero."""
    for name, value in right.items():
        got, expected = found[name], value.astype(np.float64)
        if got is None or not expected.size:
            continue
        scaled = (
            case.k.unit if name in ("y", "z", "z_box") else 1 / case.k.unit if name in ("P", "q") else 1.0
        )
        size = max(float(abs(expected).max()), unit * scaled)
        error = float(abs(got - expected).max()) / size if np.isfinite(got).all() else np.inf
        yield name, error


def _checked(case: Case, way: str, s: Any, slot: Any = ...) -> Iterator[Wrong]:
    """What is wrong with one solution and its derivatives."""
    k, bars, given = case.k, case.bars, case.k.program.arguments()

    def report(what: str, error: float) -> Wrong:
        return Wrong(k.kind, case.seed, way, what, error)

    if s.status != Status.SOLVED:
        yield report(f"status {s.status}", np.inf)
        return
    point = {name: getattr(s, name) for name in POINT}
    bar_size = max(float(abs(bar).max(initial=0)) for bar in bars.values()) or 1.0
    back, right_back = _dense(s.vjp(*(bars[name] for name in POINT))), gradient(k, bars)
    if way == "sparse":  # entries that are not stored have no gradient
        right_back |= {name: right_back[name] * (getattr(k.program, name) != 0) for name in MATRICES}
    sides: list[tuple[str, dict[str, Array | None], dict[str, Array], float]] = [
        ("solution", point, {name: getattr(k, name) for name in POINT}, 1.0),
        ("vjp", back, right_back, bar_size),
        ("jvp", s.jvp(**{name: case.tangents[name] for name in given})._asdict(), _tangent(case), 1.0),
        ("jacobian", {case.field: s.jacobian(case.field)}, {case.field: jacobian(k, case.field)}, 1.0),
    ]
    for side, found, right, unit in sides:
        for name, error in _errors(case, found, right, unit):
            if not error <= RIGHT:
                yield report(f"{side}.{name}", error)
    if s.degenerate or not s.unique:
        yield report(f"unique={s.unique} degenerate={s.degenerate}", 0.0)


def _tangent(case: Case) -> dict[str, Array]:
    given = case.k.program.arguments()
    zero = {name: (d if name in given else 0 * d) for name, d in case.tangents.items()}
    return tangent(case.k, zero)


def _dense(parts: Any) -> dict[str, Array | None]:
    return {name: None if value is None else dense(value) for name, value in parts._asdict().items()}


def _convex(case: Case, given: dict[str, Any]) -> Iterator[Wrong]:
    """The same program as a smooth one: its vjp."""
    k = case.k
    objective = altdiff.Quadratic(given["P"], given["q"])
    rest = {name: value for name, value in given.items() if name not in ("P", "q")}
    s = altdiff.solve_convex(objective, **rest, num_threads=1)
    if s.status != Status.SOLVED:
        yield Wrong(k.kind, case.seed, "convex", f"status {s.status}", np.inf)
        return
    g = s.vjp(*(case.bars[name] for name in POINT))
    found = {**g.objective[0], **{name: getattr(g, name) for name in FIELDS[2:]}}
    size = max(float(abs(bar).max(initial=0)) for bar in case.bars.values()) or 1.0
    for name, error in _errors(case, found, gradient(k, case.bars), size):
        if not error <= RIGHT:
            yield Wrong(k.kind, case.seed, "convex", f"vjp.{name}", error)


def _batch(cases: list[Case]) -> Iterator[Wrong]:
    """All in one call: vjp and jvp of each."""
    arguments = stack(case.k.program for case in cases).arguments()
    s = altdiff.solve_qp(**arguments, num_threads=1)
    back = s.vjp(*(np.stack([case.bars[name] for case in cases]) for name in POINT))._asdict()
    moved = s.jvp(**{name: np.stack([case.tangents[name] for case in cases]) for name in arguments})._asdict()
    for i, case in enumerate(cases):
        if s.status[i] != Status.SOLVED:
            yield Wrong(case.k.kind, case.seed, "batch", f"status {Status(s.status[i])}", np.inf)
            continue
        size = max(float(abs(bar).max(initial=0)) for bar in case.bars.values()) or 1.0
        sides: list[tuple[str, Any, dict[str, Array], float]] = [
            ("vjp", back, gradient(case.k, case.bars), size),
            ("jvp", moved, _tangent(case), 1.0),
        ]
        for side, all_of_them, right, unit in sides:
            found = {name: None if value is None else value[i] for name, value in all_of_them.items()}
            for name, error in _errors(case, found, right, unit):
                if not error <= RIGHT:
                    yield Wrong(case.k.kind, case.seed, "batch", f"{side}.{name}", error)


def died(first: int) -> list[Wrong]:
    """The result of a group whose process ended."""
    return [Wrong("all", first, "some", "the process died", np.inf)]


def main(given: argparse.Namespace) -> bool:
    """Runs the part; False if a derivative was wrong."""
    if given.only is not None:
        return show(given.only)
    groups = max(1, round(given.count / GROUP))
    firsts = [given.seed // GROUP * GROUP + GROUP * k for k in range(groups)]
    wrong = [one for part in run_all(run, died, firsts, given.workers) for one in part]
    programs = {(w.kind, w.way, w.seed) for w in wrong}
    counts = Counter((kind, way) for kind, way, _ in programs)
    rows = [
        [kind, str(groups * GROUP // len(KINDS)), *(str(counts[kind, way]) for way in WAYS)] for kind in KINDS
    ]
    text = text_table(["programs with exact derivatives", "count", *(f"wrong {way}" for way in WAYS)], rows)
    worst = sorted(wrong, key=lambda w: (w.kind, w.seed))
    Path("out").mkdir(exist_ok=True)
    Path("out/stress-exact.txt").write_text("\n".join([text, "", *map(str, worst), ""]))
    print(text)
    print(f"{len(programs)} wrong of {groups * GROUP} programs in {len(WAYS)} ways")
    seen: Counter[tuple[str, str]] = Counter()
    for one in worst:
        seen[one.kind, one.way] += 1
        if seen[one.kind, one.way] <= 3:
            print(one)
    return not wrong


def show(seed: int) -> bool:
    """Prints one program, and what is wrong with it."""
    case = make_case(seed)
    print(in_numpy(case.k.program))
    print(f"# x = {[str(value) for value in case.k.x]}, cotangents {case.bars}, tangents {case.tangents}")
    wrong = [one for one in run(seed // GROUP * GROUP) if one.seed == seed]
    print("\n".join(f"# {one}" for one in wrong))
    return not wrong
