"""Chooses between the two builds of the native module: any x86-64, or x86-64-v3 (AVX2 and FMA)."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from altdiff._binding import Core

VARIABLE = "ALTDIFF_INSTRUCTION_SET"
_CHOICES = ("baseline", "x86-64-v3")


def _load() -> Core:
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in _CHOICES:
        raise ImportError(f"{VARIABLE} must be one of {', '.join(_CHOICES)}, got {wanted!r}")
    base = cast("Core", importlib.import_module("altdiff._core_base"))
    if wanted == "baseline":
        return base
    supported = base.cpu_supports_v3()
    if wanted and not supported:
        raise ImportError(f"{VARIABLE} asks for {wanted}, which this processor does not support")
    if not supported:
        return base
    try:
        return cast("Core", importlib.import_module("altdiff._core_v3"))
    except ModuleNotFoundError:
        # Builds for other processors hold the base module only; a broken v3 module still raises.
        if wanted:
            raise
        return base


core: Core = _load()
