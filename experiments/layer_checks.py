"""Two questions about the layer on the problem it has just been trained on: is its gradient right, and
what does it cost?"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.energy_training import EnergyTask, Forecaster, Samples
from experiments.scheduling import Scheduler, schedule_loss

DAYS_TO_CHECK = 8
DIRECTIONS = 24
STEP = 1e-4


@dataclass(frozen=True)
class GradientCheck:
    """How far the gradient of one field is from central differences."""

    field: str
    relative_error: float


@dataclass(frozen=True)
class StepTiming:
    """Seconds that the parts of one training step took, and the number of instances in it."""

    batch: int
    network_forward: float
    layer_forward: float
    layer_backward: float
    network_backward: float  # with the optimiser's step

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return self.network_forward + self.layer_forward + self.layer_backward + self.network_backward

    @property
    def layer_share(self) -> float:
        """The part of the step that the layer takes, both ways."""
        return (self.layer_forward + self.layer_backward) / self.total

    def per_instance(self, seconds: float) -> float:
        """In microseconds."""
        return 1e6 * seconds / self.batch


def farthest_from_kinks(scheduler: Scheduler, demand: Tensor, count: int) -> Tensor:
    """The days on which no ramp is close to becoming, or to ceasing to be, active.

    The schedule is piecewise linear in the demand; a difference taken across a kink says nothing about
    the derivative at either side.
    """
    with torch.no_grad():
        solution = scheduler.layer.solve(scheduler.P, -2.0 * demand, scheduler.G, scheduler.h)
        slack = scheduler.h - solution.x @ scheduler.G.T
        margin = torch.maximum(slack, solution.z).amin(dim=-1)
    chosen: Tensor = margin.topk(min(count, margin.numel())).indices
    return chosen


def random_direction(field: str, like: Tensor, generator: torch.Generator) -> Tensor:
    """Of length one."""
    direction = torch.randn(like.shape, dtype=like.dtype, generator=generator)
    if field == "P":
        direction = direction + direction.T  # only the symmetric part of P counts
    unit: Tensor = direction / direction.norm()
    return unit


def check_gradients(scheduler: Scheduler, forecast: Tensor, days: Samples, seed: int) -> list[GradientCheck]:
    """Slopes of the training loss in random directions of P, q, G and h: the layer's gradient against
    central differences."""
    chosen = farthest_from_kinks(scheduler, forecast, DAYS_TO_CHECK)
    best_schedule = days.best_schedule[chosen]
    data = {"P": scheduler.P, "q": -2.0 * forecast[chosen], "G": scheduler.G, "h": scheduler.h}
    leaves = {name: value.detach().clone().requires_grad_() for name, value in data.items()}
    schedule_loss(scheduler.layer(**leaves), best_schedule).backward()  # type: ignore[no-untyped-call]

    def loss_at(field: str, value: Tensor) -> Tensor:
        return schedule_loss(scheduler.layer(**(data | {field: value})), best_schedule)

    generator = torch.Generator().manual_seed(seed)
    checks = []
    for field, leaf in leaves.items():
        assert leaf.grad is not None
        directions = [random_direction(field, leaf, generator) for _ in range(DIRECTIONS)]
        slopes = torch.stack([(leaf.grad * d).sum() for d in directions])
        with torch.no_grad():
            differences = torch.stack(
                [loss_at(field, leaf + STEP * d) - loss_at(field, leaf - STEP * d) for d in directions]
            ) / (2.0 * STEP)
        error, scale = (slopes - differences).norm(), differences.norm()
        # Where no ramp binds, G and h have no effect: both sides are zero, and there is nothing to divide by.
        checks.append(GradientCheck(field, float(error / scale if scale > 0 else error)))
    return checks


def timed_step(
    task: EnergyTask, model: Forecaster, optimiser: torch.optim.Optimizer, chosen: Tensor
) -> StepTiming:
    """One training step, cut at the layer's input so that the layer's backward can be timed alone."""
    clock = [time.perf_counter()]
    optimiser.zero_grad()
    forecast = model(task.train.past[chosen])
    clock.append(time.perf_counter())
    layer_input = forecast.detach().requires_grad_()
    schedule = task.scheduler(layer_input)
    clock.append(time.perf_counter())
    schedule_loss(schedule, task.train.best_schedule[chosen]).backward()  # type: ignore[no-untyped-call]
    clock.append(time.perf_counter())
    forecast.backward(layer_input.grad)
    optimiser.step()
    clock.append(time.perf_counter())
    parts = [after - before for before, after in itertools.pairwise(clock)]
    return StepTiming(chosen.numel(), *parts)


def time_training_step(task: EnergyTask, model: Forecaster, batch: int, repeats: int) -> StepTiming:
    """Medians over `repeats` steps; the learning rate is zero, so the model stays as it is."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0)
    generator = torch.Generator().manual_seed(0)
    size = min(batch, len(task.train))
    steps = []
    for _ in range(repeats + 2):  # the first two warm up caches and allocators
        chosen = torch.randperm(len(task.train), generator=generator)[:size]
        steps.append(timed_step(task, model, optimiser, chosen))

    def median(part: str) -> float:
        return float(torch.tensor([getattr(step, part) for step in steps[2:]]).median())

    parts = ("network_forward", "layer_forward", "layer_backward", "network_backward")
    return StepTiming(size, *(median(part) for part in parts))
