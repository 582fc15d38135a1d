"""What an experiment measured, kept as JSON: written after every cell, so that a run goes on where it ended.

A cell is one number or curve of a table or figure with all that is to be said of it. The file also says what
it was measured on, and whether it comes from a `--quick` run, which shows that things work and little else.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent / "results"
PACKAGES = ("altdiff", "torch", "numpy", "scipy")
Record = dict[str, Any]


def spread(values: Iterable[float]) -> Record:
    """Median, quartiles and how many values they are of."""
    numbers = np.array(list(values), np.float64)
    low, middle, high = (float(value) for value in np.percentile(numbers, [25, 50, 75]))
    return {"median": middle, "low": low, "high": high, "count": numbers.size}


def processor() -> str:
    """Its name, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def installed(name: str) -> str:
    """The version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def machine() -> Record:
    """What the numbers are of."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: installed(name) for name in PACKAGES},
    }


def plain(value: Any) -> Any:
    """For JSON, which knows no infinity: such numbers become words."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


class Results:
    """The cells of one experiment, and their file."""

    def __init__(self, experiment: str, quick: bool, seed: int, folder: Path = FOLDER) -> None:
        self.path = folder / f"{experiment}.json"
        self.record: Record = {
            "experiment": experiment,
            "quick": quick,
            "seed": seed,
            "machines": [],
            "facts": {},
            "cells": {},
        }
        if self.path.exists():
            self._continue(load(self.path))
        now = machine()
        if now not in self.record["machines"]:  # a run that goes on elsewhere says so
            self.record["machines"].append(now)

    def _continue(self, saved: Record) -> None:
        """Takes over what is there, unless it is of another kind."""
        mine, theirs = ((r["quick"], r["seed"]) for r in (self.record, saved))
        if mine == theirs:
            self.record = saved
        elif self.record["quick"] or not saved["quick"]:
            kind = "a quick run" if saved["quick"] else "a full run"
            raise ValueError(
                f"{self.path.name} holds {kind} with seed {saved['seed']}: "
                "choose another folder with --out, or delete it with --fresh"
            )

    @property
    def cells(self) -> dict[str, Record]:
        """By name."""
        found: dict[str, Record] = self.record["cells"]
        return found

    def run(self, name: str, measure: Callable[[], Record]) -> Record:
        """The cell of that name: as it was saved, or measured now and saved."""
        if name not in self.cells:
            self.put(name, measure())
        return self.cells[name]

    def put(self, name: str, cell: Record) -> None:
        """Saves a cell."""
        self.cells[name] = plain(cell)
        self.save()

    def say(self, **facts: Any) -> None:
        """What is to be known of all cells: where data comes from, sizes, settings."""
        self.record["facts"] |= plain(facts)

    def save(self) -> None:
        """By a second file, so that an interruption leaves the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.path)


def load(path: Path) -> Record:
    """What `save` wrote."""
    record: Record = json.loads(path.read_text(encoding="utf-8"))
    return record
