"""Building without the right compiler: the error says which one is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent  # cmake and ninja come from PyPI
NEEDED = "altdiff is compiled from source and needs a C++20 compiler: GCC 12 or newer, or clang 16 or newer."


def configure(folder: Path, *options: str, **variables: str) -> str:
    """What a configuration that fails says, in one line."""
    ninja = f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}"
    where = ("-S", str(ROOT), "-B", str(folder / "build"))
    command = [str(TOOLS / "cmake"), *where, "-G", "Ninja", ninja, *options]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("compiler", ["/nonexistent", "g++-99"])
def test_a_compiler_that_is_not_there_is_named_with_what_is_needed(compiler: str, tmp_path: Path) -> None:
    by_variable = configure(tmp_path, CXX=compiler, PATH=os.environ["PATH"])
    by_option = configure(tmp_path, f"-DCMAKE_CXX_COMPILER={compiler}", PATH=os.environ["PATH"])
    for error in (by_variable, by_option):
        assert NEEDED in error
        assert "apt-get install g++" in error
        assert f"There is no {compiler}" in error


def test_without_any_compiler_the_error_says_what_is_needed(tmp_path: Path) -> None:
    error = configure(tmp_path, PATH=str(tmp_path))
    assert NEEDED in error
    assert "None was found." in error


def test_a_compiler_that_is_too_old_is_named_with_what_is_needed(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text('#!/bin/sh\nexec c++ -U__clang__ -U__GNUC__ -D__GNUC__=9 "$@"\n')
    old.chmod(0o755)
    error = configure(tmp_path, CXX=str(old), PATH=os.environ["PATH"])
    assert NEEDED in error
    assert f"{old} is GNU 9." in error
