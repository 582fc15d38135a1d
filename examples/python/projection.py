"""A projection onto a polytope as the last layer of a network: its outputs are always feasible.

A dispatcher maps measurements to the outputs of generators, which have limits, share lines with limits, and
must meet a total: G x <= h, A x = b, lb <= x <= ub. Two equal networks learn the same data, one with the
projection as its last layer, one without and projected only after training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from altdiff.torch import QPLayer


class Polytope(torch.nn.Module):
    """The closest point of {G x <= h, sum x = total, 0 <= x <= 1}."""

    eye: torch.Tensor
    G: torch.Tensor
    h: torch.Tensor
    A: torch.Tensor
    b: torch.Tensor

    def __init__(self, n: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("eye", torch.eye(n, dtype=torch.float64))
        self.register_buffer("G", torch.rand(n // 2, n, dtype=torch.float64, generator=generator).round())
        self.register_buffer("h", 0.3 * self.G.sum(dim=1) + 0.2)
        self.register_buffer("A", torch.ones(1, n, dtype=torch.float64))
        self.register_buffer("b", torch.tensor([0.3 * n], dtype=torch.float64))
        self.layer = QPLayer()

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """argmin |x - y|^2 over the polytope."""
        x: torch.Tensor = self.layer(self.eye, -y, self.G, self.h, self.A, self.b, lb=0.0, ub=1.0)
        return x

    def violation(self, x: torch.Tensor) -> float:
        """The largest amount by which a constraint does not hold."""
        rows = [x @ self.G.T - self.h, (x @ self.A.T - self.b).abs(), -x, x - 1]
        return max(0.0, max(part.max().item() for part in rows))


def network(inputs: int, n: int) -> torch.nn.Sequential:
    """The network before its last layer."""
    return torch.nn.Sequential(torch.nn.Linear(inputs, 64), torch.nn.Tanh(), torch.nn.Linear(64, n)).double()


def train(model: torch.nn.Module, u: torch.Tensor, x: torch.Tensor, steps: int) -> None:
    """Fits x to u."""
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(u), (64,))
        loss = torch.nn.functional.mse_loss(model(u[rows]), x[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains both, and prints error and violation on new data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--samples", type=int, default=512, help="to train on; as many again to test")
    parser.add_argument("--variables", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    n, inputs = options.variables, 4

    polytope = Polytope(n, torch.Generator().manual_seed(options.seed))
    u = torch.randn(2 * options.samples, inputs, dtype=torch.float64)
    wish = torch.sin(u @ torch.randn(inputs, n, dtype=torch.float64))
    x = polytope(wish)
    seen, new = slice(0, options.samples), slice(options.samples, None)

    plain = network(inputs, n)
    projected = torch.nn.Sequential(network(inputs, n), polytope)
    projected[0].load_state_dict(plain.state_dict())
    train(plain, u[seen], x[seen], options.steps)
    train(projected, u[seen], x[seen], options.steps)
    with torch.no_grad():
        raw, inside = plain(u[new]), projected(u[new])
        afterwards = polytope(raw)
    print("network                        test error  largest violation")
    for name, value in (
        ("without projection", raw),
        ("projected after training", afterwards),
        ("projection as a layer", inside),
    ):
        error = (value - x[new]).pow(2).mean().sqrt().item()
        print(f"{name:29}  {error:10.4f}  {polytope.violation(value):17.1e}")


if __name__ == "__main__":
    main()
