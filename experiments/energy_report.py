"""The energy experiment's page: what was learnt, how well, and what the layer cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from experiments.energy_results import (
    PERSISTENCE,
    PLAIN_ERROR,
    THROUGH_LAYER,
    EnergyResult,
    curve,
    epoch_rows,
    final_rows,
    gradient_rows,
    timing_rows,
    verdict,
    with_spread,
)
from experiments.html_report import Page
from experiments.layer_checks import DAYS_TO_CHECK, DIRECTIONS
from experiments.load_data import NEXT_HOURS, FloatArray

BLUE, ORANGE, GREY, PALE = "#1f6fb2", "#d9730d", "#6b757d", "#b9c2c9"


def draw_losses(axes: Axes, result: EnergyResult) -> None:
    """Faint: every repeat. Strong: their mean."""
    lines = [
        ("train, through the layer", curve(result.through_layer, "train"), BLUE, "--"),
        ("test, through the layer", curve(result.through_layer, "test"), BLUE, "-"),
        ("test, plain squared error", curve(result.plain_error, "test"), ORANGE, "-"),
    ]
    for name, values, colour, dash in lines:
        epochs = np.arange(1, values.shape[1] + 1)
        if len(values) > 1:
            axes.plot(epochs, values.T, color=colour, linestyle=dash, linewidth=0.6, alpha=0.3)
        axes.plot(epochs, values.mean(axis=0), color=colour, linestyle=dash, linewidth=1.6, label=name)
    persistence = next(entry for entry in result.final if entry.name == PERSISTENCE)
    axes.axhline(persistence.test_loss.mean(), color=GREY, linewidth=1.0, linestyle=":", label=PERSISTENCE)
    axes.set(xlabel="epoch", ylabel="optimisation loss", yscale="log")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(ScalarFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def draw_week(axes: Axes, result: EnergyResult) -> None:
    """Demand, the best schedule, and the schedule that the forecast led to."""

    def plot(days: FloatArray, name: str, colour: str, width: float, dash: str = "-") -> None:
        hours = np.arange(days.size).reshape(days.shape) / NEXT_HOURS
        gap = np.full((len(days), 1), np.nan)  # the ramp does not reach across midnight: lift the pen
        x, y = np.hstack([hours, gap]), np.hstack([days, gap])
        axes.plot(x.ravel(), y.ravel(), color=colour, linewidth=width, linestyle=dash, label=name)

    plot(result.week.demand, "demand", PALE, 3.0)
    plot(result.week.best_schedule, "best schedule", GREY, 1.1, "--")
    plot(result.week.schedule, "schedule of the forecast", BLUE, 1.5)
    axes.set(xlabel="day", ylabel="demand, generation", xlim=(0, len(result.week.demand)))
    axes.set_xticks(range(len(result.week.demand) + 1))
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.2, handlelength=1.6)


def draw_timing(axes: Axes, result: EnergyResult) -> None:
    """One bar: a training step, and who spends it."""
    timing, left = result.timing, 0.0
    parts = [
        ("network forward", timing.network_forward, PALE),
        ("layer forward", timing.layer_forward, BLUE),
        ("layer backward", timing.layer_backward, ORANGE),
        ("network backward, Adam", timing.network_backward, GREY),
    ]
    for name, seconds, colour in parts:
        width = timing.per_instance(seconds)
        axes.barh(0.0, width, left=left, color=colour, label=name, height=0.6)
        left += width
    axes.set(xlabel="microseconds an instance", yticks=[], ylim=(-0.5, 0.5))
    axes.spines["left"].set_visible(False)
    axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1.0, columnspacing=1.2)


def add_losses(page: Page, result: EnergyResult) -> None:
    """How well it went, and against what."""
    page.heading("Losses")
    page.paragraph(
        "The loss is the paper's: half the squared distance between the schedule made from the forecast and "
        "the schedule that perfect foresight would have made, as a mean over the days. The demand error is "
        "the root mean square of forecast minus demand, where demand lies in [0, 100]."
    )
    page.paragraph(verdict(result))
    page.table(*final_rows(result))
    repeats = len(result.through_layer)
    spread = (
        f" Strong lines are the mean of {repeats} repeats, faint ones the repeats." if repeats > 1 else ""
    )
    page.figure(lambda axes: draw_losses(axes, result), 3.1, f"Losses after every epoch.{spread}")
    page.table(*epoch_rows(result))


def add_layer(page: Page, result: EnergyResult) -> None:
    """What the layer costs, and whether its gradient is right."""
    timing = result.timing
    page.heading("The layer: cost and gradient")
    caption = (
        f"A training step on {timing.batch} days takes {1e3 * timing.total:.1f} ms; the layer has "
        f"{timing.layer_share:.0%} of it. Medians."
    )
    page.figure(lambda axes: draw_timing(axes, result), 1.6, caption)
    page.table(*timing_rows(result))
    page.paragraph(
        "Gradients of the training loss with respect to the layer's data, against central differences "
        f"in {DIRECTIONS} random directions, on the {DAYS_TO_CHECK} test days that lie farthest from a kink:"
    )
    page.table(*gradient_rows(result))


def energy_page(result: EnergyResult) -> Page:
    """The whole page, most important first."""
    page = Page(
        "Energy scheduling, learnt through a QP layer",
        "A network reads 72 hours of electricity demand and forecasts the next 24; a quadratic program turns "
        "the forecast into a generation schedule that respects a ramp limit; the network is trained on the "
        "schedule it causes.",
    )
    by_name = {entry.name: entry.test_loss for entry in result.final}
    timing = result.timing
    layer_time = timing.per_instance(timing.layer_forward + timing.layer_backward)
    page.numbers(
        [
            ("test loss, through the layer", with_spread(by_name[THROUGH_LAYER])),
            ("test loss, plain squared error", with_spread(by_name[PLAIN_ERROR])),
            ("layer, forward and backward, an instance", f"{layer_time:.0f} µs"),
            ("largest relative error of the gradient", f"{result.worst_gradient_error:.0e}"),
        ]
    )
    add_losses(page, result)
    page.heading("A week of demand and schedule")
    page.figure(
        lambda axes: draw_week(axes, result),
        3.1,
        "Seven test days in a row, those where the ramp limit bites hardest. Each day is scheduled by "
        "itself, from the 72 hours before it.",
    )
    add_layer(page, result)
    page.heading("Facts")
    page.facts(result.facts)
    return page


def write_report(result: EnergyResult, path: Path) -> None:
    """Builds the page and saves it."""
    energy_page(result).write(path)
