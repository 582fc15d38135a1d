"""Every example runs, at a small size, and what it prints is what it claims."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from examples.python import demand, distributed, mpc, network_block, portfolio, projection, sudoku

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path for path in (ROOT / "examples/python").glob("*.py") if path.name != "__init__.py")
NUMBER = r"-?\d+\.?\d*(?:e[+-]\d+)?"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices are slower on several threads, much slower on a machine that is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[list[float]]]:
    """Runs a script's main; the numbers of each line that it prints."""

    def run(main: Callable[[Sequence[str]], None], *arguments: str) -> list[list[float]]:
        main(arguments)
        return [[float(n) for n in re.findall(NUMBER, line)] for line in capsys.readouterr().out.splitlines()]

    return run


Printed = Callable[..., list[list[float]]]


def test_tastes_are_learnt_from_choices(printed: Printed) -> None:
    a, learnt_a, c, learnt_c, losses, error = printed(
        demand.main, "--samples", "40", "--steps", "20", "--noise", "0"
    )
    assert max(abs(x - y) for x, y in zip(a, learnt_a, strict=True)) < 0.05
    assert max(abs(x - y) for x, y in zip(c, learnt_c, strict=True)) < 0.2
    assert losses[1] < 1e-2 * losses[0]
    assert error[0] < 0.02


def test_sudoku_learns_rules_that_hold_on_other_grids(printed: Printed) -> None:
    lines = printed(sudoku.main, "--epochs", "10", "--blanks", "6")
    first, last = lines[1], lines[-1]
    assert first[-2] < 35.0
    assert last[-2] > first[-2] + 25.0


def test_there_are_288_grids_and_every_puzzle_has_one_answer() -> None:
    every = sudoku.all_grids()
    assert len(every) == 288
    puzzles = sudoku.make_puzzles(every[:20], every, blanks=9, seed=1).view(-1, 16, 4)
    given = puzzles.sum(dim=-1) > 0
    for grid, puzzle, known in zip(every[:20], puzzles, given, strict=True):
        assert (puzzle.argmax(dim=-1)[known] == grid[known]).all()
        assert ((every == grid) | ~known).all(dim=1).sum() == 1


def test_a_projection_layer_is_feasible_and_better_than_projecting_afterwards(printed: Printed) -> None:
    _, without, afterwards, layer = printed(projection.main, "--steps", "400")
    assert without[1] > 0.1
    assert afterwards[1] < 1e-9
    assert layer[1] < 1e-9
    assert layer[0] < afterwards[0] < without[0]


def test_the_controller_recovers_the_target_and_the_limit_of_the_expert(printed: Printed) -> None:
    lines = printed(mpc.main, "--horizon", "15", "--steps", "120")
    learnt, expert = lines[-2], lines[-1]
    assert learnt[1] < 1e-4
    assert learnt[2:] == pytest.approx(expert, abs=0.02)


def test_training_for_the_decision_earns_more_than_the_least_squared_error(printed: Printed) -> None:
    _, squared, decision, gain = printed(portfolio.main, "--samples", "400", "--steps", "150")
    assert squared[0] < decision[0]
    assert decision[1] > squared[1]
    assert gain[0] > 2 * gain[1]
    assert max(squared[2], decision[2]) <= 0.6


def test_training_for_the_decision_gains_nothing_where_the_predictor_is_right(printed: Printed) -> None:
    gain = printed(portfolio.main, "--samples", "400", "--steps", "50", "--rule", "linear")[-1]
    assert gain[0] < 2 * gain[1]


def test_a_program_inside_a_network_learns_and_can_be_saved(
    printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(network_block.main, "--epochs", "8", "--samples", "256")
    assert lines[1][-1] < 65.0
    assert lines[-2][-1] > 90.0
    network_block.main(["--epochs", "1", "--samples", "64"])
    assert "the same scores: True" in capsys.readouterr().out


def test_two_processes_take_the_steps_of_one() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    script = [str(ROOT / "examples/python/distributed.py"), "--samples", "16", "--steps", "10"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # gloo's threads now and then abort a process that is done, on a busy machine: then once more.
    for _ in range(3):
        result = subprocess.run(
            [*command, *script], capture_output=True, text=True, check=False, env=environment, timeout=300
        )
        if "terminate called without an active exception" not in result.stderr:
            break
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "2 processes, 8 of 16 samples each, 10 steps"
    before, after = (float(number) for number in re.findall(NUMBER, lines[1]))
    assert after < before
    assert float(re.findall(NUMBER, lines[2])[0]) < 1e-12


def test_the_distributed_example_says_how_to_start_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit):
        distributed.main([])
    assert "torchrun --standalone" in capsys.readouterr().err


def test_the_page_of_examples_shows_every_script() -> None:
    page = (ROOT / "docs/examples.md").read_text(encoding="utf-8")
    for path in SCRIPTS:
        assert f"examples/python/{path.name}" in page
