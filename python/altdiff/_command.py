"""`python -m altdiff solve FILE`: the options, and the exit status."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from altdiff._readers import read_qp
from altdiff._report import ENDINGS, summary, write_solution
from altdiff._solve import solve_qp
from altdiff._status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from altdiff._readers import QuadraticProgram
    from altdiff._solution import Solution

SOLVED, NOT_SOLVED, MISUSED = 0, 1, 2  # exit statuses; argparse, too, exits with 2

_DESCRIPTION = """Solves the quadratic program in FILE (.npz, .mat, .qps, .mps, .qps.gz, .mps.gz), and prints
a summary. The exit status is 0 if it was solved, 1 if not, 2 if the file or an option is wrong."""


def add_solve(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `solve` and its options, which have the names and defaults of the settings."""
    parser = subcommands.add_parser("solve", help="solve the problem in a file", description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", type=Path, help="the problem")
    parser.add_argument("--output", type=_output, metavar="OUT", help="write the solution as .npz or .json")
    parser.add_argument("--tolerance", type=float, help="bound on residuals and gap")
    parser.add_argument("--method", help='"auto" or the name of an engine')
    parser.add_argument("--max-iterations", type=int, metavar="N", help="rounds of the engine")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    parser.add_argument("--threads", type=int, metavar="N", dest="num_threads", help="number of threads")
    parser.add_argument(
        "--verbose", action="store_true", default=None, help="let the engine tell what it does"
    )
    parser.set_defaults(run=_run)


def _output(text: str) -> Path:
    # Looked at before the solve: a long one must not end in a file that cannot be written.
    path = Path(text)
    if path.suffix not in ENDINGS:
        raise argparse.ArgumentTypeError(f"{text!r} must end in {' or '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}")
    return path


def _run(arguments: argparse.Namespace) -> int:
    names = ("tolerance", "method", "max_iterations", "time_limit", "num_threads", "verbose")
    settings = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    try:
        program, solution, seconds = _solved(arguments.file, settings)
        print(summary(program, solution, seconds))
        if arguments.output is not None:
            write_solution(arguments.output, program, solution, seconds)
            print(f"written      {arguments.output}")
    except (ValueError, TypeError, ImportError, OSError) as error:
        print(f"altdiff: {error}", file=sys.stderr)
        return MISUSED
    return SOLVED if solution.status == Status.SOLVED else NOT_SOLVED


def _solved(file: Path, settings: dict[str, Any]) -> tuple[QuadraticProgram, Solution, float]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = read_qp(file)
    for warning in caught:
        print(f"note: {warning.message}", file=sys.stderr)
    start = time.perf_counter()
    solution = solve_qp(**program.fields(), **settings)
    return program, solution, time.perf_counter() - start


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of `python -m altdiff`; `run` is there when a subcommand is."""
    parser = argparse.ArgumentParser(
        prog="python -m altdiff", description="Without a command: what is installed."
    )
    add_solve(parser.add_subparsers(metavar="COMMAND"))
    return parser.parse_args(arguments)
