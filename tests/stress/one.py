"""One tiny program: its arrays as code, what is true of it, and its answers in every way."""

from __future__ import annotations

import argparse

from altdiff import Status

from tests.stress import tiny  # noqa: F401  (it enters the structures)
from tests.stress.judge import judged
from tests.stress.programs import in_numpy
from tests.stress.structures import GROUP, NEVER, STRUCTURES, make_group
from tests.stress.truth import truth
from tests.stress.ways import WAYS, go


def main(given: argparse.Namespace) -> bool:
    """Prints all of it; False if an answer is false."""
    name, seed = given.structure, given.seed
    first = seed // GROUP * GROUP
    group = make_group(name, first)
    program = group[seed - first]
    print(f"# {name} {seed}: {STRUCTURES[name].about}")
    print(in_numpy(program))
    if STRUCTURES[name].exact != NEVER:
        print(f"# exactly: {truth(program)}")
    good = True
    for way in WAYS:
        answers = go(way, group, first)
        for k, word in enumerate(judged(answers)):
            if answers.seeds[k] == seed and (answers.own[k] or word):
                status = answers.status[k]
                label = Status(status).name if status >= 0 else "RAISED"
                whose = "" if answers.own[k] else " (vectors of another)"
                flags = f"unique={answers.unique[k]} degenerate={answers.degenerate[k]}"
                print(
                    f"# {way}{whose}: {label} {flags} x = {answers.x[k].tolist()} {word and 'FALSE: ' + word}"
                )
                good &= not word
    return good
