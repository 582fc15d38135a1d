"""`python -m altdiff solve FILE`: what it prints, what it writes, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import altdiff
import numpy as np
import pytest
from test_qps import EXAMPLE


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "altdiff", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a problem that has a solution, one that has none, and files that are wrong."""
    (tmp_path / "small.qps").write_text(EXAMPLE, encoding="utf-8")
    (tmp_path / "broken.qps").write_text(EXAMPLE.replace("20.0", "2o.0"), encoding="utf-8")
    one: dict[str, Any] = {"P": np.eye(1), "q": np.array([1.0])}
    np.savez(tmp_path / "infeasible.npz", **one, G=np.array([[1.0], [-1.0]]), h=np.array([0.0, -1.0]))
    np.savez(tmp_path / "crossed.npz", **one, lb=np.array([1.0]), ub=np.array([0.0]))
    return tmp_path


def test_a_solved_problem_prints_its_summary(folder: Path) -> None:
    done = run(folder, "solve", "small.qps")
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line[:12].strip(): line[13:] for line in done.stdout.splitlines()}
    assert lines["problem"] == "small"
    assert lines["size"] == "2 variables, 2 inequalities, 0 equalities, 3 bounds"
    assert lines["non-zeros"] == "P 4, G 4"
    assert lines["status"] == "SOLVED"
    assert lines["objective"] == "8.371875 (minimised)"
    assert lines["unique"] == "yes"
    assert lines["degenerate"] == "no"
    assert {"residuals", "iterations", "time"} <= lines.keys()


def test_the_solution_is_written_as_npz(folder: Path) -> None:
    done = run(folder, "solve", "small.qps", "--output", "out.npz")
    assert done.returncode == 0
    solution = altdiff.solve_qp(**altdiff.read_qp(folder / "small.qps").fields())
    with np.load(folder / "out.npz", allow_pickle=False) as stored:
        for name in ("x", "y", "z", "z_box"):
            np.testing.assert_allclose(stored[name], getattr(solution, name), atol=1e-12)
        assert stored["status"] == "SOLVED"
        assert stored["objective"] == pytest.approx(8.371875)
        assert stored["variables"].tolist() == ["c1", "c2"]


def test_the_solution_is_written_as_json(folder: Path) -> None:
    done = run(folder, "solve", "small.qps", "--output", "out.json")
    assert done.returncode == 0
    stored = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert stored["status"] == "SOLVED"
    assert stored["objective"] == pytest.approx(8.371875)
    assert len(stored["x"]) == len(stored["z_box"]) == len(stored["z"]) == 2
    assert stored["y"] == []
    assert stored["primal_residual"] <= 1e-8


def test_a_problem_without_a_solution_exits_with_one_and_says_what_to_try(folder: Path) -> None:
    done = run(folder, "solve", "infeasible.npz", "--output", "out.json")
    assert done.returncode == 1
    assert "status       PRIMAL_INFEASIBLE" in done.stdout
    assert "what to try  no x satisfies the constraints" in done.stdout
    # JSON has no infinities.
    stored = json.loads((folder / "out.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert stored["status"] == "PRIMAL_INFEASIBLE"


def test_settings_reach_the_solver(folder: Path) -> None:
    done = run(
        folder,
        "solve",
        "small.qps",
        "--tolerance=1e-4",
        "--method=alternating",
        "--time-limit=9",
        "--threads=1",
    )
    assert done.returncode == 0
    assert run(folder, "solve", "small.qps", "--verbose").returncode == 0
    stopped = run(folder, "solve", "small.qps", "--method=alternating", "--max-iterations=1")
    assert stopped.returncode == 1
    assert "MAX_ITERATIONS" in stopped.stdout


def test_a_file_that_maximises_reports_its_own_objective(folder: Path) -> None:
    text = "OBJSENSE MAX\nROWS\n N obj\nCOLUMNS\n x obj 2\nRHS\n r obj -1\nQUADOBJ\n x x -2\nENDATA\n"
    (folder / "top.qps").write_text(text, encoding="utf-8")
    done = run(folder, "solve", "top.qps")
    assert done.returncode == 0
    assert "objective    2 (maximised)" in done.stdout
    assert done.stderr.startswith("note: top: the file maximises")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "broken.qps"), "altdiff: broken.qps: line 15: '2o.0' is not a number"),
        (("solve", "crossed.npz"), "altdiff: crossed.npz: lb must not exceed ub"),
        (("solve", "missing.npz"), "No such file or directory: 'missing.npz'"),
        (("solve", "small.txt"), "must end in one of .npz, .mat, .qps"),
        (("solve", "small.qps", "--method=simplex"), "method"),
        (("solve", "small.qps", "--tolerance=-1"), "tolerance"),
        (("solve", "small.qps", "--tolerance=tight"), "argument --tolerance: invalid float value: 'tight'"),
        (("solve", "small.qps", "--output=out.txt"), "'out.txt' must end in .npz or .json"),
        (("solve", "small.qps", "--output=nowhere/out.npz"), "there is no folder 'nowhere'"),
        (("solve",), "the following arguments are required: FILE"),
        (("dissolve",), "invalid choice: 'dissolve'"),
    ],
)
def test_a_wrong_file_or_option_exits_with_two_and_one_message(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_lists_the_options(folder: Path) -> None:
    done = run(folder, "solve", "--help")
    assert done.returncode == 0
    for option in ("FILE", "--output", "--tolerance", "--method", "--time-limit", "--threads", "--verbose"):
        assert option in done.stdout
