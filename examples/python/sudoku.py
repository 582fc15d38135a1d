"""Learning constraints: the rules of 4 x 4 Sudoku from solved puzzles.

The layer returns argmin 1/2 eps |x|^2 - puzzle'x subject to A x = b, x >= 0, where x and the puzzle are
one-hot codes of the 16 cells. Nobody tells it the rules: A is learnt from the digits of solved puzzles, and
b = A x0 for a learnt x0 > 0, so that some x is always feasible. Accuracy is measured on grids that training
has never seen.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import torch
from altdiff.torch import QPLayer

CELLS, DIGITS = 16, 4


def all_grids() -> torch.Tensor:
    """The 288 grids in which every row, column and 2 x 2 box holds every digit once."""
    rows = list(itertools.permutations(range(DIGITS)))
    grids = torch.tensor([sum(four, ()) for four in itertools.product(rows, repeat=4)])
    square = grids.view(-1, 4, 4)
    boxes = square.view(-1, 2, 2, 2, 2).transpose(2, 3).reshape(-1, 4, 4)
    digits = torch.arange(DIGITS)
    good = [(group.sort(dim=-1).values == digits).all(dim=(1, 2)) for group in (square.mT, boxes)]
    return grids[good[0] & good[1]]


def make_puzzles(grids: torch.Tensor, every: torch.Tensor, blanks: int, seed: int) -> torch.Tensor:
    """A puzzle for each grid: digits are blanked out at random while the answer stays unique."""
    generator = torch.Generator().manual_seed(seed)
    kept = torch.ones_like(grids, dtype=torch.bool)
    for grid, keep in zip(grids, kept, strict=True):
        for cell in torch.randperm(CELLS, generator=generator).tolist():
            keep[cell] = False
            if ((every == grid) | ~keep).all(dim=1).sum() > 1:
                keep[cell] = True
            if (~keep).sum() == blanks:
                break
    codes = torch.nn.functional.one_hot(grids, DIGITS).double() * kept[..., None]
    return codes.flatten(1)


class RuleLearner(torch.nn.Module):
    """A puzzle in, a soft solution out."""

    def __init__(self, rules: int, seed: int, eps: float = 0.1) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        n = CELLS * DIGITS
        self.A = torch.nn.Parameter(torch.rand(rules, n, dtype=torch.float64, generator=generator))
        self.log_x0 = torch.nn.Parameter(torch.full((n,), -1.4, dtype=torch.float64))
        self.register_buffer("P", eps * torch.eye(n, dtype=torch.float64))
        self.layer = QPLayer()

    def forward(self, puzzles: torch.Tensor) -> torch.Tensor:
        """One number for each cell and digit."""
        x: torch.Tensor = self.layer(self.P, -puzzles, A=self.A, b=self.A @ self.log_x0.exp(), lb=0.0)
        return x


def accuracy(model: RuleLearner, puzzles: torch.Tensor, grids: torch.Tensor) -> tuple[float, float]:
    """The shares of blank cells and of whole puzzles that are right."""
    with torch.no_grad():
        right = model(puzzles).view(-1, CELLS, DIGITS).argmax(dim=-1) == grids
    blank = puzzles.view(-1, CELLS, DIGITS).sum(dim=-1) == 0
    return right[blank].double().mean().item(), right.all(dim=1).double().mean().item()


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, and prints the accuracy on held-out puzzles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rules", type=int, default=40, help="rows of A")
    parser.add_argument("--blanks", type=int, default=8, help="cells to fill in")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)

    every = all_grids()
    grids = every[torch.randperm(len(every))]
    puzzles = make_puzzles(grids, every, options.blanks, options.seed)
    held_out = len(grids) // 4
    targets = torch.nn.functional.one_hot(grids, DIGITS).double().flatten(1)

    model = RuleLearner(options.rules, options.seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    print("epoch  training loss  held out: cells right  puzzles right")
    for epoch in range(options.epochs + 1):
        total = 0.0
        for batch in torch.randperm(len(grids) - held_out).split(27) if epoch else ():
            rows = batch + held_out
            loss = torch.nn.functional.mse_loss(model(puzzles[rows]), targets[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(rows) / (len(grids) - held_out)
        if epoch % 5 == 0 or epoch == options.epochs:
            cells, whole = accuracy(model, puzzles[:held_out], grids[:held_out])
            shown = f"{total:.4f}" if epoch else "-"
            print(f"{epoch:5}  {shown:>13}  {cells:21.1%}  {whole:13.1%}")


if __name__ == "__main__":
    main()
