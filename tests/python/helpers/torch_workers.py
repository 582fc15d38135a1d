"""What other processes run in the tests of the torch layer: they import it by name."""

from __future__ import annotations

import gc
from typing import Any

import torch
from altdiff.torch import QPLayer


class Projections(torch.utils.data.Dataset[torch.Tensor]):
    """Points of the box [0, 1]^3, each found by a solve when it is asked for."""

    def __init__(self, points: torch.Tensor) -> None:
        self.points = points
        self.layer = QPLayer(tolerance=1e-9)

    def __len__(self) -> int:
        """How many points."""
        return len(self.points)

    def __getitem__(self, index: int) -> torch.Tensor:
        """One of them."""
        one = torch.eye(3, dtype=torch.float64)
        x: torch.Tensor = self.layer(one, -self.points[index], lb=0.0, ub=1.0)
        return x


class Network(torch.nn.Module):
    """A linear map in front of a program whose matrix is a parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = torch.nn.Linear(3, 4, dtype=torch.float64)
        self.factor = torch.nn.Parameter(torch.eye(4, dtype=torch.float64))
        self.layer = QPLayer()

    def forward(self, inputs: torch.Tensor) -> Any:
        """One solution for each input."""
        P = self.factor @ self.factor.T + 0.1 * torch.eye(4, dtype=torch.float64)
        return self.layer(P, self.features(inputs), lb=torch.full((4,), -0.5, dtype=torch.float64))


def gradients_of_a_share(rank: int, processes: int, store: str, inputs: torch.Tensor, target: str) -> None:
    """Trains one step on every `processes`-th input, and saves the gradients that come out."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=processes
    )
    network = torch.nn.parallel.DistributedDataParallel(Network())
    network(inputs[rank::processes]).pow(2).mean().backward()
    if rank == 0:
        torch.save([parameter.grad for parameter in network.parameters()], target)
    # The network keeps gloo's threads, and these tensors of Python's: one that lets go of its own while the
    # interpreter shuts down aborts the process. With the network gone, the threads end here.
    del network
    gc.collect()
    torch.distributed.destroy_process_group()
