"""A seeded generator of hourly electricity load, so that the energy experiment runs without any download.

Load is people plus weather: a daily shape that differs between working days and days off, and heating
or cooling that follows a temperature with a seasonal mean, a daily swing and slow random weather.
The constants give a series whose daily steps, weekly pattern and day-to-day changes are close to those of
a real regional grid, after scaling to [0, 100].
"""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

FIRST_DAY = date(2010, 1, 1)
HOLIDAYS = {(1, 1), (7, 4), (12, 25), (12, 26)}  # month, day: people behave as on a Sunday

# Activity of people in hours 0..23, in the unit of the final load.
WORKING_DAY = np.array(
    [6, 4, 3, 3, 5, 9, 14, 18, 20, 21, 22, 22, 22, 21, 21, 20, 20, 21, 22, 22, 21, 18, 13, 9],
    dtype=np.float64,
)
DAY_OFF = np.array(
    [6, 4, 2, 1, 1, 2, 4, 7, 10, 13, 14, 14, 14, 13, 12, 12, 13, 15, 17, 18, 17, 15, 11, 8], dtype=np.float64
)


def autoregressive_noise(
    generator: np.random.Generator, length: int, memory_hours: float, deviation: float
) -> FloatArray:
    """Stationary noise whose correlation falls by a factor e every `memory_hours`."""
    decay = np.exp(-1.0 / memory_hours)
    shocks = generator.normal(0.0, deviation * np.sqrt(1.0 - decay**2), length)
    noise = np.empty(length)
    level = generator.normal(0.0, deviation)  # start in the stationary law, not at zero
    for hour, shock in enumerate(shocks):
        level = decay * level + shock
        noise[hour] = level
    return noise


def is_day_off(day: date) -> bool:
    """Weekends and the holidays above."""
    return day.weekday() >= 5 or (day.month, day.day) in HOLIDAYS


def temperature(generator: np.random.Generator, hours: int) -> FloatArray:
    """Degrees Celsius: coldest late in January and at five in the morning."""
    hour = np.arange(hours)
    season = 12.0 - 13.0 * np.cos(2 * np.pi * (hour / 24 - 25) / 365.25)
    daily = -5.0 * np.cos(2 * np.pi * (hour - 3) / 24)
    weather = autoregressive_noise(generator, hours, memory_hours=60.0, deviation=4.5)
    return season + daily + weather


def heating_and_cooling(degrees: FloatArray) -> FloatArray:
    """Buildings answer to the mean of the last day more than to the last hour."""
    heat_stored = np.empty_like(degrees)
    level = degrees[0]
    for hour, now in enumerate(degrees):
        level += (now - level) / 6.0
        heat_stored[hour] = level
    return 1.1 * np.maximum(10.0 - heat_stored, 0.0) + 2.6 * np.maximum(heat_stored - 18.0, 0.0)


def synthetic_load(seed: int, years: int = 6) -> FloatArray:
    """Hourly load from midnight of 1 January on; the same seed gives the same series."""
    generator = np.random.default_rng(seed)
    days = round(365.25 * years)
    shapes = [DAY_OFF if is_day_off(FIRST_DAY + timedelta(days=k)) else WORKING_DAY for k in range(days)]
    people = np.concatenate(shapes)
    buildings = heating_and_cooling(temperature(generator, people.size))
    unexplained = autoregressive_noise(generator, people.size, memory_hours=8.0, deviation=1.2)
    return 20.0 + people + buildings + unexplained
