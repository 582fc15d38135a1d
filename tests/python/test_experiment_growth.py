"""What is not started because it would not end in time, and the call of all experiments."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import experiments.__main__ as driver
from experiments import race, table1
from experiments.command import Budget
from experiments.dense_qp import DenseContest
from experiments.growth import from_sizes, from_tolerances, is_missing
from experiments.report import SECTIONS
from experiments.results import FOLDER, Results


def took(seconds: float, building: float = 1e-3) -> dict[str, Any]:
    return {"first": seconds, "building": building, "total": {"median": seconds}}


LATE = {"problem": "did not finish in 60 s"}


def test_one_size_is_continued_like_its_cube() -> None:
    guess = from_sizes({"small/qpth": took(3.0)}, [("tiny", 500), ("small", 1000)], 2000)
    assert guess("qpth") == pytest.approx(24.0)
    assert guess("moreau") is None


def test_two_sizes_are_continued_as_they_grew_and_at_least_linearly() -> None:
    cells = {"a/x": took(1.0), "b/x": took(4.0), "a/y": took(1.0), "b/y": took(1.0)}
    guess = from_sizes(cells, [("a", 10), ("b", 20)], 40)
    assert guess("x") == pytest.approx(16.0)
    assert guess("y") == pytest.approx(2.0)


def test_building_a_layer_counts_too_and_grows_less() -> None:
    first = {"a/x": took(1.0, building=9.0)}
    assert from_sizes(first, [("a", 10)], 20)("x") == pytest.approx(18.0)
    second = first | {"b/x": took(8.0, building=72.0)}
    assert from_sizes(second, [("a", 10), ("b", 20)], 40)("x") == pytest.approx(576.0)


def test_who_did_not_finish_is_not_started_at_a_larger_size_or_a_tighter_tolerance() -> None:
    for problem in (LATE, {"problem": "failed: MemoryError: Unable to allocate"}):
        assert from_sizes({"a/x": problem}, [("a", 10)], 20)("x") == math.inf
    by_tolerance = from_tolerances({"row/x@1e-1": LATE, "row/y@1e-1": took(1.0)}, "row")
    assert by_tolerance("x@1e-2") == math.inf
    assert by_tolerance("y@1e-2") is None


def test_another_failure_is_no_prediction() -> None:
    assert from_sizes({"a/x": {"problem": "failed: RuntimeError"}}, [("a", 10)], 20)("x") is None


def test_a_predicted_cell_is_measured_once_the_limit_allows_it() -> None:
    assert is_missing(None, 60.0)
    assert not is_missing({"problem": "predicted", "predicted": 90.0}, 60.0)
    assert is_missing({"problem": "predicted", "predicted": 90.0}, 100.0)
    assert not is_missing({"problem": "predicted", "predicted": "inf"}, 1e9)
    assert not is_missing(took(1.0), 60.0)


def test_a_race_starts_altdiff_always_and_others_only_with_a_prospect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def measured(_: type[race.Contest], label: str, folder: Path, budget: Budget) -> dict[str, Any]:
        assert folder.is_dir()
        assert budget.limit == 60.0
        started.append(label)
        return took(1.0)

    monkeypatch.setattr(race, "measure", measured)
    monkeypatch.setattr(race, "alone", lambda _, write, folder: write(folder))
    results = Results("table1", quick=False, seed=0, folder=tmp_path)
    guesses = {"altdiff": 1e9, "qpth": 59.0, "moreau": 61.0}
    budget = Budget(limit=60.0, seconds=1.0, threads=1)
    labels = [*guesses, "proxqp"]
    race.race(results, "row", labels, DenseContest, lambda _: None, budget, guesses.get)
    assert started == ["altdiff", "qpth", "proxqp"]
    problem = results.cells["row/moreau"]["problem"]
    assert problem == "did not finish (predicted from the size before, about 61 s)"


def test_nothing_is_prepared_for_a_row_without_prospect(tmp_path: Path) -> None:
    results = Results("table1", quick=False, seed=0, folder=tmp_path)

    def write(_: Path) -> None:
        raise AssertionError("a problem was written that nobody needs")

    budget = Budget(limit=60.0, seconds=1.0, threads=1)
    race.race(results, "row", ["qpth"], DenseContest, write, budget, lambda _: math.inf)
    assert "predicted" in results.cells["row/qpth"]["problem"]


def options_of(names: list[str]) -> set[tuple[str, str]]:
    return {(part.name, option) for part in driver.FULL for option in part.options if option in names}


def test_the_call_of_all_covers_every_experiment_and_size() -> None:
    assert {part.name for part in driver.FULL} == set(SECTIONS)
    assert options_of(list(table1.SIZES)) == {("table1", name) for name in table1.SIZES}
    assert ("mnist", "30") in options_of(["30"])
    assert sum(part.minutes for part in driver.FULL) <= 70


def test_the_call_of_all_goes_on_after_a_failure_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def command(part: driver.Part, _: Any) -> list[str]:
        return [sys.executable, "-c", f"raise SystemExit({int(part.name == 'table2')})"]

    monkeypatch.setattr(driver, "command", command)
    assert driver.main(["--quick", "--only", "table1", "figure1", "--out", str(tmp_path)]) == 0
    assert driver.main(["--quick", "--only", "table1", "table2", "figure1", "--out", str(tmp_path)]) == 1
    text = capfd.readouterr()
    assert "failed: table2 --quick" in text.err
    assert "3/3" in text.out


def test_the_call_of_all_starts_nothing_after_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "command", lambda *_: pytest.fail("started"))
    assert driver.main(["--minutes", "1e-12", "--only", "table6"]) == 1
    assert "not started: table6" in capsys.readouterr().err


def test_data_goes_to_those_who_read_it(tmp_path: Path) -> None:
    given = driver.parse(["--data", str(tmp_path)])
    for part in driver.FULL:
        assert ("--data" in driver.command(part, given)) == (part.name in ("figure2", "mnist"))


def test_saved_results_name_no_paths_and_no_host() -> None:
    for path in FOLDER.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert not re.search(r"/(tmp|home|root|usr|work|Users)/", json.dumps(record)), path.name
        for machine in record["machines"]:
            expected = {"processor", "cores", "memory_gb", "system", "python", "versions"}
            assert set(machine) == expected
