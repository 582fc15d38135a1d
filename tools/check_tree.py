"""Checks the shape of the repository: files and functions stay short, and nothing names a path of somebody's
machine or is left for later."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 600  # a bound for generated-looking files; what a class does is what counts
MAX_FUNCTION_LINES = 60  # clang-tidy holds C++ to the same
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:home|root|Users|work|tmp|mnt)/[\w.-]+")
LATER = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")
DATA = {".csv", ".json", ".npz", ".png", ".svg"}


def files(root: Path) -> list[Path]:
    """The files that are, or would be, in the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(path for name in names.split("\0") if name and (path := root / name).is_file())


def long_functions(text: str) -> Iterator[tuple[int, str]]:
    """Line and message of each Python function that is too long."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {length} lines, more than {MAX_FUNCTION_LINES}"


def problems_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and message of each breach in one file."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield len(lines), f"more than {MAX_FILE_LINES} lines"
    for number, line in enumerate(lines, start=1):
        if found := MACHINE_PATH.search(line):
            yield number, f"names a path outside the repository: {found[0]}"
        if found := LATER.search(line):
            yield number, f"{found[0]}: do it now, or open an issue"
    if path.suffix == ".py":
        yield from long_functions(text)


def check(root: Path) -> list[str]:
    """One message for each breach."""
    checked = (path for path in files(root) if path.suffix not in DATA)
    return [
        f"{path.relative_to(root)}:{line}: {what}" for path in checked for line, what in problems_of(path)
    ]


def main() -> int:
    """Prints the messages; the exit status is 1 if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    problems = check(root)
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
