"""Section 5.3: digits through a QP layer with 200 variables, 50 inequalities and 50 equalities.

    python -m experiments.mnist --epochs 30 [--layers exact 1e-3] [--seeds 0 1 2] [--data FOLDER] [--quick]

Without MNIST's files (option --data, variable ALTDIFF_DATA, or ../shared/data) it runs on scikit-learn's
digits. Every epoch is saved; the training goes on at its last checkpoint.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch

from experiments.command import budget_of, ended, make_parser, positive_integer, results_of
from experiments.digit_images import Digits, load_digits, small_digits
from experiments.mnist_network import EXACT, PAPER, SMALL
from experiments.mnist_peers import BATCHES, METHODS, DigitContest, write_case
from experiments.mnist_section import section
from experiments.mnist_training import BATCH, State, Training, time_steps, train
from experiments.race import race

NAME = "mnist"
LAYERS = (EXACT, "1e-1", "1e-2", "1e-3")
QUICK_PICTURES = 512
TIMED_STEPS = 40
__all__ = ["NAME", "main", "section"]


def main(arguments: list[str] | None = None) -> int:
    """Trains and measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    add = parser.add_argument
    add("--data", type=Path, metavar="FOLDER", help="with MNIST's four files")
    add("--epochs", type=positive_integer, help="default 3, quick 2")
    add("--seeds", type=int, nargs="+", help="default 0 1 2, quick 0")
    add("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    add("--methods", nargs="*", choices=METHODS, default=list(METHODS), help="whose steps are timed")
    add("--checkpoints", type=Path, default=Path("out/checkpoints"), metavar="FOLDER")
    given = parser.parse_args(arguments)

    def run() -> None:
        torch.set_num_threads(given.threads)
        results, budget = results_of(given, NAME), budget_of(given)
        digits, size = (small_digits(), SMALL) if given.quick else (load_digits(given.data), PAPER)
        if given.quick:
            digits = Digits(digits.train.first(QUICK_PICTURES), digits.test, digits.source)
        results.say(
            source=digits.source,
            train=len(digits.train),
            test=len(digits.test),
            batch=BATCH,
            size=size,
            steps=-(-len(digits.train) // BATCH),
        )
        some = digits.train.first(BATCHES * BATCH)
        few = Digits(some, digits.test.first(1), digits.source)  # travels to a process
        race(results, "step", given.methods, DigitContest, partial(write_case, size, few, given.seed), budget)
        exact = Training(EXACT, given.seed, size, digits)
        count = 5 if given.quick else TIMED_STEPS
        results.run("parts", lambda: time_steps(exact, State.start(exact), count))
        for seed in given.seeds or ([0] if given.quick else [0, 1, 2]):
            for layer in given.layers:
                epochs = given.epochs or (2 if given.quick else 3)
                train(
                    results,
                    Training(layer, seed, size, digits),
                    epochs,
                    given.checkpoints / results.path.stem,
                )

    return ended(NAME, run)


if __name__ == "__main__":
    sys.exit(main())
