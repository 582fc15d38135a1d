"""How much memory a batch takes, measured in processes of their own.

Kept for derivatives are, in numbers of 8 bytes, (n + p + k) n + (p + k) p for every distinct set of matrices,
where k counts inequalities and bounded variables, and |S|^2 for every instance, where S are its active
constraints: half of that where instances share matrices.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from altdiff.torch import QPLayer

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
ROOT = Path(__file__).parents[2]
NUMBER = 8
MB = 1 << 20
SLACK = 4 * MB  # workspaces of two threads, pages that are only partly used, and what the allocator keeps


def of_matrices(n: int, m: int, p: int) -> int:
    """Bytes that are kept for one set of matrices; without bounds k = m."""
    return NUMBER * ((n + p + m) * n + (p + m) * p)


def memory(key: str) -> int:
    """A line of the kernel's report on this process, in bytes."""
    lines = (line.split() for line in STATUS.read_text().splitlines())
    return next(1024 * int(words[1]) for words in lines if words[0] == f"{key}:")


def forget_the_peak() -> None:
    """Gives back what is free, and lets the peak begin at what is left."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    CLEAR_REFS.write_text("5")


def problem(n: int, m: int, p: int, size: int, own: bool) -> list[torch.Tensor]:
    """P, q, G, h, A and b of a feasible batch that needs gradients; `own`: each instance has its matrices."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    lead = (size,) if own else ()
    L, G, A = normal(*lead, n, n), normal(*lead, m, n), normal(*lead, p, n)
    x, slack = normal(size, n, 1), normal(size, m, 1).abs()
    P = L @ L.mT / n + torch.eye(n, dtype=torch.float64)
    fields = [P, 2 * normal(size, n), G, (G @ x + slack).squeeze(-1), A, (A @ x).squeeze(-1)]
    return [field.requires_grad_() for field in fields]


def one_pass(n: int, m: int, p: int, size: int, own: bool) -> dict[str, Any]:
    """What a forward and a backward pass add to this process."""
    layer = QPLayer(num_threads=2)
    layer(*problem(10, 5, 5, 8, own)).sum().backward()  # whatever is made once is made here
    fields = problem(n, m, p, size, own)
    forget_the_peak()
    before = memory("VmRSS")
    x = layer(*fields)
    kept = memory("VmRSS") - before
    x.sum().backward()
    peak = memory("VmHWM") - before
    z = layer.solve(*fields).z
    return {"kept": kept, "peak": peak, "active": (z > 0).sum(dim=-1).tolist()}


def energy(n: int, m: int, p: int, size: int, own: bool) -> dict[str, Any]:
    """The most that a pass of energy scheduling adds, and the size of all that goes in and comes out."""
    from benchmarks.peers.problems import energy_problem

    layer = QPLayer(num_threads=2)
    problem = energy_problem(size, seed=1)

    def fields(count: int) -> list[torch.Tensor]:
        arrays = [problem.P, problem.q[:count], problem.G, problem.h]
        return [torch.tensor(array, requires_grad=True) for array in arrays]

    def passed(tensors: list[torch.Tensor], cotangent: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = layer(*tensors)
        torch.autograd.backward(x, cotangent)
        return x

    cotangent = torch.ones(size, n, dtype=torch.float64)
    passed(fields(64), cotangent[:64])  # whatever is made once is made here
    tensors = fields(size)
    forget_the_peak()
    before = memory("VmRSS")
    x = passed(tensors, cotangent)
    peak = memory("VmHWM") - before
    inputs = sum(tensor.nbytes for tensor in tensors)
    gradients = sum(tensor.grad.nbytes for tensor in tensors if tensor.grad is not None)
    return {"peak": inputs + peak, "size": inputs + x.nbytes + gradients}


def many_passes(n: int, m: int, p: int, size: int, own: bool) -> dict[str, Any]:
    """How much 200 passes add to what 20 have taken."""
    layer = QPLayer(num_threads=2)
    fields = problem(n, m, p, size, own)
    early = 0
    for call in range(220):
        layer(*fields).sum().backward()
        if call == 20:
            early = memory("VmRSS")
    return {"growth": memory("VmRSS") - early}


def in_a_process_of_its_own(task: str, n: int, m: int, p: int, size: int, own: bool) -> Any:
    arguments = [task, *map(str, (n, m, p, size, int(own)))]
    command = [sys.executable, __file__, *arguments]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


can_measure = pytest.mark.skipif(
    not os.access(CLEAR_REFS, os.W_OK), reason="the peak of a process is measured by what Linux reports"
)


@can_measure
def test_a_forward_and_a_backward_pass_with_shared_matrices_need_little_more_than_what_they_keep() -> None:
    n, m, p, size = 200, 50, 50, 64
    measured = in_a_process_of_its_own("one_pass", n, m, p, size, own=False)
    sets = sum(NUMBER * count**2 for count in measured["active"])
    outputs = NUMBER * size * (2 * n + p + m)  # x, y, z and z_box
    gradients = NUMBER * ((n + m + p) * n + size * (n + m + p))
    kept = of_matrices(n, m, p) + sets + outputs
    assert measured["kept"] <= kept + SLACK
    assert (
        measured["peak"] <= kept + gradients + outputs + SLACK
    )  # twice the outputs: the adjoint is like them


@can_measure
def test_with_matrices_of_their_own_memory_is_kept_in_proportion_to_the_batch() -> None:
    n, m, p, sizes = 60, 30, 10, (64, 256)
    few, many = (in_a_process_of_its_own("one_pass", n, m, p, size, own=True) for size in sizes)
    slope = (many["kept"] - few["kept"]) / (sizes[1] - sizes[0])
    sets = sum(NUMBER * count**2 for count in many["active"]) / sizes[1]
    expected = of_matrices(n, m, p) + sets
    assert 0.7 * expected < slope < 1.3 * expected


@can_measure
def test_a_pass_of_thousands_of_small_problems_needs_three_times_what_goes_in_and_comes_out() -> None:
    measured = in_a_process_of_its_own("energy", 24, 46, 0, 4096, own=False)
    assert measured["peak"] <= 3 * measured["size"]


@can_measure
@pytest.mark.parametrize("own", [False, True])
def test_two_hundred_passes_need_no_more_than_twenty(own: bool) -> None:
    assert in_a_process_of_its_own("many_passes", 40, 20, 5, 32, own)["growth"] < 2 * MB


if __name__ == "__main__":
    tasks = {"one_pass": one_pass, "energy": energy, "many_passes": many_passes}
    n, m, p, size = map(int, sys.argv[2:6])
    print(json.dumps(tasks[sys.argv[1]](n, m, p, size, own=sys.argv[6] == "1")))
