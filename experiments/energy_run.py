"""Runs the energy experiment: data, trainings, baselines, checks of the layer."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import altdiff
import numpy as np
import torch
from torch import Tensor

from experiments.energy_results import PERSISTENCE, PLAIN_ERROR, THROUGH_LAYER, EnergyResult, FinalLoss, Week
from experiments.energy_training import (
    EnergyTask,
    Forecaster,
    History,
    Loss,
    TrainingOptions,
    evaluate,
    forecast_all,
    loss_of_demand,
    loss_of_schedule,
    schedule_all,
    train,
)
from experiments.layer_checks import check_gradients, time_training_step
from experiments.load_data import NEXT_HOURS, load_series, split_days
from experiments.scheduling import choose_ramp_limit, share_of_ramped_days

DAYS_PER_WEEK = 7
TIMED_STEPS = 30
Fact = tuple[str, str]


@dataclass(frozen=True)
class EnergyOptions:
    """What to run; the command line fills it in."""

    data: Path | None  # folder of the PJM files, or none for generated load
    years: int  # of generated load
    keep_years: int | None  # use only the first years of the series
    epochs: int
    repeats: int
    ramp_limit: float | None  # none: chosen from the training days
    seed: int


@dataclass(frozen=True)
class Trainings:
    """One way to train, repeated: the last model stands for all of them in figures."""

    histories: list[History]
    final: FinalLoss
    model: Forecaster


def prepare(options: EnergyOptions) -> tuple[EnergyTask, list[Fact]]:
    """The data as a task, and what is to be said about it; printed before the long part begins."""
    series = load_series(options.data, options.seed, options.years)
    hours = None if options.keep_years is None else options.keep_years * 365 * NEXT_HOURS
    days = split_days(series.load[:hours])
    limit = options.ramp_limit or choose_ramp_limit(days.train.demand)
    shares = [f"{share_of_ramped_days(part.demand, limit):.0%}" for part in (days.train, days.test)]
    facts = [
        ("data", series.source),
        ("days", f"{len(days.train.demand)} to train on, then {len(days.test.demand)} to test on"),
        ("ramp limit", f"r = {limit:g}, where demand lies in [0, 100]"),
        ("ramp limit binds", f"on {shares[0]} of the training days, {shares[1]} of the test days"),
    ]
    return EnergyTask.of(days, limit), facts


def training_facts(options: EnergyOptions, training: TrainingOptions, task: EnergyTask) -> list[Fact]:
    """Sizes and settings."""
    rows, columns = task.scheduler.G.shape
    seeds = ", ".join(str(options.seed + k) for k in range(options.repeats))
    return [
        ("quadratic program", f"{columns} variables, {rows} inequalities, P and G shared by all days"),
        ("network", f"72 - {training.hidden} - {training.hidden} - 24, ReLU, float64"),
        ("optimiser", f"Adam, rate {training.learning_rate:g} with cosine decay"),
        ("training", f"{training.epochs} epochs in batches of {training.batch_size}"),
        ("seeds", seeds),
    ]


def version_facts() -> list[Fact]:
    """What it ran on."""
    names = ("torch", "numpy", "matplotlib")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return [
        ("altdiff", altdiff.__version__),
        ("versions", f"Python {platform.python_version()}, {versions}"),
        (
            "processor",
            f"{platform.machine()}, {os.cpu_count()} cores, torch on {torch.get_num_threads()} threads",
        ),
    ]


def root_mean_square(difference: Tensor) -> float:
    """Over all entries."""
    return float(difference.square().mean().sqrt())


def train_repeatedly(task: EnergyTask, name: str, loss: Loss, options: EnergyOptions) -> Trainings:
    """The same training from `repeats` seeds."""
    histories, losses, errors = [], [], []
    for repeat in range(options.repeats):
        title = name if options.repeats == 1 else f"{name}, {repeat + 1} of {options.repeats}"
        training = TrainingOptions(epochs=options.epochs, seed=options.seed + repeat)
        model, history = train(task, loss, training, title)
        histories.append(history)
        losses.append(history.test[-1])
        errors.append(root_mean_square(forecast_all(model, task.test) - task.test.demand))
    return Trainings(histories, FinalLoss(name, np.array(losses), np.array(errors)), model)


def persistence(task: EnergyTask) -> FinalLoss:
    """Tomorrow will be as today was."""
    forecast = task.test.past[:, -NEXT_HOURS:]
    loss, error = evaluate(task, forecast, task.test), root_mean_square(forecast - task.test.demand)
    return FinalLoss(PERSISTENCE, np.array([loss]), np.array([error]))


def hardest_week(task: EnergyTask, forecast: Tensor) -> Week:
    """Seven test days in a row on which even the best schedule is farthest from the demand."""
    days = task.test
    distance = (days.demand - days.best_schedule).square().sum(dim=-1).numpy()
    length = min(DAYS_PER_WEEK, len(days))
    first = int(np.convolve(distance, np.ones(length), mode="valid").argmax())
    week = slice(first, first + length)
    schedule = schedule_all(task.scheduler, forecast[week])
    return Week(days.demand[week].numpy(), schedule.numpy(), days.best_schedule[week].numpy())


def run_experiment(options: EnergyOptions) -> EnergyResult:
    """From options to results; prints the facts first, and progress on the way."""
    task, facts = prepare(options)
    training = TrainingOptions(epochs=options.epochs, seed=options.seed)
    facts += training_facts(options, training, task)
    for name, value in facts:
        print(f"{name:<18} {value}")
    print(flush=True)
    layer = train_repeatedly(task, THROUGH_LAYER, loss_of_schedule(task.scheduler), options)
    plain = train_repeatedly(task, PLAIN_ERROR, loss_of_demand, options)
    forecast = forecast_all(layer.model, task.test)
    return EnergyResult(
        facts=facts + version_facts(),
        through_layer=layer.histories,
        plain_error=plain.histories,
        final=[persistence(task), plain.final, layer.final],
        gradient_checks=check_gradients(task.scheduler, forecast, task.test, options.seed),
        timing=time_training_step(task, layer.model, training.batch_size, TIMED_STEPS),
        week=hardest_week(task, forecast),
    )
