"""What somebody wants, learnt from what they buy: an objective of one's own as a layer.

A household spends its budget on the bundle x that it likes best:

    maximise  sum_i a_i log(x_i + c_i)   subject to   price'x <= budget,  x >= 0

Large c_i make good i a luxury, of which nothing is bought while money is short: x is at its bound, and the
layer's derivative knows it. Training sees prices, budgets and noisy bundles, and finds a and c.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from altdiff.torch import ConvexLayer


@dataclass
class Choices:
    """Prices and budgets, and the bundles that were bought."""

    price: torch.Tensor
    budget: torch.Tensor
    bundle: torch.Tensor


def dislike(x: torch.Tensor, a: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Minus the utility of one bundle."""
    return -(a * torch.log(x + c)).sum()


class Household(torch.nn.Module):
    """The bundle that is liked best, by tastes that are learnt."""

    def __init__(self, goods: int) -> None:
        super().__init__()
        self.taste = torch.nn.Parameter(torch.zeros(goods, dtype=torch.float64))
        self.luxury = torch.nn.Parameter(torch.zeros(goods, dtype=torch.float64))
        self.layer = ConvexLayer(dislike, warm_start=True)

    @property
    def a(self) -> torch.Tensor:
        """Shares: positive, with the sum one."""
        return torch.softmax(self.taste, 0)

    @property
    def c(self) -> torch.Tensor:
        """Positive."""
        return torch.exp(self.luxury)

    def forward(self, price: torch.Tensor, budget: torch.Tensor) -> torch.Tensor:
        """One row a household; a and c are shared."""
        bundle: torch.Tensor = self.layer(
            self.a, self.c, G=price.unsqueeze(-2), h=budget.unsqueeze(-1), lb=torch.zeros_like(price)
        )
        return bundle


def make_choices(truth: Household, samples: int, noise: float, seed: int) -> Choices:
    """What households with the true tastes buy, observed with an error of a given relative size."""
    generator = torch.Generator().manual_seed(seed)
    goods = len(truth.taste)
    price = 0.5 + torch.rand(samples, goods, dtype=torch.float64, generator=generator)
    budget = 0.5 + 3.0 * torch.rand(samples, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        bundle = truth(price, budget)
    error = 1.0 + noise * torch.randn(bundle.shape, dtype=torch.float64, generator=generator)
    return Choices(price, budget, bundle * error)


def train(household: Household, seen: Choices, steps: int) -> list[float]:
    """Fits the bundles; returns the losses. Gradients are exact enough for a quasi-Newton method."""
    optimiser = torch.optim.LBFGS(household.parameters(), max_iter=steps, line_search_fn="strong_wolfe")
    losses: list[float] = []

    def loss() -> float:
        optimiser.zero_grad()
        error = (household(seen.price, seen.budget) - seen.bundle).pow(2).mean()
        error.backward()
        losses.append(error.item())
        return losses[-1]

    optimiser.step(loss)
    return losses


def draw(path: str, truth: Household, household: Household) -> None:
    """What is bought as the budget grows, at equal prices: true lines, learnt dots."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    budget = torch.linspace(0.1, 4.0, 40, dtype=torch.float64)
    price = torch.ones(len(budget), len(truth.taste), dtype=torch.float64)
    figure, axes = plt.subplots(figsize=(6, 3.4))
    with torch.no_grad():
        expected, found = truth(price, budget), household(price, budget)
    for i in range(expected.shape[1]):
        line = axes.plot(budget, expected[:, i], label=f"good {i + 1}")[0]
        axes.plot(budget[::3], found[::3, i], "o", ms=4, color=line.get_color())
    axes.set_xlabel("budget")
    axes.set_ylabel("bought (lines: true, dots: learnt)")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, and prints tastes and errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--noise", type=float, default=0.02, help="relative error of the observed bundles")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", help="an .svg file with what is bought as the budget grows")
    options = parser.parse_args(arguments)

    truth = Household(4)
    with torch.no_grad():
        truth.taste.copy_(torch.tensor([0.4, 0.3, 0.2, 0.1]).log())
        truth.luxury.copy_(torch.tensor([0.05, 0.3, 0.8, 0.1]).log())
    seen = make_choices(truth, options.samples, options.noise, options.seed)
    new = make_choices(truth, options.samples, 0.0, options.seed + 1)
    household = Household(4)
    losses = train(household, seen, options.steps)

    with torch.no_grad():
        error = (household(new.price, new.budget) - new.bundle).abs().mean().item()
    for name in ("a", "c"):
        for who, model in (("true", truth), ("learnt", household)):
            shown = "  ".join(f"{value:6.3f}" for value in getattr(model, name).tolist())
            print(f"{name} {who:7} {shown}")
    bought = (seen.bundle > 1e-6).double().mean().item()
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.5f}; {100 * bought:.0f} % of the goods are bought at all")
    print(f"mean error of a bundle at new prices: {error:.4f}")
    if options.figure:
        draw(options.figure, truth, household)


if __name__ == "__main__":
    main()
