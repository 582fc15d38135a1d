"""A measurement in a process of its own, so that no memory or warm cache is left from the one before."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from benchmarks.peers.pool import SPAWN, environment

P = ParamSpec("P")
R = TypeVar("R")


def alone(threads: int, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """What the function returns, or raises, in a fresh process."""
    with environment(threads), ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        return pool.submit(function, *arguments, **named).result()
