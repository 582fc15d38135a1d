"""The energy experiment's data: the generator, the reader of the PJM files, and the windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.load_data import (
    NEXT_HOURS,
    PAST_HOURS,
    PJM_FILES,
    FloatArray,
    daily_windows,
    load_series,
    read_pjm,
    regular_hours,
    split_days,
)
from experiments.scheduling import choose_ramp_limit, share_of_ramped_days
from experiments.synthetic_load import synthetic_load


def autocorrelation(series: FloatArray, lag: int) -> float:
    return float(np.corrcoef(series[:-lag], series[lag:])[0, 1])


def write_pjm(folder: Path, first: list[tuple[int, float]], second: list[tuple[int, float]]) -> None:
    """Hours and loads, with a temperature that no reader should trust."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(PJM_FILES, (first, second), strict=True):
        lines = [f" {3600.0 * hour:.8e} {load:.8e} nan" for hour, load in rows]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_generator_gives_the_same_series_for_the_same_seed_only() -> None:
    assert np.array_equal(synthetic_load(3, years=1), synthetic_load(3, years=1))
    assert not np.allclose(synthetic_load(3, years=1), synthetic_load(4, years=1))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_generated_load_has_daily_weekly_and_seasonal_cycles(seed: int) -> None:
    load = synthetic_load(seed, years=3)
    assert load.min() > 0.0
    assert autocorrelation(load, 24) > autocorrelation(load, 12) + 0.3
    daily = load.reshape(-1, 24).mean(axis=1)
    change = np.diff(daily)  # without the slow weather and the season
    assert autocorrelation(change, 7) > autocorrelation(change, 4) + 0.2
    year = load[: 365 * 24].reshape(365, 24).mean(axis=1)
    spring, summer, winter = year[90:120].mean(), year[185:215].mean(), year[5:35].mean()
    assert summer > spring + 5.0
    assert winter > spring + 5.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_chosen_ramp_limit_binds_on_most_days(seed: int) -> None:
    days = split_days(synthetic_load(seed, years=3))
    limit = choose_ramp_limit(days.train.demand)
    assert 4.0 <= limit <= 6.5
    assert 0.70 <= share_of_ramped_days(days.train.demand, limit) <= 0.95


def test_an_hour_given_twice_is_averaged_and_a_missing_one_interpolated(tmp_path: Path) -> None:
    write_pjm(
        tmp_path,
        first=[(100, 1.0), (101, 2.0), (101, 4.0), (102, 5.0)],
        second=[(103, 6.0), (105, 10.0), (106, 9.0)],
    )
    assert read_pjm(tmp_path).load == pytest.approx([1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 9.0])


def test_a_long_gap_is_an_error_and_not_a_straight_line() -> None:
    seconds = 3600.0 * np.array([0.0, 1.0, 40.0])
    with pytest.raises(ValueError, match="gap of 38 hours"):
        regular_hours(seconds, np.ones(3))


def test_load_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    write_pjm(tmp_path, first=[(0, 1.0), (1, float("nan"))], second=[(2, 1.0)])
    with pytest.raises(ValueError, match="not finite"):
        read_pjm(tmp_path)


def test_a_folder_without_the_files_is_an_error_that_names_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=PJM_FILES[0]):
        load_series(tmp_path, seed=0, years=1)


def test_the_load_is_pjm_from_a_given_folder_and_generated_otherwise(tmp_path: Path) -> None:
    assert "generator" in load_series(None, seed=0, years=1).source
    write_pjm(tmp_path / "pjm", first=[(0, 1.0), (1, 2.0)], second=[(2, 3.0)])
    series = load_series(tmp_path, seed=0, years=1)
    assert "PJM" in series.source
    assert series.load == pytest.approx([1.0, 2.0, 3.0])


def test_a_window_holds_the_hours_before_its_day_and_then_the_day() -> None:
    hours = np.arange(24.0 * 10)
    days = daily_windows(hours, first_day=3, last_day=10)
    assert days.past.shape == (7, PAST_HOURS)
    assert days.demand.shape == (7, NEXT_HOURS)
    for k in range(7):
        midnight = 24 * (3 + k)
        assert np.array_equal(days.past[k], np.arange(midnight - PAST_HOURS, midnight))
        assert np.array_equal(days.demand[k], np.arange(midnight, midnight + NEXT_HOURS))


def test_what_is_known_before_the_test_days_does_not_depend_on_them() -> None:
    load = synthetic_load(0, years=1)
    boundary = split_days(load).train.demand.shape[0] + PAST_HOURS // NEXT_HOURS
    changed = load.copy()
    changed[24 * boundary :] *= 10.0
    before, after = split_days(load), split_days(changed)
    assert np.array_equal(before.train.past, after.train.past)
    assert np.array_equal(before.train.demand, after.train.demand)
    assert np.array_equal(before.test.past[0], after.test.past[0])


def test_training_demand_is_scaled_to_a_hundred() -> None:
    days = split_days(synthetic_load(0, years=1)).train
    hours = np.concatenate([days.past[0], days.demand.ravel()])
    assert hours.min() == pytest.approx(0.0)
    assert hours.max() == pytest.approx(100.0)


def test_too_little_load_is_an_error() -> None:
    with pytest.raises(ValueError, match="too few"):
        split_days(np.ones(24 * 4))
