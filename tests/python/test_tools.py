"""The checks of the repository find what they are for, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
MATH = "# Math\n\n(F9) in prose.\n\n    (QP)  minimise f\n    (F1)  x+ = 1\n\n| (R1) | residual |\n"
SOURCE = "// (QP)\nx = 1;  // (F1), under the lock (GIL)\n/* a block:\n   (R1) */\n"


def run_check(tool: str, root: Path) -> tuple[int, list[str]]:
    """Exit status and messages of a tool on a tree."""
    command = [sys.executable, str(TOOLS / tool), str(root)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stderr.splitlines()


def write(root: Path, files: dict[str, str]) -> Path:
    """A tree with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def write_repository(root: Path, files: dict[str, str]) -> Path:
    """A git repository with these files, not yet added."""
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    return write(root, files)


def test_tags_that_are_defined_and_used_pass(tmp_path: Path) -> None:
    write(tmp_path, {"docs/math.md": MATH, "src/step.cpp": SOURCE})
    assert run_check("check_tags.py", tmp_path) == (0, [])


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("src/more.cpp", "int a;\nint b;  // (F2)\n", 2),
        ("include/altdiff/more.hpp", "/// (R1), (D4)\n", 1),
        ("src/block.cpp", "/* two\n lines (F2) */\n", 2),
        ("python/altdiff/more.py", "a = 1\n\nb = 2  # (F2)\n", 3),
        ("tests/cpp/more.cpp", "// (F2)\n", 1),
    ],
)
def test_a_tag_used_but_not_defined_fails_with_its_place(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    write(tmp_path, {"docs/math.md": MATH, "src/step.cpp": SOURCE, name: text})
    status, messages = run_check("check_tags.py", tmp_path)
    assert status == 1
    assert len(messages) == 1
    assert messages[0].startswith(f"{name}:{line}: ")
    assert "not defined" in messages[0]


@pytest.mark.parametrize(
    "extra", ["    (F2)  s+ = 2\n", "```\n(F2)  s+ = 2\n```\n", "$$\n(F2) s\n$$\n", "| (F2) |\n"]
)
def test_a_tag_defined_but_not_implemented_fails_even_if_a_test_names_it(tmp_path: Path, extra: str) -> None:
    write(tmp_path, {"docs/math.md": MATH + extra, "src/step.cpp": SOURCE, "tests/cpp/step.cpp": "// (F2)\n"})
    status, messages = run_check("check_tags.py", tmp_path)
    assert status == 1
    assert len(messages) == 1
    assert messages[0].startswith("docs/math.md:")
    assert "(F2) is defined but not used" in messages[0]


def test_a_tag_defined_twice_fails(tmp_path: Path) -> None:
    write(tmp_path, {"docs/math.md": MATH + "    (F1)  again\n", "src/step.cpp": SOURCE})
    status, messages = run_check("check_tags.py", tmp_path)
    assert status == 1
    assert "(F1) is defined a second time (first in line 6)" in messages[0]


def test_strings_and_code_are_no_comments(tmp_path: Path) -> None:
    code = "call(F7);\nconst char* s = \"http://x (F8)\";\nchar c = '\"';\nint million = 1'000'000;\n"
    python = 's = "# (F8)"\n"""(F9)"""\n'
    write(tmp_path, {"docs/math.md": MATH, "src/step.cpp": SOURCE + code, "python/a.py": python})
    assert run_check("check_tags.py", tmp_path) == (0, [])


def test_a_tidy_tree_passes(tmp_path: Path) -> None:
    files = {"a.py": "def f() -> None:\n    pass\n", "b.md": "See ../shared/data or https://x.org/home/y.\n"}
    assert run_check("check_tree.py", write_repository(tmp_path, files)) == (0, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n" * 601, "a.py:601: more than 600 lines"),
        ("def f():\n" + "    x = 1\n" * 60, "a.py:1: f has 61 lines, more than 60"),
        ("x = '/" + "home/ann/data'\n", "a.py:1: names a path outside the repository: /" + "home/ann"),
        ("x = 1  # TO" + "DO better\n", "a.py:1: TO" + "DO: do it now, or open an issue"),
    ],
)
def test_an_untidy_tree_fails_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    assert run_check("check_tree.py", write_repository(tmp_path, {"a.py": text})) == (1, [message])


def test_files_that_git_ignores_are_not_checked(tmp_path: Path) -> None:
    files = {".gitignore": "build/\n", "build/log.txt": "/" + "home/ann/x\n"}
    assert run_check("check_tree.py", write_repository(tmp_path, files)) == (0, [])
