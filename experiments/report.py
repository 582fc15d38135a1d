"""One report of all experiments, from their saved JSON: HTML in one file, and the same as Markdown.

    python -m experiments.report [--results FOLDER] [--html FILE] [--markdown FILE]

Every number comes from the JSON. Sections of experiments that have not been run say so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from experiments import figure1, figure2, mnist, table1, table2, table4, table5, table6, truncation
from experiments.document import Document
from experiments.errata import confirmed, corrected, effect_on_training
from experiments.html_report import Page
from experiments.markdown_report import MarkdownPage
from experiments.published import MACHINE
from experiments.results import FOLDER, Record, load

ROOT = Path(__file__).resolve().parents[1]
TITLE = "The paper's experiments, reproduced and checked"
LEAD = (
    "Every table and figure of Sun et al., Alternating Differentiation for Optimization Layers (ICLR 2023): "
    "once with the paper's own Algorithm 1, its rho, start and stopping rule, once with altdiff's default, "
    "beside other libraries in the same run, accuracy next to time. Who did not finish in time is said not "
    "to have; so is, as a prediction and without being started, who took too long at the size before."
)
REPEAT = (
    "make experiments measures all of it and goes on where it was interrupted; ARGS='--data FOLDER' names a "
    "folder with MNIST's files and PJM's load, without which it takes scikit-learn's digits and a generator "
    "of loads. One alone: python -m experiments.table1 --sizes tiny small. make report makes this page from "
    "the saved results."
)
Section = Callable[[Document, Record], None]
SECTIONS: dict[str, Section] = {
    table1.NAME: table1.section,
    table2.NAME: table2.section,
    figure1.NAME: figure1.section,
    table4.NAME: table4.section,
    table5.NAME: table5.section,
    table6.NAME: table6.section,
    figure2.NAME: figure2.section,
    mnist.NAME: mnist.section,
    truncation.NAME: truncation.section,
}


def read_results(folder: Path) -> dict[str, Record]:
    """The files that are there and have cells."""
    found = {name: load(folder / f"{name}.json") for name in SECTIONS if (folder / f"{name}.json").is_file()}
    return {name: record for name, record in found.items() if record["cells"]}


def machine_facts(records: dict[str, Record]) -> list[tuple[str, str]]:
    """What each file was measured on, named once where they agree."""
    places: dict[str, list[str]] = {}
    for name, record in records.items():
        for machine in record["machines"]:
            versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
            text = (
                f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']:g} GB, "
                f"{machine['system']}, "
                f"Python {machine['python']}, {versions}"
            )
            places.setdefault(text, []).append(name)
    return [(", ".join(names), text) for text, names in places.items()]


def library_facts(records: dict[str, Record]) -> list[tuple[str, str]]:
    """The versions of the peers, as their processes told them."""
    found = {
        cell["versions"]
        for record in records.values()
        for cell in record["cells"].values()
        if "versions" in cell
    }
    return [("libraries", "; ".join(sorted(found)))] if found else []


def seed_facts(records: dict[str, Record]) -> list[tuple[str, str]]:
    """Seeds and threads."""
    return [
        (name, f"seed {record['seed']}, {record['facts'].get('threads', 1)} threads")
        for name, record in records.items()
    ]


def write_sections(page: Document, records: dict[str, Record]) -> None:
    """All that there is, and the names of what there is not."""
    quick = [name for name, record in records.items() if record["quick"]]
    if quick:
        page.paragraph(
            f"QUICK RUN: the numbers of {', '.join(quick)} come from small sizes on a busy machine. They "
            "show that the code "
            "works; they say nothing about speed."
        )
    page.heading("Where the paper is confirmed")
    for sentence in confirmed(records):
        page.paragraph(sentence)
    page.heading("Where the paper is corrected")
    for sentence in corrected(records):
        page.paragraph(sentence)
    for name, section in SECTIONS.items():
        if name in records:
            section(page, records[name])
        else:
            page.heading(name)
            page.paragraph(f"Not run yet: python -m experiments.{name}")
    for sentence in effect_on_training(records):
        page.paragraph(sentence)
    page.heading("Do it again")
    page.paragraph(REPEAT)
    page.heading("What it ran on")
    page.facts(
        [*machine_facts(records), *library_facts(records), *seed_facts(records), ("published", MACHINE)]
    )


def main(arguments: list[str] | None = None) -> int:
    """Writes both pages."""
    parser = argparse.ArgumentParser(
        "python -m experiments.report", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--results", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--html", type=Path, default=Path("out/experiments.html"), metavar="FILE")
    parser.add_argument("--markdown", type=Path, default=ROOT / "docs" / "experiments.md", metavar="FILE")
    given = parser.parse_args(arguments)
    records = read_results(given.results)
    if not records:
        print(f"experiments.report: no results in {given.results}; run an experiment first", file=sys.stderr)
        return 2
    html, markdown = Page(TITLE, LEAD), MarkdownPage(TITLE, LEAD, "figures/experiments-")
    for page in (html, markdown):
        write_sections(page, records)
    html.write(given.html)
    markdown.write(given.markdown)
    print(f"{given.html}, {given.markdown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
