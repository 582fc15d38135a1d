"""Answers do not depend on company: alone, in batches, shared or broadcast arrays, sparse, in torch."""

from __future__ import annotations

from collections.abc import Callable

import altdiff
import numpy as np
import pytest
import scipy.sparse as sp
from altdiff import Status
from helpers.company import Answer, of_numpy, ways
from helpers.problems import POINT, Array, Data, known_problem, natural_problem

X, DERIVATIVE = 1e-9, 1e-8  # how close answers must be, where x is unique; and gradients, everywhere
Rng = np.random.Generator


def definite(rng: Rng) -> Data:
    return known_problem(int(rng.integers(1000)), 5, 6, 2).data


def natural(rng: Rng) -> Data:
    return natural_problem(int(rng.integers(1000)), 4, 6, 1)


def larger(rng: Rng) -> Data:
    return known_problem(int(rng.integers(1000)), 20, 15, 4).data


def without_bounds(rng: Rng) -> Data:
    return known_problem(int(rng.integers(1000)), 4, 5, 0, bounds=False).data


def vertex(rng: Rng) -> Data:
    data = natural(rng)
    return {**data, "P": 0.0 * data["P"]}


def face(rng: Rng) -> Data:
    """A row parallel to the level sets: its whole edge is optimal."""
    data = vertex(rng)
    wide = {"lb": data["lb"] - 2, "ub": data["ub"] + 2}
    return {**data, **wide, "q": -data["G"][0]}


def singular(rng: Rng) -> Data:
    data = natural(rng)
    root = rng.normal(size=(4, 2))
    return {**data, "P": root @ root.T}


def zero_row(rng: Rng) -> Data:
    data = natural(rng)
    data["G"][2], data["h"][2] = 0.0, 1.0
    return data


def zero_row_singular(rng: Rng) -> Data:
    """Two variables, one of them without curvature, and a row that says nothing."""
    P = np.diag([1.0, 0.0])
    G = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, -1.0]])
    return {"P": P, "q": rng.normal(size=2) - [0.0, 3.0], "G": G, "h": np.array([1.0, 2.0, 3.0])}


def zero_row_nonconvex(rng: Rng) -> Data:
    G = np.array([[0.0], [1.0], [-1.0]])
    return {"P": -np.ones((1, 1)), "q": np.zeros(1), "G": G, "h": rng.uniform(1.0, 5.0, size=3)}


def zero_row_at_its_limit(rng: Rng) -> Data:
    P, G, lb = np.full((1, 1), 4.0), np.zeros((1, 1)), np.full(1, -2.0)
    return {"P": P, "q": rng.normal(size=1), "G": G, "h": np.zeros(1), "lb": lb}


def nothing_at_all(rng: Rng) -> Data:
    return {
        "P": np.zeros((1, 1)),
        "q": np.zeros(1),
        "G": np.zeros((1, 1)),
        "h": rng.uniform(1.0, 2.0, size=1),
    }


def zero_rows_of_both(rng: Rng) -> Data:
    G = np.array([[1.0, -2.0], [0.0, 2.0], [-1.0, 2.0], [0.0, 0.0], [2.0, -3.0]])
    q, h = np.array([-17.0, -8.0]) + 0.1 * rng.normal(size=2), np.array([5.0, 1.0, -3.0, 3.0, 9.0])
    P = np.array([[8.0, 4.0], [4.0, 4.0]])
    return {"P": P, "q": q, "G": G, "h": h, "A": np.zeros((1, 2)), "b": np.zeros(1)}


def implied(rng: Rng) -> Data:
    """A row that touches because an equality says so."""
    one = np.ones((1, 1))
    return {"P": one, "q": rng.normal(size=1), "G": one, "h": 3 * np.ones(1), "A": one, "b": 3 * np.ones(1)}


def scaled_face(rng: Rng) -> Data:
    """An objective of 1e12, and P singular along an edge."""
    data = face(rng)
    root = data["G"][0][:, None] * 2.0**20
    return {**data, "P": root @ root.T, "q": -(root @ root.T) @ (data["lb"] / 2 + data["ub"] / 2)}


def redundant(rng: Rng) -> Data:
    data = definite(rng)
    active = int(np.argmax(of_numpy(data, zeros(data)).point["z"]))
    data["G"][-1], data["h"][-1] = 2 * data["G"][active], 2 * data["h"][active]
    return data


def zero_equality(rng: Rng) -> Data:
    data = definite(rng)
    data["A"][1], data["b"][1] = 0.0, 0.0
    return data


def fixed(rng: Rng) -> Data:
    data = natural(rng)
    data["lb"][1] = data["ub"][1] = (data["lb"][1] + data["ub"][1]) / 2
    return data


def small_curvature(rng: Rng) -> Data:
    """Strictly active bounds and hardly any P: nothing may leak."""
    n = 3
    z_box = rng.choice([-1.0, 1.0], size=n) * rng.uniform(0.5, 2.0, size=n)
    return {"P": 1e-12 * np.eye(n), "q": -z_box, "lb": -np.ones(n), "ub": np.ones(n)}


def infeasible(rng: Rng) -> Data:
    data = natural(rng)
    data["G"][1], data["h"][1] = -data["G"][0], -data["h"][0] - 1.0
    return data


def unbounded(rng: Rng) -> Data:
    data = natural(rng)
    free = {"lb": np.full(4, -np.inf), "ub": np.where([False, True, True, True], np.inf, data["ub"])}
    return {"P": np.zeros((4, 4)), "q": -np.abs(rng.normal(size=4)), **free}


KINDS: list[Callable[[Rng], Data]] = [
    definite, natural, larger, without_bounds, vertex, face, singular, zero_row, zero_row_singular,
    zero_row_nonconvex, zero_row_at_its_limit, nothing_at_all, zero_rows_of_both, implied, scaled_face,
    redundant, zero_equality, fixed, small_curvature, infeasible, unbounded,
]  # fmt: skip


def sizes(data: Data) -> dict[str, int]:
    n = data["q"].size
    return {"x": n, "y": len(data.get("b", [])), "z": len(data.get("h", [])), "z_box": n}


def zeros(data: Data) -> dict[str, Array]:
    return {name: np.zeros(size) for name, size in sizes(data).items()}


def cotangents(rng: Rng, data: Data) -> dict[str, Array]:
    """Of x alone where multipliers are not unique."""
    degenerate = of_numpy(data, zeros(data)).degenerate
    return {
        name: rng.normal(size=size) * float(name == "x" or not degenerate)
        for name, size in sizes(data).items()
    }


def differences(data: Data, alone: Answer, other: Answer, in_csc: bool) -> list[str]:
    """What is not the same."""
    if other.status != alone.status:
        return [f"{Status(other.status).name} instead of {Status(alone.status).name}"]
    if alone.status != Status.SOLVED:
        return []
    found = [
        f"{name} = {getattr(other, name)} instead of {getattr(alone, name)}"
        for name in ("unique", "degenerate")
        if getattr(other, name) != getattr(alone, name)
    ]
    parts = POINT if alone.unique and not alone.degenerate else ("x",) if alone.unique else ()
    found += [
        f"{name} differs by {error:.1e}"
        for name in parts
        if not (error := relative(other.point[name], alone.point[name])) <= X
    ]
    for name, gradient in alone.gradient.items():
        stored = data[name] != 0 if in_csc and name in ("P", "G", "A") else True
        error = relative(other.gradient[name], gradient * stored)
        if not error <= DERIVATIVE:
            found.append(f"the gradient of {name} differs by {error:.1e}")
    return found


def relative(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max(initial=0.0)) / max(1.0, float(np.abs(b).max(initial=0.0)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.replace("_", " "))
@pytest.mark.parametrize("seed", range(3))
def test_an_answer_does_not_depend_on_company(kind: Callable[[Rng], Data], seed: int) -> None:
    rng = np.random.default_rng(seed)
    data, other = kind(rng), kind(rng)
    bars = cotangents(rng, data)
    alone = of_numpy(data, bars)
    found = [
        f"{way}: {difference}"
        for way, answer in ways(data, other, bars)
        for difference in differences(data, alone, answer, "sparse" in way)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_how_near_a_kink_is_does_not_depend_on_company_or_the_form_of_the_data(scale: float) -> None:
    # The minimiser without the limit is beyond it, or short of it, by 10^-k.
    beyond = 10.0 ** -np.arange(4.0, 14.0)
    q = -scale * (1.0 + np.stack([beyond, -beyond], axis=1).reshape(-1, 1))
    program: Data = {"P": np.array([[scale]]), "G": np.ones((1, 1)), "h": np.ones(1)}
    batch = altdiff.solve_qp(**program, q=q)
    own = altdiff.solve_qp(
        np.broadcast_to(program["P"], (len(q), 1, 1)).copy(), q, program["G"], program["h"]
    )
    for i, row in enumerate(q):
        alone = altdiff.solve_qp(**program, q=row)
        sparse = altdiff.solve_qp(**{**program, "P": sp.csc_array(program["P"]), "q": row})
        flags = {
            bool(one) for one in (alone.degenerate, sparse.degenerate, batch.degenerate[i], own.degenerate[i])
        }
        assert len(flags) == 1
        np.testing.assert_allclose(batch.x[i], alone.x, rtol=1e-12)
        np.testing.assert_allclose(own.x[i], alone.x, rtol=1e-12)
