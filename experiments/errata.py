"""Where our measurements agree with the paper and where they do not: sentences made from the saved cells."""

from __future__ import annotations

import numpy as np

from experiments.cells import seconds
from experiments.figure1 import curve, rounds_of
from experiments.figure2_section import chance, differences, layers_of, losses
from experiments.mnist_network import EXACT
from experiments.mnist_section import curves
from experiments.race import ALGORITHM, RESIDUAL
from experiments.results import Record
from experiments.sparsemax_layers import ABSOLUTE
from experiments.table1 import FIELDS
from experiments.table1 import READINGS as TABLE1_READINGS

Records = dict[str, Record]
Claim = tuple[bool, str]  # whether the paper is confirmed, and the sentence
GOOD = 0.999
TABLES = ("table1", "table4", "table6")
PUBLISHED = 0.996  # the smallest cosine of the paper's tables
RULE = 1e-3  # what somebody who reads the tolerance would expect of the answer


def cells_of(records: Records, experiment: str, method: str) -> list[Record]:
    """All cells of a method that have numbers."""
    cells = records.get(experiment, {"cells": {}})["cells"]
    return [cell for name, cell in cells.items() if name.split("/")[-1] == method and "total" in cell]


def errors_of(cells: list[Record]) -> list[float]:
    """The largest of x and the gradient, for each cell."""
    return [
        max(float(cell["errors"][field]) for field in FIELDS if field in cell["errors"]) for cell in cells
    ]


def recursion(records: Records) -> list[Claim]:
    """Does the Jacobian converge to the exact one?"""
    claims = []
    cosines = [cell["cosine"] for table in TABLES for cell in cells_of(records, table, RESIDUAL)]
    if cosines:
        holds = min(cosines) >= GOOD
        sentence = (
            f"The recursion {'converges' if holds else 'does not converge'} to the KKT gradient: stopped by "
            f"residuals below 1e-6, its smallest cosine in tables 1, 4 and 6 is {min(cosines):.9f}."
        )
        claims.append((holds, sentence))
    plain = [cell["cosine"] for cell in cells_of(records, "table4", ABSOLUTE)]
    if plain:
        sentence = (
            "In table 4 x is of order 1/n, and residuals are taken in units of 2/n for that; as they are, "
            f"residuals below 1e-6 leave a smallest cosine of {min(plain):.6f}."
        )
        claims.append((min(plain) >= GOOD, sentence))
    if "figure1" in records:
        counts, errors = rounds_of(records["figure1"]), curve(records["figure1"], "error")
        sentence = (
            f"Figure 1: the error of dx/db goes from {errors[0]:.1e} after {counts[0]} round to "
            f"{errors[-1]:.1e} after {counts[-1]}."
        )
        claims.append((errors[-1] < errors[0], sentence))
    return claims


def trainings(records: Records) -> list[Claim]:
    """Do the loss curves of tolerances coincide?"""
    if "figure2" not in records:
        return []
    record = records["figure2"]
    if len(layers_of(record)) < 2:
        return []
    apart = {layer: differences(record, layer) for layer in layers_of(record) if layer != EXACT}
    text = ", ".join(f"{part.mean():.2%} ({part.max():.1%}) at {layer}" for layer, part in apart.items())
    yardstick = chance(record)
    start = "Energy: mean (largest) relative differences of test losses from those of the exact layer are"
    if yardstick is None:
        return [(True, f"{start} {text}; one seed says nothing of chance.")]
    holds = max(float(part.mean()) for part in apart.values()) <= yardstick
    sentence = (
        f"{start} {text}. Two seeds of the exact layer differ by {yardstick:.2%}: measured by that, the loss "
        f"curves of the tolerances {'coincide' if holds else 'do not coincide'}."
    )
    return [(holds, sentence)]


def stopping_rule(records: Records) -> list[Claim]:
    """Is the paper's rule enough?"""
    claims = []
    errors = errors_of(cells_of(records, "table1", ALGORITHM))
    if errors:
        sentence = (
            "The paper's stopping rule at 1e-3 compares iterates, not optimality: on table 1 it leaves "
            "relative "
            f"errors of {min(errors):.2%} to {max(errors):.2%} in x or the gradient."
        )
        claims.append((max(errors) <= RULE, sentence))
    cells = records.get("truncation", {"cells": {}})["cells"]
    at_rule = [cell for name, cell in cells.items() if name.endswith("algorithm1@1e-03")]
    if at_rule:
        worst = max(at_rule, key=lambda cell: float(cell["gradient_error"]))
        x, gradient = float(worst["x_error"]), float(worst["gradient_error"])
        sentence = (
            "A small error of x does not mean a small one of the gradient: in the study of truncation, at "
            "1e-3, x is "
            f"off by {x:.1%} and the gradient by {gradient:.0%} (erratum 5 of the mathematics says why)."
        )
        claims.append((gradient <= 2.0 * x, sentence))
    return claims


def early_cosines(records: Records) -> list[Claim]:
    """The paper reports cosines of 0.996 to 0.999 at its own stopping rule."""
    least = {
        table: min(cell["cosine"] for cell in found)
        for table in TABLES
        if (found := cells_of(records, table, ALGORITHM))
    }
    if not least:
        return []
    text = ", ".join(f"{value:.4f} on {table}" for table, value in least.items())
    sentence = f"The paper's cosines, {PUBLISHED} and more at its stop: our smallest are {text}."
    return [(min(least.values()) >= PUBLISHED, sentence)]


def optnet(records: Records) -> list[Claim]:
    """The paper has OptNet slower than Alt-Diff at every size; what the qpth of today does."""
    cells = records.get("table1", {"cells": {}})["cells"]
    parts, slower = [], []
    for name, theirs in cells.items():
        row, _, method = name.rpartition("/")
        paper = cells.get(f"{row}/{ALGORITHM}")
        if method == "qpth" and "total" in theirs and paper is not None and "total" in paper:
            times = [cell["total"]["median"] for cell in (theirs, paper)]
            errors = errors_of([theirs, paper])
            slower.append(times[0] > times[1])
            parts.append(
                f"{row}: qpth {seconds(times[0])} s with error {errors[0]:.0e}, "
                f"Algorithm 1 {seconds(times[1])} s with {errors[1]:.0e}"
            )
    claim = "The paper has OptNet slower than Alt-Diff at every size of table 1."
    return [(all(slower), f"{claim} With today's qpth, {'; '.join(parts)}.")] if parts else []


def claims_of(records: Records) -> list[Claim]:
    """All that the saved cells can judge."""
    return [
        part
        for judge in (recursion, trainings, stopping_rule, early_cosines, optnet)
        for part in judge(records)
    ]


def confirmed(records: Records) -> list[str]:
    """Claims that hold on our numbers."""
    return [sentence for holds, sentence in claims_of(records) if holds]


def corrected(records: Records) -> list[str]:
    """Claims that do not, with the evidence."""
    readings = (
        "Table 1's caption gives inequalities before equalities, the authors' code takes them the other way "
        f"round; both readings are measured ({', '.join(TABLE1_READINGS)})."
    )
    text = (
        "What is wrong in the paper's text, such as the sign of a slack that is zero and the KKT matrix of "
        "its appendix, is listed in the documentation's mathematics, each with a test that fails on the "
        "paper's wording."
    )
    return [readings, text, *(sentence for holds, sentence in claims_of(records) if not holds)]


def effect_on_training(records: Records) -> list[str]:
    """What a truncated layer does to what is learnt: the last numbers of both trainings."""
    sentences = []
    if "figure2" in records:
        record = records["figure2"]
        last = {layer: float(losses(record, layer, "test")[:, -1].mean()) for layer in layers_of(record)}
        text = ", ".join(f"{value:.2f} ({layer})" for layer, value in last.items())
        sentences.append(f"Training, energy: final test losses by layer are {text}.")
    found = curves(records["mnist"]) if "mnist" in records else {}
    if found:
        epochs = min(len(history) for seeds in found.values() for history in seeds.values())
        means = {
            layer: 100.0 * float(np.mean([history[epochs - 1]["accuracy"] for history in seeds.values()]))
            for layer, seeds in found.items()
        }
        text = ", ".join(f"{value:.2f} % ({layer})" for layer, value in means.items())
        sentences.append(f"Training, digits: accuracies after {epochs} epochs by layer are {text}.")
    if sentences:
        sentences.append(
            "That is how much of the gradient's error reaches what is learnt; the exact layer asks for no "
            "tolerance at all."
        )
    return sentences
