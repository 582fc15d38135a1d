"""What the report says of energy scheduling."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from benchmarks.peers.layers import PEERS
from experiments.cells import fastest_right, is_right, method_rows, name_of, seconds
from experiments.document import Document
from experiments.load_data import FloatArray
from experiments.mnist_network import EXACT
from experiments.mnist_section import COLOURS
from experiments.race import ALTDIFF
from experiments.results import Record

FIELDS = ["x", "q"]


def losses(record: Record, layer: str, part: str) -> FloatArray:
    """(seeds, epochs)"""
    names = [name for name in record["cells"] if name.startswith(f"train/{layer}/")]
    return np.array([record["cells"][name][part] for name in sorted(names)])


def layers_of(record: Record) -> list[str]:
    """Those that were trained; none without the exact one, which they are compared with."""
    if not losses(record, EXACT, "test").size:
        return []
    return [
        layer
        for layer in COLOURS
        if f"step/{layer}" in record["cells"] and losses(record, layer, "test").size
    ]


def differences(record: Record, layer: str) -> FloatArray:
    """Of test losses from those of the exact layer, relative to these: same seed, same epoch."""
    exact, found = losses(record, EXACT, "test"), losses(record, layer, "test")
    seeds, epochs = min(len(exact), len(found)), min(exact.shape[1], found.shape[1])
    exact, found = exact[:seeds, :epochs], found[:seeds, :epochs]
    return np.abs(found - exact) / exact


def chance(record: Record) -> float | None:
    """The mean relative difference, over epochs, of two trainings with the exact layer from different seeds:
    the yardstick for what a layer does. None with one seed."""
    exact = losses(record, EXACT, "test")
    pairs = list(itertools.combinations(range(len(exact)), 2))
    apart = [np.abs(exact[i] - exact[j]) / exact[[i, j]].mean(axis=0) for i, j in pairs]
    return float(np.mean(apart)) if apart else None


def layer_row(record: Record, layer: str) -> list[str]:
    """Final loss, difference from exact, and what the layer costs an epoch."""
    test, step = losses(record, layer, "test")[:, -1], record["cells"][f"step/{layer}"]
    deviation = f" ± {test.std(ddof=1):.2f}" if test.size > 1 else ""
    time = step["steps"] * (step["layer_forward"] + step["layer_backward"])
    name = "altdiff, exact" if layer == EXACT else f"Algorithm 1, stopped at {layer}"
    apart = differences(record, layer)
    texts = ["-", "-"] if layer == EXACT else [f"{apart.mean():.2%}", f"{apart.max():.1%}"]
    return [name, f"{test.mean():.2f}{deviation}", *texts, seconds(time)]


def draw_losses(axes: Axes, record: Record) -> None:
    """Means over seeds."""
    for layer in layers_of(record):
        values = losses(record, layer, "test").mean(axis=0)
        name = "exact" if layer == EXACT else f"stopped at {layer}"
        style = "-" if layer == EXACT else "--"
        axes.plot(np.arange(1, values.size + 1), values, style, color=COLOURS[layer], label=name)
    axes.set(xlabel="epoch", ylabel="test loss", yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def chance_sentence(record: Record) -> str:
    """What chance alone does, to judge differences by."""
    apart = chance(record)
    if apart is None:
        return "One seed says nothing of chance."
    return f"Two seeds of the exact layer differ by {apart:.2%} in the mean over epochs: that is chance."


def peers_sentence(record: Record) -> str:
    """Ours against cvxpylayers and against the fastest peer, on the same batch of days."""
    cells = record["cells"]
    ours = cells.get(f"batch/{ALTDIFF}")
    if not is_right(ours, FIELDS) or ours is None:
        return "altdiff has no right answer on this batch."
    time, parts = ours["total"]["median"], []
    steps = -(-record["facts"]["train"] // record["facts"]["batch"])
    peer, cvxpy = fastest_right(cells, "batch", PEERS, FIELDS), cells.get("batch/cvxpylayers")
    if peer is not None:
        parts.append(
            f"{peer[1] / time:.0f} times less than {name_of(peer[0])}, the fastest peer that is right"
        )
    if cvxpy is not None and "total" in cvxpy:
        parts.append(f"{cvxpy['total']['median'] / time:.0f} times less than cvxpylayers")
    if not parts:
        return "No peer finished with a right answer."
    return (
        f"In an epoch of {steps} such batches altdiff's layer takes {seconds(steps * time)} s: "
        f"{' and '.join(parts)}."
    )


def section(page: Document, record: Record) -> None:
    """For the report."""
    facts = record["facts"]
    page.heading("Section 5.2, figure 2: energy scheduling")
    page.paragraph(
        f"{facts['source']}: {facts['train']} days to learn from, {facts['test']} to be judged on; the "
        "ramp limit "
        f"r = {facts['ramp']:g} binds on {facts['ramped']:.0%} of the training days. The same network from "
        "the same start "
        "is trained through Algorithm 1 stopped at three tolerances, and through the exact layer."
    )
    page.table(
        ["layer", "final test loss", "mean difference", "largest", "layer, seconds an epoch"],
        [layer_row(record, layer) for layer in layers_of(record)],
    )
    if layers_of(record):
        caption = "Test loss after every epoch, mean over seeds."
        page.figure(lambda axes: draw_losses(axes, record), 2.8, caption)
    page.paragraph(
        "The difference is |loss - exact loss| / exact loss, same seed and epoch: its mean over all of them, "
        "and where it is largest. " + chance_sentence(record)
    )
    page.paragraph(
        f"Forward and backward of {facts['batch']} days: seconds with quartiles and, in brackets, the "
        "largest relative error of x and of the gradient with respect to the forecast."
    )
    labels = [name.removeprefix("batch/") for name in record["cells"] if name.startswith("batch/")]
    page.table(["method", "a batch"], method_rows(record["cells"], ["batch"], labels, FIELDS, quartiles=True))
    page.paragraph(peers_sentence(record))


__all__ = ["section"]
