"""The energy experiment: the scheduling problem, its training, and the whole run with its report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from altdiff.torch import QPLayer

from experiments import energy
from experiments.energy_results import FinalLoss, epochs_to_show, with_spread
from experiments.energy_training import (
    EnergyTask,
    Forecaster,
    TrainingOptions,
    forecast_all,
    loss_of_schedule,
    schedule_all,
    train,
)
from experiments.html_report import Page
from experiments.layer_checks import GradientCheck, check_gradients, farthest_from_kinks, time_training_step
from experiments.load_data import split_days
from experiments.scheduling import Scheduler, ramp_matrix
from experiments.synthetic_load import synthetic_load
from experiments.text_table import text_table

RAMP_LIMIT = 5.0


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices on busy cores: a second thread would mostly wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def task() -> EnergyTask:
    return EnergyTask.of(split_days(synthetic_load(0, years=1)), RAMP_LIMIT)


def test_the_ramp_matrix_bounds_every_step_up_and_down() -> None:
    x = np.array([1.0, 4.0, 2.0])
    assert ramp_matrix(3) @ x == pytest.approx([3.0, -2.0, -3.0, 2.0])
    assert ramp_matrix(24).shape == (46, 24)


def test_schedules_keep_the_ramp_limit(task: EnergyTask) -> None:
    steps = task.test.best_schedule.diff(dim=-1).abs()
    assert float(steps.max()) <= RAMP_LIMIT + 1e-6
    assert float(task.test.demand.diff(dim=-1).abs().max()) > RAMP_LIMIT + 1.0


def test_a_demand_within_the_limit_is_its_own_schedule() -> None:
    demand = torch.linspace(20.0, 50.0, 24, dtype=torch.float64)
    assert torch.allclose(Scheduler(RAMP_LIMIT)(demand), demand, atol=1e-6)


def test_no_other_schedule_within_the_limit_is_closer_to_the_demand(task: EnergyTask) -> None:
    """The schedule is a projection: its residual makes an obtuse angle with every feasible direction."""
    demand, schedule = task.train.demand[:50], task.train.best_schedule[:50]
    others = task.train.best_schedule[50:100]
    assert float(((demand - schedule) * (others - schedule)).sum(dim=-1).max()) <= 1e-5


def test_the_gradient_of_the_layer_agrees_with_central_differences(task: EnergyTask) -> None:
    forecast = task.test.past[:, -24:]
    checks = check_gradients(task.scheduler, forecast, task.test, seed=1)
    assert [check.field for check in checks] == ["P", "q", "G", "h"]
    assert all(check.relative_error < 1e-6 for check in checks), checks


def test_the_gradient_check_notices_a_wrong_gradient(task: EnergyTask) -> None:
    class Wrong(QPLayer):
        """Adds nothing to the schedule, but something to its derivative."""

        def forward(self, *data: Any, **fields: Any) -> torch.Tensor:
            q: torch.Tensor = fields["q"]
            return super().forward(*data, **fields) + 1e-4 * (q - q.detach())

    scheduler = Scheduler(RAMP_LIMIT)
    scheduler.layer = Wrong()
    checks = check_gradients(scheduler, task.test.past[:, -24:], task.test, seed=1)
    assert {check.field: check.relative_error > 1e-6 for check in checks}["q"]


def test_the_days_to_check_are_those_with_the_widest_margin() -> None:
    flat = torch.full((24,), 30.0, dtype=torch.float64)
    nearly_at_the_limit = flat.clone()
    nearly_at_the_limit[12:] += RAMP_LIMIT - 1e-9
    chosen = farthest_from_kinks(Scheduler(RAMP_LIMIT), torch.stack([nearly_at_the_limit, flat]), count=1)
    assert chosen.tolist() == [1]


def test_training_through_the_layer_lowers_the_loss_on_later_days(task: EnergyTask) -> None:
    options = TrainingOptions(epochs=5, seed=0)
    _, history = train(task, loss_of_schedule(task.scheduler), options, "test")
    assert history.test[-1] < 0.7 * history.test[0]
    assert history.train[-1] < 0.7 * history.train[0]


def test_training_is_repeatable(task: EnergyTask) -> None:
    options = TrainingOptions(epochs=1, seed=5, hidden=16)
    losses = [train(task, loss_of_schedule(task.scheduler), options, "test")[1].test for _ in range(2)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_timing_leaves_the_model_as_it_was(task: EnergyTask) -> None:
    torch.manual_seed(0)
    model = Forecaster(16, task.train.past)
    before = forecast_all(model, task.test)
    timing = time_training_step(task, model, batch=8, repeats=3)
    assert torch.equal(forecast_all(model, task.test), before)
    assert timing.batch == 8
    assert 0.0 < timing.layer_share < 1.0


def test_scheduling_in_parts_equals_scheduling_at_once(
    task: EnergyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = task.scheduler(task.test.demand[:10])
    monkeypatch.setattr("experiments.energy_training.EVALUATION_BATCH", 4)
    assert torch.allclose(schedule_all(task.scheduler, task.test.demand[:10]), whole, atol=1e-9)


@pytest.mark.parametrize("error", [2e-6, float("nan")])
def test_a_wrong_gradient_makes_the_run_fail(
    error: float, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [GradientCheck("q", 1e-9), GradientCheck("h", error)]
    monkeypatch.setattr("experiments.energy_run.check_gradients", lambda *_: wrong)
    assert energy.main(["--quick", "--epochs", "1", "--out", str(tmp_path)]) == 1
    assert "DISAGREES" in capsys.readouterr().out


class Tags(HTMLParser):
    """Counts elements, collects ids, and everything that a browser would load or point to."""

    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.ids: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href"):
                self.targets.append(value or "")


def test_a_quick_run_writes_a_self_contained_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert energy.main(["--quick", "--epochs", "2", "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    assert "agrees with central differences" in printed
    assert "yesterday's demand" in printed
    assert "layer, backward" in printed

    html = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(html)
    assert tags.count["svg"] == 3
    assert tags.count["table"] >= 4
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert not {"script", "link", "img", "iframe"} & set(tags.count)
    assert len(tags.ids) == len(set(tags.ids)), "two figures share an id"
    pointed_to = set(tags.targets) | set(re.findall(r"url\((#[^)]*)\)", html))
    assert pointed_to <= {f"#{name}" for name in tags.ids}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "must be at least 1"),
        (["--ramp", "-1"], "must be positive"),
    ],
)
def test_a_bad_option_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        energy.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_data_folder_ends_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert energy.main(["--data", str(tmp_path / "nowhere")]) == 2
    assert "no PJM load" in capsys.readouterr().err


def test_text_on_a_page_is_escaped() -> None:
    page = Page("a < b", "lead & more")
    page.table(["<x>"], [["1 > 0"]])
    html = page.html()
    assert "a &lt; b" in html
    assert "lead &amp; more" in html
    assert "&lt;x&gt;" in html
    assert "1 &gt; 0" in html


def test_tables_align_names_left_and_numbers_right() -> None:
    lines = text_table(["name", "loss"], [["a", "1.0"], ["longer", "100.0"]]).splitlines()
    assert lines == ["name     loss", "------  -----", "a         1.0", "longer  100.0"]


def test_a_spread_is_given_only_for_repeats() -> None:
    entry = FinalLoss("x", np.array([3.0]), np.array([1.0, 2.0, 3.0]))
    assert with_spread(entry.test_loss) == "3.0"
    assert with_spread(entry.demand_error, 2) == "2.00 ± 1.00"


@pytest.mark.parametrize(("epochs", "shown"), [(1, [1]), (3, [1, 2, 3]), (30, [1, 2, 5, 10, 20, 30])])
def test_the_table_of_losses_shows_round_epochs_and_the_last(epochs: int, shown: list[int]) -> None:
    assert epochs_to_show(epochs) == shown
