"""A portfolio with a turnover limit: a predictor trained for the decision, beside one trained for its error.

Returns depend on features by a cubic rule, which a linear predictor cannot express. From predicted returns
mu, the layer chooses what to buy and to sell:

    maximise  mu'x - risk/2 x'Sx - cost/2 |trades|^2   where   x = holdings + buy - sell
    subject to  sum buy = sum sell,  sum buy + sum sell <= turnover,  x >= 0,  buy, sell >= 0

One linear predictor has the least squared error; the other starts from it and maximises the utility of the
decision, through the layer. Both see the same data; utilities are those of realised returns on new data. With
`--rule linear` the predictor can express the rule, and training for the decision loses a little.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from altdiff.torch import QPLayer

RISK, COST, TURNOVER = 2.0, 0.2, 0.6


@dataclass
class Market:
    """Samples of features, realised returns and earlier holdings, and the covariance of the returns."""

    features: torch.Tensor
    returns: torch.Tensor
    holdings: torch.Tensor
    covariance: torch.Tensor

    def part(self, rows: slice | torch.Tensor) -> Market:
        """Some of the samples."""
        return Market(self.features[rows], self.returns[rows], self.holdings[rows], self.covariance)


def make_market(samples: int, assets: int, rule: str, seed: int) -> Market:
    """Returns that are cubic or linear in the features, with correlated noise."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    features = normal(samples, 4)
    signal = 0.6 * features @ normal(4, assets) / 2
    noise_factor = 0.15 * normal(assets, assets) / assets**0.5
    covariance = noise_factor @ noise_factor.T + 0.01 * torch.eye(assets, dtype=torch.float64)
    noise = normal(samples, assets) @ torch.linalg.cholesky(covariance).T
    holdings = torch.rand(samples, assets, dtype=torch.float64, generator=generator)
    expected = signal if rule == "linear" else signal**3 - 0.2 * signal
    return Market(features, expected + noise, holdings / holdings.sum(1, keepdim=True), covariance)


class Trader(torch.nn.Module):
    """Predicts returns, and trades on them."""

    def __init__(self, features: int, assets: int) -> None:
        super().__init__()
        self.predict = torch.nn.Linear(features, assets).double()
        self.layer = QPLayer()

    def forward(self, market: Market) -> torch.Tensor:
        """The new portfolio of each sample."""
        S, old = market.covariance, market.holdings
        n = len(S)
        change = torch.cat([torch.eye(n), -torch.eye(n)], dim=1).to(S)  # of x by (buy, sell)
        P = RISK * change.T @ S @ change + COST * torch.eye(2 * n).to(S)
        q = (RISK * old @ S - self.predict(market.features)) @ change
        G = torch.cat([-change, torch.ones(1, 2 * n).to(S)])
        h = torch.nn.functional.pad(old, (0, 1), value=TURNOVER)
        A, b = change.sum(dim=0, keepdim=True), torch.zeros(1).to(S)
        trades: torch.Tensor = self.layer(P, q, G, h, A, b, lb=0.0)
        return old + trades @ change.T


def utility(x: torch.Tensor, market: Market) -> torch.Tensor:
    """What each decision is worth, at realised returns."""
    risk = ((x @ market.covariance) * x).sum(dim=1)
    cost = (x - market.holdings).pow(2).sum(dim=1)
    return (market.returns * x).sum(dim=1) - RISK / 2 * risk - COST / 2 * cost


def fit_returns(trader: Trader, market: Market) -> None:
    """The predictor with the least squared error."""
    inputs = torch.nn.functional.pad(market.features, (0, 1), value=1.0)
    best = torch.linalg.lstsq(inputs, market.returns).solution.T
    with torch.no_grad():
        trader.predict.weight.copy_(best[:, :-1])
        trader.predict.bias.copy_(best[:, -1])


def train(trader: Trader, market: Market, steps: int) -> None:
    """Maximises the utility of the decisions."""
    optimiser = torch.optim.Adam(trader.parameters(), lr=0.02)
    for _ in range(steps):
        batch = market.part(torch.randint(len(market.features), (128,)))
        loss = -utility(trader(batch), batch).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains both, and prints error and utility on new data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=1000, help="to train on; twice as many to test")
    parser.add_argument("--assets", type=int, default=8)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rule", choices=("cubic", "linear"), default="cubic", help="behind the returns")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)

    market = make_market(3 * options.samples, options.assets, options.rule, options.seed)
    seen, new = market.part(slice(0, options.samples)), market.part(slice(options.samples, None))
    squared = Trader(4, options.assets)
    fit_returns(squared, seen)
    decision = Trader(4, options.assets)
    decision.load_state_dict(squared.state_dict())
    train(decision, seen, options.steps)

    print("trained for     prediction error  utility  largest turnover")
    worth = []
    with torch.no_grad():
        for name, trader in (("squared error", squared), ("decision", decision)):
            x = trader(new)
            worth.append(utility(x, new))
            error = (trader.predict(new.features) - new.returns).pow(2).mean().sqrt().item()
            turnover = (x - new.holdings).abs().sum(dim=1).max().item()
            print(f"{name:14}  {error:16.4f}  {worth[-1].mean().item():7.4f}  {turnover:16.4f}")
    gain = worth[1] - worth[0]
    spread = gain.std().item() / len(gain) ** 0.5
    print(f"gain by training for the decision: {gain.mean().item():.4f} +- {spread:.4f} (standard error)")


if __name__ == "__main__":
    main()
