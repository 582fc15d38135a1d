"""The benchmark of convex programs: its instances are solved, and its judges catch what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import altdiff
import numpy as np
import pytest
from altdiff import Linear, Separable, Status

from benchmarks.convex.cell import Contestant, altdiff_layer
from benchmarks.convex.instances import KINDS, kkt_residual, random_instance
from benchmarks.convex.trust import judge
from benchmarks.convex.workloads import Workload


@pytest.mark.parametrize("kind", KINDS)
def test_random_instances_of_every_kind_are_solved(kind: str) -> None:
    verdict = judge(kind, 25)
    assert verdict.statuses[Status.SOLVED.name] == 25, verdict.line
    assert verdict.worst < 1e-9, verdict.line


@pytest.mark.parametrize("part", ["x", "y", "z", "z_box"])
def test_the_judge_sees_an_error_in_every_part_of_a_solution(part: str) -> None:
    instance = random_instance("softplus", 7)
    assert {"A", "G", "lb", "ub"} <= set(instance.constraints)
    solution: Any = altdiff.solve_convex(instance.objective, **instance.constraints)
    assert kkt_residual(instance, solution) < 1e-9
    assert kkt_residual(instance, replace(solution, **{part: getattr(solution, part) + 1e-3})) > 1e-6


def test_a_point_outside_the_domain_is_no_solution() -> None:
    instance = random_instance("entropy", 0)
    solution: Any = altdiff.solve_convex(instance.objective, **instance.constraints)
    assert kkt_residual(instance, replace(solution, x=solution.x - 2 * solution.x.max())) == np.inf


@pytest.mark.parametrize(
    "name",
    ["softmax-30-10-3", "logistic-12-6-2", "logistic-20-10-2", "softmax-30-10-3-4", "logistic-12-6-2-3"],
)
def test_our_errors_on_the_timed_programs_are_those_of_rounding(name: str) -> None:
    cell = Contestant("altdiff", Workload.named(name)).turn(seconds=0.0)
    assert cell["x"] < 1e-13
    assert cell["gradient"] < 1e-13


def test_the_timed_softmax_is_the_built_in_objective() -> None:
    workload = Workload.named("softmax-30-10-3")
    of = workload.numbers()
    constraints: dict[str, Any] = {name: of[name] for name in ("A", "b", "G", "h")}
    solution = altdiff.solve_convex(Linear(of["q"]) + Separable("entropy"), **constraints)
    x = altdiff_layer(workload)(*of.values())
    np.testing.assert_allclose(x, solution.x, rtol=0, atol=1e-6)  # a call without tensors is in float32
