"""`verbose=True`: what is told, and that only the caller's thread talks."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from altdiff.torch import QPLayer


def told(capsys: pytest.CaptureFixture[str], *arguments: Any, **settings: Any) -> list[str]:
    """The lines that a solve prints."""
    altdiff.solve_qp(*arguments, verbose=True, **settings)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("method", ["auto", "active_set"])
@pytest.mark.parametrize("shape", [(2,), (3, 2), (2, 2, 2)])
def test_every_dense_solve_tells_engine_iterations_residuals_and_status(
    method: str, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    header, columns, *lines, summary = told(capsys, np.eye(2), np.ones(shape), lb=0.0, method=method)
    count = int(np.prod(shape[:-1]))
    assert header.startswith(f"altdiff: {count} dense program")
    assert "2 variables, 0 inequalities, 0 equalities" in header
    assert columns.split() == ["instance", "engine", "iterations", "primal", "dual", "gap", "status"]
    assert len(lines) == count
    assert all("active set" in line and line.endswith("SOLVED") for line in lines)
    assert f"{count} SOLVED" in summary
    assert f"{count} active set" in summary


def test_a_batch_tells_how_many_went_where(capsys: pytest.CaptureFixture[str]) -> None:
    P = np.stack([np.eye(2), np.zeros((2, 2)), np.eye(2), -np.eye(2)])
    q = np.ones((4, 2))
    q[2] = np.nan
    *_, first, second, third, fourth, summary = told(capsys, P, q, lb=0.0)
    assert first.split()[:3] == ["0", "active", "set"]
    assert second.split()[:2] == ["1", "proximal"]
    assert third.split()[1::5] == ["none", "INVALID_DATA"]
    assert fourth.split()[-1] == "NONCONVEX"
    assert summary.startswith("2 SOLVED, 1 NONCONVEX, 1 INVALID_DATA in")
    assert "1 active set, 1 interior point, 1 proximal" in summary


def test_a_large_batch_tells_of_twenty_and_of_what_failed_first(capsys: pytest.CaptureFixture[str]) -> None:
    h = np.ones((500, 2))
    h[400, 1] = -5.0
    q = np.random.default_rng(0).normal(size=(500, 3))
    lines = told(capsys, np.eye(3), q, np.array([[1.0, 0, 0], [-1, 0, 0]]), h)
    assert len(lines) == 2 + 20 + 2
    assert lines[-3].split()[0] == "400"
    assert lines[-3].endswith("PRIMAL_INFEASIBLE")
    assert lines[-2] == "and 480 more"


def test_one_program_that_is_handed_on_has_the_table_of_that_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = told(capsys, np.eye(2), np.ones(2), lb=0.0, method="interior_point")
    assert sum(line.startswith("altdiff:") for line in lines) == 1
    assert lines[-1].startswith("SOLVED after")


def test_a_sparse_batch_tells_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    header, _, *lines, summary = told(capsys, sp.csc_matrix(np.eye(2)), np.ones((3, 2)), lb=0.0)
    assert header.startswith("altdiff: 3 sparse programs")
    assert len(lines) == 3
    assert "3 interior point" in summary


def test_a_layer_tells_too_and_is_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    QPLayer()(torch.eye(2), torch.ones(3, 2), lb=0.0)
    assert capsys.readouterr().out == ""
    QPLayer(verbose=True)(torch.eye(2), torch.ones(3, 2), lb=0.0)
    assert "3 SOLVED" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("method", ["auto", "interior_point", "alternating"])
def test_only_the_callers_thread_talks(kind: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.threads: set[int] = set()

        def write(self, text: str) -> int:
            self.threads.add(threading.get_ident())
            return super().write(text)

    rng = np.random.default_rng(1)
    P: Any = sp.csc_matrix((30, 30)) if kind == "sparse" else np.zeros((30, 30))
    listener = Listener()
    monkeypatch.setattr(sys, "stdout", listener)
    q = rng.normal(size=(64, 30))
    altdiff.solve_qp(P, q, lb=-1.0, ub=1.0, method=method, num_threads=4, verbose=True)
    monkeypatch.undo()
    assert listener.threads == {threading.get_ident()}
    assert listener.getvalue().count("\n") == 2 + 20 + 2
