"""Energy generation scheduling (paper, section 5.2): predict, then optimise, trained end to end.

    python -m experiments.energy [--data FOLDER] [--quick]

Exits with 1 if the layer's gradient disagrees with central differences.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from experiments.command import positive_integer, positive_number
from experiments.energy_report import write_report
from experiments.energy_results import (
    GRADIENT_TOLERANCE,
    EnergyResult,
    epoch_rows,
    final_rows,
    gradient_rows,
    timing_rows,
    verdict,
)
from experiments.energy_run import EnergyOptions, run_experiment
from experiments.text_table import text_table


def parse_arguments(arguments: list[str] | None) -> tuple[EnergyOptions, Path]:
    """What to run, and the folder of the report."""
    parser = argparse.ArgumentParser(prog="python -m experiments.energy")
    add = parser.add_argument
    add("--data", type=Path, metavar="FOLDER", help="with the PJM load files; default: generated load")
    add("--epochs", type=positive_integer, help="default 25, quick 3")
    add("--repeats", type=positive_integer, help="trainings from different seeds; default 3, quick 1")
    add(
        "--ramp",
        type=positive_number,
        help="limit r of a demand in [0, 100]; default: binds on 85 %% of the days",
    )
    add("--seed", type=int, default=0, help="of the generated load and the first training; default 0")
    add("--out", type=Path, default=Path("out"), metavar="FOLDER", help="for report.html; default out")
    add("--quick", action="store_true", help="two years of load: seconds instead of a minute")
    given = parser.parse_args(arguments)
    options = EnergyOptions(
        data=given.data,
        years=2 if given.quick else 6,
        keep_years=2 if given.quick else None,
        epochs=given.epochs or (3 if given.quick else 25),
        repeats=given.repeats or (1 if given.quick else 3),
        ramp_limit=given.ramp,
        seed=given.seed,
    )
    return options, given.out


def print_result(result: EnergyResult) -> None:
    """The tables, the verdict and the outcome of the gradient check."""
    for header, rows in (epoch_rows(result), final_rows(result), timing_rows(result), gradient_rows(result)):
        print(text_table(header, rows), end="\n\n")
    print(verdict(result))
    outcome = "agrees with" if result.gradient_is_right else "DISAGREES with"
    print(
        f"The layer's gradient {outcome} central differences: relative error "
        f"{result.worst_gradient_error:.1e}, allowed {GRADIENT_TOLERANCE:.0e}."
    )


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for a wrong gradient, 2 for data that cannot be used."""
    options, out = parse_arguments(arguments)
    start = time.perf_counter()
    try:
        result = run_experiment(options)
    except (FileNotFoundError, ValueError) as error:
        print(f"experiments.energy: {error}", file=sys.stderr)
        return 2
    print_result(result)
    report = out / "report.html"
    write_report(result, report)
    print(f"Report: {report}    ({time.perf_counter() - start:.0f} s in all)")
    return 0 if result.gradient_is_right else 1


if __name__ == "__main__":
    torch.set_num_threads(
        1
    )  # for matrices this small a second thread brings nothing, and suffers from busy cores
    sys.exit(main())
