"""`python -m benchmarks.overhead CALL`: torch's call beside the core's, taking turns on the same numbers.

CALL is the program made of call.cpp; `make bench-overhead` builds it. Medians; beside them those of
`torch.linalg.solve`, whose call has the same way through torch and solves a system of the same size.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from altdiff.torch import QPLayer

from benchmarks.peers.problems import DIMENSIONS, FIELDS, Problem
from benchmarks.peers.workloads import WORKLOADS

Seconds = tuple[float, float]  # forward, forward and backward


@dataclass(frozen=True)
class Turn:
    """One contestant: call it for some seconds, and it tells its medians."""

    name: str
    take: Callable[[float], Seconds]


def write(problem: Problem, path: Path) -> None:
    """The file that call.cpp reads."""
    arrays = [np.asarray(getattr(problem, name), dtype=np.float64) for name in FIELDS]
    counts = [
        problem.batch if array.ndim > DIMENSIONS[name] else 1
        for name, array in zip(FIELDS, arrays, strict=True)
    ]
    header = np.array([problem.batch, problem.n, problem.m, problem.p, *counts], dtype=np.int64)
    with path.open("wb") as file:
        for block in (header, *arrays, np.asarray(problem.x_bar, dtype=np.float64)):
            file.write(np.ascontiguousarray(block).tobytes())


def core(program: Path, problem: Problem, folder: Path, threads: int) -> Turn:
    """The core without Python."""
    path = folder / "problem.bin"
    write(problem, path)

    def take(seconds: float) -> Seconds:
        command = [str(program), str(path), str(seconds), str(threads)]
        forward, both = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return float(forward), float(both)

    return Turn("core", take)


def timed(
    call: Callable[[], torch.Tensor], bar: torch.Tensor, inputs: list[torch.Tensor]
) -> Callable[[float], Seconds]:
    """Medians of a call whose gradients are asked for."""

    def take(seconds: float) -> Seconds:
        forward: list[float] = []
        both: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(forward) < 3:
            for tensor in inputs:
                tensor.grad = None
            start = time.perf_counter()
            out = call()
            middle = time.perf_counter()
            torch.autograd.backward(out, bar)
            both.append(time.perf_counter() - start)
            forward.append(middle - start)
        return median(forward), median(both)

    return take


def layer(problem: Problem, threads: int) -> Turn:
    """The torch layer, with the gradients of all fields."""
    tensors = [torch.tensor(getattr(problem, name), requires_grad=True) for name in FIELDS]
    qp = QPLayer(num_threads=threads)
    return Turn("altdiff.torch", timed(lambda: qp(*tensors), torch.tensor(problem.x_bar), tensors))


def linear_solve(problem: Problem) -> Turn:
    """`torch.linalg.solve` with P and q."""
    P = torch.tensor(problem.P, requires_grad=True)
    q = torch.tensor(problem.q).unsqueeze(-1).requires_grad_()
    bar = torch.tensor(problem.x_bar).unsqueeze(-1)
    return Turn("torch.linalg.solve", timed(lambda: torch.linalg.solve(P, q), bar, [P, q]))


def compare(turns: list[Turn], rounds: int, seconds: float) -> dict[str, Seconds]:
    """Medians over the rounds, in which everyone has a turn."""
    times: dict[str, list[Seconds]] = {turn.name: [] for turn in turns}
    for _ in range(rounds):
        for turn in turns:
            times[turn.name].append(turn.take(seconds))
    return {
        name: (median(forward for forward, _ in pairs), median(both for _, both in pairs))
        for name, pairs in times.items()
    }


def report(name: str, results: dict[str, Seconds]) -> None:
    """A line for each contestant."""
    print(f"\n{name}: microseconds, and what is above the core's")
    base = results["core"]
    for who, seconds in results.items():
        numbers = [
            f"{1e6 * time:10.1f} {1e6 * (time - own):+9.1f} {time / own:7.3f}x"
            for time, own in zip(seconds, base, strict=True)
        ]
        print(f"  {who:20} forward {numbers[0]}   forward + backward {numbers[1]}")


def main() -> None:
    """Reads the options, and compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path, help="what call.cpp was built to")
    parser.add_argument("--workloads", nargs="+", default=["single-20", "mnist"], choices=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for name in options.workloads:
        problem = WORKLOADS[name].make()
        with tempfile.TemporaryDirectory() as folder:
            turns = [
                core(options.program, problem, Path(folder), options.threads),
                layer(problem, options.threads),
                linear_solve(problem),
            ]
            report(name, compare(turns, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
