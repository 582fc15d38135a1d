"""The results as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import MultipleLocator

from benchmarks.peers.growth import Point
from benchmarks.peers.layers import ALTDIFF, LIBRARIES
from benchmarks.peers.measure import RIGHT, Result

mpl.use("Agg")
MARKERS = "osDv^<>Pph"


def plot_peers(results: list[Result], path: Path) -> None:
    """Total time per workload, a mark a library; hollow where its errors exceed the limit."""
    figure, axes = plt.subplots(figsize=(max(6.0, 1.0 * len(results) + 2.0), 5.0), layout="constrained")
    for index, name in enumerate(LIBRARIES):
        cells = [(place, result.cells.get(name)) for place, result in enumerate(results)]
        measured = [(place, cell) for place, cell in cells if cell is not None and cell.ok]
        style: dict[str, Any] = {
            "marker": MARKERS[index % len(MARKERS)],
            "color": f"C{index % 10}",
            "linestyle": "none",
            "markersize": 10 if name == ALTDIFF else 7,
        }
        for place, cell in measured:
            fill = style["color"] if cell.worst_error < RIGHT else "none"
            axes.plot(place, 1e3 * cell.total, markerfacecolor=fill, **style)
        if measured:
            axes.plot([], [], label=name, **style)
    axes.set_yscale("log")
    axes.set_xticks(
        range(len(results)), [result.workload.name for result in results], rotation=35, ha="right"
    )
    axes.set_ylabel("forward + backward, ms")
    axes.set_title(f"Total time; hollow: an error above {RIGHT:.0e}")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _measured(points: list[Point]) -> list[tuple[int, float, float, int]]:
    """Value, total, dpotrf and batch of the points that have numbers."""
    return [
        (point.value, ours.total, point.result.unit, point.result.workload.batch)
        for point in points
        if (ours := point.result.ours) is not None
    ]


def _lines(axes: Any, title: str, growth: dict[str, list[Point]], word: str) -> None:
    """Total milliseconds of every series whose name begins so, and of its dpotrf."""
    for name, points in growth.items():
        rows = _measured(points)
        if not name.startswith(word) or not rows:
            continue
        values = [value for value, *_ in rows]
        (line,) = axes.plot(values, [1e3 * total for _, total, *_ in rows], "o-", label=name)
        factors = [1e3 * batch * unit for _, _, unit, batch in rows]
        axes.plot(values, factors, ":", color=line.get_color(), label="dpotrf, one an instance")
        for value, total, unit, batch in rows:
            axes.annotate(
                f"{total / (unit * batch):.3g}",
                (value, 1e3 * total),
                textcoords="offset points",
                xytext=(4, 5),
                fontsize=7,
            )
    axes.set(xscale="log", yscale="log", xlabel=title, ylabel="forward + backward, ms")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, frameon=False)


def plot_growth(growth: dict[str, list[Point]], path: Path) -> None:
    """Three panels; the numbers at the marks are units of dpotrf."""
    figure, (by_size, by_batch, by_threads) = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    _lines(by_size, "variables n", growth, "variables")
    _lines(by_batch, "batch", growth, "batch")
    _lines(by_threads, "threads", growth, "threads")
    by_threads.set_xscale("linear")
    by_threads.xaxis.set_major_locator(MultipleLocator(1))
    figure.suptitle("Growth of altdiff's cost; the numbers are units of one dpotrf an instance")
    figure.savefig(path)
    plt.close(figure)
