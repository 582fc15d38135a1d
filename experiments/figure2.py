"""Section 5.2, Figure 2: energy scheduling, trained through the paper's layer and exactly.

    python -m experiments.figure2 [--data FOLDER] [--epochs 25] [--seeds 0 1 2] [--quick]

Also the time of the layer on a batch of days, beside the peers. Load is PJM's where its files are found
(option --data, variable ALTDIFF_DATA, or ../shared/data), otherwise the generator's.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.peers.layers.base import Layer, Tensor, TorchLayer
from benchmarks.peers.problems import Problem
from benchmarks.peers.reference import solve_reference
from experiments.command import budget_of, ended, make_parser, positive_integer, results_of
from experiments.dense_qp import DenseContest, paper_case
from experiments.energy_training import EnergyTask, Forecaster, TrainingOptions, loss_of_schedule, train
from experiments.figure2_section import section
from experiments.find_data import find_folder
from experiments.layer_checks import time_training_step
from experiments.load_data import NEXT_HOURS, PJM_FILES, FloatArray, load_series, split_days
from experiments.mnist_network import EXACT, make_layer
from experiments.race import ALTDIFF, race
from experiments.results import Record
from experiments.scheduling import Scheduler, choose_ramp_limit, share_of_ramped_days
from experiments.unrolled import rounds

NAME = "figure2"
LAYERS = (EXACT, "1e-1", "1e-2", "1e-3")
PEERS = ("qpth", "cvxpylayers", "proxqp", "proxqp-omp", "moreau", "osqp", "jaxopt")
TRUNCATED = "truncated"
METHODS = (ALTDIFF, *(f"{TRUNCATED}@{layer}" for layer in LAYERS[1:]), *PEERS)
YEARS, QUICK_YEARS = 6, 1
BATCH = 64
TIMED_STEPS = 30
__all__ = ["NAME", "main", "section"]


class TruncatedDays(TorchLayer):
    """Algorithm 1 on the whole batch, backwards through its rounds."""

    def __init__(self, problem: Problem, threads: int, tolerance: float) -> None:
        super().__init__(problem, threads)
        self.tolerance = tolerance

    def solve(self) -> Tensor:
        """The days have no equalities."""
        P, q, G, h = (self.leaves[name] for name in ("P", "q", "G", "h"))
        return rounds(P, q, G, h, tolerance=self.tolerance)[0]


class EnergyContest(DenseContest):
    """The layers of `benchmarks.peers`, and the truncated one."""

    def layer_of(self, folder: Path | None) -> Layer:
        """The folder's problem, or a tiny one."""
        if self.method != TRUNCATED:
            return super().layer_of(folder)
        problem = paper_case((8, 3, 0), 0) if folder is None else Problem.load(folder)
        if folder is None:
            problem = replace(problem, q=problem.q[None], x_bar=problem.x_bar[None])
        return TruncatedDays(problem, self.threads, self.tolerance or 1e-3)


def write_days(demand: FloatArray, limit: float, seed: int, folder: Path) -> None:
    """A batch of days as a problem, with its exact solution."""
    scheduler = Scheduler(limit)
    problem = Problem(
        P=scheduler.P.numpy(),
        q=-2.0 * demand,
        G=scheduler.G.numpy(),
        h=scheduler.h.numpy(),
        A=np.zeros((0, NEXT_HOURS)),
        b=np.zeros(0),
        x_bar=np.random.default_rng(seed).normal(size=demand.shape),
    )
    problem.save(folder)
    solve_reference(problem).save(folder)


def scheduler_of(task: EnergyTask, layer: str) -> Scheduler:
    """The same problem, through another layer."""
    scheduler = Scheduler(float(task.scheduler.h[0]))
    scheduler.layer = make_layer(layer)  # type: ignore[assignment]
    return scheduler


def training_cell(task: EnergyTask, layer: str, options: TrainingOptions) -> Record:
    """The losses of one training; test days are always judged by the exact schedule."""
    loss = loss_of_schedule(scheduler_of(task, layer))
    _, history = train(task, loss, options, f"{layer}, seed {options.seed}")
    return {"train": history.train, "test": history.test}


def step_cell(task: EnergyTask, layer: str, count: int) -> Record:
    """Seconds of the parts of a training step."""
    torch.manual_seed(0)
    model = Forecaster(TrainingOptions(1, 0).hidden, task.train.past)
    timing = time_training_step(replace(task, scheduler=scheduler_of(task, layer)), model, BATCH, count)
    return {
        "layer_forward": timing.layer_forward,
        "layer_backward": timing.layer_backward,
        "total": timing.total,
        "batch": timing.batch,
        "steps": -(-len(task.train) // timing.batch),
    }


def main(arguments: list[str] | None = None) -> int:
    """Trains and measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    add = parser.add_argument
    add("--data", type=Path, metavar="FOLDER", help="with the PJM load files")
    add("--epochs", type=positive_integer, help="default 25, quick 2")
    add("--seeds", type=int, nargs="+", help="default 0 1 2, quick 0")
    add("--methods", nargs="*", choices=METHODS, default=list(METHODS), help="timed on a batch of days")
    given = parser.parse_args(arguments)

    def run() -> None:
        torch.set_num_threads(1)  # for matrices this small a second thread brings nothing
        results, budget = results_of(given, NAME), budget_of(given)
        folder = None if given.quick else find_folder(given.data, "pjm", PJM_FILES)
        series = load_series(folder, given.seed, QUICK_YEARS if given.quick else YEARS)
        days = split_days(series.load)
        limit = choose_ramp_limit(days.train.demand)
        task = EnergyTask.of(days, limit)
        results.say(
            source=series.source,
            train=len(task.train),
            test=len(task.test),
            ramp=limit,
            ramped=share_of_ramped_days(days.train.demand, limit),
            batch=BATCH,
        )
        write = partial(write_days, days.train.demand[:BATCH], limit, given.seed)
        race(results, "batch", given.methods, EnergyContest, write, budget)
        epochs = given.epochs or (2 if given.quick else 25)
        for layer in LAYERS:
            count = 5 if given.quick else TIMED_STEPS
            results.run(f"step/{layer}", partial(step_cell, task, layer, count))
            for seed in given.seeds or ([0] if given.quick else [0, 1, 2]):
                options = TrainingOptions(epochs, seed)
                results.run(f"train/{layer}/{seed}", partial(training_cell, task, layer, options))

    return ended(NAME, run)


if __name__ == "__main__":
    sys.exit(main())
