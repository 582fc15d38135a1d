"""What the report says of the digits."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from benchmarks.peers.layers import LIBRARIES
from experiments.cells import fastest_right, is_right, method_rows, name_of, seconds
from experiments.document import Document
from experiments.mnist_network import EXACT
from experiments.mnist_peers import METHODS
from experiments.published import MACHINE, MNIST
from experiments.race import ALTDIFF
from experiments.results import Record

COLOURS = {EXACT: "#1f6fb2", "1e-1": "#d9730d", "1e-2": "#6b757d", "1e-3": "#3b8a5a"}
FIELDS = ["x"]
GOAL = 98.9
PEERS = [name for name in METHODS if name in ("qpth", "proxqp", "proxqp-omp", "moreau", "cvxpylayers")]
Curves = dict[str, dict[int, list[Record]]]  # layer, seed, epochs


def curves(record: Record) -> Curves:
    """The epochs of every training, in order."""
    found: Curves = defaultdict(lambda: defaultdict(list))
    names = (name.split("/") for name in record["cells"] if name.startswith("train/"))
    for _, layer, seed, epoch in sorted(names, key=lambda parts: int(parts[3])):
        found[layer][int(seed)].append(record["cells"][f"train/{layer}/{seed}/{epoch}"])
    return found


def final_row(layer: str, seeds: dict[int, list[Record]]) -> list[str]:
    """Accuracy after the last epoch that all seeds have, and the time of an epoch."""
    epochs = min(len(history) for history in seeds.values())
    accuracies = 100.0 * np.array([history[epochs - 1]["accuracy"] for history in seeds.values()])
    times = [epoch["seconds"] for history in seeds.values() for epoch in history]
    deviation = f" ± {accuracies.std(ddof=1):.2f}" if accuracies.size > 1 else ""
    longest = max(len(history) for history in seeds.values())
    best = 100.0 * max(history[-1]["accuracy"] for history in seeds.values() if len(history) == longest)
    name = "altdiff, exact" if layer == EXACT else f"Algorithm 1, stopped at {layer}"
    numbers = [f"{accuracies.mean():.2f}{deviation} ({epochs} epochs, {len(seeds)} seeds)"]
    return [name, *numbers, f"{best:.2f} ({longest} epochs)", seconds(float(np.median(times)))]


def draw_accuracy(axes: Axes, found: Curves) -> None:
    """A line a layer: the mean of its seeds."""
    for layer, seeds in found.items():
        epochs = min(len(history) for history in seeds.values())
        longest = max(seeds.values(), key=len)
        if len(longest) > epochs:
            accuracies = [100.0 * epoch["accuracy"] for epoch in longest]
            axes.plot(range(1, len(longest) + 1), accuracies, ":", color=COLOURS[layer], label="one seed")
        values = [[100.0 * epoch["accuracy"] for epoch in history[:epochs]] for history in seeds.values()]
        name = "altdiff, exact" if layer == EXACT else f"stopped at {layer}"
        axes.plot(range(1, epochs + 1), np.mean(values, axis=0), "o-", color=COLOURS[layer], label=name)
    axes.set(xlabel="epoch", ylabel="test accuracy, per cent")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()


def layer_alone(record: Record, step: float) -> str:
    """How much longer a peer's layer takes than ours: its step without our step's network, over our layer."""
    parts = record["cells"].get("parts")
    if parts is None:
        return ""
    share, total = parts["layer_share"]["median"], parts["total"]["median"]
    ratio = (step - (1.0 - share) * total) / (share * total)
    return f" (the layer alone about {ratio:.0f} times)" if ratio > 1.0 else ""


def own_epoch(record: Record) -> tuple[float, str] | None:
    """Seconds of an epoch with altdiff, and how they were measured: whole epochs if there are any."""
    cells = record["cells"]
    epochs = [cell["seconds"] for name, cell in cells.items() if name.startswith(f"train/{EXACT}/")]
    if epochs:
        return float(np.median(epochs)), f"the median of {len(epochs)} epochs of training"
    ours = cells.get(f"step/{ALTDIFF}")
    if ours is None or not is_right(ours, FIELDS):
        return None
    return record["facts"]["steps"] * ours["total"]["median"], f"by {ours['total']['count']} steps"


def against(record: Record, peers: list[str]) -> str:
    """An epoch with altdiff beside one with the fastest of some peers that is right; empty if none is."""
    cells, steps = record["cells"], record["facts"]["steps"]
    ours, peer = own_epoch(record), fastest_right(cells, "step", peers, FIELDS)
    if peer is None or ours is None:
        return ""
    (time, how), count = ours, cells[f"step/{peer[0]}"]["total"]["count"]
    return (
        f"{seconds(time)} s with altdiff ({how}) and "
        f"{seconds(steps * peer[1])} s with {name_of(peer[0])} (by {count} steps), "
        f"{steps * peer[1] / time:.1f} times as much{layer_alone(record, peer[1])}"
    )


def step_sentence(record: Record) -> str:
    """The layer's share, and ours against the fastest peers."""
    cells, sentences = record["cells"], []
    if "parts" in cells:
        share = cells["parts"]["layer_share"]["median"]
        sentences.append(f"The QP layer has {share:.0%} of a step with altdiff.")
    usual = against(record, [name for name in PEERS if not LIBRARIES[name].tuned])
    tuned = against(record, [name for name in PEERS if LIBRARIES[name].tuned])
    if usual:
        sentences.append(
            f"An epoch has {record['facts']['steps']} steps: {usual}. That is the fastest peer that is "
            "right, with its default options; all begin with the same weights and take the same batches."
        )
    else:
        sentences.append("No peer finished a step with a right answer.")
    if tuned:
        sentences.append(f"With options other than the defaults: {tuned}.")
    return " ".join(sentences)


def accuracy_sentence(record: Record, found: Curves) -> str:
    """The best that was reached, and when the goal was."""
    if EXACT not in found:
        return ""
    longest = max(found[EXACT].values(), key=len)
    accuracies = [100.0 * epoch["accuracy"] for epoch in longest]
    reached = next((k for k, value in enumerate(accuracies, 1) if value >= GOAL), None)
    text = f"altdiff's longest run has {len(longest)} epochs and ends at {accuracies[-1]:.2f} %"
    if not record["facts"]["source"].startswith("MNIST"):
        return f"{text}."
    when = f"after {reached} epochs" if reached else "in none of them"
    return f"{text}; the {GOAL} % of the paper's tables are passed {when}."


def published_rows() -> list[list[str]]:
    """The authors' own, said to be theirs."""
    return [
        [f"{who} (published, {MACHINE})", f"{mean} ± {deviation}", "30 epochs", f"{time:g}"]
        for who, (mean, deviation, time) in MNIST.items()
    ]


def section(page: Document, record: Record) -> None:
    """For the report."""
    facts, found = record["facts"], curves(record)
    n, m, p = facts["size"]
    page.heading("Section 5.3: digits through a QP layer")
    page.paragraph(
        f"{facts['source']}: {facts['train']} pictures to learn from, {facts['test']} to be judged on; a "
        "QP layer with "
        f"{n} variables, {m} inequalities and {p} equalities, batches of {facts['batch']}, Adam at 1e-3. "
        "Whatever "
        "layer a network was trained with, it is judged through the exact one."
    )
    page.table(
        ["layer", "accuracy, per cent", "longest run", "seconds an epoch"],
        [
            *(final_row(layer, seeds) for layer, seeds in found.items()),
            *(published_rows() if facts["source"].startswith("MNIST") else []),
        ],
    )
    if found:
        page.figure(
            lambda axes: draw_accuracy(axes, found), 2.8, "Test accuracy after every epoch, mean over seeds."
        )
    page.paragraph(accuracy_sentence(record, found))
    page.paragraph(
        "One training step, network and Adam included: seconds with quartiles, and the error of x. These "
        "steps have pauses between them, which a training has not."
    )
    page.table(["method", "a step"], method_rows(record["cells"], ["step"], METHODS, FIELDS, quartiles=True))
    page.paragraph(step_sentence(record))
