"""Table 6: constrained softmax, an objective that is not quadratic.

python -m experiments.table6 [--methods altdiff cvxpylayers] [--quick]
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

from altdiff import Entropy

from benchmarks.peers.layers.base import Layer, LeafLayer, Tensor, leaf
from experiments.algorithm1 import Algorithm1
from experiments.cells import algorithm_rows, method_rows, theirs
from experiments.command import budget_of, ended, make_parser, results_of
from experiments.document import Document
from experiments.growth import from_sizes
from experiments.published import TABLE6, TABLE6_COSINES
from experiments.race import ALGORITHM, ALTDIFF, RESIDUAL, Contest, cosine, race, relative
from experiments.results import Record
from experiments.softmax_reference import Softmax, make_case

NAME = "table6"
SIZES = ((100, 30, 10), (300, 100, 20), (500, 200, 20), (1000, 500, 200))  # n, inequalities, equalities
QUICK = ((30, 10, 4),)
METHODS = (ALTDIFF, ALGORITHM, RESIDUAL, "cvxpylayers", "moreau")
FIELDS = ["x", "b"]
CONES: dict[str, Any] = {"solve_method": "SCS", "eps": 1e-9, "max_iters": 100_000}


class AltdiffSoftmax(LeafLayer):
    """altdiff.torch.ConvexLayer with the entropy."""

    def __init__(self, case: Softmax, threads: int) -> None:
        from altdiff.torch import ConvexLayer, Linear, Separable, builder

        names = ("y", "G", "h", "A", "b")
        super().__init__({name: leaf(getattr(case, name)) for name in names}, case.x_bar, threads)
        self.layer = ConvexLayer(builder(lambda y: Linear(-y) + Separable("entropy")), num_threads=threads)

    def solve(self) -> Tensor:
        """One instance."""
        y, G, h, A, b = self.leaves.values()
        x: Tensor = self.layer(y, G=G, h=h, A=A, b=b)
        return x


class CvxpySoftmax(LeafLayer):
    """cvxpylayers with exponential cones, one a variable: by diffcp, or by Moreau."""

    def __init__(self, case: Softmax, threads: int, method: str) -> None:
        cvxpy: Any = importlib.import_module("cvxpy")
        library: Any = importlib.import_module("cvxpylayers.torch")
        names = ("y", "G", "h", "A", "b")
        super().__init__({name: leaf(getattr(case, name)) for name in names}, case.x_bar, threads)
        x = cvxpy.Variable(case.y.size)
        y, G, h, A, b = (cvxpy.Parameter(getattr(case, name).shape) for name in names)
        cost = -y @ x - cvxpy.sum(cvxpy.entr(x))
        problem = cvxpy.Problem(cvxpy.Minimize(cost), [G @ x <= h, A @ x == b])
        chosen = {"solver": "MOREAU"} if method == "moreau" else {}
        self.layer = library.CvxpyLayer(problem, [y, G, h, A, b], [x], **chosen)
        self.arguments = {} if chosen else CONES

    def solve(self) -> Tensor:
        """Its call."""
        x: Tensor = self.layer(*self.leaves.values(), solver_args=self.arguments)[0]
        return x


class SoftmaxContest(Contest):
    """Softmax by every method."""

    def layer_of(self, folder: Path | None) -> Layer:
        """The folder's problem, or a tiny one."""
        case = make_case(8, 3, 2, 0) if folder is None else Softmax.load(folder)
        if self.method in (ALGORITHM, RESIDUAL):
            data = {name: getattr(case, name) for name in ("G", "h", "A", "b")}
            objective = {"objective": Entropy(case.y)}
            return Algorithm1(data | objective, case.x_bar, "b", self.method, self.tolerance or 1e-3)
        if self.method == ALTDIFF:
            return AltdiffSoftmax(case, self.threads)
        return CvxpySoftmax(case, self.threads, self.method)

    def errors(self, layer: Layer) -> dict[str, float]:
        """Of x and of the gradients, relative to their largest entries."""
        exact, found = Softmax.load(self.folder), layer.gradients()
        errors = {"x": relative(layer.solution(), exact.x), "b": relative(found["b"], exact.b_bar)}
        return errors | ({"y": relative(found["y"], exact.y_bar)} if "y" in found else {})

    def facts(self) -> Record:
        """The paper's measure."""
        exact = Softmax.load(self.folder)
        return super().facts() | {"cosine": cosine(self.ready().gradients()["b"], exact.b_bar)}


def write_case(size: tuple[int, int, int], seed: int, folder: Path) -> None:
    """As files."""
    make_case(*size, seed).save(folder)


def name_of_size(size: tuple[int, int, int]) -> str:
    """For rows and columns."""
    return "x".join(map(str, size))


def main(arguments: list[str] | None = None) -> int:
    """Measures what is missing; returns the exit status."""
    parser = make_parser(NAME, __doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    given = parser.parse_args(arguments)

    def run() -> None:
        results, budget = results_of(given, NAME), budget_of(given)
        for size in QUICK if given.quick else SIZES:
            write = partial(write_case, size, given.seed)
            smaller = [(name_of_size(other), other[0]) for other in SIZES if other[0] < size[0]]
            guess = from_sizes(results.cells, smaller, size[0])
            race(results, name_of_size(size), given.methods, SoftmaxContest, write, budget, guess)

    return ended(NAME, run)


def section(page: Document, record: Record) -> None:
    """For the report."""
    cells = record["cells"]
    sizes = [s for s in (*QUICK, *SIZES) if any(name.startswith(name_of_size(s) + "/") for name in cells)]
    rows = [name_of_size(size) for size in sizes]
    page.heading("Table 6: constrained softmax")
    page.paragraph(
        "min -y'x + sum x log x with A x = b and G x <= h: seconds and, in brackets, the largest relative "
        "error of x and of the gradient with respect to b. Columns are variables x inequalities x "
        "equalities; the paper labels its first two rows both as the number of inequalities, the first is "
        "n. Moreau is called by cvxpylayers."
    )
    table = [*method_rows(cells, rows, METHODS, FIELDS), *algorithm_rows(cells, rows)]
    if not record["quick"]:
        places = [SIZES.index(size) for size in sizes]
        table += [theirs(who, [numbers[k] for k in places]) for who, numbers in TABLE6.items()]
        table.append(theirs("cosine, Alt-Diff", [TABLE6_COSINES] * len(rows)))
    page.table(["method", *rows], table)
    page.paragraph("A round of Algorithm 1 is a Newton solve of its own here.")


if __name__ == "__main__":
    sys.exit(main())
