"""Checks that code and mathematics agree: every equation tag in a comment is defined in docs/math*.md, and
every tag defined there is implemented.

A definition is a line of these pages, in a code block, a display or a table, that begins with the tag:

    (F1)  x+ = argmin ...

A use is a tag in a comment of a C++ or Python file. A tag of letters only, such as QP, may be an ordinary
abbreviation: in a comment it counts as a tag only if one of them defines it.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TAG = re.compile(r"\(([A-Z]{1,3}\d{0,2})\)")
IMPLEMENTATION = ("include", "src", "python")
ALL_CODE = (*IMPLEMENTATION, "benchmarks", "examples", "experiments", "tests")
# Literals come first, so that a "//" inside one does not start a comment.
CPP_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|(?P<comment>//[^\n]*|/\*.*?\*/)', re.DOTALL
)


class Place(NamedTuple):
    """Where a tag stands."""

    tag: str
    path: Path
    line: int


def definitions(path: Path) -> Iterator[Place]:
    """The tags that a line of a code block, display or table begins with."""
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith(("```", "~~~", "$$")):
            inside = not inside
        elif (inside or line.startswith(("    ", "|"))) and (found := TAG.match(line.lstrip(" \t|"))):
            yield Place(found[1], path, number)


def cpp_comments(text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of each line of each C++ comment."""
    for token in CPP_TOKEN.finditer(text):
        if comment := token["comment"]:
            first = text.count("\n", 0, token.start()) + 1
            yield from enumerate(comment.splitlines(), start=first)


def python_comments(text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of each Python comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def uses(root: Path, folders: tuple[str, ...]) -> Iterator[Place]:
    """Everything in a comment that looks like a tag."""
    for path in sorted(file for folder in folders for file in (root / folder).rglob("*.[chp]*")):
        if path.suffix in {".cpp", ".hpp", ".py"}:
            comments = python_comments if path.suffix == ".py" else cpp_comments
            for number, comment in comments(path.read_text(encoding="utf-8")):
                yield from (Place(found[1], path, number) for found in TAG.finditer(comment))


def check(root: Path) -> list[str]:
    """One message for each tag that breaks the rules."""
    defined: dict[str, Place] = {}
    problems: list[tuple[Place, str]] = []
    pages = sorted((root / "docs").glob("math*.md"))
    for place in (place for page in pages for place in definitions(page)):
        if place.tag in defined:
            problems.append((place, f"is defined a second time (first in line {defined[place.tag].line})"))
        defined.setdefault(place.tag, place)
    for place in uses(root, ALL_CODE):
        if place.tag not in defined and not place.tag.isalpha():
            problems.append((place, "is used but not defined in docs/math.md"))
    implemented = {place.tag for place in uses(root, IMPLEMENTATION)}
    for tag, place in defined.items():
        if tag not in implemented:
            problems.append((place, f"is defined but not used in {', '.join(IMPLEMENTATION)}"))
    return [f"{place.path.relative_to(root)}:{place.line}: ({place.tag}) {what}" for place, what in problems]


def main() -> int:
    """Prints the messages; the exit status is 1 if there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    problems = check(root)
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
