"""Builds one self-contained HTML page: text, tables and figures, with nothing loaded from elsewhere."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from experiments.document import Document, Draw

STYLE = """
:root { color-scheme: light; --ink: #1d2327; --soft: #5b6670; --line: #dfe3e7; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); -webkit-text-size-adjust: 100%;
       font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 42rem; margin: 0 auto; padding: 2.5rem 1.1rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.01em; margin: 0 0 .5rem; text-wrap: balance; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.75rem 0 .6rem; }
p { margin: .6rem 0; max-width: 38rem; }
.lead { color: var(--soft); font-size: 1.08rem; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1rem 1.2rem;
           margin: 1.75rem 0 0; padding: 1.1rem 0; border: solid var(--line); border-width: 1px 0; }
.numbers div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.numbers dt { color: var(--soft); font-size: .85rem; line-height: 1.35; }
.numbers dd { margin: 0; font-size: 1.35rem; line-height: 1.35; font-weight: 600;
              font-variant-numeric: tabular-nums; }
figure { margin: 1.2rem 0; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; line-height: 1.45; margin-top: .4rem; }
.scroll { overflow-x: auto; margin: 1rem 0; break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: .94rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem 0 .38rem 1.2rem; text-align: right; vertical-align: baseline; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td:not(:first-child) { min-width: 6rem; } /* a wide table scrolls instead of breaking every word */
td:first-child { min-width: 7.5rem; }
th { font-weight: 600; font-size: .85rem; line-height: 1.3; vertical-align: bottom;
     border-bottom: 1px solid var(--ink); }
td { border-bottom: 1px solid var(--line); }
table.facts td { text-align: left; }
table.facts td:first-child { color: var(--soft); white-space: nowrap; }
@media (max-width: 30rem) { main { padding-top: 1.5rem; } h1 { font-size: 1.5rem; } }
@media print { @page { margin: 16mm; } html { font-size: 80%; } main { max-width: 15cm; padding: 0; }
               h2 { break-after: avoid; } p { break-inside: avoid; } .scroll { overflow: visible; }
               figure svg { max-width: 11.5cm; } }
"""

FIGURE_STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",  # text stays text, in the page's own font
    "svg.hashsalt": "altdiff",  # same figure, same bytes
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a949c",
    "axes.labelcolor": "#1d2327",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ec",
    "grid.linewidth": 0.7,
    "xtick.color": "#5b6670",
    "ytick.color": "#5b6670",
    "legend.frameon": False,
}
FIGURE_WIDTH = 5.2  # inches: narrow, so that its text is still legible on a phone


def figure_svg(draw: Draw, height: float) -> str:
    """A drawing as an SVG file: the same drawing gives the same bytes."""
    buffer = io.StringIO()
    with matplotlib.rc_context(FIGURE_STYLE):
        figure = Figure(figsize=(FIGURE_WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def inline_svg(draw: Draw, height: float, name: str) -> str:
    """A drawing as an <svg> element whose ids start with `name`, so that two drawings never share one."""
    svg = figure_svg(draw, height)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # HTML knows the namespaces of svg
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)  # the page sets the size
    svg = re.sub(r'font-family: [^;"]*', "font-family: inherit", svg)
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)


class Page(Document):
    """Collects blocks in reading order; everything given as text is escaped."""

    def __init__(self, title: str, lead: str) -> None:
        self.title = title
        self.blocks = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(lead)}</p>']
        self.figures = 0

    def heading(self, text: str) -> None:
        """Starts a section."""
        self.blocks.append(f"<h2>{escape(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """Plain text."""
        if text:
            self.blocks.append(f"<p>{escape(text)}</p>")

    def numbers(self, pairs: list[tuple[str, str]]) -> None:
        """The few numbers to take away: (what it is, its value)."""
        items = "".join(
            f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>" for what, value in pairs
        )
        self.blocks.append(f'<dl class="numbers">{items}</dl>')

    def table(self, header: list[str], rows: list[list[str]]) -> None:
        """The first column to the left, the others to the right."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
        self.blocks.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{table_body(rows)}</tbody></table></div>"
        )

    def facts(self, pairs: list[tuple[str, str]]) -> None:
        """Names and values, both to the left."""
        body = table_body([list(pair) for pair in pairs])
        self.blocks.append(f'<div class="scroll"><table class="facts"><tbody>{body}</tbody></table></div>')

    def figure(self, draw: Draw, height: float, caption: str) -> None:
        """A drawing of `height` inches, made by `draw` on the axes that it is given."""
        self.figures += 1
        svg = inline_svg(draw, height, f"figure{self.figures}")
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1)
        self.blocks.append(f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>")

    def html(self) -> str:
        """The page as text."""
        body = "\n".join(self.blocks)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n"
            f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> None:
        """Saves the page; folders are made as needed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")


def table_body(rows: list[list[str]]) -> str:
    """Rows of escaped cells."""
    return "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
