"""`python -m benchmarks.soak`: very many forward and backward passes of changing shapes, and what they leave.

Dense and sparse, shared and own matrices, with and without bounds, float32 and float64, failures, starts at
earlier solutions. Prints on the way how much memory of the heap is in use, and how much of the process is
resident; once caches of bounded size are full, neither should grow.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
from typing import Any

import scipy.sparse
import torch
from altdiff.torch import QPLayer, Sparse
from tqdm import tqdm

from benchmarks.peers.worker import memory_now

MB = 1 << 20
ENOUGH = MB  # growth that is the allocator's business


class _HeapReport(ctypes.Structure):
    """What glibc says of its heap."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


def heap_in_use() -> int:
    """Bytes in blocks that somebody holds; 0 where the C library does not tell."""
    report = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if report is None:
        return 0
    report.restype = _HeapReport
    told = report()
    return int(told.uordblks + told.hblkhd)


class Shapes:
    """Problems of random shapes; all of them have solutions, but for those that are spoilt on purpose."""

    def __init__(self, seed: int, largest: int) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self._largest = largest

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(torch.randint(low, high + 1, (), generator=self._random))

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.number(1, 100) <= percent

    def normal(self, *shape: int) -> torch.Tensor:
        """Random numbers."""
        return torch.randn(*shape, dtype=torch.float64, generator=self._random)

    def problem(self) -> dict[str, Any]:
        """The fields of a batch."""
        n = self.number(1, self._largest)
        m, p, size = self.number(0, n), self.number(0, n // 3), self.number(1, 16)
        lead = (size,) if self.chance(50) else ()
        L, G, A = self.normal(*lead, n, n), self.normal(*lead, m, n), self.normal(*lead, p, n)
        P = L @ L.mT / n + 0.1 * torch.eye(n, dtype=torch.float64)
        x = 0.1 * self.normal(size, n, 1)
        fields: dict[str, Any] = {"P": P, "q": self.normal(size, n)}
        fields |= {"G": G, "h": (G @ x).squeeze(-1) + 0.1, "A": A, "b": (A @ x).squeeze(-1)}
        if self.chance(50):
            fields |= {"lb": x.squeeze(-1) - 1, "ub": x.squeeze(-1) + 1}
        if self.chance(5):
            fields["q"][0] = float("nan")
        if self.chance(20):
            fields = {name: value.float() for name, value in fields.items()}
        return {name: value.requires_grad_() for name, value in fields.items()}


def one_call(shapes: Shapes, layer: QPLayer, remembering: QPLayer) -> None:
    """A forward and a backward pass."""
    fields = shapes.problem()
    size = len(fields["q"])
    if shapes.chance(5) and fields["P"].dim() == 2:
        pattern = Sparse(scipy.sparse.csr_matrix(fields["P"].detach().double().numpy()))
        fields["P"] = pattern.with_values(pattern.values.clone().requires_grad_())
    if shapes.chance(10):
        x = remembering(**fields, index=torch.arange(size))
    elif shapes.chance(10):
        x = layer(**fields, initial=layer.solve(**fields))
    else:
        x = layer(**fields)
    torch.autograd.backward(x.square().sum())


def main() -> int:
    """Reads the options, calls, and reports; 1 if memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--largest", type=int, default=24, help="variables")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shapes = Shapes(options.seed, options.largest)
    layer = QPLayer(on_failure="zero")
    remembering = QPLayer(on_failure="zero", warm_start=True, warm_start_bytes=MB)
    part = max(1, options.calls // 10)
    resident, in_use = [], []
    for call in tqdm(range(1, options.calls + 1), mininterval=5):
        one_call(shapes, layer, remembering)
        if call % part == 0:
            gc.collect()
            resident.append(memory_now("VmRSS"))
            in_use.append(heap_in_use())
    print(f"{options.calls} forward and backward passes; after each tenth, in MB:")
    for name, sizes in (("resident", resident), ("heap in use", in_use)):
        print(f"  {name:12}" + " ".join(f"{size / MB:.2f}" for size in sizes))
    half = len(resident) // 2
    growth = {"resident": resident[-1] - resident[half - 1], "heap in use": in_use[-1] - in_use[half - 1]}
    print("growth in the second half: " + ", ".join(f"{k} {v / MB:+.2f} MB" for k, v in growth.items()))
    return 1 if max(growth.values()) > ENOUGH else 0


if __name__ == "__main__":
    raise SystemExit(main())
