"""Training a forecast of demand for the sake of its schedule, or for its own sake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from tqdm import tqdm

from experiments.load_data import NEXT_HOURS, PAST_HOURS, DataSplit, Days
from experiments.scheduling import Scheduler, schedule_loss

EVALUATION_BATCH = 512


@dataclass(frozen=True)
class TrainingOptions:
    """The settings of one training."""

    epochs: int
    seed: int
    batch_size: int = 64
    hidden: int = 200
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class Samples:
    """Days as tensors, with the schedule that perfect foresight would choose."""

    past: Tensor
    demand: Tensor
    best_schedule: Tensor

    @staticmethod
    def of(days: Days, scheduler: Scheduler) -> Samples:
        """Solves for the best schedules, once."""
        demand = torch.from_numpy(days.demand)
        return Samples(torch.from_numpy(days.past), demand, schedule_all(scheduler, demand))

    def __len__(self) -> int:
        return self.demand.shape[0]


@dataclass(frozen=True)
class EnergyTask:
    """The problem, the days to learn from and the later days to be judged on."""

    scheduler: Scheduler
    train: Samples
    test: Samples

    @staticmethod
    def of(data: DataSplit, ramp_limit: float) -> EnergyTask:
        """Solves for the best schedules, once."""
        scheduler = Scheduler(ramp_limit)
        return EnergyTask(scheduler, Samples.of(data.train, scheduler), Samples.of(data.test, scheduler))


@dataclass
class History:
    """Losses after every epoch; `train` is the running mean of what the optimiser saw."""

    train: list[float] = field(default_factory=list)
    test: list[float] = field(default_factory=list)


class Forecaster(torch.nn.Module):
    """Two hidden layers: the next 24 hours of demand from the past 72."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, hidden: int, past: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", past.mean())
        self.register_buffer("deviation", past.std())
        self.network = torch.nn.Sequential(
            torch.nn.Linear(PAST_HOURS, hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, NEXT_HOURS),
        ).double()

    def forward(self, past: Tensor) -> Tensor:
        """Demand in the unit of `past`."""
        output: Tensor = self.network((past - self.mean) / self.deviation)
        return self.mean + self.deviation * output


Loss = Callable[[Tensor, Samples, Tensor], Tensor]  # forecast, samples, which of the samples


def loss_of_schedule(scheduler: Scheduler) -> Loss:
    """The paper's loss: how far the forecast's schedule is from the best one, through the QP layer."""
    return lambda forecast, days, chosen: schedule_loss(scheduler(forecast), days.best_schedule[chosen])


def loss_of_demand(forecast: Tensor, days: Samples, chosen: Tensor) -> Tensor:
    """Plain squared error on the same scale; it knows nothing of the schedule."""
    return 0.5 * (forecast - days.demand[chosen]).square().sum(dim=-1).mean()


def schedule_all(scheduler: Scheduler, demand: Tensor) -> Tensor:
    """Schedules of many days, without a graph."""
    with torch.no_grad():
        return torch.cat([scheduler(part) for part in torch.split(demand, EVALUATION_BATCH)])


def evaluate(task: EnergyTask, forecast: Tensor, days: Samples) -> float:
    """The paper's loss of a forecast, however that forecast was made."""
    return float(schedule_loss(schedule_all(task.scheduler, forecast), days.best_schedule))


def forecast_all(model: Forecaster, days: Samples) -> Tensor:
    """Forecasts of many days, without a graph."""
    with torch.no_grad():
        forecast: Tensor = model(days.past)
    return forecast


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Every sample once, in random order."""
    yield from torch.split(torch.randperm(count, generator=generator), size)


def train(task: EnergyTask, loss: Loss, options: TrainingOptions, title: str) -> tuple[Forecaster, History]:
    """Adam on `loss`, and the paper's loss on the test days after every epoch.

    The seed fixes initial weights and batches, so two losses are compared from the same start.
    """
    torch.manual_seed(options.seed)
    model = Forecaster(options.hidden, task.train.past)
    optimiser = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.epochs)
    generator = torch.Generator().manual_seed(options.seed)
    history = History()
    progress = tqdm(range(options.epochs), desc=title, unit="epoch", disable=None)
    for _ in progress:
        total = 0.0
        for chosen in batches(len(task.train), options.batch_size, generator):
            optimiser.zero_grad()
            value = loss(model(task.train.past[chosen]), task.train, chosen)
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            total += float(value.detach()) * chosen.numel()
        decay.step()
        history.train.append(total / len(task.train))
        history.test.append(evaluate(task, forecast_all(model, task.test), task.test))
        progress.set_postfix(train=f"{history.train[-1]:.1f}", test=f"{history.test[-1]:.1f}")
    return model, history
