"""Where an experiment's files are: an option, an environment variable, or a folder beside the repository."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

VARIABLE = "ALTDIFF_DATA"
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def find_folder(given: Path | None, subfolder: str, files: Iterable[str]) -> Path | None:
    """The folder that has all files, itself or in its subfolder; None if there is none and none was named."""
    names = list(files)
    named = os.environ.get(VARIABLE)
    asked = given or (Path(named) if named else None)
    for folder in (asked or BESIDE, (asked or BESIDE) / subfolder):
        if all((folder / name).is_file() for name in names):
            return folder
    if asked is not None:
        raise FileNotFoundError(f"no {subfolder} data in {asked}: expected {', '.join(names)}")
    return None
