"""The same report as Markdown, with its figures as files beside it."""

from __future__ import annotations

from pathlib import Path

from experiments.document import Document, Draw
from experiments.html_report import figure_svg


def plain_cell(text: str) -> str:
    """A bar would end the cell."""
    return text.replace("|", "\\|")


def plain_text(text: str) -> str:
    """What Markdown or HTML would take for markup."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|")


class MarkdownPage(Document):
    """Collects blocks in reading order."""

    def __init__(self, title: str, lead: str, figures: str) -> None:
        self.blocks = [f"# {title}", plain_text(lead)]
        self.prefix = figures  # of the names of figure files, relative to the page
        self.svgs: dict[str, str] = {}

    def heading(self, text: str) -> None:
        """Starts a section."""
        self.blocks.append(f"## {text}")

    def paragraph(self, text: str) -> None:
        """Plain text."""
        if text:
            self.blocks.append(plain_text(text))

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        """The first column to the left, the others to the right."""
        rule = "|".join(["---", *["---:"] * (len(header) - 1)])
        lines = [" | ".join(map(plain_cell, row)) for row in [header, *rows]]
        self.blocks.append(
            "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])
        )

    def facts(self, pairs: list[tuple[str, str]]) -> None:
        """Names and values, both to the left."""
        lines = [f"| {plain_cell(name)} | {plain_cell(value)} |" for name, value in pairs]
        self.blocks.append("\n".join(["| | |", "|---|---|", *lines]))

    def figure(self, draw: Draw, height: float, caption: str) -> None:
        """As a file, which `write` saves."""
        name = f"{self.prefix}{len(self.svgs) + 1}.svg"
        self.svgs[name] = figure_svg(draw, height)
        self.blocks.append(f"![{caption}]({name})")
        self.blocks.append(f"*{caption}*")

    def text(self) -> str:
        """The page."""
        return "\n\n".join(self.blocks) + "\n"

    def write(self, path: Path) -> None:
        """Saves the page and its figures; figures of earlier reports that are no longer used are deleted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(), encoding="utf-8")
        folder, stem = (path.parent / self.prefix).parent, Path(self.prefix).name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{stem}*.svg"):
            old.unlink()
        for name, svg in self.svgs.items():
            (path.parent / name).write_text(svg, encoding="utf-8")
