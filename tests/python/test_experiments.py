"""The paper's experiments: quick runs work, go on where they ended, and keep what the report needs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from altdiff import alternating_differentiation
from altdiff.torch import QPLayer, sparsemax

from benchmarks.peers.pool import CellError
from benchmarks.peers.problems import ALL_OWN, random_problem
from experiments import figure1, figure2, mnist, race, table1, table2, table4, table5, table6, truncation
from experiments.command import Budget
from experiments.dense_qp import DenseContest, write_case
from experiments.html_report import Page
from experiments.results import Results, load, plain, spread
from experiments.sparsemax_layers import make_case
from experiments.unrolled import rounds

OURS = ["altdiff", "algorithm1"]


class HereWorker:
    """A worker in this process: the other libraries and the time limits have tests of their own."""

    started: list[str] = []  # noqa: RUF012

    def __init__(self, label: str, threads: int, folder: Path, contest: type[race.Contest]) -> None:
        self.started.append(label)
        self.session = contest(label, threads, folder)

    def ask(self, _: float, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.session, name)(*arguments)
        except ImportError as problem:
            raise CellError(f"not available ({problem})") from problem

    def close(self) -> None:
        self.session.layer = None


@pytest.fixture(autouse=True)
def settings_of_torch() -> Iterator[None]:
    """Adapters change torch's defaults, which in a process of their own harms nobody."""
    threads, kind = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(kind)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs everything in this process; the labels of the methods that were started."""
    monkeypatch.setattr(HereWorker, "started", [])
    monkeypatch.setattr(race, "Worker", HereWorker)
    monkeypatch.setattr(race, "alone", lambda _, write, folder: write(folder))
    return HereWorker.started


def quick(main: Callable[[list[str]], int], folder: Path, *more: str) -> dict[str, Any]:
    options = ["--quick", "--threads", "1", "--seconds", "0.01", "--out", str(folder), *more]
    assert main(options) == 0
    files = list(folder.glob("*.json"))
    assert len(files) == 1
    return load(files[0])


def shown(section: Callable[[Any, dict[str, Any]], None], record: dict[str, Any]) -> str:
    page = Page("title", "lead")
    section(page, record)
    return page.html()


def test_table1_measures_both_readings_and_goes_on_where_it_ended(here: list[str], tmp_path: Path) -> None:
    record = quick(table1.main, tmp_path, "--methods", "altdiff")
    assert here == ["altdiff", "altdiff"]
    record = quick(table1.main, tmp_path, "--methods", "altdiff", "algorithm1", "algorithm1-residual")
    assert sorted(here[2:]) == 2 * ["algorithm1"] + 2 * ["algorithm1-residual"], (
        "cells that were there ran again"
    )
    for reading in table1.READINGS:
        ours, early, late = (
            record["cells"][f"quick/{reading}/{name}"]
            for name in ("altdiff", "algorithm1", "algorithm1-residual")
        )
        assert max(ours["errors"].values()) < 1e-9
        assert early["errors"]["b"] > 1e-4, "the paper's stop is not exact"
        assert late["cosine"] > 0.999
        assert late["errors"]["b"] < 1e-4
        assert late["rounds"] > early["rounds"]
    assert "120/40/16" in shown(table1.section, record)
    assert "120/16/40" in shown(table1.section, record)


def test_table2_makes_algorithm1_wrong_and_altdiff_not(here: list[str], tmp_path: Path) -> None:
    record = quick(table2.main, tmp_path, "--methods", *OURS, "--tolerances", "1e-1", "1e-5")
    assert len(here) == 4
    cells = record["cells"]
    assert cells["caption/altdiff@1e-1"]["errors"]["b"] < 1e-9
    assert (
        cells["caption/algorithm1@1e-1"]["errors"]["b"]
        > 1e-2
        > cells["caption/algorithm1@1e-5"]["errors"]["b"]
    )
    assert "wrong (error" in shown(table2.section, record)


def test_figure1_converges_to_the_exact_jacobian(tmp_path: Path) -> None:
    record = quick(figure1.main, tmp_path)
    errors = figure1.curve(record, "error")
    assert errors[0] > 0.1
    assert errors[-1] < 1e-2 * errors[0]
    assert figure1.curve(record, "cosine")[-1] > 0.999
    assert "<svg" in shown(figure1.section, record)


def test_table4_and_table5_are_exact_where_they_claim_to_be(here: list[str], tmp_path: Path) -> None:
    record = quick(
        table4.main, tmp_path / "4", "--methods", "altdiff", "altdiff-qp", "algorithm1", "algorithm1-y"
    )
    for n in table4.QUICK:
        for name in ("altdiff", "altdiff-qp"):
            assert max(record["cells"][f"{n}/{name}"]["errors"].values()) < 1e-9, name
    assert "n = 60" in shown(table4.section, record)
    record = quick(table5.main, tmp_path / "5", "--methods", *OURS)
    assert here[-6:] == ["altdiff", *(f"algorithm1@{tolerance}" for tolerance in table2.TOLERANCES)]
    assert "no tolerance" in shown(table5.section, record)


def test_the_reference_of_sparsemax_satisfies_its_conditions() -> None:
    case = make_case(50, 3)
    assert case.x.sum() == pytest.approx(1.0)
    solution = QPLayer()(
        2 * torch.eye(50, dtype=torch.float64),
        torch.from_numpy(-2 * case.y).requires_grad_(),
        A=torch.ones(1, 50, dtype=torch.float64),
        b=torch.ones(1, dtype=torch.float64),
        lb=torch.zeros(50, dtype=torch.float64),
        ub=torch.from_numpy(case.u),
    )
    np.testing.assert_allclose(solution.detach().numpy(), case.x, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 60, 300, 3000])
def test_the_reference_of_sparsemax_adds_up_at_every_size(n: int) -> None:
    for seed in range(5):
        case = make_case(n, seed)
        if case.u.sum() < 1.0:
            continue  # no such x
        assert case.x.sum() == pytest.approx(1.0, abs=1e-12)
        found = sparsemax(torch.from_numpy(case.y), upper=torch.from_numpy(case.u)).numpy()
        np.testing.assert_allclose(found, case.x, rtol=1e-9, atol=1e-14)


def test_table6_is_exact(here: list[str], tmp_path: Path) -> None:
    record = quick(table6.main, tmp_path, "--methods", "altdiff", "algorithm1", "algorithm1-residual")
    assert len(here) == 3
    cells = record["cells"]
    assert max(cells["30x10x4/altdiff"]["errors"].values()) < 1e-7
    assert cells["30x10x4/algorithm1-residual"]["cosine"] > 0.999
    assert "30x10x4" in shown(table6.section, record)


def test_figure2_trains_through_every_layer_and_goes_on(here: list[str], tmp_path: Path) -> None:
    record = quick(figure2.main, tmp_path, "--epochs", "1", "--methods", "altdiff", "truncated@1e-1")
    assert here == ["altdiff", "truncated@1e-1"]
    assert {f"train/{layer}/0" for layer in figure2.LAYERS} <= set(record["cells"])
    assert max(record["cells"]["batch/altdiff"]["errors"].values()) < 1e-9
    page = shown(figure2.section, record)
    assert "Algorithm 1, stopped at 1e-1" in page
    assert quick(figure2.main, tmp_path, "--epochs", "1", "--methods", "altdiff") == record


def test_mnist_goes_on_at_its_checkpoint(here: list[str], tmp_path: Path) -> None:
    def run(folder: str, *more: str) -> dict[str, Any]:
        common = [
            "--layers",
            "exact",
            "--methods",
            "altdiff",
            "--checkpoints",
            str(tmp_path / folder / "saved"),
            *more,
        ]
        return quick(mnist.main, tmp_path / folder, *common)

    first = run("a", "--epochs", "1")["cells"]["train/exact/0/1"]
    interrupted = run("a", "--epochs", "2")
    at_once = run("b", "--epochs", "2")
    assert here == ["altdiff", "altdiff"], "once for each folder"
    assert interrupted["cells"]["train/exact/0/1"] == first
    losses = [run["cells"]["train/exact/0/2"]["loss"] for run in (interrupted, at_once)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0] < first["loss"]
    assert 0.0 < interrupted["cells"]["parts"]["layer_share"]["median"] < 1.0
    assert "per cent" in shown(mnist.section, interrupted)
    shutil.rmtree(tmp_path / "a" / "saved")
    assert "train/exact/0/3" in run("a", "--epochs", "3")["cells"], "without a checkpoint it begins again"


def test_truncation_costs_accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "TOLERANCES", (1e-1, 1e-6))
    monkeypatch.setattr(truncation, "GRADIENT_TOLERANCES", (1e-8,))
    record = quick(truncation.main, tmp_path)
    for problem in truncation.PROBLEMS:
        early, late, exact = (
            record["cells"][f"{problem}/{name}"]["gradient_error"]
            for name in ("algorithm1@1e-01", "algorithm1@1e-06", "altdiff")
        )
        assert early > 0.05 > 1e-3 > late > 1e-9 > exact
    assert "<svg" in shown(truncation.section, record)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-4])
def test_backwards_through_the_rounds_is_the_forward_recursion(tolerance: float) -> None:
    problem = random_problem(10, 6, 3, None, ALL_OWN, seed=0)
    data = {name: getattr(problem, name) for name in ("P", "q", "G", "h", "A", "b")}
    leaves = {name: torch.from_numpy(value).requires_grad_() for name, value in data.items()}
    P, q, G, h, A, b = leaves.values()
    x, count = rounds(P, q[None], G, h, A, b, tolerance=tolerance)
    torch.autograd.backward(x, torch.from_numpy(problem.x_bar)[None])
    for name in ("q", "h", "b"):
        result = alternating_differentiation(**data, wrt=name, tolerance=tolerance)
        gradient = leaves[name].grad
        assert result.iterations == count
        assert gradient is not None
        np.testing.assert_allclose(result.jacobian.T @ problem.x_bar, gradient.numpy(), atol=1e-12)


def test_a_quick_run_does_not_replace_a_full_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Results("figure1", quick=False, seed=0, folder=tmp_path).put("curve/1", {"norm": 1.0})
    assert figure1.main(["--quick", "--out", str(tmp_path)]) == 2
    assert "full run" in capsys.readouterr().err
    assert "curve/1" in load(tmp_path / "figure1.json")["cells"]


def test_a_full_run_replaces_a_quick_one(tmp_path: Path) -> None:
    Results("x", quick=True, seed=0, folder=tmp_path).put("cell", {"value": 1})
    assert Results("x", quick=False, seed=0, folder=tmp_path).cells == {}


def test_results_say_what_they_are_of(tmp_path: Path) -> None:
    Results("x", quick=True, seed=4, folder=tmp_path).put(
        "cell", {"value": float("inf"), "list": [float("nan")]}
    )
    record = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert record["quick"] is True
    assert record["seed"] == 4
    assert record["machines"][0]["versions"]["altdiff"]
    assert record["cells"]["cell"] == {"value": "inf", "list": ["nan"]}
    assert plain({"a": (1.5, "b")}) == {"a": [1.5, "b"]}


def test_a_spread_has_median_and_quartiles() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == {"median": 3.0, "low": 2.0, "high": 4.0, "count": 5}


def test_a_method_that_does_not_finish_says_so(tmp_path: Path) -> None:
    """In a process of its own, as in a real run; no import is quick enough for this limit."""
    cell = race.measure(DenseContest, "altdiff", tmp_path, Budget(limit=0.01, seconds=1.0, threads=1))
    assert "did not finish" in cell["problem"]


def test_a_method_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    write_case((12, 4, 2), 0, tmp_path)
    cell = race.measure(DenseContest, "altdiff", tmp_path, Budget(limit=200.0, seconds=0.01, threads=1))
    assert max(cell["errors"].values()) < 1e-9
    assert cell["total"]["median"] > 0
    assert cell["versions"].startswith("altdiff")
