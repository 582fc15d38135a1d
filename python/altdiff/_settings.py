"""The settings of a solve: the same keywords everywhere."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from altdiff._native import core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from altdiff._binding import NativeSettings


class Settings(TypedDict, total=False):
    """The settings of a solve, each with its default."""

    tolerance: float  # bounds the relative primal and dual residuals and the gap; 1e-8
    gradient_tolerance: float  # bounds the relative residual of a derivative's linear system; 1e-8
    max_iterations: int  # rounds of the engine, or changes of its active set; 10000
    time_limit: float | None  # seconds for the whole call, all instances together; None, the default: no limit
    method: str  # "auto", "active_set", "interior_point" or "alternating"; "auto"
    num_threads: int | None  # None: OMP_NUM_THREADS, else the cores that this process may use
    verbose: bool  # print what becomes of each instance, or of one large problem how it goes; False
    rho: float  # first penalty of the alternating engine, which adapts it; 0.1
    finish: (
        bool  # lift the engine's answer to machine precision on its active set; True. False: as it is, from
    )
    # the method asked for ("auto" is then "alternating", as in the paper; an active set is exact without it)


_REALS = ("tolerance", "gradient_tolerance", "time_limit", "rho")
_INTEGERS = ("max_iterations", "num_threads")
_FLAGS = ("verbose", "finish")
NAMES = tuple(Settings.__annotations__)
_DEFAULTS = core.Settings()


def native_settings(settings: Mapping[str, Any]) -> NativeSettings:
    """The core's settings. The core checks the values; here names and types, so that errors are readable."""
    if not settings:
        return _DEFAULTS
    return core.Settings(**{name: _typed(name, value) for name, value in settings.items()})


def _typed(name: str, value: Any) -> float | bool | str:
    if name not in NAMES:
        raise TypeError(_unknown(name))
    if name == "num_threads" and value is None:
        return 0
    if name == "time_limit" and value is None:
        return math.inf
    if name in _REALS:
        return real_setting(name, value)
    if name in _INTEGERS:
        return integer_setting(name, value)
    if name in _FLAGS:
        return flag_setting(name, value)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    return value


def real_setting(name: str, value: Any) -> float:
    """`value` as a float, or an error that names the setting."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def integer_setting(name: str, value: Any) -> int:
    """`value` as an int within the core's 32 bits, or an error that names the setting."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if abs(int(value)) >= 2**31:
        raise ValueError(f"{name} must fit in 32 bits, got {value!r}")
    return int(value)


def flag_setting(name: str, value: Any) -> bool:
    """`value` as a bool, or an error that names the setting."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _unknown(name: str) -> str:
    # Imported where it is needed: nobody else should wait for it.
    import difflib

    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown setting {name!r}: {hint}The settings are {', '.join(NAMES)}"
