"""Derivatives as linear maps: vjp is linear, it is the adjoint of jvp, and jvp is the slope of x."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import scipy.sparse as sp
from altdiff import Status

from experiments.text_table import text_table
from tests.stress import map_programs, plain, scales  # noqa: F401  (they enter their structures)
from tests.stress.programs import POINT, Array, Program, dense, in_csc
from tests.stress.structures import GROUP, make_group
from tests.stress.workers import run_all

STRUCTURES = (
    "random_linear", "random_face", "random_weak", "linear", "face", "degenerate", "redundant", "duplicates",
    "transport", "fixed", "zero_objective", "zero_rows_of_G", "real", "box",
)  # fmt: skip
LINEAR, ADJOINT, SLOPE = "linear", "adjoint", "slope"
ALLOWED = {LINEAR: 1e-10, ADJOINT: 1e-10, SLOPE: 1e-5}
VECTORS = ("q", "h", "b", "lb", "ub")
STEP = 1e-5
CLEAR = 1e-7  # multiplier of a row that certainly pushes
TOUCHES = 1e-9  # slack of a row that certainly touches
WAYS = ("dense", "sparse", "batch", "shared")


@dataclass(frozen=True)
class Sample:
    """How far one property is from holding, of one program in one way."""

    structure: str
    seed: int
    way: str
    sort: str
    error: float
    unique: bool

    def __str__(self) -> str:
        return (
            f"{self.sort:<8}{self.error:.1e} {self.structure} {self.seed} ({self.way}, unique={self.unique})"
        )


@dataclass
class Result:
    """All samples of a group; how many differences were given up because the active set changed."""

    samples: list[Sample] = field(default_factory=list)
    changed: int = 0


def inner(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The sum of products over all parts that both have."""
    return float(sum((dense(a[name]) * dense(b[name])).sum() for name in a if a[name] is not None))


def norm(a: dict[str, Any]) -> float:
    """The Euclidean norm of all parts together."""
    return float(np.sqrt(sum((dense(v) ** 2).sum() for v in a.values() if v is not None)))


def _random_bars(rng: np.random.Generator, s: Any, only: str | None) -> dict[str, Array]:
    keep = {name: float(only in (None, name)) for name in POINT}
    return {name: keep[name] * rng.normal(size=getattr(s, name).shape) for name in POINT}


def _random_tangents(rng: np.random.Generator, given: dict[str, Any]) -> dict[str, Any]:
    """A direction of every field: of a sparse one on its pattern, of P symmetric."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        d = rng.normal(size=value.shape)
        if name == "P":
            d = d + d.swapaxes(-1, -2)
        out[name] = sp.csc_matrix(d * (dense(value) != 0)) if hasattr(value, "toarray") else d
    return out


def _vjp(s: Any, bars: dict[str, Array]) -> dict[str, Any]:
    return dict(s.vjp(*(bars[name] for name in POINT))._asdict())


def errors(s: Any, given: dict[str, Any], rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """How far vjp is from being linear, and from being the adjoint of jvp, for each cotangent and for all."""
    for only in (*POINT, None):
        a, c = _random_bars(rng, s, only), _random_bars(rng, s, only)
        d = _random_tangents(rng, given)
        back, other = _vjp(s, a), _vjp(s, c)
        both = _vjp(s, {name: a[name] + 2 * c[name] for name in POINT})
        rest = {name: dense(both[name]) - dense(back[name]) - 2 * dense(other[name]) for name in given}
        yield LINEAR, norm(rest) / max(norm(both), norm(back), norm(other), 1e-300)
        moved = dict(s.jvp(**d)._asdict())
        left, right = inner({name: back[name] for name in given}, d), inner(moved, a)
        size = max(norm({name: back[name] for name in given}) * norm(d), norm(moved) * norm(a), 1e-300)
        yield ADJOINT, abs(left - right) / size


def _active(program: Program, s: Any) -> tuple[Array, ...]:
    """Which constraints touch x, and which have a force."""
    slack = program.h - program.G @ s.x
    return (
        slack < TOUCHES,
        s.z > CLEAR,
        s.x - program.lb < TOUCHES,
        program.ub - s.x < TOUCHES,
        abs(s.z_box) > CLEAR,
    )


def _direction(program: Program, s: Any, rng: np.random.Generator, along: bool) -> dict[str, Array]:
    """A direction of the vectors; `along`: one of q in which a face of solutions stays one."""
    given = program.arguments()
    d = {name: rng.normal(size=given[name].shape) for name in VECTORS if name in given}
    if (program.lb == program.ub).any():  # they must stay equal
        d = {name: value for name, value in d.items() if name not in ("lb", "ub")}
    if along:
        n, m, p = program.shape
        forces = program.G.T @ (rng.normal(size=m) * (s.z > CLEAR)) + rng.normal(size=n) * (
            abs(s.z_box) > CLEAR
        )
        d["q"] = program.P @ rng.normal(size=n) + program.A.T @ rng.normal(size=p) + forces
    return d


def slope_error(
    program: Program, s: Any, rng: np.random.Generator, sparse: bool, along: bool
) -> float | None:
    """The difference quotient of x against jvp; None if the active set changes on the way."""
    given, d = program.arguments(), _direction(program, s, rng, along)
    before, ends = _active(program, s), []
    for sign in (-1, 1):
        moved = {name: value + sign * STEP * d[name] if name in d else value for name, value in given.items()}
        end = _solve(moved, sparse)
        after = _active(Program(**{**vars(program), **moved}), end)
        changed = any((one != other).any() for one, other in zip(before, after, strict=True))
        if end.status != Status.SOLVED or changed:
            return None
        ends.append(end.x)
    quotient, tangent = (ends[1] - ends[0]) / (2 * STEP), s.jvp(**d).x
    return float(abs(quotient - tangent).max() / max(1.0, abs(tangent).max()))


def _solve(given: dict[str, Any], sparse: bool) -> Any:
    return altdiff.solve_qp(**(in_csc(given) if sparse else given), num_threads=1)


def run(task: tuple[str, int]) -> Result:
    """Checks a group of programs, one by one and in batches."""
    structure, first = task
    programs, result = make_group(structure, first), Result()
    solved = []
    for i in range(GROUP):
        rng = np.random.default_rng([3, first + i])
        given = programs[i].arguments()
        s = _solve(given, sparse=False)
        if s.status != Status.SOLVED:
            continue
        solved.append(i)
        for way, one in (("dense", s), ("sparse", _solve(given, sparse=True))):
            arguments = in_csc(given) if way == "sparse" else given
            if one.status != Status.SOLVED:
                continue
            samples = list(errors(one, arguments, rng))
            for along in (False, True):
                error = slope_error(programs[i], one, rng, way == "sparse", along)
                result.changed += error is None
                samples += [] if error is None else [(SLOPE, error)]
            result.samples += [Sample(structure, first + i, way, *pair, bool(one.unique)) for pair in samples]
        result.samples += _shared(structure, first + i, given, rng)
    if solved:
        result.samples += _batch(structure, first, programs[solved])
    return result


def _batch(structure: str, first: int, programs: Program) -> Iterator[Sample]:
    """The properties of a batch as one map."""
    given = programs.arguments()
    s = altdiff.solve_qp(**given, num_threads=1)
    if (s.status == Status.SOLVED).all():
        for sort, error in errors(s, given, np.random.default_rng([4, first])):
            yield Sample(structure, first, "batch", sort, error, bool(s.unique.all()))


def _shared(structure: str, seed: int, given: dict[str, Any], rng: np.random.Generator) -> Iterator[Sample]:
    """Two instances that share all but q, which differs little: their gradients are sums."""
    q = np.stack([given["q"], given["q"] * 1.25])
    arguments = {**given, "q": q}
    s = altdiff.solve_qp(**arguments, num_threads=1)
    if (s.status == Status.SOLVED).all():
        for sort, error in errors(s, arguments, rng):
            yield Sample(structure, seed, "shared", sort, error, bool(s.unique.all()))


def died(task: tuple[str, int]) -> Result:
    """The result of a group whose process ended."""
    return Result([Sample(*task, "dense", LINEAR, np.inf, False)])


def main(given: argparse.Namespace) -> bool:
    """Runs the part; False if a property does not hold."""
    groups = max(1, round(given.count / GROUP / len(STRUCTURES)))
    firsts = [given.seed // GROUP * GROUP + GROUP * k for k in range(groups)]
    tasks = [(name, first) for first in firsts for name in STRUCTURES]
    samples: list[Sample] = []
    changed = 0
    for part in run_all(run, died, tasks, given.workers):
        samples += part.samples
        changed += part.changed
    text, bad = report(samples)
    Path("out").mkdir(exist_ok=True)
    Path("out/stress-maps.txt").write_text("\n".join([text, "", *map(str, bad), ""]))
    print(text)
    slopes = sum(s.sort == SLOPE for s in samples)
    print(f"{slopes} differences compared, {changed} given up where the active set changed")
    print(f"{len(bad)} of {len(samples)} samples beyond {ALLOWED}; the worst:")
    print("\n".join(str(s) for s in bad[:12]))
    return not bad


def report(samples: list[Sample]) -> tuple[str, list[Sample]]:
    """The worst error of each sort, and how many are beyond what is allowed; what is, worst first."""
    table: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for s in samples:
        table[s.structure, s.way][s.sort].append(s.error)
    rows = []
    for (structure, way), sorts in sorted(table.items()):
        cells = []
        for sort, allowed in ALLOWED.items():
            found = sorts.get(sort, [])
            over = sum(not error <= allowed for error in found)
            cells += [str(len(found)), f"{max(found):.0e}" if found else "-", str(over)]
        rows.append([f"{structure}, {way}", *cells])
    head = ["programs", *(word for sort in ALLOWED for word in (sort, "worst", "over"))]
    bad = sorted((s for s in samples if not s.error <= ALLOWED[s.sort]), key=lambda s: -s.error)
    return text_table(head, rows), bad
