"""Hourly load for the energy experiment: where it comes from, and how it becomes days to learn from.

Either the seeded generator, or PJM's hourly load of 2008 to 2016 as text files of `unix time, load,
temperature`. The temperature column is never read: in the second file most of it is a filler.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.synthetic_load import synthetic_load

FloatArray = npt.NDArray[np.float64]

PJM_FILES = ("pjm_load_data_2008-11.txt", "pjm_load_data_2012-16.txt")
SECONDS_PER_HOUR = 3600
LONGEST_GAP_HOURS = 6  # a clock change leaves one; more than this cannot be honestly interpolated
PAST_HOURS = 72
NEXT_HOURS = 24
LARGEST_DEMAND = 100.0


@dataclass(frozen=True)
class LoadSeries:
    """Where the load comes from, and the load."""

    load: FloatArray  # one value an hour, no gap
    source: str  # for the report


@dataclass(frozen=True)
class Days:
    """One row a day: what is known at midnight, and what the day then brings."""

    past: FloatArray  # (days, 72)
    demand: FloatArray  # (days, 24)


@dataclass(frozen=True)
class DataSplit:
    """Days in order of time."""

    train: Days
    test: Days  # later than every training day


def regular_hours(seconds: FloatArray, load: FloatArray) -> FloatArray:
    """One value for every hour: hours given twice are averaged, missing ones interpolated.

    Stamps in local clock time repeat an hour in spring and lack one in autumn.
    """
    hours, place = np.unique(np.round(seconds / SECONDS_PER_HOUR).astype(np.int64), return_inverse=True)
    gap = int(np.diff(hours).max(initial=1)) - 1
    if gap > LONGEST_GAP_HOURS:
        raise ValueError(f"load has a gap of {gap} hours; at most {LONGEST_GAP_HOURS} are interpolated")
    mean = np.bincount(place, weights=load) / np.bincount(place)
    return np.interp(np.arange(hours[0], hours[-1] + 1), hours, mean)


def read_pjm(folder: Path) -> LoadSeries:
    """The PJM files in `folder`, or in its subfolder `pjm`, as one series."""
    home = pjm_folder(folder)
    if home is None:
        raise FileNotFoundError(f"no PJM load in {folder}: expected {' and '.join(PJM_FILES)}")
    columns = [np.loadtxt(home / name, usecols=(0, 1), ndmin=2) for name in PJM_FILES]
    rows = np.concatenate(columns)
    if not np.isfinite(rows).all():
        raise ValueError(f"the PJM files in {home} hold values that are not finite")
    return LoadSeries(regular_hours(rows[:, 0], rows[:, 1]), "PJM hourly load, 2008 to 2016")


def pjm_folder(folder: Path) -> Path | None:
    """The folder itself or its subfolder `pjm`, whichever has both files."""
    candidates = (folder, folder / "pjm")
    return next((f for f in candidates if all((f / name).is_file() for name in PJM_FILES)), None)


def load_series(data: Path | None, seed: int, years: int) -> LoadSeries:
    """PJM from `data` if it is given, else the generator: the same run on every machine."""
    if data is not None:
        return read_pjm(data)
    return LoadSeries(synthetic_load(seed, years), f"seeded generator, {years} years, seed {seed}")


def scale_demand(load: FloatArray, known_hours: int) -> FloatArray:
    """To [0, 100] by the extremes of the first `known_hours`: the test years must not set the scale."""
    low, high = load[:known_hours].min(), load[:known_hours].max()
    return np.asarray(LARGEST_DEMAND * (load - low) / (high - low))


def daily_windows(load: FloatArray, first_day: int, last_day: int) -> Days:
    """Days `first_day` up to (not including) `last_day`, each with the 72 hours before it."""
    starts = NEXT_HOURS * np.arange(first_day, last_day)
    past = load[starts[:, None] + np.arange(-PAST_HOURS, 0)]
    demand = load[starts[:, None] + np.arange(NEXT_HOURS)]
    return Days(past, demand)


def split_days(load: FloatArray, test_share: float = 0.2) -> DataSplit:
    """Scale and cut by time: the last `test_share` of the days is for testing."""
    first_day, days = PAST_HOURS // NEXT_HOURS, load.size // NEXT_HOURS
    boundary = first_day + round((1.0 - test_share) * (days - first_day))
    if not first_day < boundary < days:
        raise ValueError(f"{days} days of load are too few to split into training and test days")
    demand = scale_demand(load, NEXT_HOURS * boundary)
    return DataSplit(daily_windows(demand, first_day, boundary), daily_windows(demand, boundary, days))
