"""Distributed training: two processes with half a batch each take the steps of one with the whole batch.

    torchrun --standalone --nproc_per_node=2 examples/python/distributed.py

The layer has no state of its own, so that DistributedDataParallel needs nothing special. Every process also
trains a copy on the whole batch, by itself, to compare with.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from altdiff.torch import QPLayer
from torch.nn.parallel import DistributedDataParallel


class Allocation(torch.nn.Module):
    """Shares of a budget, each at most one half: sum x = 1, 0 <= x <= 1/2."""

    def __init__(self, inputs: int, n: int) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(inputs, n).double()
        self.log_weights = torch.nn.Parameter(torch.zeros(n, dtype=torch.float64))
        self.layer = QPLayer(num_threads=1)  # the processes share the cores

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """The shares."""
        scores, one = self.scores(u), u.new_ones(1)
        P, A = torch.diag(self.log_weights.exp()), one.expand(1, len(self.log_weights))
        x: torch.Tensor = self.layer(P, -scores, A=A, b=one, lb=0.0, ub=0.5)
        return x


def train(model: torch.nn.Module, u: torch.Tensor, x: torch.Tensor, steps: int) -> float:
    """Plain gradient steps; returns the last loss."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    loss = torch.zeros(())
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(u), x)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains in all processes; the first prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=64, help="of the whole batch")
    parser.add_argument("--variables", type=int, default=6)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args(arguments)
    if "RANK" not in os.environ:
        parser.error("start me with torchrun --standalone --nproc_per_node=2")

    dist.init_process_group("gloo")
    rank, processes = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same data and the same first weights everywhere
    count = options.samples // processes * processes  # equal parts: DDP averages over processes
    u = torch.randn(count, 3, dtype=torch.float64)
    x = torch.softmax(u @ torch.randn(3, options.variables, dtype=torch.float64), dim=1)
    whole = Allocation(3, options.variables)
    part = Allocation(3, options.variables)
    part.load_state_dict(whole.state_dict())

    first = train(whole, u, x, 1)
    alone = train(whole, u, x, options.steps - 1)
    mine = slice(rank * count // processes, (rank + 1) * count // processes)
    train(DistributedDataParallel(part), u[mine], x[mine], options.steps)
    pairs = zip(part.parameters(), whole.parameters(), strict=True)
    difference = max((a - b).abs().max().item() for a, b in pairs)
    if rank == 0:
        print(f"{processes} processes, {count // processes} of {count} samples each, {options.steps} steps")
        print(f"loss from {first:.5f} to {alone:.5f}")
        print(f"largest difference to the whole batch in one process: {difference:.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
