"""What the energy experiment measured, in the form that both the terminal and the report show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.energy_training import History
from experiments.layer_checks import GradientCheck, StepTiming
from experiments.load_data import FloatArray

GRADIENT_TOLERANCE = 1e-6
THROUGH_LAYER = "through the layer"
PLAIN_ERROR = "plain squared error"
PERSISTENCE = "yesterday's demand"
MEANING = {"P": "weights of the hours", "q": "forecast", "G": "ramp matrix", "h": "ramp limits"}


@dataclass(frozen=True)
class FinalLoss:
    """A way to forecast, judged on the test days; one number for every repeat."""

    name: str
    test_loss: FloatArray
    demand_error: FloatArray  # root mean square over the hours, demand in [0, 100]


@dataclass(frozen=True)
class Week:
    """Seven test days: each array (7, 24)."""

    demand: FloatArray
    schedule: FloatArray
    best_schedule: FloatArray


@dataclass(frozen=True)
class EnergyResult:
    """Everything that is shown."""

    facts: list[tuple[str, str]]
    through_layer: list[History]  # one for every repeat
    plain_error: list[History]
    final: list[FinalLoss]
    gradient_checks: list[GradientCheck]
    timing: StepTiming
    week: Week

    @property
    def worst_gradient_error(self) -> float:
        """The largest relative error of the gradient with respect to P, q, G or h."""
        return float(np.max([check.relative_error for check in self.gradient_checks]))  # NaN stays NaN

    @property
    def gradient_is_right(self) -> bool:
        """Whether that error is within the tolerance; an error that is not a number is not."""
        return self.worst_gradient_error <= GRADIENT_TOLERANCE


def curve(histories: list[History], part: str) -> FloatArray:
    """(repeats, epochs)"""
    return np.array([getattr(history, part) for history in histories])


def with_spread(values: FloatArray, digits: int = 1) -> str:
    """Mean, and the standard deviation where there is more than one value."""
    mean = f"{values.mean():.{digits}f}"
    return mean if values.size == 1 else f"{mean} ± {values.std(ddof=1):.{digits}f}"


def epochs_to_show(epochs: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, ... and the last one."""
    round_numbers = [k * 10**power for power in range(6) for k in (1, 2, 5)]
    return [epoch for epoch in round_numbers if epoch < epochs] + [epochs]


def epoch_rows(result: EnergyResult) -> tuple[list[str], list[list[str]]]:
    """Header and rows: mean losses after selected epochs."""
    columns = [
        ("train, through the layer", curve(result.through_layer, "train")),
        ("test, through the layer", curve(result.through_layer, "test")),
        ("test, plain squared error", curve(result.plain_error, "test")),
    ]
    epochs = columns[0][1].shape[1]
    rows = [
        [str(epoch)] + [f"{values[:, epoch - 1].mean():.1f}" for _, values in columns]
        for epoch in epochs_to_show(epochs)
    ]
    return ["epoch"] + [name for name, _ in columns], rows


def final_rows(result: EnergyResult) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the ways to forecast, after training."""
    header = ["forecast", "test loss", "demand error"]
    return header, [
        [entry.name, with_spread(entry.test_loss), with_spread(entry.demand_error, 2)]
        for entry in result.final
    ]


def gradient_rows(result: EnergyResult) -> tuple[list[str], list[list[str]]]:
    """Header and rows: the check of the layer's gradient."""
    header = ["gradient with respect to", "relative error"]
    return header, [
        [f"{check.field}, {MEANING[check.field]}", f"{check.relative_error:.1e}"]
        for check in result.gradient_checks
    ]


def timing_rows(result: EnergyResult) -> tuple[list[str], list[list[str]]]:
    """Header and rows: who spends a training step."""
    timing = result.timing
    parts = [
        ("network, forward", timing.network_forward),
        ("layer, forward", timing.layer_forward),
        ("layer, backward", timing.layer_backward),
        ("network, backward, and Adam", timing.network_backward),
    ]
    header = ["part of a training step", "µs an instance", "share"]
    rows = [
        [name, f"{timing.per_instance(seconds):.1f}", f"{seconds / timing.total:.0%}"]
        for name, seconds in parts
    ]
    return header, rows


def verdict(result: EnergyResult) -> str:
    """What training through the layer gave over plain training, whichever way it went."""
    by_name = {entry.name: entry.test_loss for entry in result.final}
    plain, layer = by_name[PLAIN_ERROR], by_name[THROUGH_LAYER]  # paired: same initial weights, same batches
    relative = float(1.0 - layer.mean() / plain.mean())
    direction = "lower" if relative > 0 else "higher"
    wins = int(((layer < plain) == (relative > 0)).sum())
    sentence = (
        f"Training through the layer ends with a test loss {abs(relative):.1%} {direction} than training on "
        "the plain squared error from the same start"
    )
    if plain.size < 3:
        return f"{sentence}; this takes more repeats to tell from chance."
    clear = "" if wins == plain.size else ": no clear difference"
    return f"{sentence}, and {direction} in {wins} of {plain.size} repeats{clear}."
