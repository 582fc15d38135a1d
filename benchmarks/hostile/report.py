"""Tables of outcomes by kind of problem, and where to look when some are bad."""

from __future__ import annotations

from collections import Counter
from statistics import median

import altdiff
import numpy as np

from benchmarks.hostile.kinds import Kind
from benchmarks.hostile.runs import CRASH, INACCURATE, NOT_FINITE, SOLVED, WRONG, Outcome
from experiments.text_table import text_table

LISTED = 20
STATUSES = [status.name for status in altdiff.Status]


def report(outcomes: list[Outcome], threshold: float) -> tuple[str, bool]:
    """The text, and whether all is well."""
    parts, good = [], True
    for batched, title in ((False, "One at a time"), (True, "In batches of equal shape")):
        part = [outcome for outcome in outcomes if outcome.batched == batched]
        if part:
            parts.append(f"{title}\n\n{table(part)}\n\n{summary(part)}\n{culprits(part)}")
            good = good and acceptable(part, threshold)
    asked = f"nothing wrong, no crash and {threshold:g} % SOLVED were asked for"
    return "\n".join([*parts, f"{'Passed' if good else 'FAILED'}: {asked}.\n"]), good


def acceptable(outcomes: list[Outcome], threshold: float) -> bool:
    """Nothing wrong, no exception, and enough of them solved."""
    bad = any(outcome.fault or outcome.status == CRASH for outcome in outcomes)
    return not bad and percentage(outcomes) >= threshold


def percentage(outcomes: list[Outcome]) -> float:
    """How many were solved."""
    return 100.0 * sum(outcome.status == SOLVED for outcome in outcomes) / len(outcomes)


def table(outcomes: list[Outcome]) -> str:
    """A row a kind. A problem is of several kinds, so that the counts add up to more than the total."""
    seen = {outcome.status for outcome in outcomes} - {SOLVED, CRASH}
    failures = [status for status in STATUSES if status in seen]
    labels = [status.lower().replace("_", " ") for status in failures]
    header = ["kind", "count", "solved", *labels, "wrong", "gradient", "crash"]
    header += ["worst residual", "ms median", "ms max", "rounds"]
    rows = []
    for kind in Kind:
        of_kind = [outcome for outcome in outcomes if kind in outcome.kinds]
        if of_kind:
            rows.append([kind.value, *cells(of_kind, failures)])
    return text_table(header, [*rows, ["total", *cells(outcomes, failures)]])


def cells(outcomes: list[Outcome], failures: list[str]) -> list[str]:
    """The numbers of one row."""
    statuses = Counter(outcome.status for outcome in outcomes)
    faults = Counter(outcome.fault for outcome in outcomes)
    counts = [len(outcomes), statuses[SOLVED], *(statuses[status] for status in failures)]
    counts += [faults[WRONG], faults[NOT_FINITE] + faults[INACCURATE], statuses[CRASH]]
    worst = np.max([outcome.residual for outcome in outcomes])  # NaN if there is any
    times = [outcome.milliseconds for outcome in outcomes]
    rounds = median(outcome.iterations for outcome in outcomes)
    return [*map(str, counts), f"{worst:.1e}", f"{median(times):.3f}", f"{max(times):.3f}", f"{rounds:.0f}"]


def summary(outcomes: list[Outcome]) -> str:
    """The line that counts."""
    faults = Counter(outcome.fault for outcome in outcomes)
    crashes = sum(outcome.status == CRASH for outcome in outcomes)
    compared = sum(outcome.compared for outcome in outcomes)
    return (
        f"{percentage(outcomes):.2f} % of {len(outcomes)} SOLVED; {faults[WRONG]} of them fail the"
        f" independent check, {faults[NOT_FINITE]} have a gradient that is not finite, {faults[INACCURATE]}"
        f" of {compared} compared have one that is inaccurate; {crashes} crashes."
    )


def culprits(outcomes: list[Outcome]) -> str:
    """The first indices of each failing class, and what the first of them has to say."""
    classes: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.fault or outcome.status != SOLVED:
            classes.setdefault(outcome.fault or outcome.status, []).append(outcome)
    lines = []
    for name, members in sorted(classes.items()):
        indices = " ".join(str(outcome.index) for outcome in members[:LISTED])
        more = f" and {len(members) - LISTED} more" if len(members) > LISTED else ""
        message = f" (the first: {members[0].message})" if members[0].message else ""
        lines.append(f"  {name}: {indices}{more}{message}")
    return "\n".join(lines) + "\n"
