"""A quadratic program with learnt matrices inside a network, and an ordinary training loop.

The block between two linear layers solves, for each sample's q,

    argmin 1/2 x'Px + q'x   subject to   G x <= h,      P = L L' + 0.1 I,   h = G x0 + s,   s > 0

where L, G, x0 and s are parameters: P stays positive definite, and x0 stays feasible, whatever training does.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence

import torch
from altdiff.torch import QPLayer


class QPBlock(torch.nn.Module):
    """Maps (..., n) to (..., n); all samples share P, G and h, which are factorised once."""

    def __init__(self, n: int, rows: int) -> None:
        super().__init__()
        self.L = torch.nn.Parameter(torch.eye(n) + 0.1 * torch.randn(n, n))
        self.G = torch.nn.Parameter(torch.randn(rows, n) / n**0.5)
        self.x0 = torch.nn.Parameter(torch.zeros(n))
        self.log_s = torch.nn.Parameter(torch.full((rows,), -1.0))
        self.layer = QPLayer()

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        """The minimisers."""
        P = self.L @ self.L.T + 0.1 * torch.eye(len(self.L)).to(q)
        x: torch.Tensor = self.layer(P, q, self.G, self.G @ self.x0 + self.log_s.exp())
        return x


class Classifier(torch.nn.Module):
    """Linear, quadratic program, linear."""

    def __init__(self, n: int, rows: int) -> None:
        super().__init__()
        self.before = torch.nn.Linear(2, n)
        self.block = QPBlock(n, rows)
        self.after = torch.nn.Linear(n, 2)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Scores of the two classes."""
        scores: torch.Tensor = self.after(self.block(self.before(points)))
        return scores


def two_spirals(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two arms of a spiral, and which arm they are on."""
    label = torch.randint(2, (count,), generator=generator)
    angle = 4.0 * torch.rand(count, generator=generator).sqrt() + 0.3
    turn = angle + torch.pi * label
    points = torch.stack([angle * turn.cos(), angle * turn.sin()], dim=1) / 2
    return points + 0.05 * torch.randn(count, 2, generator=generator), label


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, and prints loss and accuracy; a saved and loaded copy gives the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--samples", type=int, default=512, help="to train on; as many again to test")
    parser.add_argument("--variables", type=int, default=12)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    points, label = two_spirals(options.samples, generator)
    new_points, new_label = two_spirals(options.samples, generator)

    model = Classifier(options.variables, options.rows)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    print("epoch    loss  accuracy on new points")
    for epoch in range(options.epochs + 1):
        for rows in torch.randperm(len(points)).split(64) if epoch else ():
            loss = torch.nn.functional.cross_entropy(model(points[rows]), label[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if epoch % max(1, options.epochs // 4) == 0:
            with torch.no_grad():
                scores = model(new_points)
            loss = torch.nn.functional.cross_entropy(scores, new_label)
            right = (scores.argmax(dim=1) == new_label).double().mean().item()
            print(f"{epoch:5}  {loss.item():6.4f}  {right:22.1%}")

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    copy = Classifier(options.variables, options.rows)
    copy.load_state_dict(torch.load(file))
    with torch.no_grad():
        print("saved and loaded: the same scores:", torch.equal(copy(new_points), model(new_points)))


if __name__ == "__main__":
    main()
